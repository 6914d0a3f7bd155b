//! Two ledgers against each other: what changed per operation, and what made it.

use ledger::{Answer, Explained, RowChange, Split, answer};
use records::Opened;
use text::Style;
use text::prose::wrapped;
use text::quantity::duration_ns;
use text::table::{Align, Table};

use crate::ledger::causes::{self, signed};
use crate::ledger::numbers::{self, Unit};
use crate::ledger::removal::Removal;
use crate::ledger::{flushes, shortened, title, trust};

/// Rows that change by less than this share of an operation are put together.
pub const SHOWN_SHARE: f64 = 0.01;

/// One side of a difference.
pub struct LedgerSide<'a> {
    /// Name of the variant.
    pub name: &'a str,
    /// Its record.
    pub record: &'a Opened,
    /// Its point, explained.
    pub explained: &'a Explained,
}

/// What differs between two points, as text.
pub fn text(before: &LedgerSide, after: &LedgerSide, force: bool, style: Style) -> String {
    let point = |side: &LedgerSide| title(&side.record.record.points[side.explained.point]);
    let mut text = style.bold(&format!("{} -> {}", point(before), point(after))) + "\n";
    let answer = answer(before.explained, after.explained, force);
    match &answer {
        Some(answer) => text += &answered(answer, before, after, style),
        None => text += &wrapped(&no_ledgers(before, after), style.width, 2),
    }
    // Where the answer stands, so do the ledgers that it rests on.
    let force = force || answer.is_some_and(|answer| !answer.refused);
    for side in [before, after] {
        let notes = trust::text(side.explained, unit_of_work(side), force, style);
        text += &format!("\n{}:\n{notes}", side.name);
    }
    text
}

/// Why nothing can be compared.
pub fn no_ledgers(before: &LedgerSide, after: &LedgerSide) -> String {
    let side = [before, after].into_iter().find(|side| side.explained.ledger.is_none());
    let Some(side) = side else { return "no answer: no ledgers to compare".to_string() };
    match side.explained.failures.first() {
        Some(why) => format!("no answer: no run of `{}` finished: {why}", side.name),
        None => {
            format!("no answer: no profiled run of `{}` recorded where the time goes", side.name)
        }
    }
}

/// The answer, its causes, and the ledger that they rest on.
fn answered(answer: &Answer, before: &LedgerSide, after: &LedgerSide, style: Style) -> String {
    let (per, names) = (unit_of_work(after), [before.name, after.name]);
    let opened = after.record;
    let removal = Removal::for_point(opened, &opened.record.points[after.explained.point]);
    let mut text = causes::text(answer, names, per, Some(&removal), style);
    if answer.refused {
        return text;
    }
    let change = &answer.change;
    text += "\n";
    text += &table(change, per, names, style);
    text += &interrupts(change, per, style);
    text += &flushes::text(change, before.explained, after.explained, style);
    text + &counts(before.explained, after.explained, per, style)
}

/// What times are divided by: "run" for a command whose operations are not counted, else "operation".
pub fn unit_of_work(side: &LedgerSide) -> &'static str {
    let record = &side.record.record;
    record.unit_of_work(&record.points[side.explained.point]).name()
}

pub fn table(change: &RowChange, per: &str, names: [&str; 2], style: Style) -> String {
    rows(change, per, names, style).within(style.width.max(100)).0
}

/// The whole table.
pub fn rows(change: &RowChange, per: &str, names: [&str; 2], style: Style) -> Table {
    let unit = Unit::for_total(change.before.mean.max(change.after.mean));
    let mut table = Table::new([
        (format!("time per {per}, {}", unit.name), Align::Left),
        (names[0].to_string(), Align::Right),
        (names[1].to_string(), Align::Right),
        ("change".to_string(), Align::Right),
        (style.plus_minus().to_string(), Align::Right),
        ("by count\nor share".to_string(), Align::Right),
        ("by cost\nor length".to_string(), Align::Right),
    ]);
    let least_ns = SHOWN_SHARE * change.before.mean.max(change.after.mean);
    add(&mut table, change, &unit, 0, least_ns);
    table
}

fn add(table: &mut Table, change: &RowChange, unit: &Unit, depth: usize, least_ns: f64) {
    let (count, cost) = match &change.split {
        Split::CountAndCost { count_ns, cost_ns, .. } => (Some(*count_ns), Some(*cost_ns)),
        Split::ShareAndLength { share_ns, length_ns, .. } => (Some(*share_ns), Some(*length_ns)),
        Split::CountUnknown => (None, None),
    };
    let part = |ns: Option<f64>| ns.map_or_else(String::new, |ns| unit.signed(ns));
    table.row(vec![
        shortened(&format!("{}{}", "  ".repeat(depth), change.name)),
        unit.text(change.before.mean),
        unit.text(change.after.mean),
        unit.signed(change.change),
        change.half.map_or_else(String::new, |half| unit.text(half)),
        part(count),
        part(cost),
    ]);
    let is_shown = |row: &&RowChange| {
        row.before.mean.max(row.after.mean) >= least_ns || row.change.abs() >= least_ns
    };
    let (shown, small): (Vec<&RowChange>, Vec<&RowChange>) = change.rows.iter().partition(is_shown);
    for row in shown {
        add(table, row, unit, depth + 1, least_ns);
    }
    if !small.is_empty() {
        let sum = |value: fn(&RowChange) -> f64| small.iter().map(|row| value(row)).sum::<f64>();
        let name = format!("{}{} rows below 1 % each", "  ".repeat(depth + 1), small.len());
        table.row(vec![
            name,
            unit.text(sum(|row| row.before.mean)),
            unit.text(sum(|row| row.after.mean)),
            unit.signed(sum(|row| row.change)),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
}

/// One line that answers whether there are more interrupts from other CPUs, or more expensive ones.
pub fn interrupts(change: &RowChange, per: &str, style: Style) -> String {
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
        return "interrupts from other CPUs: none received\n".to_string();
    }
    let each = |ns: f64, times: f64| {
        if times > 0.0 { duration_ns(ns / times) } else { "none".to_string() }
    };
    let line = format!(
        "interrupts from other CPUs: {} -> {} received per {per}, {} -> {} each; change {}: {} by \
         count, {} by cost per event",
        numbers::times(times.0),
        numbers::times(times.1),
        each(was, times.0),
        each(is, times.1),
        signed(is - was),
        signed(parts(was, is, times).0),
        signed(parts(was, is, times).1)
    );
    wrapped(&line, style.width, 2)
}

/// Events whose count per operation changed.
pub fn counts(before: &Explained, after: &Explained, per: &str, style: Style) -> String {
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
    if changed.is_empty() {
        String::new()
    } else {
        let line = format!("counted per {per}, changed: {}", changed.join(", "));
        wrapped(&line, style.width, 2)
    }
}

/// The symmetric split of a change of `times` x `each`.
fn parts(was: f64, is: f64, times: (f64, f64)) -> (f64, f64) {
    if times.0 == 0.0 || times.1 == 0.0 {
        return (is - was, 0.0);
    }
    let each = (was / times.0, is / times.1);
    ((times.1 - times.0) * (each.0 + each.1) / 2.0, (each.1 - each.0) * (times.0 + times.1) / 2.0)
}
