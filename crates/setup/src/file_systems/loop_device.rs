//! Loop devices: block devices that show a file, by the ioctls of loop(4). losetup(8) would not do:
//! it chooses a device itself, but the journal must name the device before it is bound.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::ownership::FileIdentity;

/// The device that hands out loop devices.
pub const CONTROL: &str = "/dev/loop-control";

// linux/loop.h
const LOOP_CLR_FD: libc::Ioctl = 0x4c01;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const NAME_BYTES: usize = 64;

/// How long the kernel may take to free a device after its last user is gone.
const RELEASE_TIME: Duration = Duration::from_secs(10);

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; NAME_BYTES],
    crypt_name: [u8; NAME_BYTES],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// Finds a free device, but does not reserve it: another process may bind it first.
pub fn free() -> Result<PathBuf> {
    let control = open_control().with_context(|| format!("opening {CONTROL}"))?;
    // SAFETY: takes no argument.
    match unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) } {
        number if number >= 0 => Ok(PathBuf::from(format!("/dev/loop{number}"))),
        _ => Err(io::Error::last_os_error()).context("finding a free loop device"),
    }
}

/// Opens [`CONTROL`].
pub fn open_control() -> io::Result<File> {
    File::options().read(true).write(true).open(CONTROL)
}

/// Whether this is the name of a loop device.
pub fn is_name(device: &Path) -> bool {
    let number = device.to_str().and_then(|name| name.strip_prefix("/dev/loop"));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Binds an image to a device, through the page cache, until [`release`]. Returns `false` if another
/// process has taken the device.
pub fn bind(device: &Path, image: &File, path: &Path) -> Result<bool> {
    let opened = open(device).with_context(|| format!("opening {}", device.display()))?;
    // SAFETY: plain data, for which zero is valid: no offset, no limit, no flags (neither
    // autoclear nor direct IO), the default block size.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = image.as_raw_fd() as u32;
    config.info.file_name = name(path);
    // SAFETY: `config` is live and laid out as the kernel's.
    match unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_CONFIGURE, &config) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::EBUSY) => Ok(false),
            e => Err(e).with_context(|| format!("binding an image to {}", device.display())),
        },
    }
}

/// Frees a device if it still shows knee's image, and waits until it is free. Returns whether it
/// showed the image.
pub fn release(device: &Path, image: &Path, identity: FileIdentity) -> Result<bool> {
    let shows_ours = || open(device).ok().filter(|opened| shows(opened, image, identity));
    let Some(opened) = shows_ours() else { return Ok(false) };
    // The kernel frees it once nobody has it open; an unmount may still be in progress.
    // SAFETY: takes no argument.
    if unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_CLR_FD) } != 0 {
        let error = io::Error::last_os_error();
        // Another process has just freed it.
        if error.raw_os_error() != Some(libc::ENXIO) {
            return Err(error).with_context(|| format!("freeing {}", device.display()));
        }
    }
    drop(opened);
    let since = Instant::now();
    while shows_ours().is_some() {
        if since.elapsed() > RELEASE_TIME {
            bail!(
                "{} is still in use: find its user with lsof {0}, then losetup -d {0}",
                device.display()
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

/// Whether a device shows this image and was bound by knee, with the name that knee gives it.
fn shows(opened: &File, image: &Path, identity: FileIdentity) -> bool {
    // SAFETY: plain data, for which zero is valid.
    let mut info: LoopInfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is live and laid out as the kernel's.
    let bound = unsafe { libc::ioctl(opened.as_raw_fd(), LOOP_GET_STATUS64, &mut info) } == 0;
    bound
        && (info.device, info.inode) == (identity.device, identity.inode)
        && info.file_name == name(image)
}

/// The name of an image that the kernel keeps with the device: the end of its path, which contains
/// the id of its directory.
fn name(path: &Path) -> [u8; NAME_BYTES] {
    let bytes = path.as_os_str().as_bytes();
    let end = &bytes[bytes.len().saturating_sub(NAME_BYTES - 1)..];
    let mut name = [0; NAME_BYTES];
    name[..end.len()].copy_from_slice(end);
    name
}

fn open(device: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(device)
}

/// Creates a sparse file of this size that only this user can read.
pub fn make_image(path: &Path, bytes: u64) -> Result<File> {
    let make = || {
        let image = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        image.set_len(bytes).inspect_err(|_| drop(fs::remove_file(path)))?;
        Ok::<_, io::Error>(image)
    };
    make().with_context(|| format!("making an image of {bytes} bytes, {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_size_of_the_kernels() {
        assert_eq!((size_of::<LoopInfo>(), size_of::<LoopConfig>()), (232, 304));
    }

    #[test]
    fn only_names_of_loop_devices_are_accepted() {
        let named = |name: &str| is_name(Path::new(name));
        assert!(named("/dev/loop0") && named("/dev/loop17"));
        for name in ["/dev/loop", "/dev/loop-control", "/dev/loop1p1", "/dev/sda", "loop1"] {
            assert!(!named(name), "{name}");
        }
    }

    #[test]
    fn the_name_of_an_image_is_the_end_of_its_path() {
        let path = PathBuf::from(format!("/{}/.knee-1/image-0", "a".repeat(99)));
        let name = name(&path);
        assert_eq!(name[NAME_BYTES - 1], 0);
        assert!(name.starts_with(b"aaa") && name.ends_with(b"/.knee-1/image-0\0"));
    }
}
