//! Kernels built from a git repository, which is not changed: a commit, a configuration with the
//! options that workloads and probes need, and the tools of this host give an image that knee can
//! boot. A kernel that has been built is kept, and found again by everything that it depends on.
//!
//!     KernelRequest ─git→ tree ─key→ cache ─┬─────────────────────────────→ BuiltKernel
//!                                           └ build_tree: files, .config, make ┘

mod build_tree;
mod cache;
mod commands;
mod configuration;
mod failure;
mod git;
mod log;
mod make;
mod product;
mod toolchain;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host::descendants;
use host::durable::Seal;
use host::job_control::RunningSince;
use host::terminal::talk;
use schemars::JsonSchema;
use serde::Serialize;
use setup::journal::Journal;

pub use self::cache::{BuildInfo, Cache, files_read};
pub use self::configuration::Configuration;
pub use self::failure::BuildFailure;
pub use self::git::{Repository, Revision, take_back};

use self::build_tree::{BuildJob, BuildTree};
use self::configuration::TYPES;
use self::make::Deadline;
use self::toolchain::Toolchain;

/// A kernel to build or to find.
#[derive(Clone, Debug)]
pub struct KernelRequest {
    /// A git repository, or a folder in its work tree.
    pub repository: PathBuf,
    /// A commit by any name that git resolves.
    pub revision: String,
    /// A change to take back from the files of the revision.
    pub without: Option<Change>,
    pub configuration: Configuration,
}

/// What a commit changed.
#[derive(Clone, Debug)]
pub struct Change {
    pub parent: String,
    pub commit: String,
}

/// A kernel that is ready to boot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BuiltKernel {
    /// The revision as this request names it.
    pub asked: String,
    /// The commit of that revision. The kernel may have been built for another commit with the
    /// same files.
    pub asked_commit: String,
    /// Whether it was built by an earlier request.
    pub cached: bool,
    /// The image to boot.
    pub image_path: PathBuf,
    /// The folder of the image, configuration and log.
    pub folder: PathBuf,
    /// What was built, from what.
    #[serde(flatten)]
    pub build: BuildInfo,
}

/// Refuses a path that lies in no git repository.
pub fn check(repository: &Path) -> Result<()> {
    Repository::open(repository).map(drop)
}

/// Settings for the builds of all revisions.
#[derive(Clone, Debug)]
pub struct BuildSettings {
    /// A compiler: `gcc`, `gcc-11`.
    pub compiler: String,
    /// Number of compilers that run in parallel.
    pub jobs: usize,
    /// The folder for sources and objects during the build, some GB; the folder of the built kernels
    /// by default.
    pub scratch: Option<PathBuf>,
    /// The longest that the build of a revision may take.
    pub timeout: Option<Duration>,
}

/// The sources of a kernel.
struct Sources<'a> {
    repository: &'a Repository,
    revision: &'a Revision,
    /// A patch that is taken back, and its commit.
    patch: Option<&'a [u8]>,
    without: Option<String>,
}

/// Builds kernels, one after the other, and compiles only what differs from one to the next.
pub struct Builder {
    means: BuildSettings,
    toolchain: Toolchain,
    cache: Cache,
    journal: Journal,
    build_tree: Option<BuildTree>,
}

impl Builder {
    /// Finds the tools of this host, and removes what killed knees left.
    pub fn open(means: BuildSettings) -> Result<Builder> {
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

    /// Returns the requested kernel from the cache, or builds it.
    pub fn build(&mut self, request: &KernelRequest) -> Result<BuiltKernel> {
        let repository = Repository::open(&request.repository)?;
        let revision = repository.resolve(&request.revision)?;
        let configuration = self.buildable(&request.configuration);
        let patch = match &request.without {
            Some(change) => Some(repository.patch(&change.parent, &change.commit)?),
            None => None,
        };
        let key = cache::key(&revision, patch.as_deref(), &configuration, &self.toolchain);
        let (build, cached) = match self.cache.find(&key) {
            Some(build) => (build, true),
            None => {
                let sources = Sources {
                    repository: &repository,
                    revision: &revision,
                    patch: patch.as_deref(),
                    without: request.without.as_ref().map(|change| change.commit.clone()),
                };
                (self.build_anew(&sources, &configuration, key)?, false)
            }
        };
        if repository.has_uncommitted(&revision) {
            talk(format_args!(
                "{}: this kernel lacks the uncommitted changes in {}",
                revision.name,
                request.repository.display()
            ));
        }
        let folder = self.cache.path(&build.key);
        Ok(BuiltKernel {
            asked: revision.name,
            asked_commit: revision.commit,
            cached,
            image_path: folder.join(product::IMAGE),
            folder,
            build,
        })
    }

    /// A warning if the configuration asks for types (BTF) and this host cannot generate them.
    pub fn types_warning(&self, configuration: &Configuration) -> Option<&'static str> {
        let lacks = self.toolchain.pahole.is_none() && configuration.has(TYPES);
        lacks.then_some(toolchain::WITHOUT_TYPES)
    }

    fn buildable(&self, configuration: &Configuration) -> Configuration {
        match self.types_warning(configuration) {
            Some(_) => configuration.without_fragment(TYPES),
            None => configuration.clone(),
        }
    }

    fn build_anew(
        &mut self,
        sources: &Sources,
        configuration: &Configuration,
        key: String,
    ) -> Result<BuildInfo> {
        let Sources { repository, revision, patch, without } = sources;
        ensure!(
            repository.has(revision, "Kconfig"),
            "{} is not a Linux kernel: it has no Kconfig",
            revision.name
        );
        let log = self.cache.log(&key);
        File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let since = RunningSince::now();
        let job = BuildJob {
            repository,
            revision,
            configuration,
            toolchain: &self.toolchain,
            jobs: self.means.jobs,
            taken_back: *patch,
            deadline: self.means.timeout.map(|timeout| Deadline { since, timeout }),
            log: &log,
        };
        if self.build_tree.is_none() {
            let parent = self.means.scratch.as_deref().unwrap_or(self.cache.folder());
            self.build_tree = Some(BuildTree::open(parent, &mut self.journal)?);
        }
        let build_tree = self.build_tree.as_mut().expect("it was made above");
        let product = build_tree.build(job)?;
        let (date, subject) = repository.date_and_subject(revision)?;
        let build = BuildInfo {
            format: cache::FORMAT,
            release: product.release.clone(),
            revision: match without {
                Some(change) => format!("{} without {change:.12}", revision.name),
                None => revision.name.clone(),
            },
            commit: revision.commit.clone(),
            describe: repository.describe(revision),
            date,
            subject,
            tree: revision.tree.clone(),
            without: without.clone(),
            compiler: self.toolchain.compiler.clone(),
            linker: self.toolchain.linker.clone(),
            pahole: self.toolchain.pahole.clone().filter(|_| configuration.has(TYPES)),
            fragments: configuration.names(),
            from_whole: configuration.whole.is_some(),
            unmet: product.unmet.clone(),
            config: Seal::for_file(&product.config())?,
            image: Seal::for_file(&product.image())?,
            built: jiff::Timestamp::now(),
            seconds: since.elapsed().as_secs_f64(),
            knee: env!("CARGO_PKG_VERSION").to_string(),
            key,
        };
        // Unique, as no other knee has a journal of this name.
        let journal = self.journal.path().file_stem().unwrap_or_default().display().to_string();
        let staging = self.journal.directory(self.cache.folder(), &journal)?;
        self.cache.keep(&staging, &product, &build)?;
        Ok(build)
    }

    /// Removes the build tree.
    pub fn close(self) -> Result<()> {
        self.journal.close()
    }
}
