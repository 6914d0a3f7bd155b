//! The trees that kernels are built in and that stay: one for each configuration and compiler.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use host::durable::Seal;
use host::terminal::talk;
use jiff::Timestamp;

use crate::kernels::configuration::Configuration;
use crate::kernels::kept_folder;
use crate::kernels::toolchain::Toolchain;
use crate::kernels::tree_state::TreeState;

/// The number of trees that stay, some GB each.
const KEPT: usize = 3;

/// Digits of the hash in a folder's name.
const KEY_DIGITS: usize = 16;

/// A tree that kernels are built in.
#[derive(Clone, Debug)]
pub struct KeptTree {
    /// The folder's name.
    pub key: String,
    /// Parts of the configuration.
    pub parts: Vec<String>,
    /// Whether they were added to a whole configuration.
    pub is_from_whole: bool,
    /// The first line of `COMPILER --version`.
    pub compiler: String,
    /// Bytes on disk, at the end of the last build.
    pub bytes: u64,
    /// When a build last began.
    pub used: Timestamp,
}

/// The trees in a folder, the last used first.
pub fn list(folder: &Path) -> Vec<KeptTree> {
    let tree = |(key, used): (String, SystemTime)| {
        let state = TreeState::read(&folder.join(&key));
        let used = Timestamp::try_from(used).unwrap_or(Timestamp::UNIX_EPOCH);
        let TreeState { parts, is_from_whole, compiler, bytes, .. } = state;
        KeptTree { key, parts, is_from_whole, compiler, bytes, used }
    };
    kept_folder::names(folder).into_iter().map(tree).collect()
}

/// The name of the tree for a configuration: what another configuration or compiler made is of no use to it.
pub fn name(configuration: &Configuration, toolchain: &Toolchain) -> String {
    let whole = configuration.whole.as_deref().unwrap_or_default();
    let asked = configuration.asked();
    let parts = [whole, &asked, &toolchain.command, &toolchain.compiler, &toolchain.linker];
    let mut hash = Seal::for_bytes(parts.join("\n\0\n").as_bytes()).sha256;
    hash.truncate(KEY_DIGITS);
    hash
}

/// Removes the trees that were not used for longest, so that a few stay.
pub fn prune(folder: &Path) -> Result<()> {
    kept_folder::prune(folder, KEPT, |name| {
        talk(format_args!(
            "removing the sources and objects {name}, the longest unused: {KEPT} configurations stay"
        ));
    })
}
