//! The next step of a stopped task, as data: it can be printed, hashed, enabled or disabled.

use std::fmt;

use machine::{CodeSite, Op, Ordering, Requeue, Sleep, Sleepers, Test, Until};

/// What a stopped task will do in its next step.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub kind: RequestKind,
    /// The word's distance from the start of the region, in bytes.
    pub offset: u32,
    /// The word's size in bytes; 0 where no word is accessed.
    pub size: u8,
    pub ordering: Ordering,
    /// That of a compare-exchange which fails.
    pub failure: Ordering,
    pub location: CodeSite,
}

impl Request {
    /// How a read of this value orders: a compare-exchange that fails has an order of its own.
    pub fn order_of_reading(&self, value: u64) -> Ordering {
        match self.kind {
            RequestKind::Access(Op::Load) => self.ordering,
            RequestKind::Access(op) if op.written(value, self.size).is_none() => self.failure,
            _ => self.ordering,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestKind {
    Access(Op<u64>),
    /// Disabled until the condition holds.
    Await(Until<u64>),
    /// Reads the word once: at any step a bounded wait may find it changed, or give up.
    AwaitFor(Until<u64>),
    /// Falls asleep if the word holds this.
    Park(u64, Sleep),
    /// Asleep on the word, which held this.
    Asleep(u64, Sleep),
    /// Woken; the step only returns.
    Woken,
    /// Wakes tasks that sleep on the word for one of these bits.
    Wake(Sleepers, u32),
    /// Wakes tasks that sleep on the word, and lets others sleep on the word at this offset.
    Requeue(Requeue, u32),
    /// Picks a number below the bound.
    Choose(u32),
    /// Sends an interrupt to these tasks, as bits.
    Interrupt(u16),
    /// Waits until the store buffer is empty.
    Drain,
    /// Computes; a point where the task can be interrupted.
    Work,
    /// Has ended; the CPU can still be interrupted.
    Idle,
    /// At fault; never takes a step.
    Stuck,
}

impl RequestKind {
    /// Whether it is an access to a word, once or until a condition holds.
    pub fn is_access(self) -> bool {
        matches!(self, RequestKind::Access(_) | RequestKind::Await(_) | RequestKind::AwaitFor(_))
    }

    /// Whether it is an access, or a futex call about a word.
    pub fn touches_memory(self) -> bool {
        self.is_access() || self.is_futex()
    }

    /// Whether it is a futex call.
    pub fn is_futex(self) -> bool {
        let wakes = matches!(self, RequestKind::Wake(..) | RequestKind::Requeue(..));
        wakes || matches!(self, RequestKind::Park(..))
    }

    /// Whether it is a futex call that looks at its word.
    pub fn looks_in_kernel(self) -> bool {
        match self {
            RequestKind::Park(..) => true,
            RequestKind::Requeue(how, _) => how.expected.is_some(),
            _ => false,
        }
    }
}

/// The result of a step, as the task gets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reply {
    pub value: u64,
    /// Whether the condition of a bounded wait held, or a sleep ended before its time-out.
    pub held: bool,
    /// Whether the task has slept.
    pub slept: bool,
    /// The step was not taken: the task handles an interrupt first, and requests it again.
    pub interrupted: bool,
}

/// The value of a reply to a sleep that a signal has ended; else it is 0.
pub const SIGNALLED: u64 = 1;

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

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RequestKind::Access(Op::Load) => write!(f, "load"),
            RequestKind::Access(Op::Store(value)) => write!(f, "store {value}"),
            RequestKind::Access(Op::Swap(value)) => write!(f, "swap {value}"),
            RequestKind::Access(Op::CompareExchange(old, new)) => {
                write!(f, "compare-exchange {old} by {new}")
            }
            RequestKind::Access(Op::Add(value)) => write!(f, "add {value}"),
            RequestKind::Access(Op::Or(bits)) => write!(f, "or {bits}"),
            RequestKind::Access(Op::And(bits)) => write!(f, "and {bits:#x}"),
            RequestKind::Access(Op::Xor(bits)) => write!(f, "xor {bits:#x}"),
            RequestKind::Await(until) => write!(f, "await {}", Condition(*until)),
            RequestKind::AwaitFor(until) => write!(f, "bounded await {}", Condition(*until)),
            RequestKind::Park(expected, sleep) => write!(f, "park if {expected}{}", How(*sleep)),
            RequestKind::Asleep(_, sleep) => write!(f, "asleep{}", How(*sleep)),
            RequestKind::Woken => write!(f, "woken"),
            RequestKind::Wake(whom, bits) => {
                let whom = if *whom == Sleepers::One { "one" } else { "all" };
                write!(f, "wake {whom}{}", How(Sleep { bits: *bits, ..Sleep::UNTIL_WOKEN }))
            }
            RequestKind::Requeue(Requeue { expected, woken, moved }, _) => {
                let if_it_holds = expected.map_or_else(String::new, |it| format!(" if {it}"));
                let many = |many: u32| if many < 100 { many.to_string() } else { "all".into() };
                write!(f, "wake {}, requeue {}{if_it_holds}", many(*woken), many(*moved))
            }
            RequestKind::Choose(below) => write!(f, "choose below {below}"),
            RequestKind::Interrupt(whom) => write!(f, "interrupt {whom:#b}"),
            RequestKind::Drain => write!(f, "full fence"),
            RequestKind::Work => write!(f, "work"),
            RequestKind::Idle => write!(f, "idle"),
            RequestKind::Stuck => write!(f, "stuck"),
        }
    }
}

/// What distinguishes a sleep from others.
struct How(Sleep);

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Sleep { bits, timed, .. } = self.0;
        if bits != u32::MAX {
            write!(f, " for bits {bits:#x}")?;
        }
        f.write_str(if timed { ", with a time-out" } else { "" })
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
