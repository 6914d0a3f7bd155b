//! The difference of two ledgers, row by row and per operation: how much each row changed, how
//! sure that is, and whether it happens more often or costs more each time.
//!
//! A change of events × cost is split as dN·(C₁+C₂)/2 + dC·(N₁+N₂)/2, which is exact, and the same
//! whichever ledger comes first (the Shapley value of two factors). A row that belongs to time
//! (other tasks, the host) is split likewise into its share of the time and the length of the
//! operation: longer operations have more of it without being made longer by it.

use records::Obtained;
use serde::Serialize;

use super::{Belongs, Events, Ledger, Row};
use crate::student::Student;
use crate::{Spread, holm_adjusted};

/// What changed from one ledger to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// All the time; the rows below add up to it.
    pub root: Change,
}

/// What changed of one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The row's name.
    pub name: String,
    /// Whether operations make it, or time does.
    pub belongs: Belongs,
    /// How it was obtained: the worse of the two.
    pub obtained: Obtained,
    /// Which of the ledgers have it.
    pub presence: Presence,
    /// Time per operation before; 0 where the row is new.
    pub base: f64,
    /// Time per operation now; 0 where the row is gone.
    pub new: f64,
    /// Half the width of the 95 % interval of the change; nothing where no error can be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half: Option<f64>,
    /// Probability of such a change were nothing different. For a row that belongs to time, of
    /// such a change of its share.
    pub p: f64,
    /// What the change consists of.
    pub split: Split,
    /// Changes of its parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Change>,
}

/// Which ledgers have a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Both.
    Both,
    /// Only the second.
    New,
    /// Only the first.
    Gone,
}

/// What a change consists of. The two parts add up to the change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Nobody counted.
    Unknown,
    /// How often it happens, and how dear each time is.
    Counted {
        /// What was counted.
        what: String,
        /// Events per operation, before and now.
        counts: (f64, f64),
        /// Nanoseconds each, before and now; nothing where there were none.
        costs: (Option<f64>, Option<f64>),
        /// Change that comes from the number.
        by_count: f64,
        /// Change that comes from the cost of each.
        by_cost: f64,
    },
    /// For a row that belongs to time.
    Shared {
        /// Its share of the time, before and now.
        shares: (f64, f64),
        /// Change that comes from the share.
        by_share: f64,
        /// Change that comes with longer or shorter operations.
        by_length: f64,
    },
}

/// A change that is no accident.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause<'a> {
    /// Names of the rows down to it, below the root.
    pub path: Vec<&'a str>,
    /// The change of the row.
    pub change: &'a Change,
    /// Time per operation that it explains.
    pub explains: f64,
}

/// Changes, the largest first, and what is left: all together are the change of the root.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Causes<'a> {
    /// Changes that are no accidents.
    pub found: Vec<Cause<'a>>,
    /// What rows of time have more or less of because operations got longer or shorter.
    pub with_length: f64,
    /// What all other rows changed together.
    pub below_noise: f64,
}

/// The difference of two ledgers.
pub fn difference(base: &Ledger, new: &Ledger) -> Difference {
    let ledgers = [base, new];
    Difference { root: change(&ledgers, [Some(&base.root), Some(&new.root)]) }
}

/// Of two ledgers, the difference of a row that at least one of them has.
fn change(ledgers: &[&Ledger; 2], rows: [Option<&Row>; 2]) -> Change {
    let any = rows[1].or(rows[0]).expect("a row of one of the ledgers");
    let sides = [0, 1].map(|side| Side::of(ledgers[side], rows[side], rows[1 - side]));
    let change = sides[1].per_operation - sides[0].per_operation;
    let of_operations = student(&sides, |side| side.values(|unit| unit.operations), |s| s.floor);
    let decides = match any.belongs {
        Belongs::Operation => of_operations,
        Belongs::Time => {
            student(&sides, |side| side.values(|unit| unit.budget_ns), |s| s.floor_of_share())
        }
    };
    Change {
        name: any.name.clone(),
        belongs: any.belongs,
        obtained: obtained(rows),
        presence: presence(&sides, rows),
        base: sides[0].per_operation,
        new: sides[1].per_operation,
        half: of_operations.and_then(|s| Some(s.interval(0.05)?.1 - s.estimate)),
        p: decides.map_or(1.0, |student| student.p()),
        split: split(any.belongs, &sides, change),
        rows: parts(ledgers, rows),
    }
}

/// The parts of either row: those of the new one in its order, then those that are gone.
fn parts(ledgers: &[&Ledger; 2], rows: [Option<&Row>; 2]) -> Vec<Change> {
    let of = |side: usize| rows[side].map_or(&[][..], |row| &row.rows[..]);
    let find = |side: usize, name: &str| of(side).iter().find(|row| row.name == name);
    let here = of(1).iter().map(|row| change(ledgers, [find(0, &row.name), Some(row)]));
    let gone = of(0).iter().filter(|row| find(1, &row.name).is_none());
    here.chain(gone.map(|row| change(ledgers, [Some(row), None]))).collect()
}

/// One ledger's part in a change.
struct Side<'a> {
    ledger: &'a Ledger,
    row: Option<&'a Row>,
    per_operation: f64,
    share: f64,
    /// The error per operation that a number of samples has by itself; 0 where none were taken.
    floor: f64,
}

impl<'a> Side<'a> {
    fn of(ledger: &'a Ledger, row: Option<&'a Row>, other: Option<&Row>) -> Side<'a> {
        let operations: u64 = ledger.units.iter().map(|unit| unit.operations).sum();
        let all = ledger.root.total_ns().max(1) as f64;
        let ns = row.map_or(0, Row::total_ns) as f64;
        let share = ns / all;
        // Where it was never seen it could have been seen once.
        let samples = match row.and_then(|row| row.samples) {
            None => other.filter(|_| row.is_none()).and_then(|row| row.samples).map(|_| 1.0),
            Some(samples) => Some(samples as f64),
        };
        let quantum = |row: &Row| row.total_ns() as f64 / row.samples.unwrap_or(0).max(1) as f64;
        let quantum = row.filter(|row| row.total_ns() > 0).or(other).map_or(0.0, quantum);
        let floor = samples.map_or(0.0, |n| quantum * (n.max(1.0) * (1.0 - share).max(0.0)).sqrt());
        let operations = operations.max(1) as f64;
        Side { ledger, row, per_operation: ns / operations, share, floor: floor / operations }
    }

    /// The row's time over something, unit by unit.
    fn values(&self, over: impl Fn(&super::Unit) -> u64) -> Vec<f64> {
        let units = self.ledger.units.iter().enumerate();
        let ns = |unit: usize| self.row.map_or(0, |row| row.ns[unit]);
        units.map(|(i, unit)| ns(i) as f64 / over(unit).max(1) as f64).collect()
    }

    fn floor_of_share(&self) -> f64 {
        let operations: u64 = self.ledger.units.iter().map(|unit| unit.operations).sum();
        self.floor * operations as f64 / self.ledger.root.total_ns().max(1) as f64
    }
}

/// Welch's form, with errors of at least what counting samples has. Nothing where a side has
/// fewer than two units, or nothing varies.
fn student(
    sides: &[Side; 2],
    values: impl Fn(&Side) -> Vec<f64>,
    floor: impl Fn(&Side) -> f64,
) -> Option<Student> {
    let mut parts = [(0.0, 0.0, 0.0); 2];
    for (part, side) in parts.iter_mut().zip(sides) {
        let spread = Spread::of(&values(side))?;
        let freedom = spread.n as f64 - 1.0;
        let measured = spread.stddev? / (spread.n as f64).sqrt();
        let floor = floor(side);
        let error = measured.max(floor);
        *part = (spread.mean, error * error, freedom);
    }
    let [(mean_a, a, freedom_a), (mean_b, b, freedom_b)] = parts;
    let sum = a + b;
    let freedom = sum * sum / (a * a / freedom_a + b * b / freedom_b);
    let usable = sum > 0.0 && freedom.is_finite() && freedom > 0.0;
    usable.then(|| Student { estimate: mean_b - mean_a, error: sum.sqrt(), freedom })
}

fn obtained(rows: [Option<&Row>; 2]) -> Obtained {
    let all = rows.into_iter().flatten().map(|row| row.obtained);
    all.max_by_key(|obtained| *obtained as u8).unwrap_or(Obtained::Exact)
}

fn presence(sides: &[Side; 2], rows: [Option<&Row>; 2]) -> Presence {
    let is_there = |side: usize| rows[side].is_some() && sides[side].per_operation > 0.0;
    match (is_there(0), is_there(1)) {
        (false, true) => Presence::New,
        (true, false) => Presence::Gone,
        _ => Presence::Both,
    }
}

fn split(belongs: Belongs, sides: &[Side; 2], change: f64) -> Split {
    if belongs == Belongs::Time {
        let length = |side: &Side| side.ledger.ns_per_operation(&side.ledger.root).mean;
        let lengths = (length(&sides[0]) + length(&sides[1])) / 2.0;
        let shares = (sides[0].share, sides[1].share);
        let by_share = (shares.1 - shares.0) * lengths;
        return Split::Shared { shares, by_share, by_length: change - by_share };
    }
    let events = |side: &Side| side.row.and_then(|row| row.events.clone());
    let counts = match (events(&sides[0]), events(&sides[1])) {
        (Some(base), Some(new)) => [base, new],
        // What is not there did not happen.
        (Some(base), None) if sides[1].row.is_none() => [base.clone(), none_of(base)],
        (None, Some(new)) if sides[0].row.is_none() => [none_of(new.clone()), new],
        _ => return Split::Unknown,
    };
    let [n1, n2] = [0, 1].map(|side| counts[side].per_operation().mean);
    let cost = |n: f64, side: &Side| (n > 0.0).then(|| side.per_operation / n);
    let costs = (cost(n1, &sides[0]), cost(n2, &sides[1]));
    let by_cost = match costs {
        (Some(c1), Some(c2)) => (c2 - c1) * (n1 + n2) / 2.0,
        // Without events on one side there is no cost to compare: all of it is their number.
        _ => 0.0,
    };
    let by_count = change - by_cost;
    let what = counts[1].what.clone();
    Split::Counted { what, counts: (n1, n2), costs, by_count, by_cost }
}

fn none_of(events: Events) -> Events {
    Events { counts: vec![0; events.counts.len()], ..events }
}

impl Difference {
    /// The changes that are no accidents, at this level for all of them together (Holm). Where
    /// parts are too small to be sure of but their sum is not, the sum is told.
    pub fn causes(&self, alpha: f64) -> Causes<'_> {
        let mut nodes = Vec::new();
        self.root.rows.iter().for_each(|row| row.list(&mut Vec::new(), &mut nodes));
        let p: Vec<f64> = nodes.iter().map(|node| node.change.p).collect();
        let clear: Vec<bool> = holm_adjusted(&p).into_iter().map(|p| p <= alpha).collect();
        let mut found = Vec::new();
        // Parts come after what they are parts of: backwards, they are seen first.
        let mut taken = vec![false; nodes.len()];
        for index in (0..nodes.len()).rev() {
            let end = index + nodes[index].size;
            let parts_told = taken[index + 1..end].iter().any(|taken| *taken);
            if clear[index] && !parts_told {
                taken[index] = true;
                found.push(nodes[index].cause());
            }
        }
        found.sort_by(|a, b| b.explains.abs().total_cmp(&a.explains.abs()));
        let with_length = self.root.with_length();
        let told: f64 = found.iter().map(|cause| cause.explains).sum();
        let below_noise = self.root.new - self.root.base - with_length - told;
        Causes { found, with_length, below_noise }
    }
}

/// A change in its place, with how many nodes it and its parts are.
struct Node<'a> {
    path: Vec<&'a str>,
    change: &'a Change,
    size: usize,
}

impl<'a> Node<'a> {
    fn cause(&self) -> Cause<'a> {
        Cause { path: self.path.clone(), change: self.change, explains: self.change.explains() }
    }
}

impl Change {
    /// How much longer operations are by it; what merely goes with their length left out.
    pub fn explains(&self) -> f64 {
        self.new - self.base - self.with_length()
    }

    /// What rows of time in it have more of because operations got longer.
    fn with_length(&self) -> f64 {
        match &self.split {
            Split::Shared { by_length, .. } => *by_length,
            _ => self.rows.iter().map(Change::with_length).sum(),
        }
    }

    fn list<'a>(&'a self, path: &mut Vec<&'a str>, nodes: &mut Vec<Node<'a>>) {
        path.push(&self.name);
        let index = nodes.len();
        nodes.push(Node { path: path.clone(), change: self, size: 1 });
        self.rows.iter().for_each(|row| row.list(path, nodes));
        nodes[index].size = nodes.len() - index;
        path.pop();
    }
}

#[cfg(test)]
mod tests;
