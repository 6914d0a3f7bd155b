//! Mechanisms on described hosts: each task works and does an operation, again and again, until
//! the time is over. Then the mechanism checks itself.

use std::cell::RefCell;

use algorithms::mechanisms::{ListedMechanism, Mechanism, Settings};
use anyhow::{Context, Result, bail, ensure};
use engines::simulated::{
    Costs, Host, IpiHandler, Options, Preemption, Setup, Simulated, SimulatedRun,
    simulate_to_completion,
};
use host::unknown_of;
use machine::{Machine, Native, Region};

use super::Variation;
use crate::subject::{MechanismVisitor, Subject};

/// The results of simulating a mechanism.
pub struct MechanismRun {
    /// Operations, time and ledger.
    pub simulated: SimulatedRun,
    /// Other effects of an operation, by name, from the first operation that counts to the last.
    pub effects: Vec<(&'static str, f64)>,
}

/// The part of a host that has only these CPUs, in this order. The mechanism does not see the
/// others, and task i runs on CPU i.
pub fn part_of(host: Host, cpus: &[usize]) -> Host {
    Host { cpus: cpus.iter().map(|&cpu| host.cpus[cpu]).collect(), ..host }
}

/// Simulates this many tasks on all CPUs of the host, with this many ns of work between two operations.
///
/// # Errors
/// A setting that is impossible, or a fault that the mechanism finds in itself.
pub fn run_mechanism(
    subject: &Subject,
    work_ns: u64,
    host: &Host,
    tasks: usize,
    options: &Options,
) -> Result<MechanismRun> {
    let given: &[_] = if let Subject::Mechanism(design) = subject { &design.given } else { &[] };
    let settings = settings(subject.mechanism()?, given)?;
    let simulation = MechanismSimulation { work_ns, host, tasks, options };
    let result = subject.with_mechanism(tasks, &settings, simulation);
    result.and_then(|run| run).with_context(|| format!("{} with {tasks} tasks", subject.name()))
}

struct MechanismSimulation<'a> {
    work_ns: u64,
    host: &'a Host,
    tasks: usize,
    options: &'a Options,
}

impl MechanismVisitor for MechanismSimulation<'_> {
    type Out = Result<MechanismRun>;

    fn refuse<X: Mechanism>(&self) -> Result<()> {
        let MechanismSimulation { host, tasks, options, .. } = *self;
        let crowded = tasks > host.cpus.len() && options.preemption != Preemption::Anywhere;
        ensure!(!crowded || X::TASKS_SHARE_CPUS, "each of its tasks stands for a CPU");
        ensure!(tasks <= X::TASKS_MAX, "it can have up to {} tasks", X::TASKS_MAX);
        Ok(())
    }

    fn mechanism<X: Mechanism>(self, region: &Region, mechanism: &X) -> Self::Out {
        let MechanismSimulation { work_ns, host, tasks, options } = self;
        // The mechanism is in the kernel, so sleeping and waking take no system call.
        let costs = Costs { park: 0, wake: 0, ..host.costs };
        let host = &Host { costs, ..host.clone() };
        let totals = RefCell::new(Totals::default());
        let task = |m: &Simulated, task: usize| {
            let mut state = mechanism.start(m, task);
            let (mut operations, mut at_warm_up) = (0, None);
            while !m.is_over() {
                if at_warm_up.is_none() && m.counts() {
                    at_warm_up = Some((operations, state));
                }
                // Tasks with equal work fall into step, and whether they then meet is no property of the mechanism.
                m.work(Variation::Uniform.draw(m, work_ns));
                mechanism.operate(m, &mut state);
                operations += 1;
                m.operation_done();
            }
            mechanism.finish(m, &mut state);
            let before = at_warm_up.map(|(operations, state)| (operations, X::effects(&state)));
            totals.borrow_mut().add(operations, X::effects(&state), before);
        };
        let ipi_handler = |m: &Simulated, _: usize| mechanism.handle_ipi(m);
        let setup = Setup {
            region,
            host,
            tasks,
            cpus: &(0..host.cpus.len()).collect::<Vec<_>>(),
            task: &task,
            ipi_handler: X::INTERRUPTS.then_some(&ipi_handler as &IpiHandler),
            exclusive: false,
            fifo: false,
        };
        let final_check = || mechanism.check(&Native::new(0, 0), totals.borrow().operations);
        let simulated = simulate_to_completion(&setup, options, &final_check)?;
        Ok(MechanismRun { simulated, effects: totals.into_inner().effects_per_operation() })
    }
}

/// What all tasks did.
#[derive(Default)]
struct Totals {
    operations: u64,
    /// Operations after the warm-up.
    counted: u64,
    /// Effects of the counted operations.
    effects: Effects,
}

/// Counts by name, as [`Mechanism::effects`] returns them.
type Effects = Vec<(&'static str, u64)>;

impl Totals {
    /// Adds the operations and effects of a task that has ended. `at_warm_up` has those at the end of
    /// the warm-up, if it had not ended before.
    fn add(&mut self, operations: u64, effects: Effects, at_warm_up: Option<(u64, Effects)>) {
        self.operations += operations;
        let Some((operations_before, before)) = at_warm_up else { return };
        self.counted += operations - operations_before;
        let both = effects.into_iter().zip(before);
        let effects = both.map(|((name, after), (_, before))| (name, after - before));
        if self.effects.is_empty() {
            self.effects = effects.collect();
            return;
        }
        for (sum, (_, value)) in self.effects.iter_mut().zip(effects) {
            sum.1 += value;
        }
    }

    fn effects_per_operation(self) -> Vec<(&'static str, f64)> {
        let counted = self.counted.max(1) as f64;
        self.effects.into_iter().map(|(name, sum)| (name, sum as f64 / counted)).collect()
    }
}

/// The settings of a mechanism: the given values, and defaults for all others.
fn settings(mechanism: &ListedMechanism, given: &[(String, String)]) -> Result<Settings> {
    for (name, text) in given {
        check_setting(mechanism, name, text)?;
    }
    let value_of = |name: &str| {
        let last = given.iter().rev().find(|(given, _)| given == name);
        last.map(|(_, text)| text.as_str())
    };
    Ok(Settings::new(
        mechanism,
        |setting| {
            let number = value_of(setting.name).and_then(|text| number(setting.name, text));
            number.unwrap_or(setting.default)
        },
        |choice| {
            let given = value_of(choice.name);
            let word = choice.words.iter().copied().find(|&word| given == Some(word));
            word.unwrap_or(choice.words[0])
        },
    ))
}

/// The number of a setting. That of a time, whose name ends in `_ns`, may have its unit: `200ns`, `1.5us`.
fn number(name: &str, text: &str) -> Option<u64> {
    let time = if name.ends_with("_ns") { host::whole_ns(text) } else { None };
    time.or_else(|| text.parse().ok())
}

/// Fails unless the mechanism has a setting or choice of this name and it can have this value.
fn check_setting(mechanism: &ListedMechanism, name: &str, text: &str) -> Result<()> {
    let ListedMechanism { name: mechanism, settings, choices, .. } = mechanism;
    if let Some(setting) = settings.iter().find(|setting| setting.name == name) {
        let range = setting.min..=setting.max;
        let is_in_range = number(name, text).is_some_and(|number| range.contains(&number));
        let (min, max) = range.into_inner();
        ensure!(is_in_range, "{name}={text}: the value must be a number from {min} to {max}");
        return Ok(());
    }
    if let Some(choice) = choices.iter().find(|choice| choice.name == name) {
        let words = choice.words.join(", ");
        ensure!(choice.words.contains(&text), "{name}={text}: the value must be one of {words}");
        return Ok(());
    }
    let settings = settings.iter().map(|setting| setting.name);
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).chain(settings).collect();
    bail!("{}", unknown_of(&format!("setting of {mechanism}"), name, &names))
}
