//! The cache lines that an operation's CPUs contend for: from what a guest's instructions accessed to named members of the
//! kernel's structures, and to the rate that no number of CPUs passes.
//!
//!     trace ──────────┐
//!     guest's memory ─┼─ lines ─> Conflicts ─┬─ ceiling
//!     types, symbols ─┘                      └─ difference
//!
//! Everything is counted; nothing is timed.

mod by_function;
mod ceiling;
mod difference;
mod image;
mod kernel;
mod lines;
mod memory;
mod names;
mod program;

use std::collections::BTreeMap;

use answers::{ConflictLine, Conflicts, Instructions};
use described_hosts::DescribedHost;
use guests::program::TracedProgram;
use guests::tracer::{Actor, Trace};
use records::operations::RecordedOperations;

pub use crate::by_function::{by_function, by_kernel_function};
pub use crate::difference::difference;
pub use crate::image::Image;
pub use crate::kernel::{KernelImage, kernel_types};
use crate::lines::{Lines, recorded};
pub use crate::names::Namer;
pub use crate::program::ProgramImage;

/// What was run.
pub struct Traced<'a> {
    /// As the user asked for it.
    pub operation: String,
    /// The release of the guest's kernel.
    pub on: String,
    pub tasks: u32,
    pub counted: Counted,
    pub trace: &'a Trace,
    /// Whether to add the operations step by step.
    pub records: bool,
}

/// Which operations were counted.
#[derive(Clone, Copy, Debug)]
pub enum Counted {
    /// So many of each task in each window.
    Windows([u64; 2]),
    /// All that a program did, from its start to its end; how many those are, if somebody said it.
    Whole(Option<u64>),
}

/// The lines that an operation in a guest contends for.
pub fn of_guest(traced: &Traced, image: &dyn Image, hosts: &[DescribedHost]) -> Conflicts {
    let Traced { tasks, trace, .. } = traced;
    let (window_operations, operations) = match traced.counted {
        Counted::Windows(each) => (each, each.map(|each| (each * u64::from(*tasks)) as f64)),
        Counted::Whole(number) => ([number.unwrap_or(0), 0], [number.unwrap_or(1) as f64; 2]),
    };
    let mut named = Lines::new(image);
    let mut lines = named.rows(trace, operations);
    let is_whole = matches!(traced.counted, Counted::Whole(_));
    if is_whole {
        lines.iter_mut().for_each(in_one_window);
    }
    // Without operations, there is no rate.
    let hosts = if window_operations[0] > 0 { hosts } else { &[] };
    let ceiling = |host| ceiling::ceiling(&lines, host);
    let on_one_cpu = if is_whole { on_one_cpu(trace) } else { None };
    Conflicts {
        operation: traced.operation.clone(),
        on: traced.on.clone(),
        tasks: *tasks,
        window_operations,
        instructions: instructions(trace, operations, is_whole),
        ceilings: hosts.iter().filter_map(ceiling).collect(),
        least_transfers: least_transfers(trace, *tasks, window_operations[0], is_whole),
        recorded: traced.records.then(|| RecordedOperations {
            operation: traced.operation.clone(),
            on: traced.on.clone(),
            ..recorded(trace, &named, operations[0])
        }),
        lines,
        warnings: [warnings(trace), on_one_cpu.into_iter().collect(), without_types(image)]
            .concat(),
    }
}

/// Says why objects have no names, if the kernel has no types.
fn without_types(image: &dyn Image) -> Vec<String> {
    let warning = "the kernel does not carry its types, so objects have no names: take one that was built with \
                   CONFIG_DEBUG_INFO_BTF=y, as those of distributions are";
    if image.namer().is_none() { vec![warning.to_string()] } else { Vec::new() }
}

/// Says so if one CPU executed nearly all of a program: threads that take turns on a CPU contend for nothing.
fn on_one_cpu(trace: &Trace) -> Option<String> {
    const NEARLY_ALL: f64 = 0.95;
    let mut of_cpus = BTreeMap::new();
    for executed in trace.instructions.iter().filter(|executed| executed.actor == Actor::User) {
        *of_cpus.entry(executed.cpu).or_insert(0) += executed.count;
    }
    let all: u64 = of_cpus.values().sum();
    let (cpu, most) = of_cpus.into_iter().max_by_key(|(_, count)| *count)?;
    let share = most as f64 / all as f64;
    (share > NEARLY_ALL).then(|| {
        format!(
            "CPU {cpu} executed {:.0} % of the program: if it has more threads, they took turns there, and lines that they \
             share do not show: trace it longer, or have it put each thread on a CPU of its own (sched_setaffinity(2))",
            share * 100.0
        )
    })
}

/// How many transfers matter, where operations were counted or of a whole program.
fn least_transfers(trace: &Trace, tasks: u32, operations: u64, is_whole: bool) -> f64 {
    /// At 100 ns a transfer and 4 instructions a ns, one in so many instructions takes 1 % of the time.
    const INSTRUCTIONS: f64 = 40_000.0;
    /// What a thread does at its start and its end has no operation to slow.
    const OF_A_THREAD: f64 = 4.0;
    const ONCE_A_BATCH: f64 = 1.0 / 32.0;
    let executed: u64 = trace.instructions.iter().map(|executed| executed.count).sum();
    let of_time = executed as f64 / INSTRUCTIONS;
    match (operations, is_whole) {
        (_, false) => ONCE_A_BATCH,
        (0, true) => of_time.max(OF_A_THREAD * f64::from(tasks)),
        (n, true) => (of_time / n as f64).max(ONCE_A_BATCH),
    }
}

/// Says nothing of a second window where there is none.
fn in_one_window(line: &mut ConflictLine) {
    (line.is_steady, line.bursts_again) = (true, line.bursts);
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
    lines.iter_mut().for_each(in_one_window);
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
        least_transfers: least_transfers(trace, *threads as u32, operations.unwrap_or(0), true),
        recorded: None,
        lines,
        warnings: warnings(trace),
    }
}

/// Instructions of an operation: in the kernel those of the median operation, which ticks do not reach. Of a whole program,
/// the median is the mean.
fn instructions(trace: &Trace, operations: [f64; 2], is_whole: bool) -> Option<Instructions> {
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
        executed.map(|executed| executed.count).sum::<u64>() as f64 / operations[0]
    };
    let (kernel_mean, user) = (mean(Actor::Kernel), mean(Actor::User));
    let (kernel, kernel_again) =
        if is_whole { (kernel_mean, kernel_mean) } else { (median(1)?, median(2)?) };
    Some(Instructions { kernel, kernel_mean, user, kernel_again })
}

/// Tasks that move before fewer operations than one in so many move by chance.
const MOVED_ONE_IN: u64 = 50;

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
    if trace.moved * MOVED_ONE_IN > trace.done {
        warnings.push(format!(
            "the tasks moved to another CPU before {} of {} operations: what a task takes along, such as its stack, looks \
             contended",
            trace.moved, trace.done
        ));
    }
    warnings
}
