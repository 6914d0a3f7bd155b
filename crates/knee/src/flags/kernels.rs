//! What `--kernel` names: a file, a folder in which make was run, a source tree, or a revision. Sources are built first.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use guests::kernels::{
    BuildSettings, Builder, BuiltKernel, Configuration, KernelRequest, MadeKernel, Repository,
    differing_options, is_source_tree,
};
use host::signals;
use host::terminal::{hint, talk};
use setup::foreign::Foreign;

/// How kernels are built from sources.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Building kernels")]
pub struct BuildFlags {
    /// Git repository of Linux, or a directory inside it
    #[arg(long, value_name = "DIR", default_value = ".", hide_short_help = true)]
    pub git: PathBuf,
    /// Configuration fragment (lines CONFIG_NAME=y) that overrides all other options; repeatable
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    config: Vec<PathBuf>,
    /// Start from this complete .config instead of the smallest; modules are not built
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    config_from: Option<PathBuf>,
    /// Add parts to the configuration: typical (what distributions have), file-systems, containers
    #[arg(long, value_name = "PART", value_delimiter = ',', hide_short_help = true)]
    with: Vec<String>,
    /// Leave out parts of the configuration: guest, workloads, probes, types
    #[arg(long, value_name = "PART", value_delimiter = ',', hide_short_help = true)]
    without: Vec<String>,
    /// Compiler to use, such as gcc-11 for an old kernel
    #[arg(long, value_name = "PROGRAM", default_value = "gcc", hide_short_help = true)]
    compiler: String,
    /// Number of parallel compile jobs [default: the number of usable CPUs]
    #[arg(long, value_name = "N", hide_short_help = true)]
    jobs: Option<usize>,
    /// Build in this directory and remove sources and objects afterwards [default: keep them in the cache]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    scratch: Option<PathBuf>,
}

/// What a user may call a kernel.
enum Named {
    File(PathBuf),
    /// A folder in which the user ran make.
    Made(MadeKernel),
    /// Sources as they lie in a folder.
    Tree(PathBuf),
    Revision(String),
}

/// What says that a folder with an image is to be built all the same.
const TREE: &str = "tree:";

/// What says that a revision is meant where a file has its name.
const REVISION: &str = "rev:";

impl BuildFlags {
    /// The configuration that the flags ask for.
    pub fn configuration(&self) -> Result<Configuration> {
        let mut configuration = Configuration::of_parts(&self.with, &self.without)?;
        if let Some(whole) = &self.config_from {
            configuration.start_from(whole)?;
        }
        for file in &self.config {
            configuration.add(file)?;
        }
        Ok(configuration)
    }

    /// What builds with these flags, and finds what was built.
    pub fn builder(&self) -> Result<Builder> {
        let allowed = host::affinity::get().context("reading the CPU affinity")?.len();
        let jobs = self.jobs.unwrap_or(allowed);
        ensure!(jobs > 0, "--jobs 0: must be at least 1");
        let (compiler, scratch) = (self.compiler.clone(), self.scratch.clone());
        Builder::open(BuildSettings { compiler, jobs, scratch, timeout: None })
    }

    /// The request for a revision, or for the files of a source tree, if `what` is one. A tree that others may have
    /// written is asked about, unless `yes`.
    pub fn request(&self, what: &str, yes: bool) -> Result<KernelRequest> {
        let tree = Path::new(what.strip_prefix(TREE).unwrap_or(what));
        if is_source_tree(tree) {
            return self.request_of(&Named::Tree(tree.to_path_buf()), yes, false);
        }
        let revision = what.strip_prefix(REVISION).unwrap_or(what);
        self.request_of(&Named::Revision(revision.to_string()), yes, false)
    }

    fn request_of(&self, named: &Named, yes: bool, is_compared: bool) -> Result<KernelRequest> {
        let (repository, revision) = match named {
            Named::Tree(tree) => (permitted(tree, yes)?, None),
            Named::Revision(revision) => (self.git.clone(), Some(revision.clone())),
            Named::File(path) | Named::Made(MadeKernel { image: path, .. }) => {
                bail!("{} is built already", path.display())
            }
        };
        let configuration = self.configuration()?;
        // Beside other kernels, `.` may be one of them.
        let tells_of_changes = revision.is_some() && !is_compared;
        Ok(KernelRequest { repository, revision, without: None, configuration, tells_of_changes })
    }

    /// The files of these kernels, each with its name, for a plan: refuses what must be built first.
    pub fn images_without_building(
        &self,
        kernels: &[(String, PathBuf)],
    ) -> Result<Vec<(String, PathBuf)>> {
        let image = |(name, what): &(String, PathBuf)| match self.named(name, what)? {
            Named::File(path) | Named::Made(MadeKernel { image: path, .. }) => {
                Ok((name.clone(), path))
            }
            _ => bail!(
                "{} is not a built kernel, and a plan builds nothing: name the image that knee kernel build prints",
                what.display()
            ),
        };
        kernels.iter().map(image).collect()
    }

    /// The files of these kernels, each with its name. Builds those that are sources.
    pub fn images(
        &self,
        kernels: &[(String, PathBuf)],
        yes: bool,
    ) -> Result<Vec<(String, PathBuf)>> {
        let named = kernels.iter().map(|(name, what)| self.named(name, what));
        let named: Vec<Named> = named.collect::<Result<_>>()?;
        let is_built = |named: &Named| matches!(named, Named::File(_) | Named::Made(_));
        let needs_build = !named.iter().all(is_built);
        let mut builder = needs_build.then(|| self.open_builder()).transpose()?;
        let mut images = Vec::new();
        let mut configs = Vec::new();
        for ((name, _), named) in kernels.iter().zip(&named) {
            let (image, config) = match (named, &mut builder) {
                (Named::File(path), _) => (path.clone(), None),
                (Named::Made(made), _) => (made.image.clone(), made.config.clone()),
                (sources, Some(builder)) => {
                    let request = self.request_of(sources, yes, kernels.len() > 1)?;
                    let built = build(name, &request, builder)?;
                    (built.image_path, Some(built.folder.join("config")))
                }
                (_, None) => bail!("{name} needs a build"),
            };
            configs.extend(config.map(|config| (name.clone(), config)));
            images.push((name.clone(), image));
        }
        if let Some(builder) = builder {
            builder.close().context("removing sources and objects of the build")?;
        }
        configs.iter().skip(1).for_each(|config| warn_of_configurations(&configs[0], config));
        Ok(images)
    }

    /// Finds the tools of a build, and says what the kernels will lack.
    fn open_builder(&self) -> Result<Builder> {
        signals::catch();
        let builder = self.builder()?;
        if let Some(warning) = builder.types_warning(&self.configuration()?) {
            talk(warning);
        }
        Ok(builder)
    }

    /// What a kernel's words mean: a file or a folder that is there comes before a revision of that name, and an image
    /// in a folder before its sources.
    fn named(&self, name: &str, what: &Path) -> Result<Named> {
        let text = what.to_string_lossy();
        if let Some(tree) = text.strip_prefix(TREE) {
            let tree = PathBuf::from(tree);
            ensure!(is_source_tree(&tree), "{} is not a source tree of Linux", tree.display());
            return Ok(Named::Tree(tree));
        }
        if let Some(revision) = text.strip_prefix(REVISION) {
            return self.revision(revision);
        }
        if what.is_dir() {
            return in_folder(name, what);
        }
        if what.exists() {
            return Ok(Named::File(what.to_path_buf()));
        }
        // No revision is called so.
        let is_path = ["/", "./", "../", "~"].iter().any(|start| text.starts_with(start));
        ensure!(!is_path, "looking for {text}: there is no such file or folder");
        self.revision(&text)
    }

    fn revision(&self, text: &str) -> Result<Named> {
        let git = self.git.display();
        let repository = Repository::open(&self.git).with_context(|| {
            format!("no file or folder is called {text}, and there are no revisions: name a repository with --git DIR")
        })?;
        let found = repository.resolve(text);
        found.with_context(|| {
            format!("no file, folder or revision (--git {git}) is called {text}")
        })?;
        Ok(Named::Revision(text.to_string()))
    }
}

/// The kernel of a folder: the image that the user's make built there, or its sources.
fn in_folder(name: &str, folder: &Path) -> Result<Named> {
    let (shown, made) = (folder.display(), MadeKernel::find(folder)?);
    let Some(made) = made else {
        ensure!(
            is_source_tree(folder),
            "{shown} has no kernel: name a kernel file, a folder with arch/x86/boot/bzImage, or one with the \
             sources of Linux"
        );
        return Ok(Named::Tree(folder.to_path_buf()));
    };
    let built = jiff::Timestamp::try_from(made.built).context("reading the image's time")?;
    let built = built.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S");
    let image = made.image.display();
    if let Some(first) = made.newer.first() {
        let (n, first) = (made.newer.len(), first.display());
        let files = if n == 1 { first.to_string() } else { format!("{first} and {} more", n - 1) };
        bail!(
            "{image} was built {built}, before {files} changed: run make there, or let knee build the files \
             as they are, with --kernel {name}={TREE}{shown}"
        );
    }
    hint(format_args!("{name}: {image}, built {built}"));
    Ok(Named::Made(made))
}

/// The kernel file that words of `knee kernel boot` name: a file, or the image in a folder.
pub fn kernel_file(what: &Path) -> Result<PathBuf> {
    if !what.is_dir() {
        return Ok(what.to_path_buf());
    }
    match in_folder("kernel", what)? {
        Named::Made(made) => Ok(made.image),
        _ => bail!(
            "{0} has no arch/x86/boot/bzImage: run make there, or build it with knee kernel build {0}",
            what.display()
        ),
    }
}

/// A source tree that may be built: make runs what its files say.
fn permitted(tree: &Path, yes: bool) -> Result<PathBuf> {
    let foreign = Foreign::typed(tree.to_path_buf()).with_code(&tree.join("Makefile"))?;
    let list = |tree: &PathBuf| {
        Ok(format!("would run make in a copy of {}, with all its programs\n", tree.display()))
    };
    Ok(foreign.permitted(yes, list)?.into_inner())
}

fn build(name: &str, request: &KernelRequest, builder: &mut Builder) -> Result<BuiltKernel> {
    let built = builder.build(request).with_context(|| format!("building the kernel {name}"))?;
    let release = &built.build.release;
    if built.cached {
        hint(format_args!("{name}: {release}, from the cache"));
    } else {
        talk(format_args!("{name}: {release}, built in {:.0} s", built.build.seconds));
    }
    Ok(built)
}

/// Says so if two kernels differ in more than their sources.
fn warn_of_configurations(one: &(String, PathBuf), other: &(String, PathBuf)) {
    let [Ok(first), Ok(second)] = [one, other].map(|(_, config)| std::fs::read_to_string(config))
    else {
        return;
    };
    let differing = differing_options(&first, &second);
    if differing > 0 {
        let (one, (other, config)) = (&one.0, other);
        talk(format_args!(
            "{one} and {other} differ in {differing} options of their configurations, and not only in their sources; \
             kernels that knee builds with --config-from {} have the options of {other}",
            config.display()
        ));
    }
}
