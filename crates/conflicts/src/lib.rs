//! The cache lines that an operation's CPUs contend for: from what a guest's instructions accessed to named members of the
//! kernel's structures, and to the rate that no number of CPUs passes.
//!
//!     trace ──────────┐
//!     guest's memory ─┼─ lines ─> Conflicts ─┬─ ceiling
//!     types, symbols ─┘                      └─ difference
//!
//! Everything is counted; nothing is timed.

mod ceiling;
mod difference;
mod image;
mod kernel;
mod lines;
mod memory;
mod names;
mod program;

use answers::{Conflicts, Instructions};
use described_hosts::DescribedHost;
use guests::program::TracedProgram;
use guests::tracer::{Actor, Trace};

pub use crate::difference::difference;
pub use crate::image::Image;
pub use crate::kernel::KernelImage;
use crate::lines::Lines;
pub use crate::program::ProgramImage;

/// What was run.
pub struct Traced<'a> {
    /// As the user asked for it.
    pub operation: String,
    /// The release of the guest's kernel.
    pub on: String,
    pub tasks: u32,
    /// Operations of each task in each window.
    pub window_operations: [u64; 2],
    pub trace: &'a Trace,
}

/// The lines that an operation in a guest contends for.
pub fn of_guest(traced: &Traced, image: &dyn Image, hosts: &[DescribedHost]) -> Conflicts {
    let Traced { tasks, window_operations, trace, .. } = traced;
    let operations = window_operations.map(|each| (each * u64::from(*tasks)) as f64);
    let lines = Lines::new(image).rows(trace, operations);
    Conflicts {
        operation: traced.operation.clone(),
        on: traced.on.clone(),
        tasks: *tasks,
        window_operations: *window_operations,
        instructions: instructions(trace, operations),
        ceilings: hosts.iter().filter_map(|host| ceiling::ceiling(&lines, host)).collect(),
        lines,
        warnings: warnings(trace),
    }
}

/// The lines that the threads of a program contend for, from the start of the second thread on. What one operation is,
/// only the user knows: `operations` is how many the program did, and without it counts are those of the whole program.
pub fn of_program(
    program: &TracedProgram,
    named: &str,
    operations: Option<u64>,
    hosts: &[DescribedHost],
) -> Conflicts {
    let TracedProgram { trace, maps, threads, .. } = program;
    let image = ProgramImage::new(maps, trace.accesses.iter().map(|access| access.instruction));
    let per = operations.unwrap_or(1) as f64;
    let mut lines = Lines::new(&image).rows(trace, [per; 2]);
    for line in &mut lines {
        (line.is_steady, line.bursts_again) = (true, line.bursts);
    }
    let executed: u64 = trace.instructions.iter().map(|executed| executed.count).sum();
    // Without operations, there is no rate.
    let hosts = if operations.is_some() { hosts } else { &[] };
    Conflicts {
        operation: named.to_string(),
        on: "QEMU's user mode".to_string(),
        tasks: *threads as u32,
        window_operations: [operations.unwrap_or(0), 0],
        instructions: Some(Instructions { user: executed as f64 / per, ..Instructions::default() }),
        ceilings: hosts.iter().filter_map(|host| ceiling::ceiling(&lines, host)).collect(),
        lines,
        warnings: warnings(trace),
    }
}

/// Instructions of an operation: in the kernel those of the median operation, which ticks do not reach.
fn instructions(trace: &Trace, operations: [f64; 2]) -> Option<Instructions> {
    let median = |window: u8| {
        let of_window = trace.operations.iter().filter(|all| all.window == window);
        let mut all: Vec<u32> =
            of_window.flat_map(|all| all.instructions.iter().copied()).collect();
        all.sort_unstable();
        let (low, high) = (all.get(all.len().checked_sub(1)? / 2)?, all.get(all.len() / 2)?);
        Some(f64::from(low + high) / 2.0)
    };
    let mean = |actor: Actor| {
        let executed = trace.instructions.iter().filter(|e| e.window == 1 && e.actor == actor);
        executed.map(|executed| executed.count as f64).sum::<f64>() / operations[0]
    };
    Some(Instructions {
        kernel: median(1)?,
        kernel_mean: mean(Actor::Kernel),
        user: mean(Actor::User),
        kernel_again: median(2)?,
    })
}

fn warnings(trace: &Trace) -> Vec<String> {
    let mut warnings = Vec::new();
    if trace.lost > 0 {
        warnings.push(format!(
            "{} accesses were not counted, for want of room: ask for fewer operations (--operations)",
            trace.lost
        ));
    }
    if trace.confused > 0 {
        warnings.push(format!(
            "{} times, tasks could not be told apart: some background may be counted",
            trace.confused
        ));
    }
    warnings
}
