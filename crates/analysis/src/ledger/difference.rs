//! The difference of two ledgers, row by row. Each row's change is split without remainder: into
//! how often and how dear where events were counted, and into share and length where time and
//! not operations makes the row.

use records::Obtained;
use serde::Serialize;

use super::chance::{self, Side};
use super::{Belongs, Events, Ledger, PerOperation, Row};

/// A row in both ledgers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is.
    pub name: String,
    /// Whether operations make it, or time does.
    pub belongs: Belongs,
    /// How it was obtained, the less exact of both.
    pub obtained: Obtained,
    /// Samples that it rests on before and after, where it is sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<(u64, u64)>,
    /// Time per operation before.
    pub before: PerOperation,
    /// Time per operation after.
    pub after: PerOperation,
    /// After less before.
    pub change: f64,
    /// Half of the change's 95 % interval over units; nothing with fewer than two on a side.
    pub half: Option<f64>,
    /// The part of the change that is this row's doing: all of it but what time makes of longer
    /// operations, here or in a row below.
    pub own_ns: f64,
    /// The 95 % interval of that part, which need not be symmetric.
    pub own_interval: Option<(f64, f64)>,
    /// The chance of so large a part, or of so many more or fewer events where those explain it, were
    /// nothing different.
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

/// Changes that are smaller, as a share of an operation, do not matter.
pub(super) const SHARE_MIN: f64 = 0.01;

/// How `after` differs from `before`.
pub fn difference(before: &Ledger, after: &Ledger) -> Change {
    let length = |ledger: &Ledger| ledger.ns_per_operation(&ledger.root).mean;
    let lengths = (length(before), length(after));
    let sides = Sides { before, after, lengths, pairs: pairs(before, after) };
    sides.change(Some(&before.root), Some(&after.root), &Within::default())
}

/// Units of the same block: they ran next to each other if both sides are of one record. If they
/// are of two, nothing is next to anything, and a pair is as good as any other.
fn pairs(before: &Ledger, after: &Ledger) -> Vec<(usize, usize)> {
    let partner = |block: Option<u32>| {
        let block = block?;
        after.units.iter().position(|unit| unit.block == Some(block))
    };
    let units = before.units.iter().enumerate();
    units.filter_map(|(index, unit)| Some((index, partner(unit.block)?))).collect()
}

struct Sides<'a> {
    before: &'a Ledger,
    after: &'a Ledger,
    /// ns of an operation.
    lengths: (f64, f64),
    pairs: Vec<(usize, usize)>,
}

/// What numbers of samples leave open, in ns per operation.
#[derive(Default)]
struct Noise {
    /// Standard errors of both sides.
    before: f64,
    after: f64,
    /// What has to be added before a logarithm.
    start: f64,
}

/// So many samples are added to those of a unit, or no sample at all would be infinitely less than
/// one, and one much less than two.
const STARTING_SAMPLES: f64 = 2.0;

/// What a sampled row is a part of.
#[derive(Default)]
struct Within {
    /// Samples of all its parts.
    samples: (u64, u64),
    /// Its own time, which is exact; nothing above where samples begin.
    whole: Option<(Side, Side)>,
}

impl Sides<'_> {
    fn change(&self, a: Option<&Row>, b: Option<&Row>, within: &Within) -> Change {
        let row = b.or(a).expect("a row is in one ledger at least");
        let (before, after) = (per_operation(self.before, a), per_operation(self.after, b));
        let obtained = [a, b].into_iter().flatten().map(|row| row.obtained);
        let inexact = obtained.clone().find(|obtained| *obtained != Obtained::Exact);
        let split = match row.belongs {
            Belongs::Time => self.share_and_length(before.mean, after.mean),
            Belongs::Operation => count_and_cost(a, b, before.mean, after.mean),
        };
        let noise = self.noise(a, b, within.samples);
        let start = SHARE_MIN * self.middle() + noise.start;
        let chance = |before: Vec<f64>, after: Vec<f64>| {
            let before = Side { values: before, noise: noise.before };
            let after = Side { values: after, noise: noise.after };
            let whole = within.whole.as_ref();
            chance::Row { before, after, whole, pairs: &self.pairs }.chance(start)
        };
        let all = chance(each(self.before, a), each(self.after, b));
        let own = chance(self.own(self.before, a), self.own(self.after, b));
        let change = after.mean - before.mean;
        let samples = match (samples(a), samples(b)) {
            (None, None) => None,
            (was, is) => Some((was.unwrap_or(0), is.unwrap_or(0))),
        };
        let rows = self.rows(a, b, within);
        let own_ns = match split {
            Split::ShareAndLength { share_ns, .. } => share_ns,
            _ => change - rows.iter().map(|row| row.change - row.own_ns).sum::<f64>(),
        };
        Change {
            name: row.name.clone(),
            belongs: row.belongs,
            obtained: inexact.unwrap_or(row.obtained),
            samples,
            before,
            after,
            change,
            half: all.and_then(|all| all.half),
            own_ns,
            own_interval: own.and_then(|own| own.interval(own_ns)),
            p: either(own.map(|own| own.p), self.counted(a, b, &split, own_ns)),
            split,
            rows,
        }
    }

    /// The chance of so different a number of events; nothing where nobody counted, and where it is not
    /// their number that makes the change. A count is exact where time is sampled: one call more in
    /// each operation is beyond doubt, however few samples fell into it.
    fn counted(&self, a: Option<&Row>, b: Option<&Row>, split: &Split, own_ns: f64) -> Option<f64> {
        let Split::CountAndCost { times, count_ns, .. } = split else { return None };
        let makes = count_ns * own_ns > 0.0 && count_ns.abs() >= SHARE_MIN * self.middle();
        let side = |row: Option<&Row>, units: usize| match row.and_then(|row| row.events.as_ref()) {
            Some(events) => {
                let values = events.counts.iter().zip(&events.operations);
                let operations: u64 = events.operations.iter().sum();
                let noise = (events.counts.iter().sum::<u64>() as f64).max(1.0).sqrt();
                Side {
                    values: values.map(|(n, of)| *n as f64 / (*of).max(1) as f64).collect(),
                    noise: noise / operations.max(1) as f64,
                }
            }
            None => Side { values: vec![0.0; units], noise: 0.0 },
        };
        let counted = |row: Option<&Row>| Some(row?.events.as_ref()?.counts.len());
        let units = counted(a).or(counted(b)).filter(|_| makes)?;
        let (before, after) = (side(a, units), side(b, units));
        let row = chance::Row { before, after, whole: None, pairs: &[] };
        let start = SHARE_MIN * (times.0 + times.1) / 2.0;
        row.chance(start).map(|chance| chance.p).or_else(|| row.of_constants(start))
    }

    /// An operation that is as long as those of both sides on average.
    fn middle(&self) -> f64 {
        (self.lengths.0 + self.lengths.1) / 2.0
    }

    /// What of a row is its own doing, per operation, of each unit: of rows that time makes, what
    /// their share would have of operations of the same length on both sides.
    fn own(&self, ledger: &Ledger, row: Option<&Row>) -> Vec<f64> {
        let Some(row) = row else { return vec![0.0; ledger.units.len()] };
        match row.belongs {
            Belongs::Operation if row.rows.is_empty() => each(ledger, Some(row)),
            Belongs::Operation => {
                let parts: Vec<Vec<f64>> =
                    row.rows.iter().map(|part| self.own(ledger, Some(part))).collect();
                let sum = |unit: usize| parts.iter().map(|part| part[unit]).sum();
                (0..ledger.units.len()).map(sum).collect()
            }
            Belongs::Time => {
                let share = |(ns, unit): (&u64, &super::Unit)| {
                    *ns as f64 / unit.budget_ns.max(1) as f64 * self.middle()
                };
                row.ns.iter().zip(&ledger.units).map(share).collect()
            }
        }
    }

    /// What numbers of samples leave open. A row with so many of all samples is a draw from a binomial
    /// law; one without any may well have had one.
    fn noise(&self, a: Option<&Row>, b: Option<&Row>, sampled: (u64, u64)) -> Noise {
        let of = |row: Option<&Row>| {
            row.map_or((0, 0), |row| (row.samples.unwrap_or(0), row.total_ns()))
        };
        let ((n_a, ns_a), (n_b, ns_b)) = (of(a), of(b));
        if n_a + n_b == 0 {
            return Noise::default();
        }
        let sample_ns = (ns_a + ns_b) as f64 / (n_a + n_b) as f64;
        // What a sample of all units is worth, per operation.
        let worth = |ledger: &Ledger| {
            let operations: u64 = ledger.units.iter().map(|unit| unit.operations).sum();
            sample_ns / operations.max(1) as f64
        };
        let error = |n: u64, all: u64| {
            let others = 1.0 - n as f64 / all.max(n).max(1) as f64;
            (n as f64 * others).max(1.0).sqrt()
        };
        let units = |ledger: &Ledger| ledger.units.len() as f64;
        let (before, after) = (worth(self.before), worth(self.after));
        let (one_before, one_after) = (before * units(self.before), after * units(self.after));
        Noise {
            before: before * error(n_a, sampled.0),
            after: after * error(n_b, sampled.1),
            start: STARTING_SAMPLES * (one_before + one_after) / 2.0,
        }
    }

    /// Rows of both, those of the second ledger first in its order.
    fn rows(&self, a: Option<&Row>, b: Option<&Row>, within: &Within) -> Vec<Change> {
        // Where samples begin to divide time, they are parts of all samples there.
        let below = |row: Option<&Row>| rows(row).iter().filter_map(|row| row.samples).sum();
        let side = |ledger: &Ledger, row| Side { values: self.own(ledger, row), noise: 0.0 };
        let here = match samples(a).or(samples(b)) {
            Some(_) => None,
            None => Some(Within {
                samples: (below(a), below(b)),
                whole: Some((side(self.before, a), side(self.after, b))),
            }),
        };
        let within = here.as_ref().unwrap_or(within);
        let (a, b) = (rows(a), rows(b));
        let find = |rows: &[Row], name: &str| rows.iter().position(|row| row.name == name);
        let of_b = b.iter().map(|row| (find(a, &row.name).map(|index| &a[index]), Some(row)));
        let gone = a.iter().filter(|row| find(b, &row.name).is_none());
        let gone = gone.map(|row| (Some(row), None));
        of_b.chain(gone).map(|(a, b)| self.change(a, b, within)).collect()
    }

    fn share_and_length(&self, before: f64, after: f64) -> Split {
        let (long, longer) = self.lengths;
        let share = (before / long, after / longer);
        Split::ShareAndLength {
            share,
            share_ns: (share.1 - share.0) * self.middle(),
            length_ns: (longer - long) * (share.0 + share.1) / 2.0,
        }
    }
}

/// The smaller of two chances, doubled for the choice.
fn either(p: Option<f64>, counted: Option<f64>) -> Option<f64> {
    match (p, counted) {
        (Some(p), Some(counted)) => Some((2.0 * p.min(counted)).min(1.0)),
        (one, other) => one.or(other),
    }
}

fn rows(row: Option<&Row>) -> &[Row] {
    row.map_or(&[], |row| &row.rows)
}

fn samples(row: Option<&Row>) -> Option<u64> {
    row.and_then(|row| row.samples)
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
    /// All rows below, and this one.
    pub fn walk(&self) -> Vec<&Change> {
        let below = self.rows.iter().flat_map(Change::walk);
        std::iter::once(self).chain(below).collect()
    }
}
