//! A repository of the user's, read and never changed: not its work tree, its index, its refs or
//! its configuration. Sources are written into a folder of ours through an index of our own,
//! which also leaves alone what does not differ, so that make compiles only what does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use host::nearest;

use crate::kernels::kill_with_parent::kill_with_parent;

/// Where git was told to look, by a hook that called us perhaps; we were told otherwise.
const ELSEWHERE: &[&str] = &[
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
];

/// What a user may have set for his own work tree, and would run programs, change files or
/// leave some out when ours is written. A split index has parts in the repository.
const OWN: &[&str] = &[
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "index.sparse=false",
    "submodule.recurse=false",
];

/// As many digits of a commit as tell it from all others, and as the kernel's own names have.
const DIGITS: usize = 12;

/// A git repository.
pub struct Repository {
    /// As it was named.
    path: PathBuf,
    /// Its data.
    git_dir: PathBuf,
}

/// A revision, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// As it was named: `v6.1`, `HEAD~3`.
    pub name: String,
    /// The commit, 40 digits or 64.
    pub commit: String,
    /// The commit's files.
    pub tree: String,
}

impl Revision {
    /// The commit, as short as one writes it.
    pub fn short(&self) -> &str {
        &self.commit[..DIGITS]
    }
}

impl Repository {
    /// The repository of a folder: its root, one below, or a bare one.
    pub fn open(path: &Path) -> Result<Repository> {
        ensure!(path.is_dir(), "there is no directory {}", path.display());
        let git_dir = ask(in_folder(path).args(["rev-parse", "--absolute-git-dir"]))
            .with_context(|| format!("{} is in no git repository", path.display()))?;
        Ok(Repository { path: path.to_path_buf(), git_dir: PathBuf::from(git_dir) })
    }

    /// The commit that a name means.
    pub fn resolve(&self, name: &str) -> Result<Revision> {
        // Or it would be read as an option.
        ensure!(!name.is_empty() && !name.starts_with('-'), "'{name}' is no revision");
        let ask_for = |what: &str| {
            ask(self.git().args(["rev-parse", "--verify", "--end-of-options"]).arg(what))
        };
        let commit = match ask_for(&format!("{name}^{{commit}}")) {
            Ok(commit) => commit,
            Err(why) => {
                let hint = self.nearest(name);
                bail!("{} has no revision '{name}' ({why:#}){hint}", self.path.display());
            }
        };
        let tree = ask_for(&format!("{commit}^{{tree}}"))?;
        ensure!(commit.len() >= DIGITS, "git calls '{name}' {commit}, which is no commit");
        Ok(Revision { name: name.to_string(), commit, tree })
    }

    fn nearest(&self, name: &str) -> String {
        let asked = ["for-each-ref", "--format=%(refname:short)"];
        let known = ask(self.git().args(asked).args(["refs/heads", "refs/tags", "refs/remotes"]));
        nearest(name, known.unwrap_or_default().lines())
    }

    /// Its name from the nearest tag: `v6.1-3-g0123456789ab`; the commit where there is none.
    pub fn describe(&self, revision: &Revision) -> String {
        let asked = ["describe", "--tags", "--always", "--abbrev=12"];
        ask(self.git().args(asked).arg(&revision.commit)).unwrap_or(revision.commit.clone())
    }

    /// When it was committed, as 2024-05-31, and the first line of what was said.
    pub fn date_and_subject(&self, revision: &Revision) -> Result<(String, String)> {
        let said = ask(self.git().args(["log", "-1", "--format=%cs%n%s"]).arg(&revision.commit))?;
        let (date, subject) = said.split_once('\n').unwrap_or((&said, ""));
        Ok((date.to_string(), subject.to_string()))
    }

    /// Whether a tree has a file or folder.
    pub fn has(&self, revision: &Revision, file: &str) -> bool {
        ask(self.git().args(["cat-file", "-e"]).arg(format!("{}:{file}", revision.tree))).is_ok()
    }

    /// Which of these options no Kconfig file of a tree defines.
    pub fn unknown_options(&self, revision: &Revision, options: &[String]) -> Vec<String> {
        let bare = |option: &String| option.trim_start_matches("CONFIG_").to_string();
        let any = options.iter().map(bare).collect::<Vec<_>>().join("|");
        let pattern = format!("^[[:space:]]*(menu)?config[[:space:]]+({any})[[:space:]]*$");
        let asked = ["grep", "-hE", "-e", &pattern, &revision.tree, "--", "*Kconfig*"];
        // Not from a folder below the root, to which it would keep.
        let mut git = self.git();
        git.env("GIT_DIR", &self.git_dir).current_dir(&self.git_dir);
        // Finding nothing is an exit status of its own.
        let found = ask(git.args(asked)).unwrap_or_default();
        let known: Vec<&str> =
            found.lines().filter_map(|line| line.split_whitespace().last()).collect();
        options.iter().filter(|option| !known.contains(&bare(option).as_str())).cloned().collect()
    }

    /// Whether files that git knows differ in the work tree from what is committed there, if
    /// this revision is. Does not refresh the user's index.
    pub fn has_uncommitted(&self, revision: &Revision) -> bool {
        let is_out = self.resolve("HEAD").is_ok_and(|head| head.tree == revision.tree);
        let asked = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"];
        is_out && ask(self.git().args(asked)).is_ok_and(|said| !said.is_empty())
    }

    /// Makes `source` hold the files of a tree, and no others that `index`, ours too, knows of.
    /// Files that do not differ are not touched.
    pub fn write(&self, revision: &Revision, source: &Path, index: &Path) -> Result<()> {
        let mut git = self.git();
        git.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", source);
        git.env("GIT_INDEX_FILE", index).current_dir(source);
        git.args(["read-tree", "--reset", "-u"]).arg(&revision.tree);
        ask(&mut git).map(drop).with_context(|| {
            format!("writing the files of {} into {}", revision.name, source.display())
        })
    }

    fn git(&self) -> Command {
        in_folder(&self.path)
    }
}

fn in_folder(path: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(path).env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").stdin(Stdio::null());
    for variable in ELSEWHERE {
        git.env_remove(variable);
    }
    git.args(OWN.iter().flat_map(|setting| ["-c", setting]));
    kill_with_parent(&mut git, libc::SIGKILL);
    git
}

/// What git answers; what it says is wrong as an error.
fn ask(git: &mut Command) -> Result<String> {
    let output = git.output().context("starting git (apt install git)")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_string());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().map(str::trim).find(|line| !line.is_empty());
    bail!("git: {}", first.unwrap_or("no answer").trim_start_matches("fatal: "));
}
