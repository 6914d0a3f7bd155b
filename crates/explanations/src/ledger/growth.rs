//! The ledger of one load over CPU counts: which row grows, how fast, and whether it happens more
//! often or costs more each time.

use ledger::{Explained, Growth, Ledger, answer, growth};
use records::Opened;
use text::Style;
use text::prose::{counted, wrapped};
use text::quantity::signed;
use text::table::{Align, Table};

use crate::ledger::numbers::Unit;
use crate::ledger::removal::Removal;
use crate::ledger::{causes, shortened, title};

/// Rows below this share everywhere are left to their parents.
pub const SHOWN_SHARE: f64 = 0.02;

/// The points of one load.
pub fn text(opened: &Opened, points: &[&Explained], force: bool, style: Style) -> String {
    let point = |explained: &Explained| &opened.record.points[explained.point];
    let mut title = points.first().map(|first| title(point(first))).unwrap_or_default();
    title.truncate(title.find(',').unwrap_or(title.len()));
    let is_refused = |explained: &Explained| explained.refused().is_some() && !force;
    let mut known: Vec<&Explained> = points.to_vec();
    known.retain(|explained| !is_refused(explained) && explained.ledger.is_some());
    known.sort_by_key(|explained| point(explained).cpus);
    let mut text = style.bold(&format!("{title} over CPU counts")) + "\n";
    match &known[..] {
        [] => text += "no profiled run recorded where the time goes\n",
        [_] => text += "only one CPU count: growth needs at least two\n",
        [first, .., last] => {
            let per = opened.record.unit_of_work(point(first)).name();
            let names = [first, last].map(|e| counted(point(e).cpus as usize, "CPU"));
            if let Some(answer) = answer(first, last, force) {
                let names = [&names[0][..], &names[1]];
                let shares = causes::shares(&answer, names, per).into_iter();
                text += &shares.map(|line| wrapped(&line, style.width, 2)).collect::<String>();
                let removal = Removal::for_point(opened, point(last));
                text += &causes::text(&answer, names, per, Some(&removal), style);
            }
            text += "\n";
            let ledgers = known.iter().filter_map(|e| Some((point(e).cpus, e.ledger.as_ref()?)));
            text += &table(&ledgers.collect::<Vec<_>>(), style);
        }
    }
    let refused = points.iter().filter(|explained| is_refused(explained));
    let refused: Vec<String> = refused.map(|e| point(e).cpus.to_string()).collect();
    if !refused.is_empty() {
        text += &format!(
            "left out, because profiling slowed operations too much (see --cpus N, or --force): {} CPUs\n",
            refused.join(", ")
        );
    }
    text
}

/// What an operation costs more at the most CPUs, in a sentence; `None` without two ledgers or without a cause.
pub fn sentence(opened: &Opened, points: &[&Explained], force: bool) -> Option<String> {
    let point = |explained: &Explained| &opened.record.points[explained.point];
    let mut known: Vec<&&Explained> = points.iter().collect();
    known.retain(|one| one.ledger.is_some() && (force || one.refused().is_none()));
    known.sort_by_key(|one| point(one).cpus);
    let [first, .., last] = &known[..] else { return None };
    let names = [first, last].map(|one| counted(point(one).cpus as usize, "CPU"));
    let per = opened.record.unit_of_work(point(first)).name();
    causes::shares(&answer(first, last, force)?, [&names[0], &names[1]], per)
}

pub fn table(ledgers: &[(u32, &Ledger)], style: Style) -> String {
    rows(ledgers, &growth(ledgers), style).within(style.width.max(100)).0
}

/// The whole table.
pub fn rows(ledgers: &[(u32, &Ledger)], growth: &Growth, style: Style) -> Table {
    let largest = growth.ns.iter().map(|ns| ns.mean).fold(0.0, f64::max);
    let unit = Unit::for_total(largest);
    let mut columns = vec![(format!("time per operation, {}", unit.name), Align::Left)];
    columns.extend(ledgers.iter().map(|(cpus, _)| (counted(*cpus as usize, "CPU"), Align::Right)));
    let powers = ["power\nof CPUs", style.plus_minus(), "by\ncount", "by\ncost"];
    columns.extend(powers.map(|heading| (heading.to_string(), Align::Right)));
    let mut table = Table::new(columns);
    add(&mut table, growth, &unit, 0, growth);
    table
}

fn add(table: &mut Table, row: &Growth, unit: &Unit, depth: usize, all: &Growth) {
    let name = if depth == 0 { "all: CPUs x time" } else { &row.name };
    let mut cells = vec![shortened(&format!("{}{name}", "  ".repeat(depth)))];
    cells.extend(row.ns.iter().map(|ns| unit.text(ns.mean)));
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| signed(v, 2));
    let power = row.power.as_ref();
    cells.push(number(power.map(|power| power.of_time)));
    let half = power.and_then(|power| power.half);
    cells.push(half.map_or_else(String::new, |half| format!("{half:.2}")));
    cells.push(number(power.and_then(|power| power.of_count)));
    cells.push(number(power.and_then(|power| power.of_cost)));
    table.row(cells);
    let is_shown = |row: &&Growth| {
        row.ns.iter().zip(&all.ns).any(|(ns, all)| ns.mean >= SHOWN_SHARE * all.mean)
    };
    row.rows.iter().filter(is_shown).for_each(|part| add(table, part, unit, depth + 1, all));
}
