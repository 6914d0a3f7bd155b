//! Kernels built from a git repository, which is not changed: a commit, a configuration with the
//! options that workloads and probes need, and the tools of this host give an image that knee can
//! boot. A kernel that has been built is kept, and found again by everything that it depends on.
//!
//!     KernelRequest ─git→ tree ─key→ cache ─┬─────────────────────────────→ BuiltKernel
//!                                           └ build_tree: files, .config, make ┘
//!
//! Sources and objects stay, too, a tree for each configuration and compiler (`kept_folder.rs`), so that the next build
//! compiles what differs.

mod build_tree;
mod cache;
mod commands;
mod configuration;
mod failure;
mod git;
mod kept_folder;
mod leftovers;
mod log;
mod made_folder;
mod make;
mod product;
mod toolchain;
mod tree_state;
mod trees;
mod work_tree;

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
pub use self::configuration::{Configuration, differing_options};
pub use self::failure::BuildFailure;
pub use self::git::{Repository, Revision, take_back};
pub use self::made_folder::MadeKernel;
pub use self::trees::KeptTree;
pub use self::work_tree::is_source_tree;

use self::build_tree::{BuildJob, BuildTree};
use self::configuration::TYPES;
use self::kept_folder::KeptFolder;
use self::make::Deadline;
use self::toolchain::Toolchain;

/// A kernel to build or to find.
#[derive(Clone, Debug)]
pub struct KernelRequest {
    /// A git repository, or a folder in its work tree.
    pub repository: PathBuf,
    /// A commit by any name that git resolves. `None`: the files as they lie in the folder, committed or not; then it
    /// need not be in a repository.
    pub revision: Option<String>,
    /// A change to take back from the files of the revision.
    pub without: Option<Change>,
    pub configuration: Configuration,
    /// Whether to say that a revision lacks the changes in the work tree.
    pub tells_of_changes: bool,
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
    /// A folder for sources and objects, some GB, that are removed afterwards; by default they stay beside the built
    /// kernels.
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
    /// Whether only knee has the commit.
    is_uncommitted: bool,
}

/// Builds kernels, one after the other, and compiles only what differs from one to the next.
pub struct Builder {
    means: BuildSettings,
    toolchain: Toolchain,
    cache: Cache,
    journal: Journal,
    /// The tree in the user's scratch folder.
    passing: Option<BuildTree>,
}

impl Builder {
    /// Finds the tools of this host, and removes what killed knees left.
    pub fn open(means: BuildSettings) -> Result<Builder> {
        let toolchain = Toolchain::find(&means.compiler)?;
        descendants::adopt();
        let (cache, journal) = (Cache::open()?, Journal::open()?);
        Ok(Builder { means, toolchain, cache, journal, passing: None })
    }

    /// Returns the requested kernel from the cache, or builds it.
    pub fn build(&mut self, request: &KernelRequest) -> Result<BuiltKernel> {
        let (repository, revision) = self.files(request)?;
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
                    is_uncommitted: request.revision.is_none()
                        && repository
                            .resolve("HEAD")
                            .map_or(true, |head| head.commit != revision.commit),
                };
                self.build_in_turn(&sources, &configuration, &key)?
            }
        };
        if request.tells_of_changes && repository.has_uncommitted(&revision) {
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

    /// The configuration that a kernel would have, from its own Kconfig; builds nothing.
    pub fn configuration(&mut self, request: &KernelRequest) -> Result<String> {
        let (repository, revision) = self.files(request)?;
        check_is_linux(&repository, &revision)?;
        let configuration = self.buildable(&request.configuration);
        let log = self.cache.log(&format!("configuration-{}", revision.short()));
        File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let job = BuildJob {
            repository: &repository,
            revision: &revision,
            configuration: &configuration,
            toolchain: &self.toolchain,
            jobs: self.means.jobs,
            taken_back: None,
            deadline: None,
            log: &log,
        };
        let kept = self.kept_tree(&configuration, &revision.name)?;
        let text = BuildTree::open(kept.path().to_path_buf())?.configuration(job)?;
        let _ = std::fs::remove_file(&log);
        Ok(text)
    }

    /// The files that a request asks for, as a revision of a repository that has them.
    fn files(&self, request: &KernelRequest) -> Result<(Repository, Revision)> {
        let folder = &request.repository;
        match &request.revision {
            Some(revision) => {
                let repository = Repository::open(folder)?;
                let revision = repository.resolve(revision)?;
                Ok((repository, revision))
            }
            None => {
                let name = folder.display().to_string();
                work_tree::snapshot(folder, &name, &self.cache.snapshots())
            }
        }
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

    /// Builds a kernel in the tree of its configuration, which one knee uses at a time. Meanwhile another one may have
    /// built it.
    fn build_in_turn(
        &mut self,
        sources: &Sources,
        configuration: &Configuration,
        key: &str,
    ) -> Result<(BuildInfo, bool)> {
        check_is_linux(sources.repository, sources.revision)?;
        if let Some(scratch) = self.means.scratch.clone() {
            let mut build_tree = match self.passing.take() {
                Some(build_tree) => build_tree,
                None => BuildTree::passing(&scratch, &mut self.journal)?,
            };
            let built = self.build_anew(&mut build_tree, sources, configuration, key);
            self.passing = Some(build_tree);
            return Ok((built?, false));
        }
        let kept = self.kept_tree(configuration, &sources.revision.name)?;
        if kept.has_waited
            && let Some(build) = self.cache.find(key)
        {
            return Ok((build, true));
        }
        let mut build_tree = BuildTree::open(kept.path().to_path_buf())?;
        Ok((self.build_anew(&mut build_tree, sources, configuration, key)?, false))
    }

    /// The folder of the tree of a configuration, for this process alone. Makes room for it.
    fn kept_tree(&self, configuration: &Configuration, name: &str) -> Result<KeptFolder> {
        let waiting =
            format!("{name}: waiting for another knee that builds with this configuration");
        let tree = trees::name(configuration, &self.toolchain);
        let kept = KeptFolder::open(&self.cache.trees(), &tree, &waiting)?;
        trees::prune(&self.cache.trees())?;
        Ok(kept)
    }

    fn build_anew(
        &mut self,
        build_tree: &mut BuildTree,
        sources: &Sources,
        configuration: &Configuration,
        key: &str,
    ) -> Result<BuildInfo> {
        let Sources { repository, revision, patch, without, is_uncommitted } = sources;
        let log = self.cache.log(key);
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
            is_uncommitted: *is_uncommitted,
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
            key: key.to_string(),
        };
        // Unique, as no other knee has a journal of this name.
        let journal = self.journal.path().file_stem().unwrap_or_default().display().to_string();
        let staging = self.journal.directory(self.cache.folder(), &journal)?;
        self.cache.keep(&staging, &product, &build)?;
        self.cache.prune_uncommitted()?;
        Ok(build)
    }

    /// Removes the tree in the user's scratch folder.
    pub fn close(self) -> Result<()> {
        self.journal.close()
    }
}

fn check_is_linux(repository: &Repository, revision: &Revision) -> Result<()> {
    ensure!(
        repository.has(revision, "Kconfig"),
        "{} is not a Linux kernel: it has no Kconfig",
        revision.name
    );
    Ok(())
}
