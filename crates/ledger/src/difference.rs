//! The difference of two ledgers, row by row. Each row's change is split without remainder: into
//! count and cost per event if events were counted, and into share and length if the row belongs to
//! time.

use records::Obtained;
use schemars::JsonSchema;
use serde::Serialize;

use super::chance::{self, RUN_TO_RUN_OF_STARTS, Side};
use super::{
    Belongs, FOR_REASONS_NOT_KNOWN, IDLE, Ledger, LedgerRow, LedgerUnit, PerOperation, RowEvents,
    UNSEEN, WORK,
};

/// The change of a row between two ledgers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RowChange {
    /// Name of the row.
    pub name: String,
    /// Whether the row grows with operations or with time.
    pub belongs: Belongs,
    /// How the row was obtained, the less exact of both sides.
    pub obtained: Obtained,
    /// Number of samples before and after, if the row is sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<(u64, u64)>,
    /// Time per operation before.
    pub before: PerOperation,
    /// Time per operation after.
    pub after: PerOperation,
    /// Time per operation after, minus before.
    pub change: f64,
    /// Half of the change's 95 % interval over units; `None` with fewer than two units on a side.
    pub half: Option<f64>,
    /// The part of the change that is this row's own doing: all of it, except the time that rows
    /// belonging to time gain only because operations take longer.
    pub own_ns: f64,
    /// The 95 % interval of `own_ns`, which need not be symmetric.
    pub own_interval: Option<(f64, f64)>,
    /// Probability of such an `own_ns` if nothing is different; or of such a change in the number of
    /// events, if the count makes the change.
    pub p: Option<f64>,
    /// The change as two parts that add up to it.
    pub split: Split,
    /// The parts of the row, all of either ledger.
    pub rows: Vec<RowChange>,
}

/// A change as two parts that add up to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// The event happens more or less often, and costs more or less each time.
    CountAndCost {
        /// The counted event, in the singular.
        #[serde(rename = "what")]
        event: String,
        /// Events per operation, before and after.
        #[serde(rename = "times")]
        per_operation: (f64, f64),
        /// ns per event, before and after; `None` if it did not happen.
        #[serde(rename = "each")]
        cost_per_event: (Option<f64>, Option<f64>),
        /// The part of the change that comes from the count.
        count_ns: f64,
        /// The part of the change that comes from the cost per event.
        cost_ns: f64,
    },
    /// The row has a larger or smaller share of the time, and operations take longer or shorter.
    ShareAndLength {
        /// The row's share of all time, before and after.
        share: (f64, f64),
        /// The part of the change that comes from the share: only this is a cause.
        share_ns: f64,
        /// The part of the change that comes from longer operations.
        length_ns: f64,
    },
    /// Nothing counted the events.
    CountUnknown,
}

/// Events that happened less than this share as often as on the other side hardly happened.
const NEARLY_NONE: f64 = 0.01;

/// Events that happened less than this share as often as on the other side are clearly rarer.
const RARER: f64 = 0.67;

/// Fewer samples than these do not tell what an event costs, nor whether a row changed.
pub(super) const SAMPLES_MIN: u64 = 8;

/// Changes below this share of an operation do not matter.
pub(super) const SHARE_MIN: f64 = 0.01;

/// How `after` differs from `before`.
pub fn difference(before: &Ledger, after: &Ledger) -> RowChange {
    let length = |ledger: &Ledger| ledger.ns_per_operation(&ledger.root).mean;
    let lengths = (length(before), length(after));
    let ledgers = LedgerPair { before, after, lengths, pairs: pairs(before, after) };
    let whole = SampledWhole { length: ledgers.mean_length(), ..SampledWhole::default() };
    ledgers.change(Some(&before.root), Some(&after.root), &whole)
}

/// Rows of the workload are small or large against the time of the workload, not against an operation
/// in which its CPUs are mostly idle; but a row of next to nothing is small all the same.
pub(super) fn counting_length(work_ns: f64, operation_ns: f64) -> f64 {
    const WORK_SHARE_MIN: f64 = 0.1;
    work_ns.max(WORK_SHARE_MIN * operation_ns)
}

/// Pairs of units of the same block. If both sides are of one record, these ran next to each other.
/// If not, no units did, and these pairs are as good as any others.
fn pairs(before: &Ledger, after: &Ledger) -> Vec<(usize, usize)> {
    let partner = |block: Option<u32>| {
        let block = block?;
        after.units.iter().position(|unit| unit.block == Some(block))
    };
    let units = before.units.iter().enumerate();
    units.filter_map(|(index, unit)| Some((index, partner(unit.block)?))).collect()
}

struct LedgerPair<'a> {
    before: &'a Ledger,
    after: &'a Ledger,
    /// Length of an operation before and after, in ns.
    lengths: (f64, f64),
    pairs: Vec<(usize, usize)>,
}

/// The noise of sampling, in ns per operation.
#[derive(Default)]
struct SamplingNoise {
    /// Standard error before.
    before: f64,
    /// Standard error after.
    after: f64,
    /// To be added to values before their logarithm is taken.
    start: f64,
}

/// This number of samples is added to those of a unit. Otherwise no sample would be infinitely less
/// than one sample, and one much less than two.
const STARTING_SAMPLES: f64 = 2.0;

/// The exact row that sampled rows are parts of.
#[derive(Default)]
struct SampledWhole {
    /// Samples of all its parts, before and after.
    samples: (u64, u64),
    /// The exact time of both sides; `None` above the root.
    sides: Option<(Side, Side)>,
    /// Changes far below this do not count: see [`counting_length`].
    length: f64,
}

impl LedgerPair<'_> {
    /// The change of a row. `within` is the exact row that it is a part of, if it is sampled.
    fn change(
        &self,
        a: Option<&LedgerRow>,
        b: Option<&LedgerRow>,
        within: &SampledWhole,
    ) -> RowChange {
        let row = b.or(a).expect("a row is in one ledger at least");
        let (before, after) = (per_operation(self.before, a), per_operation(self.after, b));
        let obtained = [a, b].into_iter().flatten().map(|row| row.obtained);
        let inexact = obtained.clone().find(|obtained| *obtained != Obtained::Exact);
        let split = match row.belongs {
            Belongs::Time => self.share_and_length(before.mean, after.mean),
            Belongs::Operation => count_and_cost(a, b, before.mean, after.mean),
        };
        let noise = self.noise(a, b, within.samples);
        let start = SHARE_MIN * within.length + noise.start;
        let chance = |before: Vec<f64>, after: Vec<f64>| {
            let before = Side { noise: noise.before, ..side(self.before, a, before) };
            let after = Side { noise: noise.after, ..side(self.after, b, after) };
            let whole = within.sides.as_ref();
            chance::RowTest { before, after, whole, pairs: &self.pairs }.chance(start)
        };
        let whole = chance(per_unit(self.before, a), per_unit(self.after, b));
        let own = chance(self.own(self.before, a), self.own(self.after, b));
        let change = after.mean - before.mean;
        let samples = match (samples(a), samples(b)) {
            (None, None) => None,
            (before, after) => Some((before.unwrap_or(0), after.unwrap_or(0))),
        };
        let rows = self.rows(a, b, within);
        let own_ns = match split {
            Split::ShareAndLength { share_ns, .. } => share_ns,
            _ => change - rows.iter().map(|row| row.change - row.own_ns).sum::<f64>(),
        };
        RowChange {
            name: row.name.clone(),
            belongs: row.belongs,
            obtained: inexact.unwrap_or(row.obtained),
            samples,
            before,
            after,
            change,
            half: whole.and_then(|whole| whole.half),
            own_ns,
            own_interval: own.and_then(|own| own.interval(own_ns)),
            p: smaller(own.map(|own| own.p), p_of_count(a, b, &split, own_ns, within.length)),
            split,
            rows,
        }
    }

    /// The mean length of an operation of both sides, in ns.
    fn mean_length(&self) -> f64 {
        (self.lengths.0 + self.lengths.1) / 2.0
    }

    /// The part of a row's time that is its own doing, per operation, in each unit. Rows that belong
    /// to time count with their share of an operation that is equally long on both sides.
    fn own(&self, ledger: &Ledger, row: Option<&LedgerRow>) -> Vec<f64> {
        let Some(row) = row else { return vec![0.0; ledger.units.len()] };
        match row.belongs {
            Belongs::Operation if row.rows.is_empty() => per_unit(ledger, Some(row)),
            Belongs::Operation => {
                let parts: Vec<Vec<f64>> =
                    row.rows.iter().map(|part| self.own(ledger, Some(part))).collect();
                let sum = |unit: usize| parts.iter().map(|part| part[unit]).sum();
                (0..ledger.units.len()).map(sum).collect()
            }
            Belongs::Time => {
                let share = |(ns, unit): (&u64, &LedgerUnit)| {
                    *ns as f64 / unit.budget_ns.max(1) as f64 * self.mean_length()
                };
                row.ns.iter().zip(&ledger.units).map(share).collect()
            }
        }
    }

    /// The noise of sampling a row; `sampled` is the number of samples of all rows on each side. The
    /// row's samples are a draw from a binomial distribution; a row without any sample counts as if
    /// it had one.
    fn noise(
        &self,
        a: Option<&LedgerRow>,
        b: Option<&LedgerRow>,
        sampled: (u64, u64),
    ) -> SamplingNoise {
        let samples_and_ns = |row: Option<&LedgerRow>| {
            row.map_or((0, 0), |row| (row.samples.unwrap_or(0), row.total_ns()))
        };
        let ((n_a, ns_a), (n_b, ns_b)) = (samples_and_ns(a), samples_and_ns(b));
        if n_a + n_b == 0 {
            return SamplingNoise::default();
        }
        let sample_ns = (ns_a + ns_b) as f64 / (n_a + n_b) as f64;
        // The time per operation that one sample of all units stands for.
        let worth = |ledger: &Ledger| {
            let operations: u64 = ledger.units.iter().map(|unit| unit.operations).sum();
            sample_ns / operations.max(1) as f64
        };
        let error = |n: u64, all: u64| {
            let other_share = 1.0 - n as f64 / all.max(n).max(1) as f64;
            (n as f64 * other_share).max(1.0).sqrt()
        };
        let units = |ledger: &Ledger| ledger.units.len() as f64;
        let (before, after) = (worth(self.before), worth(self.after));
        let (one_before, one_after) = (before * units(self.before), after * units(self.after));
        SamplingNoise {
            before: before * error(n_a, sampled.0),
            after: after * error(n_b, sampled.1),
            start: STARTING_SAMPLES * (one_before + one_after) / 2.0,
        }
    }

    /// The changes of a row's parts: those of the second ledger in its order, then those that only
    /// the first has.
    fn rows(
        &self,
        a: Option<&LedgerRow>,
        b: Option<&LedgerRow>,
        within: &SampledWhole,
    ) -> Vec<RowChange> {
        // The first sampled rows on the way down are parts of this exact row, and of all its samples.
        let below = |row: Option<&LedgerRow>| rows(row).iter().filter_map(|row| row.samples).sum();
        let side = |ledger: &Ledger, row| side(ledger, row, self.own(ledger, row));
        let exact_row = match samples(a).or(samples(b)) {
            Some(_) => None,
            None => Some(SampledWhole {
                samples: (below(a), below(b)),
                sides: Some((side(self.before, a), side(self.after, b))),
                length: self.length_below(a, b, within),
            }),
        };
        let within = exact_row.as_ref().unwrap_or(within);
        let (a, b) = (rows(a), rows(b));
        let find = |rows: &[LedgerRow], name: &str| rows.iter().position(|row| row.name == name);
        let in_second = b.iter().map(|row| (find(a, &row.name).map(|index| &a[index]), Some(row)));
        let gone = a.iter().filter(|row| find(b, &row.name).is_none());
        let gone = gone.map(|row| (Some(row), None));
        in_second.chain(gone).map(|(a, b)| self.change(a, b, within)).collect()
    }

    /// The length for the parts of a row.
    fn length_below(
        &self,
        a: Option<&LedgerRow>,
        b: Option<&LedgerRow>,
        within: &SampledWhole,
    ) -> f64 {
        if b.or(a).is_none_or(|row| row.name != WORK) {
            return within.length;
        }
        let (was, is) = (per_operation(self.before, a).mean, per_operation(self.after, b).mean);
        counting_length((was + is) / 2.0, self.mean_length())
    }

    fn share_and_length(&self, before: f64, after: f64) -> Split {
        let (long, longer) = self.lengths;
        let share = (before / long, after / longer);
        Split::ShareAndLength {
            share,
            share_ns: (share.1 - share.0) * self.mean_length(),
            length_ns: (longer - long) * (share.0 + share.1) / 2.0,
        }
    }
}

/// The p of the change in the number of events. `None` if nothing counted them, or if the count
/// does not make the change. Counts are exact even if time is sampled: one call more in each
/// operation is beyond warning, however few samples fell into it.
fn p_of_count(
    a: Option<&LedgerRow>,
    b: Option<&LedgerRow>,
    split: &Split,
    own_ns: f64,
    length: f64,
) -> Option<f64> {
    let Split::CountAndCost { per_operation, count_ns, .. } = split else { return None };
    let makes_change = count_ns * own_ns > 0.0 && count_ns.abs() >= SHARE_MIN * length;
    let side = |row: Option<&LedgerRow>, units: usize| match row.and_then(|row| row.events.as_ref())
    {
        Some(events) => {
            let values = events.counts.iter().zip(&events.operations);
            let operations: u64 = events.operations.iter().sum();
            let noise = (events.counts.iter().sum::<u64>() as f64).max(1.0).sqrt();
            Side {
                values: values
                    .map(|(n, operations)| *n as f64 / (*operations).max(1) as f64)
                    .collect(),
                noise: noise / operations.max(1) as f64,
                between_runs: 0.0,
            }
        }
        None => Side { values: vec![0.0; units], noise: 0.0, between_runs: 0.0 },
    };
    let counting = |row: Option<&LedgerRow>| Some(row?.events.as_ref()?.counts.len());
    let units = counting(a).or(counting(b)).filter(|_| makes_change)?;
    let (before, after) = (side(a, units), side(b, units));
    let row = chance::RowTest { before, after, whole: None, pairs: &[] };
    let start = SHARE_MIN * (per_operation.0 + per_operation.1) / 2.0;
    row.chance(start).map(|chance| chance.p).or_else(|| row.p_of_constants(start))
}

/// The smaller of two p, doubled for the choice.
fn smaller(p: Option<f64>, counted: Option<f64>) -> Option<f64> {
    match (p, counted) {
        (Some(p), Some(counted)) => Some((2.0 * p.min(counted)).min(1.0)),
        _ => p.or(counted),
    }
}

/// The units of a side, without the noise of samples.
fn side(ledger: &Ledger, row: Option<&LedgerRow>, values: Vec<f64>) -> Side {
    const WAITS: [&str; 3] = [IDLE, FOR_REASONS_NOT_KNOWN, UNSEEN];
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let is_wait = row.is_some_and(|row| WAITS.contains(&row.name.as_str()));
    let share = match ledger.between_runs {
        share if is_wait && share > 0.0 => RUN_TO_RUN_OF_STARTS,
        share => share,
    };
    Side { values, noise: 0.0, between_runs: share * mean }
}

fn rows(row: Option<&LedgerRow>) -> &[LedgerRow] {
    row.map_or(&[], |row| &row.rows)
}

fn samples(row: Option<&LedgerRow>) -> Option<u64> {
    row.and_then(|row| row.samples)
}

fn per_operation(ledger: &Ledger, row: Option<&LedgerRow>) -> PerOperation {
    let nothing = PerOperation { mean: 0.0, half: None };
    row.map_or(nothing, |row| ledger.ns_per_operation(row))
}

/// A row's time per operation in each unit.
fn per_unit(ledger: &Ledger, row: Option<&LedgerRow>) -> Vec<f64> {
    let value = |(index, unit): (usize, &LedgerUnit)| {
        row.map_or(0.0, |row| row.ns[index] as f64) / unit.operations.max(1) as f64
    };
    ledger.units.iter().enumerate().map(value).collect()
}

/// Splits a change into count and cost as two players share a gain (Shapley): each is changed once
/// first and once second, so that no order is favoured and nothing remains.
fn count_and_cost(a: Option<&LedgerRow>, b: Option<&LedgerRow>, before: f64, after: f64) -> Split {
    let events = |row: Option<&LedgerRow>| row.map(|row| row.events.clone());
    let few_samples = |row: Option<&LedgerRow>| samples(row).is_some_and(|n| n < SAMPLES_MIN);
    let few = (few_samples(a), few_samples(b));
    let (a, b) = match (events(a), events(b)) {
        // A row that a ledger lacks did not happen there.
        (None, Some(Some(b))) => (no_events(&b), b),
        (Some(Some(a)), None) => (a.clone(), no_events(&a)),
        (Some(Some(a)), Some(Some(b))) => (a, b),
        _ => return Split::CountUnknown,
    };
    let counts = (a.per_operation().mean, b.per_operation().mean);
    let cost = |ns: f64, count: f64| (count > 0.0).then(|| ns / count);
    // What hardly ever happened has no cost worth a ratio: the row is new, or gone.
    let hardly = |count: f64, other: f64| count < NEARLY_NONE * other;
    let costs = (
        cost(before, counts.0).filter(|_| !hardly(counts.0, counts.1)),
        cost(after, counts.1).filter(|_| !hardly(counts.1, counts.0)),
    );
    // Of the side with fewer events, too few samples say what each of them cost.
    let is_rarer = |count: f64, other: f64| count < RARER * other;
    let unknown =
        (few.0 && is_rarer(counts.0, counts.1)) || (few.1 && is_rarer(counts.1, counts.0));
    let (count_ns, cost_ns) = match costs {
        _ if unknown => (after - before, 0.0),
        (Some(was), Some(is)) => {
            ((counts.1 - counts.0) * (was + is) / 2.0, (is - was) * (counts.0 + counts.1) / 2.0)
        }
        // A new row, or one that is gone: all of the change is count.
        _ => (after - before, 0.0),
    };
    let (per_operation, cost_per_event) = (counts, costs);
    Split::CountAndCost { event: b.what, per_operation, cost_per_event, count_ns, cost_ns }
}

fn no_events(events: &RowEvents) -> RowEvents {
    RowEvents { what: events.what.clone(), counts: vec![0], operations: vec![1] }
}

impl RowChange {
    /// This row and all rows below.
    pub fn walk(&self) -> Vec<&RowChange> {
        let below = self.rows.iter().flat_map(RowChange::walk);
        std::iter::once(self).chain(below).collect()
    }
}
