//! Mechanisms on described hosts: tasks that work outside and do an operation, again and again,
//! until the time is over; then the mechanism checks itself.

use std::cell::RefCell;

use algorithms::mechanisms::{self, Choice, Entry, MECHANISMS, Mechanism, Setting, Settings};
use anyhow::{Context, Result, bail, ensure};
use engines::simulated::{
    Costs, Handler, Host, Options, Outcome, Preemption, Setup, Simulated, simulate_to_the_end,
};
use machine::{Machine, Native, Region};
use records::nearest;

use super::{Place, Point, draws, warm_up};

/// What each task does, again and again: some work, and an operation.
#[derive(Clone, Debug)]
pub struct Operated {
    /// Of which mechanism.
    pub mechanism: &'static Entry,
    /// In which of its designs.
    pub design: &'static str,
    /// The lock inside.
    pub over: String,
    /// What is set otherwise than it is by itself.
    pub given: Vec<(String, String)>,
    /// ns of work outside of the operation.
    pub work_ns: u64,
}

/// What came of it.
pub struct Ran {
    /// Operations and time.
    pub outcome: Outcome,
    /// What an operation did beside, by name, from the first operation that counts to the last.
    pub effects: Vec<(&'static str, f64)>,
}

impl Operated {
    /// The mechanism of this name in one of its designs, as it is by itself.
    ///
    /// # Errors
    /// No such mechanism or design.
    pub fn new(name: &str, design: &str) -> Result<Operated> {
        let mechanism = MECHANISMS.iter().find(|one| one.name == name).with_context(|| {
            let near = nearest(name, MECHANISMS.iter().map(|one| one.name));
            format!("no mechanism is called {name:?}{near}; see: knee list algorithms")
        })?;
        let designs = mechanism.designs();
        let found = designs.iter().find(|known| **known == design);
        let design = found.with_context(|| {
            format!("{name} has no design {design:?}; it has {}", designs.join(", "))
        })?;
        let (over, given) = ("ticket".to_string(), Vec::new());
        Ok(Operated { mechanism, design, over, given, work_ns: 0 })
    }

    /// With something set.
    pub fn with(mut self, name: &str, value: impl ToString) -> Operated {
        self.given.push((name.to_string(), value.to_string()));
        self
    }

    /// `file_locks:after`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.mechanism.name, self.design)
    }
}

/// Simulates a mechanism at so many CPUs, with as many tasks or more.
pub fn point(operated: &Operated, place: &Place, cpus: usize, tasks: usize) -> Result<Point> {
    let order = place.host.topology().ordered(place.placement);
    let places: Vec<usize> = order[..cpus].iter().map(|cpu| cpu.cpu as usize).collect();
    let mut rans = Vec::new();
    for (draw, seed) in draws(place) {
        let options = Options {
            seed,
            warm_up: warm_up(place.length),
            length: place.length,
            preemption: place.preemption,
            pinned: place.pinned,
            trace: None,
        };
        let ran = once(operated, &part_of(place.host.host(draw), &places), tasks, &options);
        let on = || format!("{cpus} CPUs of {}", place.host.name);
        rans.push(ran.with_context(on)?);
    }
    let rates = rans.iter().map(|ran| ran.outcome.rate()).collect();
    let Ran { outcome: middle, effects } = rans.swap_remove(0);
    Ok(Point { cpus, tasks, middle, rates, effects })
}

/// The part of a host that has these CPUs, in this order: to a mechanism the others are not
/// there, and task i is on CPU i.
pub fn part_of(host: Host, cpus: &[usize]) -> Host {
    Host { cpus: cpus.iter().map(|&cpu| host.cpus[cpu]).collect(), ..host }
}

/// Simulates so many tasks on all CPUs of the host.
///
/// # Errors
/// What cannot be set like that, and what the mechanism finds wrong with itself.
pub fn once(operated: &Operated, host: &Host, tasks: usize, options: &Options) -> Result<Ran> {
    let Operated { mechanism, over, .. } = operated;
    let visitor = Simulation { operated, host, tasks, options };
    mechanisms::visit(mechanism.name, over, visitor)
        .with_context(|| format!("no lock that one holds is called {over:?}"))?
        .with_context(|| format!("{} with {tasks} tasks", operated.name()))
}

struct Simulation<'a> {
    operated: &'a Operated,
    host: &'a Host,
    tasks: usize,
    options: &'a Options,
}

impl mechanisms::Visitor for Simulation<'_> {
    type Out = Result<Ran>;

    fn mechanism<X: Mechanism>(self) -> Result<Ran> {
        let Simulation { operated, host, tasks, options } = self;
        let crowded = tasks > host.cpus.len() && options.preemption != Preemption::Anywhere;
        ensure!(!crowded || X::TASKS_SHARE_CPUS, "each of its tasks stands for a CPU");
        ensure!(tasks <= X::TASKS_MAX, "it can have {} tasks", X::TASKS_MAX);
        let (_, design) = X::DESIGNS
            .iter()
            .find(|(name, _)| *name == operated.design)
            .context("a listed design")?;
        let settings = settings::<X>(&operated.given)?;
        // It is in the kernel: to sleep and to wake takes no call.
        let costs = Costs { park: 0, wake: 0, ..host.costs };
        let host = &Host { costs, ..host.clone() };
        let region = Region::new(X::bytes(tasks, &settings))?;
        let mechanism = X::new(&region, *design, tasks, &settings);
        let done = RefCell::new(Done::default());
        let task = |m: &Simulated, task: usize| {
            let mut state = mechanism.start(m, task);
            let (mut all, mut warm) = (0, None);
            while !m.is_over() {
                if warm.is_none() && m.counts() {
                    warm = Some((all, state));
                }
                m.work(varied(m, operated.work_ns));
                mechanism.operate(m, &mut state);
                all += 1;
                m.operation_done();
            }
            mechanism.finish(m, &mut state);
            done.borrow_mut().add::<X>(all, &state, warm);
        };
        let interrupted = |m: &Simulated, _: usize| mechanism.interrupted(m);
        let setup = Setup {
            region: &region,
            host,
            tasks,
            places: &(0..host.cpus.len()).collect::<Vec<_>>(),
            task: &task,
            interrupted: X::INTERRUPTS.then_some(&interrupted as &Handler),
            exclusive: false,
            fifo: false,
        };
        let last = || mechanism.check(&Native::new(0, 0), done.borrow().all);
        let outcome = simulate_to_the_end(&setup, options, &last)?;
        Ok(Ran { outcome, effects: done.into_inner().each() })
    }
}

/// Between half and one and a half of a time: tasks whose work is all alike fall into step, and
/// whether they then meet is no property of the mechanism.
fn varied(m: &Simulated, ns: u64) -> u64 {
    let bound = u32::try_from(ns).unwrap_or(u32::MAX);
    ns / 2 + u64::from(if bound > 0 { m.random(bound) } else { 0 })
}

/// What all tasks did.
#[derive(Default)]
struct Done {
    all: u64,
    /// Those that count, and what they did beside.
    operations: u64,
    effects: Vec<(&'static str, u64)>,
}

impl Done {
    /// Adds a task, which did so many operations; when the warm-up was over it was as it is
    /// in `warm`, unless it has ended before.
    fn add<X: Mechanism>(&mut self, all: u64, task: &X::Task, warm: Option<(u64, X::Task)>) {
        self.all += all;
        let Some((before, warm)) = warm else { return };
        self.operations += all - before;
        let since = X::effects(task).into_iter().zip(X::effects(&warm));
        let effects = since.map(|((name, now), (_, before))| (name, now - before));
        if self.effects.is_empty() {
            self.effects = effects.collect();
            return;
        }
        for (sum, (_, value)) in self.effects.iter_mut().zip(effects) {
            sum.1 += value;
        }
    }

    /// The effects of one operation.
    fn each(self) -> Vec<(&'static str, f64)> {
        let operations = self.operations.max(1) as f64;
        self.effects.into_iter().map(|(name, sum)| (name, sum as f64 / operations)).collect()
    }
}

/// The settings of a mechanism: what was given, and what they are by themselves.
fn settings<X: Mechanism>(given: &[(String, String)]) -> Result<Settings> {
    let numbers = X::SETTINGS.iter().map(|setting| setting.name);
    let known: Vec<&str> = X::CHOICES.iter().map(|choice| choice.name).chain(numbers).collect();
    for (name, _) in given {
        let (near, all) = (nearest(name, known.iter().copied()), known.join(", "));
        ensure!(known.contains(&name.as_str()), "{} has no setting {name:?}{near}: {all}", X::NAME);
    }
    let text = |name: &str| given.iter().rev().find(|one| one.0 == name).map(|one| one.1.as_str());
    let wrong = RefCell::new(None);
    let number = |setting: &'static Setting| {
        let Some(text) = text(setting.name) else { return setting.default };
        let Setting { name, min, max, .. } = setting;
        match text.parse() {
            Ok(number) if (*min..=*max).contains(&number) => return number,
            _ => wrong.replace(Some(format!("{name}={text}: a number from {min} to {max}"))),
        };
        setting.default
    };
    let word = |choice: &'static Choice| {
        let Some(text) = text(choice.name) else { return choice.words[0] };
        if let Some(word) = choice.words.iter().find(|word| **word == text) {
            return *word;
        }
        wrong.replace(Some(format!("{}={text}: {}", choice.name, choice.words.join(", "))));
        choice.words[0]
    };
    let settings = Settings::of::<X>(number, word);
    match wrong.into_inner() {
        Some(why) => bail!(why),
        None => Ok(settings),
    }
}
