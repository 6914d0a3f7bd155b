//! Whether verdicts of reported incidents are fragile, on simulated hosts: that about the lock of XFS's commit list, which
//! sits at a threshold, and that about flock on files of one's own, which does not.

use anyhow::{Context, Result, anyhow};
use laws::{Change, Fragility, FragilityAnswer, Situation, fragility};
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output};

/// Seeds of a simulation in place of blocks.
const BLOCKS: u64 = 5;
const SMALLEST: f64 = 0.02;

/// A comparison of two designs of a mechanism.
struct Incident {
    name: &'static str,
    mechanism: &'static str,
    designs: [&'static str; 2],
    host: &'static str,
    placement: &'static str,
    cpus: u32,
    tasks: u32,
    /// Settings of the mechanism; that of the time inside the lock first.
    settings: Vec<(&'static str, u64)>,
    work_ns: u64,
    length: &'static str,
    /// Whether other CPUs of the host could be used.
    has_other_placements: bool,
}

/// One simulated load.
#[derive(Clone, Copy)]
struct Load {
    cpus: u32,
    tasks: u32,
    inside_ns: u64,
    work_ns: u64,
    placement: &'static str,
}

impl Incident {
    fn load(&self) -> Load {
        Load {
            cpus: self.cpus,
            tasks: self.tasks,
            inside_ns: self.settings[0].1,
            work_ns: self.work_ns,
            placement: self.placement,
        }
    }

    /// Rates of both designs with one seed.
    fn rates(&self, bench: &Bench, load: &Load, seed: u64) -> Result<(f64, f64)> {
        let home = fresh_directory(&std::env::temp_dir())?;
        let mut command = bench.knee(home.path());
        let mut words = vec!["simulate".to_string()];
        words.push(self.designs.map(|design| format!("{}:{design}", self.mechanism)).join(","));
        let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
        flag("--host", self.host.to_string());
        flag("--cpus", load.cpus.to_string());
        flag("--placement", load.placement.to_string());
        flag("--over", "queued".to_string());
        flag("--work", format!("{}ns", load.work_ns));
        flag("--length", self.length.to_string());
        flag("--seed", seed.to_string());
        flag("--draws", "0".to_string());
        if load.tasks != load.cpus {
            flag("--tasks", load.tasks.to_string());
        }
        if self.mechanism == "file_locks" {
            flag("--set", "kind=flock".to_string());
        }
        for (index, (name, value)) in self.settings.iter().enumerate() {
            let value = if index == 0 { load.inside_ns } else { *value };
            flag("--set", format!("{name}={value}"));
        }
        words.push("--json".to_string());
        let said: Value = serde_json::from_slice(&output(command.args(words))?.stdout)?;
        let rate = |index: usize| {
            said["algorithms"][index]["points"][0]["operations_per_s"].as_f64().context("no rate")
        };
        Ok((rate(0)?, rate(1)?))
    }

    fn situation(
        &self,
        bench: &Bench,
        (name, change): (&str, Change),
        load: &Load,
        seed: u64,
    ) -> Result<Situation> {
        let pairs = (0..BLOCKS).map(|block| self.rates(bench, load, seed ^ (block + 1)));
        let tasks = f64::from(load.tasks) / f64::from(self.tasks);
        Ok(Situation {
            name: name.to_string(),
            change,
            load: (load.tasks != self.tasks).then(|| tasks.ln()),
            pairs: pairs.collect::<Result<_>>()?,
        })
    }

    fn fragility(&self, bench: &Bench, seed: u64) -> Result<Fragility> {
        let here = self.load();
        let at = self.situation(bench, ("as reported", Change::Tasks), &here, seed)?;
        let operation_ns = 1e9 * f64::from(self.cpus) / at.pairs[0].0;
        let one = |n: i64| Load {
            cpus: if self.tasks == self.cpus {
                (i64::from(self.cpus) + n) as u32
            } else {
                self.cpus
            },
            tasks: (i64::from(self.tasks) + n) as u32,
            ..here
        };
        let mut changed = vec![
            ("one task more".to_string(), Change::Tasks, one(1)),
            ("one task less".to_string(), Change::Tasks, one(-1)),
        ];
        for percent in [1, 2, 5] {
            let more = (operation_ns * f64::from(percent) / 100.0).round().max(1.0) as u64;
            changed.push((
                format!("{percent} % more inside"),
                Change::Inside,
                Load { inside_ns: here.inside_ns + more, ..here },
            ));
            changed.push((
                format!("{percent} % more outside"),
                Change::Outside,
                Load { work_ns: here.work_ns + more, ..here },
            ));
        }
        // With all CPUs in use, the placement changes nothing.
        let others =
            ["compact", "cores", "scatter"].into_iter().filter(|other| *other != self.placement);
        if self.has_other_placements {
            changed.extend(others.map(|placement| {
                let name = format!("placement {placement}");
                (name, Change::Placement, Load { placement, ..here })
            }));
        }
        let around = changed
            .iter()
            .map(|(name, change, load)| self.situation(bench, (name, *change), load, seed));
        let around: Vec<Situation> = around.collect::<Result<_>>()?;
        fragility(&at, &around, SMALLEST).map_err(|why| anyhow!(why))
    }
}

/// The share of flips of each incident.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (incident, is_fragile) in incidents() {
        let found = incident.fragility(bench, options.seed.unwrap_or(1))?;
        eprintln!(
            "{}: {:?}, to {:?}, {:+.1} %",
            incident.name,
            found.answer,
            found.fragile_to,
            100.0 * found.difference.value
        );
        for one in &found.changed {
            let difference = 100.0 * one.difference.value;
            eprintln!("  {}: {difference:+.1} %, flips {:.0} %", one.name, 100.0 * one.flips);
        }
        let limit =
            if is_fragile { Limit::AtLeast(laws::FRAGILE) } else { Limit::AtMost(laws::ROBUST) };
        let name =
            format!("{}: share of flips of the kind of change that flips it most", incident.name);
        let is_as_said = found.answer != FragilityAnswer::CannotTell;
        figures.push(Figure {
            name,
            unit: "",
            limit,
            values: if is_as_said { vec![found.flips] } else { vec![] },
        });
    }
    Ok(figures)
}

/// Incident 2 at its threshold, where a change that moves items anyway decides; incident 5, flock on own files.
fn incidents() -> Vec<(Incident, bool)> {
    let log_commit = Incident {
        name: "I2, order ids against the baseline, 9 tasks on two sockets",
        mechanism: "log_commit_list",
        designs: ["before+per-cpu-space", "after+one-list"],
        host: "icelake-2s",
        placement: "scatter",
        cpus: 9,
        tasks: 9,
        // As `knee simulate replay I2` fits them, in the middle of their ranges.
        settings: vec![("in_lock_ns", 50), ("own_items", 3), ("shared_one_in", 1_000_000)],
        work_ns: 3230,
        length: "4ms",
        has_other_placements: true,
    };
    let flock = Incident {
        name: "I5, flock on 128 own files, 128 tasks on 32 CPUs",
        mechanism: "file_locks",
        designs: ["before", "after+wake-locked"],
        host: "opteron-32",
        placement: "cores",
        cpus: 32,
        tasks: 128,
        // As `knee simulate replay I5` fits them: half of the work of a pair of calls is between them.
        settings: vec![("in_lock_ns", 125), ("in_beside_ns", 12), ("files", 128), ("held_ns", 165)],
        work_ns: 165,
        length: "8ms",
        has_other_placements: false,
    };
    vec![(log_commit, true), (flock, false)]
}
