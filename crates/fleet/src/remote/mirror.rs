//! Copies the files of a growing record from one host to another, so that whatever has arrived is a
//! record that a crash may have left: a run's samples before its line, and the final name last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host::durable::{remove_if_there, sync_folder};

use super::messages::{Answer, send};

/// Names of folders that hold growing records begin so.
const HIDDEN: &str = ".part-";

/// The side that sends: what of a store the other side has.
pub struct Mirror {
    root: PathBuf,
    sent: BTreeMap<String, Version>,
    renamed: BTreeSet<String>,
}

/// What a store holds.
struct Listing {
    /// By the names that they have while a record grows, in the order in which they are sent.
    files: Vec<(String, PathBuf)>,
    /// Folders of finished records.
    finished: Vec<String>,
}

/// A file as it was when it was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Mirror {
    /// A mirror of the store in this folder, of which nothing is sent yet.
    pub fn new(root: &Path) -> Mirror {
        Mirror { root: root.to_path_buf(), sent: BTreeMap::new(), renamed: BTreeSet::new() }
    }

    /// Sends what has changed since the last call.
    pub fn send(&mut self, out: &mut impl Write) -> Result<()> {
        let Listing { files, finished } = self.list().context("reading the record to send it")?;
        for (path, file) in &files {
            self.send_file(path, file, out)?;
        }
        let gone: Vec<String> = self
            .sent
            .keys()
            .filter(|path| !files.iter().any(|(f, _)| f == *path))
            .cloned()
            .collect();
        for path in gone {
            self.sent.remove(&path);
            send(out, &Answer::Removed { path })?;
        }
        for to in finished {
            if self.renamed.insert(to.clone()) {
                send(out, &Answer::Renamed { from: hidden(&to), to })?;
            }
        }
        Ok(())
    }

    fn list(&self) -> Result<Listing> {
        let (mut files, mut finished) = (Vec::new(), Vec::new());
        for (shard, path) in entries(&self.root)? {
            for (record, path) in entries(&path)? {
                let mut folder = format!("{shard}/{record}");
                if !record.starts_with(HIDDEN) {
                    finished.push(folder.clone());
                    folder = hidden(&folder);
                }
                let inside = entries(&path)?.into_iter().filter(|(_, path)| path.is_file());
                let lasting = inside.filter(|(name, _)| !name.ends_with(".tmp"));
                files.extend(lasting.map(|(name, path)| (format!("{folder}/{name}"), path)));
            }
        }
        files.sort_by_key(|(path, _)| {
            let rank = ["runs.ndjson", "record.json"].iter().position(|last| path.ends_with(last));
            (rank.map_or(0, |rank| rank + 1), path.clone())
        });
        Ok(Listing { files, finished })
    }

    fn send_file(&mut self, path: &str, file: &Path, out: &mut impl Write) -> Result<()> {
        let mut open = File::open(file).with_context(|| format!("opening {}", file.display()))?;
        let found = open.metadata()?;
        let now = Version {
            inode: found.ino(),
            bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        };
        let before = self.sent.insert(path.to_string(), now);
        if before == Some(now) {
            return Ok(());
        }
        // Lines are only ever added to a file of lines, unless it is made anew.
        let has_grown = |before: &Version| {
            path.ends_with(".ndjson") && before.inode == now.inode && before.bytes <= now.bytes
        };
        let offset = before.filter(has_grown).map_or(0, |before| before.bytes);
        open.seek(SeekFrom::Start(offset))?;
        let mut text = Vec::new();
        open.take(now.bytes - offset).read_to_end(&mut text)?;
        let bytes = text.len() as u64;
        send(out, &Answer::File { path: path.to_string(), offset, bytes })?;
        Ok(out.write_all(&text)?)
    }
}

/// The side that receives: a store that becomes equal to the other.
#[derive(Clone, Debug)]
pub struct Copy {
    root: PathBuf,
}

impl Copy {
    /// The copy in this folder.
    pub fn new(root: &Path) -> Copy {
        Copy { root: root.to_path_buf() }
    }

    /// Puts what follows a [`Answer::File`] where it belongs, durably.
    pub fn write(&self, path: &str, offset: u64, text: &[u8]) -> Result<()> {
        let target = self.below(path)?;
        let folder = target.parent().context("a file lies in a folder")?;
        let write = || -> Result<()> {
            fs::create_dir_all(folder)?;
            if offset == 0 {
                let beside = target.with_extension("tmp");
                let mut file = File::create(&beside)?;
                file.write_all(text)?;
                file.sync_all()?;
                fs::rename(&beside, &target)?;
                return sync_folder(folder);
            }
            let mut file = File::options().write(true).open(&target)?;
            ensure!(file.metadata()?.len() >= offset, "bytes before {offset} are missing");
            file.set_len(offset)?;
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(text)?;
            Ok(file.sync_all()?)
        };
        write().with_context(|| format!("writing {}", target.display()))
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) -> Result<()> {
        let target = self.below(path)?;
        remove_if_there(&target).with_context(|| format!("removing {}", target.display()))
    }

    /// Gives a record's folder its final name.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.below(from)?, self.below(to)?);
        fs::rename(&from, &to).with_context(|| format!("renaming {}", from.display()))?;
        sync_folder(to.parent().context("a record lies in a folder")?)
    }

    /// A path below the root. The other host may be broken: it never leads elsewhere.
    fn below(&self, path: &str) -> Result<PathBuf> {
        let parts: Vec<Component> = Path::new(path).components().collect();
        let is_plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
        ensure!(is_plain && (2..=3).contains(&parts.len()), "{path:?} is no file of a record");
        Ok(self.root.join(path))
    }
}

/// The name of a record's folder while the record grows.
fn hidden(folder: &str) -> String {
    let (shard, record) = folder.split_once('/').unwrap_or(("", folder));
    format!("{shard}/{HIDDEN}{record}")
}

/// Names and paths in a folder; none if it is no folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let entry = entry?;
        entries.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::read_line;

    /// Applies what was sent.
    fn apply(mut sent: &[u8], copy: &Copy) -> Result<()> {
        while let Some(answer) = read_line::<Answer>(&mut sent)? {
            match answer {
                Answer::File { path, offset, bytes } => {
                    let (text, rest) = sent.split_at(bytes as usize);
                    sent = rest;
                    copy.write(&path, offset, text)?;
                }
                Answer::Removed { path } => copy.remove(&path)?,
                Answer::Renamed { from, to } => copy.rename(&from, &to)?,
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    }

    fn tree(root: &Path) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for (shard, path) in entries(root).unwrap() {
            for (record, path) in entries(&path).unwrap() {
                for (name, path) in entries(&path).unwrap() {
                    files.insert(
                        format!("{shard}/{record}/{name}"),
                        fs::read_to_string(path).unwrap(),
                    );
                }
            }
        }
        files
    }

    #[test]
    fn a_copy_follows_a_record_through_its_life() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let growing = here.path().join("7f/.part-r");
        fs::create_dir_all(&growing).unwrap();
        let (mut mirror, copy) = (Mirror::new(here.path()), Copy::new(there.path()));
        let mut step = |change: &dyn Fn()| {
            change();
            let mut sent = Vec::new();
            mirror.send(&mut sent).unwrap();
            apply(&sent, &copy).unwrap();
            assert_eq!(tree(here.path()), tree(there.path()));
            sent.len()
        };
        let append = |name: &str, text: &str| {
            let mut file =
                File::options().append(true).create(true).open(growing.join(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        step(&|| fs::write(growing.join("plan.json"), "{}").unwrap());
        step(&|| append("runs.ndjson", &"one\n".repeat(1000)));
        let bytes = step(&|| append("runs.ndjson", "two\n"));
        assert!(bytes < 200, "only what is new is sent: {bytes} bytes");
        assert_eq!(step(&|| ()), 0);
        step(&|| {
            fs::write(growing.join("record.json"), "{}").unwrap();
            fs::remove_file(growing.join("plan.json")).unwrap();
            fs::rename(&growing, here.path().join("7f/r")).unwrap();
        });
        assert_eq!(step(&|| ()), 0);
    }

    #[test]
    fn no_path_leads_out_of_the_copy() {
        let there = tempfile::tempdir().unwrap();
        let copy = Copy::new(there.path());
        for path in ["../x/y", "/etc/x/y", "x", "a/b/c/d", "a/../b", ""] {
            assert!(copy.write(path, 0, b"").is_err(), "{path}");
            assert!(copy.remove(path).is_err() && copy.rename("a/b", path).is_err(), "{path}");
        }
        assert!(copy.write("a/b/c", 7, b"").is_err(), "a tail without its start");
    }
}
