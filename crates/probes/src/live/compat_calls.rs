//! System calls of 32-bit programs on x86-64, as calls of this architecture.

/// `COMPAT_CALLS` of live.bpf.c.
pub const COMPAT_CALLS: usize = 512;

/// A call that waits for nothing that is told apart: the last number that the BPF programs take for a call.
pub const OTHER: i16 = 1023;

/// From here on, calls have the same numbers on all architectures (include/uapi/asm-generic/unistd.h).
const SAME: usize = 424;

/// The calls in which threads wait (arch/x86/entry/syscalls/syscall_32.tbl).
const CALLS: &[(usize, libc::c_long)] = &[
    (3, libc::SYS_read),
    (4, libc::SYS_write),
    (7, libc::SYS_wait4),
    (36, libc::SYS_sync),
    (93, libc::SYS_ftruncate),
    (114, libc::SYS_wait4),
    (118, libc::SYS_fsync),
    (143, libc::SYS_flock),
    (144, libc::SYS_msync),
    (145, libc::SYS_readv),
    (146, libc::SYS_writev),
    (148, libc::SYS_fdatasync),
    (162, libc::SYS_nanosleep),
    (168, libc::SYS_ppoll),
    (177, libc::SYS_rt_sigtimedwait),
    (179, libc::SYS_rt_sigsuspend),
    (180, libc::SYS_pread64),
    (181, libc::SYS_pwrite64),
    (221, libc::SYS_fcntl),
    (240, libc::SYS_futex),
    (256, libc::SYS_epoll_pwait),
    (267, libc::SYS_clock_nanosleep),
    (284, libc::SYS_waitid),
    (308, libc::SYS_pselect6),
    (309, libc::SYS_ppoll),
    (319, libc::SYS_epoll_pwait),
    (324, libc::SYS_fallocate),
    (333, libc::SYS_preadv),
    (334, libc::SYS_pwritev),
    (344, libc::SYS_syncfs),
    (362, libc::SYS_connect),
    (364, libc::SYS_accept4),
    (369, libc::SYS_sendto),
    (370, libc::SYS_sendmsg),
    (371, libc::SYS_recvfrom),
    (372, libc::SYS_recvmsg),
    (407, libc::SYS_clock_nanosleep),
    (413, libc::SYS_pselect6),
    (414, libc::SYS_ppoll),
    (417, libc::SYS_recvmmsg),
    (421, libc::SYS_rt_sigtimedwait),
    (422, libc::SYS_futex),
];

/// The call of this architecture by the number of one of a 32-bit program.
pub fn table() -> [i16; COMPAT_CALLS] {
    let mut table = [OTHER; COMPAT_CALLS];
    for (number, call) in table.iter_mut().enumerate().skip(SAME) {
        *call = number as i16;
    }
    for (number, call) in CALLS {
        table[*number] = i16::try_from(*call).unwrap_or(OTHER);
    }
    table
}
