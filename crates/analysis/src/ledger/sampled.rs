//! Samples as rows: the time that no event divides, split by where the CPUs were seen.
//!
//! Without hardware counters a sample cannot be taken where interrupts are off. It comes late, on
//! the instruction that lets them on again, so a function whose samples all sit on one
//! instruction did not use that time itself: the section that ends there did. And a sample on
//! the first user instruction after a system call was due in the kernel's way out.
//!
//! Which call a sample belongs to is told by the call's number, where the samples have it: a call
//! whose last step is a jump to another function (listxattr) has no frame of its own. Without the
//! number, as in recordings of perf, frames tell.

use std::collections::BTreeMap;

use records::{Base, CpuMode, CpuState, Obtained, SampledStacks, Stack, Window};

use super::{Row, split};

/// A row's place: group and function.
type Place = (String, String);

/// Samples of the workload's rest, each unit's by place.
pub(super) struct Sampled {
    units: Vec<BTreeMap<Place, u64>>,
}

/// The group of samples in user mode.
const USER: &str = "user code";
/// The group of what every system call pays.
const ENTRY: &str = "system call entry and exit";
/// The group of what no call and no fault leads to.
const OTHER: &str = "kernel, neither call nor fault";

/// Functions that every system call passes.
const ENTRIES: [&str; 5] =
    ["do_syscall_64", "entry_SYSCALL", "x64_sys_call", "syscall_enter", "syscall_exit"];

/// As many samples on one instruction, and as large a share of a function's, are no chance.
const PILED_MIN: u64 = 8;
const PILED_SHARE: f64 = 0.9;

impl Sampled {
    /// Of the units' windows; nothing if none was sampled.
    pub(super) fn of(units: &[Vec<&Window>]) -> Option<Sampled> {
        let all = || units.iter().flatten().filter_map(|window| window.samples.as_ref());
        all().next()?;
        let piled = piled(all());
        let unit = |windows: &Vec<&Window>| {
            let mut places: BTreeMap<Place, u64> = BTreeMap::new();
            for samples in windows.iter().filter_map(|window| window.samples.as_ref()) {
                for stack in samples.stacks.iter().filter(|stack| is_rest_of_work(stack)) {
                    *places.entry(place(samples, stack, &piled)).or_default() += stack.count;
                }
            }
            places
        };
        Some(Sampled { units: units.iter().map(unit).collect() })
    }
}

fn is_rest_of_work(stack: &Stack) -> bool {
    stack.base == Base::Work && stack.state == CpuState::Rest
}

/// Functions whose samples sit on one instruction.
pub(super) fn piled<'a>(all: impl Iterator<Item = &'a SampledStacks>) -> Vec<String> {
    let mut offsets: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    for samples in all {
        let kernel = |stack: &&Stack| is_rest_of_work(stack) && stack.mode == CpuMode::Kernel;
        for stack in samples.stacks.iter().filter(kernel) {
            let function = offsets.entry(name(samples, stack, 0)).or_default();
            *function.entry(stack.offset).or_default() += stack.count;
        }
    }
    let is_piled = |offsets: &BTreeMap<u64, u64>| {
        let (sum, max) = (offsets.values().sum::<u64>(), offsets.values().max().copied());
        max.is_some_and(|max| max >= PILED_MIN && max as f64 >= PILED_SHARE * sum as f64)
    };
    let piled = offsets.into_iter().filter(|(_, offsets)| is_piled(offsets));
    piled.map(|(function, _)| function.to_string()).collect()
}

fn name<'a>(samples: &'a SampledStacks, stack: &Stack, frame: usize) -> &'a str {
    let index = stack.frames.get(frame).map(|index| *index as usize);
    index.and_then(|index| samples.functions.get(index)).map_or("[unknown]", String::as_str)
}

pub(super) fn place(samples: &SampledStacks, stack: &Stack, piled: &[String]) -> Place {
    let kernel = stack.kernel_frames as usize;
    match stack.mode {
        CpuMode::User => {
            let function =
                if stack.frames.len() > kernel { name(samples, stack, kernel) } else { "" };
            // Without symbols each address has a name of its own, and would have a row.
            let function = match function.split_once("+0x") {
                Some((object, _)) => format!("{object} (no symbols)"),
                None => function.to_string(),
            };
            return (USER.to_string(), function);
        }
        CpuMode::AfterSystemCall => {
            return (ENTRY.to_string(), "exit, where interrupts are off".to_string());
        }
        CpuMode::Kernel => (),
    }
    let frames: Vec<&str> = (0..kernel).map(|frame| name(samples, stack, frame)).collect();
    let leaf = frames.first().copied().unwrap_or("[unknown]");
    let is_entry = ENTRIES.iter().any(|entry| leaf.starts_with(entry));
    let call = stack.call.and_then(|index| samples.functions.get(index as usize));
    let function = match (piled.iter().any(|piled| piled == leaf), frames.get(1)) {
        (true, _) if is_entry && !leaf.starts_with("syscall_exit") => {
            "entry, where interrupts are off".to_string()
        }
        (true, Some(caller)) => format!("interrupts off, until {leaf} in {caller}"),
        _ => leaf.to_string(),
    };
    (group(&frames, call.map(String::as_str), is_entry), function)
}

/// The way into the kernel that a sample tells. What is right at the entry is no call's, although
/// the number is there already: its other half, the exit, is sampled where no number is. A fault
/// inside a call is the call's, since the call made it.
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
        // The kernel's names of some calls are those of their newer forms: newstat, newuname.
        let newer = call.strip_prefix("new").filter(|_| call != "newfstatat");
        let call = newer.unwrap_or(call);
        return format!("system call {call}");
    }
    let has =
        |names: &[&str]| frames.iter().any(|frame| names.iter().any(|n| frame.starts_with(n)));
    if has(&["exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "el0_da", "el1_abort"]) {
        return "page faults".to_string();
    }
    match is_entry || has(&["do_syscall_64", "entry_SYSCALL", "syscall_"]) {
        true => ENTRY.to_string(),
        false => OTHER.to_string(),
    }
}

/// The rows of `rest`, each unit's split by its own samples.
pub(super) fn sampled_rows(samples: &Sampled, rest: &[u64]) -> Vec<Row> {
    let mut places: Vec<&Place> = samples.units.iter().flat_map(BTreeMap::keys).collect();
    places.sort();
    places.dedup();
    let mut parts: Vec<Vec<u64>> = vec![Vec::new(); places.len()];
    let mut unsampled = Vec::new();
    for (unit, ns) in samples.units.iter().zip(rest) {
        let weight = |place: &&Place| unit.get(*place).copied().unwrap_or(0);
        let weights: Vec<u64> = places.iter().map(weight).collect();
        let is_sampled = weights.iter().any(|weight| *weight > 0);
        let split = split(if is_sampled { *ns } else { 0 }, &weights);
        parts.iter_mut().zip(split).for_each(|(part, ns)| part.push(ns));
        unsampled.push(if is_sampled { 0 } else { *ns });
    }
    let mut groups: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for ((group, function), ns) in places.into_iter().zip(parts) {
        let place = (group.clone(), function.clone());
        let count = samples.units.iter().filter_map(|unit| unit.get(&place)).sum();
        let row = Row::new(function.clone(), Obtained::Sampled, ns);
        groups.entry(group).or_default().push(Row { samples: Some(count), ..row });
    }
    let mut rows: Vec<Row> = groups.into_iter().map(|(name, rows)| group_row(name, rows)).collect();
    if unsampled.iter().any(|ns| *ns > 0) {
        rows.push(Row::new("not sampled", Obtained::Exact, unsampled));
    }
    rows
}

fn group_row(name: &str, mut rows: Vec<Row>) -> Row {
    let samples = rows.iter().filter_map(|row| row.samples).sum();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
    // A group that is one nameless function needs no line for it.
    let nameless = rows.len() == 1 && rows[0].name.is_empty();
    let row = Row::sum_of(name, Obtained::Sampled, rows);
    Row { samples: Some(samples), rows: if nameless { Vec::new() } else { row.rows }, ..row }
}
