//! The user's git repository, which knee reads and never changes: neither its work tree nor its
//! index, refs or configuration. Sources are written into knee's own folder through knee's own
//! index, which leaves files alone that do not differ, so that make compiles only what does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use host::{children, kill_with_parent, nearest};

/// Variables that redirect git, perhaps set by a hook that called knee; the user named a repository.
const REDIRECTIONS: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
];

/// Overrides of the user's settings that would run programs, change files or leave some out when
/// knee writes its sources. A split index would have parts in the repository.
const OVERRIDES: &[&str] = &[
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "index.sparse=false",
    "submodule.recurse=false",
];

/// Digits of a short commit id: unique, and as many as the kernel's own release names have.
const COMMIT_DIGITS: usize = 12;

/// A git repository.
pub struct Repository {
    /// The path that the user named.
    path: PathBuf,
    git_dir: PathBuf,
    /// The folder for new objects, and that of the repository's own.
    objects: Option<[PathBuf; 2]>,
}

/// A revision, resolved to its commit and tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The name that the user gave it: `v6.1`, `HEAD~3`.
    pub name: String,
    /// The commit id, 40 or 64 digits.
    pub commit: String,
    /// The id of the commit's tree.
    pub tree: String,
}

impl Revision {
    /// The short commit id.
    pub fn short(&self) -> &str {
        &self.commit[..COMMIT_DIGITS]
    }
}

impl Repository {
    /// Opens the repository that contains a folder, or a bare repository.
    pub fn open(path: &Path) -> Result<Repository> {
        ensure!(path.is_dir(), "{} is not a directory: name a git repository", path.display());
        let asked = ask(in_folder(path).args(["rev-parse", "--absolute-git-dir"]));
        // As in a container whose checkout is of the host's user.
        if let Some(why) = asked.as_ref().err().map(|why| format!("{why:#}"))
            && why.contains("dubious ownership")
        {
            let named = why.split('\'').nth(1).map_or(path, Path::new);
            bail!(
                "{why}, which is another user's: `git config --global --add safe.directory {}` permits it",
                named.display()
            );
        }
        let git_dir =
            asked.with_context(|| format!("{} is not in a git repository", path.display()))?;
        let (path, git_dir) = (path.to_path_buf(), PathBuf::from(git_dir));
        Ok(Repository { path, git_dir, objects: None })
    }

    /// This repository with a folder of knee's own for new objects; `old` is the folder of its own ones.
    pub fn with_objects(self, new: &Path, old: &Path) -> Repository {
        Repository { objects: Some([new.to_path_buf(), old.to_path_buf()]), ..self }
    }

    /// The path that the user named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder with its objects and branches, which all of its work trees share.
    pub fn shared_folder(&self) -> Result<PathBuf> {
        let told = ask(self.git().args(["rev-parse", "--git-common-dir"]))?;
        let folder = self.path.join(told);
        folder.canonicalize().with_context(|| format!("looking for {}", folder.display()))
    }

    /// Resolves a name to a commit.
    pub fn resolve(&self, name: &str) -> Result<Revision> {
        // git would take it for an option.
        let is_option = name.starts_with('-');
        ensure!(!name.is_empty() && !is_option, "'{name}' is not a revision: name a commit");
        let parse = |name: &str| {
            ask(self.git().args(["rev-parse", "--verify", "--end-of-options"]).arg(name))
        };
        let commit = match parse(&format!("{name}^{{commit}}")) {
            Ok(commit) => commit,
            Err(why) => {
                let hint = if self.git_dir.join("shallow").is_file() {
                    ": the checkout is shallow, so fetch the whole history (`git fetch --unshallow`; fetch-depth: 0 on \
                     GitHub, GIT_DEPTH: 0 on GitLab)"
                        .to_string()
                } else {
                    self.nearest(name)
                };
                bail!("{} has no revision '{name}' ({why:#}){hint}", self.path.display());
            }
        };
        let tree = parse(&format!("{commit}^{{tree}}"))?;
        ensure!(
            commit.len() >= COMMIT_DIGITS,
            "git resolved '{name}' to '{commit}', which is not a commit id"
        );
        Ok(Revision { name: name.to_string(), commit, tree })
    }

    fn nearest(&self, name: &str) -> String {
        let list = ["for-each-ref", "--format=%(refname:short)"];
        let known = ask(self.git().args(list).args(["refs/heads", "refs/tags", "refs/remotes"]));
        nearest(name, known.unwrap_or_default().lines())
    }

    /// The commit's name relative to the nearest tag, `v6.1-3-g0123456789ab`; its id where there is no
    /// tag.
    pub fn describe(&self, revision: &Revision) -> String {
        let asked = ["describe", "--tags", "--always", "--abbrev=12"];
        ask(self.git().args(asked).arg(&revision.commit)).unwrap_or(revision.commit.clone())
    }

    /// The commit date, such as 2024-05-31, and the first line of the message.
    pub fn date_and_subject(&self, revision: &Revision) -> Result<(String, String)> {
        let log = ask(self.git().args(["log", "-1", "--format=%cs%n%s"]).arg(&revision.commit))?;
        let (date, subject) = log.split_once('\n').unwrap_or((&log, ""));
        Ok((date.to_string(), subject.to_string()))
    }

    /// Whether the revision has a file or folder.
    pub fn has(&self, revision: &Revision, file: &str) -> bool {
        ask(self.git().args(["cat-file", "-e"]).arg(format!("{}:{file}", revision.tree))).is_ok()
    }

    /// Those of the options that no Kconfig file of the revision defines.
    pub fn unknown_options(&self, revision: &Revision, options: &[String]) -> Vec<String> {
        let bare = |option: &String| option.trim_start_matches("CONFIG_").to_string();
        let alternatives = options.iter().map(bare).collect::<Vec<_>>().join("|");
        let pattern =
            format!("^[[:space:]]*(menu)?config[[:space:]]+({alternatives})[[:space:]]*$");
        let asked = ["grep", "-hE", "-e", &pattern, &revision.tree, "--", "*Kconfig*"];
        // From the root: in a folder below, git grep would search only that folder.
        let mut git = self.git();
        git.env("GIT_DIR", &self.git_dir).current_dir(&self.git_dir);
        // git grep fails if it finds nothing.
        let lines = ask(git.args(asked)).unwrap_or_default();
        let known: Vec<&str> =
            lines.lines().filter_map(|line| line.split_whitespace().last()).collect();
        options.iter().filter(|option| !known.contains(&bare(option).as_str())).cloned().collect()
    }

    /// Whether the work tree has uncommitted changes in tracked files, if this revision is checked
    /// out there. Does not refresh the user's index.
    pub fn has_uncommitted(&self, revision: &Revision) -> bool {
        let is_checked_out = self.resolve("HEAD").is_ok_and(|head| head.tree == revision.tree);
        let asked = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"];
        is_checked_out && ask(self.git().args(asked)).is_ok_and(|status| !status.is_empty())
    }

    /// Writes the files of a revision into `source`, and removes others that `index` lists. Files that
    /// do not differ are not touched. Both paths are knee's own.
    pub fn write(&self, revision: &Revision, source: &Path, index: &Path) -> Result<()> {
        let mut git = self.git();
        git.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", source);
        git.env("GIT_INDEX_FILE", index).current_dir(source);
        git.args(["read-tree", "--reset", "-u"]).arg(&revision.tree);
        ask(&mut git).map(drop).with_context(|| {
            format!("writing the files of {} into {}", revision.name, source.display())
        })
    }

    /// The files in which a revision differs from those that an index of knee's own lists.
    pub fn changed_since(&self, index: &Path, revision: &Revision) -> Result<Vec<String>> {
        let mut git = self.git();
        git.env("GIT_DIR", &self.git_dir).env("GIT_INDEX_FILE", index);
        git.args(["diff-index", "--cached", "--name-only", "-z", &revision.tree]);
        Ok(ask(&mut git)?.split_terminator('\0').map(str::to_string).collect())
    }

    /// Removes the files in `source` that `index` does not list. Both paths are knee's own.
    pub fn remove_others(&self, source: &Path, index: &Path) -> Result<()> {
        let mut git = self.git();
        git.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", source);
        git.env("GIT_INDEX_FILE", index).current_dir(source);
        ask(git.args(["clean", "-ffdxq"])).map(drop).with_context(|| {
            format!("removing what is no file of the revision from {}", source.display())
        })
    }

    /// What a commit changed against another, as a patch.
    pub fn patch(&self, parent: &str, commit: &str) -> Result<Vec<u8>> {
        let mut git = self.git();
        git.args(["diff-tree", "-p", "--binary", "--no-color", "--no-ext-diff", parent, commit]);
        output(&mut git)
    }

    /// Whether a revision is reachable from another.
    pub fn is_ancestor(&self, old: &Revision, new: &Revision) -> bool {
        let mut git = self.git();
        self.ask(git.args(["merge-base", "--is-ancestor", &old.commit, &new.commit])).is_ok()
    }

    /// The commit where two histories part, if they have one in common.
    pub fn merge_base(&self, a: &Revision, b: &Revision) -> Option<String> {
        let mut git = self.git();
        self.ask(git.args(["merge-base", &a.commit, &b.commit])).ok()
    }

    /// git in this repository, to which the caller adds what only reads.
    pub fn command(&self) -> Command {
        self.git()
    }

    /// Runs such a git; returns its output, or its first line on stderr as the error.
    pub fn ask(&self, git: &mut Command) -> Result<String> {
        ask(git)
    }

    fn git(&self) -> Command {
        let mut git = in_folder(&self.path);
        if let Some([new, old]) = &self.objects {
            git.env("GIT_OBJECT_DIRECTORY", new).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", old);
        }
        git
    }
}

/// Takes a patch back in a folder that is in no repository.
pub fn take_back(folder: &Path, patch: &[u8]) -> Result<()> {
    let file = folder.join(".knee-revert.patch");
    fs::write(&file, patch).with_context(|| format!("writing {}", file.display()))?;
    let mut git = in_folder(folder);
    git.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder));
    git.args(["apply", "-R", "--whitespace=nowarn"]).arg(&file);
    let applied = output(&mut git);
    fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
    applied.map(drop)
}

/// git in a folder, as knee calls it.
pub fn in_folder(path: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(path).env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0");
    for variable in REDIRECTIONS {
        git.env_remove(variable);
    }
    git.args(OVERRIDES.iter().flat_map(|setting| ["-c", setting]));
    kill_with_parent(&mut git, libc::SIGKILL);
    git
}

/// Runs git; returns its output without blanks at the end, or its first line on stderr as the error.
pub fn ask(git: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(git)?).trim_end().to_string())
}

/// Runs git; returns its output as it is.
fn output(git: &mut Command) -> Result<Vec<u8>> {
    let output =
        children::output(git).context("starting git (is it installed? apt install git)")?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let first = stderr.lines().map(str::trim).find(|line| !line.is_empty());
    bail!("git: {}", first.unwrap_or("it failed without a message").trim_start_matches("fatal: "));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::{Repository, ask, in_folder, take_back};

    fn files(folder: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let plain = entries.filter(|entry| entry.file_type().unwrap().is_file());
        plain
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect()
    }

    #[test]
    fn a_shallow_checkout_says_how_to_fetch_what_it_lacks() {
        let home = tempfile::tempdir().unwrap();
        let [whole, shallow] = ["whole", "shallow"].map(|name| home.path().join(name));
        fs::create_dir(&whole).unwrap();
        let git = |words: &[&str]| {
            let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
            ask(in_folder(&whole).args(who).args(words)).unwrap()
        };
        git(&["init", "-q", "-b", "main"]);
        let commit = || {
            git(&["commit", "-q", "--allow-empty", "-m", "one"]);
            git(&["rev-parse", "HEAD"])
        };
        let (old, new) = (commit(), commit());
        let from = format!("file://{}", whole.display());
        let to = shallow.to_str().unwrap();
        ask(in_folder(home.path()).args(["clone", "-q", "--depth", "1", &from, to])).unwrap();
        let shallow = Repository::open(&shallow).unwrap();
        assert_eq!(shallow.resolve("HEAD").unwrap().commit, new);
        let why = format!("{:#}", shallow.resolve(&old).unwrap_err());
        assert!(why.contains("the checkout is shallow") && why.contains("--unshallow"), "{why}");
    }

    #[test]
    fn a_change_is_taken_back_and_the_next_revision_is_whole() {
        let home = tempfile::tempdir().unwrap();
        let [repository, source] = ["repository", "source"].map(|name| home.path().join(name));
        fs::create_dir(&repository).unwrap();
        fs::create_dir(&source).unwrap();
        let git = |words: &[&str]| {
            let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
            ask(in_folder(&repository).args(who).args(words)).unwrap()
        };
        git(&["init", "-q", "-b", "main"]);
        let commit = |text: &str, other: Option<&str>| {
            // The last line of the patch is one of blanks.
            fs::write(repository.join("a"), format!("{text}\n\n\n\n")).unwrap();
            match other {
                Some(other) => fs::write(repository.join("b"), other).unwrap(),
                None => fs::remove_file(repository.join("b")).unwrap(),
            }
            git(&["add", "-A"]);
            git(&["commit", "-qm", text]);
            git(&["rev-parse", "HEAD"])
        };
        let old = commit("old", Some("there\n"));
        let new = commit("new", None);
        let repository = Repository::open(&repository).unwrap();
        let index = home.path().join("index");
        let write = |name: &str| {
            repository.write(&repository.resolve(name).unwrap(), &source, &index).unwrap();
            files(&source)
        };
        let (before, whole) = (write(&old), write(&new));
        assert!(before.len() == 2 && whole.len() == 1);
        take_back(&source, &repository.patch(&old, &new).unwrap()).unwrap();
        assert_eq!(files(&source), before);
        write(&new);
        repository.remove_others(&source, &index).unwrap();
        assert_eq!(files(&source), whole);
        let why = take_back(&source, &repository.patch(&new, &old).unwrap()).unwrap_err();
        assert!(why.to_string().contains("git: error: "), "{why}");
    }
}
