//! Kernels built from a git repository, which is not changed: a commit, a configuration with
//! what workloads and probes need, and the tools here, to an image that knee can boot. What was
//! built once is kept and found again, by all that it depends on.
//!
//!     Request ─git→ tree ─key→ cache ─┬─────────────────────────────→ Built
//!                                     └ build_tree: files, .config, make ┘

mod build_tree;
mod cache;
mod configuration;
mod git;
mod kill_with_parent;
mod log;
mod make;
mod toolchain;

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use host::durable::Seal;
use serde::Serialize;

pub use crate::kernels::cache::{Build, Cache};
pub use crate::kernels::configuration::Configuration;

use crate::kernels::build_tree::{BuildTree, Task};
use crate::kernels::configuration::TYPES;
use crate::kernels::git::{Repository, Revision};
use crate::kernels::toolchain::Toolchain;
use host::descendants;
use host::stderr::talk;
use setup::journal::Journal;

/// What make is told in each run, so that equal sources give equal images.
const FIXED: [(&str, &str); 5] = [
    ("ARCH", "x86_64"),
    ("KBUILD_BUILD_HOST", "knee"),
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "knee"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// A kernel that is wanted.
#[derive(Clone, Debug)]
pub struct Request {
    /// A git repository, or a folder in its work tree.
    pub repository: PathBuf,
    /// A commit by any name that git knows.
    pub revision: String,
    /// What it shall have.
    pub configuration: Configuration,
}

/// A kernel that is there.
#[derive(Clone, Debug, Serialize)]
pub struct Built {
    /// The revision as it was asked for now.
    pub asked: String,
    /// The commit that this means. The kernel may have been built for another one of the same
    /// files.
    pub asked_commit: String,
    /// Whether it had been built before.
    pub cached: bool,
    /// The image, to be booted.
    pub image_path: PathBuf,
    /// Its folder, with configuration and log.
    pub folder: PathBuf,
    /// What it is.
    #[serde(flatten)]
    pub build: Build,
}

/// A revision that cannot be built.
#[derive(Clone, Debug)]
pub struct Failed {
    what: String,
    reasons: Vec<String>,
    advice: Option<String>,
    log: PathBuf,
}

impl Error for Failed {}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for reason in &self.reasons {
            write!(f, "\n    {reason}")?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n  {advice}")?;
        }
        write!(f, "\n  the log: {}", self.log.display())
    }
}

/// Whether there is a repository.
pub fn check(repository: &Path) -> Result<()> {
    Repository::open(repository).map(drop)
}

/// How kernels are built, whatever their revisions.
#[derive(Clone, Debug)]
pub struct Means {
    /// A compiler: `gcc`, `gcc-11`.
    pub compiler: String,
    /// Compilers at a time.
    pub jobs: usize,
    /// Where sources and what is made of them lie meanwhile, some GB; beside the built kernels
    /// where nothing is said.
    pub scratch: Option<PathBuf>,
}

/// Builds kernels, one after the other. From one to the next only what differs is compiled.
pub struct Builder {
    means: Means,
    toolchain: Toolchain,
    cache: Cache,
    journal: Journal,
    build_tree: Option<BuildTree>,
}

impl Builder {
    /// With the tools that are here; what a killed knee left is removed first.
    pub fn open(means: Means) -> Result<Builder> {
        let toolchain = Toolchain::find(&means.compiler)?;
        descendants::adopt();
        Ok(Builder {
            means,
            toolchain,
            cache: Cache::open()?,
            journal: Journal::open()?,
            build_tree: None,
        })
    }

    /// A kernel: the one that is there, or a new one.
    pub fn build(&mut self, request: &Request) -> Result<Built> {
        let repository = Repository::open(&request.repository)?;
        let revision = repository.resolve(&request.revision)?;
        let configuration = self.possible(&request.configuration);
        let key = cache::key(&revision, &configuration, &self.toolchain);
        let (build, cached) = match self.cache.find(&key) {
            Some(build) => (build, true),
            None => (self.build_anew(&repository, &revision, &configuration, key)?, false),
        };
        if repository.has_uncommitted(&revision) {
            talk(format_args!(
                "{}: what is not committed in {} is not in this kernel",
                revision.name,
                request.repository.display()
            ));
        }
        let folder = self.cache.path(&build.key);
        Ok(Built {
            asked: revision.name,
            asked_commit: revision.commit,
            cached,
            image_path: folder.join(cache::IMAGE),
            folder,
            build,
        })
    }

    /// Whether types were asked for that nothing here can make.
    pub fn lacks_types(&self, configuration: &Configuration) -> Option<&'static str> {
        let lacks = self.toolchain.pahole.is_none() && configuration.has(TYPES);
        lacks.then_some(toolchain::WITHOUT_TYPES)
    }

    fn possible(&self, configuration: &Configuration) -> Configuration {
        match self.lacks_types(configuration) {
            Some(_) => configuration.less(TYPES),
            None => configuration.clone(),
        }
    }

    fn build_anew(
        &mut self,
        repository: &Repository,
        revision: &Revision,
        configuration: &Configuration,
        key: String,
    ) -> Result<Build> {
        ensure!(
            repository.has(revision, "Kconfig"),
            "{} is not Linux: it has no Kconfig",
            revision.name
        );
        let since = Instant::now();
        let log = self.cache.log(&key);
        File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let (toolchain, jobs) = (&self.toolchain, self.means.jobs);
        let task = Task { repository, revision, configuration, toolchain, jobs, log: &log };
        if self.build_tree.is_none() {
            let parent = self.means.scratch.as_deref().unwrap_or(self.cache.folder());
            self.build_tree = Some(BuildTree::open(parent, &mut self.journal)?);
        }
        let build_tree = self.build_tree.as_mut().expect("it was made above");
        let product = build_tree.build(task)?;
        let (date, subject) = repository.date_and_subject(revision)?;
        let build = Build {
            format: cache::FORMAT,
            release: product.release.clone(),
            revision: revision.name.clone(),
            commit: revision.commit.clone(),
            describe: repository.describe(revision),
            date,
            subject,
            tree: revision.tree.clone(),
            compiler: self.toolchain.compiler.clone(),
            linker: self.toolchain.linker.clone(),
            pahole: self.toolchain.pahole.clone().filter(|_| configuration.has(TYPES)),
            fragments: configuration.names(),
            from_whole: configuration.whole.is_some(),
            untaken: product.untaken.clone(),
            config: Seal::for_file(&product.config())?,
            image: Seal::for_file(&product.image())?,
            built: jiff::Timestamp::now(),
            seconds: since.elapsed().as_secs_f64(),
            knee: env!("CARGO_PKG_VERSION").to_string(),
            key,
        };
        // No other knee has a journal of this name.
        let journal = self.journal.path().file_stem().unwrap_or_default().display().to_string();
        let beside = self.journal.directory(self.cache.folder(), &journal)?;
        self.cache.keep(&beside, &product, &build)?;
        Ok(build)
    }

    /// Removes what was needed meanwhile.
    pub fn close(self) -> Result<()> {
        self.journal.close()
    }
}
