//! A file with user extended attributes: what all xattr workloads work on. They differ in
//! what they do with the attributes.
//!
//! An attribute can be set as new or removed only once, so those two workloads work on a
//! file that goes from empty to full and back, one way inside counted operations, the
//! other way in one go. It never becomes quite empty: one attribute more, set when the
//! file is full, stays, because file systems free and allocate a block with the last
//! and first attribute in it (ext4, beyond those in the inode), and that would drown the
//! rest.

use std::ffi::{CStr, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use libc::XATTR_CREATE;

use crate::files::{self, Name};
use crate::stamp::Stamped;
use crate::{Failure, Kind, Load, Need, Parameter, Prepared, Task, sys};

/// The parameters of all xattr workloads. The defaults fit into one block of 1 KiB, the
/// least that ext4 may have for them.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "names",
        about: "attributes of each file; ext4 has room for about one block of them",
        default: "16",
        // More names would not fit into the 64 KiB that one listxattr can return.
        kind: Kind::Number { min: 1, max: 4096 },
    },
    Parameter {
        name: "value_bytes",
        about: "length of each value",
        default: "32",
        // Shorter ones could be the same in two turns or two tasks.
        kind: Kind::Number { min: 8, max: 1 << 16 },
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

/// Makes a task of a file that has all attributes.
pub(crate) type Make = fn(Attributes) -> Result<Box<dyn Task>, Failure>;

/// A workload in which each task works on the attributes of a file of its own.
pub(crate) fn prepare(load: &Load, make: Make) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Prepare {
        paths: (0..load.tasks).map(|index| load.task_path(index)).collect(),
        names: load.values.number("names"),
        value_bytes: load.values.number("value_bytes") as usize,
        make,
    }))
}

struct Prepare {
    paths: Vec<PathBuf>,
    names: u64,
    value_bytes: usize,
    make: Make,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        let mut attributes = Attributes {
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
pub(crate) struct Attributes {
    file: File,
    path: PathBuf,
    /// Attributes that the file has when it is full.
    pub(crate) names: u64,
    /// Of the next attribute; one too far at the end of a pass, until [`Self::rewind`].
    name: Name,
    value: Stamped,
    /// Attributes set so far.
    turn: u64,
}

impl Attributes {
    /// The next attribute is the first again.
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

    /// Lists all names into `list`; the length of what it holds then.
    #[inline(always)]
    pub(crate) fn list(&self, list: &mut [u8]) -> Result<usize, Failure> {
        // SAFETY: the file is open, and `list` is as long as said.
        let length = sys("flistxattr", unsafe {
            libc::flistxattr(self.file.as_raw_fd(), list.as_mut_ptr().cast(), list.len())
        })?;
        Ok(length as usize)
    }

    /// Sets all attributes; none is there yet.
    #[cold]
    pub(crate) fn fill(&mut self) -> Result<(), Failure> {
        self.rewind();
        for count in 1..=self.names {
            self.set("", XATTR_CREATE).map_err(|failure| self.full(count, &failure))?;
        }
        self.rewind();
        Ok(())
    }

    fn full(&self, count: u64, failure: &Failure) -> Failure {
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
        Failure::of(
            format!("setting attribute {count} of {names} ({length} bytes) on {path}{advice}"),
            error,
        )
    }

    /// Removes all attributes; all are there.
    #[cold]
    pub(crate) fn clear(&mut self) -> Result<(), Failure> {
        self.rewind();
        for _ in 0..self.names {
            self.remove()?;
        }
        self.rewind();
        Ok(())
    }

    /// Sets one attribute more, which stays.
    pub(crate) fn keep_one(&self) -> Result<(), Failure> {
        let value = self.value.bytes();
        // SAFETY: the file is open, the name a live C string and the value live.
        sys("fsetxattr of the attribute that stays (fewer names may help)", unsafe {
            let start = value.as_ptr().cast();
            libc::fsetxattr(self.file.as_raw_fd(), KEPT.as_ptr(), start, value.len(), XATTR_CREATE)
        })
        .map(drop)
    }

    /// Checks that the file has as many attributes and no more.
    pub(crate) fn check_count(&self, expected: u64) -> Result<(), Failure> {
        let mut list = vec![0; LIST_BYTES];
        let length = self.list(&mut list)?;
        // The system has names of its own: security.selinux and others.
        let ours = |name: &&[u8]| name.starts_with(b"user.") && *name != KEPT.to_bytes();
        let found = list[..length].split(|&byte| byte == 0).filter(ours).count() as u64;
        if found == expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} has {found} attributes and not {expected}",
            self.path.display()
        )))
    }

    /// Checks that the file has the values last set, this many.
    pub(crate) fn check_values(&mut self, last: u64) -> Result<(), Failure> {
        // One byte more than it should be, to see that it is not longer.
        let mut found = vec![0_u8; self.value.bytes().len() + 1];
        for turn in self.turn - last..self.turn {
            self.name.set(turn % self.names);
            // SAFETY: the file is open, the name a live C string and `found` as long as said.
            let length = sys("fgetxattr", unsafe {
                libc::fgetxattr(
                    self.file.as_raw_fd(),
                    self.name.as_ptr(),
                    found.as_mut_ptr().cast(),
                    found.len(),
                )
            })?;
            self.value.stamp(turn);
            if found[..length as usize] != *self.value.bytes() {
                let (name, path) = (self.name.text(), self.path.display());
                return Err(Failure::new(format!("{name} of {path} is not what was last set")));
            }
        }
        Ok(())
    }
}

/// The longest list that a file can have (XATTR_LIST_MAX).
pub(crate) const LIST_BYTES: usize = 1 << 16;

/// The attribute of [`Attributes::keep_one`].
const KEPT: &CStr = c"user.kept";
