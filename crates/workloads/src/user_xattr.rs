//! A file with user extended attributes, the object of all xattr workloads.
//!
//! An attribute can be set as new or removed only once, so those two workloads fill and
//! empty their file by turns, one of the two inside counted operations, the other in one
//! go. The file never becomes quite empty: one extra attribute, set when the file is full,
//! stays. File systems allocate a block for the first attribute and free it with the last
//! (ext4, for those beyond the inode), and that cost would drown the rest.

use std::ffi::{CStr, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use libc::XATTR_CREATE;

use crate::files::{self, Name};
use crate::stamp::Stamped;
use crate::{Failure, Load, Need, Parameter, ParameterKind, Prepared, Task, sys};

/// The parameters of all xattr workloads. The defaults fit into one block of 1 KiB, the
/// smallest that ext4 can have for them.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "names",
        about: "attributes per file; ext4 has room for about one block of them",
        default: "16",
        // More names would not fit into the 64 KiB that one listxattr can return.
        kind: ParameterKind::Number { min: 1, max: 4096 },
    },
    Parameter {
        name: "value_bytes",
        about: "length of each value",
        default: "32",
        // Shorter values could be equal in two turns or two tasks.
        kind: ParameterKind::Number { min: 8, max: 1 << 16 },
    },
];

/// The needs of all xattr workloads.
pub(crate) const NEEDS: &[Need] = &[
    Need::OpenFiles(1),
    Need::Feature("user extended attributes (tmpfs has them since Linux 6.6)", trial),
    Need::FreeBytes(|load| {
        load.tasks as u64 * load.values.number("names") * load.values.number("value_bytes")
    }),
];

fn trial(file: &File) -> io::Result<()> {
    // SAFETY: the file is open; name and value are live, and the value is 1 byte long.
    let result = unsafe {
        libc::fsetxattr(file.as_raw_fd(), c"user.0000".as_ptr(), c"v".as_ptr().cast(), 1, 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a task from a file that has all its attributes.
pub(crate) type MakeTask = fn(UserXattrs) -> Result<Box<dyn Task>, Failure>;

/// Prepares a workload in which each task works on the attributes of its own file.
pub(crate) fn prepare(load: &Load, make: MakeTask) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Setup {
        paths: load.task_paths(),
        names: load.values.number("names"),
        value_bytes: load.values.number("value_bytes") as usize,
        make,
    }))
}

struct Setup {
    paths: Vec<PathBuf>,
    names: u64,
    value_bytes: usize,
    make: MakeTask,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        let mut attributes = UserXattrs {
            file: files::create(path)?,
            path: path.clone(),
            names: self.names,
            name: Name::new("user.", 4),
            value: Stamped::new(self.paths.len(), index, self.value_bytes),
            turn: 0,
        };
        attributes.fill()?;
        (self.make)(attributes)
    }
}

/// The attributes of one file. Attribute `turn % names` is the next to be set.
pub(crate) struct UserXattrs {
    file: File,
    path: PathBuf,
    /// The number of attributes when the file is full.
    pub(crate) names: u64,
    /// The name of the next attribute; one too far at the end of a pass, until [`Self::rewind`].
    name: Name,
    value: Stamped,
    /// The number of attributes set so far.
    turn: u64,
}

impl UserXattrs {
    /// Makes the first attribute the next.
    #[inline(always)]
    pub(crate) fn rewind(&mut self) {
        self.name.set(0);
    }

    /// Sets the next attribute, to a new value.
    #[inline(always)]
    pub(crate) fn set(&mut self, what: &'static str, flags: i32) -> Result<(), Failure> {
        self.value.stamp(self.turn);
        let value = self.value.bytes();
        let start = value.as_ptr().cast::<c_void>();
        // SAFETY: the file is open, the name a live C string and the value live.
        sys(what, unsafe {
            libc::fsetxattr(self.file.as_raw_fd(), self.name.as_ptr(), start, value.len(), flags)
        })?;
        self.turn += 1;
        self.name.advance();
        Ok(())
    }

    /// Removes the next attribute.
    #[inline(always)]
    pub(crate) fn remove(&mut self) -> Result<(), Failure> {
        // SAFETY: the file is open and the name a live C string.
        sys("fremovexattr", unsafe {
            libc::fremovexattr(self.file.as_raw_fd(), self.name.as_ptr())
        })?;
        self.name.advance();
        Ok(())
    }

    /// Lists all names into `list` and returns their length in bytes.
    #[inline(always)]
    pub(crate) fn list(&self, list: &mut [u8]) -> Result<usize, Failure> {
        // SAFETY: the file is open, and `list` is live and of the length given.
        let length = sys("flistxattr", unsafe {
            libc::flistxattr(self.file.as_raw_fd(), list.as_mut_ptr().cast(), list.len())
        })?;
        Ok(length as usize)
    }

    /// Sets all attributes of a file that has none.
    #[cold]
    pub(crate) fn fill(&mut self) -> Result<(), Failure> {
        self.rewind();
        for count in 1..=self.names {
            self.set("", XATTR_CREATE).map_err(|failure| self.fill_failure(count, &failure))?;
        }
        self.rewind();
        Ok(())
    }

    /// Why attribute `count` cannot be set, with advice if the file system has no room.
    fn fill_failure(&self, count: u64, failure: &Failure) -> Failure {
        let error =
            failure.errno().map_or(io::ErrorKind::Other.into(), io::Error::from_raw_os_error);
        let (names, length) = (self.names, self.value.bytes().len());
        let advice = match failure.errno() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::E2BIG | libc::ERANGE) => {
                "; lower names or value_bytes, or choose another --dir"
            }
            _ => "",
        };
        let path = self.path.display();
        Failure::from_error(
            format!("setting attribute {count} of {names} ({length} bytes) on {path}{advice}"),
            error,
        )
    }

    /// Removes all attributes of a full file.
    #[cold]
    pub(crate) fn clear(&mut self) -> Result<(), Failure> {
        self.rewind();
        for _ in 0..self.names {
            self.remove()?;
        }
        self.rewind();
        Ok(())
    }

    /// Sets one extra attribute, which stays.
    pub(crate) fn keep_one(&self) -> Result<(), Failure> {
        let value = self.value.bytes();
        // SAFETY: the file is open, the name a live C string and the value live.
        sys("fsetxattr of the attribute that stays (fewer names may help)", unsafe {
            let start = value.as_ptr().cast();
            libc::fsetxattr(self.file.as_raw_fd(), KEPT.as_ptr(), start, value.len(), XATTR_CREATE)
        })
        .map(drop)
    }

    /// Checks the number of attributes, without the extra one.
    pub(crate) fn check_count(&self, expected: u64) -> Result<(), Failure> {
        let mut list = vec![0; LIST_BYTES];
        let length = self.list(&mut list)?;
        // The system has names of its own: security.selinux and others.
        let is_ours = |name: &&[u8]| name.starts_with(b"user.") && *name != KEPT.to_bytes();
        let count = list[..length].split(|&byte| byte == 0).filter(is_ours).count() as u64;
        if count == expected {
            return Ok(());
        }
        Err(Failure::new(format!("{} has {count} attributes, not {expected}", self.path.display())))
    }

    /// Checks the values of the attributes set last, `last` of them.
    pub(crate) fn check_values(&mut self, last: u64) -> Result<(), Failure> {
        // One byte longer than a value, to notice values that are too long.
        let mut buffer = vec![0_u8; self.value.bytes().len() + 1];
        for turn in self.turn - last..self.turn {
            self.name.set(turn % self.names);
            // SAFETY: the file is open, the name a live C string, `buffer` live.
            let length = sys("fgetxattr", unsafe {
                libc::fgetxattr(
                    self.file.as_raw_fd(),
                    self.name.as_ptr(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                )
            })?;
            self.value.stamp(turn);
            if buffer[..length as usize] != *self.value.bytes() {
                let (name, path) = (self.name.text(), self.path.display());
                return Err(Failure::new(format!("{name} of {path} is not the value last set")));
            }
        }
        Ok(())
    }
}

/// The longest list of names that a file can have (XATTR_LIST_MAX).
pub(crate) const LIST_BYTES: usize = 1 << 16;

/// The attribute of [`UserXattrs::keep_one`].
const KEPT: &CStr = c"user.kept";
