//! Builds of commits, a folder for each, in knee's own cache. The user's repository is only read.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use guests::kernels::{Change, Repository, Revision, files_read, take_back};
use host::bounded_output::BoundedOutput;
use host::job_control::RunningSince;
use host::leftovers::contained;
use host::{HeldFolder, Limit, children, kill_with_parent, signals};
use setup::foreign::Permitted;
use setup::removal;

use crate::Request;
use crate::build::{Build, Built};
use crate::fingerprint::{files_below, fingerprint, is_linked};
use crate::folder::Bisection;
use crate::kernels::{KernelWorkshop, take_image};
use crate::range::{Commit, Source};
use crate::reads::VARIABLE;

/// The shell that runs a build leads its group; when knee dies it gets SIGTERM and takes the group with it.
const GUARD: &str = r#"trap 'kill -KILL 0' TERM; sh -c "$1" & wait $!"#;

/// Time between two checks whether a build has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// With less room than this, a failed build says nothing about the commit.
const ROOM_LEAST: u64 = 64 << 20;

/// Digits of a commit id in the name of its folder. All names are equally long: the length of a path moves what
/// lies on a program's stack.
const NAME_LENGTH: usize = 12;

/// Builds the commits of one bisection.
pub struct Workshop {
    bisection: Bisection,
    /// What may be built and run; nothing where the bisection is only looked at.
    permitted: Option<Permitted<Request>>,
    folder: PathBuf,
    source: Source,
    repository: Option<Repository>,
    timeout_s: f64,
    products: Vec<PathBuf>,
    kernels: Option<KernelWorkshop>,
}

impl Workshop {
    /// The workshop of a bisection that may build and run what its request says.
    pub fn open(bisection: &Bisection, request: Permitted<Request>) -> Result<Workshop> {
        let mut workshop = Workshop::to_look_at(bisection, &request)?;
        if let Source::Git { directory, .. } = &request.source {
            workshop.repository = Some(Repository::open(directory)?);
            workshop.kernels = request
                .kernels
                .as_ref()
                .map(|load| KernelWorkshop::new(directory, &load.recipe, request.build_timeout_s));
        }
        workshop.permitted = Some(request);
        Ok(workshop)
    }

    /// The workshop of a bisection that is only looked at: it starts nothing.
    pub fn to_look_at(bisection: &Bisection, request: &Request) -> Result<Workshop> {
        Ok(Workshop {
            folder: bisection.builds()?,
            bisection: bisection.clone(),
            permitted: None,
            source: request.source.clone(),
            repository: None,
            timeout_s: request.build_timeout_s,
            products: request.products.clone(),
            kernels: None,
        })
    }

    /// What may be built and run.
    pub fn permitted(&self) -> Result<&Permitted<Request>> {
        self.permitted
            .as_ref()
            .context("a bisection that is only looked at builds and runs nothing")
    }

    pub fn repository(&self) -> Option<&Repository> {
        self.repository.as_ref()
    }

    /// The folder of a commit's build.
    pub fn place(&self, commit: &Commit) -> PathBuf {
        self.folder.join(name(&commit.id))
    }

    /// Whether the folder of a commit's build is there and whole. That of a build that a signal cut off is not.
    pub fn has(&self, commit: &Commit) -> bool {
        let folder = self.place(commit);
        folder.is_dir() && !unfinished(&folder).exists()
    }

    /// Whether the build of a commit linked a program or a library: there are no other layouts of scripts.
    pub fn has_linked(&self, commit: &Commit) -> bool {
        let folder = self.place(commit);
        let files = files_below(&folder, Path::new(""));
        files.is_ok_and(|files| files.iter().any(|file| is_linked(&folder.join(file))))
    }

    /// The files that the builds of these commits read, if they are kernels; nothing if that is not known of all of them.
    pub fn kernel_reads(&self, commits: &[&Commit]) -> BTreeSet<PathBuf> {
        if self.kernels.is_none() {
            return BTreeSet::new();
        }
        let each: Vec<_> = commits.iter().map(|commit| files_read(&self.place(commit))).collect();
        let are_known = each.iter().all(|read| !read.is_empty());
        if are_known { each.into_iter().flatten().collect() } else { BTreeSet::new() }
    }

    /// Builds a commit. `reads`: the file in which compilers note what they read.
    pub fn build(&self, commit: &Commit, reads: Option<&Path>) -> Result<Built> {
        if let Some(kernels) = &self.kernels {
            let built = kernels.build(&commit.id, None, &self.place(commit))?;
            flush(&self.folder);
            return Ok(built);
        }
        if let (Source::Steps { directory }, Some(_)) = (&self.source, &self.permitted()?.kernels) {
            let file = directory.join(&commit.id);
            return take_image(&file, &self.place(commit)).map(Built::Done);
        }
        let environment = reads.map(|file| (VARIABLE, file.as_os_str().to_os_string()));
        self.build_at(commit, &self.place(commit), environment.as_slice(), None)
    }

    /// Builds a commit once more in another folder, and returns what it is.
    pub fn build_again(&self, commit: &Commit) -> Result<Built> {
        let again: String = name(&commit.id).chars().rev().collect();
        let folder = self.folder.join(format!("{again:.NAME_LENGTH$}"));
        let built = self.build_at(commit, &folder, &[], None);
        removal::remove(&folder)?;
        built
    }

    /// Builds a commit without the change of another.
    pub fn build_without(
        &self,
        commit: &Commit,
        change: &Commit,
        parent: &Commit,
    ) -> Result<Built> {
        let Some(repository) = &self.repository else { bail!("steps have no changes to revert") };
        let place = self.folder.join(format!("{:.NAME_LENGTH$}", format!("revert{}", change.id)));
        if let Some(kernels) = &self.kernels {
            let without = Change { parent: parent.id.clone(), commit: change.id.clone() };
            let built = kernels.build(&commit.id, Some(without), &place)?;
            flush(&self.folder);
            return Ok(built);
        }
        let patch = repository.patch(&parent.id, &change.id)?;
        self.build_at(commit, &place, &[], Some(&patch))
    }

    /// Builds a commit in a folder for one layout, with variables by which its programs are laid out.
    pub fn build_laid_out(
        &self,
        commit: &Commit,
        layout: u32,
        environment: &[(&str, OsString)],
    ) -> Result<Built> {
        let place =
            self.folder.join(format!("{:.NAME_LENGTH$}", format!("L{layout}{}", name(&commit.id))));
        self.build_at(commit, &place, environment, None)
    }

    /// The folder of all builds.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn build_at(
        &self,
        commit: &Commit,
        folder: &Path,
        environment: &[(&str, OsString)],
        reverted: Option<&[u8]>,
    ) -> Result<Built> {
        let since = RunningSince::now();
        let unfinished = unfinished(folder);
        File::create(&unfinished).with_context(|| format!("creating {}", unfinished.display()))?;
        removal::remove(folder)?;
        DirBuilder::new()
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        let mut tracked = match self.write_sources(commit, folder) {
            Ok(tracked) => tracked,
            Err(_) if signals::received().is_some() => return Ok(Built::Interrupted),
            Err(why) => return Err(why),
        };
        if let Some(patch) = reverted {
            if let Err(why) = take_back(folder, patch) {
                return Ok(Built::Failed(format!(
                    "the change cannot be taken back there: {why:#}"
                )));
            }
            tracked = files_below(folder, Path::new(""))?.into_iter().collect();
        }
        let log = self.bisection.build_log(&commit.id);
        if let Some(line) = &self.permitted()?.build {
            match self.run(line, folder, &log, environment)? {
                Ended::Interrupted => return Ok(Built::Interrupted),
                Ended::TimedOut => {
                    return Ok(Built::Failed(format!(
                        "its build did not end within {} s (--build-timeout)",
                        self.timeout_s
                    )));
                }
                Ended::TooLong(why) => {
                    return Ok(Built::Failed(format!("its build was ended: {why}")));
                }
                Ended::With(status) if !status.success() => {
                    self.check_room().with_context(|| format!("building {}", commit.short()))?;
                    return Ok(Built::Failed(why_failed(status, &log)));
                }
                Ended::With(_) => (),
            }
        }
        let key = match fingerprint(folder, &tracked, &self.products) {
            Ok(key) => key,
            Err(why) => return Ok(Built::Failed(format!("{why:#}"))),
        };
        flush(folder);
        fs::remove_file(&unfinished)
            .with_context(|| format!("removing {}", unfinished.display()))?;
        let seconds = since.elapsed().as_secs_f64();
        Ok(Built::Done(Build { folder: folder.to_path_buf(), key, seconds }))
    }

    /// A build that [`keep`](Self::keep) kept, if it is still there.
    pub fn kept(&self, commit: &Commit) -> Option<Build> {
        let folder = self.place(commit);
        let text = fs::read_to_string(note(&folder)).ok().filter(|_| self.has(commit))?;
        let (key, seconds) = text.trim().split_once(' ')?;
        Some(Build { folder, key: key.to_string(), seconds: seconds.parse().ok()? })
    }

    /// The build of a commit: one that is kept, or a new one, which is kept then.
    pub fn kept_or_built(&self, commit: &Commit) -> Result<Built> {
        if let Some(kept) = self.kept(commit) {
            return Ok(Built::Done(kept));
        }
        let built = self.build(commit, None)?;
        if let Built::Done(build) = &built {
            self.keep(build)?;
        }
        Ok(built)
    }

    /// Keeps a commit's build for later.
    fn keep(&self, build: &Build) -> Result<()> {
        let note = note(&build.folder);
        fs::write(&note, format!("{} {}\n", build.key, build.seconds))
            .with_context(|| format!("writing {}", note.display()))
    }

    /// Removes all that is in the folder of the builds but what belongs to these.
    pub fn remove_others(&self, kept: &[&Commit]) -> Result<()> {
        let names: Vec<String> = kept.iter().map(|commit| name(&commit.id)).collect();
        let folder = &self.folder;
        for entry in
            fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?
        {
            let path = entry?.path();
            let is_kept = |stem: &OsStr| names.iter().any(|name| stem == name.as_str());
            if path.file_stem().is_some_and(is_kept) {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                removal::remove(&path)?;
            } else {
                fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Writes the files of a commit, and returns their names.
    fn write_sources(&self, commit: &Commit, folder: &Path) -> Result<BTreeSet<PathBuf>> {
        match (&self.source, &self.repository) {
            (Source::Git { directory, .. }, Some(repository)) => {
                let revision = repository.resolve(&commit.id)?;
                self.write_revision(repository, &revision, folder)?;
                for (path, id) in submodules(repository, &revision)? {
                    let inner = directory.join(&path);
                    let write = || -> Result<()> {
                        let repository = Repository::open(&inner)?;
                        let revision = repository.resolve(&id)?;
                        self.write_revision(&repository, &revision, &folder.join(&path))
                    };
                    write().with_context(|| {
                        format!(
                            "the submodule {path} of {}: run `git submodule update --init` in the \
                             repository, which must have its commit {id:.12}",
                            commit.short()
                        )
                    })?;
                }
            }
            (Source::Steps { directory }, _) => {
                let step = directory.join(&commit.id);
                let from = if step.is_dir() { step.join(".") } else { step };
                let mut copy = Command::new("cp");
                copy.arg("-a").arg("--").arg(&from).arg(folder);
                let output = children::output(&mut copy).context("starting cp")?;
                let error = String::from_utf8_lossy(&output.stderr).trim().to_string();
                ensure!(output.status.success(), "copying {}: {error}", from.display());
            }
            (Source::Git { .. }, None) => unreachable!("a workshop of git has its repository"),
        }
        Ok(files_below(folder, Path::new(""))?.into_iter().collect())
    }

    fn write_revision(
        &self,
        repository: &Repository,
        revision: &Revision,
        folder: &Path,
    ) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        // A name that no commit has, and of this process alone: git of a knee that was killed leaves a lock beside
        // its index, or still writes there.
        let index = self.folder.join(format!("index-{}", std::process::id()));
        let written = repository.write(revision, folder, &index);
        let _ = fs::remove_file(&index);
        if written.is_err() {
            self.check_room()?;
        }
        written
    }

    fn run(
        &self,
        line: &str,
        folder: &Path,
        log: &Path,
        environment: &[(&str, OsString)],
    ) -> Result<Ended> {
        let opening = || format!("opening {}", log.display());
        let mut output = BoundedOutput::new(new_log(log).with_context(opening)?);
        let mut command = Command::new("sh");
        command.args([OsStr::new("-c"), OsStr::new(GUARD), OsStr::new("sh"), OsStr::new(line)]);
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(output.for_child().with_context(opening)?);
        command.stderr(output.for_child().with_context(opening)?);
        command.env_remove(VARIABLE);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        kill_with_parent(&mut command, libc::SIGTERM);
        // What the build leaves running would disturb the runs.
        let ended = contained(|| self.wait(&mut command, &mut output))?;
        output.shorten()?;
        Ok(ended)
    }

    /// Starts a build, and waits for its end.
    fn wait(&self, command: &mut Command, output: &mut BoundedOutput) -> Result<Ended> {
        let mut child = children::spawn(command).context("starting a shell for --build")?;
        let since = RunningSince::now();
        let ended = loop {
            if let Some(status) = child.try_wait().context("waiting for the build")? {
                return Ok(Ended::With(status));
            }
            if signals::received().is_some() {
                break Ended::Interrupted;
            }
            if since.elapsed().as_secs_f64() > self.timeout_s {
                break Ended::TimedOut;
            }
            if let Err(why) = output.free_middle() {
                break Ended::TooLong(why);
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        // SAFETY: a call without memory, about the group of a leader that has not been waited for.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        let _ = child.wait();
        Ok(ended)
    }

    /// An error if the disk is full: then no commit is to blame.
    fn check_room(&self) -> Result<()> {
        // SAFETY: plain data, for a call that fills it.
        let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
        let file = File::open(&self.folder)?;
        // SAFETY: a live descriptor and a live struct.
        let failed = unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut found) } != 0;
        let room = found.f_bavail.saturating_mul(found.f_frsize);
        ensure!(
            failed || room >= ROOM_LEAST,
            "the file system of {} has {} MB left: make room, then go on with --resume",
            self.folder.display(),
            room >> 20
        );
        Ok(())
    }

    /// Removes what only further builds need.
    pub fn close(&self) -> Result<()> {
        self.kernels.as_ref().map_or(Ok(()), KernelWorkshop::close)
    }

    /// Removes all builds, but for kernels, which are kept for all uses.
    pub fn remove_all(&self) -> Result<()> {
        removal::remove(&self.folder)
    }
}

/// The file beside a build's folder that says that it is not whole.
fn unfinished(folder: &Path) -> PathBuf {
    folder.with_extension("unfinished")
}

/// The file beside a build's folder that says what it is.
fn note(folder: &Path) -> PathBuf {
    folder.with_extension("built")
}

/// How a shell ended.
enum Ended {
    With(ExitStatus),
    TimedOut,
    Interrupted,
    /// It printed more than can be kept on a file system that frees no parts of files.
    TooLong(io::Error),
}

/// The name of a commit's folder, of a fixed length.
fn name(id: &str) -> String {
    let plain: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let is_id = plain == id && id.len() >= 40;
    if is_id {
        return plain[..NAME_LENGTH].to_string();
    }
    // The name of a step: a part of it for people, and a hash that tells it from others.
    let hash = host::durable::Seal::for_bytes(id.as_bytes()).sha256;
    format!("{:_<4.4}{}", plain, &hash[..NAME_LENGTH - 4])
}

/// The paths of submodules with the commits that a revision wants of them.
fn submodules(repository: &Repository, revision: &Revision) -> Result<Vec<(String, String)>> {
    let mut git = repository.command();
    let tree = repository.ask(git.args(["ls-tree", "-r", "-z", "--full-tree", &revision.tree]))?;
    let entry = |line: &str| {
        let (head, path) = line.split_once('\t')?;
        let id = head.strip_prefix("160000 commit ")?;
        Some((path.to_string(), id.trim().to_string()))
    };
    Ok(tree.split('\0').filter_map(entry).collect())
}

/// A build's log, whose middle is left out.
const LOG_LIMIT: Limit = Limit { bytes: 64 << 20, what: "the log of a build" };

/// An empty log in place of an earlier one, or of whatever else has its name.
fn new_log(log: &Path) -> Result<File> {
    let (folder, name) = HeldFolder::above(log)?;
    folder.remove(name)?;
    folder.create_new(name)?;
    folder.open_to_change(name)?.with_context(|| format!("{} was removed", log.display()))
}

/// The status of a failed build and the line of its output that says most.
fn why_failed(status: ExitStatus, log: &Path) -> String {
    let read = || {
        let (folder, name) = HeldFolder::above(log)?;
        folder.read(name, LOG_LIMIT)
    };
    let text = read().ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(1 << 16)..]).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let telling = lines.iter().find(|line| line.contains("error")).or(lines.last());
    let said = telling.map(|line| format!(": {line:.160}")).unwrap_or_default();
    format!("its build ended with {status}{said} ({})", log.display())
}

/// Writes back what the build wrote, so that no run meets the writeback.
fn flush(folder: &Path) {
    if let Ok(file) = File::open(folder) {
        // SAFETY: a live descriptor. Whether it works does not matter.
        unsafe { libc::syncfs(file.as_raw_fd()) };
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn names_of_folders_are_equally_long() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(name(id), "0123456789ab");
        for step in ["1", "config-10", "a/b ü"] {
            assert_eq!(name(step).len(), 12, "{}", name(step));
        }
        assert_ne!(name("config-1"), name("config-2"));
    }
}
