//! What a build of a kernel leaves in its build tree.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::kernels::configuration::UnmetOption;

/// The file name of a kernel image.
pub const IMAGE: &str = "bzImage";

/// What a build leaves in the build tree.
pub struct Product {
    /// The release, as `uname -r` prints it.
    pub release: String,
    pub unmet: Vec<UnmetOption>,
    /// The files of the sources that were read, as far as make keeps track of them.
    pub reads: BTreeSet<PathBuf>,
    /// The folder of make's outputs.
    pub objects: PathBuf,
}

impl Product {
    /// The image to boot.
    pub fn image(&self) -> PathBuf {
        self.objects.join("arch/x86/boot").join(IMAGE)
    }

    /// The configuration that the kernel was built with.
    pub fn config(&self) -> PathBuf {
        self.objects.join(".config")
    }
}
