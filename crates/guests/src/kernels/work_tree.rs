//! Files as they lie in a folder, committed or not, as a commit that only knee has: a git work tree with its changes
//! and its new files that git does not ignore, or sources that are in no repository, as `linux-source` packages have
//! them. The folder and its repository are only read; new objects and the index lie in a folder of knee's own, which
//! stays: the next time, git reads only files that changed since.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use host::durable::Seal;

use crate::kernels::git::{Repository, Revision, ask, in_folder};
use crate::kernels::kept_folder::{self, KeptFolder};

/// Folders of knee's own that stay, one for each folder of the user's.
const KEPT: usize = 3;

/// Digits of the hash in such a folder's name.
const NAME_DIGITS: usize = 16;

/// What make leaves among sources that are in no repository. Linux refuses to build elsewhere from sources with it.
const LEFT_BY_MAKE: &[&str] = &[
    "**/*.o",
    "**/*.ko",
    "**/*.a",
    "**/.*.cmd",
    "**/.*.d",
    "/.config",
    "/include/config/**",
    "/include/generated/**",
    "/arch/x86/include/generated/**",
    "/vmlinux*",
    "/.tmp_*",
];

/// Who the commits of knee's own are by: nobody, so that equal files give equal commits.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "knee"),
    ("GIT_AUTHOR_EMAIL", "knee"),
    ("GIT_COMMITTER_NAME", "knee"),
    ("GIT_COMMITTER_EMAIL", "knee"),
];

/// The files of a folder as a revision, which lies in a repository that has it. `name` is what the user calls it;
/// knee's own folder is made in `parent`.
pub fn snapshot(folder: &Path, name: &str, parent: &Path) -> Result<(Repository, Revision)> {
    let folder = folder.canonicalize().with_context(|| format!("looking for {name}"))?;
    ensure!(
        folder.join("Kconfig").is_file(),
        "{name} is not a source tree of Linux: it has no Kconfig"
    );
    let mut own = Seal::for_bytes(folder.as_os_str().as_encoded_bytes()).sha256;
    own.truncate(NAME_DIGITS);
    let waiting = format!("{name}: waiting for another knee that reads these sources");
    let kept = KeptFolder::open(parent, &own, &waiting)?;
    let taken = match Repository::open(&folder) {
        Ok(users) if root_of(&users).is_ok_and(|root| root == folder) => of_git(users, &kept, name),
        _ => of_plain(&folder, &kept, name),
    };
    let taken = taken.with_context(|| format!("reading the files of {name}"))?;
    drop(kept);
    kept_folder::prune(parent, KEPT, |_| ())?;
    Ok(taken)
}

/// The first folder of a work tree.
fn root_of(repository: &Repository) -> Result<PathBuf> {
    let root = repository.ask(repository.command().args(["rev-parse", "--show-toplevel"]))?;
    Path::new(&root).canonicalize().with_context(|| format!("looking for {root}"))
}

/// The files of a work tree; the commit that is checked out, if they are its own.
fn of_git(users: Repository, kept: &KeptFolder, name: &str) -> Result<(Repository, Revision)> {
    let path = |which: &str| -> Result<PathBuf> {
        let asked = ["rev-parse", "--path-format=absolute", "--git-path", which];
        Ok(users.ask(users.command().args(asked))?.into())
    };
    let index = kept.path().join("index");
    // What it knows of the files' times spares reading them all.
    let _ = fs::copy(path("index")?, &index);
    let (objects, users_objects) = (kept.path().join("objects"), path("objects")?);
    fs::create_dir_all(&objects).with_context(|| format!("creating {}", objects.display()))?;
    let head = users.resolve("HEAD").ok();
    let repository = users.with_objects(&objects, &users_objects);
    let git = || {
        let mut git = repository.command();
        git.env("GIT_INDEX_FILE", &index);
        git
    };
    begin(&index);
    ask(git().args(["add", "--all", "."]))?;
    let tree = ask(git().arg("write-tree"))?;
    if let Some(head) = head.as_ref().filter(|head| head.tree == tree) {
        return Ok((repository, Revision { name: name.to_string(), ..head.clone() }));
    }
    let date = match &head {
        Some(head) => ask(git().args(["log", "-1", "--format=%cI", &head.commit]))?,
        None => date_of(&repository.path().join("Makefile"))?,
    };
    let mut subject = "files that are not committed".to_string();
    if let Some(head) = &head {
        subject += &format!(", over: {}", repository.date_and_subject(head)?.1);
    }
    let parent = head.as_ref().map(|head| head.commit.as_str());
    let commit = commit(&mut git(), &tree, parent, &date, &subject)?;
    Ok((repository, Revision { name: name.to_string(), commit, tree }))
}

/// All files of a folder that is no work tree, but for what make left there.
fn of_plain(folder: &Path, kept: &KeptFolder, name: &str) -> Result<(Repository, Revision)> {
    let git_dir = kept.path().join("git");
    if !git_dir.join("HEAD").exists() {
        let init = ["init", "--quiet", "--bare", "--template=", "--initial-branch=knee"];
        ask(in_folder(kept.path()).args(init).arg(&git_dir))?;
    }
    let index = git_dir.join("index");
    begin(&index);
    let git = || {
        let mut git = in_folder(folder);
        git.env("GIT_DIR", &git_dir).env("GIT_WORK_TREE", folder);
        git
    };
    // All in one pack: 80 thousand files of their own take minutes.
    let settings = ["-c", "core.bigFileThreshold=1", "-c", "core.compression=1"];
    let mut add = git();
    // Debian's sources have files that their .gitignore names.
    add.args(settings).args(["add", "--all", "--force", "--", "."]);
    add.args(LEFT_BY_MAKE.iter().map(|pattern| {
        let (magic, pattern) = match pattern.strip_prefix('/') {
            Some(rest) => ("top,exclude,glob", rest),
            None => ("exclude,glob", *pattern),
        };
        format!(":({magic}){pattern}")
    }));
    ask(&mut add)?;
    let tree = ask(git().arg("write-tree"))?;
    let date = date_of(&folder.join("Makefile"))?;
    let commit = commit(&mut git(), &tree, None, &date, &format!("the files of {name}"))?;
    let repository = Repository::open(&git_dir)?;
    Ok((repository, Revision { name: name.to_string(), commit, tree }))
}

/// Removes what a killed git left beside an index. Nobody else uses the index.
fn begin(index: &Path) {
    let _ = fs::remove_file(index.with_extension("lock"));
}

fn commit(
    git: &mut Command,
    tree: &str,
    parent: Option<&str>,
    date: &str,
    subject: &str,
) -> Result<String> {
    git.args(["-c", "commit.gpgSign=false", "commit-tree", tree, "-m", subject]);
    git.args(parent.iter().flat_map(|parent| ["-p", parent]));
    git.envs(IDENTITY).env("GIT_AUTHOR_DATE", date).env("GIT_COMMITTER_DATE", date);
    ask(git)
}

/// When a file was last changed, as git reads it.
fn date_of(file: &Path) -> Result<String> {
    let changed = fs::metadata(file).and_then(|metadata| metadata.modified());
    let changed = changed.with_context(|| format!("reading {}", file.display()))?;
    let seconds = changed.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    Ok(format!("@{seconds} +0000"))
}

/// Whether this names a folder with the sources of Linux.
pub fn is_source_tree(path: &Path) -> bool {
    ["Kconfig", "Makefile"].iter().all(|name| path.join(OsStr::new(name)).is_file())
}
