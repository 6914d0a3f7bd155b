//! The time of an instruction whose lines are at hand: of loops with more and with less that a CPU can do at a time.

use std::io;

use host::clock::now_ns;
use host::pinned::together;

/// Rounds of each loop.
const ROUNDS: usize = 5;
/// Turns of a loop in a round: a tenth of a ms.
const TURNS: u64 = 20_000;

/// The times of an instruction in ns: of four chains of additions, each of which needs the one before, and of loads, stores,
/// comparisons and branches as compiled code has them. None on an architecture without such loops.
pub fn instruction(cpu: u32) -> io::Result<Option<Vec<f64>>> {
    let Some(loops) = LOOPS else { return Ok(None) };
    let part = |_: usize, _: &_| {
        let mut times = Vec::new();
        for (instructions, turn_often) in loops {
            for _ in 0..ROUNDS {
                let start = now_ns();
                turn_often(TURNS);
                times.push((now_ns() - start) as f64 / (TURNS * instructions) as f64);
            }
        }
        times
    };
    Ok(Some(together(&[cpu], part)?.swap_remove(0)))
}

/// Loops: the instructions of a turn, and what takes so many turns.
type Loops = [(u64, fn(u64)); 2];

#[cfg(target_arch = "x86_64")]
const LOOPS: Option<Loops> = Some([(10, x86::four_chains), (16, x86::mixed)]);
#[cfg(target_arch = "aarch64")]
const LOOPS: Option<Loops> = Some([(10, arm::four_chains), (16, arm::mixed)]);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const LOOPS: Option<Loops> = None;

/// A loop of these instructions, with two more that count its turns. `{m}` is a line of memory.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! turns {
    ($name:ident, $count:literal, $branch:literal, $($instruction:literal,)*) => {
        pub fn $name(turns: u64) {
            let mut line = [0_u64; 8];
            // SAFETY: the instructions write the named registers and the line, which live meanwhile.
            unsafe {
                std::arch::asm!(
                    "2:",
                    $($instruction,)*
                    "3: /* {a} {b} {c} {d} {m} */",
                    $count,
                    $branch,
                    n = inout(reg) turns => _,
                    a = inout(reg) 1_u64 => _,
                    b = inout(reg) 2_u64 => _,
                    c = inout(reg) 3_u64 => _,
                    d = inout(reg) 4_u64 => _,
                    m = in(reg) line.as_mut_ptr(),
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    turns! { four_chains, "sub {n}, 1", "jnz 2b",
        "add {a}, {n}", "add {b}, {n}", "add {c}, {n}", "add {d}, {n}",
        "add {a}, {n}", "add {b}, {n}", "add {c}, {n}", "add {d}, {n}",
    }
    turns! { mixed, "sub {n}, 1", "jnz 2b",
        "mov {a}, [{m}]", "test {a}, {a}", "js 3f", "add {b}, {a}", "mov [{m} + 8], {b}", "lea {c}, [{b} + 1]",
        "mov {d}, [{m} + 16]", "add {c}, {d}", "cmp {b}, {c}", "je 3f", "mov [{m} + 24], {c}", "and {d}, 1",
        "mov {a}, [{m} + 8 * {d} + 32]", "xor {b}, {a}",
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    turns! { four_chains, "subs {n}, {n}, 1", "b.ne 2b",
        "add {a}, {a}, {n}", "add {b}, {b}, {n}", "add {c}, {c}, {n}", "add {d}, {d}, {n}",
        "add {a}, {a}, {n}", "add {b}, {b}, {n}", "add {c}, {c}, {n}", "add {d}, {d}, {n}",
    }
    turns! { mixed, "subs {n}, {n}, 1", "b.ne 2b",
        "ldr {a}, [{m}]", "cmp {a}, 0", "b.lt 3f", "add {b}, {b}, {a}", "str {b}, [{m}, 8]", "add {c}, {b}, 1",
        "ldr {d}, [{m}, 16]", "add {c}, {c}, {d}", "cmp {b}, {c}", "b.eq 3f", "str {c}, [{m}, 24]", "and {d}, {d}, 1",
        "ldr {a}, [{m}, {d}, lsl 3]", "eor {b}, {b}, {a}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_each_loop_take_time() {
        let cpu = host::affinity::get().unwrap()[0];
        match instruction(cpu).unwrap() {
            Some(times) => assert!(times.iter().all(|ns| *ns > 0.0), "{times:?}"),
            None => println!("skipped: no loops for this architecture"),
        }
    }
}
