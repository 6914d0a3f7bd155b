//! The locks, one file each.

mod nodes;
mod wait_list;

/// Files of which several locks are made: the name and the text of each.
pub const PARTS: &[(&str, &str)] =
    &[("nodes", include_str!("nodes.rs")), ("wait_list", include_str!("wait_list.rs"))];

use crate::{Lock, SharedLock, Waits, manual};

/// A lock of the list [`LOCKS`].
#[derive(Debug)]
pub struct ListedLock {
    /// The name of its file, used wherever the lock is named.
    pub name: &'static str,
    /// The text of its file.
    pub source: &'static str,
    /// Whether several readers can hold it.
    pub shared: bool,
    /// Whether it can stand inside a mechanism ([`visit_guard`]).
    pub guard: bool,
    /// How its waiters wait.
    pub waits: Waits,
}

impl ListedLock {
    /// "lock" or "read-write lock".
    pub fn kind(&self) -> &'static str {
        if self.shared { "read-write lock" } else { "lock" }
    }

    /// The manual page: the module doc of the lock's file.
    pub fn manual(&self) -> String {
        manual(self.source)
    }

    /// The first sentence of the manual page.
    pub fn summary(&self) -> String {
        crate::summary(&self.manual())
    }
}

/// Code that is generic over the type of a lock.
pub trait Visitor {
    /// The result of a visit.
    type Out;
    /// Visits a lock with one holder.
    fn lock<L: Lock>(self) -> Self::Out;
    /// Visits a lock that readers share.
    fn shared<L: SharedLock>(self) -> Self::Out;
}

// A line is `lock`, a lock with one holder; `guard`, one that mechanisms can stand on as well; or `shared`, a
// lock that readers share. Guards are what kernels have put there, or were offered. Each mechanism is compiled
// anew over each, for each machine: over all locks that was half of the build of `studies` and `workloads`.
macro_rules! locks {
    ($($kind:ident $module:ident $type:ident,)*) => {
        $(pub mod $module;)*

        /// Every lock, in alphabetical order.
        pub static LOCKS: &[ListedLock] = &[$(ListedLock {
            name: stringify!($module),
            source: include_str!(concat!(stringify!($module), ".rs")),
            shared: locks!(@is_shared $kind),
            guard: locks!(@is_guard $kind),
            waits: locks!(@waits $kind $module $type),
        },)*];

        /// Visits the lock of this name; `None` if there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            match name {
                $(stringify!($module) => Some(locks!(@visit $kind visitor $module $type)),)*
                _ => None,
            }
        }

        /// Visits the lock of this name; `None` if there is none that a mechanism can stand on.
        pub fn visit_guard<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            match name {
                $(stringify!($module) => locks!(@visit_guard $kind visitor $module $type),)*
                _ => None,
            }
        }
    };
    (@waits shared $module:ident $type:ident) => { <$module::$type as SharedLock>::WAITS };
    (@waits $other:ident $module:ident $type:ident) => { <$module::$type as Lock>::WAITS };
    (@is_shared shared) => { true };
    (@is_shared $other:ident) => { false };
    (@is_guard guard) => { true };
    (@is_guard $other:ident) => { false };
    (@visit shared $visitor:ident $module:ident $type:ident) => { $visitor.shared::<$module::$type>() };
    (@visit $other:ident $visitor:ident $module:ident $type:ident) => { $visitor.lock::<$module::$type>() };
    (@visit_guard guard $visitor:ident $module:ident $type:ident) => {
        Some($visitor.lock::<$module::$type>())
    };
    (@visit_guard $other:ident $visitor:ident $module:ident $type:ident) => { None };
}

/// The names of the locks that a mechanism can stand on.
pub fn guards() -> impl Iterator<Item = &'static str> {
    LOCKS.iter().filter(|lock| lock.guard).map(|lock| lock.name)
}

/// Says that no mechanism can stand on this lock, and on which it can.
pub fn not_a_guard(name: &str) -> String {
    let guards = guards().collect::<Vec<_>>().join(", ");
    format!("no mechanism can stand on the lock {name:?}; on these it can: {guards}")
}

locks! {
    lock array ArrayLock,
    lock clh Clh,
    guard cna Cna,
    lock cohort Cohort,
    lock futex_mutex FutexMutex,
    lock hierarchical_clh HierarchicalClh,
    lock mcs Mcs,
    guard parking Parking,
    shared per_cpu_read_write PerCpuReadWrite,
    shared per_node_read_write PerNodeReadWrite,
    shared percpu_read_write_semaphore PercpuReadWriteSemaphore,
    guard queued Queued,
    guard queued_paravirtual QueuedParavirtual,
    shared queued_read_write QueuedReadWrite,
    shared read_write_semaphore ReadWriteSemaphore,
    guard test_and_set TestAndSet,
    lock test_and_set_delayed TestAndSetDelayed,
    lock test_and_test_and_set TestAndTestAndSet,
    guard ticket Ticket,
}
