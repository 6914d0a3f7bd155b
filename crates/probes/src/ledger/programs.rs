//! User functions by address. The mapped files of a process are read from /proc/PID/maps while it
//! lives, soon after one of its samples arrived; names are looked up after the run, once for each
//! file. An address without a name is `FILE+0xOFFSET`.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use perf_data::functions_of;

/// The index of a file, and an offset in it.
pub type CodeLocation = (u32, u64);

/// The code that sampled processes had mapped.
#[derive(Default)]
pub struct Programs {
    files: Vec<String>,
    /// The mapped code of each process, by address.
    mapped: HashMap<u32, Vec<MappedCode>>,
}

#[derive(Clone, Debug, PartialEq)]
struct MappedCode {
    start: u64,
    end: u64,
    offset: u64,
    file: u32,
}

impl Programs {
    /// The locations of a call chain up to the first address that is not code, where chains without
    /// frame pointers end. `fresh` has the processes whose maps need not be read again.
    pub fn locations(
        &mut self,
        process: u32,
        addresses: &[u64],
        fresh: &mut BTreeSet<u32>,
    ) -> Vec<CodeLocation> {
        let Some(leaf) = addresses.first() else { return Vec::new() };
        // The process may have called exec, or mapped more code: read its maps again.
        if self.location(process, *leaf).is_none() && fresh.insert(process) {
            let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
            let mapped = self.parse(&maps);
            if !mapped.is_empty() {
                self.mapped.insert(process, mapped);
            }
        }
        let locations = addresses.iter().enumerate().map_while(|(depth, address)| {
            // A caller's address is that of the instruction after the call.
            self.location(process, address - u64::from(depth > 0).min(*address))
        });
        locations.collect()
    }

    fn location(&self, process: u32, address: u64) -> Option<CodeLocation> {
        let mapped = self.mapped.get(&process)?;
        let after = mapped.partition_point(|mapped| mapped.start <= address);
        let code = mapped.get(after.checked_sub(1)?).filter(|mapped| address < mapped.end)?;
        Some((code.file, address - code.start + code.offset))
    }

    /// Parses lines `START-END rwxp OFFSET DEVICE INODE   PATH`; keeps executable ones with a path.
    fn parse(&mut self, maps: &str) -> Vec<MappedCode> {
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
                mapped.push(MappedCode { start, end, offset, file: self.file(path) });
            }
        }
        mapped
    }

    fn file(&mut self, path: &str) -> u32 {
        let known_index = self.files.iter().position(|known| known == path);
        let index = known_index.unwrap_or_else(|| {
            self.files.push(path.to_string());
            self.files.len() - 1
        });
        index as u32
    }

    /// The function at each location, and the name of its file.
    pub fn functions(
        &self,
        locations: &BTreeSet<CodeLocation>,
    ) -> HashMap<CodeLocation, (String, String)> {
        let mut functions = HashMap::new();
        for (index, path) in self.files.iter().enumerate() {
            let in_file: Vec<CodeLocation> =
                locations.iter().filter(|(file, _)| *file as usize == index).copied().collect();
            let offsets: Vec<u64> = in_file.iter().map(|(_, offset)| *offset).collect();
            // The worker's own program is at this path even if its file has been replaced.
            let is_own = fs::read_link("/proc/self/exe").is_ok_and(|own| own == Path::new(path));
            let file = if is_own { Path::new("/proc/self/exe") } else { Path::new(path) };
            let names = functions_of(file, &offsets);
            let object =
                if path.starts_with('[') { path } else { path.rsplit('/').next().unwrap_or(path) };
            for (location, name) in in_file.into_iter().zip(names) {
                let name = name.unwrap_or_else(|| format!("{object}+{:#x}", location.1));
                functions.insert(location, (name, object.to_string()));
            }
        }
        functions
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
        let mut locations = |addresses: &[u64]| programs.locations(7, addresses, &mut fresh);
        assert_eq!(locations(&[0x55e8, 0x55f0, 0x7f01, 0x55f0]), [(0, 0x1008), (0, 0x100f)]);
        assert_eq!(locations(&[0xffd4]), [(1, 4)]);
        assert_eq!(locations(&[0x5600]), []);
        assert_eq!(locations(&[]), []);
    }

    #[test]
    fn the_functions_of_this_very_process_are_named() {
        let mut programs = Programs::default();
        let here = the_functions_of_this_very_process_are_named as fn() as usize as u64;
        let locations = programs.locations(std::process::id(), &[here + 1], &mut BTreeSet::new());
        let functions = programs.functions(&locations.iter().copied().collect());
        let (name, _) = &functions[&locations[0]];
        assert!(name.contains("the_functions_of_this_very_process_are_named"), "{name}");
    }
}
