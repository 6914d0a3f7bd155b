//! What a kernel's build read: make keeps the command and the dependencies of each object in a file beside it, `.NAME.cmd`
//! (scripts/basic/fixdep.c writes them).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The files of the sources that the objects in a folder were made of, relative to the sources. A tool that is built
/// in its own folder names some relative to that.
pub fn files_read(objects: &Path, source: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut read = BTreeSet::new();
    let mut folders = vec![objects.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let listing = || format!("listing {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(listing)? {
            let entry = entry.with_context(listing)?;
            let path = entry.path();
            if entry.file_type().with_context(listing)?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "cmd") {
                let text =
                    fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
                read.extend(dependencies(&String::from_utf8_lossy(&text), source));
            }
        }
    }
    Ok(read)
}

/// The files of the sources that the text of one such file names.
fn dependencies(text: &str, source: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut is_list = false;
    for line in text.lines() {
        let words = match line.split_once(" := ") {
            Some((name, first)) => {
                is_list = name.starts_with("deps_") || name.starts_with("source_");
                first
            }
            None => line,
        };
        let name = words.trim_end_matches('\\').trim();
        // A list ends with an empty line; `$(wildcard …)` names an option.
        is_list &= !line.is_empty();
        if !is_list || name.is_empty() || name.starts_with('$') {
            continue;
        }
        let path = Path::new(name);
        match path.strip_prefix(source) {
            Ok(inside) => found.push(inside.to_path_buf()),
            // Headers of the host are no part of the sources.
            Err(_) if path.is_absolute() => (),
            Err(_) => found.push(path.to_path_buf()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::files_read;

    #[test]
    fn the_files_of_the_sources_are_read_from_the_commands_of_make() {
        let folder = tempfile::tempdir().unwrap();
        let objects = folder.path().join("objects");
        fs::create_dir_all(objects.join("mm")).unwrap();
        let text = "savedcmd_mm/memory.o := gcc -c /build/source/mm/unlike.c\n\n\
            source_mm/memory.o := /build/source/mm/memory.c\n\n\
            deps_mm/memory.o := \\\n    $(wildcard include/config/MMU) \\\n  \
            /build/source/include/linux/mm.h \\\n  include/generated/bounds.h \\\n  \
            /usr/include/stdio.h \\\n\nmm/memory.o: $(deps_mm/memory.o)\n\n$(deps_mm/memory.o):\n";
        fs::write(objects.join("mm/.memory.o.cmd"), text).unwrap();
        fs::write(objects.join("mm/memory.o"), "deps_mm/memory.o := other.h\n").unwrap();
        let read = files_read(&objects, Path::new("/build/source")).unwrap();
        let expected = ["include/generated/bounds.h", "include/linux/mm.h", "mm/memory.c"];
        assert_eq!(read, expected.map(PathBuf::from).into_iter().collect::<BTreeSet<_>>());
    }
}
