//! CPU work of known length: a chain of multiplications, each of which needs the result of the one before.
//!
//! A chain takes as long as the latency of its multiplications, in cycles of the CPU. A loop of stores or
//! of independent instructions would take as long as the core's units are busy, also with what its other
//! thread does: on virtual CPUs of a shared host, such a loop was found to take 0.5 to 2.1 times as long as
//! before, for whole runs.

use std::arch::asm;

/// Does `turns` multiplications of the chain, 3 cycles each on today's x86 CPUs. Not `pause`: hypervisors
/// trap it to detect spinning.
#[inline(always)]
pub fn work(turns: u64) {
    let mut product = turns;
    for _ in 0..turns {
        product = product.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Hides the value from the compiler, which could otherwise join two multiplications, in a
        // register: `black_box` would store it.
        // SAFETY: no instruction.
        unsafe { asm!("/* {0} */", inout(reg) product, options(nomem, nostack, preserves_flags)) };
    }
}
