//! The things to bisect, in order: commits of a git repository, or the entries of a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bisection::Commits;
use guests::kernels::{Repository, Revision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the things to bisect come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// Commits of a repository.
    Git {
        /// A folder in a repository.
        directory: PathBuf,
        /// The good end, as it was named.
        good: String,
        /// The bad end, as it was named.
        bad: String,
        /// Follow only the first parent of merges.
        first_parent: bool,
        /// Names of commits that are not tested.
        skip: Vec<String>,
    },
    /// The entries of a folder in the order of their names; the first is good, the last bad.
    Steps {
        /// The folder.
        directory: PathBuf,
    },
}

impl Source {
    /// What users call one of its entries.
    pub fn unit(&self) -> &'static str {
        match self {
            Source::Git { .. } => "commit",
            Source::Steps { .. } => "step",
        }
    }
}

/// A commit, or a step of a folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// The commit id; the name of a step.
    pub id: String,
    /// First line of the message.
    pub subject: String,
    /// Day of the commit.
    pub date: String,
    /// Numbers of its parents in the range; 0 for the good end.
    pub parents: Vec<usize>,
}

impl Commit {
    /// The short commit id, or the name of a step.
    pub fn short(&self) -> &str {
        let is_id = self.id.len() >= 40 && self.id.bytes().all(|b| b.is_ascii_hexdigit());
        if is_id { &self.id[..12] } else { &self.id }
    }
}

/// All commits of a range; number 0 is the good end, the last the bad one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The commits, the good end first.
    pub commits: Vec<Commit>,
    /// Numbers of commits that the user wants left out.
    pub skipped: Vec<usize>,
}

impl Range {
    /// Reads the range. Refuses ends between which there is nothing to search.
    pub fn read(source: &Source) -> Result<Range> {
        match source {
            Source::Git { directory, good, bad, first_parent, skip } => {
                let repository = Repository::open(directory)?;
                let (good, bad) = (repository.resolve(good)?, repository.resolve(bad)?);
                check_ends(&repository, &good, &bad)?;
                let mut range = of_git(&repository, &good, &bad, *first_parent)?;
                for name in skip {
                    let commit = repository.resolve(name)?.commit;
                    range.skipped.extend(range.commits.iter().position(|c| c.id == commit));
                }
                Ok(range)
            }
            Source::Steps { directory } => of_folder(directory),
        }
    }

    /// The graph of the commits.
    pub fn graph(&self) -> Commits {
        let parents: Vec<Vec<usize>> =
            self.commits[1..].iter().map(|commit| commit.parents.clone()).collect();
        Commits::from_parents(&parents)
    }

    /// The number of changes.
    pub fn changes(&self) -> usize {
        self.commits.len() - 1
    }
}

fn check_ends(repository: &Repository, good: &Revision, bad: &Revision) -> Result<()> {
    let (g, b) = (&good.name, &bad.name);
    ensure!(good.commit != bad.commit, "--good {g} and --bad {b} are one commit: name two");
    if repository.is_ancestor(good, bad) {
        return Ok(());
    }
    if repository.is_ancestor(bad, good) {
        bail!(
            "the bad commit {b} is an ancestor of the good one {g}: are they swapped? If {g} is where it \
             became better, name the older one --good all the same: either direction is searched"
        );
    }
    match repository.merge_base(good, bad) {
        Some(base) => bail!(
            "the good commit {g} is not an ancestor of the bad one {b}, so no single change lies between \
             them: --good {} is where both begin",
            &base[..12.min(base.len())]
        ),
        None => bail!("{g} and {b} have no common history"),
    }
}

fn of_git(
    repository: &Repository,
    good: &Revision,
    bad: &Revision,
    first_parent: bool,
) -> Result<Range> {
    let mut git = repository.command();
    // Fields end with NUL bytes, which no message has.
    git.args(["log", "--topo-order", "--reverse", "--format=%H%x00%P%x00%cs%x00%s"]);
    if first_parent {
        git.arg("--first-parent");
    }
    git.arg(format!("{}..{}", good.commit, bad.commit));
    let text = repository.ask(&mut git).context("reading the history between the ends")?;
    let (date, subject) = repository.date_and_subject(good)?;
    let first = Commit { id: good.commit.clone(), subject, date, parents: Vec::new() };
    let mut commits = vec![first];
    let mut numbers: BTreeMap<String, usize> = BTreeMap::from([(good.commit.clone(), 0)]);
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\0').collect();
        let [id, parents, date, subject] = fields[..] else {
            bail!("git log printed a line without four fields: {line:?}")
        };
        let mut own: BTreeSet<usize> = parents
            .split_whitespace()
            .take(if first_parent { 1 } else { usize::MAX })
            .map(|parent| numbers.get(parent).copied().unwrap_or(0))
            .collect();
        // A parent outside the range adds nothing to one inside.
        if own.len() > 1 {
            own.remove(&0);
        }
        numbers.insert(id.to_string(), commits.len());
        commits.push(Commit {
            id: id.to_string(),
            subject: subject.to_string(),
            date: date.to_string(),
            parents: own.into_iter().collect(),
        });
    }
    ensure!(
        commits.last().is_some_and(|last| last.id == bad.commit),
        "git log does not end with {}",
        bad.name
    );
    Ok(Range { commits, skipped: Vec::new() })
}

fn of_folder(directory: &Path) -> Result<Range> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("listing the steps in {}", directory.display()))?;
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let name = entry?.file_name().into_string();
        let name = name.map_err(|name| anyhow::anyhow!("the step {name:?} is not UTF-8"))?;
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort_by(|a, b| by_numbers(a, b));
    ensure!(
        names.len() >= 2,
        "{} has {} steps, at least 2 are needed: the good one first, the bad one last, in the order of \
         their names",
        directory.display(),
        names.len()
    );
    let commit = |(number, id): (usize, String)| Commit {
        subject: String::new(),
        date: String::new(),
        parents: if number == 0 { Vec::new() } else { vec![number - 1] },
        id,
    };
    Ok(Range { commits: names.into_iter().enumerate().map(commit).collect(), skipped: Vec::new() })
}

/// A part of a name: numbers come before other characters.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum NamePart {
    Number(u64),
    Other(char),
}

/// Compares names with the numbers in them by value: 2 before 10.
fn by_numbers(a: &str, b: &str) -> std::cmp::Ordering {
    let parts = |name: &str| {
        let mut parts: Vec<NamePart> = Vec::new();
        for c in name.chars() {
            match (c.to_digit(10), parts.last_mut()) {
                (Some(digit), Some(NamePart::Number(number))) => {
                    *number = number.saturating_mul(10).saturating_add(u64::from(digit));
                }
                (Some(digit), _) => parts.push(NamePart::Number(u64::from(digit))),
                (None, _) => parts.push(NamePart::Other(c)),
            }
        }
        parts
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::{Range, Source, by_numbers};

    #[test]
    fn steps_are_in_the_order_of_their_numbers() {
        let mut names = vec!["10-b", "2-a", "config-9", "config-10", "1"];
        names.sort_by(|a, b| by_numbers(a, b));
        assert_eq!(names, ["1", "2-a", "10-b", "config-9", "config-10"]);
    }

    #[test]
    fn a_folder_needs_two_steps() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::Steps { directory: folder.path().to_path_buf() };
        let why = Range::read(&source).unwrap_err().to_string();
        assert!(why.contains("has 0 steps, at least 2 are needed"), "{why}");
        for name in ["b2", "b10", "b1"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let range = Range::read(&source).unwrap();
        let names: Vec<&str> = range.commits.iter().map(|commit| commit.short()).collect();
        assert_eq!((names, range.changes()), (vec!["b1", "b2", "b10"], 2));
    }
}
