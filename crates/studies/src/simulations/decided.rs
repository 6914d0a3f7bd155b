//! Which assumption decides: how far each range of a host alone moves the ratio of two rates, and how far the ratio would
//! still reach if that number were measured.
//!
//!     middle of all ranges ──one number low, then high──> how far it moves the ratio
//!     all draws            ──that number in its middle──> the interval without it

use anyhow::Result;
use described_hosts::{DescribedHost, Draw, InRange};
use host::in_parallel;

use super::{Conditions, LockLoad, OneDraw, RateRatio, draw, point};
use crate::subject::Subject;

/// How many numbers are named at most.
const NAMED_MAX: usize = 2;
/// Further seeds, which say what chance does to a ratio.
const SEEDS: u64 = 4;
/// How many standard deviations of one ratio by chance a number has to move it: two of the difference of two ratios.
const NOISE: f64 = 2.0 * std::f64::consts::SQRT_2;
/// What moves a ratio by less than this share decides nothing.
const LEAST: f64 = 0.01;

/// A number of the host that moves a ratio.
#[derive(Clone, Debug)]
pub struct DecidingNumber {
    /// Its full name.
    pub name: String,
    /// Its range, as the host's file has it.
    pub text: String,
    /// `found`, `measured` or `assumed`.
    pub origin: &'static str,
    /// The ratio with its lowest value, and the middle of all other ranges.
    pub at_low: f64,
    /// The ratio with its highest value.
    pub at_high: f64,
    /// The ratio if its middle were measured.
    pub measured: RateRatio,
}

/// Two algorithms at one number of CPUs, whose rates are compared.
pub struct Compared<'a> {
    /// The one whose rate is above the line, and the other.
    pub subjects: [&'a Subject; 2],
    /// What each task does.
    pub load: LockLoad,
    /// The host, its scheduling, and the length.
    pub conditions: &'a Conditions<'a>,
    /// CPUs in use.
    pub cpus: usize,
    /// Tasks on them.
    pub tasks: usize,
}

/// A ratio, and what all accesses of both simulations were.
#[derive(Clone, Copy, PartialEq)]
struct Outcome {
    ratio: f64,
    hashes: [u64; 2],
}

impl Compared<'_> {
    /// The numbers that move the ratio most, the first one most. Empty if none moves it more than chance does.
    ///
    /// # Errors
    /// A simulation failed.
    pub fn decided(&self) -> Result<Vec<DecidingNumber>> {
        let (host, seed) = (self.conditions.host, self.conditions.seed);
        let middle = self.outcome(host, seed)?;
        let seeds = (1..=SEEDS).map(|number| self.outcome(host, seed.wrapping_add(number << 32)));
        let seeds = seeds.map(|outcome| Ok(outcome?.ratio)).collect::<Result<Vec<f64>>>()?;
        let noise = (NOISE * deviation(middle.ratio, &seeds)).max(LEAST);
        let names = self.alive(middle)?;
        let ends = [InRange::Low, InRange::High];
        let tried = in_parallel(2 * names.len(), |part| {
            self.outcome(&host.fixed(&[names[part / 2]], ends[part % 2]), seed)
        });
        let tried = tried.into_iter().collect::<Result<Vec<Outcome>>>()?;
        let ratios = tried.chunks(2).map(|both| [both[0].ratio, both[1].ratio]);
        let mut moves: Vec<(&str, [f64; 2])> = names.into_iter().zip(ratios).collect();
        let effect = |ends: &[f64; 2]| (ends[1] / ends[0]).ln().abs();
        moves.retain(|(_, ends)| effect(ends) > noise);
        moves.sort_by(|a, b| effect(&b.1).total_cmp(&effect(&a.1)));
        let named = moves.into_iter().take(NAMED_MAX);
        named.map(|(name, ends)| self.deciding(name, ends)).collect()
    }

    /// The ranges that change anything. Where a group of them does not, none of it does.
    fn alive(&self, middle: Outcome) -> Result<Vec<&str>> {
        let host = self.conditions.host;
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for name in host.ranges() {
            let group = group(name);
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, names)) => names.push(name),
                None => groups.push((group, vec![name])),
            }
        }
        let ends = [InRange::Low, InRange::High];
        let tried = in_parallel(2 * groups.len(), |part| {
            let (_, names) = &groups[part / 2];
            self.outcome(&host.fixed(names, ends[part % 2]), self.conditions.seed)
        });
        let tried = tried.into_iter().collect::<Result<Vec<Outcome>>>()?;
        let alive = groups.into_iter().zip(tried.chunks(2));
        let alive = alive.filter(|(_, both)| both.iter().any(|one| one.hashes != middle.hashes));
        Ok(alive.flat_map(|((_, names), _)| names).collect())
    }

    fn deciding(&self, name: &str, [at_low, at_high]: [f64; 2]) -> Result<DecidingNumber> {
        let host = self.conditions.host.fixed(&[name], InRange::Middle);
        let conditions = Conditions { host: &host, ..self.conditions.clone() };
        let points = in_parallel(2, |part| {
            point(self.subjects[part], self.load, &conditions, self.cpus, self.tasks)
        });
        let points = points.into_iter().collect::<Result<Vec<_>>>()?;
        let number = &self.conditions.host.numbers()[name];
        Ok(DecidingNumber {
            name: name.to_string(),
            text: number.text.clone(),
            origin: number.origin.name(),
            at_low,
            at_high,
            measured: points[0].ratio_to(&points[1]),
        })
    }

    fn outcome(&self, host: &DescribedHost, seed: u64) -> Result<Outcome> {
        let conditions = Conditions { host, seed, ..self.conditions.clone() };
        let Compared { load, cpus, tasks, .. } = *self;
        let once = OneDraw { load, conditions: &conditions, draw: Draw::Middle, cpus, tasks };
        let [of, over] = self.subjects.map(|subject| draw(subject, &once));
        let (of, over) = (of?, over?);
        Ok(Outcome { ratio: of.rate() / over.rate(), hashes: [of.hash, over.hash] })
    }
}

/// Numbers that are used together, or not at all: those of one distance, and those of sleeping, interrupts and guests.
fn group(name: &str) -> &str {
    const OF_LINES: [&str; 8] =
        ["load", "store", "atomic", "busy", "busy_shared", "read_moves", "keep", "pause"];
    match name.strip_prefix("costs.") {
        None => name.rsplit_once('.').map_or(name, |(distance, _)| distance),
        Some(cost) if OF_LINES.contains(&cost) => name,
        Some(cost) if cost.starts_with("interrupt") => "interrupts",
        Some("link" | "memory" | "stream") => "bandwidth",
        Some("exit" | "kick" | "ple_window" | "ple_gap") => "guests",
        Some(_) => "sleeping",
    }
}

/// The standard deviation of the logarithms of ratios.
fn deviation(first: f64, others: &[f64]) -> f64 {
    let logs: Vec<f64> = [first].iter().chain(others).map(|ratio| ratio.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
    (squares / (logs.len() - 1) as f64).sqrt()
}
