//! The tree that kernels are built in: a folder with the sources of one revision, and one with the
//! objects. The next revision is written over the last; files that do not differ keep their times,
//! and make compiles only those that do. A tree stays for the next knee, unless the user names a
//! place for it.
//!
//!     source       the files of a revision
//!     index        git's list of them
//!     index-built  the list of the last revision that was built
//!     objects      what make makes
//!     state.json   what the last builds were (`tree_state.rs`)
//!     unfinished   is there while make works, and after a kill
//!     others       is there while the sources may have files that the index does not list

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use host::terminal::talk;
use setup::journal::Journal;
use setup::ownership::DIRECTORY_PREFIX;

use crate::kernels::commands;
use crate::kernels::configuration::{Configuration, UnmetOption};
use crate::kernels::failure::BuildFailure;
use crate::kernels::git::{Repository, Revision, take_back};
use crate::kernels::leftovers;
use crate::kernels::log;
use crate::kernels::make::{self, Deadline, FIXED_VARIABLES, Progress};
use crate::kernels::product::{IMAGE, Product};
use crate::kernels::toolchain::Toolchain;
use crate::kernels::tree_state::{self, TreeState};

/// With less free space than this, a failure is blamed on a full file system.
const FULL_BYTES: u64 = 4 << 20;

const SET_BACK: &str = "the clock was set back: building without the objects from before";

/// A revision to build, and what to build it with.
#[derive(Clone, Copy)]
pub struct BuildJob<'a> {
    pub repository: &'a Repository,
    pub revision: &'a Revision,
    pub configuration: &'a Configuration,
    pub toolchain: &'a Toolchain,
    /// Number of compilers that run in parallel.
    pub jobs: usize,
    /// A patch that is taken back from the files of the revision.
    pub taken_back: Option<&'a [u8]>,
    /// The end of the time that it may take.
    pub deadline: Option<Deadline>,
    /// The file that all output goes to.
    pub log: &'a Path,
}

/// A time by the clock that files bear, and by one that nobody sets.
#[derive(Clone, Copy)]
struct Moment {
    clock: SystemTime,
    steady: Instant,
}

impl Moment {
    fn now() -> Moment {
        Moment { clock: SystemTime::now(), steady: Instant::now() }
    }

    /// Whether the clock was set back since by more than a second, which is less than any build takes.
    fn was_clock_set_back(self) -> bool {
        self.is_set_back_at(Moment::now())
    }

    fn is_set_back_at(self, now: Moment) -> bool {
        let steady = now.steady.duration_since(self.steady);
        now.clock + Duration::from_secs(1) < self.clock + steady
    }
}

/// Sources and objects of one revision.
pub struct BuildTree {
    folder: PathBuf,
    state: TreeState,
    /// The end of the last build of this process.
    built: Option<Moment>,
}

impl BuildTree {
    /// Creates a build tree in `parent`, which the journal will remove. Its path does not affect the
    /// image: only debugging information contains it, and that is mapped to fixed paths. But using
    /// the same path each time gives a compiler cache more hits.
    pub fn passing(parent: &Path, journal: &mut Journal) -> Result<BuildTree> {
        let folder = (0..)
            .map(|n| format!("kernels-{n}"))
            .find(|name| !parent.join(format!("{DIRECTORY_PREFIX}{name}")).exists());
        let folder = folder.context("there is always a free number")?;
        BuildTree::open(journal.directory(parent, &folder)?)
    }

    /// The build tree in a folder, with what earlier builds left there.
    pub fn open(folder: PathBuf) -> Result<BuildTree> {
        let state = TreeState::read(&folder);
        let build_tree = BuildTree { folder, state, built: None };
        for folder in [build_tree.source(), build_tree.objects()] {
            make_folder(&folder)?;
        }
        Ok(build_tree)
    }

    fn source(&self) -> PathBuf {
        self.folder.join("source")
    }

    fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Builds a revision. Leftovers of an earlier revision may break it, such as generated headers
    /// that this one lacks; so a failed build that may be their fault is repeated without them before it is reported.
    ///
    /// make goes by times: after the clock was set back, it would take new sources for older than the objects. Then
    /// nothing is kept of the objects.
    pub fn build(&mut self, job: BuildJob) -> Result<Product> {
        // A build that was cut off has most steps before it.
        let was_cut_off = self.recover(job)?;
        let is_first = self.is_empty();
        let (state, wants_most) = (&self.state, is_first || was_cut_off);
        let about = state.steps(wants_most).or_else(|| job.configuration.about_steps(wants_most));
        let mut progress = Progress::new(&job.revision.name, job.log, about);
        let begun = Moment::now();
        let mut outcome = self.try_build(job, &mut progress);
        if begun.was_clock_set_back() {
            note(job.log, SET_BACK)?;
            self.empty()?;
            outcome = self.try_build(job, &mut progress);
        }
        self.built = Some(Moment::now());
        if let Err(why) = &outcome
            && !is_first
            && self.may_be_leftovers(job, why)
        {
            note(job.log, "building again, without the objects of other revisions")?;
            self.empty()?;
            outcome = self.try_build(job, &mut progress);
        }
        if outcome.is_ok() {
            if !was_cut_off {
                self.state.finished(is_first, progress.steps());
            }
            fs::copy(self.index(), self.built_index()).context("noting what was built")?;
        }
        let noted = self.note_state(job);
        // On a full disk the build's own error says more.
        let product = outcome?;
        noted.map(|()| product)
    }

    /// Whether a build may have failed because of what other revisions left.
    fn may_be_leftovers(&self, job: BuildJob, why: &anyhow::Error) -> bool {
        let Some(failure) = why.downcast_ref::<BuildFailure>() else { return false };
        let changed = job.repository.changed_since(&self.built_index(), job.revision);
        let are_suspect =
            changed.map_or(true, |changed| leftovers::are_suspect(&changed, &failure.reasons));
        !failure.is_timeout && are_suspect
    }

    fn index(&self) -> PathBuf {
        self.folder.join("index")
    }

    /// git's list of the files that were last built.
    fn built_index(&self) -> PathBuf {
        self.folder.join("index-built")
    }

    /// Removes from the tree what a build that was cut off may have left in parts, and all objects if make would take
    /// new sources for older than them. Whether a build was cut off.
    fn recover(&mut self, job: BuildJob) -> Result<bool> {
        let was_cut_off = self.unfinished().exists();
        if was_cut_off {
            note(job.log, "going on after a build that was cut off")?;
            tree_state::forget_last_minute(&self.objects())?;
        }
        // Of a git that was killed: nobody else works in this tree.
        let _ = fs::remove_file(self.folder.join("index.lock"));
        let is_set_back = match self.built {
            Some(built) => built.was_clock_set_back(),
            None => self.state.is_from_the_future(),
        };
        if is_set_back {
            note(job.log, SET_BACK)?;
            self.empty()?;
        }
        Ok(was_cut_off)
    }

    /// Writes down what the next knee has to know of this tree.
    fn note_state(&mut self, job: BuildJob) -> Result<()> {
        self.state.parts = job.configuration.names();
        self.state.is_from_whole = job.configuration.whole.is_some();
        self.state.compiler = job.toolchain.compiler.clone();
        self.state.write(&self.folder)
    }

    fn unfinished(&self) -> PathBuf {
        self.folder.join("unfinished")
    }

    fn others(&self) -> PathBuf {
        self.folder.join("others")
    }

    /// Whether nothing has been built here.
    fn is_empty(&self) -> bool {
        !self.objects().join(".config").exists()
    }

    /// The configuration that a build would have.
    pub fn configuration(&mut self, job: BuildJob) -> Result<String> {
        self.recover(job)?;
        let mut progress = Progress::new(&job.revision.name, job.log, None);
        self.write_sources(job)?;
        self.configure(job, &mut progress)?;
        self.note_state(job)?;
        let config = self.objects().join(".config");
        fs::read_to_string(&config).with_context(|| format!("reading {}", config.display()))
    }

    fn try_build(&mut self, job: BuildJob, progress: &mut Progress) -> Result<Product> {
        write(&self.unfinished(), "")?;
        let built = self.build_here(job, progress);
        let ended = built.is_ok() || built.as_ref().is_err_and(has_ended_by_itself);
        if ended && !is_full(&self.folder) {
            let _ = fs::remove_file(self.unfinished());
        }
        // git and compilers do not report that the file system is full, or not in their first line.
        built.map_err(|why| {
            if !is_full(&self.folder) {
                return why;
            }
            let parent = self.folder.parent().unwrap_or(&self.folder);
            why.context(format!(
                "{} is full: free some space (knee kernel list shows what knee keeps, knee kernel remove removes \
                 it), or choose another folder with --scratch",
                parent.display()
            ))
        })
    }

    fn build_here(&mut self, job: BuildJob, progress: &mut Progress) -> Result<Product> {
        self.write_sources(job)?;
        let unmet = self.configure(job, progress)?;
        self.make(job, &[IMAGE], &[], progress)?;
        let release = self.release(job, progress)?;
        // make names the sources by their real path.
        let source = self.source().canonicalize().context("looking for the sources")?;
        let reads = commands::files_read(&self.objects(), &source)?;
        Ok(Product { release, unmet, reads, objects: self.objects() })
    }

    fn write_sources(&self, job: BuildJob) -> Result<()> {
        let index = self.index();
        job.repository.write(job.revision, &self.source(), &index)?;
        if self.others().exists() {
            job.repository.remove_others(&self.source(), &index)?;
            let _ = fs::remove_file(self.others());
        }
        if let Some(patch) = job.taken_back {
            write(&self.others(), "")?;
            take_back(&self.source(), patch).map_err(|why| self.not_taken_back(job, &why))?;
        }
        Ok(())
    }

    fn not_taken_back(&self, job: BuildJob, why: &anyhow::Error) -> anyhow::Error {
        BuildFailure {
            what: format!("{}: the change cannot be taken back there: {why:#}", job.revision.name),
            reasons: Vec::new(),
            advice: None,
            log: job.log.to_path_buf(),
            is_timeout: false,
        }
        .into()
    }

    /// Writes `.config` from the requested options, and reports those that were not met.
    fn configure(&self, job: BuildJob, progress: &mut Progress) -> Result<Vec<UnmetOption>> {
        let (config, requested) = (self.objects().join(".config"), self.folder.join("requested"));
        let options = job.configuration.asked();
        if let Some(whole) = &job.configuration.whole {
            // The last line about an option counts.
            write(&config, &format!("{whole}\n{options}"))?;
        } else {
            write(&requested, &options)?;
            let preset = ("KCONFIG_ALLCONFIG", requested.as_os_str());
            self.make(job, &["allnoconfig"], &[preset], progress)?;
        }
        self.make(job, &["olddefconfig"], &[], progress)?;
        let actual = fs::read_to_string(&config)
            .with_context(|| format!("reading the configuration of {}", job.revision.name))?;
        let unmet = job.configuration.unmet(&actual);
        let required = unmet.iter().filter(|option| option.is_required());
        let required: Vec<String> = required.map(UnmetOption::to_string).collect();
        let name = &job.revision.name;
        ensure!(required.is_empty(), "{name} would not boot: {}", required.join("; "));
        report_unmet(job, &unmet);
        Ok(unmet)
    }

    fn release(&self, job: BuildJob, progress: &mut Progress) -> Result<String> {
        let start = fs::metadata(job.log).map_or(0, |metadata| metadata.len());
        self.make(job, &["-s", "kernelrelease"], &[], progress)?;
        let log = fs::read(job.log).context("reading the log")?;
        let output = String::from_utf8_lossy(&log[start as usize..]).into_owned();
        let line = output.lines().rfind(|line| !line.starts_with('$') && !line.trim().is_empty());
        Ok(line.context("make kernelrelease printed nothing")?.trim().to_string())
    }

    fn make(
        &self,
        job: BuildJob,
        targets: &[&str],
        variables: &[(&str, &OsStr)],
        progress: &mut Progress,
    ) -> Result<()> {
        let mut arguments: Vec<OsString> = vec!["make".into(), "-C".into(), self.source().into()];
        arguments.push(assignment("O", self.objects().as_os_str()));
        arguments.extend(variables.iter().map(|(name, value)| assignment(name, value)));
        arguments.extend(self.settings(job).into_iter().map(OsString::from));
        arguments.push(format!("-j{}", job.jobs).into());
        arguments.extend(targets.iter().map(OsString::from));
        let line: Vec<String> = arguments.iter().map(|word| word.display().to_string()).collect();
        note(job.log, &shlex::try_join(line.iter().map(String::as_str))?)?;
        match make::run(&arguments, job.log, job.deadline, progress)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failure(job, targets, status)),
            None => Err(timed_out(job)),
        }
    }

    /// The settings of all runs of make on a revision. None depends on the folder, the user or the
    /// time, so that equal sources give equal images.
    fn settings(&self, job: BuildJob) -> Vec<String> {
        let folders = [(self.source(), "/source"), (self.objects(), "/objects")];
        let map =
            |(from, to): (PathBuf, &str)| format!("-fdebug-prefix-map={}={to}", from.display());
        let maps = folders.map(map).join(" ");
        let mut settings = FIXED_VARIABLES.map(|(name, value)| format!("{name}={value}")).to_vec();
        settings.extend([
            format!("CC={}", job.toolchain.command),
            format!("HOSTCC={}", job.toolchain.command),
            format!("LOCALVERSION=-g{}", job.revision.short()),
            format!("KCFLAGS={maps}"),
            format!("KAFLAGS={maps}"),
        ]);
        settings
    }

    fn failure(&self, job: BuildJob, targets: &[&str], status: ExitStatus) -> anyhow::Error {
        let log = fs::read(job.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        // The output of the last run of make.
        let output = log.rfind("\n$ ").map_or(&log[..], |start| &log[start..]);
        // As the user knows the file.
        let source = format!("{}/", self.source().display());
        let reasons = log::reasons(&output.replace(&source, ""));
        let mut advice = log::advice(&reasons).map(str::to_string);
        if advice.is_none() && reasons.iter().any(|line| line.contains("error:")) {
            advice = self.compiler_may_be_too_new(job);
        }
        let how = match status.code() {
            Some(code) => format!("ended with status {code}"),
            None => "was killed".to_string(),
        };
        BuildFailure {
            what: format!("{} does not build: make {} {how}", job.revision.name, targets.join(" ")),
            reasons,
            advice,
            log: job.log.to_path_buf(),
            is_timeout: false,
        }
        .into()
    }

    fn compiler_may_be_too_new(&self, job: BuildJob) -> Option<String> {
        let (major, year) = job.toolchain.year()?;
        let (date, _) = job.repository.date_and_subject(job.revision).ok()?;
        let committed: u32 = date.split('-').next()?.parse().ok()?;
        (committed < year).then(|| {
            format!(
                "gcc {major} of {year} may be too new for a commit of {committed}: try an older \
                 compiler (--compiler gcc-N)"
            )
        })
    }

    /// Removes all objects.
    fn empty(&self) -> Result<()> {
        setup::removal::remove(&self.objects())?;
        make_folder(&self.objects())
    }
}

/// Whether no process of a failed build was killed. Then no object is there in part.
fn has_ended_by_itself(why: &anyhow::Error) -> bool {
    why.downcast_ref::<BuildFailure>().is_some_and(|failure| !failure.is_timeout)
}

fn timed_out(job: BuildJob) -> anyhow::Error {
    let seconds = job.deadline.map_or(0.0, |deadline| deadline.timeout.as_secs_f64());
    BuildFailure {
        what: format!(
            "the build of {} did not end within {seconds} s (--build-timeout)",
            job.revision.name
        ),
        reasons: Vec::new(),
        advice: None,
        log: job.log.to_path_buf(),
        is_timeout: true,
    }
    .into()
}

/// Whether the file system of a folder is full.
fn is_full(folder: &Path) -> bool {
    let space = rustix::fs::statvfs(folder);
    space.is_ok_and(|space| space.f_bavail * space.f_frsize < FULL_BYTES)
}

fn assignment(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}

fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().mode(0o700).recursive(true).create(path);
    made.with_context(|| format!("creating {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Appends a command to the log, as a shell would show it.
fn note(log: &Path, line: &str) -> Result<()> {
    let written = File::options()
        .append(true)
        .open(log)
        .and_then(|mut file| file.write_all(format!("\n$ {line}\n").as_bytes()));
    written.with_context(|| format!("writing {}", log.display()))
}

/// Reports unmet options; in a line of their own those that the revision does not know at all, as
/// other revisions may know them.
fn report_unmet(job: BuildJob, unmet: &[UnmetOption]) {
    let BuildJob { repository, revision, .. } = job;
    let options: Vec<String> = unmet.iter().map(|unmet| unmet.option.clone()).collect();
    if options.is_empty() {
        return;
    }
    let unknown = repository.unknown_options(revision, &options);
    if !unknown.is_empty() {
        talk(format_args!("{} has no {}", revision.name, unknown.join(", no ")));
    }
    for option in unmet.iter().filter(|unmet| !unknown.contains(&unmet.option)) {
        talk(format_args!("{}: {option}", revision.name));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Moment;

    #[test]
    fn a_clock_that_is_set_back_is_noticed_and_one_that_is_set_forward_makes_no_difference() {
        let begun = Moment::now();
        let check = |forward_s: u64, back_s: u64, expected| {
            let clock = begun.clock + Duration::from_secs(100 + forward_s);
            let clock = clock - Duration::from_secs(back_s);
            let steady = begun.steady + Duration::from_secs(100);
            assert_eq!(begun.is_set_back_at(Moment { clock, steady }), expected);
        };
        check(0, 0, false);
        check(3600, 0, false);
        check(0, 10, true);
        check(0, 3600, true);
    }
}
