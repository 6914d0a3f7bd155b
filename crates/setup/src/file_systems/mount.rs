//! Mounting: by mount(2), in a mount namespace of knee's own. Other processes neither see what is
//! mounted there nor keep it busy, and it is gone when knee and its worker are dead.

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

/// How long processes that were killed may take to close their files on a file system.
const UNMOUNT_TIME: Duration = Duration::from_secs(10);

/// Options that mount(2) takes as flags: the flag, and whether the option sets it.
const FLAGS: &[(&str, MountFlags, bool)] = &[
    ("async", MountFlags::SYNCHRONOUS, false),
    ("atime", MountFlags::NOATIME, false),
    ("defaults", MountFlags::empty(), true),
    ("diratime", MountFlags::NODIRATIME, false),
    ("dirsync", MountFlags::DIRSYNC, true),
    ("exec", MountFlags::NOEXEC, false),
    ("lazytime", MountFlags::LAZYTIME, true),
    ("noatime", MountFlags::NOATIME, true),
    ("nodev", MountFlags::NODEV, true),
    ("nodiratime", MountFlags::NODIRATIME, true),
    ("noexec", MountFlags::NOEXEC, true),
    ("nolazytime", MountFlags::LAZYTIME, false),
    ("nosuid", MountFlags::NOSUID, true),
    ("relatime", MountFlags::RELATIME, true),
    ("rw", MountFlags::RDONLY, false),
    ("strictatime", MountFlags::STRICTATIME, true),
    ("sync", MountFlags::SYNCHRONOUS, true),
];

/// Every mount has these: device files and set-user-id programs on it have no effect.
const ALWAYS: MountFlags = MountFlags::NODEV.union(MountFlags::NOSUID);

/// Options that would break what knee relies on.
const REFUSED: &[&str] = &["bind", "dev", "move", "rbind", "remount", "ro", "suid", "loop"];

/// Moves this process into a mount namespace of its own: only it and its children see what it
/// mounts from now on, while mounts and unmounts by others still reach it.
pub fn unshare_mounts() -> Result<()> {
    static DONE: OnceLock<()> = OnceLock::new();
    if DONE.get().is_some() {
        return Ok(());
    }
    // SAFETY: unsafe only with UnshareFlags::FILES.
    let unshared = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) };
    let is_slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    unshared
        .and_then(|()| rustix::mount::mount_change("/", is_slave))
        .context("creating a mount namespace (needs CAP_SYS_ADMIN, which a container may lack)")?;
    let _ = DONE.set(());
    Ok(())
}

/// Mounts a file system; device files and set-user-id programs on it have no effect.
pub fn mount(source: &str, point: &Path, kind: &str, options: &str) -> Result<()> {
    let (flags, data) = flags(options)?;
    let action = || {
        let options = if options.is_empty() { "default options" } else { options };
        format!("mounting {source} as {kind} with {options}")
    };
    let data = CString::new(data).with_context(action)?;
    rustix::mount::mount(source, point, kind, flags, data.as_c_str())
        .map_err(io::Error::from)
        .or_else(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => Err(e).with_context(|| {
                format!("{}: this kernel has no {kind} (modprobe {kind})", action())
            }),
            Some(libc::EINVAL) => Err(e)
                .with_context(|| format!("{} (dmesg names the option that it rejects)", action())),
            _ => Err(e).with_context(action),
        })
}

/// Splits options into those that are flags of mount(2) and those of the file system itself.
fn flags(options: &str) -> Result<(MountFlags, String)> {
    let mut flags = ALWAYS;
    let mut own_options = Vec::new();
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        ensure!(
            !REFUSED.contains(&option),
            "knee cannot measure with the mount option '{option}': leave it out"
        );
        match FLAGS.iter().find(|(name, ..)| *name == option) {
            Some((_, flag, sets)) => flags.set(*flag, *sets),
            None => own_options.push(option),
        }
    }
    Ok((flags, own_options.join(",")))
}

/// Refuses mount options that knee cannot measure with.
pub fn check(options: &str) -> Result<()> {
    flags(options).map(|_| ())
}

/// Unmounts `source` from `point`; returns whether it was mounted there. A file system that
/// somebody else has mounted there stays.
pub fn unmount(source: &str, point: &Path) -> Result<bool> {
    let Some(newest) = host::mounts::at(point) else { return Ok(false) };
    let at = point.display();
    ensure!(
        newest.source == source,
        "{at} has {} mounted, which knee did not mount: unmount it first",
        newest.source
    );
    let since = Instant::now();
    loop {
        match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW).map_err(io::Error::from) {
            Ok(()) => return Ok(true),
            // Processes that were killed may still be closing their files.
            Err(e) if e.kind() == ErrorKind::ResourceBusy && since.elapsed() < UNMOUNT_TIME => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) if e.kind() == ErrorKind::ResourceBusy => {
                bail!("{at} is in use: see fuser -vm {at}, then umount {at}")
            }
            Err(e) => return Err(e).with_context(|| format!("unmounting {at}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_flags(options: &str, more: MountFlags, own: &str) {
        assert_eq!(flags(options).unwrap(), (ALWAYS | more, own.to_string()));
    }

    #[test]
    fn options_are_flags_or_the_file_systems_own() {
        check_flags("", MountFlags::empty(), "");
        check_flags("noatime,logbsize=262144", MountFlags::NOATIME, "logbsize=262144");
        check_flags("defaults,rw, nobarrier ,lazytime", MountFlags::LAZYTIME, "nobarrier");
        check_flags("noatime,atime", MountFlags::empty(), "");
    }

    #[test]
    fn options_that_take_away_what_knee_relies_on_are_refused() {
        for option in REFUSED {
            assert!(flags(option).unwrap_err().to_string().contains(option));
        }
    }
}
