//! Which kernel lock a thread waits for, by the function of /proc/PID/task/TID/wchan: the kernel's function that waits,
//! without those of its locks themselves.
//!
//! A thread that waits uninterruptibly waits for storage, for memory or for such a lock.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};

/// A kernel lock that a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelWait {
    /// A number that waits for the same lock share, as far as the function tells.
    pub lock: u64,
    pub function: String,
}

/// Functions that take the lock of a process's memory map: mmap_lock.
const OF_MEMORY_MAPS: [&str; 12] = [
    "lock_mm_and_find_vma",
    "do_user_addr_fault",
    "vm_mmap_pgoff",
    "__vm_munmap",
    "__do_sys_brk",
    "__x64_sys_brk",
    "do_mprotect_pkey",
    "do_madvise",
    "madvise_",
    "mmap_read_lock",
    "mmap_write_lock",
    "__do_sys_mremap",
];

/// Functions that take the lock of a directory or of a file.
const OF_FILES: [&str; 17] = [
    "filename_create",
    "start_creating",
    "start_dirop",
    "do_unlinkat",
    "do_rmdir",
    "do_renameat2",
    "lock_rename",
    "open_last_lookups",
    "path_openat",
    "lookup_slow",
    "iterate_dir",
    "lookup_one",
    "fdget_pos",
    "__fdget_pos",
    "xfs_ilock",
    "btrfs_inode_lock",
    "chmod_common",
];

/// Ends of the names of functions that take the lock of a file, one of each file system: `shmem_file_write_iter`.
const ENDS_OF_FILES: [&str; 4] = ["_write_iter", "_buffered_write", "_fallocate", "_setattr"];

/// The kernel lock that a thread waits for, if it is one that its function tells.
pub fn kernel_wait(process: u32, task: u32) -> Option<KernelWait> {
    let function = fs::read_to_string(format!("/proc/{process}/task/{task}/wchan")).ok()?;
    of_function(process, function.trim())
}

fn of_function(process: u32, function: &str) -> Option<KernelWait> {
    let is_one_of = |names: &[&str]| names.iter().any(|name| function.starts_with(name));
    let mut hasher = DefaultHasher::new();
    if is_one_of(&OF_MEMORY_MAPS) {
        process.hash(&mut hasher);
    } else if is_one_of(&OF_FILES) || ENDS_OF_FILES.iter().any(|end| function.ends_with(end)) {
        function.hash(&mut hasher);
    } else {
        return None;
    }
    Some(KernelWait { lock: hasher.finish() | 1, function: function.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_tell_locks_from_storage() {
        let lock = |process, function| of_function(process, function).map(|wait| wait.lock);
        assert_eq!(lock(1, "__vm_munmap"), lock(1, "lock_mm_and_find_vma"));
        assert_ne!(lock(1, "__vm_munmap"), lock(2, "__vm_munmap"));
        assert_eq!(lock(1, "do_unlinkat"), lock(2, "do_unlinkat"));
        assert_eq!(lock(1, "shmem_fallocate"), lock(2, "shmem_fallocate"));
        assert_eq!(lock(1, "folio_wait_bit_common"), None);
        assert_eq!(lock(1, "jbd2_log_wait_commit"), None);
        assert_eq!(lock(1, "0"), None);
    }
}
