//! One operation of a kernel mechanism that knee has the source of, done in user space.
//!
//! These are the mechanisms of `knee list algorithms`: `knee describe NAME` without
//! `mechanism_` has the states, the designs and where it is from, `knee check NAME` searches
//! its interleavings. `design` chooses how it is built, `over` the lock inside. Times in ns are
//! CPU work that stands for what the kernel does there beside the accesses to what is shared:
//! with them the work in a lock or outside can be swept until the curve breaks. After each run
//! the mechanism checks itself: nothing lost, nothing doubled, nothing left in use.
//!
//! A task stands for a CPU. It spins as in a kernel, and gives its CPU away when it has waited
//! for some tens of microseconds. Where tasks interrupt each other, an interrupt is a signal to
//! the thread: its sender makes one system call for each target, for which the kernel sends an
//! interrupt to the CPU where the thread runs; the handler runs in a signal frame on the thread's
//! stack, and who waits for it can be interrupted too. So numbers and places of interrupts are
//! those of a kernel, and each costs some microseconds more; a broadcast is a series here. What
//! membarrier(2) would measure, one command of the kernel to all CPUs of a process, has no
//! handler. A task that is not running is interrupted when it runs next: with more tasks than
//! CPUs, a flush takes as long as the scheduler does.

use std::sync::LazyLock;

use algorithms::locks::LOCKS;
use algorithms::mechanisms::{self, Choice, MECHANISMS, Mechanism, Settings, Visitor};
use machine::{IpiHandler, Native, Peers, Region, Yielding};

use crate::lock::machine;
use crate::{Failure, Family, Forms, Kind, Load, Parameter, Prepared, Spec, Task, Workload};

/// A workload for each listed mechanism.
pub(crate) fn workloads() -> impl Iterator<Item = Workload> {
    static ALL: LazyLock<Vec<(String, Spec)>> = LazyLock::new(|| {
        let spec = |name| mechanisms::visit(name, OVER, SpecOf).expect("a listed mechanism");
        MECHANISMS.iter().map(|one| (format!("mechanism_{}", one.name), spec(one.name))).collect()
    });
    ALL.iter().map(|(name, spec)| Workload { name, source: include_str!("mechanism.rs"), spec })
}

/// The lock inside, unless another one is chosen: that of Linux.
const OVER: &str = "queued";

struct SpecOf;

impl Visitor for SpecOf {
    type Out = Spec;

    fn mechanism<X: Mechanism>(self) -> Spec {
        let designs = X::DESIGNS.iter().map(|(name, _)| *name).collect::<Vec<_>>().leak();
        let locks = LOCKS.iter().filter(|lock| !lock.shared).map(|lock| lock.name);
        let mut parameters = vec![
            Parameter {
                name: "design",
                about: "how it is built; `knee describe` of the mechanism explains",
                default: designs[0],
                kind: Kind::Choice(designs),
            },
            Parameter {
                name: "over",
                about: "the lock inside",
                default: OVER,
                kind: Kind::Choice(locks.collect::<Vec<_>>().leak()),
            },
        ];
        parameters.extend(X::CHOICES.iter().map(|choice| Parameter {
            name: choice.name,
            about: choice.about,
            default: choice.words[0],
            kind: Kind::Choice(choice.words),
        }));
        parameters.extend(X::SETTINGS.iter().map(|setting| Parameter {
            name: setting.name,
            about: setting.about,
            default: setting.default.to_string().leak(),
            kind: Kind::Number { min: setting.min, max: setting.max },
        }));
        Spec {
            semantics: 1,
            aliases: &[],
            family: Family::UserMechanisms,
            operation: X::OPERATION,
            forms: Forms::Both,
            parameters: parameters.leak(),
            needs: &[],
            prepare: |load| {
                let over = load.values.choice("over");
                mechanisms::visit(X::NAME, over, Prepare { load }).expect("a listed lock")
            },
        }
    }
}

struct Prepare<'a> {
    load: &'a Load,
}

impl Visitor for Prepare<'_> {
    type Out = Result<Box<dyn Prepared>, Failure>;

    fn mechanism<X: Mechanism>(self) -> Self::Out {
        let Load { tasks, values, turns_per_ns, .. } = self.load;
        if *tasks > X::TASKS_MAX {
            let why = format!("{tasks} tasks: this mechanism can have {}", X::TASKS_MAX);
            return Err(Failure::new(why));
        }
        let word = |choice: &'static Choice| {
            let chosen = values.choice(choice.name);
            let word = choice.words.iter().find(|word| **word == chosen);
            *word.expect("a choice is one of those declared")
        };
        let settings = Settings::of::<X>(|setting| values.number(setting.name), word);
        let design = X::DESIGNS.iter().find(|(name, _)| *name == values.choice("design"));
        let (_, design) = design.expect("a choice is one of those declared");
        let bytes = X::bytes(*tasks, &settings) + tasks * 64;
        let region = Region::new(bytes).map_err(|e| {
            Failure::of(format!("mapping {bytes} bytes for what the tasks share"), e)
        })?;
        Ok(Box::new(Running {
            mechanism: X::new(&region, *design, *tasks, &settings),
            peers: Peers::new(&region, *tasks),
            turns_per_ns: *turns_per_ns,
        }))
    }
}

struct Running<X> {
    mechanism: X,
    peers: Peers,
    turns_per_ns: f64,
}

impl<X> Running<X> {
    fn machine(&self, index: usize) -> Native<Yielding> {
        machine(index).with_turns_per_ns(self.turns_per_ns).with_peers(&self.peers).yielding()
    }
}

impl<X: Mechanism> Prepared for Running<X> {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let m = self.machine(index);
        let ipi_handler = X::INTERRUPTS.then(|| {
            // With a machine of its own: it may come while the task's is in use.
            let m = self.machine(index);
            self.peers.handle_ipis(index, move || self.mechanism.interrupted(&m))
        });
        let task = self.mechanism.start(&m, index);
        Ok(Box::new(Operator { mechanism: &self.mechanism, m, task, _ipi_handler: ipi_handler }))
    }

    fn verify(&self, operations: u64) -> Result<(), Failure> {
        self.mechanism.check(&self.machine(0), operations).map_err(Failure::new)
    }
}

struct Operator<'a, X: Mechanism> {
    mechanism: &'a X,
    m: Native<Yielding>,
    task: X::Task,
    /// For as long as the task is there, it is a CPU that can be interrupted.
    _ipi_handler: Option<IpiHandler<'a>>,
}

impl<X: Mechanism> Task for Operator<'_, X> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.mechanism.operate(&self.m, &mut self.task);
        Ok(())
    }

    fn verify(&mut self, _: u64) -> Result<(), Failure> {
        self.mechanism.finish(&self.m, &mut self.task);
        Ok(())
    }

    fn effects(&self) -> Vec<(&'static str, f64)> {
        X::effects(&self.task).into_iter().map(|(name, value)| (name, value as f64)).collect()
    }
}
