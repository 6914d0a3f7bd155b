//! The choices in the design of the list.

/// The design of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// Where items are listed.
    pub lists: Lists,
    /// What orders the items of a push.
    pub order: Order,
    /// Where the space used is counted.
    pub space: Space,
    /// The lock that excludes commits during a push.
    pub context: Context,
}

/// Where items are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// In one list under a lock; every commit moves its items to the tail.
    Moved,
    /// In one list under a lock; an item that is listed stays where it is.
    Once,
    /// In a list of the CPU that committed the item first, without a lock.
    PerCpu,
}

/// What orders the items of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Their position in the list.
    ListPosition,
    /// The id of each item's last commit, from a shared counter.
    Ids,
}

/// Where the space used is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// In one sum, under the lock of the list or, if it has none, atomically.
    OneSum,
    /// On each CPU, which adds to the sum only from time to time.
    PerCpu,
}

/// The lock that excludes commits during a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A read-write lock of one word, as in Linux.
    Shared,
    /// A lock per CPU; a push takes all of them.
    PerCpu,
}

impl Design {
    /// The design of Linux up to 5.19.
    pub const BEFORE: Design = Design {
        lists: Lists::Moved,
        order: Order::ListPosition,
        space: Space::OneSum,
        context: Context::Shared,
    };

    /// The design of Linux 6.0.
    pub const AFTER: Design = Design {
        lists: Lists::PerCpu,
        order: Order::Ids,
        space: Space::PerCpu,
        context: Context::Shared,
    };

    /// Whether a push is in the order of commits.
    pub(super) fn ordered(self) -> bool {
        self.order == Order::Ids || self.lists == Lists::Moved
    }
}
