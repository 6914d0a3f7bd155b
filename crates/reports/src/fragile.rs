//! Whether a verdict survives small changes of the load: what a record of such changes says.

use answers::FragileReport;
use laws::{Change, ChangedLoad, Estimate, Fragility, FragilityAnswer, Modes, Zone};
use text::prose::counted;
use text::quantity::{short, signed};
use text::table::{Align, Table};

use crate::form_part::FormPart;

/// The differences at each changed load, and what they mean. The title says between what.
pub fn fragile_part(report: &FragileReport) -> FormPart {
    let FragileReport { workload, variants: [a, b], cpus, tasks, metric, fragility, .. } = report;
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
    let title = format!(
        "{workload}: {b} against {a}, {} on {}, by {metric}",
        counted(*tasks as usize, "task"),
        counted(*cpus as usize, "CPU")
    );
    FormPart { title, table, sentences: sentences(report) }
}

/// "fragile: 5 of 9 small changes of the load would flip it".
pub fn fragile_answer(report: &FragileReport) -> String {
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
    use answers::RATE;
    use expect_test::{Expect, expect};
    use laws::{Situation, fragility};

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
        let FormPart { title, table, sentences } = fragile_part(&report);
        let lines = [vec![title, fragile_answer(&report)], sentences].concat().join("\n");
        expected.assert_eq(&format!("{}{lines}\n", table.text()));
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
                load                     difference  90 % interval               flips %
                as it is                    +30.0 %  [+29.0 %, +31.0 %]  better
                one task more                +0.0 %  [-0.8 %, +0.8 %]    same        100
                one task less               +55.0 %  [+53.8 %, +56.2 %]  better        0
                12 ns more inside (1 %)      +1.0 %  [+0.2 %, +1.8 %]    same        100
                lock_mcs: after against before, 4 tasks on 4 CPUs, by operations_per_s
                fragile: 'after' is better than 'before' by more than 2 %, but a task more or less (1 of 2 such changes) or more work inside the lock (1 of 1 such changes) flips that
                it flips where less than half of the difference is left
                by a straight line through the numbers of tasks, it flips at 4.42 tasks (90 % interval: 4.39 to 4.44)
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
                load           difference  90 % interval               flips %
                as it is          +30.0 %  [+29.0 %, +31.0 %]  better
                one task more     +31.0 %  [+30.0 %, +32.0 %]  better        0
                one task less     +30.0 %  [+29.0 %, +31.0 %]  better        0
                lock_mcs: after against before, 4 tasks on 4 CPUs, by operations_per_s
                robust: 'after' is better than 'before' by more than 2 %, and stays so over 2 small changes of the load (no kind of change flips it with a mean probability above 0 %)
                it flips where less than half of the difference is left
                the difference does not clearly depend on the number of tasks
                not changed: the boot. Virtual machines boot for each block (--kernel)
            "#]],
        );
    }
}
