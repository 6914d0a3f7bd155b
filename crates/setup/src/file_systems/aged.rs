//! Ageing: a file system is filled with files of mixed sizes, and half of them are replaced by
//! others again and again, so that its free space and inodes lie scattered as in one that has
//! been used. The same seed creates and removes the same files in the same order; where they
//! come to lie is up to the file system.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use host::signals;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use records::{Age, Aged};

/// Where the files lie, below the root.
const FOLDER: &str = "aged";

/// Directories that the files are spread over.
const DIRECTORIES: u64 = 32;

/// Sizes of files lie between these, as many within each doubling.
const SMALLEST_BYTES: u64 = 4 << 10;
const LARGEST_BYTES: (u64, u64) = (64 << 10, 4 << 20);

/// A file system being aged.
struct Ageing {
    folder: PathBuf,
    random: Xoshiro256PlusPlus,
    largest: u64,
    files: Vec<AgedFile>,
    bytes: u64,
    created: u64,
    zeros: Vec<u8>,
}

/// One of its files.
struct AgedFile {
    number: u64,
    bytes: u64,
}

/// Ages the file system that is mounted at `root` and has so many bytes.
pub fn age(root: &Path, bytes_total: u64, age: &Age, seed: u64) -> Result<Aged> {
    let since = Instant::now();
    let folder = root.join(FOLDER);
    let (least, most) = LARGEST_BYTES;
    let mut ageing = Ageing {
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        // A small one would have too few files else.
        largest: (bytes_total / 1024).clamp(least, most),
        files: Vec::new(),
        bytes: 0,
        created: 0,
        zeros: vec![0; 1 << 20],
        folder,
    };
    ageing.make_directories()?;
    let target = (bytes_total as f64 * age.filled) as u64;
    ageing.fill(target)?;
    for _ in 0..age.rounds {
        ageing.remove_half()?;
        ageing.fill(target)?;
    }
    Ok(Aged {
        seed,
        files: ageing.files.len() as u64,
        bytes: ageing.bytes,
        created: ageing.created,
        free_extents: None,
        bytes_free: None,
        took_ms: since.elapsed().as_millis() as u64,
    })
}

impl Ageing {
    fn make_directories(&self) -> Result<()> {
        for number in 0..DIRECTORIES {
            let path = self.folder.join(number.to_string());
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .with_context(|| format!("ageing: creating {}", path.display()))?;
        }
        Ok(())
    }

    /// Creates files until they have so many bytes.
    fn fill(&mut self, target: u64) -> Result<()> {
        while self.bytes < target {
            check_wish()?;
            let file = AgedFile { number: self.created, bytes: self.size() };
            let path = self.path(file.number);
            self.created += 1;
            match self.create_with_patience(&path, file.bytes) {
                Ok(()) => {
                    self.bytes += file.bytes;
                    self.files.push(file);
                }
                Err(e) if e.kind() == ErrorKind::StorageFull => bail!(
                    "ageing: it is full with files of {} MiB, wanted are {}: make it larger \
                     (--size), or fill less (--age filled=PERCENT)",
                    self.bytes >> 20,
                    target >> 20
                ),
                Err(e) => {
                    return Err(e).with_context(|| {
                        format!("ageing: creating {} of {} bytes", path.display(), file.bytes)
                    });
                }
            }
        }
        Ok(())
    }

    /// btrfs frees what was removed only with its next transaction: where there is no room, that
    /// is waited for, once.
    fn create_with_patience(&self, path: &Path, bytes: u64) -> io::Result<()> {
        match self.create(path, bytes) {
            Err(e) if e.kind() == ErrorKind::StorageFull => (),
            created => return created,
        }
        // Not there, where already its inode had no room.
        let _ = fs::remove_file(path);
        // SAFETY: an open descriptor. Errors are the next file's.
        unsafe { libc::syncfs(File::open(&self.folder)?.as_raw_fd()) };
        self.create(path, bytes)
    }

    /// As many files between 4 and 8 KiB as between 1 and 2 MiB, in whole blocks.
    fn size(&mut self) -> u64 {
        let doublings = (self.largest as f64 / SMALLEST_BYTES as f64).log2();
        let bytes = SMALLEST_BYTES as f64 * (self.random.random::<f64>() * doublings).exp2();
        bytes as u64 / SMALLEST_BYTES * SMALLEST_BYTES
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join((number % DIRECTORIES).to_string()).join(number.to_string())
    }

    /// A file whose blocks are all taken. They are not written where that can be left out: it
    /// takes no time, and the image stays sparse.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        // SAFETY: an open descriptor.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            // ext2 and ext3, which know no blocks that were not written.
            e if e.raw_os_error() == Some(libc::EOPNOTSUPP) => self.write(&mut file, bytes),
            e => Err(e),
        }
    }

    fn write(&self, file: &mut File, bytes: u64) -> io::Result<()> {
        let mut left = bytes as usize;
        while left > 0 {
            let part = left.min(self.zeros.len());
            file.write_all(&self.zeros[..part])?;
            left -= part;
        }
        Ok(())
    }

    /// Removes every second file on average, wherever it lies.
    fn remove_half(&mut self) -> Result<()> {
        for file in std::mem::take(&mut self.files) {
            check_wish()?;
            if self.random.random_bool(0.5) {
                self.files.push(file);
                continue;
            }
            let path = self.path(file.number);
            fs::remove_file(&path)
                .with_context(|| format!("ageing: removing {}", path.display()))?;
            self.bytes -= file.bytes;
        }
        Ok(())
    }
}

fn check_wish() -> Result<()> {
    ensure!(signals::received().is_none(), "asked to end while a file system was being aged");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and sizes of all files below a folder.
    fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let mut found: Vec<_> = entries
            .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
                true => files(&entry.path()),
                false => vec![(entry.path(), entry.metadata().unwrap().len())],
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn the_same_seed_leaves_the_same_files_and_another_one_others() {
        let made = |seed: u64| {
            let folder = tempfile::tempdir().unwrap();
            let aged = age(folder.path(), 8 << 20, &Age { filled: 0.5, rounds: 2 }, seed).unwrap();
            let files = files(folder.path()).into_iter();
            let below = |path: PathBuf| path.strip_prefix(folder.path()).unwrap().to_path_buf();
            let files: Vec<_> = files.map(|(path, bytes)| (below(path), bytes)).collect();
            assert_eq!(files.len() as u64, aged.files);
            assert_eq!(files.iter().map(|(_, bytes)| bytes).sum::<u64>(), aged.bytes);
            assert!(aged.bytes >= 4 << 20 && aged.bytes < (4 << 20) + (64 << 10));
            assert!(aged.created > aged.files + aged.files / 2);
            assert!(files.iter().all(|(_, bytes)| bytes % SMALLEST_BYTES == 0 && *bytes > 0));
            files
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }
}
