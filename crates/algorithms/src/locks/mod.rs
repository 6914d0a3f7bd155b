//! The locks, one file each.

mod nodes;

/// The file of the nodes that queueing locks share.
pub const NODES_SOURCE: &str = include_str!("nodes.rs");

use crate::{Lock, SharedLock, manual};

/// One listed lock.
#[derive(Debug)]
pub struct Algorithm {
    /// The name of its file and of everything that shows it.
    pub name: &'static str,
    /// Its file.
    pub source: &'static str,
    /// Whether it can be held by several readers.
    pub shared: bool,
}

impl Algorithm {
    /// What it is.
    pub fn kind(&self) -> &'static str {
        if self.shared { "read-write lock" } else { "lock" }
    }

    /// Its manual page: the module doc of its file.
    pub fn manual(&self) -> String {
        manual(self.source)
    }

    /// The first sentence of that.
    pub fn summary(&self) -> String {
        crate::summary(&self.manual())
    }
}

/// What is done with a lock of whatever type.
pub trait Visitor {
    /// What comes of it.
    type Out;
    /// With a lock that one holds.
    fn lock<L: Lock>(self) -> Self::Out;
    /// With a lock that readers share.
    fn shared<L: SharedLock>(self) -> Self::Out;
}

macro_rules! locks {
    ($($kind:ident $module:ident $type:ident,)*) => {
        $(pub mod $module;)*

        /// Every lock, in alphabetical order.
        pub static LOCKS: &[Algorithm] = &[$(Algorithm {
            name: stringify!($module),
            source: include_str!(concat!(stringify!($module), ".rs")),
            shared: locks!(@shared $kind),
        },)*];

        /// Does something with the lock of this name.
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
    lock clh Clh,
    lock cna Cna,
    lock mcs Mcs,
    lock parking Parking,
    shared per_cpu_read_write PerCpuReadWrite,
    lock queued Queued,
    lock queued_paravirtual QueuedParavirtual,
    shared queued_read_write QueuedReadWrite,
    lock test_and_set TestAndSet,
    lock test_and_set_delayed TestAndSetDelayed,
    lock test_and_test_and_set TestAndTestAndSet,
    lock ticket Ticket,
}
