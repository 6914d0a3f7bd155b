//! The kernels that have been built, a folder each. A folder's name is a hash of everything that the
//! image depends on: the files, the requested configuration, the tools, and how knee calls them. A
//! folder appears complete, by one rename, and is never written to again.
//!
//!     KEY/bzImage      the image to boot
//!     KEY/vmlinux      the unpacked kernel, with symbols and without debugging information
//!     KEY/System.map   addresses of symbols
//!     KEY/config       the configuration that the kernel was built with
//!     KEY/reads        the files of the sources that the build read, a line each
//!     KEY/build.log    the output of make
//!     KEY/build.json   `BuildInfo`
//!     logs/KEY.log     the log of a build that failed or is under way
//!     trees/NAME       sources and objects, for the next build (`build_tree.rs`)
//!     sources/NAME     what git knows of a folder of the user's (`work_tree.rs`)

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use host::children;
use host::durable::Seal;
use host::paths::{self, check_private};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setup::removal;

use crate::kernels::configuration::{Configuration, TYPES, UnmetOption};
use crate::kernels::git::Revision;
use crate::kernels::kept_folder;
use crate::kernels::make::FIXED_VARIABLES;
use crate::kernels::product::{IMAGE, Product};
use crate::kernels::toolchain::Toolchain;
use crate::kernels::trees::{self, KeptTree};

/// A new number invalidates all cached kernels, for changes of knee's build that no other part of
/// the key covers.
const RECIPE: u32 = 1;

/// Digits of the hash in a folder's name.
const KEY_DIGITS: usize = 16;

/// The number of kernels that stay of files that are not committed, 30 MB each.
const UNCOMMITTED: usize = 20;

/// The version of build.json.
pub const FORMAT: u32 = 1;

/// A kernel in the cache, as `build.json` describes it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BuildInfo {
    /// Version of this format.
    pub format: u32,
    /// The folder's name.
    pub key: String,
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// The revision as the request named it for which this was built.
    pub revision: String,
    /// The revision's commit. Other commits may have the same tree.
    pub commit: String,
    /// The commit's name relative to the nearest tag (`git describe`).
    pub describe: String,
    /// Day of the commit.
    pub date: String,
    /// First line of its message.
    pub subject: String,
    /// The git tree of the commit's files.
    pub tree: String,
    /// The commit whose change was taken back from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
    /// Whether the files are those of a folder, with changes that no commit has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_uncommitted: bool,
    /// The first line of `COMPILER --version`.
    pub compiler: String,
    /// The first line of `ld --version`.
    pub linker: String,
    /// The version of pahole; `None` where types were not requested.
    pub pahole: Option<String>,
    /// Names of the configuration's fragments.
    pub fragments: Vec<String>,
    /// Whether the fragments were added to a whole configuration, not to the smallest one.
    pub from_whole: bool,
    /// Options that did not get the requested value.
    #[serde(rename = "untaken")]
    pub unmet: Vec<UnmetOption>,
    /// Length and hash of `config`.
    pub config: Seal,
    /// Length and hash of the image.
    pub image: Seal,
    /// The time of the build's end.
    pub built: jiff::Timestamp,
    /// Duration of the build, including writing the sources.
    pub seconds: f64,
    /// The version of knee.
    pub knee: String,
}

/// The folder of built kernels.
pub struct Cache {
    folder: PathBuf,
}

/// The name of a build's folder: a hash of everything that the image depends on.
pub fn key(
    revision: &Revision,
    taken_back: Option<&[u8]>,
    configuration: &Configuration,
    toolchain: &Toolchain,
) -> String {
    let whole = configuration.whole.as_deref().unwrap_or("smallest");
    let types = configuration.has(TYPES).then_some(&toolchain.pahole);
    let settings = FIXED_VARIABLES.map(|(name, value)| format!("{name}={value}"));
    let mut parts = vec![
        format!("recipe {RECIPE}"),
        revision.tree.clone(),
        whole.to_string(),
        configuration.asked(),
        toolchain.compiler.clone(),
        toolchain.linker.clone(),
        format!("{types:?}"),
        settings.join(" "),
    ];
    parts.extend(taken_back.map(|patch| Seal::for_bytes(patch).sha256));
    let mut hash = Seal::for_bytes(parts.join("\n\0\n").as_bytes()).sha256;
    hash.truncate(KEY_DIGITS);
    hash
}

impl Cache {
    /// Opens the user's cache.
    pub fn open() -> Result<Cache> {
        let folder = paths::cache()?.join("kernels");
        let cache = Cache { folder };
        for folder in [cache.folder.clone(), cache.logs()] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)
                .with_context(|| format!("creating {} (set XDG_CACHE_HOME)", folder.display()))?;
        }
        check_private(&cache.folder, &fs::metadata(&cache.folder)?)?;
        Ok(cache)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a kernel, which may not exist yet.
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key)
    }

    /// The log of a build that failed or is under way.
    pub fn log(&self, key: &str) -> PathBuf {
        self.logs().join(format!("{key}.log"))
    }

    /// The folder of the trees that kernels are built in.
    pub fn trees(&self) -> PathBuf {
        self.folder.join("trees")
    }

    /// The folder of what git knows of folders of the user's.
    pub fn snapshots(&self) -> PathBuf {
        self.folder.join("sources")
    }

    fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// A kernel that has been built and whose image is still intact.
    pub fn find(&self, key: &str) -> Option<BuildInfo> {
        let build = self.read(key)?;
        let image = Seal::for_file(&self.path(key).join(IMAGE)).ok()?;
        (build.image == image).then_some(build)
    }

    fn read(&self, key: &str) -> Option<BuildInfo> {
        let text = fs::read_to_string(self.path(key).join("build.json")).ok()?;
        let build: BuildInfo = serde_json::from_str(&text).ok()?;
        (build.format == FORMAT && build.key == key).then_some(build)
    }

    /// All cached kernels, the newest first.
    pub fn list(&self) -> Result<Vec<BuildInfo>> {
        let entries = fs::read_dir(&self.folder)
            .with_context(|| format!("listing {}", self.folder.display()))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut builds: Vec<BuildInfo> = names.filter_map(|name| self.read(&name)).collect();
        builds.sort_by(|a, b| b.built.cmp(&a.built).then_with(|| a.key.cmp(&b.key)));
        Ok(builds)
    }

    /// The trees that kernels are built in, the last used first.
    pub fn kept_trees(&self) -> Vec<KeptTree> {
        trees::list(&self.trees())
    }

    /// Adds a kernel to the cache, by way of a folder in `staging`, which the journal removes. An
    /// existing folder of that key is broken, or was made by a concurrent build.
    pub fn keep(&self, staging: &Path, product: &Product, build: &BuildInfo) -> Result<()> {
        let (key, log) = (&build.key, self.log(&build.key));
        let new = staging.join(key);
        let keep = || -> Result<()> {
            removal::remove(&new)?;
            DirBuilder::new().mode(0o700).create(&new)?;
            fs::copy(product.image(), new.join(IMAGE))?;
            fs::copy(product.config(), new.join("config"))?;
            fs::copy(product.objects.join("System.map"), new.join("System.map"))?;
            fs::write(new.join("reads"), lines(&product.reads))?;
            fs::copy(&log, new.join("build.log"))?;
            strip(&product.objects.join("vmlinux"), &new.join("vmlinux"))?;
            fs::write(new.join("build.json"), serde_json::to_string_pretty(build)? + "\n")?;
            // Complete even after a crash of the host, because a kernel found later is trusted.
            for entry in fs::read_dir(&new)? {
                File::open(entry?.path())?.sync_all()?;
            }
            File::open(&new)?.sync_all()?;
            removal::remove(&self.path(key))?;
            fs::rename(&new, self.path(key))?;
            Ok(fs::remove_file(&log)?)
        };
        keep().with_context(|| format!("keeping the kernel in {}", self.folder.display()))
    }

    /// Removes all kernels of files that are not committed but the newest: each edit makes one.
    pub fn prune_uncommitted(&self) -> Result<()> {
        let mut builds = self.list()?;
        builds.retain(|build| build.is_uncommitted);
        let mut old = builds.iter().skip(UNCOMMITTED);
        old.try_for_each(|build| removal::remove(&self.path(&build.key)))
    }

    /// Removes a kernel, or a tree that kernels are built in, by its key or a unique prefix of it. Returns the key.
    pub fn remove(&self, prefix: &str) -> Result<String> {
        let kernels = self.list()?.into_iter().map(|build| (build.key, build.revision));
        let trees = self.kept_trees().into_iter();
        let trees = trees.map(|tree| (tree.key, "sources and objects".to_string()));
        let mut matches: Vec<(String, String)> = kernels.chain(trees).collect();
        matches.retain(|(key, _)| !prefix.is_empty() && key.starts_with(prefix));
        let [(key, _)] = &matches[..] else {
            ensure!(
                !matches.is_empty(),
                "no cached kernel has the key '{prefix}': see knee kernel list"
            );
            let named = matches.iter().map(|(key, what)| format!("{key} ({what})"));
            let named: Vec<String> = named.collect();
            bail!("several keys begin with '{prefix}': give more digits of {}", named.join(", "));
        };
        if self.path(key).join("build.json").exists() {
            removal::remove(&self.path(key))?;
        } else {
            let is_removed = kept_folder::remove(&self.trees(), key)?;
            ensure!(is_removed, "{key} is in use: another knee builds there");
        }
        Ok(key.clone())
    }
}

/// The files of the sources that the build of the kernel in a folder read. Empty if that is not known.
pub fn files_read(folder: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(folder.join("reads")).unwrap_or_default();
    text.lines().map(PathBuf::from).collect()
}

fn lines(paths: &BTreeSet<PathBuf>) -> String {
    paths.iter().map(|path| format!("{}\n", path.display())).collect()
}

/// Copies a kernel's ELF file without debugging information, which makes up most of it. If strip(1)
/// fails there is no copy, which nothing requires.
fn strip(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("strip");
    command.args(["--strip-debug", "-o"]).arg(to).arg(from);
    if !children::output(&mut command).is_ok_and(|output| output.status.success()) && to.exists() {
        fs::remove_file(to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolchain() -> Toolchain {
        let version = |name: &str| format!("{name} 1.0");
        Toolchain {
            command: "ccache gcc".to_string(),
            compiler: version("gcc"),
            linker: version("ld"),
            pahole: Some(version("pahole")),
        }
    }

    fn revision(name: &str, commit: char, tree: char) -> Revision {
        let hash = |digit: char| String::from(digit).repeat(40);
        Revision { name: name.to_string(), commit: hash(commit), tree: hash(tree) }
    }

    /// Checks whether a change of these inputs changes the key.
    #[track_caller]
    fn check(change: impl Fn(&mut Revision, &mut Configuration, &mut Toolchain), differs: bool) {
        let inputs =
            || (revision("a", '1', '2'), Configuration::without(&[]).unwrap(), toolchain());
        let (before, mut after) = (inputs(), inputs());
        change(&mut after.0, &mut after.1, &mut after.2);
        let keys = [before, after].map(|(revision, with, by)| key(&revision, None, &with, &by));
        let keys = (&keys[0], &keys[1]);
        assert_eq!(keys.0.len(), KEY_DIGITS);
        assert_eq!(keys.0 != keys.1, differs);
    }

    #[test]
    fn the_key_covers_what_the_image_depends_on() {
        check(|revision, _, _| revision.tree = "3".repeat(40), true);
        check(
            |_, configuration, _| *configuration = configuration.without_fragment("probes"),
            true,
        );
        check(|_, configuration, _| configuration.whole = Some("CONFIG_A=y\n".to_string()), true);
        check(|_, _, toolchain| toolchain.compiler.push('1'), true);
        check(|_, _, toolchain| toolchain.linker.push('1'), true);
        check(|_, _, toolchain| toolchain.pahole = None, true);
        let with = Configuration::without(&[]).unwrap();
        let [whole, without] = [None, Some(&b"patch"[..])]
            .map(|patch| key(&revision("a", '1', '2'), patch, &with, &toolchain()));
        assert_ne!(whole, without);
    }

    #[test]
    fn the_key_ignores_what_the_image_does_not_depend_on() {
        check(|changed, _, _| *changed = revision("b", '4', '2'), false);
        check(|_, _, toolchain| toolchain.command = "gcc".to_string(), false);
        check(
            |_, configuration, toolchain| {
                *configuration = configuration.without_fragment("types");
                toolchain.pahole = None;
            },
            true,
        );
    }
}
