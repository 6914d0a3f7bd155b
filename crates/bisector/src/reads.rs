//! The files that a build reads, as its compilers report them or as make notes them, and so the commits that can matter.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use guests::kernels::Repository;

use crate::range::Range;

/// The prior weight of a commit that touches no file that the build of an end reads. Not 0: a compiler reports what
/// it includes, and no build reports all.
pub const UNREAD: f64 = 0.02;

/// Files of a language whose compilers report what they read, or files that no compiler reads.
const REPORTED: &[&str] = &[
    "S", "adoc", "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "inl", "md", "rst", "s", "txt",
];

/// The variable by which gcc and clang report what they read, as rules for make, beside what they compile.
pub const VARIABLE: &str = "DEPENDENCIES_OUTPUT";

/// Files that builds read.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// Their paths by their file names.
    by_name: BTreeMap<OsString, BTreeSet<PathBuf>>,
}

impl Reads {
    /// The names in rules of make.
    pub fn parse(rules: &str) -> Reads {
        let joined = rules.replace("\\\n", " ");
        let names = joined.lines().filter_map(|line| line.split_once(':')).map(|(_, names)| names);
        let mut reads = Reads::default();
        reads.add(names.flat_map(str::split_whitespace).map(PathBuf::from));
        reads
    }

    /// Adds paths of files.
    pub fn add(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            let path = plain(&path);
            let Some(name) = path.file_name() else { continue };
            self.by_name.entry(name.to_os_string()).or_default().insert(path);
        }
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.by_name.values().map(BTreeSet::len).sum()
    }

    /// Whether a build may have read a file of the repository. The names that compilers report are relative to where
    /// each was started, so a name counts for every file that ends like it.
    fn may_hold(&self, file: &Path) -> bool {
        let is_reported = file
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| REPORTED.contains(&extension));
        let alike = file.file_name().and_then(|name| self.by_name.get(name));
        let mut alike = alike.into_iter().flatten();
        !is_reported || alike.any(|name| name.ends_with(file) || file.ends_with(name))
    }
}

/// A path without `.` and `..`, as far as the text tells.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => (),
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The prior weight of each commit, by number. Without reports, all are equal.
pub fn weights(range: &Range, repository: &Repository, reads: &Reads) -> Result<Vec<f64>> {
    let mut weights = vec![1.0; range.commits.len()];
    weights[0] = 0.0;
    if reads.len() == 0 {
        return Ok(weights);
    }
    let touched = touched(range, repository)?;
    for (number, commit) in range.commits.iter().enumerate().skip(1) {
        // Merges are not listed: what they bring, their parents made.
        let Some(files) = touched.get(&commit.id) else { continue };
        if !files.iter().any(|file| reads.may_hold(file)) {
            weights[number] = UNREAD;
        }
    }
    Ok(weights)
}

/// The files that each commit changes.
fn touched(range: &Range, repository: &Repository) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let (first, last) = (&range.commits[0].id, &range.commits[range.commits.len() - 1].id);
    let mut git = repository.command();
    git.args(["log", "--no-renames", "--no-merges", "--name-only", "-z", "--format=%x01%H"]);
    let text = repository.ask(git.arg(format!("{first}..{last}")))?;
    let mut touched = BTreeMap::new();
    for part in text.split('\u{1}').skip(1) {
        let mut words = part.split(['\0', '\n']).filter(|word| !word.is_empty());
        let Some(id) = words.next() else { continue };
        touched.insert(id.to_string(), words.map(PathBuf::from).collect());
    }
    Ok(touched)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::Reads;

    #[test]
    fn rules_of_make_name_what_was_read() {
        let reads = Reads::parse("a.o: src/a.c src/../include/a.h \\\n ./b.h\nb.o: b.c\n");
        let names = ["include/a.h", "src/a.c", "b.c", "b.h"].map(PathBuf::from);
        let all: Vec<PathBuf> = reads.by_name.values().flatten().cloned().collect();
        assert!(reads.len() == 4 && names.iter().all(|name| all.contains(name)), "{all:?}");
        // Started in a folder below: the file of the repository ends like the name.
        let may_hold = |path| reads.may_hold(Path::new(path));
        assert!(may_hold("lib/b.h") && may_hold("src/a.c"));
        assert!(!may_hold("src/c.c") && !may_hold("README.md") && !may_hold("other/a.c"));
        // What no compiler reports may matter.
        assert!(may_hold("Makefile") && may_hold("gen.py"));
    }
}
