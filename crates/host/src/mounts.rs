//! The mounts that this process sees, from /proc/self/mountinfo (proc_pid_mountinfo(5)), and the space
//! of file systems.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// The directory of the file system that is mounted; `/` for all of it.
    pub root: PathBuf,
    pub mount_point: PathBuf,
    /// Options of this mount.
    pub options: String,
    /// Type of the file system.
    pub file_system: String,
    /// What is mounted: a device, a server, a word.
    pub source: String,
    /// Options of the file system.
    pub super_options: String,
}

impl Mount {
    /// The mount's options, then those of the file system that are not among them.
    pub fn all_options(&self) -> String {
        let mut options: Vec<_> = self.options.split(',').collect();
        for option in self.super_options.split(',') {
            if !options.contains(&option) {
                options.push(option);
            }
        }
        options.join(",")
    }
}

/// The mounts that this process sees, the newest last; none if /proc is not mounted.
pub fn current() -> Vec<Mount> {
    let mountinfo = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    parse(&String::from_utf8_lossy(&mountinfo))
}

/// The newest mount at a mount point, which hides the others there.
pub fn at(point: &Path) -> Option<Mount> {
    current().into_iter().rfind(|mount| mount.mount_point == point)
}

/// The mounts in a text like /proc/self/mountinfo. Malformed lines are left out.
pub fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    // Optional fields, any number of them, end at a lone hyphen.
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (major, minor) = mount.next()?.split_once(':')?;
    let (root, mount_point, options) = (mount.next()?, mount.next()?, mount.next()?);
    let mut file_system = file_system.splitn(3, ' ');
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: unescape(root).into(),
        mount_point: unescape(mount_point).into(),
        options: options.to_owned(),
        file_system: file_system.next()?.to_owned(),
        source: unescape(file_system.next()?).to_string_lossy().into_owned(),
        super_options: file_system.next()?.to_owned(),
    })
}

/// The kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn unescape(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        (rest, _) = match octal(rest) {
            Some(byte) => (&rest[4..], bytes.push(byte)),
            None => (after, bytes.push(*first)),
        };
    }
    OsString::from_vec(bytes)
}

fn octal(text: &[u8]) -> Option<u8> {
    let [b'\\', digits @ ..] = text else { return None };
    let digits = str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(digits, 8).ok()
}

/// The mount points in a directory and below it, in the order of mounting.
pub fn below(directory: &Path) -> Vec<PathBuf> {
    let points = current().into_iter().map(|mount| mount.mount_point);
    points.filter(|point| point.starts_with(directory)).collect()
}

/// The mount that contains an absolute path without symbolic links. Later mounts hide
/// earlier ones. A mount of the path's own device wins over a longer one of another
/// device; on btrfs no mount has the path's device, as each subvolume has its own.
pub fn containing<'a>(mounts: &'a [Mount], path: &Path, device: (u32, u32)) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.mount_point))
        .max_by_key(|mount| (mount.device == device, mount.mount_point.as_os_str().len()))
}

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it, in bytes.
    pub bytes_total: u64,
    /// What a user who is not root may still write, in bytes.
    pub bytes_free: u64,
    /// Inodes that such a user may still create; `None` if the file system allocates them dynamically.
    pub inodes_free: Option<u64>,
}

/// The space of the file system that contains a path; `None` if there is no such path.
pub fn space(path: &Path) -> Option<Space> {
    let space = rustix::fs::statvfs(path).ok()?;
    Some(Space {
        bytes_total: space.f_blocks * space.f_frsize,
        bytes_free: space.f_bavail * space.f_frsize,
        // File systems that allocate inodes dynamically report 0 inodes in total.
        inodes_free: (space.f_files > 0).then_some(space.f_favail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = r"
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 27 259:3 /sub /mnt/with\040space ro,nosuid shared:7 master:2 - xfs /dev/nvme0n1p3 rw,attr2
41 27 0:33 / /mnt/btrfs rw - btrfs /dev/sdb rw,subvol=/
42 27 0:50 / /mnt/over rw - tmpfs first rw
43 42 0:51 / /mnt/over rw - tmpfs second rw
44 43 254:0 / /mnt/
";

    #[test]
    fn a_path_is_on_the_longest_mount_of_its_device() {
        let mounts = parse(MOUNTINFO);
        let source = |path: &str, device| {
            containing(&mounts, Path::new(path), device).map(|m| m.source.as_str()).unwrap()
        };
        assert_eq!(source("/home/user", (254, 0)), "/dev/vda");
        assert_eq!(source("/mnt/with space/d", (259, 3)), "/dev/nvme0n1p3");
        assert_eq!(source("/mnt/with spaces", (254, 0)), "/dev/vda");
        assert_eq!(source("/mnt/btrfs/subvolume", (0, 77)), "/dev/sdb");
        assert_eq!(source("/mnt/over/x", (0, 51)), "second");
        assert_eq!(source("/mnt/over/x", (0, 99)), "second");
    }

    #[test]
    fn options_of_mount_and_file_system_are_named_once() {
        let line = "29 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard";
        assert_eq!(parse(line)[0].all_options(), "rw,relatime,discard");
    }

    #[test]
    fn cut_and_foreign_lines_are_left_out() {
        assert_eq!(parse(MOUNTINFO).len(), 6);
        assert_eq!(parse("- - -\n1 2 3\n\\0"), []);
        assert_eq!(unescape(r"a\040b\134c\9"), r"a b\c\9");
    }
}
