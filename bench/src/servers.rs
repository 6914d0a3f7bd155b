//! Running servers with one planted limit each, drawn from a seed, and what `knee explain --pid` says of them while they
//! serve. Scored: is the cause that it accuses first the planted one, are lock, holder and what the holder does right, and
//! are healthy servers left alone.
//!
//! Each case is first measured with its limit and without. Where the limit does not hold here, the case is dropped
//! before knee sees it. `--verify` stops after that, and `--show INDEX` keeps one case running. Rules must not be tuned
//! on a seed that they are scored on.
//!
//! Limits show only where threads really run at the same time. So on a busy host, start this in a session of its own, before
//! which the scheduler lets others wait: `setsid -w sh -c 'echo -20 > /proc/self/autogroup; exec nice -n -20 bench …'`.

mod answer;
mod case;
mod case_folder;
mod interrupt;
mod language;
mod names;
mod quota;
mod rates;
mod running;
mod template;
mod truth;
mod verdict;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::report::{Figure, Limit};
use crate::{Bench, Options};
use answer::Answer;
use case::{Case, Kind, drawn_cases};
use case_folder::CaseFolder;
use language::{Language, Program};
use rates::{Rates, warm_up};
pub use running::Process;
use running::{Running, Tools};
use verdict::Verdict;

/// Servers that are drawn, unless `--drawn` says how many.
const SERVERS: usize = 45;

/// Scores what knee says of the servers of the seed.
pub fn measure(_: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let seed =
        options.seed.context("servers need a --seed, so that their score can be repeated")?;
    interrupt::catch_signals();
    let cases = wanted_cases(seed, options)?;
    let tools = Tools::build(options.unprivileged)?;
    if let Some(index) = options.show {
        let case = cases.iter().find(|case| case.index == index);
        show(case.with_context(|| format!("no case {index} can be drawn here"))?, &tools)?;
        return Ok(Vec::new());
    }
    if options.verify {
        return verify(&cases, &tools);
    }
    let verdicts = scores(&cases, &tools, options)?;
    println!("{}", verdict::csv(&verdicts));
    let verdicts: Vec<&Verdict> = verdicts.iter().map(|(_, _, verdict)| verdict).collect();
    let by = if options.unprivileged { ", without privileges" } else { "" };
    Ok(figures(&format!("servers, seed {seed}{by}"), &verdicts))
}

fn wanted_cases(seed: u64, options: &Options) -> Result<Vec<Case>> {
    let number = if options.drawn > 0 { options.drawn } else { SERVERS };
    let number = options.show.map_or(number, |index| number.max(index + 1));
    let mut cases = drawn_cases(seed, number, &Language::installed())?;
    if !options.planted.is_empty() {
        let is_wanted = |case: &Case| options.planted.iter().any(|n| case.name().contains(n));
        cases.retain(is_wanted);
    }
    Ok(cases)
}

/// What knee says of each case whose limit holds, which is also told as it comes.
fn scores<'a>(
    cases: &'a [Case],
    tools: &Tools,
    options: &Options,
) -> Result<Vec<(&'a Case, Rates, Verdict)>> {
    let knee = knee(options)?;
    let mut verdicts = Vec::new();
    for case in cases {
        eprintln!("server {}", case.name());
        let (rates, verdict) = match score(case, tools, &knee, options) {
            Ok(Some(scored)) => scored,
            Ok(None) => continue,
            Err(why) if interrupt::is_interrupted() => return Err(why),
            Err(why) => {
                eprintln!("    not measured: {why:#}");
                continue;
            }
        };
        let misses = verdict.misses();
        let misses =
            if misses.is_empty() { "right".to_string() } else { format!("WRONG: {misses}") };
        eprintln!("    {misses}; {}; {:.1} s more", verdict.accused_first, verdict.over_s);
        verdicts.push((case, rates, verdict));
    }
    Ok(verdicts)
}

fn knee(options: &Options) -> Result<PathBuf> {
    match &options.knee {
        Some(knee) => knee.canonicalize().context("looking for knee"),
        None => Ok(std::env::current_exe()?.with_file_name("knee")),
    }
}

/// Measures a case, asks knee about it and judges the answer; nothing if its limit does not hold here.
fn score(
    case: &Case,
    tools: &Tools,
    knee: &Path,
    options: &Options,
) -> Result<Option<(Rates, Verdict)>> {
    let folder = CaseFolder::new(case, options.records.as_deref())?;
    let program = Program::build(case, folder.path())?;
    let rates = Rates::measure(case, &program, tools)?;
    if !rates.show_limit(case) {
        eprintln!("    dropped: without its limit, it serves {:.2} times as much", rates.gain());
        return Ok(None);
    }
    folder.keep_truth(case, rates)?;
    let mut running = Running::start(case, &program, tools, true)?;
    warm_up(case, &mut running)?;
    let answer = Answer::ask(knee, &mut running, options.attach_seconds);
    ensure!(!interrupt::is_interrupted(), "interrupted");
    folder.keep_answer(&running)?;
    let verdict = match answer {
        Ok(answer) => Verdict::new(case, &answer, options.attach_seconds),
        Err(why) => Verdict::failed(case, &why),
    };
    Ok(Some((rates, verdict)))
}

/// Prints the rates of all cases with their limit and without.
fn verify(cases: &[Case], tools: &Tools) -> Result<Vec<Figure>> {
    let mut gains = Vec::new();
    println!("index,case,shape,threads,rate,rate_without_limit,gain,holds");
    for case in cases {
        let folder = CaseFolder::new(case, None)?;
        let measured = Program::build(case, folder.path())
            .and_then(|program| Rates::measure(case, &program, tools));
        ensure!(!interrupt::is_interrupted(), "interrupted");
        let (index, name, shape) = (case.index, case.kind_name(), case.shape.word());
        match measured {
            Ok(rates) => {
                let Rates { with_limit, without_limit } = rates;
                let (gain, holds) = (rates.gain(), rates.show_limit(case));
                println!(
                    "{index},{name},{shape},{},{with_limit:.1},{without_limit:.1},{gain:.2},{holds}",
                    case.threads
                );
                if case.kind != Kind::Healthy {
                    gains.push(holds);
                }
            }
            Err(why) => println!("{index},{name},{shape},{},,,,\"{why:#}\"", case.threads),
        }
    }
    Ok(share("servers: limits that hold here", Limit::None, gains).into_iter().collect())
}

/// Starts one case with its limit, prints the truth about it, and its rate until Ctrl-C.
fn show(case: &Case, tools: &Tools) -> Result<()> {
    let folder = CaseFolder::new(case, None)?;
    let program = Program::build(case, folder.path())?;
    let mut running = Running::start(case, &program, tools, true)?;
    println!("{}", serde_json::to_string_pretty(case)?);
    println!("{}\npid {}, sources in {}", case.name(), running.id(), folder.path().display());
    warm_up(case, &mut running)?;
    while !interrupt::is_interrupted() {
        match running.rate(Duration::from_secs(2)) {
            Ok(rate) => println!("{rate:.1} requests/s"),
            Err(_) if interrupt::is_interrupted() => break,
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

fn figures(servers: &str, verdicts: &[&Verdict]) -> Vec<Figure> {
    let judged = |name: &str, limit, of: &dyn Fn(&Verdict) -> Option<bool>| {
        let values = verdicts.iter().filter_map(|verdict| of(verdict)).collect();
        share(&format!("{servers}: {name}"), limit, values)
    };
    let seconds: Vec<f64> =
        verdicts.iter().map(|verdict| verdict.over_s).filter(|over_s| over_s.is_finite()).collect();
    let time = Figure {
        name: format!("{servers}: time to the answer, beyond the time looked at"),
        unit: "s",
        limit: Limit::AtMost(5.0),
        values: seconds,
    };
    let figures = [
        judged("first cause right", Limit::AtLeast(0.9), &|v| v.first_right),
        judged("lock, holder and reason right", Limit::AtLeast(0.9), &Verdict::lock_right),
        judged("name right", Limit::None, &|v| v.name_right),
        judged("holder right", Limit::None, &|v| v.holder_right),
        judged("reason right", Limit::None, &|v| v.reason_right),
        judged("healthy servers accused", Limit::AtMost(0.0), &|v| v.accused),
        judged("no answer", Limit::AtMost(0.0), &|v| Some(v.failure.is_some())),
    ];
    let time = (!time.values.is_empty()).then_some(time);
    figures.into_iter().flatten().chain(time).collect()
}

/// How many are true, with what chance leaves around that share.
fn share(name: &str, limit: Limit, values: Vec<bool>) -> Option<Figure> {
    let (count, number) = (values.iter().filter(|value| **value).count(), values.len());
    let (low, high) = wilson(count as f64, number as f64);
    let name = format!("{name} ({count} of {number}, 95 %: {low:.2} to {high:.2})");
    let values = vec![count as f64 / number as f64];
    (number > 0).then_some(Figure { name, unit: "", limit, values })
}

/// The interval of a share that holds in 95 of 100 samples: E. B. Wilson, "Probable Inference, the Law of Succession, and
/// Statistical Inference" (1927).
fn wilson(count: f64, number: f64) -> (f64, f64) {
    let z = 1.96;
    let share = count / number;
    let middle = share + z * z / (2.0 * number);
    let aside = z * (share * (1.0 - share) / number + z * z / (4.0 * number * number)).sqrt();
    let scale = 1.0 + z * z / number;
    ((middle - aside) / scale, (middle + aside) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(case: &Case, causes: serde_json::Value) -> Verdict {
        let answer: Answer = serde_json::from_value(json!({ "causes": causes })).unwrap();
        Verdict::new(case, &answer, 10.0)
    }

    fn drawn(kind: Kind, language: Language) -> Case {
        let cases = drawn_cases(7, 300, &[language]).unwrap();
        cases.into_iter().find(|case| case.kind == kind).unwrap()
    }

    #[test]
    fn a_right_answer_is_right_in_all_and_a_wrong_reason_is_seen() {
        let case = drawn(Kind::Mutex, Language::Rust);
        let held_in = format!("server::{}", case.truth.holders[1]);
        let name = case.truth.names.first().cloned();
        let lock = |reason: &str| {
            json!([{ "cause": "lock", "name": name, "share": 0.8, "held_in": [held_in],
                     "holder": [{ "reason": "sleeping", "share": 0.1 }, { "reason": reason, "share": 0.9 }] }])
        };
        let right = judged(&case, lock("running"));
        assert_eq!((right.first_right, right.lock_right()), (Some(true), Some(true)));
        let wrong = judged(&case, lock("preempted"));
        assert_eq!((wrong.holder_right, wrong.lock_right()), (Some(true), Some(false)));
        assert_eq!(judged(&case, json!([])).first_right, Some(false));
    }

    #[test]
    fn the_lock_may_stand_below_a_cause_that_is_as_right() {
        let case = drawn(Kind::Preempted, Language::C);
        let holder = json!([{ "reason": "preempted", "share": 0.6 }]);
        let held_in = [case.truth.holders[0].clone()];
        let lock = json!({ "cause": "lock", "name": case.truth.names.first(), "held_in": held_in, "holder": holder });
        let verdict = judged(&case, json!([{ "cause": "other_programs" }, lock]));
        assert_eq!((verdict.first_right, verdict.lock_right()), (Some(true), Some(true)));
    }

    #[test]
    fn other_programs_are_no_accusation_of_a_healthy_server() {
        let case = drawn(Kind::Healthy, Language::Go);
        let accused = |cause: &str| judged(&case, json!([{ "cause": cause }])).accused;
        assert_eq!((accused("other_programs"), accused("lock")), (Some(false), Some(true)));
    }

    #[test]
    fn a_seed_draws_the_same_programs_again_and_all_templates_are_filled() {
        for language in Language::ALL {
            let [one, again] = [0, 1].map(|_| drawn_cases(11, 120, &[language]).unwrap());
            for (one, again) in one.iter().zip(&again) {
                let text = language::source_text(one).unwrap();
                assert_eq!(text, language::source_text(again).unwrap());
                assert!(!text.contains("@if") && !text.contains("_work@"), "{}", one.name());
            }
        }
    }
}
