//! Functions of programs by address. Which file lies where is read from /proc/PID/maps while the
//! process lives, soon after a sample of it came; names are looked up when the run is over, once
//! for each file. What has no name is `FILE+0xOFFSET`.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use perf_data::functions_of;

/// A place in a program: a file, by its index, and the offset in it.
pub type Place = (u32, u64);

/// What processes had mapped when they were seen.
#[derive(Default)]
pub struct Programs {
    files: Vec<String>,
    /// Code of each process, by address.
    mapped: HashMap<u32, Vec<Mapped>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Mapped {
    start: u64,
    end: u64,
    offset: u64,
    file: u32,
}

impl Programs {
    /// Where a chain of addresses lies, as far as it can be followed: without frame pointers it
    /// ends in an address that is no code. `fresh` has the processes that need no second reading.
    pub fn places(
        &mut self,
        process: u32,
        addresses: &[u64],
        fresh: &mut BTreeSet<u32>,
    ) -> Vec<Place> {
        let Some(leaf) = addresses.first() else { return Vec::new() };
        // A process that has become another program, or loaded more, is read again.
        if self.place(process, *leaf).is_none() && fresh.insert(process) {
            let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
            let mapped = self.parse(&maps);
            if !mapped.is_empty() {
                self.mapped.insert(process, mapped);
            }
        }
        let places = addresses.iter().enumerate().map_while(|(depth, address)| {
            // A caller's address is that of the instruction after the call.
            self.place(process, address - u64::from(depth > 0).min(*address))
        });
        places.collect()
    }

    fn place(&self, process: u32, address: u64) -> Option<Place> {
        let mapped = self.mapped.get(&process)?;
        let after = mapped.partition_point(|mapped| mapped.start <= address);
        let found = mapped.get(after.checked_sub(1)?).filter(|mapped| address < mapped.end)?;
        Some((found.file, address - found.start + found.offset))
    }

    /// Lines `START-END rwxp OFFSET DEVICE INODE   PATH`; only code that lies in something.
    fn parse(&mut self, maps: &str) -> Vec<Mapped> {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut mapped = Vec::new();
        for line in maps.lines() {
            let mut words = line.splitn(6, ' ');
            let mut next = || words.next().unwrap_or_default();
            let (range, access, offset) = (next(), next(), next());
            let path = line.splitn(6, ' ').nth(5).unwrap_or_default().trim_start();
            let Some((start, end)) = range.split_once('-') else { continue };
            let (Some(start), Some(end), Some(offset)) = (hex(start), hex(end), hex(offset)) else {
                continue;
            };
            if access.contains('x') && !path.is_empty() {
                mapped.push(Mapped { start, end, offset, file: self.file(path) });
            }
        }
        mapped
    }

    fn file(&mut self, path: &str) -> u32 {
        let known = self.files.iter().position(|known| known == path);
        let index = known.unwrap_or_else(|| {
            self.files.push(path.to_string());
            self.files.len() - 1
        });
        index as u32
    }

    /// The name of the function at each place, and the file.
    pub fn named(&self, places: &BTreeSet<Place>) -> HashMap<Place, (String, String)> {
        let mut named = HashMap::new();
        for (index, path) in self.files.iter().enumerate() {
            let here: Vec<Place> =
                places.iter().filter(|(file, _)| *file as usize == index).copied().collect();
            let offsets: Vec<u64> = here.iter().map(|(_, offset)| *offset).collect();
            // The program that the worker is lies here even if it was replaced meanwhile.
            let is_own = fs::read_link("/proc/self/exe").is_ok_and(|own| own == Path::new(path));
            let file = if is_own { Path::new("/proc/self/exe") } else { Path::new(path) };
            let names = functions_of(file, &offsets);
            let object = match path.starts_with('[') {
                true => path.as_str(),
                false => path.rsplit('/').next().unwrap_or(path),
            };
            for (place, name) in here.into_iter().zip(names) {
                let name = name.unwrap_or_else(|| format!("{object}+{:#x}", place.1));
                named.insert(place, (name, object.to_string()));
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_lies_in_files_and_a_chain_ends_where_there_is_none() {
        let mut programs = Programs::default();
        let maps = "55d0-55e0 r--p 00000000 fe:00 12   /usr/bin/a program\n\
                    55e0-5600 r-xp 00001000 fe:00 12   /usr/bin/a program\n\
                    7f00-7f10 rwxp 00000000 00:00 0 \n\
                    ffd0-ffe0 r-xp 00000000 00:00 0    [vdso]\n";
        let mapped = programs.parse(maps);
        assert_eq!(programs.files, ["/usr/bin/a program", "[vdso]"]);
        programs.mapped.insert(7, mapped);
        let mut fresh = BTreeSet::from([7]);
        let mut places = |addresses: &[u64]| programs.places(7, addresses, &mut fresh);
        assert_eq!(places(&[0x55e8, 0x55f0, 0x7f01, 0x55f0]), [(0, 0x1008), (0, 0x100f)]);
        assert_eq!(places(&[0xffd4]), [(1, 4)]);
        assert_eq!(places(&[0x5600]), []);
        assert_eq!(places(&[]), []);
    }

    #[test]
    fn the_functions_of_this_very_process_are_named() {
        let mut programs = Programs::default();
        let here = the_functions_of_this_very_process_are_named as fn() as usize as u64;
        let places = programs.places(std::process::id(), &[here + 1], &mut BTreeSet::new());
        let named = programs.named(&places.iter().copied().collect());
        let (name, _) = &named[&places[0]];
        assert!(name.contains("the_functions_of_this_very_process_are_named"), "{name}");
    }
}
