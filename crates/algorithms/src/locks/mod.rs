//! The locks, one file each.

mod nodes;
mod wait_list;

/// Files of which several locks are made: the name and the text of each.
pub const PARTS: &[(&str, &str)] =
    &[("nodes", include_str!("nodes.rs")), ("wait_list", include_str!("wait_list.rs"))];

use crate::{Lock, SharedLock, manual};

/// A lock of the list [`LOCKS`].
#[derive(Debug)]
pub struct ListedLock {
    /// The name of its file, used wherever the lock is named.
    pub name: &'static str,
    /// The text of its file.
    pub source: &'static str,
    /// Whether several readers can hold it.
    pub shared: bool,
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

macro_rules! locks {
    ($($kind:ident $module:ident $type:ident,)*) => {
        $(pub mod $module;)*

        /// Every lock, in alphabetical order.
        pub static LOCKS: &[ListedLock] = &[$(ListedLock {
            name: stringify!($module),
            source: include_str!(concat!(stringify!($module), ".rs")),
            shared: locks!(@shared $kind),
        },)*];

        /// Visits the lock of this name; `None` if there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            match name {
                $(stringify!($module) => Some(visitor.$kind::<$module::$type>()),)*
                _ => None,
            }
        }
    };
    (@shared lock) => { false };
    (@shared shared) => { true };
}

locks! {
    lock array ArrayLock,
    lock clh Clh,
    lock cna Cna,
    lock cohort Cohort,
    lock futex_mutex FutexMutex,
    lock hierarchical_clh HierarchicalClh,
    lock mcs Mcs,
    lock parking Parking,
    shared per_cpu_read_write PerCpuReadWrite,
    shared per_node_read_write PerNodeReadWrite,
    shared percpu_read_write_semaphore PercpuReadWriteSemaphore,
    lock queued Queued,
    lock queued_paravirtual QueuedParavirtual,
    shared queued_read_write QueuedReadWrite,
    shared read_write_semaphore ReadWriteSemaphore,
    lock test_and_set TestAndSet,
    lock test_and_set_delayed TestAndSetDelayed,
    lock test_and_test_and_set TestAndTestAndSet,
    lock ticket Ticket,
}
