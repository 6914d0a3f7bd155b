//! Ageing: fills a file system with files of mixed sizes, and replaces half of them again and
//! again, so that its free space and inodes are scattered as after years of use. The same seed
//! creates and removes the same files in the same order; the file system decides where it puts
//! them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use host::signals;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use records::{Age, Aged};
use rustix::fs::{FallocateFlags, fallocate, syncfs};

/// The directory of the files, below the root.
const FOLDER: &str = "aged";

/// The files are spread over this many directories.
const DIRECTORIES: u64 = 32;

/// Sizes of files lie between these, distributed evenly over their logarithm.
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

struct AgedFile {
    number: u64,
    bytes: u64,
}

/// Ages the file system of `bytes_total` bytes that is mounted at `root`.
pub fn age(root: &Path, bytes_total: u64, age: &Age, seed: u64) -> Result<Aged> {
    let since = Instant::now();
    let folder = root.join(FOLDER);
    let (least, most) = LARGEST_BYTES;
    let mut ageing = Ageing {
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        // Otherwise a small file system would have too few files.
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

    /// Creates files until they hold `target` bytes.
    fn fill(&mut self, target: u64) -> Result<()> {
        while self.bytes < target {
            check_signals()?;
            let file = AgedFile { number: self.created, bytes: self.size() };
            let path = self.path(file.number);
            self.created += 1;
            match self.create_or_retry(&path, file.bytes) {
                Ok(()) => {
                    self.bytes += file.bytes;
                    self.files.push(file);
                }
                Err(e) if e.kind() == ErrorKind::StorageFull => bail!(
                    "ageing: the file system is full with files of {} MiB, of the {} MiB wanted: \
                     make it larger (--size), or fill it less (--age filled=PERCENT)",
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

    /// Creates a file; when the file system is full, waits for its next transaction and tries once
    /// more, since btrfs frees removed files only then.
    fn create_or_retry(&self, path: &Path, bytes: u64) -> io::Result<()> {
        match self.create(path, bytes) {
            Err(e) if e.kind() == ErrorKind::StorageFull => (),
            created => return created,
        }
        // It does not exist if there was no room for its inode.
        let _ = fs::remove_file(path);
        // An error shows when the file is created again.
        let _ = syncfs(File::open(&self.folder)?);
        self.create(path, bytes)
    }

    /// A random size in whole blocks: as many files between 4 and 8 KiB as between 1 and 2 MiB.
    fn size(&mut self) -> u64 {
        let doublings = (self.largest as f64 / SMALLEST_BYTES as f64).log2();
        let bytes = SMALLEST_BYTES as f64 * (self.random.random::<f64>() * doublings).exp2();
        bytes as u64 / SMALLEST_BYTES * SMALLEST_BYTES
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join((number % DIRECTORIES).to_string()).join(number.to_string())
    }

    /// Creates a file with all its blocks allocated, and without writing them where the file system
    /// can do that: it takes no time, and the image stays sparse.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // ext2 and ext3 have no unwritten extents.
            Err(rustix::io::Errno::OPNOTSUPP) => self.write(&mut file, bytes),
            allocated => Ok(allocated?),
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

    /// Removes each file with a probability of one half.
    fn remove_half(&mut self) -> Result<()> {
        for file in std::mem::take(&mut self.files) {
            check_signals()?;
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

fn check_signals() -> Result<()> {
    ensure!(signals::received().is_none(), "interrupted while ageing a file system");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and sizes of all files below a folder.
    fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let mut found: Vec<_> = entries
            .flat_map(|entry| {
                if entry.file_type().unwrap().is_dir() {
                    files(&entry.path())
                } else {
                    vec![(entry.path(), entry.metadata().unwrap().len())]
                }
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
