//! Ledgers taken apart, for pages: the answer, its causes, and the rows as a tree with a value for each side.

use ledger::{Explained, Growth, Ledger, LedgerRow, RowChange, Split, answer, growth};
use records::{Opened, Point};
use text::Style;
use text::prose::counted;
use text::quantity::signed;
use text::table::Table;

use crate::ledger::difference::{self, LedgerSide, unit_of_work};
use crate::ledger::numbers::{self, Unit};
use crate::ledger::removal::Removal;
use crate::ledger::{SHOWN_SHARE, causes, flushes, growth as grown, in_a_sentence, title, trust};
use crate::recording::FlameGraph;

/// A page breaks lines itself, so each sentence is one line here.
const PAGE: Style = Style { width: 1 << 20, terminal: true, color: false };

/// What the report of a ledger says.
pub struct LedgerPart {
    pub title: String,
    /// Where the time goes, or what changed, in a sentence.
    pub answer: String,
    /// Causes and what they rest on, a sentence each.
    pub causes: Vec<String>,
    pub tree: Option<LedgerTree>,
    pub table: Option<Table>,
    /// How far to trust it.
    pub notes: Vec<String>,
    /// The stacks of the workload's own CPU time, which those who have the samples add.
    pub flame: Option<FlameGraph>,
}

/// Rows that add up to their parents, with a value for each side or CPU count.
pub struct LedgerTree {
    /// What is divided: "time per operation, ns".
    pub heading: String,
    /// The names of the values.
    pub columns: Vec<String>,
    /// The names of what is known of each row beside its values.
    pub details: Vec<String>,
    pub root: LedgerNode,
}

/// A row of a ledger.
pub struct LedgerNode {
    pub name: String,
    /// Time per operation in ns, for each column.
    pub ns: Vec<f64>,
    /// The values as text, for each column.
    pub values: Vec<String>,
    /// For each of the tree's details; may be empty.
    pub details: Vec<String>,
    /// What made the change, between two columns.
    pub change: Option<NodeChange>,
    pub rows: Vec<LedgerNode>,
}

/// What made the change of a row.
#[derive(Clone, Copy)]
pub struct NodeChange {
    /// Half the width of the change's 95 % interval, where it is known.
    pub half_ns: Option<f64>,
    /// The parts by count and by cost, which add up to the change; absent where events were not counted.
    pub parts_ns: Option<(f64, f64)>,
}

/// A point, explained.
pub fn explained_part(opened: &Opened, explained: &Explained, force: bool) -> LedgerPart {
    let point = &opened.record.points[explained.point];
    let per = opened.record.unit_of_work(point).name();
    let is_refused = explained.refused().is_some() && !force;
    let shown = explained.ledger.as_ref().filter(|_| !is_refused);
    let answer = match (&explained.ledger, shown) {
        (_, Some(ledger)) => in_a_sentence(ledger, per),
        (None, _) => "no profiled run recorded where the time goes".to_string(),
        (Some(_), None) => "no answer: profiling disturbed the run too much".to_string(),
    };
    LedgerPart {
        title: title(point),
        answer,
        causes: Vec::new(),
        tree: shown.map(|ledger| alone(ledger, point.cpus, per)),
        table: shown.map(|ledger| super::rows(ledger, point, per, PAGE)),
        notes: sentences(&trust::text(explained, per, force, PAGE)),
        flame: None,
    }
}

fn alone(ledger: &Ledger, cpus: u32, per: &str) -> LedgerTree {
    let total = ledger.ns_per_operation(&ledger.root).mean;
    let unit = Unit::for_total(total);
    let all = format!("all: {} x time", counted(cpus as usize, "CPU"));
    LedgerTree {
        heading: format!("time per {per}, {}", unit.name),
        columns: vec![format!("per {per}")],
        details: vec!["±".to_string(), "share".to_string(), "events".to_string()],
        root: row_node(ledger, &ledger.root, &all, unit, total),
    }
}

fn row_node(ledger: &Ledger, row: &LedgerRow, name: &str, unit: Unit, total: f64) -> LedgerNode {
    let value = ledger.ns_per_operation(row);
    let ns = |row: &LedgerRow| ledger.ns_per_operation(row).mean;
    let (shown, small): (Vec<&LedgerRow>, Vec<&LedgerRow>) =
        row.rows.iter().partition(|row| ns(row) >= SHOWN_SHARE * total);
    let mut rows: Vec<LedgerNode> =
        shown.into_iter().map(|row| row_node(ledger, row, &row.name, unit, total)).collect();
    let rest: f64 = small.iter().map(|row| ns(row)).sum();
    if !small.is_empty() && rest > 0.0 {
        let share = numbers::percent(rest / total);
        let details = vec![String::new(), share, String::new()];
        rows.push(LedgerNode::leaf(small_rows(small.len()), vec![rest], unit, details));
    }
    let events = row.events.as_ref().map(|events| numbers::times(events.per_operation().mean));
    LedgerNode {
        name: name.to_string(),
        ns: vec![value.mean],
        values: vec![unit.text(value.mean)],
        details: vec![
            value.half.map_or_else(String::new, |half| unit.text(half)),
            numbers::percent(value.mean / total),
            events.unwrap_or_default(),
        ],
        change: None,
        rows,
    }
}

impl LedgerNode {
    fn leaf(name: String, ns: Vec<f64>, unit: Unit, details: Vec<String>) -> LedgerNode {
        let values = ns.iter().map(|ns| unit.text(*ns)).collect();
        LedgerNode { name, values, ns, details, change: None, rows: Vec::new() }
    }
}

fn small_rows(rows: usize) -> String {
    format!("{} below 1 % each", counted(rows, "row"))
}

/// Two points against each other.
pub fn difference_part(before: &LedgerSide, after: &LedgerSide, force: bool) -> LedgerPart {
    let (per, names) = (unit_of_work(after), [before.name, after.name]);
    let answer = answer(before.explained, after.explained, force);
    let told = match &answer {
        Some(answer) => {
            let opened = after.record;
            let removal = Removal::for_point(opened, &opened.record.points[after.explained.point]);
            sentences(&causes::text(answer, names, per, Some(&removal), PAGE))
        }
        None => vec![difference::no_ledgers(before, after)],
    };
    let (first, others) = told
        .split_first()
        .map_or((String::new(), &[][..]), |(first, others)| (first.clone(), others));
    let mut causes = others.to_vec();
    let change = answer.as_ref().filter(|answer| !answer.refused).map(|answer| &answer.change);
    if let Some(change) = change {
        causes.extend(sentences(&difference::interrupts(change, per, PAGE)));
        causes.extend(sentences(&flushes::text(change, before.explained, after.explained, PAGE)));
        causes.extend(sentences(&difference::counts(before.explained, after.explained, per, PAGE)));
    }
    let force = force || answer.as_ref().is_some_and(|answer| !answer.refused);
    let notes = [before, after].into_iter().flat_map(|side| {
        let text = trust::text(side.explained, unit_of_work(side), force, PAGE);
        sentences(&text).into_iter().map(|sentence| format!("`{}`: {sentence}", side.name))
    });
    LedgerPart {
        title: pair_title(before, after),
        answer: first,
        causes,
        tree: change.map(|change| changed(change, per, names)),
        table: change.map(|change| difference::rows(change, per, names, PAGE)),
        notes: notes.collect(),
        flame: None,
    }
}

/// "posix_lock_shared, 2 processes on 2 CPUs: old → new"; both titles where more than the variants differ.
fn pair_title(before: &LedgerSide, after: &LedgerSide) -> String {
    let point = |side: &LedgerSide| side.record.record.points[side.explained.point].clone();
    let unnamed = |side| title(&Point { variant: String::new(), ..point(side) });
    if unnamed(before) == unnamed(after) {
        return format!("{}: {} → {}", unnamed(after), before.name, after.name);
    }
    format!("{} → {}", title(&point(before)), title(&point(after)))
}

fn changed(change: &RowChange, per: &str, names: [&str; 2]) -> LedgerTree {
    let most = change.before.mean.max(change.after.mean);
    let unit = Unit::for_total(most);
    let details = ["change", "±", "by count or share", "by cost or length"];
    LedgerTree {
        heading: format!("time per {per}, {}", unit.name),
        columns: names.map(str::to_string).into(),
        details: details.map(str::to_string).into(),
        root: change_node(change, unit, difference::SHOWN_SHARE * most),
    }
}

fn change_node(change: &RowChange, unit: Unit, least_ns: f64) -> LedgerNode {
    let parts_ns = match &change.split {
        Split::CountAndCost { count_ns, cost_ns, .. } => Some((*count_ns, *cost_ns)),
        Split::ShareAndLength { share_ns, length_ns, .. } => Some((*share_ns, *length_ns)),
        Split::CountUnknown => None,
    };
    let is_shown = |row: &&RowChange| {
        row.before.mean.max(row.after.mean) >= least_ns || row.change.abs() >= least_ns
    };
    let (shown, small): (Vec<&RowChange>, Vec<&RowChange>) = change.rows.iter().partition(is_shown);
    let mut rows: Vec<LedgerNode> =
        shown.into_iter().map(|row| change_node(row, unit, least_ns)).collect();
    if !small.is_empty() {
        let sum = |value: fn(&RowChange) -> f64| small.iter().map(|row| value(row)).sum::<f64>();
        let ns = vec![sum(|row| row.before.mean), sum(|row| row.after.mean)];
        let none = String::new();
        let details = vec![unit.signed(ns[1] - ns[0]), none.clone(), none.clone(), none];
        rows.push(LedgerNode::leaf(small_rows(small.len()), ns, unit, details));
    }
    let part = |ns: Option<f64>| ns.map_or_else(String::new, |ns| unit.signed(ns));
    let ns = vec![change.before.mean, change.after.mean];
    let details = vec![
        unit.signed(change.change),
        change.half.map_or_else(String::new, |half| unit.text(half)),
        part(parts_ns.map(|(count, _)| count)),
        part(parts_ns.map(|(_, cost)| cost)),
    ];
    let made = NodeChange { half_ns: change.half, parts_ns };
    LedgerNode {
        rows,
        change: Some(made),
        ..LedgerNode::leaf(change.name.clone(), ns, unit, details)
    }
}

/// The points of one load over CPU counts; nothing without ledgers at two counts.
pub fn growth_part(opened: &Opened, points: &[&Explained], force: bool) -> Option<LedgerPart> {
    let point = |explained: &Explained| &opened.record.points[explained.point];
    let is_refused = |explained: &Explained| explained.refused().is_some() && !force;
    let mut known: Vec<&Explained> = points.to_vec();
    known.retain(|explained| !is_refused(explained) && explained.ledger.is_some());
    known.sort_by_key(|explained| point(explained).cpus);
    let [first, .., last] = &known[..] else { return None };
    let per = opened.record.unit_of_work(point(first)).name();
    let names = [first, last].map(|one| counted(point(one).cpus as usize, "CPU"));
    let answer = answer(first, last, force)?;
    let names = [&names[0][..], &names[1]];
    let removal = Removal::for_point(opened, point(last));
    let mut told: Vec<String> = causes::shares(&answer, names, per).into_iter().collect();
    told.extend(sentences(&causes::text(&answer, names, per, Some(&removal), PAGE)));
    let causes = told.split_off(told.len().min(1));
    let ledgers = known.iter().filter_map(|one| Some((point(one).cpus, one.ledger.as_ref()?)));
    let ledgers: Vec<(u32, &Ledger)> = ledgers.collect();
    let growth = growth(&ledgers);
    let largest = growth.ns.iter().map(|ns| ns.mean).fold(0.0, f64::max);
    let unit = Unit::for_total(largest);
    let details = ["power of CPUs", "±", "by count", "by cost"];
    Some(LedgerPart {
        title: format!("{} over CPU counts", point(first).workload),
        answer: told.concat(),
        causes,
        tree: Some(LedgerTree {
            heading: format!("time per {per}, {}", unit.name),
            columns: ledgers.iter().map(|(cpus, _)| counted(*cpus as usize, "CPU")).collect(),
            details: details.map(str::to_string).into(),
            root: growth_node(&growth, "all: CPUs x time", unit, &growth),
        }),
        table: Some(grown::rows(&ledgers, &growth, PAGE)),
        notes: Vec::new(),
        flame: None,
    })
}

fn growth_node(row: &Growth, name: &str, unit: Unit, all: &Growth) -> LedgerNode {
    let is_shown = |row: &&Growth| {
        let mut sides = row.ns.iter().zip(&all.ns);
        sides.any(|(ns, all)| ns.mean >= grown::SHOWN_SHARE * all.mean)
    };
    let rows = row.rows.iter().filter(is_shown);
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| signed(v, 2));
    let power = row.power.as_ref();
    let half = power.and_then(|power| power.half);
    let details = vec![
        number(power.map(|power| power.of_time)),
        half.map_or_else(String::new, |half| format!("{half:.2}")),
        number(power.and_then(|power| power.of_count)),
        number(power.and_then(|power| power.of_cost)),
    ];
    let ns = row.ns.iter().map(|ns| ns.mean).collect();
    LedgerNode {
        rows: rows.map(|part| growth_node(part, &part.name, unit, all)).collect(),
        ..LedgerNode::leaf(name.to_string(), ns, unit, details)
    }
}

/// The lines of a text as sentences, without marks of a list.
fn sentences(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("- ").to_string());
    lines.filter(|line| !line.is_empty()).collect()
}
