//! The orders that accesses of an algorithm have, and limits to them: an access that no longer orders as much as its source
//! says, without doing anything else.
//!
//!     seq_cst ── acq_rel ──┬── acquire ──┬── relaxed        of a fence that is relaxed, nothing is left
//!                          └── release ──┘

use machine::{CodeSite, Op, Ordering};

/// What has an order. A line of the source may have several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ordered {
    /// A load, or a wait.
    Load,
    /// A store.
    Store,
    /// A read-modify-write that writes.
    Update,
    /// A compare-exchange that fails.
    Failure,
    /// A fence.
    Fence,
}

impl Ordered {
    /// What this access is.
    pub fn of<T>(op: &Op<T>) -> Ordered {
        match op {
            Op::Load => Ordered::Load,
            Op::Store(_) => Ordered::Store,
            _ => Ordered::Update,
        }
    }

    /// In a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Ordered::Load => "load",
            Ordered::Store => "store",
            Ordered::Update => "read-modify-write",
            Ordered::Failure => "failed compare-exchange",
            Ordered::Fence => "fence",
        }
    }

    /// The orders below this one, the weakest first. Neither of acquire and release is below the other.
    pub fn weaker_than(self, order: Ordering) -> &'static [Ordering] {
        use Ordering::{AcqRel, Acquire, Relaxed, Release};
        let one_sided: &[Ordering] = match self {
            Ordered::Load | Ordered::Failure => &[Relaxed, Acquire],
            Ordered::Store => &[Relaxed, Release],
            Ordered::Update | Ordered::Fence => &[Relaxed, Acquire, Release, AcqRel],
        };
        match order {
            Relaxed => &[],
            Acquire | Release => &one_sided[..1],
            AcqRel => &one_sided[..one_sided.len().min(3)],
            _ => one_sided,
        }
    }
}

/// An access, or a fence, with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderedAccess {
    /// Where it is in the source.
    pub site: CodeSite,
    /// What has the order.
    pub ordered: Ordered,
}

/// An access that orders no more than this, whatever its source says. A fence that is relaxed is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderLimit {
    /// The access.
    pub access: OrderedAccess,
    /// Its strongest order.
    pub order: Ordering,
}

/// Whether an order acquires, and whether it releases.
fn sides(order: Ordering) -> [bool; 2] {
    match order {
        Ordering::Relaxed => [false, false],
        Ordering::Acquire => [true, false],
        Ordering::Release => [false, true],
        _ => [true, true],
    }
}

fn with_sides(sides: [bool; 2]) -> Ordering {
    match sides {
        [false, false] => Ordering::Relaxed,
        [true, false] => Ordering::Acquire,
        [false, true] => Ordering::Release,
        [true, true] => Ordering::AcqRel,
    }
}

/// What both orders order.
pub fn common_order(one: Ordering, other: Ordering) -> Ordering {
    match (one, other) {
        (Ordering::SeqCst, order) | (order, Ordering::SeqCst) => order,
        _ => {
            let ([a, b], [c, d]) = (sides(one), sides(other));
            with_sides([a && c, b && d])
        }
    }
}

/// What either order orders.
pub fn union(one: Ordering, other: Ordering) -> Ordering {
    if one == Ordering::SeqCst || other == Ordering::SeqCst {
        return Ordering::SeqCst;
    }
    let ([a, b], [c, d]) = (sides(one), sides(other));
    with_sides([a || c, b || d])
}

#[cfg(test)]
mod tests {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

    use super::*;

    #[test]
    fn weaker_orders_are_those_that_such_an_access_can_have() {
        let weaker = |ordered: Ordered, order| ordered.weaker_than(order).to_vec();
        assert_eq!(weaker(Ordered::Load, SeqCst), [Relaxed, Acquire]);
        assert_eq!(weaker(Ordered::Load, Acquire), [Relaxed]);
        assert_eq!(weaker(Ordered::Store, SeqCst), [Relaxed, Release]);
        assert_eq!(weaker(Ordered::Update, SeqCst), [Relaxed, Acquire, Release, AcqRel]);
        assert_eq!(weaker(Ordered::Update, AcqRel), [Relaxed, Acquire, Release]);
        assert_eq!(weaker(Ordered::Fence, Release), [Relaxed]);
        assert_eq!(weaker(Ordered::Failure, Relaxed), []);
    }

    #[test]
    fn a_limit_takes_away_what_it_does_not_have() {
        for (one, other, both) in [
            (SeqCst, Acquire, Acquire),
            (AcqRel, Release, Release),
            (Acquire, Release, Relaxed),
            (SeqCst, SeqCst, SeqCst),
            (AcqRel, SeqCst, AcqRel),
        ] {
            assert_eq!(common_order(one, other), both, "{one:?} and {other:?}");
        }
    }
}
