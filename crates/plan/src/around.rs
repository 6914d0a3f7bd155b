//! Small changes of the load around the operating point of a comparison: a task more or less, some work more inside or
//! outside the lock, other CPUs. Each is a load of one experiment, so that all are measured in the same blocks.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use host::{Placement, Topology};
use records::{Axes, Experiment, Load, Many, Scalar};
use workloads::Workload;

use crate::names;

/// Where a comparison was made.
#[derive(Clone, Copy, Debug)]
pub struct OperatingPoint<'a> {
    pub cpus: u32,
    pub tasks: u32,
    /// The time of one operation of one task.
    pub operation_ns: f64,
    pub topology: &'a Topology,
}

/// Shares of an operation that are added to it.
const MORE_WORK: [f64; 3] = [0.01, 0.02, 0.05];

/// The parameter that has the time in a lock, and the one that has the time between operations.
const INSIDE: &str = "hold_ns";
const OUTSIDE: &str = "idle_ns";

/// The experiment at its operating point, and then at changed loads. Fails where it has more than one load or not two
/// variants.
pub fn around(mut experiment: Experiment, at: &OperatingPoint) -> Result<Experiment> {
    ensure!(
        experiment.variants.len() == 2,
        "a verdict is about two variants, and here are {}: name two, as in knee compare fragile A B",
        experiment.variants.len()
    );
    let load = match &experiment.loads[..] {
        [load] => load.clone(),
        loads => {
            bail!("a verdict is about one load, and here are {}: measure one alone", loads.len())
        }
    };
    ensure!(
        load.command().is_none(),
        "loads of commands cannot be changed by a little: only workloads of knee have tasks and times \
         to change"
    );
    let axes = load.axes.over(&experiment.axes);
    check_single(&load, &axes)?;
    let sized = |cpus: u32, tasks: u32| Load {
        axes: Axes {
            cpus: Some(Many(vec![Scalar(cpus.to_string())])),
            tasks: Some(Many(vec![tasks])),
            tasks_per_cpu: None,
            ..axes.clone()
        },
        ..load.clone()
    };
    let here = sized(at.cpus, at.tasks);
    let mut loads = vec![here.clone(), sized(at.cpus, at.tasks + 1)];
    if at.tasks > 1 {
        loads.push(sized(at.cpus.min(at.tasks - 1), at.tasks - 1));
    }
    for name in [INSIDE, OUTSIDE] {
        if can_change(&experiment, name)? {
            // Of a short operation, several shares are the same number of ns.
            let more = MORE_WORK.map(|share| (share * at.operation_ns).round().max(1.0) as u64);
            for more_ns in BTreeSet::from(more) {
                loads.push(with_more(&here, name, more_ns)?);
            }
        }
    }
    loads.extend(placements(&experiment, &axes, at).into_iter().map(|placement| Load {
        axes: Axes { placement: Some(Many(vec![placement])), ..here.axes.clone() },
        ..here.clone()
    }));
    experiment.axes = Axes::default();
    experiment.loads = loads;
    experiment.perturbed = true;
    experiment.adaptive = None;
    experiment.latency = false;
    experiment.explain = None;
    experiment.compare.until_decided = false;
    experiment.seed = None;
    experiment.check()?;
    Ok(experiment)
}

/// Refuses lists: an operating point has one value of everything.
fn check_single(load: &Load, axes: &Axes) -> Result<()> {
    fn is_list<T>(many: &Option<Many<T>>) -> bool {
        many.as_ref().is_some_and(|many| many.0.len() > 1)
    }
    let lists = [
        ("as", is_list(&axes.forms)),
        ("placement", is_list(&axes.placement)),
        ("dir", is_list(&axes.dir)),
        ("seconds", is_list(&axes.seconds)),
        ("operations_per_task", is_list(&axes.operations_per_task)),
    ];
    let parameters = load.parameters.iter().map(|(name, many)| (name.as_str(), many.0.len() > 1));
    match lists.into_iter().chain(parameters).find(|(_, is_list)| *is_list) {
        Some((name, _)) => bail!(
            "{name} has several values, and a verdict is about one: measure with one value of {name}"
        ),
        None => Ok(()),
    }
}

/// Whether all variants have a time of their workload to change, and none sets it itself.
fn can_change(experiment: &Experiment, parameter: &str) -> Result<bool> {
    for variant in &experiment.variants {
        let workload = variant.workload.clone().unwrap_or_else(|| experiment.loads[0].name());
        let workload: &Workload = names::workload(&workload)?;
        let has = workload.parameters().any(|known| known.name == parameter);
        if !has || variant.parameters.contains_key(parameter) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The load with a longer time.
fn with_more(load: &Load, name: &str, more_ns: u64) -> Result<Load> {
    let mut load = load.clone();
    let workload = names::workload(&load.name())?;
    let parameter = workload.parameters().find(|known| known.name == name);
    let default = parameter.map_or("0", |parameter| parameter.default);
    let given = load.parameters.get(name).map(|many| &many.0[..]);
    let base = match given {
        Some([one, ..]) => one.0.as_str(),
        _ => default,
    };
    // What varies, varies around the mean.
    let (mean, varies) = base.find('~').map_or((base, ""), |at| base.split_at(at));
    let mean = host::whole_ns(mean).or_else(|| mean.parse().ok());
    let mean = mean.with_context(|| format!("{name}={base} is no number of ns"))?;
    let value = Scalar(format!("{}{varies}", mean + more_ns));
    load.parameters.insert(name.to_string(), Many(vec![value]));
    Ok(load)
}

/// Placements that use other CPUs than the one in use.
fn placements(experiment: &Experiment, axes: &Axes, at: &OperatingPoint) -> Vec<Placement> {
    if experiment.variants.iter().any(|variant| variant.placement.is_some()) {
        return Vec::new();
    }
    let used = |placement: Placement| {
        let mut cpus = at.topology.order(placement);
        cpus.truncate(at.cpus as usize);
        cpus.sort_unstable();
        cpus
    };
    let now = axes.placement.as_ref().and_then(|many| many.0.first().copied()).unwrap_or_default();
    let mut known = vec![used(now)];
    let mut others = Vec::new();
    for placement in [Placement::Compact, Placement::Cores, Placement::Scatter] {
        let cpus = used(placement);
        if cpus.len() == at.cpus as usize && !known.contains(&cpus) {
            known.push(cpus);
            others.push(placement);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use host::Cpu;

    use super::*;

    /// The loads around 2 tasks on 2 of 4 CPUs, whose operations take 1 us.
    fn check(toml: &str, expected: expect_test::Expect) {
        // Two cores of two threads.
        let cpu = |cpu| Cpu { cpu, core: cpu % 2, llc: 0, node: 0, package: 0 };
        let topology = Topology { cpus: (0..4).map(cpu).collect() };
        let at = OperatingPoint { cpus: 2, tasks: 2, operation_ns: 1000.0, topology: &topology };
        let shown = match Experiment::read(toml).and_then(|experiment| around(experiment, &at)) {
            Err(why) => format!("{why:#}\n"),
            Ok(experiment) => {
                let load = |load: &Load| {
                    let json = serde_json::to_string(&(&load.parameters, &load.axes)).unwrap();
                    format!("{json}\n")
                };
                experiment.loads.iter().map(load).collect()
            }
        };
        expected.assert_eq(&shown);
    }

    const TWO: &str = "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\nworkload = 'lock_mcs'\n";

    #[test]
    fn tasks_times_and_cpus_are_changed_by_a_little() {
        check(
            &format!(
                "{TWO}[[load]]\nworkload = 'lock_ticket'\nparameters = {{ idle_ns = '500~exp' }}\n\
                 axes = {{ as = 'threads' }}"
            ),
            expect_test::expect![[r#"
                [{"idle_ns":["500~exp"]},{"cpus":["2"],"tasks":[2],"as":["threads"]}]
                [{"idle_ns":["500~exp"]},{"cpus":["2"],"tasks":[3],"as":["threads"]}]
                [{"idle_ns":["500~exp"]},{"cpus":["1"],"tasks":[1],"as":["threads"]}]
                [{"hold_ns":["10"],"idle_ns":["500~exp"]},{"cpus":["2"],"tasks":[2],"as":["threads"]}]
                [{"hold_ns":["20"],"idle_ns":["500~exp"]},{"cpus":["2"],"tasks":[2],"as":["threads"]}]
                [{"hold_ns":["50"],"idle_ns":["500~exp"]},{"cpus":["2"],"tasks":[2],"as":["threads"]}]
                [{"idle_ns":["510~exp"]},{"cpus":["2"],"tasks":[2],"as":["threads"]}]
                [{"idle_ns":["520~exp"]},{"cpus":["2"],"tasks":[2],"as":["threads"]}]
                [{"idle_ns":["550~exp"]},{"cpus":["2"],"tasks":[2],"as":["threads"]}]
                [{"idle_ns":["500~exp"]},{"cpus":["2"],"tasks":[2],"as":["threads"],"placement":["compact"]}]
            "#]],
        );
    }

    #[test]
    fn what_cannot_be_changed_is_left_as_it_is_or_refused() {
        check(
            "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\nparameters = { idle_ns = 5 }\n\
             placement = 'compact'\n[[load]]\nworkload = 'getppid'",
            expect_test::expect![[r#"
                [{},{"cpus":["2"],"tasks":[2]}]
                [{},{"cpus":["2"],"tasks":[3]}]
                [{},{"cpus":["1"],"tasks":[1]}]
            "#]],
        );
        check(
            "[[load]]\nworkload = 'getppid'",
            expect_test::expect![[r#"
            a verdict is about two variants, and here are 0: name two, as in knee compare fragile A B
        "#]],
        );
        check(
            &format!(
                "{TWO}[[load]]\nworkload = 'lock_ticket'\nparameters = {{ hold_ns = [1, 2] }}"
            ),
            expect_test::expect![[r#"
                hold_ns has several values, and a verdict is about one: measure with one value of hold_ns
            "#]],
        );
        check(
            &format!("{TWO}[[load]]\nworkload = 'getppid'\n[[load]]\nworkload = 'brk'"),
            expect_test::expect![[r#"
                a verdict is about one load, and here are 2: measure one alone
            "#]],
        );
    }
}
