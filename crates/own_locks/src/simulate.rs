//! Simulates the lock on a described host, beside listed ones.

use algorithms::Lock;
use algorithms::locks::LOCKS;
use anyhow::{Result, ensure};
use engines::simulated::{Preemption, Time};
use host::topology::points;
use host::{Placement, nearest};
use studies::hosts;
use studies::simulations::{
    Conditions, LockLoad, SimulatedPoint, Variation, lock_point, own_lock_point,
};

use crate::Subject;

/// What to simulate.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Host to simulate: one that comes with knee, or the path of a file
    #[arg(long, default_value = "generic-2s")]
    host: String,
    /// CPU counts: 1..all, 1-8, 4, cores or all
    #[arg(long, default_value = "1..all")]
    cpus: String,
    /// Locks of knee to compare with
    #[arg(long, value_delimiter = ',', default_value = "ticket,mcs")]
    against: Vec<String>,
    /// Mean ns outside the lock between two operations
    #[arg(long, default_value_t = 1000, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    work_ns: u64,
    /// ns for which the lock is held
    #[arg(long, default_value_t = 200, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    hold_ns: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Random draws of the host's uncertain numbers, besides their middles
    #[arg(long, default_value_t = 8)]
    draws: u64,
}

/// Lines that are written, and lines that are read, while the lock is held.
const LINES: usize = 2;
/// Simulated time: 2 ms, in picoseconds as all times of the engine.
const LENGTH: Time = 2_000_000 * engines::simulated::NS;

/// Simulates and prints a table.
pub(crate) fn run<L: Lock>(lock: &Subject, arguments: &Arguments) -> Result<bool> {
    for name in &arguments.against {
        ensure!(
            LOCKS.iter().any(|listed| listed.name == name),
            "--against {name}: knee has no lock of this name{}",
            nearest(name, LOCKS.iter().map(|listed| listed.name))
        );
    }
    let host = hosts::find(&arguments.host)?;
    let counts = points(&arguments.cpus, &host.topology(), Placement::Cores)?;
    let conditions = Conditions {
        host: &host,
        placement: Placement::Cores,
        any_placement: false,
        preemption: Preemption::BetweenOperations,
        pinned: true,
        seed: arguments.seed,
        draws: arguments.draws,
        length: LENGTH,
    };
    println!(
        "simulated on {}: operations per second, and the range over {} draws of its uncertain numbers",
        host.name, arguments.draws
    );
    println!(
        "{} ns of work on average between operations, lock held for {} ns",
        arguments.work_ns, arguments.hold_ns
    );
    let names = std::iter::once(lock.name).chain(arguments.against.iter().map(String::as_str));
    println!("{:>5}{}", "CPUs", names.map(|name| format!("  {name:>26}")).collect::<String>());
    for cpus in counts.iter().map(|&cpus| cpus as usize) {
        let load = load(arguments);
        let mut cells = vec![own_lock_point::<L>(lock.name, load, &conditions, cpus, cpus)?];
        for name in &arguments.against {
            cells.push(lock_point(name, load, &conditions, cpus, cpus)?);
        }
        println!("{cpus:>5}{}", cells.iter().map(cell).collect::<String>());
    }
    Ok(true)
}

fn load(arguments: &Arguments) -> LockLoad {
    LockLoad {
        work_ns: arguments.work_ns,
        variation: Variation::Exponential,
        hold_ns: arguments.hold_ns,
        reads: 0,
        locks: 1,
        lines_written: LINES,
        lines_read: LINES,
        start_within_ns: arguments.work_ns + arguments.hold_ns,
    }
}

/// The rate with the middle values, and the range of all draws, in thousands.
fn cell(point: &SimulatedPoint) -> String {
    let (low, high) = point.range();
    let text = format!("{:.0}k [{:.0}k, {:.0}k]", point.rates[0] / 1e3, low / 1e3, high / 1e3);
    format!("  {text:>26}")
}
