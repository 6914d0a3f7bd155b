//! What switches alone do not tell of the threads that have a lock, by samples.

use std::collections::{BTreeMap, BTreeSet};

use records::live::{HolderState, StackTaken, Trace, TracedFunction, TracedStack};

use super::Piece;
use crate::places::{is_page_fault, kernel_frames, user_frames};
use crate::windows::Windows;

/// What threads with a lock did, and behind what, window by window, in ns.
pub type Holders = BTreeMap<(HolderState, String), Vec<u64>>;

/// Fills the whole time in which threads waited, where what holders did was weighed.
pub fn fill(holders: &mut Holders, windows: &Windows, pieces: &[Piece]) {
    let mut whole = windows.zeros();
    pieces.iter().for_each(|piece| windows.add(&mut whole, piece.from, piece.to));
    for (window, ns) in whole.into_iter().enumerate() {
        let weights: Vec<u64> = holders.values().map(|ns| ns[window]).collect();
        if weights.iter().sum::<u64>() != ns {
            let parts = ledger::split(ns, &weights);
            holders.values_mut().zip(parts).for_each(|(ns, part)| ns[window] = part);
        }
    }
}

/// Moves the share of running that samples show in page faults.
pub fn split_running(holders: &mut Holders, trace: &Trace, samples: &[&TracedStack]) {
    let in_fault = |stack: &&&TracedStack| is_page_fault(&kernel_frames(trace, stack));
    let faults = samples.iter().filter(in_fault).count();
    let running = (HolderState::Running, "");
    move_share(holders, running, HolderState::PageFault, (faults, samples.len()));
}

/// Moves the share of what a woken thread did instead of running in which threads of its program were in functions that
/// take the lock, and of that to page faults what they spent there: they overtook it, as locks that are free go to whoever
/// runs first.
pub fn split_overtaken(
    holders: &mut Holders,
    trace: &Trace,
    (did, times): ((HolderState, &str), &[(u64, u64)]),
    used_in: &BTreeSet<&str>,
) {
    let is_then = |stack: &&TracedStack| {
        let after = times.partition_point(|(from, _)| *from <= stack.at_ns);
        after > 0 && stack.at_ns < times[after - 1].1
    };
    let takes = |function: &&TracedFunction| used_in.contains(function.name.as_str());
    let samples = trace.stacks.iter().filter(|stack| stack.why == StackTaken::Sampled);
    let (mut all, mut inside, mut faults) = (0, 0, 0);
    for stack in samples.filter(is_then) {
        all += 1;
        let [kernel, user] = [kernel_frames(trace, stack), user_frames(trace, stack)];
        if kernel.iter().chain(&user).any(takes) {
            inside += 1;
            faults += usize::from(is_page_fault(&kernel));
        }
    }
    // The second share is of what the first leaves.
    move_share(holders, did, HolderState::PageFault, (faults, all));
    move_share(holders, did, HolderState::Running, (inside - faults, all - faults));
}

/// Moves a share of the time of one reason to another.
fn move_share(
    holders: &mut Holders,
    (reason, by): (HolderState, &str),
    to: HolderState,
    (part, all): (usize, usize),
) {
    let from = holders.get_mut(&(reason, by.to_string()));
    let (Some(from), true) = (from, part > 0) else { return };
    let moved: Vec<u64> = from.iter().map(|ns| ns * part as u64 / all as u64).collect();
    from.iter_mut().zip(&moved).for_each(|(ns, moved)| *ns -= moved);
    let to = holders.entry((to, String::new())).or_insert_with(|| vec![0; moved.len()]);
    to.iter_mut().zip(moved).for_each(|(ns, moved)| *ns += moved);
}
