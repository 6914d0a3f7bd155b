//! Two ledgers against each other: what changed per operation, and what made it.

use ledger::{Explained, RowChange, Split, answer};
use records::{Opened, Point};
use text::quantity::duration_ns;

use crate::ledger::causes::{self, signed};
use crate::ledger::numbers::{self, Unit};
use crate::ledger::parts::{LedgerNode, LedgerPart, LedgerTree, NodeChange};
use crate::ledger::removal::Removal;
use crate::ledger::{flushes, small_rows, title, trust};

/// Rows that change by less than this share of an operation are put together.
const SHOWN_SHARE: f64 = 0.01;

/// One side of a difference.
pub struct LedgerSide<'a> {
    /// Name of the variant.
    pub name: &'a str,
    /// Its record.
    pub record: &'a Opened,
    /// Its point, explained.
    pub explained: &'a Explained,
}

/// Two points against each other.
pub fn difference_part(before: &LedgerSide, after: &LedgerSide, force: bool) -> LedgerPart {
    let title = pair_title(before, after);
    let Some(answer) = answer(before.explained, after.explained, force) else {
        let notes = notes(before, after, force);
        let answer = no_ledgers(before, after);
        return LedgerPart { title, answer, notes, ..LedgerPart::default() };
    };
    let (per, names) = (unit_of_work(after), [before.name, after.name]);
    let removal = Removal::for_point(after.record, after.point());
    let mut causes = causes::paragraphs(&answer, per, Some(&removal));
    let sides = [(Some(before.name), before.explained), (Some(after.name), after.explained)];
    let taken = trust::taken(&sides);
    causes.splice(0..0, taken);
    let change = Some(&answer.change).filter(|_| !answer.refused);
    if let Some(change) = change {
        causes.push(interrupts(change, per));
        causes.extend(flushes::sentence(change, before.explained, after.explained));
        causes.extend(counts(before.explained, after.explained, per));
    }
    LedgerPart {
        title,
        answer: causes::in_a_sentence(&answer, names, per),
        causes,
        tree: change.map(|change| tree(change, per, names)),
        // Where the answer stands, so do the ledgers that it rests on.
        notes: notes(before, after, force || !answer.refused),
        ..LedgerPart::default()
    }
}

/// "posix_lock_shared, 2 processes on 2 CPUs: old → new"; both titles where more than the variants differ.
fn pair_title(before: &LedgerSide, after: &LedgerSide) -> String {
    let unnamed =
        |side: &LedgerSide| title(&Point { variant: String::new(), ..side.point().clone() });
    if unnamed(before) == unnamed(after) {
        return format!("{}: {} → {}", unnamed(after), before.name, after.name);
    }
    format!("{} → {}", title(before.point()), title(after.point()))
}

/// How far to trust both sides; a note that both have stands once.
fn notes(before: &LedgerSide, after: &LedgerSide, force: bool) -> Vec<String> {
    let [first, second] =
        [before, after].map(|side| trust::notes(side.explained, unit_of_work(side), force));
    let of_both = |note: &String| second.contains(note);
    let named = |side: &LedgerSide, note: &String| format!("`{}`: {note}", side.name);
    let own =
        first.iter().map(|note| if of_both(note) { note.clone() } else { named(before, note) });
    let new = second.iter().filter(|note| !first.contains(note)).map(|note| named(after, note));
    own.chain(new).collect()
}

impl LedgerSide<'_> {
    fn point(&self) -> &Point {
        &self.record.record.points[self.explained.point]
    }
}

/// Why nothing can be compared.
fn no_ledgers(before: &LedgerSide, after: &LedgerSide) -> String {
    let side = [before, after].into_iter().find(|side| side.explained.ledger.is_none());
    let Some(side) = side else { return "no answer: no ledgers to compare".to_string() };
    match side.explained.failures.first() {
        Some(why) => format!("no answer: no run of `{}` finished: {why}", side.name),
        None => {
            format!("no answer: no profiled run of `{}` recorded where the time goes", side.name)
        }
    }
}

/// What times are divided by: "run" for a command whose operations are not counted, else "operation".
pub fn unit_of_work(side: &LedgerSide) -> &'static str {
    side.record.record.unit_of_work(side.point()).name()
}

/// The rows with their changes.
pub fn tree(change: &RowChange, per: &str, names: [&str; 2]) -> LedgerTree {
    let most = change.before.mean.max(change.after.mean);
    let unit = Unit::for_total(most);
    LedgerTree::new(
        format!("time per {per}, {}", unit.name),
        names.map(str::to_string).into(),
        ["change", "±", "by count or share", "by cost or length"],
        node(change, unit, SHOWN_SHARE * most),
    )
}

fn node(change: &RowChange, unit: Unit, least_ns: f64) -> LedgerNode {
    let parts_ns = match &change.split {
        Split::CountAndCost { count_ns, cost_ns, .. } => Some((*count_ns, *cost_ns)),
        Split::ShareAndLength { share_ns, length_ns, .. } => Some((*share_ns, *length_ns)),
        Split::CountUnknown => None,
    };
    let part = |ns: Option<f64>| ns.map_or_else(String::new, |ns| unit.signed(ns));
    let details = vec![
        unit.signed(change.change),
        change.half.map_or_else(String::new, |half| unit.text(half)),
        part(parts_ns.map(|(count, _)| count)),
        part(parts_ns.map(|(_, cost)| cost)),
    ];
    let ns = vec![change.before.mean, change.after.mean];
    LedgerNode {
        rows: below(change, unit, least_ns),
        change: Some(NodeChange { half_ns: change.half, parts_ns }),
        ..LedgerNode::leaf(change.name.clone(), ns, unit, details)
    }
}

/// The rows below one, of which small ones are put together.
fn below(change: &RowChange, unit: Unit, least_ns: f64) -> Vec<LedgerNode> {
    let is_shown = |row: &&RowChange| {
        row.before.mean.max(row.after.mean) >= least_ns || row.change.abs() >= least_ns
    };
    let (shown, small): (Vec<&RowChange>, Vec<&RowChange>) = change.rows.iter().partition(is_shown);
    let mut rows: Vec<LedgerNode> =
        shown.into_iter().map(|row| node(row, unit, least_ns)).collect();
    if !small.is_empty() {
        let sum = |value: fn(&RowChange) -> f64| small.iter().map(|row| value(row)).sum::<f64>();
        let ns = vec![sum(|row| row.before.mean), sum(|row| row.after.mean)];
        let none = String::new();
        let details = vec![unit.signed(sum(|row| row.change)), none.clone(), none.clone(), none];
        let sum = LedgerNode::leaf(small_rows(small.len()), ns, unit, details);
        let small = small.into_iter().map(|row| node(row, unit, least_ns)).collect();
        rows.push(LedgerNode { is_folded: true, rows: small, ..sum });
    }
    rows
}

/// One line that answers whether there are more interrupts from other CPUs, or more expensive ones.
fn interrupts(change: &RowChange, per: &str) -> String {
    let is_sent = |row: &&RowChange| {
        row.name.starts_with("reschedule") || row.name.starts_with("function call")
    };
    let rows: Vec<&RowChange> = change.walk().into_iter().filter(is_sent).collect();
    let mut times = (0.0, 0.0);
    for row in &rows {
        if let Split::CountAndCost { per_operation: (a, b), .. } = row.split {
            times = (times.0 + a, times.1 + b);
        }
    }
    let ns = |value: fn(&RowChange) -> f64| rows.iter().map(|row| value(row)).sum::<f64>();
    let (was, is) = (ns(|row| row.before.mean), ns(|row| row.after.mean));
    if times == (0.0, 0.0) {
        return "Interrupts from other CPUs: none received".to_string();
    }
    let each = |ns: f64, times: f64| {
        if times > 0.0 { duration_ns(ns / times) } else { "none".to_string() }
    };
    format!(
        "Interrupts from other CPUs: {} -> {} received per {per}, {} -> {} each; change {}: {} by \
         count, {} by cost per event",
        numbers::times(times.0),
        numbers::times(times.1),
        each(was, times.0),
        each(is, times.1),
        signed(is - was),
        signed(parts(was, is, times).0),
        signed(parts(was, is, times).1)
    )
}

/// Events whose count per operation changed; `None` if none did.
fn counts(before: &Explained, after: &Explained, per: &str) -> Option<String> {
    const CHANGED: f64 = 0.05;
    const TOLD_MIN: f64 = 1e-3;
    let (was, is) = (&before.counts, &after.counts);
    let names: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let changed = names.into_iter().filter_map(|name| {
        // A call that one side never made is not among its counts.
        let count = |counts: &std::collections::BTreeMap<String, f64>| {
            (!counts.is_empty()).then(|| counts.get(name).copied().unwrap_or(0.0))
        };
        let (was, is) = (count(was)?, count(is)?);
        let most = was.max(is);
        let differs = most >= TOLD_MIN && (is - was).abs() > CHANGED * most;
        let times = super::numbers::times;
        differs.then(|| format!("{name} {} -> {}", times(was), times(is)))
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| format!("Counted per {per}, changed: {}", changed.join(", ")))
}

/// The symmetric split of a change of `times` x `each`.
fn parts(was: f64, is: f64, times: (f64, f64)) -> (f64, f64) {
    if times.0 == 0.0 || times.1 == 0.0 {
        return (is - was, 0.0);
    }
    let each = (was / times.0, is / times.1);
    ((times.1 - times.0) * (each.0 + each.1) / 2.0, (each.1 - each.0) * (times.0 + times.1) / 2.0)
}
