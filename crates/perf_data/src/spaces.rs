//! The mappings in the address spaces of processes, from records of mmap, fork and exec. A forked process
//! shares its parent's map until one of them changes it.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use anyhow::{Result, ensure};

/// More mappings than a busy host makes in hours; in hostile files they could multiply.
const MAPPINGS_MAX: u64 = 8 << 20;

/// A part of a file in an address space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mapping {
    pub end: u64,
    /// Index of its object.
    pub object: u32,
    /// Offset in the file minus start address, wrapping.
    pub shift: u64,
}

/// Mappings of one process, by start.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Changes with each change of the map, so that earlier look-ups can be reused.
    pub version: u64,
    mappings: BTreeMap<u64, Mapping>,
}

impl Space {
    /// The object at an address, and the offset in its file.
    pub fn find(&self, address: u64) -> Option<(u32, u64)> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then(|| (mapping.object, address.wrapping_add(mapping.shift)))
    }

    fn insert(&mut self, start: u64, new: Mapping) {
        self.cut(start, new.end);
        self.mappings.insert(start, new);
    }

    /// Unmaps a range; parts of mappings outside the range stay.
    fn cut(&mut self, start: u64, end: u64) {
        let before = self.mappings.range_mut(..start).next_back();
        if let Some((_, mapping)) = before.filter(|(_, mapping)| mapping.end > start) {
            let rest = *mapping;
            mapping.end = start;
            if rest.end > end {
                self.mappings.insert(end, rest);
            }
        }
        while let Some((&first, &mapping)) = self.mappings.range(start..end).next() {
            self.mappings.remove(&first);
            if mapping.end > end {
                self.mappings.insert(end, mapping);
            }
        }
    }
}

/// The address spaces of all processes, by process id.
#[derive(Debug, Default)]
pub struct Spaces {
    spaces: HashMap<i32, Rc<Space>>,
    versions: u64,
    mappings: u64,
}

impl Spaces {
    /// The address space of a process.
    pub fn get(&self, pid: i32) -> Option<&Space> {
        self.spaces.get(&pid).map(Rc::as_ref)
    }

    /// A process maps a part of a file.
    pub fn map(&mut self, pid: i32, start: u64, mapping: Mapping) -> Result<()> {
        if mapping.end <= start {
            return Ok(());
        }
        self.versions += 1;
        let space = self.spaces.entry(pid).or_default();
        if Rc::strong_count(space) > 1 {
            self.mappings += space.mappings.len() as u64;
        }
        self.mappings += 2;
        ensure!(
            self.mappings <= MAPPINGS_MAX,
            "it has more than {MAPPINGS_MAX} mappings: record fewer processes, or for a shorter time"
        );
        let space = Rc::make_mut(space);
        space.version = self.versions;
        space.insert(start, mapping);
        Ok(())
    }

    /// A process begins with its parent's map.
    pub fn fork(&mut self, parent: i32, child: i32) {
        if parent != child
            && let Some(space) = self.spaces.get(&parent).cloned()
        {
            self.spaces.insert(child, space);
        }
    }

    /// A process becomes another program.
    pub fn exec(&mut self, pid: i32) {
        self.spaces.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, object: u32) -> Mapping {
        Mapping { end, object, shift: 0u64.wrapping_sub(start) }
    }

    #[test]
    fn new_mappings_cut_old_ones_and_forks_keep_theirs() {
        let mut spaces = Spaces::default();
        spaces.map(1, 100, mapping(100, 200, 0)).unwrap();
        spaces.fork(1, 2);
        spaces.map(2, 120, mapping(120, 140, 1)).unwrap();
        let find = |pid, address| spaces.get(pid).and_then(|space| space.find(address));
        assert_eq!(find(1, 130), Some((0, 30)));
        assert_eq!(find(2, 119), Some((0, 19)));
        assert_eq!(find(2, 120), Some((1, 0)));
        assert_eq!(find(2, 140), Some((0, 40)));
        assert_eq!(find(2, 200), None);
        assert_eq!(find(2, 99), None);
        spaces.exec(2);
        assert!(spaces.get(2).is_none());
    }
}
