//! Where kernels are built: a folder of ours with the files of one revision, and one with what
//! was made of them. The next revision is written over the last, files that do not differ keep
//! their times, and make compiles only what does.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result, ensure};
use host::stderr::talk;
use setup::journal::{Journal, PREFIX};

use crate::kernels::configuration::{Configuration, Untaken};
use crate::kernels::git::{Repository, Revision};
use crate::kernels::make::{self, Progress};
use crate::kernels::toolchain::Toolchain;
use crate::kernels::{Failed, log};

/// Where less is free, the next file did not fit.
const FULL_BYTES: u64 = 4 << 20;

/// What one revision is built with.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    pub repository: &'a Repository,
    pub revision: &'a Revision,
    pub configuration: &'a Configuration,
    pub toolchain: &'a Toolchain,
    /// Compilers at a time.
    pub jobs: usize,
    /// What is said goes here.
    pub log: &'a Path,
}

/// What a build leaves in the build_tree.
pub struct Product {
    /// As `uname -r` says it.
    pub release: String,
    /// Options that did not become what was asked.
    pub untaken: Vec<Untaken>,
    /// The folder where make left all.
    pub objects: PathBuf,
}

impl Product {
    /// What boots.
    pub fn image(&self) -> PathBuf {
        self.objects.join("arch/x86/boot").join(super::cache::IMAGE)
    }

    /// As the kernel took it.
    pub fn config(&self) -> PathBuf {
        self.objects.join(".config")
    }
}

/// Two folders, and whether something has been built there.
pub struct BuildTree {
    folder: PathBuf,
    used: bool,
}

impl BuildTree {
    /// A build_tree in `parent`, which the journal will remove. Where it lies gets into what is
    /// built in no other way than through the debugger's paths, which are shortened; but the
    /// same place each time is what a cache of compilations likes.
    pub fn open(parent: &Path, journal: &mut Journal) -> Result<BuildTree> {
        let folder = (0..)
            .map(|n| format!("kernels-{n}"))
            .find(|name| !parent.join(format!("{PREFIX}{name}")).exists());
        let folder = folder.context("there is always a free number")?;
        let folder = journal.directory(parent, &folder)?;
        let build_tree = BuildTree { folder, used: false };
        for each in [build_tree.source(), build_tree.objects()] {
            make_folder(&each)?;
        }
        Ok(build_tree)
    }

    fn source(&self) -> PathBuf {
        self.folder.join("source")
    }

    fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Builds a revision. What an earlier one left may be in the way, headers that were made and
    /// are no more; so one that fails is tried again without it before it is said to fail.
    pub fn build(&mut self, task: Task) -> Result<Product> {
        let mut progress = Progress::new(&task.revision.name, task.log);
        let first = self.try_build(task, &mut progress);
        let used = std::mem::replace(&mut self.used, true);
        match first {
            Err(why) if used && why.is::<Failed>() => {
                note(task.log, "again, without what other revisions left")?;
                self.empty()?;
                self.try_build(task, &mut progress)
            }
            first => first,
        }
    }

    fn try_build(&self, task: Task, progress: &mut Progress) -> Result<Product> {
        let built = self.build_here(task, progress);
        // git and compilers do not say why a file cannot be written, or not in their first words.
        built.map_err(|why| match is_full(&self.folder) {
            true => why.context(format!(
                "{} is full: free some space, or name another place with --scratch",
                self.folder.parent().unwrap_or(&self.folder).display()
            )),
            false => why,
        })
    }

    fn build_here(&self, task: Task, progress: &mut Progress) -> Result<Product> {
        let index = self.folder.join("index");
        task.repository.write(task.revision, &self.source(), &index)?;
        let untaken = self.configure(task, progress)?;
        self.make(task, &["bzImage"], &[], progress)?;
        let release = self.release(task, progress)?;
        Ok(Product { release, untaken, objects: self.objects() })
    }

    /// Makes `.config` of what is asked, and says what did not become so.
    fn configure(&self, task: Task, progress: &mut Progress) -> Result<Vec<Untaken>> {
        let (config, asked) = (self.objects().join(".config"), self.folder.join("asked"));
        let options = task.configuration.asked();
        if let Some(whole) = &task.configuration.whole {
            // The later word on an option counts.
            write(&config, &format!("{whole}\n{options}"))?;
        } else {
            write(&asked, &options)?;
            let all = ("KCONFIG_ALLCONFIG", asked.as_os_str());
            self.make(task, &["allnoconfig"], &[all], progress)?;
        }
        self.make(task, &["olddefconfig"], &[], progress)?;
        let took = fs::read_to_string(&config)
            .with_context(|| format!("reading the configuration of {}", task.revision.name))?;
        let untaken = task.configuration.untaken(&took);
        let needed = untaken.iter().filter(|one| one.is_needed());
        let needed: Vec<String> = needed.map(Untaken::to_string).collect();
        ensure!(needed.is_empty(), "{} would not boot: {}", task.revision.name, needed.join("; "));
        tell_untaken(task, &untaken);
        Ok(untaken)
    }

    fn release(&self, task: Task, progress: &mut Progress) -> Result<String> {
        let before = fs::metadata(task.log).map_or(0, |found| found.len());
        self.make(task, &["-s", "kernelrelease"], &[], progress)?;
        let said = fs::read(task.log).context("reading the log")?;
        let said = String::from_utf8_lossy(&said[before as usize..]).into_owned();
        let line = said.lines().rfind(|line| !line.starts_with('$') && !line.trim().is_empty());
        Ok(line.context("make kernelrelease says nothing")?.trim().to_string())
    }

    fn make(
        &self,
        task: Task,
        targets: &[&str],
        variables: &[(&str, &OsStr)],
        progress: &mut Progress,
    ) -> Result<()> {
        let mut words: Vec<OsString> = vec!["make".into(), "-C".into(), self.source().into()];
        words.push(assignment("O", self.objects().as_os_str()));
        words.extend(variables.iter().map(|(name, value)| assignment(name, value)));
        words.extend(self.settings(task).into_iter().map(OsString::from));
        words.push(format!("-j{}", task.jobs).into());
        words.extend(targets.iter().map(OsString::from));
        let line: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
        note(task.log, &shlex::try_join(line.iter().map(String::as_str))?)?;
        let status = make::run(&words, task.log, progress)?;
        match status.success() {
            true => Ok(()),
            false => Err(self.failure(task, targets, status)),
        }
    }

    /// What is the same for all runs of make on a revision. Nothing of it is of this place, this
    /// user or this time, so that equal sources give equal images.
    fn settings(&self, task: Task) -> Vec<String> {
        let folders = [(self.source(), "/source"), (self.objects(), "/objects")];
        let map =
            |(from, to): (PathBuf, &str)| format!("-fdebug-prefix-map={}={to}", from.display());
        let maps = folders.map(map).join(" ");
        let mut settings = super::FIXED.map(|(name, value)| format!("{name}={value}")).to_vec();
        settings.extend([
            format!("CC={}", task.toolchain.command),
            format!("HOSTCC={}", task.toolchain.command),
            format!("LOCALVERSION=-g{}", task.revision.short()),
            format!("KCFLAGS={maps}"),
            format!("KAFLAGS={maps}"),
        ]);
        settings
    }

    fn failure(&self, task: Task, targets: &[&str], status: ExitStatus) -> anyhow::Error {
        let said = fs::read(task.log).unwrap_or_default();
        // What was said by this run of make, the last.
        let said = String::from_utf8_lossy(&said);
        let last = said.rfind("\n$ ").map_or(&said[..], |at| &said[at..]);
        let reasons = log::reasons(last);
        let mut advice = log::advice(&reasons).map(str::to_string);
        if advice.is_none() && reasons.iter().any(|line| line.contains("error:")) {
            advice = self.compiler_may_be_too_new(task);
        }
        let how = match status.code() {
            Some(code) => format!("ended with {code}"),
            None => "was killed".to_string(),
        };
        Failed {
            what: format!(
                "{} does not build: make {} {how}",
                task.revision.name,
                targets.join(" ")
            ),
            reasons,
            advice,
            log: task.log.to_path_buf(),
        }
        .into()
    }

    fn compiler_may_be_too_new(&self, task: Task) -> Option<String> {
        let (major, year) = task.toolchain.year()?;
        let (date, _) = task.repository.date_and_subject(task.revision).ok()?;
        let committed: u32 = date.split('-').next()?.parse().ok()?;
        (committed < year).then(|| {
            format!(
                "gcc {major} is of {year}, the commit of {committed}, which it may be too new for: \
                 try an older one (--compiler gcc-N)"
            )
        })
    }

    /// Forgets all that was built.
    fn empty(&self) -> Result<()> {
        setup::removal::remove(&self.objects())?;
        make_folder(&self.objects())
    }
}

/// Whether the file system of a folder has no more room than for a file.
fn is_full(folder: &Path) -> bool {
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: statvfs is plain data, for which zero is valid; both live.
    let free_bytes = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        match libc::statvfs(name.as_ptr(), &mut found) {
            0 => Some(found.f_bavail * found.f_frsize),
            _ => None,
        }
    };
    free_bytes.is_some_and(|bytes| bytes < FULL_BYTES)
}

fn assignment(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}

fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.with_context(|| format!("creating {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Adds what is done to a log, as a shell would show it.
fn note(log: &Path, line: &str) -> Result<()> {
    let written = File::options()
        .append(true)
        .open(log)
        .and_then(|mut file| file.write_all(format!("\n$ {line}\n").as_bytes()));
    written.with_context(|| format!("writing {}", log.display()))
}

/// Says which options did not become what was asked, apart those that a revision does not have
/// at all: others may have them.
fn tell_untaken(task: Task, untaken: &[Untaken]) {
    let Task { repository, revision, .. } = task;
    let options: Vec<String> = untaken.iter().map(|one| one.option.clone()).collect();
    if options.is_empty() {
        return;
    }
    let unknown = repository.unknown_options(revision, &options);
    if !unknown.is_empty() {
        talk(format_args!("{} has no {}", revision.name, unknown.join(", no ")));
    }
    for one in untaken.iter().filter(|one| !unknown.contains(&one.option)) {
        talk(format_args!("{}: {one}", revision.name));
    }
}
