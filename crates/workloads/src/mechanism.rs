//! One operation of a kernel mechanism that knee implements, run in user space.
//!
//! These are the mechanisms of `knee list algorithms`: `knee show NAME`, without
//! `mechanism_`, explains the states and the designs and cites the source; `knee check NAME`
//! searches its interleavings. `design` chooses the design, `over` the lock inside. Times in ns
//! are CPU work that stands for what the kernel does beside its accesses to shared data: sweep
//! the work inside the lock, or outside, until the curve bends. After each run the mechanism
//! checks itself: nothing lost, nothing duplicated, nothing left in use.
//!
//! A task stands for a CPU. It spins as in a kernel, and yields its CPU when it has waited for
//! some tens of microseconds. Where tasks interrupt each other, an interrupt is a signal to the
//! thread: the sender makes one system call for each target, for which the kernel sends an IPI to
//! the CPU where the thread runs. The handler runs in a signal frame on the thread's stack, and a
//! task that waits for it can be interrupted too. So the number and the targets of interrupts are
//! those of a kernel, but each costs some microseconds more, and a broadcast is a series here.
//! membarrier(2), one command of the kernel to all CPUs of a process, could not stand in: it runs
//! no handler. A task that is not running is interrupted when it runs next: with more tasks than
//! CPUs, a flush takes as long as the scheduler does.

use std::sync::LazyLock;

use algorithms::locks::{self, queued::Queued};
use algorithms::mechanisms::{
    self, Choice, ListedMechanism, MECHANISMS, Mechanism, Settings, Visitor, visit_over,
};
use machine::{IpiHandler, Native, Pace, Peers, Region, Yielding};

use crate::lock::machine;
use crate::manual::manual;
use crate::{
    Failure, Family, Forms, Load, Parameter, ParameterKind, Prepared, Spec, Task, Workload,
};

/// One workload for each listed mechanism.
pub(crate) fn workloads() -> impl Iterator<Item = Workload> {
    static SPECS: LazyLock<Vec<(String, Spec)>> = LazyLock::new(|| {
        let spec = |mechanism: &'static ListedMechanism| {
            let spec = visit_over::<Queued, _>(mechanism.name, BuildSpec(mechanism));
            (format!("mechanism_{}", mechanism.name), spec.expect("a listed mechanism"))
        };
        MECHANISMS.iter().map(spec).collect()
    });
    SPECS.iter().map(|(name, spec)| Workload { name, doc: manual!("mechanism.rs"), spec })
}

/// The default lock inside a mechanism: that of Linux.
const OVER: &str = "queued";

/// The workload's description. A visitor only because `prepare` is a function, which knows its mechanism
/// by its type.
struct BuildSpec(&'static ListedMechanism);

impl Visitor for BuildSpec {
    type Out = Spec;

    fn mechanism<X: Mechanism>(self) -> Spec {
        Spec {
            semantics: 1,
            aliases: &[],
            family: Family::UserMechanisms,
            operation: self.0.operation,
            forms: Forms::Both,
            parameters: parameters(self.0).leak(),
            needs: &[],
            prepare: |load| {
                let over = load.values.choice("over");
                let mechanism = ListedMechanism::named(X::NAME).expect("a listed mechanism");
                let settings = settings(mechanism, load);
                mechanisms::visit(X::NAME, over, Prepare { load, settings }).expect("a listed lock")
            },
        }
    }
}

fn parameters(mechanism: &ListedMechanism) -> Vec<Parameter> {
    let designs = mechanism.designs().leak();
    let mut parameters = vec![
        Parameter {
            name: "design",
            about: "design of the mechanism, explained by its `knee show`",
            default: designs[0],
            kind: ParameterKind::Choice(designs),
        },
        Parameter {
            name: "over",
            about: "lock inside the mechanism",
            default: OVER,
            kind: ParameterKind::Choice(locks::guards().collect::<Vec<_>>().leak()),
        },
    ];
    parameters.extend(mechanism.choices.iter().map(|choice| Parameter {
        name: choice.name,
        about: choice.about,
        default: choice.words[0],
        kind: ParameterKind::Choice(choice.words),
    }));
    parameters.extend(mechanism.settings.iter().map(|setting| Parameter {
        name: setting.name,
        about: setting.about,
        default: setting.default.to_string().leak(),
        kind: ParameterKind::Number { min: setting.min, max: setting.max },
    }));
    parameters
}

fn settings(mechanism: &ListedMechanism, load: &Load) -> Settings {
    let word = |choice: &'static Choice| {
        let chosen = load.values.choice(choice.name);
        let word = choice.words.iter().find(|word| **word == chosen);
        *word.expect("a choice is one of those declared")
    };
    Settings::new(mechanism, |setting| load.values.number(setting.name), word)
}

/// The memory that the tasks share.
fn region(bytes: usize) -> Result<Region, Failure> {
    Region::new(bytes).map_err(|e| {
        Failure::from_error(format!("mapping {bytes} bytes for what the tasks share"), e)
    })
}

struct Prepare<'a> {
    load: &'a Load,
    settings: Settings,
}

impl Visitor for Prepare<'_> {
    type Out = Result<Box<dyn Prepared>, Failure>;

    fn mechanism<X: Mechanism>(self) -> Self::Out {
        let Prepare { load: Load { tasks, values, pace, .. }, settings } = self;
        if *tasks > X::TASKS_MAX {
            let why = format!("{tasks} tasks: this mechanism supports at most {}", X::TASKS_MAX);
            return Err(Failure::new(why));
        }
        let design = X::DESIGNS.iter().find(|(name, _)| *name == values.choice("design"));
        let (_, design) = design.expect("a choice is one of those declared");
        let region = region(X::bytes(design, *tasks, &settings) + tasks * 64)?;
        Ok(Box::new(Running {
            mechanism: X::new(&region, design.clone(), *tasks, &settings),
            peers: Peers::new(&region, *tasks),
            pace: *pace,
        }))
    }
}

struct Running<X> {
    mechanism: X,
    peers: Peers,
    pace: Pace,
}

impl<X> Running<X> {
    fn machine(&self, index: usize) -> Native<Yielding> {
        machine(index).with_pace(self.pace).with_peers(&self.peers).yielding()
    }
}

impl<X: Mechanism> Prepared for Running<X> {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let m = self.machine(index);
        let ipi_handler = X::INTERRUPTS.then(|| {
            // A machine of its own: an interrupt may come while the task's machine is in use.
            let m = self.machine(index);
            self.peers.handle_ipis(index, move || self.mechanism.handle_ipi(&m))
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
    /// While this value exists, other tasks can interrupt this one.
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
