//! The mark of a workload's task. The task makes it itself, by running a BPF program once through
//! bpf(2); processes and threads that it starts later inherit it.

use std::io;

/// Marks tasks as the workload's. Also valid in forks of the process that made it.
#[derive(Clone, Copy, Debug)]
pub struct Marker {
    pub(super) program: i32,
}

// include/uapi/linux/bpf.h
const BPF_PROG_TEST_RUN: libc::c_int = 10;

/// The part of union bpf_attr that BPF_PROG_TEST_RUN needs.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    return_value: u32,
    data_bytes_in: u32,
    data_bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

impl Marker {
    /// The descriptor of the BPF program, for a program that marks its own tasks.
    pub fn descriptor(self) -> i32 {
        self.program
    }

    /// Marks the calling task. Makes only plain system calls, so it may be called between fork
    /// and exec.
    pub fn mark(self) -> io::Result<()> {
        let mut run = TestRun { program: self.program as u32, ..TestRun::default() };
        // SAFETY: the attributes are live and their length is given.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut run, size_of::<TestRun>())
        };
        match (result, run.return_value) {
            (0, 1) => Ok(()),
            (0, _) => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
