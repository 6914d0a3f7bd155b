//! A simulation as a sweep: a piece is one algorithm at one CPU count, with all draws.

use std::process::ExitCode;

use anyhow::Result;
use studies::simulations::mechanisms::mechanism_point;
use studies::simulations::{self, SimulatedPoint};

use super::{Arguments, Prepared, Simulation, conditions, show, with_operations};
use crate::c_files;
use sweeps::Sweep;

/// All algorithms at all CPU counts.
pub struct SimulationSweep {
    pub arguments: Arguments,
    pub prepared: Prepared,
}

impl SimulationSweep {
    /// The names of the algorithms: mechanisms, then locks.
    pub fn names(&self) -> Vec<String> {
        let Prepared { locks, mechanisms, .. } = &self.prepared;
        let locks = locks.iter().map(|name| name.to_string());
        mechanisms.iter().map(|mechanism| mechanism.name()).chain(locks).collect()
    }

    /// The curves through the points of all pieces.
    pub fn simulation(&self, points: Vec<SimulatedPoint>) -> Result<Simulation> {
        let Prepared { host, load, counts, locks, programs, .. } = &self.prepared;
        let conditions = conditions(&self.arguments, host)?;
        let mut points = points.into_iter();
        let curve = |name: String| {
            let points = points.by_ref().take(counts.len()).collect();
            with_operations(name, points, &conditions)
        };
        let curves = self.names().into_iter().map(curve).collect::<Result<_>>()?;
        let baseline = self.arguments.baseline.clone();
        let is_lock = |name: &&'static str| {
            !c_files::named(programs, name).is_some_and(|program| program.is_operation())
        };
        Ok(Simulation {
            curves,
            baseline,
            host: host.clone(),
            load: *load,
            has_locks: locks.iter().any(is_lock),
            noise: self.arguments.noise,
        })
    }
}

impl Sweep for SimulationSweep {
    type Piece = SimulatedPoint;

    fn pieces(&self) -> usize {
        self.names().len() * self.prepared.counts.len()
    }

    fn compute(&self, piece: usize) -> Result<SimulatedPoint> {
        let Prepared { locks, programs, mechanisms, host, counts, load } = &self.prepared;
        let (curve, cpus) = (piece / counts.len(), counts[piece % counts.len()] as usize);
        let tasks = self.arguments.tasks.unwrap_or(cpus);
        let conditions = &conditions(&self.arguments, host)?;
        if let Some(mechanism) = mechanisms.get(curve) {
            return mechanism_point(mechanism, conditions, cpus, tasks);
        }
        let name = locks[curve - mechanisms.len()];
        match c_files::named(programs, name) {
            Some(program) => c_locks::point(program, *load, conditions, cpus, tasks),
            None => simulations::lock_point(name, *load, conditions, cpus, tasks),
        }
    }

    fn show(&self, points: Vec<SimulatedPoint>) -> Result<ExitCode> {
        show(&self.simulation(points)?, &self.arguments)
    }
}
