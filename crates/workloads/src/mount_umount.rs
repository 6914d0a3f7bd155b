//! A file system mounted and unmounted, in a mount namespace of the task's own.
//!
//! The namespace is the task's own and ends with it, and no mount of it reaches the host. Still all namespaces share the
//! semaphore for changes of mount trees, the lock of the mount hash table, and with `kind=tmpfs` what a new super block
//! needs; unmounting waits for RCU. It is the load of a host that starts and stops containers. Needs root.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null;

use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    files, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one mount over the task's own directory and one umount",
    forms: Forms::Both,
    parameters: &[Parameter {
        name: "kind",
        about: "tmpfs: a new file system; bind: another place of the task's directory",
        default: "tmpfs",
        kind: ParameterKind::Choice(&["tmpfs", "bind"]),
    }],
    needs: &[Need::Kernel("the permission to mount (CAP_SYS_ADMIN: run as root)", may_mount)],
    prepare,
};

/// Whether this process has CAP_SYS_ADMIN.
fn may_mount() -> std::io::Result<()> {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    if effective.is_some_and(|bits| bits & CAP_SYS_ADMIN != 0) {
        return Ok(());
    }
    Err(std::io::Error::from_raw_os_error(libc::EPERM))
}

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let paths = load.task_paths();
    let bind = load.values.choice("kind") == "bind";
    each_task(move |index| {
        let path = &paths[index];
        files::create_directory(path)?;
        enter_namespace()?;
        let directory = CString::new(path.as_os_str().as_bytes()).expect("a path has no zero byte");
        Ok(Mounter { mounts_before: mounts()?, directory, bind })
    })
}

/// A mount namespace for the calling thread alone, from which nothing reaches the host.
fn enter_namespace() -> Result<(), Failure> {
    // SAFETY: changes only the calling thread's view of mounts, and its current directory's sharing.
    sys("unshare of the mount namespace", unsafe {
        libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS)
    })?;
    // SAFETY: C strings; the change is within the namespace.
    sys("making its mounts private", unsafe {
        libc::mount(null(), c"/".as_ptr(), null(), libc::MS_REC | libc::MS_PRIVATE, null())
    })
    .map(drop)
}

/// The number of mounts that the calling thread sees.
fn mounts() -> Result<usize, Failure> {
    let text = fs::read_to_string("/proc/thread-self/mountinfo");
    let text = text.map_err(|e| Failure::from_error("reading /proc/thread-self/mountinfo", e))?;
    Ok(text.lines().count())
}

struct Mounter {
    directory: CString,
    bind: bool,
    mounts_before: usize,
}

impl Task for Mounter {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.mount()?;
        self.unmount()
    }

    /// One more mount is seen, and after it there are as many as in the beginning.
    fn verify(&mut self, _: u64) -> Result<(), Failure> {
        self.mount()?;
        let during = mounts()?;
        self.unmount()?;
        let after = mounts()?;
        if (during, after) == (self.mounts_before + 1, self.mounts_before) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} mounts before, {during} with one more and {after} in the end",
            self.mounts_before
        )))
    }
}

impl Mounter {
    #[inline(always)]
    fn mount(&self) -> Result<(), Failure> {
        let directory = self.directory.as_ptr();
        let (source, kind, flags) = if self.bind {
            (directory, null(), libc::MS_BIND)
        } else {
            (c"knee".as_ptr(), c"tmpfs".as_ptr(), 0)
        };
        // SAFETY: live C strings; tmpfs needs no data.
        sys("mount", unsafe { libc::mount(source, directory, kind, flags, null()) }).map(drop)
    }

    #[inline(always)]
    fn unmount(&self) -> Result<(), Failure> {
        // SAFETY: a live C string.
        sys("umount", unsafe { libc::umount2(self.directory.as_ptr(), libc::UMOUNT_NOFOLLOW) })
            .map(drop)
    }
}
