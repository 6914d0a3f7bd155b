//! The plan of an experiment: what would be run, how long that takes, and how small a change it
//! can show.

mod time;

use analysis::PointHistory;
use answers::{PlannedPoint, RunPlan};
use records::{Effect, Pass, Point, Record, Warning};
use text::prose::counted;
use text::table::{Align, Table};

use crate::effects::effect_line;
use crate::header::planned;
use crate::loads::parameters;

/// Deviations between runs that are common, to plan with where none is known.
const COMMON: [f64; 3] = [0.01, 0.03, 0.10];

/// What a plan shows.
pub struct Plan<'a> {
    /// The record as it would begin.
    pub record: &'a Record,
    /// What earlier records say about each point.
    pub past: &'a [Option<PointHistory>],
    /// What would be started and changed.
    pub effects: &'a [Effect],
    /// Why this host or user would be refused, if so.
    pub refusal: Option<String>,
}

/// The plan as data.
pub fn plan_answer<'a>(plan: &'a Plan) -> RunPlan<'a> {
    let Plan { record, past, effects, refusal } = plan;
    let runs = time::of_runs(record, past);
    let points_of_unknown_length = runs.iter().filter(|run| run.is_none()).count();
    let points = record.points.iter().zip(*past).zip(runs);
    let points = points.map(|((point, seen), run_seconds)| PlannedPoint {
        point,
        run_seconds,
        earlier_record: seen.as_ref().map(|seen| seen.record.as_str()),
        earlier_deviation: seen.as_ref().and_then(|seen| seen.deviation),
    });
    RunPlan {
        experiment: &record.experiment,
        seed: record.seed,
        points: points.collect(),
        blocks: record.experiment.blocks(),
        runs: record.runs_planned(),
        seconds: time::total(record, past),
        points_of_unknown_length,
        effects,
        warnings: &record.warnings,
        refused: refusal.as_deref(),
    }
}

/// A plan taken apart.
pub struct PlanPart {
    /// How many runs, how long they take, and whether they would be refused.
    pub answers: Vec<String>,
    /// A row for each point.
    pub points: Table,
    /// How small a change the plan can show; empty where nothing is compared.
    pub power: Vec<String>,
    /// What would be started and changed, a line each.
    pub effects: Vec<String>,
    pub warnings: Vec<String>,
    /// What a reader must know before anything is run: labels with what stands behind them.
    pub facts: Vec<(&'static str, String)>,
}

/// Takes a plan apart.
pub fn plan_part(plan: &Plan) -> PlanPart {
    let Plan { record, past, effects, refusal } = plan;
    let refused = match refusal {
        Some(why) => format!("nothing was run; the same command without --plan is refused: {why}"),
        None => "nothing was run; the same command without --plan runs it".to_string(),
    };
    let is_compared = record.variants.len() > 1;
    let said = |Warning { text, advice, .. }: &Warning| format!("{text}: {advice}");
    PlanPart {
        answers: vec![blocks(record), time::sentence(record, past), refused],
        points: table(record, past),
        power: if is_compared { power(record, past) } else { Vec::new() },
        effects: effects.iter().map(effect_line).collect(),
        warnings: record.warnings.iter().map(said).collect(),
        facts: planned(record),
    }
}

/// A row for each point.
fn table(record: &Record, past: &[Option<PointHistory>]) -> Table {
    let compared = record.variants.len() > 1;
    let mut headings = vec![("workload", Align::Left), ("as", Align::Left), ("CPUs", Align::Right)];
    headings.extend([("tasks", Align::Right), ("length", Align::Right)]);
    if compared {
        headings.insert(0, ("variant", Align::Left));
    }
    headings.push(("earlier\nstddev", Align::Right));
    let mut table = Table::new(headings);
    let first = record.experiment.adaptive.map(|_| edges(record));
    let is_shown = |point: &Point| first.as_ref().is_none_or(|first| first.contains(&point.cpus));
    for (point, seen) in record.points.iter().zip(past).filter(|(point, _)| is_shown(point)) {
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
        let deviation = seen.as_ref().and_then(|seen| seen.deviation);
        let deviation = deviation.map(|deviation| format!("{:.1} %", 100.0 * deviation));
        row.push(deviation.unwrap_or("-".to_string()));
        table.row(row);
    }
    table
}

/// The CPU counts that a search begins with.
fn edges(record: &Record) -> Vec<u32> {
    let placement = record.points.first().map_or_else(Default::default, |point| point.placement);
    let largest = record.points.iter().max_by_key(|point| point.cpus);
    let used = largest.map_or(&[][..], |point| &point.cpu_list[..]);
    host::topology::points("1..all", &record.topology.restricted_to(used), placement)
        .unwrap_or_default()
}

fn length(point: &Point) -> String {
    let timed = if point.pass == Pass::Latency { " timed" } else { "" };
    format!("{}{timed}", super::header::length(point.until))
}

fn blocks(record: &Record) -> String {
    if let Some(adaptive) = &record.experiment.adaptive {
        return format!("each of these points twice; then {}", crate::header::search(adaptive));
    }
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
    let runs = counted(record.runs_planned().unwrap_or(0) as usize, "run");
    format!("{blocks} of {points}: {runs}{until}{extra}")
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
    let known: Vec<f64> = past.iter().flatten().filter_map(|seen| seen.deviation).collect();
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
