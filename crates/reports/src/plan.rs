//! The plan of an experiment: what would be run, how long that takes, and how small a change it
//! can show.

use analysis::PointHistory;
use records::{Pass, Point, Record, Until};

use crate::Style;
use crate::header::planned;
use crate::loads::parameters;
use crate::prose::{counted, wrapped};
use crate::table::{Align, Table};

/// Seconds to start, verify and clean up a run, assumed without an earlier record.
const AROUND_S: f64 = 0.05;

/// Deviations between runs that are common, to plan with where none is known.
const COMMON: [f64; 3] = [0.01, 0.03, 0.10];

/// The plan as text; `past` has for each point what earlier records say.
pub fn plan(record: &Record, past: &[Option<PointHistory>], style: &Style) -> String {
    let mut text = planned(record, *style);
    text += &format!("\n{}", table(record, past, *style));
    let mut line = |sentence: String| text += &wrapped(&sentence, style.width, 2);
    line(String::new());
    line(blocks(record));
    line(time(record, past));
    if record.variants.len() > 1 {
        power(record, past).into_iter().for_each(&mut line);
    }
    line("nothing was run; the same command without --plan runs it".to_string());
    text
}

/// A row for each point.
fn table(record: &Record, past: &[Option<PointHistory>], style: Style) -> String {
    let compared = record.variants.len() > 1;
    let mut headings = vec![("workload", Align::Left), ("as", Align::Left), ("CPUs", Align::Right)];
    headings.extend([("tasks", Align::Right), ("length", Align::Right)]);
    if compared {
        headings.insert(0, ("variant", Align::Left));
    }
    headings.push(("earlier\nstddev", Align::Right));
    let mut table = Table::new(headings);
    for (point, seen) in record.points.iter().zip(past) {
        let mut row = vec![
            [vec![point.workload.clone()], parameters(point)].concat().join(" "),
            point.form.name().to_string(),
            point.cpus.to_string(),
            point.tasks.to_string(),
            length(point),
        ];
        if compared {
            row.insert(0, point.variant.clone());
        }
        let deviation = seen.as_ref().map(|seen| format!("{:.1} %", 100.0 * seen.deviation));
        row.push(deviation.unwrap_or("-".to_string()));
        table.row(row);
    }
    table.within(style.width).0
}

fn length(point: &Point) -> String {
    let timed = if point.pass == Pass::Latency { " timed" } else { "" };
    format!("{}{timed}", super::header::length(point.until))
}

fn blocks(record: &Record) -> String {
    let points = counted(record.points.len(), "point");
    let blocks = counted(record.experiment.blocks() as usize, "block");
    let placebo = record.experiment.compare.placebo;
    let until = if record.experiment.compare.until_decided && record.variants.len() > 1 {
        ", fewer if all comparisons are decided earlier"
    } else {
        ""
    };
    let extra = if record.variants.len() > 1 && placebo > 0.0 {
        format!("; in {:.0} % of the blocks one variant runs twice (A/A)", 100.0 * placebo)
    } else {
        String::new()
    };
    let runs = counted(record.runs_planned() as usize, "run");
    format!("{blocks} of {points}: {runs}{until}{extra}")
}

/// "about 3 min 20 s".
fn time(record: &Record, past: &[Option<PointHistory>]) -> String {
    let each = |(point, seen): (&Point, &Option<PointHistory>)| match (seen, point.until) {
        (Some(seen), _) => Some(seen.run_s),
        (None, Until::Seconds(seconds)) => Some(seconds + AROUND_S),
        (None, _) => None,
    };
    let times: Option<Vec<f64>> = record.points.iter().zip(past).map(each).collect();
    let blocks = record.experiment.blocks() as f64;
    let known = past.iter().flatten().next().map(|seen| format!(", from record {}", seen.record));
    let most = if record.experiment.compare.until_decided { "at most " } else { "" };
    match times {
        Some(times) => {
            let total = blocks * times.iter().sum::<f64>() * (1.0 + placebo_share(record));
            let how = known.unwrap_or(", with 50 ms of setup and cleanup per run".into());
            let again = "; blocks disturbed by the host are repeated";
            let again = if record.variants.len() > 1 { again } else { "" };
            format!("time: {most}about {}{how}{again}", spoken(total))
        }
        None => "time: unknown, because runs last until their work is done".to_string(),
    }
}

/// How much longer placebo runs make it.
fn placebo_share(record: &Record) -> f64 {
    match record.variants.len() {
        0 | 1 => 0.0,
        variants => record.experiment.compare.placebo / variants as f64,
    }
}

/// "45 s", "3 min 20 s", "2 h 5 min".
fn spoken(seconds: f64) -> String {
    let s = seconds.round() as u64;
    match s {
        0..60 => format!("{:.0} s", seconds.max(1.0)),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// The smallest change that the blocks will show in four of five cases.
fn power(record: &Record, past: &[Option<PointHistory>]) -> Vec<String> {
    let blocks = record.experiment.blocks();
    let contrasts = record.variants.len() - 1;
    // With looks on the way, the last one may spend less.
    let alpha = if record.experiment.compare.until_decided {
        analysis::sequential::nominal(blocks as usize, analysis::ALPHA / contrasts as f64)
    } else {
        analysis::ALPHA / contrasts as f64
    };
    let smallest = |deviation: f64| match analysis::detectable(blocks as usize, deviation, alpha) {
        Some(effect) => format!("{:.1} %", 100.0 * effect),
        None => "nothing".to_string(),
    };
    let known: Vec<f64> = past.iter().flatten().map(|seen| seen.deviation).collect();
    let mut lines = Vec::new();
    match analysis::Spread::from_values(&known) {
        Some(spread) => lines.push(format!(
            "smallest change that {blocks} blocks detect in 4 of 5 cases: {} at the median stddev of \
             runs ({:.1} %), {} at the largest ({:.1} %)",
            smallest(spread.median),
            100.0 * spread.median,
            smallest(spread.max),
            100.0 * spread.max,
        )),
        None => {
            let each =
                COMMON.map(|cv| format!("{} at a stddev of {:.0} %", smallest(cv), 100.0 * cv));
            lines.push(format!(
                "smallest change that {blocks} blocks detect in 4 of 5 cases: {} (no earlier record \
                 shows the stddev of runs)",
                each.join(", ")
            ));
        }
    }
    let effect = record.experiment.compare.smallest_effect;
    let decides = record.points.first().map_or(String::new(), |point| record.deciding(point));
    let enough = analysis::Spread::from_values(&known)
        .and_then(|spread| analysis::blocks_for(effect, spread.median, alpha))
        .map(|blocks| format!("; detecting it takes about {}", counted(blocks, "block")));
    lines.push(format!(
        "smallest change that matters: {:.1} % of {}; variants within it are called the same{}",
        100.0 * effect,
        decides,
        enough.unwrap_or_default()
    ));
    lines
}
