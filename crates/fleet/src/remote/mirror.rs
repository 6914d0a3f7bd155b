//! Copies the files of a growing record from one host to another, so that whatever has arrived is a
//! record that a crash may have left: a run's samples before its line, and the final name last.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host::{HeldFolder, Limit};

use super::messages::{Answer, send};

/// As long as the samples of a long record.
const FILE_LIMIT: Limit = Limit { bytes: 64 << 30, what: "a file of a record" };

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
    files: Vec<(String, File)>,
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
            self.send_file(path, file, out).with_context(|| format!("sending {path}"))?;
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
        let Some(root) = HeldFolder::open_if_there(&self.root)? else {
            return Ok(Listing { files, finished });
        };
        for (shard_name, shard) in folders(&root)? {
            for (name, record) in folders(&shard)? {
                let mut folder = format!("{shard_name}/{name}");
                if !name.starts_with(HIDDEN) {
                    finished.push(folder.clone());
                    folder = hidden(&folder);
                }
                for entry in record.list()?.into_iter().filter(|entry| entry.is_file()) {
                    let name = entry.name.to_string_lossy();
                    if name.ends_with(".tmp") || name.starts_with('.') {
                        continue;
                    }
                    let file = record.open_file(&entry.name, FILE_LIMIT)?;
                    files.extend(file.map(|file| (format!("{folder}/{name}"), file)));
                }
            }
        }
        files.sort_by_key(|(path, _)| {
            let rank = ["runs.ndjson", "record.json"].iter().position(|last| path.ends_with(last));
            (rank.map_or(0, |rank| rank + 1), path.clone())
        });
        Ok(Listing { files, finished })
    }

    fn send_file(&mut self, path: &str, mut file: &File, out: &mut impl Write) -> Result<()> {
        let found = file.metadata()?;
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
        file.seek(SeekFrom::Start(offset))?;
        let mut text = Vec::new();
        file.take(now.bytes - offset).read_to_end(&mut text)?;
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
        let (folder, name) = self.below(path)?;
        let write = || -> Result<()> {
            if offset == 0 {
                return folder.replace_by(
                    &name,
                    Path::new(&name).with_extension("tmp"),
                    |mut file| Ok(file.write_all(text)?),
                );
            }
            let file = folder.open_to_change(&name)?;
            let mut file = file.with_context(|| format!("bytes before {offset} are missing"))?;
            ensure!(file.metadata()?.len() >= offset, "bytes before {offset} are missing");
            file.set_len(offset)?;
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(text)?;
            Ok(file.sync_all()?)
        };
        write().with_context(|| format!("writing {path} in {}", self.root.display()))
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) -> Result<()> {
        let (folder, name) = self.below(path)?;
        folder.remove(name).map(drop)
    }

    /// Gives a record's folder its final name.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let ((folder, from), (same, to)) = (self.below(from)?, self.below(to)?);
        ensure!(folder.path() == same.path(), "a record stays in its folder");
        folder.rename(from, to)?;
        folder.sync()
    }

    /// The folder of a path below the root, and the name in it. The other host may be broken: it never leads
    /// elsewhere.
    fn below(&self, path: &str) -> Result<(HeldFolder, OsString)> {
        let parts: Vec<Component> = Path::new(path).components().collect();
        let is_plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
        ensure!(is_plain && (2..=3).contains(&parts.len()), "{path:?} is no file of a record");
        let mut folder = HeldFolder::create(&self.root)?;
        for part in &parts[..parts.len() - 1] {
            folder = folder.create_folder(part)?;
        }
        let name = parts.last().context("a path has a name")?;
        Ok((folder, name.as_os_str().to_owned()))
    }
}

/// The name of a record's folder while the record grows.
fn hidden(folder: &str) -> String {
    let (shard, record) = folder.split_once('/').unwrap_or(("", folder));
    format!("{shard}/{HIDDEN}{record}")
}

/// The folders in a folder.
fn folders(folder: &HeldFolder) -> Result<Vec<(String, HeldFolder)>> {
    let mut folders = Vec::new();
    for entry in folder.list()?.into_iter().filter(|entry| entry.is_folder()) {
        let held = folder.folder(&entry.name)?;
        folders.extend(held.map(|held| (entry.name.to_string_lossy().into_owned(), held)));
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        for (shard, folder) in folders(&HeldFolder::open(root).unwrap()).unwrap() {
            for (record, folder) in folders(&folder).unwrap() {
                for entry in folder.list().unwrap() {
                    let text = folder.read_text(&entry.name, FILE_LIMIT).unwrap().unwrap();
                    files.insert(format!("{shard}/{record}/{}", entry.name.display()), text);
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
