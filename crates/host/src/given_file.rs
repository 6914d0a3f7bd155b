//! Files that the user named: `knee record import RESULTS`, `knee record import <(ssh …)`, a perf.data. Regular files of
//! anybody, and pipes and terminals of this user's, since whoever names one wants to wait for it.
//!
//! For files that lie beside others in a folder, such as those of a record: [`crate::held_folder`].

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::AtFlags;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::fs::{fcntl_getfl, fcntl_setfl, fstat, openat, statat};
use rustix::io::Errno;

use crate::given_path::{Place, walk};
use crate::held_folder::{Limit, not_regular, too_long};
use crate::signals;
use crate::trusted_users::TrustedUsers;

const RIGHT: &str = "is it the right file?";

/// Reads a file that the user named, to its end.
pub fn read(path: &Path, limit: Limit) -> Result<Vec<u8>> {
    let (file, found) = open_any(path)?;
    read_open(file, &found, path, limit)
}

/// Reads a file of UTF-8 that the user named, and what `judge` finds about it while it is open: another file may have
/// its name a moment later.
pub fn read_judged<T>(
    path: &Path,
    limit: Limit,
    judge: impl FnOnce(&File) -> Result<T>,
) -> Result<(String, T)> {
    let (file, found) = open_any(path)?;
    let judged = judge(&file)?;
    Ok((utf8(read_open(file, &found, path, limit)?, path)?, judged))
}

fn read_open(mut file: File, found: &Stat, path: &Path, limit: Limit) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    if is_regular(found) {
        ensure!(
            found.st_size as u64 <= limit.bytes,
            too_long(path, found.st_size as u64, limit, RIGHT)
        );
        file.by_ref().take(limit.bytes + 1).read_to_end(&mut text)
    } else {
        read_what_comes(&mut file, limit.bytes + 1, &mut text)
    }
    .with_context(|| format!("reading {}", path.display()))?;
    ensure!(text.len() as u64 <= limit.bytes, too_long(path, text.len() as u64, limit, RIGHT));
    Ok(text)
}

/// Reads a file of UTF-8 that the user named, to its end.
pub fn read_text(path: &Path, limit: Limit) -> Result<String> {
    utf8(read(path, limit)?, path)
}

fn utf8(text: Vec<u8>, path: &Path) -> Result<String> {
    String::from_utf8(text).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Opens a regular file that the user named.
pub fn open(path: &Path, limit: Limit) -> Result<File> {
    let (file, found) = open_any(path)?;
    if !is_regular(&found) {
        return Err(not_regular(path, FileType::from_raw_mode(found.st_mode), RIGHT));
    }
    ensure!(
        found.st_size as u64 <= limit.bytes,
        too_long(path, found.st_size as u64, limit, RIGHT)
    );
    Ok(file)
}

/// Opens a file that the user named to write to, empty or made anew; or a pipe or terminal of this user's.
pub fn create(path: &Path) -> Result<File> {
    let creating = || format!("creating {}", path.display());
    let Some(place) = walk(path, None)? else { return Err(Errno::NOENT).with_context(creating) };
    let (look, link) = follow(&place);
    match statat(&place.folder, &place.name, look) {
        Err(Errno::NOENT) => (),
        found => check(path, &found.with_context(creating)?)?,
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    Ok(openat(&place.folder, &place.name, flags | link, mode).with_context(creating)?.into())
}

fn is_regular(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

fn open_any(path: &Path) -> Result<(File, Stat)> {
    let opening = || format!("opening {}", path.display());
    let Some(place) = walk(path, None)? else {
        return Err(Errno::NOENT).with_context(opening);
    };
    let (look, link) = follow(&place);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | link;
    // Opening a device may already do something, so it is looked at first.
    check(path, &statat(&place.folder, &place.name, look).with_context(opening)?)?;
    let opened: OwnedFd =
        openat(&place.folder, &place.name, flags, Mode::empty()).with_context(opening)?;
    let found = fstat(&opened)?;
    check(path, &found)?;
    fcntl_setfl(&opened, fcntl_getfl(&opened)? - OFlags::NONBLOCK)?;
    Ok((opened.into(), found))
}

/// What is open already is followed to, whatever it is; anything else is no link any more.
fn follow(place: &Place) -> (AtFlags, OFlags) {
    if place.is_open {
        (AtFlags::empty(), OFlags::empty())
    } else {
        (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW)
    }
}

fn check(path: &Path, found: &Stat) -> Result<()> {
    let kind = FileType::from_raw_mode(found.st_mode);
    let may_wait = matches!(kind, FileType::Fifo | FileType::CharacterDevice);
    match (kind, may_wait && TrustedUsers::current().contains(found.st_uid)) {
        (FileType::RegularFile, _) | (_, true) => Ok(()),
        _ => Err(not_regular(path, kind, RIGHT)),
    }
}

/// How long a signal that asks knee to end may go unseen.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Reads from a pipe until its writers have closed it. Before the first of them has opened it, a read would
/// say that it has ended; poll(2) waits.
fn read_what_comes(file: &mut File, bytes: u64, text: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut piece = vec![0; 1 << 16];
    while (text.len() as u64) < bytes {
        if signals::received().is_some() {
            return Err(std::io::Error::new(ErrorKind::Interrupted, "a signal asked knee to end"));
        }
        let mut ready = [PollFd::new(&*file, PollFlags::IN)];
        match poll(&mut ready, Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => continue,
            ready => ready?,
        };
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => (),
            Err(e) => return Err(e),
        }
    }
    Ok(text.len())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::{fs, thread};

    use rustix::fs::{CWD, mkfifoat};

    use super::*;

    const LIMIT: Limit = Limit { bytes: 1 << 20, what: "a result" };

    #[test]
    fn a_pipe_that_the_user_named_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        let text = "line\n".repeat(50_000);
        let written = thread::scope(|scope| {
            let writer = || fs::write(&path, &text).unwrap();
            scope.spawn(writer);
            read_text(&path, LIMIT).unwrap()
        });
        assert!(written == text);
        let why = format!("{:#}", open(&path, LIMIT).unwrap_err());
        assert!(why.contains("is a pipe"), "{why}");
        let (from, mut to) = std::io::pipe().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || to.write_all(b"anonymous").unwrap());
            let path = format!("/proc/self/fd/{}", from.as_raw_fd());
            assert_eq!(read(Path::new(&path), LIMIT).unwrap(), b"anonymous");
        });
    }

    #[test]
    fn a_file_of_others_is_not_overwritten_through_their_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("page"), folder.path().join("link"));
        create(&path).unwrap().write_all(b"long").unwrap();
        symlink(&path, &link).unwrap();
        create(&link).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        if crate::paths::user() != 0 {
            return eprintln!("skipped: only root may give a link away");
        }
        std::os::unix::fs::lchown(&link, Some(64_321), None).unwrap();
        let why = format!("{:#}", create(&link).unwrap_err());
        assert!(why.contains("of user 64321") && fs::read(&path).unwrap() == b"new", "{why}");
    }

    #[test]
    fn what_has_no_end_is_read_to_the_limit() {
        let why = format!("{:#}", read(Path::new("/dev/zero"), LIMIT).unwrap_err());
        assert!(why.contains("more than the 1 MiB that a result may have"), "{why}");
        assert_eq!(read(Path::new("/dev/null"), LIMIT).unwrap(), b"");
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("long");
        File::create(&long).unwrap().set_len(1 << 40).unwrap();
        symlink(&long, folder.path().join("link")).unwrap();
        let why = format!("{:#}", read(&folder.path().join("link"), LIMIT).unwrap_err());
        assert!(why.contains("has 1024 GiB"), "{why}");
        let why = format!("{:#}", read(folder.path(), LIMIT).unwrap_err());
        assert!(why.contains("is a folder"), "{why}");
        let none = open(&folder.path().join("none"), LIMIT).unwrap_err();
        assert!(none.root_cause().to_string().contains("No such file"), "{none:#}");
    }
}
