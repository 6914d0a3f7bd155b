//! The kernels that have been built, a folder each, called by a hash of all that the outcome
//! depends on: the files, what was asked of the configuration, the tools, and how knee calls
//! them. A folder appears whole, by one rename, and is never written to again.
//!
//!     KEY/bzImage      boots
//!     KEY/vmlinux      the same unpacked, with symbols and without debugging information
//!     KEY/System.map   where symbols lie
//!     KEY/config       as the kernel took it
//!     KEY/build.log    all that make said
//!     KEY/build.json   what it is: `Build`
//!     logs/KEY.log     the log of one that has not been built, or not yet

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use host::durable::Seal;
use host::paths::{self, check_private};
use serde::{Deserialize, Serialize};

use crate::kernels::build_tree::Product;
use crate::kernels::configuration::{Configuration, Untaken};
use crate::kernels::git::Revision;
use crate::kernels::toolchain::Toolchain;

/// Another number makes all kernels be built again: for what knee does otherwise and no other
/// part of the key tells.
const RECIPE: u32 = 1;

/// So many digits of the hash are the name.
const DIGITS: usize = 16;

/// The version of build.json.
pub const FORMAT: u32 = 1;

/// The name of a kernel's image.
pub const IMAGE: &str = "bzImage";

/// What a kernel in the cache is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Build {
    /// The version of this.
    pub format: u32,
    /// The folder's name.
    pub key: String,
    /// What `uname -r` says in it.
    pub release: String,
    /// The revision as it was named when this was built.
    pub revision: String,
    /// Its commit. Others may have the same tree.
    pub commit: String,
    /// The commit from the nearest tag.
    pub describe: String,
    /// Day of the commit.
    pub date: String,
    /// First line of its message.
    pub subject: String,
    /// Its files.
    pub tree: String,
    /// The compiler's name for itself.
    pub compiler: String,
    /// The linker's.
    pub linker: String,
    /// The version of pahole; nothing where types were not asked for.
    pub pahole: Option<String>,
    /// Parts of the configuration.
    pub fragments: Vec<String>,
    /// Whether they were added to a whole configuration, and not to the smallest.
    pub from_whole: bool,
    /// Options that did not become what was asked.
    pub untaken: Vec<Untaken>,
    /// Length and hash of `config`.
    pub config: Seal,
    /// Length and hash of the image.
    pub image: Seal,
    /// When it was done.
    pub built: jiff::Timestamp,
    /// How long it took, with writing the sources.
    pub seconds: f64,
    /// The version of knee.
    pub knee: String,
}

/// The folder of built kernels.
pub struct Cache {
    folder: PathBuf,
}

/// What makes one build another one.
pub fn key(revision: &Revision, configuration: &Configuration, toolchain: &Toolchain) -> String {
    let whole = configuration.whole.as_deref().unwrap_or("smallest");
    let types = configuration.has(super::TYPES).then_some(&toolchain.pahole);
    let settings = super::FIXED.map(|(name, value)| format!("{name}={value}"));
    let parts = [
        format!("recipe {RECIPE}"),
        revision.tree.clone(),
        whole.to_string(),
        configuration.asked(),
        toolchain.compiler.clone(),
        toolchain.linker.clone(),
        format!("{types:?}"),
        settings.join(" "),
    ];
    let mut hash = Seal::for_bytes(parts.join("\n\0\n").as_bytes()).sha256;
    hash.truncate(DIGITS);
    hash
}

impl Cache {
    /// The user's.
    pub fn open() -> Result<Cache> {
        let folder = paths::cache()?.join("kernels");
        let cache = Cache { folder };
        for each in [cache.folder.clone(), cache.logs()] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&each)
                .with_context(|| format!("creating {} (set XDG_CACHE_HOME)", each.display()))?;
        }
        check_private(&cache.folder, &fs::metadata(&cache.folder)?)?;
        Ok(cache)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a kernel is, or will be.
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key)
    }

    /// The log of a build that is not over.
    pub fn log(&self, key: &str) -> PathBuf {
        self.logs().join(format!("{key}.log"))
    }

    fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// A kernel that has been built and is still what was built.
    pub fn find(&self, key: &str) -> Option<Build> {
        let build = self.read(key)?;
        let image = Seal::for_file(&self.path(key).join(IMAGE)).ok()?;
        (build.image == image).then_some(build)
    }

    fn read(&self, key: &str) -> Option<Build> {
        let text = fs::read_to_string(self.path(key).join("build.json")).ok()?;
        let build: Build = serde_json::from_str(&text).ok()?;
        (build.format == FORMAT && build.key == key).then_some(build)
    }

    /// All kernels here, the newest first.
    pub fn list(&self) -> Result<Vec<Build>> {
        let entries = fs::read_dir(&self.folder)
            .with_context(|| format!("listing {}", self.folder.display()))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut builds: Vec<Build> = names.filter_map(|name| self.read(&name)).collect();
        builds.sort_by(|a, b| b.built.cmp(&a.built).then_with(|| a.key.cmp(&b.key)));
        Ok(builds)
    }

    /// Keeps what was built, by way of a folder of ours beside it, which a sweep would find.
    /// One that was there is broken, or was made meanwhile.
    pub fn keep(&self, beside: &Path, product: &Product, build: &Build) -> Result<()> {
        let (key, log) = (&build.key, self.log(&build.key));
        let new = beside.join(key);
        let kept = || -> Result<()> {
            remove_if_there(&new)?;
            DirBuilder::new().mode(0o700).create(&new)?;
            fs::copy(product.image(), new.join(IMAGE))?;
            fs::copy(product.config(), new.join("config"))?;
            fs::copy(product.objects.join("System.map"), new.join("System.map"))?;
            fs::copy(&log, new.join("build.log"))?;
            strip(&product.objects.join("vmlinux"), &new.join("vmlinux"))?;
            fs::write(new.join("build.json"), serde_json::to_string_pretty(build)? + "\n")?;
            // Whole after a crash of the host too: what is found there is believed.
            for entry in fs::read_dir(&new)? {
                File::open(entry?.path())?.sync_all()?;
            }
            File::open(&new)?.sync_all()?;
            remove_if_there(&self.path(key))?;
            fs::rename(&new, self.path(key))?;
            Ok(fs::remove_file(&log)?)
        };
        kept().with_context(|| format!("keeping the kernel in {}", self.folder.display()))
    }

    /// Removes one by its key, or the start of it that no other has. Returns the key.
    pub fn remove(&self, start: &str) -> Result<String> {
        let keys: Vec<String> = self.list()?.into_iter().map(|build| build.key).collect();
        let mut like = keys.into_iter().filter(|key| !start.is_empty() && key.starts_with(start));
        let Some(key) = like.next() else {
            bail!("no kernel here has the key '{start}': knee kernel list shows all");
        };
        ensure!(like.next().is_none(), "several keys begin with '{start}': give more of it");
        remove_if_there(&self.path(&key))?;
        Ok(key)
    }
}

/// Copies a kernel's ELF file without debugging information, which makes most of it. Where that
/// cannot be done there is none: nothing needs it.
fn strip(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("strip");
    command.args(["--strip-debug", "-o"]).arg(to).arg(from);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) && to.exists() {
        fs::remove_file(to)?;
    }
    Ok(())
}

fn remove_if_there(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != ErrorKind::NotFound => {
            Err(why).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolchain() -> Toolchain {
        let of = |name: &str| format!("{name} 1.0");
        Toolchain {
            command: "ccache gcc".to_string(),
            compiler: of("gcc"),
            linker: of("ld"),
            pahole: Some(of("pahole")),
        }
    }

    fn revision(name: &str, commit: char, tree: char) -> Revision {
        let hash = |digit: char| String::from(digit).repeat(40);
        Revision { name: name.to_string(), commit: hash(commit), tree: hash(tree) }
    }

    /// Whether a change of these makes another kernel.
    #[track_caller]
    fn check(change: impl Fn(&mut Revision, &mut Configuration, &mut Toolchain), differs: bool) {
        let all = || (revision("a", '1', '2'), Configuration::without(&[]).unwrap(), toolchain());
        let (before, mut after) = (all(), all());
        change(&mut after.0, &mut after.1, &mut after.2);
        let keys = (key(&before.0, &before.1, &before.2), key(&after.0, &after.1, &after.2));
        assert_eq!(keys.0.len(), DIGITS);
        assert_eq!(keys.0 != keys.1, differs);
    }

    #[test]
    fn what_the_outcome_depends_on_is_in_the_key() {
        check(|revision, _, _| revision.tree = "3".repeat(40), true);
        check(|_, configuration, _| *configuration = configuration.less("probes"), true);
        check(|_, configuration, _| configuration.whole = Some("CONFIG_A=y\n".to_string()), true);
        check(|_, _, toolchain| toolchain.compiler.push('1'), true);
        check(|_, _, toolchain| toolchain.linker.push('1'), true);
        check(|_, _, toolchain| toolchain.pahole = None, true);
    }

    #[test]
    fn what_it_does_not_depend_on_is_not() {
        check(|it, _, _| *it = revision("b", '4', '2'), false);
        check(|_, _, toolchain| toolchain.command = "gcc".to_string(), false);
        check(
            |_, configuration, toolchain| {
                *configuration = configuration.less("types");
                toolchain.pahole = None;
            },
            true,
        );
    }
}
