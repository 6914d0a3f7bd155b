//! Samples as rows: time that no event divides, split by the functions that samples saw.
//!
//! Without hardware counters, a sample cannot be taken while interrupts are off. It comes late, on
//! the instruction that enables them again. So if all samples of a function sit on one instruction,
//! the section that ends there used the time, not the function. And a sample on the first user
//! instruction after a system call was due on the kernel's way out.
//!
//! A sample belongs to the system call whose number it has: a call whose last step is a jump to
//! another function (listxattr) has no frame of its own. Samples without the number, as in
//! recordings of perf, are assigned by their frames.

use std::collections::BTreeMap;

use records::{Base, CpuMode, CpuState, Obtained, SampledStacks, Stack, Window};

use super::{ENTRY_AND_EXIT, LedgerRow, USER, split};

/// The row that a sample belongs to: group and function.
type RowPath = (String, String);

/// For each unit, the samples of the workload's rest by row.
pub(super) struct Sampled {
    units: Vec<BTreeMap<RowPath, u64>>,
}

/// The row of samples whose process had ended before its code was looked up.
pub(super) const GONE: &str = "processes that ended before their code was named";
/// What names of functions of the vdso end with.
const VDSO: &str = " (vdso)";
/// The group of samples in page faults outside of system calls.
pub(super) const FAULTS: &str = "page faults";
/// The group of kernel samples outside of system calls and page faults.
pub(super) const OTHER: &str = "kernel, neither call nor fault";

/// Functions that every system call passes through, by the beginnings of their names.
const ENTRIES: [&str; 5] =
    ["do_syscall_64", "entry_SYSCALL", "x64_sys_call", "syscall_enter", "syscall_exit"];

/// This number of samples on one instruction is no coincidence, if they are also the share below of
/// the function's samples.
const LATE_MIN: u64 = 8;
const LATE_SHARE: f64 = 0.9;

impl Sampled {
    /// The samples of the units' windows; `None` if no window was sampled. `late` are the functions whose
    /// samples come late.
    pub(super) fn from_units(units: &[Vec<&Window>], late: &[String]) -> Option<Sampled> {
        units.iter().flatten().find_map(|window| window.samples.as_ref())?;
        let unit = |windows: &Vec<&Window>| {
            let mut counts: BTreeMap<RowPath, u64> = BTreeMap::new();
            for samples in windows.iter().filter_map(|window| window.samples.as_ref()) {
                for stack in samples.stacks.iter().filter(|stack| is_rest_of_work(stack)) {
                    *counts.entry(row_path(samples, stack, late)).or_default() += stack.count;
                }
            }
            counts
        };
        Some(Sampled { units: units.iter().map(unit).collect() })
    }
}

fn is_rest_of_work(stack: &Stack) -> bool {
    stack.base == Base::Work && stack.state == CpuState::Rest
}

/// Functions whose samples sit on one instruction: they came late, from a section with interrupts
/// off.
pub(super) fn late_functions<'a>(samples: impl Iterator<Item = &'a SampledStacks>) -> Vec<String> {
    let mut offsets: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    for samples in samples {
        let is_kernel = |stack: &&Stack| is_rest_of_work(stack) && stack.mode == CpuMode::Kernel;
        for stack in samples.stacks.iter().filter(is_kernel) {
            let function = offsets.entry(name(samples, stack, 0)).or_default();
            *function.entry(stack.offset).or_default() += stack.count;
        }
    }
    let is_late = |offsets: &BTreeMap<u64, u64>| {
        let (sum, max) = (offsets.values().sum::<u64>(), offsets.values().max().copied());
        max.is_some_and(|max| max >= LATE_MIN && max as f64 >= LATE_SHARE * sum as f64)
    };
    let late = offsets.into_iter().filter(|(_, offsets)| is_late(offsets));
    late.map(|(function, _)| function.to_string()).collect()
}

fn name<'a>(samples: &'a SampledStacks, stack: &Stack, frame: usize) -> &'a str {
    let index = stack.frames.get(frame).map(|index| *index as usize);
    index.and_then(|index| samples.functions.get(index)).map_or("[unknown]", String::as_str)
}

/// The row that a stack's samples belong to; `late` are the functions whose samples come late.
pub(super) fn row_path(samples: &SampledStacks, stack: &Stack, late: &[String]) -> RowPath {
    let kernel = stack.kernel_frames as usize;
    match stack.mode {
        CpuMode::User => {
            let frames: Vec<&str> =
                (kernel..stack.frames.len()).map(|frame| name(samples, stack, frame)).collect();
            return (USER.to_string(), user_function(&frames));
        }
        CpuMode::AfterSystemCall => {
            return (ENTRY_AND_EXIT.to_string(), "exit, where interrupts are off".to_string());
        }
        CpuMode::Kernel => (),
    }
    let frames: Vec<&str> = (0..kernel).map(|frame| name(samples, stack, frame)).collect();
    let leaf = frames.first().copied().unwrap_or("[unknown]");
    let is_entry = ENTRIES.iter().any(|entry| leaf.starts_with(entry));
    let call = stack.call.and_then(|index| samples.functions.get(index as usize));
    let is_late = late.iter().any(|late| late == leaf);
    let function = match (is_late, frames.get(1)) {
        (true, _) if is_entry && !leaf.starts_with("syscall_exit") => {
            "entry, where interrupts are off".to_string()
        }
        (true, Some(caller)) => format!("interrupts off, until {leaf} in {caller}"),
        _ => leaf.to_string(),
    };
    (group(&frames, call.map(String::as_str), is_entry), function)
}

/// The innermost function of a chain in user mode. One of the vdso goes by who called it, which is not the C
/// library's function of this name.
fn user_function(frames: &[&str]) -> String {
    // Without symbols each address has its own name, and would get its own row.
    let named = |function: &str| match function.split_once("+0x") {
        Some((object, _)) => format!("{object} (no symbols)"),
        None => function.to_string(),
    };
    let Some(innermost) = frames.first() else { return GONE.to_string() };
    let Some(call) = innermost.strip_suffix(VDSO) else { return named(innermost) };
    let is_library =
        |frame: &str| frame.trim_start_matches('_').split('@').next().is_some_and(|f| f == call);
    let mut callers = frames.iter().filter(|frame| !frame.ends_with(VDSO) && !is_library(frame));
    match callers.next() {
        Some(caller) => format!("{innermost} for {}", named(caller)),
        None => innermost.to_string(),
    }
}

/// The way by which a sample's task entered the kernel. A sample right at the entry belongs to no
/// call, although the call's number is known there: the other half, the exit, is sampled where no
/// number is known. A fault inside a call belongs to the call, since the call caused it.
fn group(frames: &[&str], call: Option<&str>, is_entry: bool) -> String {
    if let Some(call) = call.filter(|_| !is_entry) {
        return format!("system call {call}");
    }
    let call = frames.iter().find_map(|frame| {
        let call = ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_"]
            .iter()
            .find_map(|prefix| frame.strip_prefix(prefix))?;
        Some(call.split('.').next().unwrap_or(call))
    });
    if let Some(call) = call {
        // The kernel names some calls after their newer forms: newstat, newuname.
        let newer = call.strip_prefix("new").filter(|_| call != "newfstatat");
        let call = newer.unwrap_or(call);
        return format!("system call {call}");
    }
    let has_frame =
        |names: &[&str]| frames.iter().any(|frame| names.iter().any(|n| frame.starts_with(n)));
    if has_frame(&[
        "exc_page_fault",
        "asm_exc_page_fault",
        "do_user_addr_fault",
        "el0_da",
        "el1_abort",
    ]) {
        return FAULTS.to_string();
    }
    let is_entry = is_entry || has_frame(&["do_syscall_64", "entry_SYSCALL", "syscall_"]);
    if is_entry { ENTRY_AND_EXIT.to_string() } else { OTHER.to_string() }
}

/// Splits `rest`, a time for each unit, into rows by each unit's own samples.
pub(super) fn sampled_rows(samples: &Sampled, rest: &[u64]) -> Vec<LedgerRow> {
    let mut paths: Vec<&RowPath> = samples.units.iter().flat_map(BTreeMap::keys).collect();
    paths.sort();
    paths.dedup();
    let mut parts: Vec<Vec<u64>> = vec![Vec::new(); paths.len()];
    let mut unsampled = Vec::new();
    for (unit, ns) in samples.units.iter().zip(rest) {
        let weight = |path: &&RowPath| unit.get(*path).copied().unwrap_or(0);
        let weights: Vec<u64> = paths.iter().map(weight).collect();
        let is_sampled = weights.iter().any(|weight| *weight > 0);
        let split = split(if is_sampled { *ns } else { 0 }, &weights);
        parts.iter_mut().zip(split).for_each(|(part, ns)| part.push(ns));
        unsampled.push(if is_sampled { 0 } else { *ns });
    }
    let mut groups: BTreeMap<&str, Vec<LedgerRow>> = BTreeMap::new();
    for (path, ns) in paths.into_iter().zip(parts) {
        let (group, function) = path;
        let count = samples.units.iter().filter_map(|unit| unit.get(path)).sum();
        let row = LedgerRow::new(function.clone(), Obtained::Sampled, ns);
        groups.entry(group).or_default().push(LedgerRow { samples: Some(count), ..row });
    }
    let mut rows: Vec<LedgerRow> =
        groups.into_iter().map(|(name, rows)| group_row(name, rows)).collect();
    if unsampled.iter().any(|ns| *ns > 0) {
        rows.push(LedgerRow::new("not sampled", Obtained::Exact, unsampled));
    }
    rows
}

/// The row of a group: the sum of its rows, the largest first.
pub(super) fn group_row(name: &str, mut rows: Vec<LedgerRow>) -> LedgerRow {
    let samples = rows.iter().filter_map(|row| row.samples).sum();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
    // A group of a single function without a name needs no row for the function.
    let is_single_nameless = rows.len() == 1 && rows[0].name.is_empty();
    let row = LedgerRow::from_parts(name, Obtained::Sampled, rows);
    LedgerRow {
        samples: Some(samples),
        rows: if is_single_nameless { Vec::new() } else { row.rows },
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_the_vdso_goes_by_its_caller() {
        let check = |frames: &[&str], expected: &str| assert_eq!(user_function(frames), expected);
        check(&[], GONE);
        check(&["serve", "main"], "serve");
        check(&["app+0x1234"], "app (no symbols)");
        let clock = "clock_gettime (vdso)";
        check(&[clock], clock);
        check(
            &[clock, "clock_gettime (vdso)", "clock_gettime@@GLIBC_2.17", "serve"],
            "clock_gettime (vdso) for serve",
        );
        check(
            &[clock, "__clock_gettime", "app+0x12", "main"],
            "clock_gettime (vdso) for app (no symbols)",
        );
    }
}
