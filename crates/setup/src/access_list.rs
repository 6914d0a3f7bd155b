//! Access control lists: who may write although neither owner nor mode says so. POSIX lists (acl(5)) as the
//! kernel keeps them in `system.posix_acl_access`, and those of NFSv4 (RFC 7530) in `system.nfs4_acl`.

use std::ffi::CStr;

use anyhow::{Context, Result};
use rustix::io::Errno;

/// Somebody that an access control list lets write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A named user.
    User(u32),
    /// A named group, or that of the file.
    Group(u32),
    /// A user or group as an NFSv4 server names it.
    Principal(String),
}

/// Reads an attribute into a buffer; lgetxattr(2).
pub(crate) type Attribute<'a> = &'a dyn Fn(&CStr, &mut [u8]) -> rustix::io::Result<usize>;

/// Who may write to a file or directory besides its owner and everybody.
pub(crate) fn writers(attribute: Attribute, group: u32, mode: u32) -> Result<Vec<Writer>> {
    const UNKNOWN: &str = "its access control list has a form that knee does not know";
    if let Some(list) = read(attribute, c"system.posix_acl_access")? {
        return posix(&list, group).context(UNKNOWN);
    }
    let by_mode = (mode & 0o020 != 0).then_some(Writer::Group(group));
    let list = read(attribute, c"system.nfs4_acl")?;
    let by_list = list.map_or(Some(Vec::new()), |list| nfs4(&list)).context(UNKNOWN)?;
    Ok(by_mode.into_iter().chain(by_list).collect())
}

fn read(attribute: Attribute, name: &CStr) -> Result<Option<Vec<u8>>> {
    // As long as an attribute can be.
    let mut value = vec![0; 1 << 16];
    match attribute(name, &mut value) {
        Ok(bytes) => {
            value.truncate(bytes);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(None),
        Err(e) => Err(e).context("reading its access control list"),
    }
}

/// Whom a POSIX list lets write: le32 version, then le16 tag, le16 permissions, le32 id of each entry;
/// include/uapi/linux/posix_acl_xattr.h. The mask limits all but the owner and the others.
fn posix(list: &[u8], group: u32) -> Option<Vec<Writer>> {
    const WRITE: u16 = 2;
    let (version, entries) = list.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != 2 || entries.len() % 8 != 0 {
        return None;
    }
    let entries = entries.chunks_exact(8).map(|entry| {
        let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        (half(0), half(2), u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]))
    });
    let entries: Vec<(u16, u16, u32)> = entries.collect();
    let mask = entries.iter().find(|(tag, ..)| *tag == 0x10).map_or(7, |(_, mask, _)| *mask);
    let writer = |(tag, permissions, id): &(u16, u16, u32)| match tag {
        _ if permissions & mask & WRITE == 0 => None,
        0x02 => Some(Writer::User(*id)),
        0x04 => Some(Writer::Group(group)),
        0x08 => Some(Writer::Group(*id)),
        _ => None,
    };
    Some(entries.iter().filter_map(writer).collect())
}

/// Whom an NFSv4 list lets write: be32 count, then be32 type, flags, mask and length of the name, and the name
/// padded to four bytes, of each entry. `OWNER@`, `GROUP@` and `EVERYONE@` are in the mode. Entries that deny
/// are not counted: what they deny may be given to the same user by another name.
fn nfs4(list: &[u8]) -> Option<Vec<Writer>> {
    const ALLOW: u32 = 0;
    // Write or add a file, append or add a directory, delete in it, change its list or its owner.
    const WRITES: u32 = 0x2 | 0x4 | 0x40 | 0x4_0000 | 0x8_0000;
    let (count, mut rest) = list.split_first_chunk::<4>()?;
    let mut writers = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let (head, tail) = rest.split_first_chunk::<16>()?;
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (kind, mask, bytes) = (word(0), word(8), word(12) as usize);
        let name = tail.get(..bytes)?;
        rest = tail.get(bytes.checked_next_multiple_of(4)?..)?;
        let is_in_mode = [&b"OWNER@"[..], b"GROUP@", b"EVERYONE@"].contains(&name);
        if kind == ALLOW && mask & WRITES != 0 && !is_in_mode {
            writers.push(Writer::Principal(String::from_utf8_lossy(name).into_owned()));
        }
    }
    Some(writers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posix_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entry = |(tag, permissions, id): &(u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        [2u32.to_le_bytes().to_vec(), entries.iter().flat_map(entry).collect()].concat()
    }

    #[test]
    fn named_users_and_groups_write_as_far_as_the_mask_lets_them() {
        let none = u32::MAX;
        let (owner, other) = ((1, 7, none), (0x20, 7, none));
        let check = |entries: &[(u16, u16, u32)], expected: &[Writer]| {
            let entries = [&[owner], entries, &[other]].concat();
            assert_eq!(posix(&posix_list(&entries), 9).unwrap(), expected, "{entries:?}");
        };
        check(&[(4, 7, none)], &[Writer::Group(9)]);
        check(&[(2, 7, 50), (4, 5, none), (0x10, 7, none)], &[Writer::User(50)]);
        check(&[(2, 7, 50), (4, 7, none), (8, 7, 60), (0x10, 5, none)], &[]);
        check(&[(2, 5, 50), (4, 5, none), (8, 6, 60), (0x10, 7, none)], &[Writer::Group(60)]);
        assert_eq!(posix(&[2, 0, 0], 9), None);
        assert_eq!(posix(&[1, 0, 0, 0], 9), None);
        assert_eq!(posix(&[2, 0, 0, 0, 1], 9), None);
    }

    #[test]
    fn principals_of_nfs_write_by_what_the_list_allows() {
        let entry = |kind: u32, mask: u32, name: &str| {
            let words = [kind, 0, mask, name.len() as u32];
            let mut entry: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            entry.extend_from_slice(name.as_bytes());
            entry.resize(entry.len().next_multiple_of(4), 0);
            entry
        };
        let entries = [
            entry(0, 0x7, "OWNER@"),
            entry(0, 0x7, "EVERYONE@"),
            entry(0, 0x1, "reader@lab"),
            entry(1, 0x7, "denied@lab"),
            entry(0, 0x40, "anna@lab"),
            entry(0, 0x8_0001, "owners@lab"),
        ];
        let list = [6u32.to_be_bytes().to_vec(), entries.concat()].concat();
        let names = ["anna@lab", "owners@lab"].map(|name| Writer::Principal(name.to_string()));
        assert_eq!(nfs4(&list).unwrap(), names);
        assert_eq!(nfs4(&list[..list.len() - 1]), None);
        assert_eq!(nfs4(&[0xff; 4]), None);
        assert_eq!(nfs4(&[0, 0]), None);
    }
}
