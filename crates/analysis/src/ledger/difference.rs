//! The difference of two ledgers, row by row. Each row's change is split without remainder: into
//! how often and how dear where events were counted, and into share and length where time and
//! not operations makes the row.

use records::Obtained;
use serde::Serialize;

use super::{Belongs, Events, Ledger, PerOperation, Row};
use crate::Student;

/// A row in both ledgers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is.
    pub name: String,
    /// Whether operations make it, or time does.
    pub belongs: Belongs,
    /// How it was obtained, the less exact of both.
    pub obtained: Obtained,
    /// Time per operation before.
    pub before: PerOperation,
    /// Time per operation after.
    pub after: PerOperation,
    /// After less before.
    pub change: f64,
    /// Half of the change's 95 % interval over units; nothing with fewer than two on a side.
    pub half: Option<f64>,
    /// The chance of so large a change were nothing different; of a row that time makes, of so
    /// large a change of its share.
    pub p: Option<f64>,
    /// What the change consists of.
    pub split: Split,
    /// The rows that it consists of, all of either ledger.
    pub rows: Vec<Change>,
}

/// What a change consists of. The parts add up to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// It happens more or less often, and each is dearer or cheaper.
    CountAndCost {
        /// What was counted.
        what: String,
        /// How often per operation, before and after.
        times: (f64, f64),
        /// ns each, before and after; nothing where it did not happen.
        each: (Option<f64>, Option<f64>),
        /// The part that comes of how often.
        count_ns: f64,
        /// The part that comes of how dear.
        cost_ns: f64,
    },
    /// It has more or less of the time, and operations take longer or shorter.
    ShareAndLength {
        /// Its share of all time, before and after.
        share: (f64, f64),
        /// The part that comes of its share: only this is a cause.
        share_ns: f64,
        /// The part that comes of longer operations.
        length_ns: f64,
    },
    /// Nobody counted.
    CountUnknown,
}

/// How `after` differs from `before`.
pub fn difference(before: &Ledger, after: &Ledger) -> Change {
    Sides { before, after }.change(Some(&before.root), Some(&after.root))
}

struct Sides<'a> {
    before: &'a Ledger,
    after: &'a Ledger,
}

impl Sides<'_> {
    fn change(&self, a: Option<&Row>, b: Option<&Row>) -> Change {
        let row = b.or(a).expect("a row is in one ledger at least");
        let (before, after) = (per_operation(self.before, a), per_operation(self.after, b));
        let student = Student::welch(&each(self.before, a), &each(self.after, b));
        let obtained = [a, b].into_iter().flatten().map(|row| row.obtained);
        let inexact = obtained.clone().find(|obtained| *obtained != Obtained::Exact);
        let split = match row.belongs {
            Belongs::Time => self.share_and_length(before.mean, after.mean),
            Belongs::Operation => count_and_cost(a, b, before.mean, after.mean),
        };
        let p = match row.belongs {
            Belongs::Operation => student.map(|student| student.p()),
            Belongs::Time => {
                Student::welch(&shares(self.before, a), &shares(self.after, b)).map(|s| s.p())
            }
        };
        Change {
            name: row.name.clone(),
            belongs: row.belongs,
            obtained: inexact.unwrap_or(row.obtained),
            before,
            after,
            change: after.mean - before.mean,
            half: student.and_then(|student| {
                let (low, high) = student.interval(0.05)?;
                Some((high - low) / 2.0)
            }),
            p,
            split,
            rows: self.rows(a, b),
        }
    }

    /// Rows of both, those of the second ledger first in its order.
    fn rows(&self, a: Option<&Row>, b: Option<&Row>) -> Vec<Change> {
        let (a, b) = (rows(a), rows(b));
        let find = |rows: &[Row], name: &str| rows.iter().position(|row| row.name == name);
        let of_b = b.iter().map(|row| (find(a, &row.name).map(|index| &a[index]), Some(row)));
        let gone = a.iter().filter(|row| find(b, &row.name).is_none());
        let gone = gone.map(|row| (Some(row), None));
        of_b.chain(gone).map(|(a, b)| self.change(a, b)).collect()
    }

    fn share_and_length(&self, before: f64, after: f64) -> Split {
        let length = |ledger: &Ledger| ledger.ns_per_operation(&ledger.root).mean;
        let (long, longer) = (length(self.before), length(self.after));
        let share = (before / long, after / longer);
        Split::ShareAndLength {
            share,
            share_ns: (share.1 - share.0) * (long + longer) / 2.0,
            length_ns: (longer - long) * (share.0 + share.1) / 2.0,
        }
    }
}

fn rows(row: Option<&Row>) -> &[Row] {
    row.map_or(&[], |row| &row.rows)
}

fn per_operation(ledger: &Ledger, row: Option<&Row>) -> PerOperation {
    let none = PerOperation { mean: 0.0, half: None };
    row.map_or(none, |row| ledger.ns_per_operation(row))
}

/// The value per operation of each unit.
fn each(ledger: &Ledger, row: Option<&Row>) -> Vec<f64> {
    let value = |(index, unit): (usize, &super::Unit)| {
        row.map_or(0.0, |row| row.ns[index] as f64) / unit.operations.max(1) as f64
    };
    ledger.units.iter().enumerate().map(value).collect()
}

/// The share of each unit's time.
fn shares(ledger: &Ledger, row: Option<&Row>) -> Vec<f64> {
    let value = |(index, unit): (usize, &super::Unit)| {
        row.map_or(0.0, |row| row.ns[index] as f64) / unit.budget_ns.max(1) as f64
    };
    ledger.units.iter().enumerate().map(value).collect()
}

/// Count and cost share the change as two players share a gain (Shapley): each is changed once
/// first and once second, so that no order is favoured and nothing remains.
fn count_and_cost(a: Option<&Row>, b: Option<&Row>, before: f64, after: f64) -> Split {
    let events = |row: Option<&Row>| row.map(|row| row.events.clone());
    let (a, b) = match (events(a), events(b)) {
        // A row that is not there did not happen.
        (None, Some(Some(b))) => (none_of(&b), b),
        (Some(Some(a)), None) => (a.clone(), none_of(&a)),
        (Some(Some(a)), Some(Some(b))) => (a, b),
        _ => return Split::CountUnknown,
    };
    let times = (a.per_operation().mean, b.per_operation().mean);
    let cost = |ns: f64, times: f64| (times > 0.0).then(|| ns / times);
    let each = (cost(before, times.0), cost(after, times.1));
    let (count_ns, cost_ns) = match each {
        (Some(was), Some(is)) => {
            ((times.1 - times.0) * (was + is) / 2.0, (is - was) * (times.0 + times.1) / 2.0)
        }
        // New or gone: all of it is how often.
        _ => (after - before, 0.0),
    };
    Split::CountAndCost { what: b.what, times, each, count_ns, cost_ns }
}

fn none_of(events: &Events) -> Events {
    Events { what: events.what.clone(), counts: vec![0], operations: vec![1] }
}

impl Change {
    /// The part of the change that is this row's doing.
    pub fn own_ns(&self) -> f64 {
        match self.split {
            Split::ShareAndLength { share_ns, .. } => share_ns,
            _ => self.change,
        }
    }

    /// All rows below, and this one.
    pub fn walk(&self) -> Vec<&Change> {
        let below = self.rows.iter().flat_map(Change::walk);
        std::iter::once(self).chain(below).collect()
    }
}
