//! `modules.dep.bin`, in which modprobe(8) looks up the file of a module and the files of those that it needs: a tree over
//! the characters of the names. depmod(8) writes it for all modules of a kernel; knee, for those that a guest gets.
//! The format is that of kmod's libkmod/libkmod-index.h: numbers are big-endian, and the upper bits of a node's offset
//! say which of its parts exist.

use std::collections::BTreeMap;

const MAGIC: u32 = 0xb007_f457;
const VERSION: u32 = 0x0002_0001;

const HAS_PREFIX: u32 = 0x8000_0000;
const HAS_VALUES: u32 = 0x4000_0000;
const HAS_CHILDREN: u32 = 0x2000_0000;

/// The index of lines by module name. A line is `FILE: FILE…`: the module, then those that it needs, the first to load
/// last.
pub fn index(lines: &BTreeMap<String, String>) -> Vec<u8> {
    let entries: Vec<(&[u8], &str)> =
        lines.iter().map(|(name, line)| (name.as_bytes(), line.as_str())).collect();
    let mut bytes = [MAGIC, VERSION, 0].map(u32::to_be_bytes).concat();
    let root = node(&mut bytes, &entries);
    bytes[8..12].copy_from_slice(&root.to_be_bytes());
    bytes
}

/// Appends the node of entries whose names go on like this, sorted, after the nodes below it. Returns its offset.
fn node(bytes: &mut Vec<u8>, entries: &[(&[u8], &str)]) -> u32 {
    if let [(rest, line)] = entries {
        let at = bytes.len() as u32;
        bytes.extend(*rest);
        bytes.push(0);
        value(bytes, line);
        return at | HAS_PREFIX | HAS_VALUES;
    }
    let own = entries.first().filter(|(rest, _)| rest.is_empty());
    let longer = &entries[own.iter().len()..];
    let (Some((first, _)), Some((last, _))) = (longer.first(), longer.last()) else { return 0 };
    let (first, last) = (first[0], last[0]);
    let mut children = vec![0; (last - first) as usize + 1];
    for below in longer.chunk_by(|(a, _), (b, _)| a[0] == b[0]) {
        let rests: Vec<(&[u8], &str)> =
            below.iter().map(|(rest, line)| (&rest[1..], *line)).collect();
        children[(below[0].0[0] - first) as usize] = node(bytes, &rests);
    }
    let at = bytes.len() as u32;
    bytes.extend([first, last]);
    bytes.extend(children.iter().flat_map(|child| child.to_be_bytes()));
    own.into_iter().for_each(|(_, line)| value(bytes, line));
    at | HAS_CHILDREN | if own.is_some() { HAS_VALUES } else { 0 }
}

/// Appends the one value of a node, with its priority.
fn value(bytes: &mut Vec<u8>, line: &str) {
    bytes.extend([1u32, 0].map(u32::to_be_bytes).concat());
    bytes.extend(line.as_bytes());
    bytes.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of a name, as libkmod searches it (index_mm_search).
    fn search(index: &[u8], name: &str) -> Option<String> {
        let number = |at: usize| u32::from_be_bytes(index[at..at + 4].try_into().unwrap());
        let text = |at: usize| {
            let end = index[at..].iter().position(|byte| *byte == 0).unwrap();
            String::from_utf8(index[at..at + end].to_vec()).unwrap()
        };
        let (mut offset, mut rest) = (number(8), name);
        loop {
            let mut at = (offset & 0x0fff_ffff) as usize;
            if at == 0 {
                return None;
            }
            if offset & HAS_PREFIX != 0 {
                rest = rest.strip_prefix(&text(at))?;
                at += text(at).len() + 1;
            }
            let (mut next, mut children) = (0, 0);
            if offset & HAS_CHILDREN != 0 {
                let (first, last) = (index[at], index[at + 1]);
                children = 2 + 4 * ((last - first) as usize + 1);
                let child = rest.bytes().next().filter(|byte| (first..=last).contains(byte));
                next = child.map_or(0, |byte| number(at + 2 + 4 * (byte - first) as usize));
            }
            if rest.is_empty() {
                return (offset & HAS_VALUES != 0).then(|| text(at + children + 8));
            }
            (offset, rest) = (next, &rest[1..]);
        }
    }

    #[test]
    fn each_name_leads_to_its_line_and_no_other_does() {
        let names = ["torture", "locktorture", "lock", "rcuscale", "rcutorture", "test_vmalloc"];
        let line = |name: &str| format!("{name}.ko: x.ko");
        let lines = names.map(|name| (name.to_string(), line(name))).into();
        let index = index(&lines);
        for name in names {
            assert_eq!(search(&index, name), Some(line(name)));
        }
        for name in ["", "r", "rcu", "rcuscales", "locktortur", "zzz"] {
            assert_eq!(search(&index, name), None, "{name}");
        }
        let one = super::index(&[("a".to_string(), line("a"))].into());
        assert_eq!((search(&one, "a"), search(&one, "b")), (Some(line("a")), None));
        assert_eq!(search(&super::index(&BTreeMap::new()), "a"), None);
    }
}
