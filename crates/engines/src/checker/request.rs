//! What a task asks for when it stops, as data: printed, hashed, enabled or not.

use std::fmt;
use std::panic::Location;

use machine::{Op, Ordering, Test, Until, Value};

/// What a stopped task wants to do next.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub kind: Kind,
    /// The word: its distance from the start of the region.
    pub offset: u32,
    /// Its bytes.
    pub size: u8,
    pub ordering: Ordering,
    pub location: &'static Location<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Access(Op<u64>),
    /// Goes on once this holds.
    Await(Until<u64>),
    /// Looks once, for all that a bounded wait may see.
    AwaitFor(Until<u64>),
    Park(u64),
    /// Asleep on the word.
    Asleep,
    /// Woken, with nothing left to do but return.
    Woken,
    WakeOne,
    WakeAll,
    Choose(u32),
    /// Interrupts these tasks, as bits.
    Interrupt(u16),
    /// Computes; a point where it can be interrupted.
    Work,
    /// Has done all; can still be interrupted.
    Idle,
    /// Found at fault; never goes on.
    Stuck,
}

/// What it gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reply {
    pub value: u64,
    /// Whether the condition of a bounded wait held.
    pub held: bool,
    /// No reply yet: it was interrupted, and is to ask again.
    pub interrupted: bool,
}

pub fn widened<T: Value>(op: Op<T>) -> Op<u64> {
    match op {
        Op::Load => Op::Load,
        Op::Store(value) => Op::Store(value.bits()),
        Op::Swap(value) => Op::Swap(value.bits()),
        Op::CompareExchange(old, new) => Op::CompareExchange(old.bits(), new.bits()),
        Op::Add(value) => Op::Add(value.bits()),
        Op::Or(value) => Op::Or(value.bits()),
        Op::And(value) => Op::And(value.bits()),
    }
}

pub fn widened_until<T: Value>(until: Until<T>) -> Until<u64> {
    Until { mask: until.mask.bits(), test: until.test, value: until.value.bits() }
}

/// What a word of this size holds after the access; `None` where it is not written.
pub fn written(op: Op<u64>, old: u64, size: u8) -> Option<u64> {
    let new = match op {
        Op::Load => return None,
        Op::CompareExchange(expected, _) if expected != old => return None,
        Op::Store(value) | Op::Swap(value) | Op::CompareExchange(_, value) => value,
        Op::Add(value) => old.wrapping_add(value),
        Op::Or(bits) => old | bits,
        Op::And(bits) => old & bits,
    };
    Some(new & ones(size))
}

/// All bits of a word of this size.
pub fn ones(size: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(size))
}

pub fn acquires(ordering: Ordering) -> bool {
    matches!(ordering, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

pub fn releases(ordering: Ordering) -> bool {
    matches!(ordering, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Kind::Access(Op::Load) => write!(f, "load"),
            Kind::Access(Op::Store(value)) => write!(f, "store {value}"),
            Kind::Access(Op::Swap(value)) => write!(f, "swap {value}"),
            Kind::Access(Op::CompareExchange(old, new)) => {
                write!(f, "compare-exchange {old} by {new}")
            }
            Kind::Access(Op::Add(value)) => write!(f, "add {value}"),
            Kind::Access(Op::Or(bits)) => write!(f, "or {bits}"),
            Kind::Access(Op::And(bits)) => write!(f, "and {bits:#x}"),
            Kind::Await(until) => write!(f, "await {}", Condition(*until)),
            Kind::AwaitFor(until) => write!(f, "await for a while {}", Condition(*until)),
            Kind::Park(expected) => write!(f, "park if {expected}"),
            Kind::Asleep => write!(f, "asleep"),
            Kind::Woken => write!(f, "woken"),
            Kind::WakeOne => write!(f, "wake one"),
            Kind::WakeAll => write!(f, "wake all"),
            Kind::Choose(below) => write!(f, "choose below {below}"),
            Kind::Interrupt(whom) => write!(f, "interrupt {whom:#b}"),
            Kind::Work => write!(f, "work"),
            Kind::Idle => write!(f, "idle"),
            Kind::Stuck => write!(f, "stuck"),
        }
    }
}

struct Condition(Until<u64>);

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Until { mask, test, value } = self.0;
        let sign = match test {
            Test::Equal => "==",
            Test::Differs => "!=",
        };
        match mask.count_ones() {
            8 | 16 | 32 | 64 => write!(f, "{sign} {value}"),
            _ => write!(f, "& {mask:#x} {sign} {value}"),
        }
    }
}
