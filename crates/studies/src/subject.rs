//! What a study is about: one value, whatever it was written in.
//!
//!     Subject ──place──> locks, or a mechanism, in a region ──visit──> the tasks of a search or a simulation
//!        │
//!        ├ Lock        a type of `algorithms`, found by its name in the list of locks
//!        ├ Mechanism   a type of `algorithms` over one of an inner lock, and what its user chose
//!        └ InC         a compiled program
//!
//! Checks, mutants, fairness, samples, replays and simulations take a `&Subject`, and so each is one function. A subject
//! has no memory: each search and each simulation places it anew, in a region of its own, so any number of them run at a
//! time. Placing is also where the value becomes a type. There one `match` and one look into a list decide, once for a
//! search or a simulation, and all that is called for each access is compiled for that type and that machine.

use std::fmt;
use std::sync::Arc;

use algorithms::locks::{LOCKS, ListedLock, PARTS, Visitor, not_a_guard, visit};
use algorithms::mechanisms::{self, ListedMechanism, MECHANISMS, Mechanism, Settings};
use algorithms::{Equivalent, Lock, LocksVisitor, Shape, SharedLock, place};
use anyhow::{Context, Result, bail};
use c_locks::{CLocks, CMechanism, Program};
use host::{unknown, unknown_of};
use machine::Region;

/// What a study is about.
#[derive(Clone)]
pub enum Subject {
    /// A lock of the list.
    Lock(&'static ListedLock),
    /// A mechanism of the list.
    Mechanism(MechanismDesign),
    /// A lock or a data structure in C.
    InC(Arc<Program>),
}

/// A mechanism in one of its designs.
#[derive(Clone, Debug)]
pub struct MechanismDesign {
    /// The mechanism.
    pub mechanism: &'static ListedMechanism,
    /// The design of the mechanism.
    pub design: &'static str,
    /// The lock inside the mechanism.
    pub over: String,
    /// Settings and choices of a simulation that differ from their defaults.
    pub given: Vec<(String, String)>,
}

impl MechanismDesign {
    /// The mechanism of this name in one of its designs, over a ticket lock and with default settings.
    ///
    /// # Errors
    /// There is no such mechanism or design.
    pub fn new(name: &str, design: &str) -> Result<MechanismDesign> {
        let mechanism = ListedMechanism::named(name).with_context(|| {
            let known = MECHANISMS.iter().map(|mechanism| mechanism.name);
            unknown("mechanism", name, known, "knee list algorithms")
        })?;
        let designs = mechanism.designs();
        let listed = designs.iter().copied().find(|&listed| listed == design);
        let design =
            listed.with_context(|| unknown_of(&format!("design of {name}"), design, &designs))?;
        Ok(MechanismDesign { mechanism, design, over: "ticket".to_string(), given: Vec::new() })
    }

    /// Gives a setting or choice another value than its default.
    pub fn with(mut self, name: &str, value: impl ToString) -> MechanismDesign {
        self.given.push((name.to_string(), value.to_string()));
        self
    }
}

/// What is done with a mechanism in its region.
pub(crate) trait MechanismVisitor {
    type Out;

    /// Fails if the mechanism cannot have these tasks. Comes before it is set up.
    fn refuse<X: Mechanism>(&self) -> Result<()> {
        Ok(())
    }

    fn mechanism<X: Mechanism>(self, region: &Region, mechanism: &X) -> Self::Out;
}

impl Subject {
    /// The lock of the list with this name.
    pub fn lock(name: &str) -> Result<Subject> {
        let listed = LOCKS.iter().find(|listed| listed.name == name);
        listed.map(Subject::Lock).with_context(|| {
            unknown("lock", name, LOCKS.iter().map(|lock| lock.name), "knee list algorithms")
        })
    }

    /// `mcs`, `file_locks:after` or `my_lock.c`.
    pub fn name(&self) -> String {
        match self {
            Subject::Lock(lock) => lock.name.to_string(),
            Subject::Mechanism(MechanismDesign { mechanism, design, .. }) => {
                format!("{}:{design}", mechanism.name)
            }
            Subject::InC(program) => program.name.clone(),
        }
    }

    /// Whether tasks take and release it; else they repeat an operation.
    pub fn is_lock(&self) -> bool {
        match self {
            Subject::Lock(_) => true,
            Subject::Mechanism(_) => false,
            Subject::InC(program) => !program.is_operation(),
        }
    }

    /// Whether it is a lock that readers share.
    pub fn is_read_write_lock(&self) -> bool {
        match self {
            Subject::Lock(lock) => lock.shared,
            Subject::Mechanism(_) => false,
            Subject::InC(program) => program.is_read_write_lock(),
        }
    }

    /// The files whose accesses are its own: the end of each path, `/ticket.rs`, and the text.
    pub(crate) fn sources(&self) -> Vec<(String, &str)> {
        let listed = |(name, text): &(&str, &'static str)| (format!("/{name}.rs"), *text);
        match self {
            Subject::Lock(lock) => {
                [(lock.name, lock.source)].iter().chain(PARTS).map(listed).collect()
            }
            Subject::Mechanism(MechanismDesign { mechanism, .. }) => {
                let own = [(mechanism.name, mechanism.source)];
                own.iter().chain(mechanism.parts).map(listed).collect()
            }
            Subject::InC(program) => {
                program.sources.iter().map(|(path, text)| (path.clone(), text.as_str())).collect()
            }
        }
    }

    /// Why this change of an access on this line breaks nothing, if it is listed so.
    pub(crate) fn why_equivalent(&self, change: &str, line: &str) -> Option<String> {
        fn why<T: AsRef<str>>(
            listed: &[Equivalent<T>],
            change: &str,
            line: &str,
        ) -> Option<String> {
            let is_it = |listed: &&Equivalent<T>| {
                listed.change.as_ref() == change && line.contains(listed.line.as_ref())
            };
            listed.iter().find(is_it).map(|listed| listed.why.as_ref().to_string())
        }
        match self {
            Subject::Lock(lock) => why(visit(lock.name, Equivalents)?, change, line),
            Subject::Mechanism(MechanismDesign { mechanism, .. }) => {
                why(mechanism.equivalent, change, line)
            }
            Subject::InC(program) => why(&program.equivalent, change, line),
        }
    }

    /// Visits locks of this kind, in a region with room for this many bytes besides.
    pub(crate) fn with_locks<V: LocksVisitor>(
        &self,
        shape: Shape,
        bytes: usize,
        visitor: V,
    ) -> Result<V::Out> {
        match self {
            Subject::Lock(lock) => {
                let placed = place(lock.name, shape, bytes, visitor);
                Ok(placed.context("a lock of the list")??)
            }
            Subject::Mechanism(_) => bail!("{} is a mechanism, not a lock", self.name()),
            Subject::InC(program) => {
                let locks = CLocks::new(program, shape, bytes);
                Ok(visitor.locks(&locks.with_context(|| program.name.clone())?))
            }
        }
    }

    /// The mechanism with its settings and choices, of which one in C has none.
    pub(crate) fn mechanism(&self) -> Result<&'static ListedMechanism> {
        static IN_C: ListedMechanism = CMechanism::LISTED;
        match self {
            Subject::Lock(_) => bail!("{} is a lock, not a mechanism", self.name()),
            Subject::Mechanism(design) => Ok(design.mechanism),
            Subject::InC(_) => Ok(&IN_C),
        }
    }

    /// Visits this mechanism, set up for this many tasks.
    pub(crate) fn with_mechanism<V: MechanismVisitor>(
        &self,
        tasks: usize,
        settings: &Settings,
        visitor: V,
    ) -> Result<V::Out> {
        match self {
            Subject::Lock(_) => bail!("{} is a lock, not a mechanism", self.name()),
            Subject::Mechanism(MechanismDesign { mechanism, design, over, .. }) => {
                let place = PlaceMechanism { design, tasks, settings, visitor };
                mechanisms::visit(mechanism.name, over, place).with_context(|| not_a_guard(over))?
            }
            Subject::InC(program) => {
                visitor.refuse::<CMechanism>()?;
                let region = Region::new(CMechanism::bytes(program, tasks, settings))?;
                let mechanism = CMechanism::placed(&region, program, tasks);
                let mechanism = mechanism.with_context(|| program.name.clone())?;
                Ok(visitor.mechanism(&region, &mechanism))
            }
        }
    }
}

/// The name.
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Whether both are one lock of the list, or one and the same program. Mechanisms are never equal: they have settings.
impl PartialEq for Subject {
    fn eq(&self, other: &Subject) -> bool {
        match (self, other) {
            (Subject::Lock(one), Subject::Lock(other)) => one.name == other.name,
            (Subject::InC(one), Subject::InC(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

fn set_up<X: Mechanism, V: MechanismVisitor>(
    design: &X::Design,
    tasks: usize,
    settings: &Settings,
    visitor: V,
) -> Result<V::Out> {
    visitor.refuse::<X>()?;
    let region = Region::new(X::bytes(design, tasks, settings))?;
    let mechanism = X::new(&region, design.clone(), tasks, settings);
    Ok(visitor.mechanism(&region, &mechanism))
}

struct PlaceMechanism<'a, V> {
    design: &'a str,
    tasks: usize,
    settings: &'a Settings,
    visitor: V,
}

impl<V: MechanismVisitor> mechanisms::Visitor for PlaceMechanism<'_, V> {
    type Out = Result<V::Out>;

    fn mechanism<X: Mechanism>(self) -> Result<V::Out> {
        let design = X::DESIGNS.iter().find(|(name, _)| *name == self.design);
        let (_, design) = design.context("a listed design")?;
        set_up::<X, V>(design, self.tasks, self.settings, self.visitor)
    }
}

struct Equivalents;

impl Visitor for Equivalents {
    type Out = &'static [Equivalent];

    fn lock<L: Lock>(self) -> Self::Out {
        L::EQUIVALENT
    }

    fn shared<L: SharedLock>(self) -> Self::Out {
        L::EQUIVALENT
    }
}
