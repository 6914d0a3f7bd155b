//! Whether a verdict survives small changes of the load: what a record of such changes says.

use std::collections::BTreeMap;

use laws::{
    Change, ChangedLoad, Estimate, Fragility, FragilityAnswer, Modes, Situation, Zone, fragility,
};
use records::{Better, Opened, Point, Run};
use serde::Serialize;
use text::Style;
use text::prose::{counted, wrapped};
use text::quantity::{duration_ns, short, signed};
use text::table::{Align, Table};

use crate::curve_table::RATE;

/// What a record of changed loads says.
#[derive(Debug, Serialize)]
pub struct FragileReport {
    pub workload: String,
    /// The baseline and the other side.
    pub variants: [String; 2],
    pub cpus: u32,
    pub tasks: u32,
    pub metric: String,
    /// The smallest difference that counts, as a share.
    pub smallest_effect: f64,
    /// Whether blocks are boots of a virtual machine.
    pub in_guests: bool,
    pub fragility: Fragility,
}

/// What the record of `knee fragile` says.
///
/// # Errors
/// Says what the record lacks.
pub fn fragile(opened: &Opened) -> Result<FragileReport, String> {
    let record = &opened.record;
    let [a, b] = &record.variants[..] else {
        return Err(format!("{} has {} variants, not two", record.id, record.variants.len()));
    };
    if !record.experiment.perturbed {
        return Err(format!(
            "{} has no changed loads: knee fragile measures them around its verdict",
            record.id
        ));
    }
    let mut cells: BTreeMap<u32, [Option<usize>; 2]> = BTreeMap::new();
    for (index, point) in record.points.iter().enumerate() {
        let side = usize::from(point.variant == b.name);
        cells.entry(point.cell.unwrap_or(0)).or_default()[side] = Some(index);
    }
    let both: Vec<[usize; 2]> = cells.into_values().filter_map(|[a, b]| Some([a?, b?])).collect();
    let [here, around @ ..] = &both[..] else { return Err(format!("{} is empty", record.id)) };
    let at = &record.points[here[0]];
    let metric = record.deciding(at);
    let better = crate::known_metric(&metric).map_or(Better::Higher, |metric| metric.better);
    let operation_ns = operation_ns(opened, here[0], at);
    let situation = |cell: &[usize; 2]| {
        let point = &record.points[cell[0]];
        Situation {
            name: changed(at, point, operation_ns),
            change: change(at, point),
            load: load(at, point),
            pairs: pairs(opened, cell, &metric, better),
        }
    };
    let smallest_effect = record.experiment.compare.smallest_effect;
    let around: Vec<Situation> = around.iter().map(situation).collect();
    Ok(FragileReport {
        workload: at.workload.clone(),
        variants: [a.name.clone(), b.name.clone()],
        cpus: at.cpus,
        tasks: at.tasks,
        in_guests: record.guest(&a.name).is_some() && record.guest(&b.name).is_some(),
        fragility: fragility(&situation(here), &around, smallest_effect)?,
        metric,
        smallest_effect,
    })
}

/// The time of one operation of one task, by the runs at a point.
fn operation_ns(opened: &Opened, index: usize, point: &Point) -> Option<f64> {
    let rates: Vec<f64> = opened.runs_of(index).filter_map(|run| run.value(RATE)).collect();
    let rate = analysis::Spread::from_values(&rates)?.median;
    Some(1e9 * f64::from(point.tasks.min(point.cpus)) / rate).filter(|ns| ns.is_finite())
}

/// Values of both sides in each block that has both, so that more is better.
fn pairs(opened: &Opened, cell: &[usize; 2], metric: &str, better: Better) -> Vec<(f64, f64)> {
    let by_block = |index: usize| -> BTreeMap<u32, Vec<f64>> {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let runs = opened.runs_of(index).filter(|run: &&Run| !run.placebo);
        for (block, value) in runs.filter_map(|run| Some((run.block, run.value(metric)?))) {
            blocks.entry(block).or_default().push(value);
        }
        blocks
    };
    let [a, b] = cell.map(by_block);
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let of_block = |(block, a): (&u32, &Vec<f64>)| {
        let (a, b) = (mean(a), mean(b.get(block)?));
        Some(if better == Better::Lower { (1.0 / a, 1.0 / b) } else { (a, b) })
    };
    a.iter().filter_map(of_block).collect()
}

/// The logarithm of the tasks over those at the operating point, if nothing else differs.
fn load(at: &Point, point: &Point) -> Option<f64> {
    let is_same = at.parameters == point.parameters && at.placement == point.placement;
    is_same.then(|| (f64::from(point.tasks) / f64::from(at.tasks)).ln())
}

/// The kind of a point's change.
fn change(at: &Point, point: &Point) -> Change {
    let differs = |name: &str| at.parameters.get(name) != point.parameters.get(name);
    if point.placement != at.placement {
        return Change::Placement;
    }
    match point.tasks {
        tasks if tasks != at.tasks => Change::Tasks,
        _ if differs("hold_ns") => Change::Inside,
        _ if differs("idle_ns") => Change::Outside,
        _ => Change::Tasks,
    }
}

/// How a point's load differs: "one task more", "12 ns more inside (1 %)".
fn changed(at: &Point, point: &Point, operation_ns: Option<f64>) -> String {
    if point.placement != at.placement {
        return format!("placement {}", point.placement);
    }
    if point.tasks != at.tasks {
        return if point.tasks > at.tasks { "one task more" } else { "one task less" }.to_string();
    }
    let mean = |text: &String| text.split('~').next().and_then(|mean| mean.parse::<f64>().ok());
    for (name, place) in [("hold_ns", "inside"), ("idle_ns", "outside")] {
        let values =
            [at, point].map(|point| point.parameters.get(name).and_then(mean).unwrap_or(0.0));
        let more = values[1] - values[0];
        if more != 0.0 {
            let share = operation_ns.map(|ns| format!(" ({} %)", short(100.0 * more / ns)));
            return format!("{} more {place}{}", duration_ns(more), share.unwrap_or_default());
        }
    }
    "as it is".to_string()
}

/// The report as text.
pub fn fragile_text(report: &FragileReport, style: &Style) -> String {
    let FragileReport { workload, variants: [a, b], cpus, tasks, metric, fragility, .. } = report;
    let title = format!(
        "{workload}: {b} against {a}, {} on {}, by {metric}",
        counted(*tasks as usize, "task"),
        counted(*cpus as usize, "CPU")
    );
    let mut table = Table::new([
        ("load", Align::Left),
        ("difference", Align::Right),
        ("90 % interval", Align::Left),
        ("", Align::Left),
        ("flips %", Align::Right),
    ]);
    let mut row = |name: &str, difference: &Estimate, zone: Zone, flips: String| {
        let interval = difference.interval.map_or(String::new(), |(low, high)| {
            format!("[{}, {}]", signed_percent(low), signed_percent(high))
        });
        let cells = [name, &signed_percent(difference.value), &interval, zone_name(zone), &flips];
        table.row(cells.map(str::to_string).to_vec());
    };
    row("as it is", &fragility.difference, fragility.zone, String::new());
    for one in &fragility.changed {
        row(&one.name, &one.difference, one.zone, format!("{:.0}", 100.0 * one.flips));
    }
    let lines = sentences(report);
    let lines: String = lines.iter().map(|line| wrapped(line, style.width, 2)).collect();
    let first = wrapped(&answer(report), style.width, 2);
    let title = wrapped(&title, style.width, 2);
    format!(
        "{}\n{}\n{}{lines}",
        style.bold(title.trim_end()),
        style.bold(first.trim_end()),
        table.within(style.width).0
    )
}

/// "fragile: 5 of 9 small changes of the load would flip it".
fn answer(report: &FragileReport) -> String {
    let Fragility { zone, sure, changed, fragile_to, flips, answer, .. } = &report.fragility;
    let [a, b] = &report.variants;
    let verdict = match zone {
        Zone::Faster => format!("'{b}' is better than '{a}'"),
        Zone::Slower => format!("'{b}' is worse than '{a}'"),
        Zone::Same => format!("'{b}' and '{a}' are the same"),
    };
    let verdict = format!("{verdict} by {} %", short(100.0 * report.smallest_effect));
    let verdict = match zone {
        Zone::Same => verdict.replace(" by ", " within "),
        _ => verdict.replace(" by ", " by more than "),
    };
    let percent = 100.0 * flips;
    let all = counted(changed.len(), "small change");
    match answer {
        FragilityAnswer::Fragile => {
            format!("fragile: {verdict}, but {} flips that", kinds(fragile_to, changed))
        }
        FragilityAnswer::Sensitive => format!(
            "sensitive: {verdict}; of {all} of the load, those of one kind flip it with a mean probability of \
             {percent:.0} %"
        ),
        FragilityAnswer::Robust => format!(
            "robust: {verdict}, and stays so over {all} of the load (no kind of change flips it with a mean \
             probability above {percent:.0} %)"
        ),
        FragilityAnswer::CannotTell => format!(
            "cannot tell: it is not sure enough that {verdict} ({:.0} %) to ask whether that survives: \
             more blocks (--blocks 20)",
            100.0 * sure
        ),
    }
}

/// "a task more or less (2 of 2 such changes) or more work inside the lock (2 of 3 such changes)".
fn kinds(kinds: &[Change], changed: &[ChangedLoad]) -> String {
    let name = |kind: &Change| {
        let words = match kind {
            Change::Tasks => "a task more or less",
            Change::Inside => "more work inside the lock",
            Change::Outside => "more work outside the lock",
            Change::Placement => "a placement on other CPUs",
        };
        let of_kind = || changed.iter().filter(|one| one.change == *kind);
        let flipped = of_kind().filter(|one| one.surely_flips()).count();
        format!("{words} ({flipped} of {} such changes)", of_kind().count())
    };
    kinds.iter().map(name).collect::<Vec<_>>().join(" or ")
}

fn sentences(report: &FragileReport) -> Vec<String> {
    let Fragility { zone, margin, modes, answer, .. } = &report.fragility;
    let mut lines = Vec::new();
    let tasks = f64::from(report.tasks);
    lines.push(match zone {
        Zone::Same => "it flips where there is a difference".to_string(),
        _ => "it flips where less than half of the difference is left".to_string(),
    });
    if *answer != FragilityAnswer::CannotTell {
        lines.push(match margin {
            Some(Estimate { value, interval }) => {
                let range = interval.map_or(String::new(), |(low, high)| {
                    format!(" (90 % interval: {} to {})", short(tasks * low), short(tasks * high))
                });
                format!(
                    "by a straight line through the numbers of tasks, it flips at {} tasks{range}",
                    short(tasks * value)
                )
            }
            None => "the difference does not clearly depend on the number of tasks".to_string(),
        });
    }
    lines.extend(modes.as_ref().map(|modes| modes_sentence(modes, &report.variants)));
    lines.push(if report.in_guests {
        "each block is another boot: what changes from boot to boot is in the intervals".to_string()
    } else {
        "not changed: the boot. Virtual machines boot for each block (--kernel)".to_string()
    });
    lines
}

fn modes_sentence(modes: &Modes, [a, b]: &[String; 2]) -> String {
    let Modes { slow, runs, apart, p } = modes;
    let p = p.map_or(String::new(), |p| format!(" (p = {p:.2})"));
    format!(
        "runs come in two modes, {:.0} % apart: {} of {} runs of '{a}' and {} of {} of '{b}' are slow{p}; a \
         mean over both says how often, not how fast",
        100.0 * apart,
        slow[0],
        runs[0],
        slow[1],
        runs[1]
    )
}

fn zone_name(zone: Zone) -> &'static str {
    match zone {
        Zone::Slower => "worse",
        Zone::Same => "same",
        Zone::Faster => "better",
    }
}

/// `+12.3 %`.
fn signed_percent(share: f64) -> String {
    format!("{} %", signed(100.0 * share, 1))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// A report of a difference of 30 % at 4 tasks, and these at changed loads.
    fn check(around: &[(&str, Option<f64>, f64)], expected: Expect) {
        let situation = |name: &str, load, faster: f64| {
            let noise = [0.99, 1.01, 1.0, 1.005, 0.995];
            let pairs = noise.map(|noise| (1e6, 1e6 * (1.0 + faster) * noise));
            let change = if name.contains("inside") { Change::Inside } else { Change::Tasks };
            Situation { name: name.to_string(), change, load, pairs: pairs.to_vec() }
        };
        let around: Vec<Situation> =
            around.iter().map(|(name, load, faster)| situation(name, *load, *faster)).collect();
        let report = FragileReport {
            workload: "lock_mcs".to_string(),
            variants: ["before".to_string(), "after".to_string()],
            cpus: 4,
            tasks: 4,
            metric: RATE.to_string(),
            smallest_effect: 0.02,
            in_guests: false,
            fragility: fragility(&situation("at", Some(0.0), 0.3), &around, 0.02).unwrap(),
        };
        expected.assert_eq(&fragile_text(&report, &Style::PLAIN));
    }

    #[test]
    fn a_fragile_verdict_names_what_flips_it() {
        check(
            &[
                ("one task more", Some(1.25_f64.ln()), 0.0),
                ("one task less", Some(0.75_f64.ln()), 0.55),
                ("12 ns more inside (1 %)", None, 0.01),
            ],
            expect![[r#"
                lock_mcs: after against before, 4 tasks on 4 CPUs, by operations_per_s
                fragile: 'after' is better than 'before' by more than 2 %, but a task more or less (1 of 2 such
                  changes) or more work inside the lock (1 of 1 such changes) flips that
                load                     difference  90 % interval               flips %
                as it is                    +30.0 %  [+29.0 %, +31.0 %]  better
                one task more                +0.0 %  [-0.8 %, +0.8 %]    same        100
                one task less               +55.0 %  [+53.8 %, +56.2 %]  better        0
                12 ns more inside (1 %)      +1.0 %  [+0.2 %, +1.8 %]    same        100
                it flips where less than half of the difference is left
                by a straight line through the numbers of tasks, it flips at 4.42 tasks (90 % interval: 4.39 to
                  4.44)
                not changed: the boot. Virtual machines boot for each block (--kernel)
            "#]],
        );
    }

    #[test]
    fn a_robust_verdict_says_how_little_it_depends_on_the_load() {
        check(
            &[
                ("one task more", Some(1.25_f64.ln()), 0.31),
                ("one task less", Some(0.75_f64.ln()), 0.3),
            ],
            expect![[r#"
                lock_mcs: after against before, 4 tasks on 4 CPUs, by operations_per_s
                robust: 'after' is better than 'before' by more than 2 %, and stays so over 2 small changes of the
                  load (no kind of change flips it with a mean probability above 0 %)
                load           difference  90 % interval               flips %
                as it is          +30.0 %  [+29.0 %, +31.0 %]  better
                one task more     +31.0 %  [+30.0 %, +32.0 %]  better        0
                one task less     +30.0 %  [+29.0 %, +31.0 %]  better        0
                it flips where less than half of the difference is left
                the difference does not clearly depend on the number of tasks
                not changed: the boot. Virtual machines boot for each block (--kernel)
            "#]],
        );
    }
}
