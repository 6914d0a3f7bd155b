//! One call on a file by its path, where tasks may share the directory or the file itself.
//!
//! With `object=own` tasks share nothing that a path names; what bends the curve then is the file system's own. With
//! `object=directory` each task has a file of its own in one directory. With `object=file` all tasks use one path, and a
//! call may fail because another task has just created, renamed or unlinked what it names: that is a result of the
//! operation, counted in `effect.missed`, and not a failure of the run.
//!
//! The calls are made to run beside each other: `knee conflicts --matrix` pairs them. Two calls that run beside each other
//! and have the same `object` meet in the same directory and at the same path. A call that changes the path changes it
//! back in the next operation, so half of the operations create and the other half unlink. For one system call alone take
//! its own workload, such as stat or rename.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::files::{self, Name};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one call, with the open and close that it needs",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "call",
            about: "chmod, open, stat: that call; read, write: open, one byte, close; list: all entries of the \
                    directory; create, link, mkdir: a second name, unlinked in the next operation; rename: to a \
                    second name, and back in the next operation",
            default: "open",
            kind: ParameterKind::Choice(&[
                "chmod", "create", "link", "list", "mkdir", "open", "read", "rename", "stat",
                "write",
            ]),
        },
        Parameter {
            name: "object",
            about: "own: each task has its own directory and file; directory: all files are in one directory; file: \
                    all tasks use one path",
            default: "own",
            kind: ParameterKind::Choice(&["own", "directory", "file"]),
        },
    ],
    needs: &[Need::OpenFiles(3)],
    prepare,
};

/// What an operation does.
#[derive(Clone, Copy, PartialEq)]
enum Call {
    Chmod,
    Create,
    Link,
    List,
    Mkdir,
    Open,
    Read,
    Rename,
    Stat,
    Write,
}

/// What tasks share.
#[derive(Clone, Copy, PartialEq)]
enum Object {
    Own,
    Directory,
    File,
}

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let call = match load.values.choice("call") {
        "chmod" => Call::Chmod,
        "create" => Call::Create,
        "link" => Call::Link,
        "list" => Call::List,
        "mkdir" => Call::Mkdir,
        "open" => Call::Open,
        "read" => Call::Read,
        "rename" => Call::Rename,
        "stat" => Call::Stat,
        _ => Call::Write,
    };
    let object = match load.values.choice("object") {
        "own" => Object::Own,
        "directory" => Object::Directory,
        _ => Object::File,
    };
    let common = load.directory.join("shared");
    // Another call that runs beside this one may have made both.
    if object != Object::Own && !files::exists(&common)? {
        files::create_directory(&common)?;
    }
    let file = common.join(Name::for_task(0).text());
    if object == Object::File && !files::exists(&file)? {
        create_with_one_byte(&file)?;
    }
    let directory = |index| match object {
        Object::Own => load.task_path(index),
        Object::Directory | Object::File => common.clone(),
    };
    let directories: Vec<_> = (0..load.tasks).map(directory).collect();
    each_task(move |index| {
        let path = directories[index].clone();
        if object == Object::Own {
            files::create_directory(&path)?;
        }
        let shares_path = object == Object::File;
        let numbered = |number| {
            let mut name = Name::for_task(if shares_path { 0 } else { index });
            name.set(number);
            name
        };
        let [name, second] = [FILE, call.second_name()].map(numbered);
        // The file of `create` is the one that comes and goes.
        if !shares_path && call != Call::Create {
            create_with_one_byte(&path.join(name.text()))?;
        }
        Ok(Caller {
            directory: files::open_directory(&path)?,
            path,
            call,
            shares_path,
            name,
            second,
            // A shared file exists at first.
            is_away: shares_path && call == Call::Create,
            succeeded: 0,
            missed: 0,
            seen: 0,
        })
    })
}

fn create_with_one_byte(path: &Path) -> Result<(), Failure> {
    let written = files::create(path)?.write_all_at(&[0], 0);
    written.map_err(|e| Failure::from_error(format!("writing {}", path.display()), e))
}

/// The number in the name of the file.
const FILE: u64 = 0;

impl Call {
    /// The number in the second name: another one for each call, so that no call removes what another one needs.
    fn second_name(self) -> u64 {
        match self {
            Call::Rename => 1,
            Call::Link => 2,
            Call::Mkdir => 3,
            _ => FILE,
        }
    }
}

struct Caller {
    path: PathBuf,
    directory: File,
    call: Call,
    shares_path: bool,
    name: Name,
    second: Name,
    /// Whether the next operation changes back what the last one changed.
    is_away: bool,
    /// Operations whose call succeeded.
    succeeded: u64,
    /// Operations whose call did not find what it names, or found it there already.
    missed: u64,
    /// What the calls returned, added up: one for each operation that looked at the file.
    seen: u64,
}

impl Task for Caller {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let called = self.call();
        self.is_away = !self.is_away;
        match called {
            Ok(()) => self.succeeded += 1,
            Err(failure) => self.miss(failure)?,
        }
        Ok(())
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let (succeeded, missed) = (self.succeeded, self.missed);
        if succeeded + missed != operations {
            return Err(Failure::new(format!(
                "{operations} operations counted, but {succeeded} calls succeeded and {missed} missed"
            )));
        }
        // Where tasks share the path, another one may have changed what is there.
        if self.shares_path { Ok(()) } else { self.verify_own(operations) }
    }

    fn effects(&self) -> Vec<(&'static str, f64)> {
        vec![("missed", self.missed as f64)]
    }
}

impl Caller {
    #[inline(always)]
    fn call(&mut self) -> Result<(), Failure> {
        match self.call {
            Call::Create if !self.is_away => {
                self.open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL).map(drop)
            }
            Call::Create => self.unlink(&self.name, 0),
            Call::Link if !self.is_away => self.link(),
            Call::Link => self.unlink(&self.second, 0),
            Call::Mkdir if !self.is_away => self.mkdir(),
            Call::Mkdir => self.unlink(&self.second, libc::AT_REMOVEDIR),
            Call::Rename => self.rename(),
            Call::Chmod => self.chmod(),
            Call::List => self.list(),
            Call::Open => {
                drop(self.open(libc::O_RDONLY)?);
                self.seen += 1;
                Ok(())
            }
            Call::Read => self.read(),
            Call::Stat => self.stat(),
            Call::Write => self.write(),
        }
    }

    #[inline(always)]
    fn unlink(&self, name: &Name, flags: i32) -> Result<(), Failure> {
        // SAFETY: the directory is open and the name a live C string.
        let done = unsafe { libc::unlinkat(self.directory.as_raw_fd(), name.as_ptr(), flags) };
        sys("unlinking a name", done).map(drop)
    }

    #[inline(always)]
    fn link(&self) -> Result<(), Failure> {
        let at = self.directory.as_raw_fd();
        let (name, second) = (self.name.as_ptr(), self.second.as_ptr());
        // SAFETY: the directory is open and the names are live C strings.
        sys("linking a file", unsafe { libc::linkat(at, name, at, second, 0) }).map(drop)
    }

    #[inline(always)]
    fn mkdir(&self) -> Result<(), Failure> {
        let (at, name) = (self.directory.as_raw_fd(), self.second.as_ptr());
        // SAFETY: the directory is open and the name a live C string.
        sys("creating a directory", unsafe { libc::mkdirat(at, name, 0o700) }).map(drop)
    }

    #[inline(always)]
    fn rename(&self) -> Result<(), Failure> {
        let at = self.directory.as_raw_fd();
        let (name, second) = (self.name.as_ptr(), self.second.as_ptr());
        let (from, to) = if self.is_away { (second, name) } else { (name, second) };
        // SAFETY: the directory is open and the names are live C strings.
        sys("renaming a file", unsafe { libc::renameat(at, from, at, to) }).map(drop)
    }

    #[inline(always)]
    fn chmod(&self) -> Result<(), Failure> {
        let mode = if self.is_away { 0o600 } else { 0o640 };
        let (at, name) = (self.directory.as_raw_fd(), self.name.as_ptr());
        // SAFETY: the directory is open and the name a live C string.
        sys("changing a file's mode", unsafe { libc::fchmodat(at, name, mode, 0) }).map(drop)
    }

    #[inline(always)]
    fn stat(&mut self) -> Result<(), Failure> {
        let (at, name) = (self.directory.as_raw_fd(), self.name.as_ptr());
        // SAFETY: stat is plain data; zero is valid.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the directory is open, the name a live C string and `stat` ours.
        sys("stat of a file", unsafe { libc::fstatat(at, name, &raw mut stat, 0) })?;
        self.seen += stat.st_size as u64;
        Ok(())
    }

    #[inline(always)]
    fn write(&self) -> Result<(), Failure> {
        let byte = (self.succeeded as u8).wrapping_add(1);
        let written = self.open(libc::O_WRONLY)?.write_at(&[byte], 0);
        written.map(drop).map_err(|e| Failure::from_error("writing a byte", e))
    }

    #[inline(always)]
    fn open(&self, flags: i32) -> Result<File, Failure> {
        let (at, name) = (self.directory.as_raw_fd(), self.name.as_ptr());
        // SAFETY: the directory is open and the name a live C string.
        let file = sys("opening a file", unsafe {
            libc::openat(at, name, flags | libc::O_CLOEXEC, 0o600)
        })?;
        // SAFETY: just opened, owned by nothing else.
        Ok(unsafe { File::from_raw_fd(file) })
    }

    #[inline(always)]
    fn read(&mut self) -> Result<(), Failure> {
        let read = self.open(libc::O_RDONLY)?.read_at(&mut [0], 0);
        self.seen += read.map_err(|e| Failure::from_error("reading a byte", e))? as u64;
        Ok(())
    }

    /// Reads the directory from its start to its end.
    #[inline(always)]
    fn list(&mut self) -> Result<(), Failure> {
        let directory = self.directory.as_raw_fd();
        // Words, because entries are aligned to 8 bytes.
        let mut entries = [0_u64; 256];
        // SAFETY: the directory is open.
        sys("seeking to the start of a directory", unsafe {
            libc::lseek(directory, 0, libc::SEEK_SET)
        })?;
        let mut read_bytes = 0;
        loop {
            // SAFETY: the directory is open, and `entries` has the length given.
            let read = sys("getdents64 of a directory", unsafe {
                let room = size_of_val(&entries);
                libc::syscall(libc::SYS_getdents64, directory, entries.as_mut_ptr(), room)
            })?;
            if read == 0 {
                self.seen += u64::from(read_bytes > 0);
                return Ok(());
            }
            read_bytes += read;
        }
    }

    /// Another task has created, renamed or unlinked what the call names. Other errors fail the run.
    #[cold]
    fn miss(&mut self, failure: Failure) -> Result<(), Failure> {
        match failure.errno() {
            Some(libc::ENOENT | libc::EEXIST) if self.shares_path => {
                self.missed += 1;
                Ok(())
            }
            _ => Err(failure),
        }
    }

    /// Checks the effect of all calls on what no other task changes.
    fn verify_own(&self, operations: u64) -> Result<(), Failure> {
        let (name, second) = (self.path.join(self.name.text()), self.path.join(self.second.text()));
        let is_odd = operations % 2 == 1;
        let is_right = match self.call {
            Call::Chmod => {
                let mode = if is_odd { 0o640 } else { 0o600 };
                operations == 0 || files::metadata(&files::open(&name)?)?.mode() & 0o777 == mode
            }
            Call::Create | Call::Link | Call::Mkdir => files::exists(&second)? == is_odd,
            Call::Rename => files::exists(&second)? == is_odd && files::exists(&name)? != is_odd,
            Call::List | Call::Open | Call::Read | Call::Stat => self.seen == operations,
            Call::Write => {
                let mut byte = [0];
                let read = files::open(&name)?.read_at(&mut byte, 0);
                read.map_err(|e| Failure::from_error("reading back the byte", e))?;
                byte == [operations as u8]
            }
        };
        if is_right {
            return Ok(());
        }
        let path = name.display();
        Err(Failure::new(format!("{path} is not as {operations} operations leave it")))
    }
}
