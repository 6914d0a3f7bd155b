//! A process created, and collected when it has ended.
//!
//! With `how=fork` the child is a copy of the task that ends at once: the kernel copies the page tables of `size_bytes`
//! of touched memory, and the child's exit frees them. So more memory makes each operation longer, and the parent's next
//! write to each page faults. With `how=spawn` the child executes a program of a hundred bytes, by posix_spawn: nothing is
//! copied, but execve opens and maps a file, which all tasks share. Tasks share the table of process ids and the list
//! of processes, whose lock is taken at the beginning and the end of each; threads also share the address space that is
//! copied. The child runs on any CPU that the scheduler chooses among the task's.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::ptr::{null, null_mut};

use crate::mapping::{self, Mapping};
use crate::tiny_program;
use crate::{Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, sys, until_done};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Processes,
    operation: "one process created, which ends at once, and collected",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "how",
            about: "fork: a copy of the task; spawn: another program, by posix_spawn",
            default: "fork",
            kind: ParameterKind::Choice(&["fork", "spawn"]),
        },
        Parameter {
            name: "size_bytes",
            about: "touched memory of each task, rounded up to whole pages; fork copies its page tables",
            default: "4k",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
    ],
    needs: &[Need::Memory(|load| (load.tasks * mapping::size(load)) as u64)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let program = match load.values.choice("how") {
        "fork" => None,
        _ => {
            let path = load.directory.join("program");
            let error = |e| Failure::from_error(format!("writing {}", path.display()), e);
            fs::write(&path, tiny_program::bytes()).map_err(error)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(error)?;
            Some(CString::new(path.as_os_str().as_bytes()).expect("a path has no zero byte"))
        }
    };
    Ok(Box::new(Setup { program, size: mapping::size(load) }))
}

struct Setup {
    /// The program to execute; `None` to fork.
    program: Option<CString>,
    size: usize,
}

impl Prepared for Setup {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let memory = Mapping::anonymous(self.size)?;
        memory.mark_pages(mapping::page_bytes(), 1);
        Ok(Box::new(Creator { program: self.program.as_ref(), ended: 0, _memory: memory }))
    }
}

struct Creator<'a> {
    program: Option<&'a CString>,
    /// How many children ended as they should.
    ended: u64,
    _memory: Mapping,
}

/// The exit status of a child that did what it should.
const EXPECTED_STATUS: i32 = tiny_program::STATUS;

impl Task for Creator<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let child = match self.program {
            None => fork()?,
            Some(program) => spawn(program)?,
        };
        let status = wait(child)?;
        if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != EXPECTED_STATUS {
            return Err(Failure::new(format!("a child ended with wait status {status:#x}")));
        }
        self.ended += 1;
        Ok(())
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.ended == operations {
            return Ok(());
        }
        Err(Failure::new(format!("{operations} processes counted, but {} ended", self.ended)))
    }
}

/// A child that ends at once.
#[inline(always)]
fn fork() -> Result<i32, Failure> {
    // SAFETY: the child calls nothing but _exit, which is allowed even if this process has other threads.
    let child = sys("fork", unsafe { libc::fork() })?;
    if child == 0 {
        // SAFETY: no preconditions.
        unsafe { libc::_exit(EXPECTED_STATUS) };
    }
    Ok(child)
}

/// A child that executes the program.
#[inline(always)]
fn spawn(program: &CString) -> Result<i32, Failure> {
    let mut child = 0;
    let arguments = [program.as_ptr().cast_mut(), null_mut()];
    let environment = [null_mut()];
    // SAFETY: C strings and lists with a null pointer at the end, all live; the program needs no environment.
    let error = unsafe {
        libc::posix_spawn(
            &mut child,
            program.as_ptr(),
            null(),
            null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    match error {
        0 => Ok(child),
        errno => Err(Failure::from_error(
            "posix_spawn of a program in the run's directory (mounted noexec?)",
            std::io::Error::from_raw_os_error(errno),
        )),
    }
}

/// Waits until the child has ended. A signal must not leave it behind.
#[inline(always)]
fn wait(child: i32) -> Result<i32, Failure> {
    let mut status = 0;
    // SAFETY: our own child; `status` is live.
    until_done("waitpid", || unsafe { libc::waitpid(child, &mut status, 0) })?;
    Ok(status)
}
