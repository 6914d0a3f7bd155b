//! The ledger of one load over CPU counts: which row grows, how fast, and whether it happens more
//! often or costs more each time.

use ledger::{Explained, Growth, Ledger, growth, growth_answer};
use records::Opened;
use text::prose::counted;
use text::quantity::signed;

use crate::ledger::numbers::Unit;
use crate::ledger::parts::{LedgerNode, LedgerPart, LedgerTree};
use crate::ledger::removal::Removal;
use crate::ledger::{causes, load};

/// Rows below this share everywhere are left to their parents.
const SHOWN_SHARE: f64 = 0.02;

/// The points of one load, which differ only in their CPUs.
pub fn growth_part(opened: &Opened, points: &[&Explained], force: bool) -> LedgerPart {
    let cpus = |one: &Explained| opened.record.points[one.point].cpus;
    let known = known(opened, points);
    let load = points.first().map(|first| load(&opened.record.points[first.point]));
    let title = format!("{} over CPU counts", load.unwrap_or_default());
    let notes = slowed(&known, cpus);
    let part = LedgerPart { title, notes, ..LedgerPart::default() };
    let [first, .., last] = &known[..] else {
        let answer = match known.len() {
            0 => "no profiled run recorded where the time goes",
            _ => "only one CPU count: growth needs at least two",
        };
        return LedgerPart { answer: answer.to_string(), ..part };
    };
    let per = opened.record.unit_of_work(&opened.record.points[first.point]).name();
    let ledgers = known.iter().filter_map(|one| Some((cpus(one), one.ledger.as_ref()?)));
    let tree = Some(tree(&ledgers.collect::<Vec<_>>(), per));
    let Some(answer) = growth_answer(first, last, force) else {
        return LedgerPart { tree, ..part };
    };
    let names = [first, last].map(|one| counted(cpus(one) as usize, "CPU"));
    let names = [&names[0][..], &names[1]];
    let removal = Removal::for_point(opened, &opened.record.points[last.point]);
    let mut sentences: Vec<String> = causes::shares(&answer, names, per).into_iter().collect();
    sentences.push(causes::in_a_sentence(&answer, names, per));
    sentences.extend(causes::paragraphs(&answer, per, Some(&removal)));
    LedgerPart { answer: sentences.remove(0), causes: sentences, tree, ..part }
}

/// Notes on points whose operations took longer while profiled. They are shown all the same: where tasks contend, a
/// profile costs most, and that point is the one asked about.
fn slowed(points: &[&Explained], cpus: impl Fn(&Explained) -> u32) -> Vec<String> {
    let note = |one: &&Explained| {
        let cost = one.refused()?;
        Some(format!(
            "at {}, profiling made operations {:.0} % longer: rows have the right order, but each may be off by \
             as much",
            counted(cpus(one) as usize, "CPU"),
            100.0 * cost.median
        ))
    };
    points.iter().filter_map(note).collect()
}

/// The points with ledgers, by their CPUs.
fn known<'a>(opened: &Opened, points: &[&'a Explained]) -> Vec<&'a Explained> {
    let mut known = points.to_vec();
    known.retain(|one| one.ledger.is_some());
    known.sort_by_key(|one| opened.record.points[one.point].cpus);
    known
}

/// What an operation costs more at the most CPUs, in a sentence; `None` without two ledgers or without a cause.
pub fn sentence(opened: &Opened, points: &[&Explained], force: bool) -> Option<String> {
    let known = known(opened, points);
    let [first, .., last] = &known[..] else { return None };
    let point = |one: &Explained| &opened.record.points[one.point];
    let names = [first, last].map(|one| counted(point(one).cpus as usize, "CPU"));
    let per = opened.record.unit_of_work(point(first)).name();
    causes::shares(&growth_answer(first, last, force)?, [&names[0], &names[1]], per)
}

/// How the rows of ledgers grow with their CPUs.
pub fn tree(ledgers: &[(u32, &Ledger)], per: &str) -> LedgerTree {
    let growth = growth(ledgers);
    let largest = growth.ns.iter().map(|ns| ns.mean).fold(0.0, f64::max);
    let unit = Unit::for_total(largest);
    LedgerTree::new(
        format!("time per {per}, {}", unit.name),
        ledgers.iter().map(|(cpus, _)| counted(*cpus as usize, "CPU")).collect(),
        ["power of CPUs", "±", "by count", "by cost"],
        node(&growth, "all: CPUs x time", unit, &growth),
    )
}

fn node(row: &Growth, name: &str, unit: Unit, all: &Growth) -> LedgerNode {
    let is_shown = |row: &&Growth| {
        let mut sides = row.ns.iter().zip(&all.ns);
        sides.any(|(ns, all)| ns.mean >= SHOWN_SHARE * all.mean)
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
        rows: rows.map(|part| node(part, &part.name, unit, all)).collect(),
        ..LedgerNode::leaf(name.to_string(), ns, unit, details)
    }
}
