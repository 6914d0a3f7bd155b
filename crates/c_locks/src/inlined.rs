//! Functions that the compiler inlined, from its debug information. Libraries wrap each atomic access in a function of a
//! header. Such an access is shown where the lock calls the wrapper, so that two of them are two:
//!
//!     my_mcs.c:4     KNEE_LOCK(…)
//!     mcslock.h:98   └─ mcslock_acquire        what is shown
//!     atomics.h:879     └─ atomic_exchange     a file of its own, one access: a wrapper

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::Result;
use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, EntriesTreeNode, Unit};

use crate::memory::Space;
use crate::types::{Slice, place};

/// A file by its number, a line and a column.
pub type Line = [u32; 3];

/// A call that was inlined.
#[derive(Debug)]
struct InlinedCall {
    /// The code of the function called, from the start of the code.
    code: Vec<Range<usize>>,
    /// Where the call stands.
    at: Line,
    /// How many inlined calls it lies within.
    depth: usize,
    /// Whether the call stands in a function of KNEE_LOCK, which is no part of the lock.
    in_entry: bool,
}

/// All calls that were inlined.
#[derive(Debug, Default)]
pub struct InlinedCalls(Vec<InlinedCall>);

impl InlinedCall {
    fn holds(&self, at: usize) -> bool {
        self.code.iter().any(|range| range.contains(&at))
    }
}

impl InlinedCalls {
    /// Reads debug information in which code has the addresses of `types::address`.
    pub fn read(dwarf: &Dwarf<Slice>) -> Result<InlinedCalls> {
        let mut calls = InlinedCalls::default();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            let mut tree = unit.entries_tree(None)?;
            calls.node(dwarf, &unit, tree.root()?, 0, false)?;
        }
        Ok(calls)
    }

    fn node<'a>(
        &mut self,
        dwarf: &Dwarf<Slice<'a>>,
        unit: &Unit<Slice<'a>>,
        node: EntriesTreeNode<Slice<'a>>,
        depth: usize,
        in_entry: bool,
    ) -> Result<()> {
        let entry = node.entry();
        let (mut depth, mut in_entry) = (depth, in_entry);
        match entry.tag() {
            gimli::DW_TAG_subprogram => in_entry = is_entry(dwarf, unit, entry),
            gimli::DW_TAG_inlined_subroutine => {
                let (code, at) = (code(dwarf, unit, entry)?, call_line(entry));
                self.0.push(InlinedCall { code, at, depth, in_entry });
                (depth, in_entry) = (depth + 1, false);
            }
            _ => {}
        }
        let mut children = node.children();
        while let Some(child) = children.next()? {
            self.node(dwarf, unit, child, depth, in_entry)?;
        }
        Ok(())
    }

    /// Where each access is shown: the atomic ones, then the plain ones. They are all of the program: return addresses of
    /// their hooks, with the lines where the compiler has them.
    pub fn shown(&self, atomic: &[(usize, Line)], plain: &[(usize, Line)]) -> Vec<(usize, Line)> {
        let lines_in = |call: &InlinedCall, accesses: &[(usize, Line)]| {
            let inside = accesses.iter().filter(|(at, _)| call.holds(at - 1));
            inside.map(|(_, line)| *line).collect::<BTreeSet<Line>>().len()
        };
        let is_wrapper = |call: &InlinedCall| match lines_in(call, atomic) {
            0 => lines_in(call, plain) == 1,
            atomic => atomic == 1,
        };
        let wrappers: Vec<bool> = self.0.iter().map(is_wrapper).collect();
        let shown = |&(at, line): &(usize, Line)| {
            let calls = self.0.iter().zip(&wrappers).filter(|(call, _)| call.holds(at - 1));
            let mut calls: Vec<_> = calls.collect();
            calls.sort_by_key(|(call, _)| std::cmp::Reverse(call.depth));
            let outside = calls.into_iter().map_while(|(call, is_wrapper)| {
                (*is_wrapper && !call.in_entry && call.at[1] != 0).then_some(call.at)
            });
            let mut shown = line;
            for call in outside {
                if call[0] == shown[0] {
                    break;
                }
                shown = call;
            }
            (at, shown)
        };
        atomic.iter().chain(plain).map(shown).collect()
    }
}

type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// Whether it is a function that KNEE_LOCK and its like define.
fn is_entry<'a>(dwarf: &Dwarf<Slice<'a>>, unit: &Unit<Slice<'a>>, entry: &Entry<'a>) -> bool {
    let name = entry.attr_value(gimli::DW_AT_name);
    let name = name.and_then(|value| dwarf.attr_string(unit, value).ok());
    name.is_some_and(|name| name.to_string_lossy().starts_with("knee_"))
}

/// The code of an entry, from the start of the code.
fn code<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    entry: &Entry<'a>,
) -> Result<Vec<Range<usize>>> {
    let mut code = Vec::new();
    let mut ranges = dwarf.die_ranges(unit, entry)?;
    while let Some(range) = ranges.next()? {
        if let Some((Space::Code, begin)) = place(range.begin) {
            code.push(begin..begin + range.end.saturating_sub(range.begin) as usize);
        }
    }
    Ok(code)
}

/// Where the call of an inlined function stands.
fn call_line(entry: &Entry) -> Line {
    [gimli::DW_AT_call_file, gimli::DW_AT_call_line, gimli::DW_AT_call_column].map(|name| {
        let number = match entry.attr_value(name) {
            Some(AttributeValue::FileIndex(number)) => number,
            Some(value) => value.udata_value().unwrap_or(0),
            None => 0,
        };
        number as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_in_a_wrapper_is_shown_where_the_lock_calls_it() {
        let call = |code: Range<usize>, at, depth, in_entry| InlinedCall {
            code: vec![code],
            at,
            depth,
            in_entry,
        };
        let (atomics, lock, entry) = (1, 2, 3);
        let calls = InlinedCalls(vec![
            call(0..100, [entry, 4, 1], 0, true),
            call(10..20, [lock, 98, 5], 1, false),
            call(30..40, [lock, 99, 5], 1, false),
            // Two accesses: no wrapper.
            call(50..70, [lock, 100, 5], 1, false),
        ]);
        let line = |file, line| [file, line, 1];
        let atomic = [
            (15, line(atomics, 879)),
            (35, line(atomics, 879)),
            (45, line(lock, 50)),
            (55, line(atomics, 1)),
            (65, line(atomics, 2)),
            (120, line(entry, 4)),
        ];
        // Beside an atomic access, as the expected value of a compare-exchange.
        let plain = [(16, line(atomics, 878))];
        let found = calls.shown(&atomic, &plain);
        let shown: Vec<Line> = found.into_iter().map(|(_, line)| line).collect();
        let expected = [
            [lock, 98, 5],
            [lock, 99, 5],
            line(lock, 50),
            line(atomics, 1),
            line(atomics, 2),
            line(entry, 4),
            [lock, 98, 5],
        ];
        assert_eq!(shown, expected);
    }
}
