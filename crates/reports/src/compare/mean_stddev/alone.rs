//! One variant alone: nothing is compared, so all cells stand in one table, each with the time
//! of all tasks, the wall time beside it, and single calls where they were timed.

use analysis::{CellComparison, CellKey, Comparison, Spread};
use records::Pass;
use text::Style;
use text::prose::wrapped;
use text::quantity::duration_ns;
use text::table::{Align, Table};

use crate::compare::change::value;
use crate::compare::notes::of_cells;
use crate::compare::places::{Places, distinguishing, heading, size};

/// What stands in the columns: mean and standard deviation of runs.
const TIMES: [(&str, &str); 2] = [("task_time_s", "sum over\ntasks, s"), ("wall_s", "wall,\ns")];

/// Mean and deviation of single calls, each the mean over runs.
const CALLS: [(&str, &str); 2] =
    [("latency.mean_ns", "a call,\nmean"), ("latency.stddev_ns", "a call,\ndev.")];

/// The table of all cells.
pub fn table(comparison: &Comparison, style: Style) -> String {
    let timed = comparison.cells.iter().any(|cell| cell.key.pass == Pass::Latency);
    let mut columns = vec![("load", Align::Left), ("CPUs", Align::Right)];
    let times =
        |(_, heading): &(_, &'static str)| [(*heading, Align::Right), ("std.\ndev.", Align::Right)];
    columns.extend(TIMES.iter().flat_map(times));
    columns.push(("n", Align::Right));
    columns.extend(CALLS.iter().filter(|_| timed).map(|(_, heading)| (*heading, Align::Right)));
    let mut table = Table::new(columns);
    for cell in comparison.cells.iter().filter(|cell| cell.key.pass != Pass::Latency) {
        table.row(row(comparison, cell, timed));
    }
    let calls = "; single calls were timed in separate runs: mean and standard deviation of the \
                 calls within a run";
    let about = "times run from the first operation to the stop: mean and standard deviation of n \
                 runs";
    let about = format!("{about}{}", if timed { calls } else { "" });
    let places = Places::new(comparison);
    let cells: Vec<usize> = (0..comparison.cells.len()).collect();
    let failed = of_cells(comparison, &places, &cells)
        .into_iter()
        .map(|line| wrapped(&line, style.width, 2));
    let about = wrapped(&about, style.width, 0) + &failed.collect::<String>();
    format!("\n{}{}{about}", loads(comparison, style), table.text())
}

fn row(comparison: &Comparison, cell: &CellComparison, timed: bool) -> Vec<String> {
    let mut row = vec![label(comparison, &cell.key), cell.key.cpus.to_string()];
    for (name, _) in TIMES {
        let (mean, deviation) = value(side(cell, name));
        row.extend([mean, if deviation.is_empty() { "-".to_string() } else { deviation }]);
    }
    let n = TIMES.iter().find_map(|(name, _)| side(cell, name)).map_or(0, |spread| spread.n);
    row.push(n.to_string());
    let twin = comparison.cells.iter().find(|other| is_timed_twin(&other.key, &cell.key));
    let call = |(name, _): &(&str, _)| {
        let spread = twin.and_then(|twin| side(twin, name));
        spread.map_or("-".to_string(), |spread| duration_ns(spread.mean))
    };
    row.extend(CALLS.iter().filter(|_| timed).map(call));
    row
}

fn side<'a>(cell: &'a CellComparison, name: &str) -> Option<&'a Spread> {
    cell.metrics.iter().find(|metric| metric.metric == name)?.sides.first()?.as_ref()
}

/// Name of a row: the workload, if that is unique.
fn label(comparison: &Comparison, place: &CellKey) -> String {
    let load = |place: &CellKey| CellKey { cpus: 0, pass: Pass::Rate, ..place.clone() };
    let namesakes = comparison.cells.iter().filter(|cell| cell.key.workload == place.workload);
    if namesakes.clone().all(|cell| load(&cell.key) == load(place)) {
        place.workload.clone()
    } else {
        [vec![distinguishing(comparison, place)], tasks(place)].concat().join(", ")
    }
}

/// Each load whole, once: rows have only a name.
fn loads(comparison: &Comparison, style: Style) -> String {
    let mut lines: Vec<String> = Vec::new();
    for cell in comparison.cells.iter().filter(|cell| cell.key.pass != Pass::Latency) {
        let line = [vec![heading(&cell.key)], tasks(&cell.key)].concat().join(", ");
        lines.extend(Some(line).filter(|line| !lines.contains(line)));
    }
    lines.iter().map(|line| style.bold(wrapped(line, style.width, 2).trim_end()) + "\n").collect()
}

/// "128 tasks", unless that is one a CPU.
fn tasks(place: &CellKey) -> Vec<String> {
    size(place).into_iter().skip(usize::from(place.cpus > 0)).collect()
}

/// Whether a place is another's in runs that timed each operation.
fn is_timed_twin(timed: &CellKey, place: &CellKey) -> bool {
    timed.pass == Pass::Latency && CellKey { pass: Pass::Latency, ..place.clone() } == *timed
}
