//! Mounting: by mount(2), in a mount namespace of knee's own. Nobody else sees what is mounted
//! there, nobody else can keep it busy, and when knee and its worker are dead it is gone.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// How long what is open on a file system may take to be closed.
const UNMOUNT_TIME: Duration = Duration::from_secs(10);

/// Options that mount(2) takes as flags: the flag, and whether the option sets it.
const FLAGS: &[(&str, libc::c_ulong, bool)] = &[
    ("async", libc::MS_SYNCHRONOUS, false),
    ("atime", libc::MS_NOATIME, false),
    ("defaults", 0, true),
    ("diratime", libc::MS_NODIRATIME, false),
    ("dirsync", libc::MS_DIRSYNC, true),
    ("exec", libc::MS_NOEXEC, false),
    ("lazytime", LAZYTIME, true),
    ("noatime", libc::MS_NOATIME, true),
    ("nodev", libc::MS_NODEV, true),
    ("nodiratime", libc::MS_NODIRATIME, true),
    ("noexec", libc::MS_NOEXEC, true),
    ("nolazytime", LAZYTIME, false),
    ("nosuid", libc::MS_NOSUID, true),
    ("relatime", libc::MS_RELATIME, true),
    ("rw", libc::MS_RDONLY, false),
    ("strictatime", libc::MS_STRICTATIME, true),
    ("sync", libc::MS_SYNCHRONOUS, true),
];

const LAZYTIME: libc::c_ulong = 1 << 25;

/// Options that would take away what knee relies on.
const REFUSED: &[&str] = &["bind", "dev", "move", "rbind", "remount", "ro", "suid", "loop"];

/// From now on, what this process mounts is seen by it and its children alone; what others
/// mount or unmount still reaches it.
pub fn see_alone() -> Result<()> {
    static DONE: OnceLock<()> = OnceLock::new();
    if DONE.get().is_some() {
        return Ok(());
    }
    let advice = "making a mount namespace (it takes CAP_SYS_ADMIN; a container may lack it)";
    // SAFETY: plain calls; a null is allowed where mount(2) ignores its argument.
    let made = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(null(), c"/".as_ptr(), null(), libc::MS_REC | libc::MS_SLAVE, null())
                == 0
    };
    if !made {
        return Err(io::Error::last_os_error()).context(advice);
    }
    let _ = DONE.set(());
    Ok(())
}

/// Mounts; devices and set-user-id programs that lie there mean nothing.
pub fn mount(source: &str, point: &Path, kind: &str, options: &str) -> Result<()> {
    let (flags, data) = flags(options)?;
    let what = || {
        let options = if options.is_empty() { "default options" } else { options };
        format!("mounting {source} as {kind} with {options}")
    };
    let text = |bytes: &[u8]| CString::new(bytes).with_context(what);
    let (source_c, kind_c) = (text(source.as_bytes())?, text(kind.as_bytes())?);
    let (point, data) = (text(point.as_os_str().as_bytes())?, text(data.as_bytes())?);
    // SAFETY: live C strings.
    let mounted = unsafe {
        libc::mount(source_c.as_ptr(), point.as_ptr(), kind_c.as_ptr(), flags, data.as_ptr().cast())
    };
    match mounted {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ENODEV) => Err(e).with_context(|| {
                format!("{}: this kernel has no {kind} (modprobe {kind})", what())
            }),
            e if e.raw_os_error() == Some(libc::EINVAL) => Err(e)
                .with_context(|| format!("{} (dmesg says which option it does not take)", what())),
            e => Err(e).with_context(what),
        },
    }
}

/// The flags that options mean, and the options that are the file system's own.
fn flags(options: &str) -> Result<(libc::c_ulong, String)> {
    let mut flags = libc::MS_NODEV | libc::MS_NOSUID;
    let mut own = Vec::new();
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        ensure!(!REFUSED.contains(&option), "the mount option '{option}' cannot be measured with");
        match FLAGS.iter().find(|(name, ..)| *name == option) {
            Some((_, flag, true)) => flags |= flag,
            Some((_, flag, false)) => flags &= !flag,
            None => own.push(option),
        }
    }
    Ok((flags, own.join(",")))
}

/// Refuses options that knee does not give to a mount.
pub fn check(options: &str) -> Result<()> {
    flags(options).map(|_| ())
}

/// Unmounts what `source` is mounted at `point`; whether something was. What somebody else has
/// mounted there stays.
pub fn unmount(source: &str, point: &Path) -> Result<bool> {
    let newest = || probes::mounts().into_iter().rfind(|mount| mount.mount_point == point);
    let Some(found) = newest() else { return Ok(false) };
    let at = point.display();
    ensure!(found.source == source, "{at} has {} mounted, which knee did not mount", found.source);
    let path = CString::new(point.as_os_str().as_bytes())?;
    let since = Instant::now();
    loop {
        // SAFETY: a live C string.
        if unsafe { libc::umount2(path.as_ptr(), libc::UMOUNT_NOFOLLOW) } == 0 {
            return Ok(true);
        }
        match io::Error::last_os_error() {
            // Processes that were killed may still be closing their files.
            e if e.raw_os_error() == Some(libc::EBUSY) && since.elapsed() < UNMOUNT_TIME => {
                std::thread::sleep(Duration::from_millis(2));
            }
            e if e.raw_os_error() == Some(libc::EBUSY) => {
                bail!("{at} is in use: see fuser -vm {at}, then umount {at}")
            }
            e => return Err(e).with_context(|| format!("unmounting {at}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_flags(options: &str, more: libc::c_ulong, own: &str) {
        let always = libc::MS_NODEV | libc::MS_NOSUID;
        assert_eq!(flags(options).unwrap(), (always | more, own.to_string()));
    }

    #[test]
    fn options_are_flags_or_the_file_systems_own() {
        check_flags("", 0, "");
        check_flags("noatime,logbsize=262144", libc::MS_NOATIME, "logbsize=262144");
        check_flags("defaults,rw, nobarrier ,lazytime", LAZYTIME, "nobarrier");
        check_flags("noatime,atime", 0, "");
    }

    #[test]
    fn options_that_take_away_what_knee_relies_on_are_refused() {
        for option in REFUSED {
            assert!(flags(option).unwrap_err().to_string().contains(option));
        }
    }
}
