//! Simulates columns of algorithms on a described host, and prints their rates.

use anyhow::Result;
use engines::simulated::{NS, Time};
use host::Placement;
use host::topology::points;
use studies::simulations::{Conditions, SimulatedPoint};

/// What to simulate on.
#[derive(clap::Args)]
pub(crate) struct SimulationArguments {
    /// Host to simulate: one that comes with knee, or the path of a file
    #[arg(long, default_value = "generic-2s")]
    host: String,
    /// CPU counts: 1..all, 1-8, 4, cores or all
    #[arg(long, default_value = "1..all")]
    cpus: String,
    /// Mean ns of work between two operations
    #[arg(long, default_value_t = 1000, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    pub(crate) work_ns: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Random draws of the host's uncertain numbers, besides their middles
    #[arg(long, default_value_t = 8)]
    draws: u64,
}

/// Simulated time: 2 ms, in picoseconds as all times of the engine.
const LENGTH: Time = 2_000_000 * NS;

impl SimulationArguments {
    /// Simulates and prints a table: a row for each number of CPUs, a column for each name. `point` simulates one
    /// cell; `load` continues the sentence about the load.
    pub(crate) fn table(
        &self,
        names: &[&str],
        load: &str,
        point: impl Fn(usize, &Conditions, usize) -> Result<SimulatedPoint>,
    ) -> Result<bool> {
        let host = described_hosts::find(&self.host)?;
        let counts = points(&self.cpus, &host.topology(), Placement::Cores)?;
        let conditions =
            Conditions { draws: self.draws, ..Conditions::new(&host, self.seed, LENGTH) };
        println!(
            "simulated on {}: operations per second, and the range over {} draws of its uncertain numbers",
            host.name, self.draws
        );
        println!("{} ns of work on average between operations{load}", self.work_ns);
        let head = names.iter().map(|name| format!("  {name:>26}"));
        println!("{:>5}{}", "CPUs", head.collect::<String>());
        for cpus in counts.iter().map(|&cpus| cpus as usize) {
            let cells = (0..names.len()).map(|column| point(column, &conditions, cpus));
            let cells = cells.map(|cell| cell.map(|cell| text(&cell)));
            println!("{cpus:>5}{}", cells.collect::<Result<String>>()?);
        }
        Ok(true)
    }
}

/// The rate with the middle values, and the range of all draws, in thousands.
fn text(point: &SimulatedPoint) -> String {
    let (low, high) = point.range();
    let text = format!("{:.0}k [{:.0}k, {:.0}k]", point.rates[0] / 1e3, low / 1e3, high / 1e3);
    format!("  {text:>26}")
}
