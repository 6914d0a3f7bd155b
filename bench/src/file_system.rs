//! Fresh file systems for the runs of a pair: made by the kind's own program with its defaults on a
//! sparse image behind a loop device, or in memory, and mounted where nobody else sees it.
//!
//! Nothing stays behind, even of a killed benchmark, but the image: the mount dies with the mount
//! namespace, and the loop device frees itself when it is unmounted.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{fresh_directory, output};

/// The size of each. The image is sparse.
const BYTES: u64 = 8 << 30;

/// Options of each mount, beside those of its kind.
const OPTIONS: &str = "nodev,nosuid";

/// How often a file system that is still in use is tried again, 10 ms apart.
const TRIES: u32 = 500;

/// A kind that can be made.
pub struct Kind {
    pub name: &'static str,
    /// The program that makes it and its arguments before the image; none in memory.
    program: &'static [&'static str],
    /// Its mount options.
    options: &'static str,
}

/// All kinds. ext4 would write its inode tables in the background, in one run more than in
/// another.
pub const KINDS: &[Kind] = &[
    kind("ext4", &["mke2fs", "-q", "-F", "-t", "ext4"], "loop,noinit_itable"),
    kind("ext3", &["mke2fs", "-q", "-F", "-t", "ext3"], "loop"),
    kind("ext2", &["mke2fs", "-q", "-F", "-t", "ext2"], "loop"),
    kind("xfs", &["mkfs.xfs", "-q"], "loop"),
    kind("btrfs", &["mkfs.btrfs", "-q"], "loop"),
    kind("tmpfs", &[], "size=8g"),
];

const fn kind(name: &'static str, program: &'static [&'static str], options: &'static str) -> Kind {
    Kind { name, program, options }
}

/// One that is mounted; unmounted and removed when dropped.
pub struct FileSystem {
    root: PathBuf,
    /// Where its image and its root lie.
    _home: TempDir,
}

impl FileSystem {
    /// Makes one of this kind, its image in this directory.
    pub fn make(kind: &str, parent: &Path) -> Result<FileSystem> {
        see_alone()?;
        let Some(kind) = KINDS.iter().find(|known| known.name == kind) else {
            bail!("no file system of kind '{kind}' is made here");
        };
        let home = fresh_directory(parent)?;
        let root = home.path().join("root");
        fs::create_dir(&root)?;
        let source = match kind.program {
            [] => "knee-bench".into(),
            [name, arguments @ ..] => {
                let image = home.path().join("image");
                fs::File::create(&image)?.set_len(BYTES)?;
                output(Command::new(name).args(arguments).arg(&image))?;
                image
            }
        };
        let options = format!("{},{OPTIONS}", kind.options);
        let mut mount = Command::new("mount");
        output(mount.args(["-t", kind.name, "-o", &options]).arg(source).arg(&root))?;
        Ok(FileSystem { root, _home: home })
    }

    /// Its root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of the device that it lies on, as sysfs has it.
    pub fn device(&self) -> Result<String> {
        let source =
            probes::directory(&self.root).source.context("what is mounted is not known")?;
        Ok(source.trim_start_matches("/dev/").to_string())
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        let Ok(path) = CString::new(self.root.as_os_str().as_bytes()) else { return };
        for _ in 0..TRIES {
            // SAFETY: a live C string.
            if unsafe { libc::umount2(path.as_ptr(), libc::UMOUNT_NOFOLLOW) } == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let why = io::Error::last_os_error();
        eprintln!("{} stays mounted until this ends: {why}", self.root.display());
    }
}

/// From now on what this process mounts is seen by it and its children alone.
fn see_alone() -> Result<()> {
    use std::sync::OnceLock;
    static DONE: OnceLock<()> = OnceLock::new();
    if DONE.get().is_some() {
        return Ok(());
    }
    // SAFETY: plain calls; a null is allowed where mount(2) ignores its argument.
    let made = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(null(), c"/".as_ptr(), null(), libc::MS_REC | libc::MS_SLAVE, null())
                == 0
    };
    if !made {
        return Err(io::Error::last_os_error()).context("a mount namespace of its own (root only)");
    }
    let _ = DONE.set(());
    Ok(())
}
