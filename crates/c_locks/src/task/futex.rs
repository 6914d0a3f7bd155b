//! Sleeping and waking, as the system call `futex` does it.

use machine::{Machine, Requeue, Sleep, SleepEnd, Sleepers};

use super::access::mix;
use super::{Place, Task};

/// What a failed system call returns; `errno` says why.
const FAILED: u64 = u64::MAX;

/// Wake-ups of more tasks than this are wake-ups of all.
const ONE_BY_ONE_MAX: u32 = 16;

/// Beside a futex operation: the sleep of a condition variable, which tells nobody of signals. As in `knee_given.h`.
const OF_A_CONDITION: u64 = 1 << 20;

/// The number of a system call, and its first arguments as a futex has them.
pub(super) struct SystemCall {
    pub number: u64,
    pub address: u64,
    pub operation: u64,
    pub value: u64,
    pub timeout: u64,
}

/// The last two arguments of a futex call.
pub(super) struct FutexEnd {
    /// Another word.
    pub other: u64,
    /// Bits, or what the word must hold.
    pub last: u32,
}

impl<M: Machine> Task<'_, M> {
    pub(super) fn park(&self, address: usize, expected: u32, sleep: Sleep, state: u64) -> SleepEnd {
        self.ends_wait();
        self.forget(state);
        self.has_effect();
        let word = self.futex_word(address);
        self.m.park_as(self.atom::<u32>(word), expected, sleep)
    }

    /// Wakes this many tasks that sleep for one of these bits; returns how many slept.
    pub(super) fn wake(&self, address: usize, tasks: u32, bits: u32, state: u64) -> u32 {
        self.ends_wait();
        self.forget(state);
        self.has_effect();
        let atom = self.atom::<u32>(self.futex_word(address));
        if tasks > ONE_BY_ONE_MAX {
            return self.m.wake_bits(atom, Sleepers::All, bits);
        }
        let mut woken = 0;
        for each in 0..tasks {
            self.forget(mix(mix(state, u64::from(each)), u64::from(woken)));
            woken += self.m.wake_bits(atom, Sleepers::One, bits);
        }
        woken
    }

    fn futex_word(&self, address: usize) -> Place {
        self.shared(address, 4)
    }

    /// A call of `syscall`: what failed is in `errno`.
    pub(super) fn syscall(&self, arguments: &[u64; 5], state: u64) -> u64 {
        let [number, address, operation, value, timeout] = *arguments;
        let call = SystemCall { number, address, operation, value, timeout };
        self.system_call(call, || self.last_arguments(), state).unwrap_or_else(|error| {
            self.errno.set(error);
            FAILED
        })
    }

    /// A futex that waits or wakes, or the thread's number. The error is that of the system.
    pub(super) fn system_call(
        &self,
        call: SystemCall,
        end: impl Fn() -> FutexEnd,
        state: u64,
    ) -> Result<u64, i32> {
        let SystemCall { number, address, operation, value, timeout } = call;
        let (number, address, value) = (number as i64, address as usize, value as u32);
        match number {
            libc::SYS_gettid => return Ok(self.m.task() as u64 + 1),
            libc::SYS_sched_yield => return Ok(0),
            libc::SYS_futex => {}
            _ => self.refuse(
                &format!("system call {number}: a search has only futex, gettid and sched_yield"),
                "leave the call out of what is checked",
            ),
        }
        let command = (operation & !OF_A_CONDITION) as i32
            & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        let bits = match command {
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAKE_BITSET => end().last,
            _ => u32::MAX,
        };
        match command {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if bits != 0 => {
                let is_of_condition = operation & OF_A_CONDITION != 0;
                if is_of_condition && self.is_freed(address) {
                    return Ok(0);
                }
                let (timed, tells_signals) = (timeout != 0, !is_of_condition);
                let sleep = Sleep { bits, timed, tells_signals, is_of_condition };
                match self.park(address, value, sleep, state) {
                    SleepEnd::Woken => Ok(0),
                    SleepEnd::Differed => Err(libc::EAGAIN),
                    SleepEnd::TimedOut => Err(libc::ETIMEDOUT),
                    SleepEnd::Interrupted => Err(libc::EINTR),
                }
            }
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET if bits != 0 => {
                Ok(self.wake(address, value, bits, state).into())
            }
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAKE_BITSET => Err(libc::EINVAL),
            libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => {
                let FutexEnd { other, last } = end();
                let compares = command == libc::FUTEX_CMP_REQUEUE;
                let (expected, moved) = (compares.then_some(last), timeout as u32);
                let how = Requeue { expected, woken: value, moved };
                let done = self.requeue(address, other as usize, how, state);
                let count = |[woken, moved]: [u32; 2]| woken + if compares { moved } else { 0 };
                done.map(|done| count(done).into()).ok_or(libc::EAGAIN)
            }
            other => self.refuse(
                &format!("futex operation {other} ({}): a search has only FUTEX_WAIT, FUTEX_WAKE, the two with bitsets, FUTEX_REQUEUE and FUTEX_CMP_REQUEUE", name(other)),
                "wait and wake by those",
            ),
        }
    }

    /// Lets tasks that sleep on a word sleep on another one.
    fn requeue(&self, address: usize, other: usize, how: Requeue, state: u64) -> Option<[u32; 2]> {
        self.ends_wait();
        self.forget(mix(state, other as u64));
        self.has_effect();
        let [word, other] = [address, other].map(|at| self.atom::<u32>(self.futex_word(at)));
        self.m.requeue(word, other, how)
    }

    /// The sixth argument of a call, which is in a register, and the seventh, the first that lies on the stack.
    fn last_arguments(&self) -> FutexEnd {
        // SAFETY: the caller of `syscall` has put it above the return address, where the hook's frame ends.
        let last = unsafe { *(self.end.get() as *const u32) };
        FutexEnd { other: self.sixth.get(), last }
    }
}

fn name(command: i32) -> &'static str {
    match command {
        libc::FUTEX_WAKE_OP => "FUTEX_WAKE_OP",
        libc::FUTEX_LOCK_PI => "FUTEX_LOCK_PI",
        libc::FUTEX_UNLOCK_PI => "FUTEX_UNLOCK_PI",
        libc::FUTEX_TRYLOCK_PI => "FUTEX_TRYLOCK_PI",
        _ => "unknown",
    }
}
