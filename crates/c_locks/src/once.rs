//! Plain accesses that count as single, relaxed ones: to what KNEE_ONCE names, members of the lock and of local variables,
//! and those on lines whose races the author of the code accepts.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;

use anyhow::{Result, ensure};
use machine::{SourceLine, Word};

use crate::locals::Local;

/// Where plain accesses are single ones.
#[derive(Debug, Default)]
pub struct Once {
    /// Bytes of the lock.
    members: Vec<Range<usize>>,
    /// Names of local variables, or of their members.
    locals: Vec<String>,
    /// Lines all of whose accesses are single ones, from the next placing on.
    lines: Mutex<BTreeSet<SourceLine>>,
}

impl Once {
    /// Reads names with commas between: those of words of the lock, and of the parts of local variables.
    pub fn new(names: &str, words: &[Word], locals: &[Local]) -> Result<Once> {
        let mut once = Once::default();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let is_it = |word: &&Word| word.path.strip_prefix('.') == Some(name);
            let members =
                words.iter().filter(is_it).map(|word| word.offset..word.offset + word.size);
            once.members.extend(members);
            let mut parts = locals.iter().flat_map(|local| &local.parts);
            if parts.any(|(_, _, part)| part == name) {
                once.locals.push(name.to_string());
            }
            let is_found = !once.members.is_empty() || !once.locals.is_empty();
            ensure!(
                is_found,
                "KNEE_ONCE: neither the lock's type nor a local variable has a member {name}; for races on allocated memory, name \
                 their lines: --accept-race FILE:LINE"
            );
        }
        Ok(once)
    }

    /// Has all plain accesses on these lines, and on no others, count as single ones, once the program is placed again.
    pub fn set_lines(&self, lines: BTreeSet<SourceLine>) {
        *self.lines.lock().expect("no thread panics while holding it") = lines;
    }

    /// Those lines.
    pub fn lines(&self) -> BTreeSet<SourceLine> {
        self.lines.lock().expect("no thread panics while holding it").clone()
    }

    /// Whether these bytes are in a member.
    pub fn has_member(&self, start: usize, size: usize) -> bool {
        self.members.iter().any(|range| range.start <= start && start + size <= range.end)
    }

    /// Whether this part of a local variable is named.
    pub fn has_local(&self, name: &str) -> bool {
        self.locals.iter().any(|local| local == name)
    }
}
