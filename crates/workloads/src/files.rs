//! Files as the workloads use them: opened by path with words for what went wrong,
//! named by number without formatting, counted.

use std::ffi::c_char;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{Failure, Kind, Load, Parameter};

/// Creates a file that must not exist yet, open for reading and writing.
pub fn create(path: &Path) -> Result<File, Failure> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| Failure::of(format!("creating {}", path.display()), e))
}

/// Opens an existing file for reading and writing: a file description of its own.
pub fn open(path: &Path) -> Result<File, Failure> {
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|e| Failure::of(format!("opening {}", path.display()), e))
}

/// Creates a directory that must not exist yet.
pub fn create_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir(path)
        .map_err(|e| Failure::of(format!("creating directory {}", path.display()), e))
}

/// Opens a directory, so that the files in it can be named without walking to it.
pub fn open_directory(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|e| Failure::of(format!("opening directory {}", path.display()), e))
}

/// The number of names in a directory.
pub fn names_in(path: &Path) -> Result<u64, Failure> {
    let entries =
        fs::read_dir(path).map_err(|e| Failure::of(format!("listing {}", path.display()), e))?;
    Ok(entries.count() as u64)
}

/// Whether a name exists.
pub fn exists(path: &Path) -> Result<bool, Failure> {
    path.try_exists().map_err(|e| Failure::of(format!("looking for {}", path.display()), e))
}

/// The directory each task works in, as the parameter `directory` says.
pub struct Directories {
    /// Whether all tasks work in one.
    pub shared: bool,
    paths: Vec<PathBuf>,
}

impl Directories {
    /// The parameter that chooses.
    pub const PARAMETER: Parameter = Parameter {
        name: "directory",
        about: "own: each task works in a directory of its own; shared: all work in one",
        default: "own",
        kind: Kind::Choice(&["own", "shared"]),
    };

    /// Makes the shared directory where one is asked for.
    pub fn prepare(load: &Load) -> Result<Directories, Failure> {
        let shared = load.values.choice("directory") == "shared";
        let common = load.directory.join("shared");
        if shared {
            create_directory(&common)?;
        }
        let path = |index| if shared { common.clone() } else { load.task_path(index) };
        Ok(Directories { shared, paths: (0..load.tasks).map(path).collect() })
    }

    /// The directory of task `index`; made now if it is the task's own.
    pub fn of_task(&self, index: usize) -> Result<&Path, Failure> {
        let path = &self.paths[index];
        if !self.shared {
            create_directory(path)?;
        }
        Ok(path)
    }

    /// The directory that all tasks share, if they do.
    pub fn common(&self) -> Option<&Path> {
        self.shared.then(|| self.paths[0].as_path())
    }
}

/// A name that ends in a decimal number of fixed width, kept as system calls take it
/// and counted up in place: an operation spends no formatting on it.
pub struct Name {
    /// Prefix, digits, zero byte.
    text: Vec<u8>,
    prefix: usize,
}

impl Name {
    /// The name that ends in number 0.
    pub fn new(prefix: &str, digits: usize) -> Name {
        let mut text = prefix.as_bytes().to_vec();
        text.resize(prefix.len() + digits, b'0');
        text.push(0);
        Name { text, prefix: prefix.len() }
    }

    /// A name that no other task uses: tasks may share a directory.
    pub fn of_task(index: usize) -> Name {
        Name::new(&format!("{index:05}-"), 10)
    }

    /// Makes it end in this number.
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

    /// Makes it end in the next number.
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

    /// A zero-terminated string, valid as long as the name and until it is changed.
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
