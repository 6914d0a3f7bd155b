//! Measures curves of additions and of compare-and-exchanges to which `keep` and `busy` are fitted:
//! `knee doctor calibrate --keep`. Tasks run the code of the mechanism `counter`, as in simulations.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use algorithms::locks::ticket::Ticket;
use algorithms::mechanisms::counter::{Counter, Design};
use algorithms::mechanisms::{ListedMechanism, Mechanism, Settings};
use analysis::Quartiles;
use anyhow::{Context, Result};
use described_hosts::{DISTANCES, DescribedHost, Draw};
use host::clock::now_ns;
use host::pinned::{Meeting, together};
use machine::{Native, Region};
use studies::simulations::keep::{STORMS, StormPoint, fit};

use crate::distances::{CpuLayout, StormCpus};
use crate::{Measurements, Provenance, file};

const ROUNDS: usize = 7;
const ROUND_NS: u64 = 8_000_000;

/// Measures the curves at each distance on this host, and fits `keep` and `busy` of the measured host to them. Says
/// what it does to `report`.
///
/// # Errors
/// The measured numbers are no host that can be simulated, or threads could not be started.
pub fn measure_keep(
    measured: &mut Measurements,
    layout: &CpuLayout,
    occasion: &Provenance,
    other: &DescribedHost,
    report: &dyn Fn(&str),
) -> Result<()> {
    let text = file(measured, layout, occasion, other);
    let described = described_hosts::parse("measured", &text).context("the measured host")?;
    let mut host = described.host(Draw::Middle);
    for distance in layout.distances().into_iter().filter(|distance| *distance != DISTANCES[0]) {
        let groups = layout.storms(distance);
        if groups.is_empty() {
            continue;
        }
        report(&format!("additions and compare-and-exchanges of one word, {distance}"));
        let points = groups.iter().map(natively).collect::<io::Result<Vec<_>>>()?.concat();
        let fit = fit(&host, distance, points)?;
        fit.apply(&mut host);
        measured.fits.push(fit);
    }
    measured.take_fits();
    Ok(())
}

/// The points of both designs on these CPUs.
fn natively(group: &StormCpus) -> io::Result<Vec<StormPoint>> {
    let point = |name: &'static str| {
        let design = Counter::<Ticket>::DESIGNS.iter().find(|(known, _)| *known == name);
        let times = storm(design.expect("a design of counter").1, &group.here)?;
        let ns = Quartiles::from_values(&times).map_or(0.0, |times| times.median);
        Ok(StormPoint { design: name, cpus: group.described.clone(), ns })
    };
    STORMS.into_iter().map(point).collect()
}

/// Adds on all of these CPUs for a while; ns from one addition of a task to its next, for each round.
fn storm(design: Design, cpus: &[u32]) -> io::Result<Vec<f64>> {
    let listed = ListedMechanism::named(Counter::<Ticket>::NAME).expect("counter is listed");
    let settings = Settings::defaults(listed);
    let region = Region::new(Counter::<Ticket>::bytes(&design, cpus.len(), &settings))?;
    let counter = Counter::<Ticket>::new(&region, design, cpus.len(), &settings);
    let stop = AtomicBool::new(false);
    let part = |index: usize, meeting: &Meeting| {
        let m = Native::new(index, 0);
        let mut task = counter.start(&m, index);
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            stop.store(false, Relaxed);
            meeting.meet();
            let (start, mut operations) = (now_ns(), 0_u64);
            // The first CPU watches the clock; the cost is spread over many operations.
            let is_over = || match index {
                0 => now_ns() - start >= ROUND_NS,
                _ => stop.load(Relaxed),
            };
            while !is_over() {
                (0..256).for_each(|_| counter.operate(&m, &mut task));
                operations += 256;
            }
            stop.store(true, Relaxed);
            rounds.push((operations, now_ns() - start));
            meeting.meet();
        }
        rounds
    };
    let tasks = together(cpus, part)?;
    let round = |round: usize| {
        let rates = tasks.iter().map(|rounds| rounds[round].0 as f64 / rounds[round].1 as f64);
        cpus.len() as f64 / rates.sum::<f64>()
    };
    Ok((0..ROUNDS).map(round).collect())
}
