//! Mechanisms on described hosts: each task works and does an operation, again and again, until
//! the time is over. Then the mechanism checks itself.

use std::cell::RefCell;

use algorithms::locks::not_a_guard;
use algorithms::mechanisms::{self, ListedMechanism, MECHANISMS, Mechanism, Settings};
use anyhow::{Context, Result, bail, ensure};
use engines::simulated::{
    Costs, Host, IpiHandler, Options, Preemption, Setup, Simulated, SimulatedRun,
    simulate_to_completion,
};
use host::{unknown, unknown_of};
use machine::{Machine, Native, Region};

use super::{Conditions, SimulatedPoint, Variation, draws, warm_up};

/// What each task does, again and again: some work, and an operation of a mechanism.
#[derive(Clone, Debug)]
pub struct MechanismLoad {
    /// The mechanism.
    pub mechanism: &'static ListedMechanism,
    /// The design of the mechanism.
    pub design: &'static str,
    /// The lock inside the mechanism.
    pub over: String,
    /// Settings and choices that differ from their defaults.
    pub given: Vec<(String, String)>,
    /// ns of work between two operations.
    pub work_ns: u64,
}

/// The results of simulating a mechanism.
pub struct MechanismRun {
    /// Operations, time and ledger.
    pub simulated: SimulatedRun,
    /// Other effects of an operation, by name, from the first operation that counts to the last.
    pub effects: Vec<(&'static str, f64)>,
}

impl MechanismLoad {
    /// Operations of the mechanism of this name in one of its designs, with default settings.
    ///
    /// # Errors
    /// There is no such mechanism or design.
    pub fn new(name: &str, design: &str) -> Result<MechanismLoad> {
        let mechanism = ListedMechanism::named(name).with_context(|| {
            let known = MECHANISMS.iter().map(|mechanism| mechanism.name);
            unknown("mechanism", name, known, "knee list algorithms")
        })?;
        let designs = mechanism.designs();
        let design = designs
            .iter()
            .copied()
            .find(|&listed| listed == design)
            .with_context(|| unknown_of(&format!("design of {name}"), design, &designs))?;
        let (over, given) = ("ticket".to_string(), Vec::new());
        Ok(MechanismLoad { mechanism, design, over, given, work_ns: 0 })
    }

    /// Gives a setting or choice another value than its default.
    pub fn with(mut self, name: &str, value: impl ToString) -> MechanismLoad {
        self.given.push((name.to_string(), value.to_string()));
        self
    }

    /// Mechanism and design, such as `file_locks:after`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.mechanism.name, self.design)
    }
}

/// Simulates a mechanism on this many CPUs, with as many tasks or more.
pub fn mechanism_point(
    load: &MechanismLoad,
    conditions: &Conditions,
    cpus: usize,
    tasks: usize,
) -> Result<SimulatedPoint> {
    point(&run_listed, load, conditions, cpus, tasks)
}

/// Simulates a mechanism of this type, one that is not in the list. The load's lock inside does not count.
pub fn own_mechanism_point<X: Mechanism>(
    load: &MechanismLoad,
    conditions: &Conditions,
    cpus: usize,
    tasks: usize,
) -> Result<SimulatedPoint> {
    use mechanisms::Visitor;
    point(&|simulation| simulation.mechanism::<X>(), load, conditions, cpus, tasks)
}

fn point(
    run: RunMechanism,
    load: &MechanismLoad,
    conditions: &Conditions,
    cpus: usize,
    tasks: usize,
) -> Result<SimulatedPoint> {
    let described = conditions.host;
    let (mut runs, mut placements) = (Vec::new(), Vec::new());
    for (draw, conditions) in draws(conditions) {
        let Conditions { placement, preemption, pinned, noise, seed, length, .. } = conditions;
        let order = described.topology().ordered(placement);
        let used: Vec<usize> = order[..cpus].iter().map(|cpu| cpu.cpu as usize).collect();
        let warm_up = warm_up(length);
        let options = Options { seed, warm_up, length, preemption, pinned, noise, trace: None };
        let part = part_of(described.host(draw), &used);
        let result = run_one(run, load, &part, tasks, &options);
        let place = || format!("{} of {}", host::counted(cpus, "CPU"), described.name);
        runs.push(result.with_context(place)?);
        placements.push(placement);
    }
    let rates = runs.iter().map(|run| run.simulated.rate()).collect();
    let MechanismRun { simulated: middle, effects } = runs.swap_remove(0);
    let effects = effects.into_iter().map(|(name, each)| (name.to_string(), each)).collect();
    Ok(SimulatedPoint { cpus, tasks, middle, rates, placements, effects })
}

/// The part of a host that has only these CPUs, in this order. The mechanism does not see the
/// others, and task i runs on CPU i.
pub fn part_of(host: Host, cpus: &[usize]) -> Host {
    Host { cpus: cpus.iter().map(|&cpu| host.cpus[cpu]).collect(), ..host }
}

/// Simulates this many tasks on all CPUs of the host.
///
/// # Errors
/// A setting that is impossible, or a fault that the mechanism finds in itself.
pub fn run_mechanism(
    load: &MechanismLoad,
    host: &Host,
    tasks: usize,
    options: &Options,
) -> Result<MechanismRun> {
    run_one(&run_listed, load, host, tasks, options)
}

/// Runs one simulation.
type RunMechanism<'a> = &'a dyn Fn(Simulation) -> Result<MechanismRun>;

fn run_one(
    run: RunMechanism,
    load: &MechanismLoad,
    host: &Host,
    tasks: usize,
    options: &Options,
) -> Result<MechanismRun> {
    let settings = settings(load.mechanism, &load.given)?;
    run(Simulation { load, settings, host, tasks, options })
        .with_context(|| format!("{} with {tasks} tasks", load.name()))
}

/// Runs a mechanism of the list, over the lock of the load.
fn run_listed(simulation: Simulation) -> Result<MechanismRun> {
    let MechanismLoad { mechanism, over, .. } = simulation.load;
    mechanisms::visit(mechanism.name, over, simulation).with_context(|| not_a_guard(over))?
}

struct Simulation<'a> {
    load: &'a MechanismLoad,
    settings: Settings,
    host: &'a Host,
    tasks: usize,
    options: &'a Options,
}

impl mechanisms::Visitor for Simulation<'_> {
    type Out = Result<MechanismRun>;

    fn mechanism<X: Mechanism>(self) -> Result<MechanismRun> {
        let Simulation { load, settings, host, tasks, options } = self;
        let crowded = tasks > host.cpus.len() && options.preemption != Preemption::Anywhere;
        ensure!(!crowded || X::TASKS_SHARE_CPUS, "each of its tasks stands for a CPU");
        ensure!(tasks <= X::TASKS_MAX, "it can have up to {} tasks", X::TASKS_MAX);
        let (_, design) =
            X::DESIGNS.iter().find(|(name, _)| *name == load.design).context("a listed design")?;
        // The mechanism is in the kernel, so sleeping and waking take no system call.
        let costs = Costs { park: 0, wake: 0, ..host.costs };
        let host = &Host { costs, ..host.clone() };
        let region = Region::new(X::bytes(tasks, &settings))?;
        let mechanism = X::new(&region, *design, tasks, &settings);
        let totals = RefCell::new(Totals::default());
        let task = |m: &Simulated, task: usize| {
            let mut state = mechanism.start(m, task);
            let (mut operations, mut at_warm_up) = (0, None);
            while !m.is_over() {
                if at_warm_up.is_none() && m.counts() {
                    at_warm_up = Some((operations, state));
                }
                // Tasks with equal work fall into step, and whether they then meet is no property of the mechanism.
                m.work(Variation::Uniform.draw(m, load.work_ns));
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
            region: &region,
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
