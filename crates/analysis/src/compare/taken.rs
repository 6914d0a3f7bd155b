//! Runs without blocks, as single values in the order in which they were taken. What was set up anew
//! for a value decides what one is:
//!
//!     several files or sessions a side   each is one value, the mean of its runs
//!     both sides in one session          each run is one value
//!     one session a side                 nothing shows how far the host moved between them
//!
//! The order is that of the runs' times; within one session, that of the record. Of imported files
//! without times it is not known, so each order that people use is looked at.

use std::collections::BTreeMap;

use records::{Opened, ReplicationUnit, Run};

use super::columns::{finite, scaled};
use crate::comparison::{Scale, TakenIn, TakenUnit};
use crate::drift_fit::Taken;
use crate::judge::{TAKEN_MIN, is_in_sequence};

/// One side: its record, and its runs of one point.
pub(super) type Side<'a> = (&'a Opened, &'a [&'a Run]);

/// Values of two sides in the orders in which they may have been taken.
pub(super) struct TakenRuns<'a> {
    /// Whether a value is the variant's, and the runs that it is the mean of.
    units: Vec<(bool, Vec<&'a Run>)>,
    /// Indexes of units. Several orders if it is not known.
    orders: Vec<Vec<usize>>,
    pub unit: TakenUnit,
}

impl<'a> TakenRuns<'a> {
    /// `None` if one session a side is all there is, or if values are no replicates.
    pub fn new(a: Side<'a>, b: Side<'a>) -> Option<TakenRuns<'a>> {
        let sources = || [a.0, b.0].into_iter().filter_map(|one| one.record.source.as_ref());
        if sources().any(|source| source.unit == ReplicationUnit::Sample) {
            return None;
        }
        let sides = [sessions(a), sessions(b)];
        let is_one_record = std::ptr::eq(a.0, b.0);
        let share_one = is_one_record && sides[0].len() == 1 && sides[0].keys().eq(sides[1].keys());
        let keyed: Vec<(u32, bool, Vec<&Run>)> = if share_one {
            let one = |is_variant: bool| move |run: &&'a Run| (run.run, is_variant, vec![*run]);
            a.1.iter().map(one(false)).chain(b.1.iter().map(one(true))).collect()
        } else if sides.iter().all(|side| side.len() >= TAKEN_MIN) {
            let [a, b] = sides;
            let of_a = a.into_iter().map(|(key, runs)| (key, false, runs));
            of_a.chain(b.into_iter().map(|(key, runs)| (key, true, runs))).collect()
        } else {
            return None;
        };
        let is_timed = sources().all(|source| source.timed);
        let share_each = share_one || (is_one_record && share_sessions(&keyed));
        let mut orders: Vec<Vec<usize>> = vec![(0..keyed.len()).collect()];
        if is_timed {
            orders[0].sort_by_key(|unit| (keyed[*unit].2[0].started, keyed[*unit].2[0].run));
        } else if share_each {
            orders[0].sort_by_key(|unit| (keyed[*unit].0, keyed[*unit].2[0].run));
        } else {
            orders = usual_orders(&keyed);
        }
        let unit = match () {
            _ if sources().next().is_none() => TakenUnit::Session,
            _ if keyed.iter().all(|(_, _, runs)| runs.len() == 1) && share_one => TakenUnit::Run,
            _ if sources().any(|source| source.files.len() < source.sessions.len()) => {
                TakenUnit::Run
            }
            _ => TakenUnit::File,
        };
        let units = keyed.into_iter().map(|(_, is_variant, runs)| (is_variant, runs)).collect();
        Some(TakenRuns { units, orders, unit })
    }

    /// How the values of the sides lie in time.
    pub fn order(&self) -> TakenIn {
        let sides = |order: &Vec<usize>| -> Vec<Taken> {
            order.iter().map(|unit| (self.units[*unit].0, 0.0)).collect()
        };
        match &self.orders[..] {
            [known] if is_in_sequence(&sides(known)) => TakenIn::Sequence,
            [_] => TakenIn::Turn,
            _ => TakenIn::UnknownOrder,
        }
    }

    /// Whether the variant's values all came before those of the baseline.
    pub fn variant_came_first(&self) -> bool {
        self.units[self.orders[0][0]].0
    }

    /// The values of a metric in each order.
    pub fn values(&self, metric: &str, scale: Scale) -> Vec<Vec<Taken>> {
        let mean = |runs: &[&Run]| {
            let values = runs.iter().filter_map(|run| Some(scaled(finite(run, metric)?, scale)));
            let values: Vec<f64> = values.collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let means: Vec<Option<Taken>> =
            self.units.iter().map(|(side, runs)| Some((*side, mean(runs)?))).collect();
        let in_order = |order: &Vec<usize>| order.iter().filter_map(|unit| means[*unit]).collect();
        self.orders.iter().map(in_order).collect()
    }
}

/// The runs of a side by session.
fn sessions<'a>((record, runs): Side<'a>) -> BTreeMap<u32, Vec<&'a Run>> {
    let firsts: Vec<u32> = match &record.record.source {
        Some(source) => source.sessions.clone(),
        None => record.record.sessions.iter().map(|session| session.first_run).collect(),
    };
    let mut sessions: BTreeMap<u32, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let session = firsts.iter().filter(|first| **first <= run.run).count();
        sessions.entry(session as u32).or_default().push(run);
    }
    sessions
}

/// Whether each session has values of both sides.
fn share_sessions(keyed: &[(u32, bool, Vec<&Run>)]) -> bool {
    let of = |is_variant: bool| keyed.iter().filter(move |(_, side, _)| *side == is_variant);
    of(false).map(|(key, ..)| key).eq(of(true).map(|(key, ..)| key))
}

/// One side after the other, the other way round, and in turn.
fn usual_orders(keyed: &[(u32, bool, Vec<&Run>)]) -> Vec<Vec<usize>> {
    let of = |is_variant: bool| -> Vec<usize> {
        (0..keyed.len()).filter(|unit| keyed[*unit].1 == is_variant).collect()
    };
    let (a, b) = (of(false), of(true));
    let both = a.len().min(b.len());
    let in_turn = a.iter().zip(&b).flat_map(|(a, b)| [*a, *b]);
    let in_turn = in_turn.chain(a[both..].iter().copied()).chain(b[both..].iter().copied());
    vec![[a.clone(), b.clone()].concat(), [b.clone(), a.clone()].concat(), in_turn.collect()]
}
