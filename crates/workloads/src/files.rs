//! Files of workloads: opened by path with errors that name it, named by number without
//! formatting, divided into pieces, counted.

use std::ffi::c_char;
use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};

use crate::{Failure, Load, Parameter, ParameterKind};

/// Creates a file that must not exist yet, open for reading and writing.
pub fn create(path: &Path) -> Result<File, Failure> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| Failure::from_error(format!("creating {}", path.display()), e))
}

/// Opens an existing file for reading and writing, as an open file description of its own.
pub fn open(path: &Path) -> Result<File, Failure> {
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|e| Failure::from_error(format!("opening {}", path.display()), e))
}

/// Creates a directory that must not exist yet.
pub fn create_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir(path)
        .map_err(|e| Failure::from_error(format!("creating directory {}", path.display()), e))
}

/// Opens a directory, so that calls can name its files without a longer path walk.
pub fn open_directory(path: &Path) -> Result<File, Failure> {
    File::open(path)
        .map_err(|e| Failure::from_error(format!("opening directory {}", path.display()), e))
}

/// The number of names in a directory.
pub fn names_in(path: &Path) -> Result<u64, Failure> {
    let entries = fs::read_dir(path)
        .map_err(|e| Failure::from_error(format!("listing {}", path.display()), e))?;
    Ok(entries.count() as u64)
}

/// Whether a name exists.
pub fn exists(path: &Path) -> Result<bool, Failure> {
    path.try_exists().map_err(|e| Failure::from_error(format!("looking up {}", path.display()), e))
}

/// The length of the file at a path, in bytes.
pub fn length(path: &Path) -> Result<u64, Failure> {
    fs::metadata(path)
        .map(|metadata| metadata.len())
        .map_err(|e| Failure::from_error(format!("stat of {}", path.display()), e))
}

/// The metadata of an open file.
pub fn metadata(file: &File) -> Result<Metadata, Failure> {
    file.metadata().map_err(|e| Failure::from_error("fstat of the file", e))
}

/// Whether all tasks use one file.
#[derive(Clone, Copy, PartialEq)]
pub enum FileSharing {
    /// Each task has a file of its own.
    Own,
    /// All tasks share one file.
    Shared,
}

/// The path of each task's file. A shared file is created here, others by their tasks.
pub fn task_files(load: &Load, sharing: FileSharing) -> Result<Vec<PathBuf>, Failure> {
    match sharing {
        FileSharing::Own => Ok(load.task_paths()),
        FileSharing::Shared => {
            let path = load.directory.join("file");
            create(&path)?;
            Ok(vec![path; load.tasks])
        }
    }
}

/// The pieces into which calls divide `size_bytes`.
#[derive(Clone, Copy)]
pub struct Pieces {
    /// The length of one piece.
    pub bytes: u64,
    /// The number of whole pieces that fit.
    pub count: u64,
}

impl Pieces {
    /// Pieces of the length that a parameter has, of which at least one must fit.
    pub fn new(load: &Load, parameter: &str) -> Result<Pieces, Failure> {
        let (bytes, size_bytes) = (load.values.number(parameter), load.values.number("size_bytes"));
        if bytes > size_bytes {
            return Err(Failure::new(format!(
                "{parameter}={bytes} does not fit into size_bytes={size_bytes}"
            )));
        }
        Ok(Pieces { bytes, count: size_bytes / bytes })
    }
}

/// The directory in which each task works, as the parameter `directory` says.
pub struct TaskDirectories {
    /// Whether all tasks work in one directory.
    pub shared: bool,
    paths: Vec<PathBuf>,
}

impl TaskDirectories {
    pub const PARAMETER: Parameter = Parameter {
        name: "directory",
        about: "own: each task works in its own directory; shared: all tasks work in one",
        default: "own",
        kind: ParameterKind::Choice(&["own", "shared"]),
    };

    /// Creates the shared directory if there is to be one.
    pub fn prepare(load: &Load) -> Result<TaskDirectories, Failure> {
        let shared = load.values.choice("directory") == "shared";
        let common = load.directory.join("shared");
        if shared {
            create_directory(&common)?;
        }
        let path = |index| if shared { common.clone() } else { load.task_path(index) };
        Ok(TaskDirectories { shared, paths: (0..load.tasks).map(path).collect() })
    }

    /// The directory of task `index`, which is created here if it is the task's own.
    pub fn task_directory(&self, index: usize) -> Result<&Path, Failure> {
        let path = &self.paths[index];
        if !self.shared {
            create_directory(path)?;
        }
        Ok(path)
    }

    /// The directory that all tasks share, if there is one.
    pub fn common(&self) -> Option<&Path> {
        self.shared.then(|| self.paths[0].as_path())
    }
}

/// A file name that ends in a decimal number of fixed width. Stored as a C string and
/// incremented in place, so that an operation formats nothing.
pub struct Name {
    /// Prefix, digits, zero byte.
    text: Vec<u8>,
    prefix: usize,
}

impl Name {
    /// The name with number 0.
    pub fn new(prefix: &str, digits: usize) -> Name {
        let mut text = prefix.as_bytes().to_vec();
        text.resize(prefix.len() + digits, b'0');
        text.push(0);
        Name { text, prefix: prefix.len() }
    }

    /// A name that no other task uses, even in the same directory.
    pub fn for_task(index: usize) -> Name {
        Name::new(&format!("{index:05}-"), 10)
    }

    /// Sets the number.
    #[inline]
    pub fn set(&mut self, mut number: u64) {
        let digits = self.digits();
        digits.fill(b'0');
        let mut position = digits.len();
        while number > 0 {
            position -= 1;
            digits[position] += (number % 10) as u8;
            number /= 10;
        }
    }

    /// Increments the number.
    #[inline]
    pub fn advance(&mut self) {
        for digit in self.digits().iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        panic!("the numbers of {} have run out of digits", self.text());
    }

    /// A C string, valid until the name is changed or dropped.
    #[inline]
    pub fn as_ptr(&self) -> *const c_char {
        self.text.as_ptr().cast()
    }

    /// The name for paths and messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text[..self.text.len() - 1]).into_owned()
    }

    #[inline]
    fn digits(&mut self) -> &mut [u8] {
        let end = self.text.len() - 1;
        &mut self.text[self.prefix..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_up_with_carry_and_can_be_set() {
        let mut name = Name::new("a", 3);
        assert_eq!(name.text(), "a000");
        name.set(98);
        name.advance();
        assert_eq!(name.text(), "a099");
        name.advance();
        assert_eq!(name.text(), "a100");
        name.set(0);
        assert_eq!(name.text(), "a000");
    }
}
