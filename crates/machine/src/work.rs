//! CPU work of known length: a chain of multiplications, each of which needs the result of the one before.
//!
//! A chain takes as long as the latency of its multiplications, in cycles of the CPU. A loop of stores or
//! of independent instructions would take as long as the core's units are busy, also with what its other
//! thread does: on virtual CPUs of a shared host, such a loop was found to take 0.5 to 2.1 times as long as
//! before, for whole runs.
//!
//! The chain reads no clock. A deadline would be nearer to what was asked for where the CPU slows down in
//! the middle of a run, but it ends while its task is preempted, and no user can tell such a gap from slow
//! work: a lock holder that loses its CPU must still do the rest of its critical section.

use std::arch::asm;

/// Does `turns` multiplications of the chain, 3 cycles each on today's x86 CPUs. Not `pause`: hypervisors
/// trap it to detect spinning. Without a turn it does nothing.
#[inline(always)]
pub fn work(turns: u64) {
    if turns == 0 {
        return;
    }
    wait_for_earlier();
    let mut product = turns;
    for _ in 0..turns {
        product = product.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Hides the value from the compiler, which could otherwise join two multiplications, in a
        // register: `black_box` would store it.
        // SAFETY: no instruction.
        unsafe { asm!("/* {0} */", inout(reg) product, options(nomem, nostack, preserves_flags)) };
    }
}

/// Waits for the results of all earlier instructions. Without it the CPU starts the chain while the lock
/// before it is still on its way: 16 ns of 200 were hidden so.
#[inline(always)]
fn wait_for_earlier() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of this architecture has the instruction, which changes nothing.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
}

/// How long work takes on a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Turns in 1024 ns.
    turns_per_1024_ns: u64,
    /// What a call takes beside its turns, in 1024ths of a nanosecond.
    call_ns_1024ths: u64,
}

impl Pace {
    /// One turn per nanosecond, for tasks whose work has no length.
    pub const NOMINAL: Pace = Pace { turns_per_1024_ns: 1024, call_ns_1024ths: 0 };

    /// Measures the calling thread's CPU, for some 9 ms.
    ///
    /// A turn's time is a mean: many short interruptions, such as timer ticks, lengthen work by some percent
    /// in a run as well as here, and the best or the median would leave them out. A try that something
    /// interrupted counts as one and a half: what took the CPU for long, such as another task, is too rare
    /// for a mean over 8 ms.
    pub fn measure(now_ns: fn() -> u64) -> Pace {
        // As long as short work is, so that the CPU foresees the end of the loop as badly.
        const SHORT: u64 = 1 << 8;
        const LONG: u64 = 1 << 15;
        let long = tries::<256>(now_ns, LONG, 1);
        let short = tries::<32>(now_ns, SHORT, 128);
        let (median, short) = (long[long.len() / 2], short[short.len() / 2]);
        let mean = long.iter().map(|ns| ns.min(1.5 * median)).sum::<f64>() / long.len() as f64;
        let call_ns = (short - median * SHORT as f64 / LONG as f64).max(0.0);
        let turn_ns = (mean - call_ns) / LONG as f64;
        Pace {
            turns_per_1024_ns: (1024.0 / turn_ns).round() as u64,
            call_ns_1024ths: (1024.0 * call_ns).round() as u64,
        }
    }

    /// The mean of several CPUs' paces; of none, [`Pace::NOMINAL`].
    pub fn mean(paces: &[Pace]) -> Pace {
        let count = paces.len() as u64;
        let mean = |part: fn(&Pace) -> u64| paces.iter().map(part).sum::<u64>().checked_div(count);
        Pace {
            turns_per_1024_ns: mean(|pace| pace.turns_per_1024_ns).unwrap_or(1024),
            call_ns_1024ths: mean(|pace| pace.call_ns_1024ths).unwrap_or(0),
        }
    }

    /// How many turns take this long: one at least, unless there is nothing to do.
    #[inline(always)]
    pub fn turns(self, ns: u64) -> u64 {
        let in_turns = (ns * 1024).saturating_sub(self.call_ns_1024ths);
        let turns = (in_turns * self.turns_per_1024_ns + (1 << 19)) >> 20;
        turns.max(u64::from(ns > 0))
    }

    /// How long a call with this many turns takes.
    pub fn ns(self, turns: u64) -> f64 {
        if turns == 0 {
            return 0.0;
        }
        let in_turns = turns as f64 * 1024.0 / self.turns_per_1024_ns.max(1) as f64;
        in_turns + self.call_ns_1024ths as f64 / 1024.0
    }
}

/// The time of one call, from each of `N` tries of `calls`, sorted.
fn tries<const N: usize>(now_ns: fn() -> u64, turns: u64, calls: u32) -> [f64; N] {
    let mut tries = [0.0; N];
    for ns in &mut tries {
        let start = now_ns();
        (0..calls).for_each(|_| work(turns));
        *ns = (now_ns() - start).max(1) as f64 / f64::from(calls);
    }
    tries.sort_unstable_by(f64::total_cmp);
    tries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turns_for_a_time_take_that_time_less_what_the_call_takes() {
        // 1.1 turns per ns, and 12 ns for the call.
        let pace = Pace { turns_per_1024_ns: 1126, call_ns_1024ths: 12 * 1024 };
        for (ns, turns) in
            [(0, 0), (1, 1), (12, 1), (13, 1), (200, 207), (1_000_000_000, 1_099_609_362)]
        {
            assert_eq!(pace.turns(ns), turns, "{ns} ns");
            let nearest_ns = if ns == 0 { 0.0 } else { ns.max(13) as f64 };
            assert!((pace.ns(turns) - nearest_ns).abs() < 0.5, "{ns} ns");
        }
        assert_eq!(Pace::NOMINAL.turns(7), 7);
    }
}
