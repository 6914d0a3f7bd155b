//! Ledgers as parts of a page: where the time of an operation goes, what changed between two ledgers, and what
//! grows with the number of CPUs.

mod causes;
mod difference;
mod flushes;
mod growth;
mod ipis;
mod locks;
mod numbers;
mod parts;
mod removal;
mod trust;

pub use crate::ledger::causes::place;
pub use crate::ledger::difference::{LedgerSide, difference_part, unit_of_work};
pub use crate::ledger::growth::{growth_part, sentence as growth_sentence};
pub use crate::ledger::ipis::ipis_part;
pub use crate::ledger::locks::locks_part;
pub use crate::ledger::parts::{LedgerNode, LedgerPart, LedgerTree, NodeChange};

use ledger::{Belongs, Explained, Ledger, LedgerRow, WORK, WallTime};
use records::{Obtained, Opened, Point};
use text::prose::counted;
use text::quantity::duration_ns;

use crate::ledger::numbers::Unit;
use reports::parameters;

/// Rows below this share of all time are put together.
const SHOWN_SHARE: f64 = 0.01;
/// A single small row is shown: a line for several would be no shorter.
const TOGETHER_MIN: usize = 2;

/// A point, explained.
pub fn explained_part(opened: &Opened, explained: &Explained, force: bool) -> LedgerPart {
    let point = &opened.record.points[explained.point];
    let per = opened.record.unit_of_work(point).name();
    let is_refused = explained.refused().is_some() && !force;
    let shown = explained.ledger.as_ref().filter(|_| !is_refused);
    let answer = match (&explained.ledger, shown) {
        (_, Some(ledger)) => in_a_sentence(ledger, explained.wall.as_ref(), per),
        (None, _) => "no profiled run recorded where the time goes".to_string(),
        (Some(_), None) => "no answer: profiling disturbed the run too much".to_string(),
    };
    LedgerPart {
        title: title(point),
        answer,
        causes: trust::taken(&[(None, explained)]).into_iter().collect(),
        tree: shown.map(|ledger| {
            let by_wall = explained.wall.as_ref().and_then(|wall| wall.alone(ledger));
            let whole = match by_wall {
                Some(_) => "all: time by the clock".to_string(),
                None => format!("all: {} x time", counted(point.cpus as usize, "CPU")),
            };
            tree(by_wall.as_ref().unwrap_or(ledger), &whole, per)
        }),
        notes: trust::notes(explained, per, force),
        ..LedgerPart::default()
    }
}

/// "posix_lock_shared, 2 processes on 2 CPUs".
pub fn title(point: &Point) -> String {
    let variant =
        if point.variant.is_empty() { String::new() } else { format!(" as {}", point.variant) };
    let tasks = match &point.command {
        Some(_) => String::new(),
        None if point.tasks == 0 => String::new(),
        None => format!(", {}", point.form.counted(point.tasks)),
    };
    // An imported result may not say.
    let cpus = match point.cpus {
        0 => String::new(),
        cpus => format!(" on {}", counted(cpus as usize, "CPU")),
    };
    format!("{}{variant}{tasks}{cpus}", load(point))
}

/// "page_fault KNEE_BYTES=65536": the workload with its settings, or the line of a command.
fn load(point: &Point) -> String {
    let settings = || parameters(point).into_iter().map(|setting| format!(" {setting}"));
    match whole_line(point) {
        Some(line) => line.to_string(),
        None => format!("{}{}", point.workload, settings().collect::<String>()),
    }
}

/// The line of a command that is nothing but a placeholder, as where whole commands are compared.
fn whole_line(point: &Point) -> Option<&str> {
    let name = point.command.as_deref()?.strip_prefix('{')?.strip_suffix("...}")?;
    Some(point.parameters.get(name)?.as_str())
}

/// "A run takes 2.52 s, 2.3 s of CPU time: 61 % system call fcntl (1.54 us), 22 % idle (…), …".
fn in_a_sentence(ledger: &Ledger, wall: Option<&WallTime>, per: &str) -> String {
    let ns = |row: &LedgerRow| ledger.ns_per_operation(row).mean;
    let article = if per == "run" { "A" } else { "An" };
    let Some(wall) = wall else {
        let largest = largest_rows(ledger, &|row| duration_ns(ns(row)));
        let all = duration_ns(ns(&ledger.root));
        return format!("{article} {per} takes {all} of CPUs x time: {largest}");
    };
    // CPUs that the workload leaves unused are no part of its time.
    let by_wall = wall.alone(ledger);
    let shown = by_wall.as_ref().unwrap_or(ledger);
    // Shares are of profiled runs, the time is of clean ones: rows add up to it.
    let all = shown.ns_per_operation(&shown.root).mean.max(1e-9);
    let of_clean = |row: &LedgerRow| shown.ns_per_operation(row).mean * wall.ns / all;
    let largest = largest_rows(shown, &|row| duration_ns(of_clean(row)));
    let cpu = wall.cpu_ns.map(|ns| format!(", {} of CPU time", duration_ns(ns)));
    format!("{article} {per} takes {}{}: {largest}", duration_ns(wall.ns), cpu.unwrap_or_default())
}

/// "61 % system call fcntl (1.54 us), 22 % idle (…), …": the rows that take most, with the workload's own in its place.
pub(crate) fn largest_rows(ledger: &Ledger, amount: &dyn Fn(&LedgerRow) -> String) -> String {
    const NAMED: usize = 3;
    let ns = |row: &LedgerRow| ledger.ns_per_operation(row).mean;
    let all = ns(&ledger.root);
    let mut rows: Vec<&LedgerRow> = Vec::new();
    for row in &ledger.root.rows {
        let is_work = row.name == WORK && !row.rows.is_empty();
        rows.extend(if is_work { row.rows.iter().collect() } else { vec![row] });
    }
    rows.sort_by(|a, b| ns(b).total_cmp(&ns(a)));
    let named = rows.iter().take(NAMED).map(|row| {
        let share = 100.0 * ns(row) / all.max(1e-9);
        format!("{share:.0} % {} ({})", row.name, amount(row))
    });
    named.collect::<Vec<_>>().join(", ")
}

/// A ledger as a tree: what its root is called, and what its values are per.
pub(crate) fn tree(ledger: &Ledger, whole: &str, per: &str) -> LedgerTree {
    let total = ledger.ns_per_operation(&ledger.root).mean;
    let unit = Unit::for_total(total);
    let events = format!("events per {per}");
    LedgerTree::new(
        format!("time per {per}, {}", unit.name),
        vec!["time".to_string()],
        ["±", "share", &events, "cost per event", "measured"],
        Rows { ledger, unit, total }.node(&ledger.root, whole),
    )
}

/// What the rows of a tree share.
struct Rows<'a> {
    ledger: &'a Ledger,
    unit: Unit,
    total: f64,
}

impl Rows<'_> {
    fn node(&self, row: &LedgerRow, name: &str) -> LedgerNode {
        let value = self.ledger.ns_per_operation(row);
        let times = row.events.as_ref().map(|events| events.per_operation().mean);
        let each = times.filter(|times| *times > 0.0).map(|times| value.mean / times);
        let details = vec![
            value.half.map_or_else(String::new, |half| self.unit.text(half)),
            numbers::percent(value.mean / self.total),
            times.map_or_else(String::new, numbers::times),
            each.map_or_else(String::new, duration_ns),
            how(row),
        ];
        let leaf = LedgerNode::leaf(name.to_string(), vec![value.mean], self.unit, details);
        LedgerNode { rows: self.below(row), ..leaf }
    }

    /// The rows below one, of which small ones are put together.
    fn below(&self, row: &LedgerRow) -> Vec<LedgerNode> {
        let is_shown =
            |row: &&LedgerRow| self.ledger.ns_per_operation(row).mean >= SHOWN_SHARE * self.total;
        let (mut shown, small): (Vec<&LedgerRow>, Vec<&LedgerRow>) =
            row.rows.iter().partition(is_shown);
        let is_together = small.len() >= TOGETHER_MIN;
        let sum = is_together.then(|| LedgerNode {
            is_folded: true,
            rows: small.iter().map(|row| self.node(row, &row.name)).collect(),
            ..self.node(&together(&small), &small_rows(small.len()))
        });
        if !is_together {
            shown.extend(small);
        }
        shown.into_iter().map(|row| self.node(row, &row.name)).chain(sum).collect()
    }
}

/// The name of small rows that are put together.
fn small_rows(rows: usize) -> String {
    format!("{} below 1 % each", counted(rows, "row"))
}

/// Rows as one, without parts.
fn together(rows: &[&LedgerRow]) -> LedgerRow {
    let obtained = rows.iter().map(|row| row.obtained).find(|o| *o != Obtained::Exact);
    let parts = rows.iter().map(|row| LedgerRow { rows: Vec::new(), ..(*row).clone() }).collect();
    let sum = LedgerRow::from_parts("", obtained.unwrap_or(Obtained::Exact), parts);
    let samples = rows.iter().filter_map(|row| row.samples).reduce(|a, b| a + b);
    let of_time = rows.iter().all(|row| row.belongs == Belongs::Time);
    let belongs = if of_time { Belongs::Time } else { Belongs::Operation };
    LedgerRow { rows: Vec::new(), samples, belongs, ..sum }
}

/// "exact", "sampled 340".
fn how(row: &LedgerRow) -> String {
    match row.samples {
        Some(samples) => format!("{} {samples}", row.obtained.name()),
        None => row.obtained.name().to_string(),
    }
}

#[cfg(test)]
mod tests;
