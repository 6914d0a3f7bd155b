//! Lines of a program: those whose accesses count as single ones, and what they are called on a command line.

use std::collections::BTreeSet;
use std::path::Path;

use machine::SourceLine;

use crate::program::Program;

impl Program {
    /// The lines of source files with this name, or the end of a path, and this number, that have an access.
    pub fn lines_at(&self, file: &str, line: u32) -> BTreeSet<SourceLine> {
        let lines = self.sites.iter().map(|(_, site)| site.source_line());
        let is_it = |at: &SourceLine| at.line == line && ends_with_path(at.file, file);
        lines.filter(is_it).collect()
    }

    /// Has all plain accesses on these lines, and on no others, count as single relaxed ones in the next search: races there
    /// are accepted.
    pub fn set_once_lines(&self, lines: BTreeSet<SourceLine>) {
        self.once.set_lines(lines);
    }

    /// Whether its accesses have the order of x86: some are instructions of its assembly, or it says so. By the language's
    /// rules, which know no such order, nothing could be found of it.
    pub fn is_for_x86(&self) -> bool {
        self.has_x86_order || !self.instructions.is_empty()
    }

    /// How many lines the user's file of this name, or end of a path, has; else the names of all.
    pub fn count_lines(&self, file: &str) -> std::result::Result<usize, Vec<&str>> {
        let is_it = |(path, _): &&(String, String)| ends_with_path(path, file);
        let found = self.sources.iter().find(is_it).map(|(_, text)| text.lines().count());
        let names = self.sources.iter().filter_map(|(path, _)| path.rsplit('/').next());
        found.ok_or_else(|| names.collect())
    }
}

/// Whether a path ends with another one, in whole names.
fn ends_with_path(path: &str, end: &str) -> bool {
    Path::new(path).ends_with(end.trim_start_matches("./"))
}
