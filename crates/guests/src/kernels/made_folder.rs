//! A kernel that the user's own make built, and whether its image is that of the sources as they are now.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::kernels::commands;

/// Where make puts an image, in the folder of its objects; the last is that of a folder of knee's own.
const IMAGES: [&str; 2] = ["arch/x86/boot/bzImage", "bzImage"];

/// Files that are sources, by their extension.
const EXTENSIONS: [&str; 4] = ["c", "h", "S", "lds"];

/// Files that decide what is built, by their names.
const NAMES: [&str; 3] = ["Makefile", "Kbuild", "Kconfig"];

/// A kernel in a folder in which make was run.
#[derive(Clone, Debug)]
pub struct MadeKernel {
    /// The image to boot.
    pub image: PathBuf,
    /// The configuration that it was built with.
    pub config: Option<PathBuf>,
    /// The end of its build.
    pub built: SystemTime,
    /// Sources that were changed later, relative to their root.
    pub newer: Vec<PathBuf>,
}

impl MadeKernel {
    /// The kernel in a folder of sources, or of objects (`make O=`); `None` if there is no image.
    pub fn find(folder: &Path) -> Result<Option<MadeKernel>> {
        let images = IMAGES.map(|image| folder.join(image));
        let Some(image) = images.into_iter().find(|image| image.is_file()) else {
            return Ok(None);
        };
        let built = fs::metadata(&image).and_then(|metadata| metadata.modified());
        let built = built.with_context(|| format!("reading {}", image.display()))?;
        let configs = [".config", "config"].map(|config| folder.join(config));
        let config = configs.into_iter().find(|config| config.is_file());
        let newer = match sources_of(folder) {
            Some(sources) => newer(&sources, folder, built, config.as_deref())?,
            None => Vec::new(),
        };
        Ok(Some(MadeKernel { image, config, built, newer }))
    }
}

/// The sources of the objects in a folder: that folder, or the one that make's link `source` leads to.
fn sources_of(objects: &Path) -> Option<PathBuf> {
    let candidates = [objects.to_path_buf(), objects.join("source")];
    let sources = candidates.into_iter().find(|folder| folder.join("Kconfig").is_file())?;
    sources.canonicalize().ok()
}

/// The files that make would build from again: those that were changed after the image was built, if the build read
/// them, or if they decide what it reads.
fn newer(
    sources: &Path,
    objects: &Path,
    built: SystemTime,
    config: Option<&Path>,
) -> Result<Vec<PathBuf>> {
    let is_newer = |metadata: &fs::Metadata| metadata.modified().is_ok_and(|time| time > built);
    let mut newer: Vec<PathBuf> = Vec::new();
    let mut folders = vec![sources.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            if metadata.is_dir() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
                folders.push(path);
            } else if metadata.is_file() && is_newer(&metadata) && is_source(&path) {
                newer.push(path.strip_prefix(sources).unwrap_or(&path).to_path_buf());
            }
        }
    }
    if !newer.is_empty() {
        // A driver that is not configured does not matter.
        let read = commands::files_read(objects, sources)?;
        newer.retain(|path| is_rule(path) || read.contains(path));
    }
    let config = config.filter(|config| fs::metadata(config).is_ok_and(|found| is_newer(&found)));
    newer.extend(config.and_then(Path::file_name).map(PathBuf::from));
    newer.sort();
    Ok(newer)
}

/// Whether a file is a source, and none that make makes, such as those of modules, which come after the image.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".mod.c") || path.with_file_name(format!(".{name}.cmd")).exists() {
        return false;
    }
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    EXTENSIONS.contains(&extension) || is_rule(path)
}

/// Whether a file decides what is built.
fn is_rule(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    NAMES.iter().any(|rule| name.starts_with(rule))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    use super::MadeKernel;

    fn write(folder: &Path, name: &str, text: &str, seconds: u64) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    }

    fn newer(folder: &Path) -> Vec<PathBuf> {
        MadeKernel::find(folder).unwrap().unwrap().newer
    }

    #[test]
    fn an_image_is_older_than_sources_that_its_build_read() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap();
        assert!(MadeKernel::find(&folder).unwrap().is_none());
        write(&folder, "arch/x86/boot/bzImage", "image", 100);
        write(&folder, "Kconfig", "", 50);
        write(&folder, "fs/locks.c", "", 50);
        write(&folder, "fs/other.c", "", 50);
        write(&folder, ".config", "CONFIG_SMP=y\n", 60);
        let command =
            "source_fs/locks.o := fs/locks.c\n\ndeps_fs/locks.o := \\\n  fs/lock.h \\\n\n";
        write(&folder, "fs/.locks.o.cmd", command, 70);
        assert!(newer(&folder).is_empty());
        // No build read this one.
        write(&folder, "fs/other.c", "", 200);
        // make wrote these after the image.
        let command =
            "source_fs/locks.o := fs/locks.c\n\ndeps_x.o := \\\n  x.mod.c \\\n  made.c \\\n\n";
        for (name, text) in
            [("x.mod.c", ""), ("made.c", ""), (".made.c.cmd", ""), (".x.o.cmd", command)]
        {
            write(&folder, name, text, 200);
        }
        assert!(newer(&folder).is_empty());
        write(&folder, "fs/locks.c", "", 200);
        write(&folder, "fs/Makefile", "", 200);
        write(&folder, ".config", "", 200);
        assert_eq!(newer(&folder), [".config", "fs/Makefile", "fs/locks.c"].map(PathBuf::from));
    }

    #[test]
    fn objects_elsewhere_link_to_their_sources() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().canonicalize().unwrap();
        let (sources, objects) = (folder.join("linux"), folder.join("objects"));
        write(&sources, "Kconfig", "", 200);
        write(&objects, "arch/x86/boot/bzImage", "image", 100);
        assert!(newer(&objects).is_empty());
        std::os::unix::fs::symlink(&sources, objects.join("source")).unwrap();
        assert_eq!(newer(&objects), [PathBuf::from("Kconfig")]);
    }
}
