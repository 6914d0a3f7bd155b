//! A ledger as text: the rows as a tree, each level adding up to the one above, and below it
//! notes on how far to trust it.

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
pub use crate::ledger::difference::{LedgerSide, text as difference, unit_of_work};
pub use crate::ledger::growth::{sentence as growth_sentence, text as growth};
pub use crate::ledger::ipis::text as ipis;
pub use crate::ledger::locks::text as locks;
pub use crate::ledger::parts::{
    LedgerNode, LedgerPart, LedgerTree, NodeChange, difference_part, explained_part, growth_part,
};

use ledger::{Belongs, Explained, Ledger, LedgerRow, RowEvents, WORK};
use records::{Obtained, Opened, Point};
use text::Style;
use text::prose::{counted, wrapped};
use text::quantity::duration_ns;
use text::table::{Align, Table};

use crate::ledger::numbers::Unit;
use reports::parameters;

/// Rows below this share of all time are put together.
const SHOWN_SHARE: f64 = 0.01;
/// Not so many rows are together that a line each would be longer.
const TOGETHER_MIN: usize = 2;

/// A point, explained.
pub fn explained(opened: &Opened, explained: &Explained, force: bool, style: Style) -> String {
    let point = &opened.record.points[explained.point];
    let mut text = style.bold(&title(point)) + "\n";
    let per = opened.record.unit_of_work(point).name();
    match &explained.ledger {
        Some(_) if explained.refused().is_some() && !force => (),
        Some(ledger) => {
            let sentence = wrapped(&in_a_sentence(ledger, per), style.width, 2);
            text += &format!("{}\n\n", style.bold(sentence.trim_end()));
            text += &table(ledger, point, per, style);
        }
        None => text += "no profiled run recorded where the time goes\n",
    }
    text += "\n";
    text + &trust::text(explained, per, force, style)
}

/// "posix_lock_shared, 2 processes on 2 CPUs".
pub fn title(point: &Point) -> String {
    let variant =
        if point.variant.is_empty() { String::new() } else { format!(" as {}", point.variant) };
    let settings = parameters(point).into_iter().map(|setting| format!(" {setting}"));
    let settings: String = settings.collect();
    let load = match whole_line(point) {
        Some(line) => line.to_string(),
        None => format!("{}{settings}", point.workload),
    };
    let tasks = match &point.command {
        Some(_) => String::new(),
        None => format!(", {}", point.form.counted(point.tasks)),
    };
    format!("{load}{variant}{tasks} on {}", counted(point.cpus as usize, "CPU"))
}

/// The line of a command that is nothing but a placeholder, as where whole commands are compared.
fn whole_line(point: &Point) -> Option<&str> {
    let name = point.command.as_deref()?.strip_prefix('{')?.strip_suffix("...}")?;
    Some(point.parameters.get(name)?.as_str())
}

/// "An operation takes 2.52 us of CPU time: 61 % in system call fcntl (1.54 us), 22 % idle (…), …".
fn in_a_sentence(ledger: &Ledger, per: &str) -> String {
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
        format!("{share:.0} % {} ({})", row.name, duration_ns(ns(row)))
    });
    let article = if per == "run" { "A" } else { "An" };
    let named: Vec<String> = named.collect();
    format!("{article} {per} takes {} of CPU time: {}", duration_ns(all), named.join(", "))
}

fn table(ledger: &Ledger, point: &Point, per: &str, style: Style) -> String {
    let (text, lost) = rows(ledger, point, per, style).within(style.width);
    let lost = if lost.is_empty() {
        String::new()
    } else {
        format!("(columns that do not fit: {})\n", lost.join(", "))
    };
    text + &lost
}

/// The whole table.
fn rows(ledger: &Ledger, point: &Point, per: &str, style: Style) -> Table {
    let total = ledger.ns_per_operation(&ledger.root);
    let unit = Unit::for_total(total.mean);
    let mut table = Table::new([
        (format!("time per {per}, {}", unit.name), Align::Left),
        (String::new(), Align::Right),
        (style.plus_minus().to_string(), Align::Right),
        ("share".to_string(), Align::Right),
        (format!("events\nper {per}"), Align::Right),
        ("cost per\nevent".to_string(), Align::Right),
        ("measured".to_string(), Align::Left),
    ]);
    let all = format!("all: {} x time", counted(point.cpus as usize, "CPU"));
    let page = LedgerPage { ledger, unit, total: total.mean };
    page.row(&mut table, &ledger.root, &all, 0);
    table
}

struct LedgerPage<'a> {
    ledger: &'a Ledger,
    unit: Unit,
    total: f64,
}

impl LedgerPage<'_> {
    fn row(&self, table: &mut Table, row: &LedgerRow, name: &str, depth: usize) {
        let value = self.ledger.ns_per_operation(row);
        let (times, each) = row.events.as_ref().map_or_else(Default::default, |events| {
            (numbers::times(events.per_operation().mean), self.each(row, events))
        });
        table.row(vec![
            shortened(&format!("{}{name}", "  ".repeat(depth))),
            self.unit.text(value.mean),
            value.half.map_or_else(String::new, |half| self.unit.text(half)),
            numbers::percent(value.mean / self.total),
            times,
            each,
            how(row),
        ]);
        let (shown, small): (Vec<&LedgerRow>, Vec<&LedgerRow>) =
            row.rows.iter().partition(|row| self.is_shown(row));
        for row in shown {
            self.row(table, row, &row.name, depth + 1);
        }
        match small.len() {
            0 => (),
            few if few < TOGETHER_MIN => self.row(table, small[0], &small[0].name, depth + 1),
            many => {
                let sum = together(&small);
                self.row(table, &sum, &format!("{many} rows below 1 % each"), depth + 1);
            }
        }
    }

    fn is_shown(&self, row: &LedgerRow) -> bool {
        self.ledger.ns_per_operation(row).mean >= SHOWN_SHARE * self.total
    }

    fn each(&self, row: &LedgerRow, events: &RowEvents) -> String {
        let times = events.per_operation().mean;
        if times > 0.0 {
            text::quantity::duration_ns(self.ledger.ns_per_operation(row).mean / times)
        } else {
            String::new()
        }
    }
}

/// A name that leaves room for the numbers: its middle goes.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 46;
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST {
        return name.to_string();
    }
    let (head, tail) = (LONGEST / 2 + 4, LONGEST / 2 - 6);
    let joined = |letters: &[char]| letters.iter().collect::<String>();
    format!("{}..{}", joined(&letters[..head]), joined(&letters[letters.len() - tail..]))
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
