//! Where an access stands in the source code of an algorithm.

use std::panic::Location;

/// A place in the source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeSite {
    /// The path of the file, as the compiler has it.
    pub file: &'static str,
    /// Its line, from 1.
    pub line: u32,
    /// Its column, from 1.
    pub column: u32,
}

impl CodeSite {
    /// The place where the calling function is called.
    #[inline]
    #[track_caller]
    pub fn caller() -> CodeSite {
        let location = Location::caller();
        CodeSite { file: location.file(), line: location.line(), column: location.column() }
    }
}

/// A line of the source code, with all accesses on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The path of the file, as the compiler has it.
    pub file: &'static str,
    /// Its number, from 1.
    pub line: u32,
}

impl CodeSite {
    /// The line that it is on.
    pub fn source_line(&self) -> SourceLine {
        SourceLine { file: self.file, line: self.line }
    }
}

/// `file.rs:42`, without the path.
impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        write!(f, "{file}:{}", self.line)
    }
}

/// `file.rs:42`, without the path.
impl std::fmt::Display for CodeSite {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        write!(f, "{file}:{}", self.line)
    }
}
