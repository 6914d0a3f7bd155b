//! User functions by address. The mapped files of a process are read from /proc/PID/maps while it
//! lives, soon after one of its samples arrived; names are looked up after the run, once for each
//! file. An address without a name is `FILE+0xOFFSET`.
//!
//! Code that a program generates lies in no file. A program that wants it named writes
//! /tmp/perf-PID.map, as perf documents (tools/perf/Documentation/jit-interface.txt). The kernel's
//! vdso lies in no file either, but it is the same in all processes, this one too.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::rc::Rc;

use perf_data::functions_of;

/// The index of a file, and an offset in it.
pub type CodeLocation = (u32, u64);

/// The code that sampled processes had mapped.
#[derive(Default)]
pub struct Programs {
    files: Vec<String>,
    /// The mapped code of each process, by address.
    mapped: HashMap<u32, Vec<MappedCode>>,
    /// Whether the instruction that ends at a location is a call.
    calls: HashMap<CodeLocation, bool>,
    /// Functions that are known by name alone, and where each is in this list.
    named: Vec<Rc<str>>,
    places: HashMap<Rc<str>, u64>,
}

/// The file of functions that are known by name alone, and its name.
const NAMED: u32 = u32::MAX;
const RUNTIME: &str = "[runtime]";
/// The name of the vdso in lists of mapped code.
const VDSO: &str = "[vdso]";
/// How many callers of a vdso function are taken from the stack: the C library's, and its caller.
const CALLERS: usize = 2;

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
            let mapped = self.parse(process, &maps);
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

    /// A place that stands for a function of generated code, whose name its virtual machine told.
    pub fn generated(&mut self, name: &Rc<str>) -> CodeLocation {
        let next = self.named.len() as u64;
        let place = *self.places.entry(name.clone()).or_insert(next);
        if place == next {
            self.named.push(name.clone());
        }
        (NAMED, place)
    }

    /// Forgets the maps of all processes but these.
    pub fn keep(&mut self, processes: &BTreeSet<u32>) {
        self.mapped.retain(|process, _| processes.contains(process));
    }

    /// A call chain that begins in the vdso, with the callers that it lacks: those in the C library, which keeps no
    /// frame pointer, and the one that called the library. They are the first addresses behind a call among
    /// the first words of the stack.
    pub fn with_callers_of_vdso(
        &mut self,
        process: u32,
        chain: Vec<CodeLocation>,
        stack: &[u64],
    ) -> Vec<CodeLocation> {
        let is_vdso = |location: &CodeLocation| self.files[location.0 as usize] == VDSO;
        let (vdso, outer): (Vec<CodeLocation>, Vec<CodeLocation>) =
            chain.into_iter().partition(is_vdso);
        let returns = stack.iter().filter_map(|word| self.location(process, word.checked_sub(1)?));
        let returns: Vec<CodeLocation> = returns.filter(|location| !is_vdso(location)).collect();
        let mut callers = Vec::new();
        for location in returns {
            if callers.len() < CALLERS && self.ends_a_call(location) {
                callers.push(location);
            }
        }
        let outer = outer.into_iter().filter(|location| !callers.contains(location)).collect();
        [vdso, callers.clone(), outer].concat()
    }

    /// Whether code goes on here after a call.
    pub fn follows_a_call(&mut self, process: u32, address: u64) -> bool {
        let before = address.checked_sub(1).and_then(|before| self.location(process, before));
        before.is_some_and(|location| self.ends_a_call(location))
    }

    /// Whether the instruction that ends at this byte is a call.
    fn ends_a_call(&mut self, (file, offset): CodeLocation) -> bool {
        let path = &self.files[file as usize];
        let read = || {
            const BYTES: u64 = 7;
            let mut bytes = [0; BYTES as usize];
            let start = (offset + 1).checked_sub(BYTES)?;
            fs::File::open(path).ok()?.read_exact_at(&mut bytes, start).ok()?;
            Some(is_call(bytes))
        };
        *self.calls.entry((file, offset)).or_insert_with(|| read().unwrap_or(false))
    }

    fn location(&self, process: u32, address: u64) -> Option<CodeLocation> {
        let mapped = self.mapped.get(&process)?;
        let after = mapped.partition_point(|mapped| mapped.start <= address);
        let code = mapped.get(after.checked_sub(1)?).filter(|mapped| address < mapped.end)?;
        Some((code.file, address - code.start + code.offset))
    }

    /// Parses lines `START-END rwxp OFFSET DEVICE INODE   PATH`; keeps executable ones whose code may
    /// have names.
    fn parse(&mut self, process: u32, maps: &str) -> Vec<MappedCode> {
        let generated = generated_names(process);
        let root = root_of(process);
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
            // In a list of generated functions, an offset is the address itself.
            let (path, offset) = match &generated {
                Some(list) if path.is_empty() => (list.as_str(), start),
                _ => (path, offset),
            };
            if access.contains('x') && !path.is_empty() {
                let is_file = path.starts_with('/') && !path.starts_with(GENERATED);
                let file = self.file(&if is_file { format!("{root}{path}") } else { path.into() });
                mapped.push(MappedCode { start, end, offset, file });
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

    /// The functions of other libraries that calls go to, which end at these locations.
    pub fn called(&self, calls: &BTreeSet<CodeLocation>) -> HashMap<CodeLocation, String> {
        let mut called = HashMap::new();
        for (index, path) in self.files.iter().enumerate().filter(|(_, p)| p.starts_with('/')) {
            let in_file: Vec<CodeLocation> =
                calls.iter().filter(|(file, _)| *file as usize == index).copied().collect();
            if in_file.is_empty() {
                continue;
            }
            let places: Vec<u64> = in_file.iter().map(|(_, offset)| *offset).collect();
            let names = perf_data::called(Path::new(path), &places).unwrap_or_default();
            let named = in_file.into_iter().zip(names);
            called.extend(named.filter_map(|(call, name)| Some((call, name?))));
        }
        called
    }

    /// The function at each location, and the name of its file.
    pub fn functions(
        &self,
        locations: &BTreeSet<CodeLocation>,
    ) -> HashMap<CodeLocation, (String, String)> {
        let mut functions = HashMap::new();
        for location in locations.iter().filter(|(file, _)| *file == NAMED) {
            let name = self.named.get(location.1 as usize).map(|name| name.to_string());
            functions.insert(*location, (name.unwrap_or_default(), RUNTIME.to_string()));
        }
        for (index, path) in self.files.iter().enumerate() {
            let in_file: Vec<CodeLocation> =
                locations.iter().filter(|(file, _)| *file as usize == index).copied().collect();
            let offsets: Vec<u64> = in_file.iter().map(|(_, offset)| *offset).collect();
            let names = names(path, &offsets);
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

/// What to put before a path that a process sees, to find the file from here: nothing, unless the process has
/// mounts of its own, as in a container.
pub fn root_of(process: u32) -> String {
    let mounts = |of: &str| fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    match mounts(&process.to_string()) {
        Some(theirs) if Some(&theirs) != mounts("self").as_ref() => format!("/proc/{process}/root"),
        _ => String::new(),
    }
}

/// Whether these bytes end with a call: opcodes E8 and FF /2 of x86-64 (Intel's manual, volume 2A).
#[cfg(target_arch = "x86_64")]
pub fn is_call(bytes: [u8; 7]) -> bool {
    let is_indirect = |length: &usize| {
        let [opcode, operand] = [bytes[7 - length], bytes[8 - length]];
        opcode == 0xff && operand >> 3 & 7 == 2
    };
    bytes[2] == 0xe8 || [2, 3, 4, 6, 7].iter().any(is_indirect)
}

/// Whether these bytes end with a call: BL or BLR of A64.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_call(bytes: [u8; 7]) -> bool {
    let instruction = u32::from_le_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]);
    instruction >> 26 == 0b100_101 || instruction & 0xffff_fc1f == 0xd63f_0000
}

/// The function at each offset of a file, of the vdso, or of a list of generated functions.
fn names(path: &str, offsets: &[u64]) -> Vec<Option<String>> {
    if path.starts_with(GENERATED) {
        let list = fs::read_to_string(path).unwrap_or_default();
        return generated_functions(&list, offsets);
    }
    if path == VDSO {
        let names = vdso_functions(offsets).unwrap_or_else(|| vec![None; offsets.len()]);
        let from_vdso = |name: String| format!("{} (vdso)", name.trim_start_matches("__vdso_"));
        return names.into_iter().map(|name| name.map(from_vdso)).collect();
    }
    // The worker's own program is at this path even if its file has been replaced.
    let is_own = fs::read_link("/proc/self/exe").is_ok_and(|own| own == Path::new(path));
    functions_of(if is_own { Path::new("/proc/self/exe") } else { Path::new(path) }, offsets)
}

const GENERATED: &str = "/tmp/perf-";

/// The list of the functions that a process has generated, if it wrote one. Anybody may write to /tmp: the
/// list counts if the owner of the process owns it.
fn generated_names(process: u32) -> Option<String> {
    const BYTES_MAX: u64 = 64 << 20;
    let path = format!("{GENERATED}{process}.map");
    let list = fs::symlink_metadata(&path).ok()?;
    let owner = fs::metadata(format!("/proc/{process}")).ok()?.uid();
    (list.is_file() && list.uid() == owner && list.len() <= BYTES_MAX).then_some(path)
}

/// The functions at these addresses, by lines `START SIZE NAME` with hexadecimal numbers. Where code was
/// generated twice, the later line counts.
fn generated_functions(list: &str, addresses: &[u64]) -> Vec<Option<String>> {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (start, size) = (hex(words.next()?)?, hex(words.next()?)?);
        Some((start, start.checked_add(size)?, words.next()?.to_string()))
    };
    let functions: Vec<(u64, u64, String)> = list.lines().filter_map(line).collect();
    let at = |address: &u64| {
        let mut later_first = functions.iter().rev();
        let found = later_first.find(|(start, end, _)| (start..end).contains(&address));
        found.map(|(_, _, name)| name.clone())
    };
    addresses.iter().map(at).collect()
}

/// The functions at offsets of the vdso, from the one of this process.
fn vdso_functions(offsets: &[u64]) -> Option<Vec<Option<String>>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let range = maps.lines().find(|line| line.ends_with(VDSO))?.split(' ').next()?;
    let hex = |text: &str| usize::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    // SAFETY: the kernel mapped these bytes readable for as long as this process lives.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, end - start) };
    let file = host::memfd::in_memory("vdso", bytes).ok()?;
    Some(functions_of(&host::memfd::path(&file), offsets))
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
        let mapped = programs.parse(u32::MAX, maps);
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
    fn generated_functions_have_the_names_of_their_list() {
        let list = "1000 20 first\n1020 10 py::work:a.py\n1010 8 later one\nnonsense\n";
        let names = generated_functions(list, &[0x1000, 0x1012, 0x1018, 0x102f, 0x1030]);
        let names: Vec<&str> = names.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
        assert_eq!(names, ["first", "later one", "first", "py::work:a.py", "-"]);
    }

    #[test]
    fn the_vdso_has_names() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        if !maps.contains("[vdso]") {
            return;
        }
        // Somewhere behind its headers is the code of clock_gettime.
        let offsets: Vec<u64> = (0x400..0x2000).step_by(16).collect();
        let named = names("[vdso]", &offsets);
        let has = |name: &str| named.iter().flatten().any(|known| known == name);
        assert!(has("clock_gettime (vdso)"), "{:?}", named.iter().flatten().next());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn instructions_that_call_are_told_from_others() {
        let check = |end: &[u8], expected| {
            let mut bytes = [0x90; 7];
            bytes[7 - end.len()..].copy_from_slice(end);
            assert_eq!(is_call(bytes), expected, "{end:x?}");
        };
        check(&[0xe8, 1, 2, 3, 4], true);
        check(&[0xff, 0xd0], true);
        check(&[0x41, 0xff, 0xd4], true);
        check(&[0xff, 0x50, 8], true);
        check(&[0xff, 0x15, 1, 2, 3, 4], true);
        check(&[0xff, 0x94, 0x24, 1, 2, 3, 4], true);
        check(&[0xff, 0xe0], false);
        check(&[0xe9, 1, 2, 3, 4], false);
        check(&[0xc3], false);
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
