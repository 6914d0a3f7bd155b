//! Names for places in the code, from what this host has: the kernel's own symbols where it is
//! the kernel that was recorded, perf's cache, debug files, the programs themselves. A file is
//! believed only if its build id is the recorded one, or if it lies where it was recorded.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use records::CpuMode;

use crate::container::Features;
use crate::elf::{self, Question};
use crate::gather::{Gathered, KERNEL, Place};
use crate::kallsyms::KernelSymbols;
use crate::{Function, Location, Map, Object, Origin, Recording};

/// Longer than the symbols of any kernel.
const KALLSYMS_BYTES_MAX: u64 = 256 << 20;

const RUNNING_KERNEL: &str = "/proc/kallsyms";

/// Names all places by what this host knows.
pub fn resolve(gathered: Gathered, mut local: Local) -> Recording {
    name_all(gathered, Some(&mut local))
}

/// Names no place but those that the file itself names.
pub fn unresolved(gathered: Gathered) -> Recording {
    name_all(gathered, None)
}

fn name_all(mut gathered: Gathered, mut local: Option<&mut Local>) -> Recording {
    let mut namer = Namer::new(&mut gathered);
    namer.name_kernel(local.as_deref_mut());
    if let Some(local) = local {
        namer.name_objects(local);
    }
    namer.finish()
}

/// Where names may lie on this host.
pub struct Local {
    /// Folders like ~/.debug, of the user's first.
    caches: Vec<PathBuf>,
    /// Files with the symbols of a kernel, as the user named them.
    kernels: Vec<PathBuf>,
    host: String,
    release: String,
    build_id: Vec<u8>,
    /// The symbols of the running kernel: the kernel takes 30 ms to print them, meanwhile
    /// records are read.
    running: Option<JoinHandle<Result<KernelSymbols, String>>>,
}

impl Local {
    /// Looks around, and begins to read the symbols of the running kernel if it is the one that
    /// was recorded.
    pub fn of_host(symbols: &[PathBuf], recorded: &Features) -> Local {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let (mut caches, kernels): (Vec<_>, Vec<_>) =
            symbols.iter().cloned().partition(|path| path.is_dir());
        caches.extend(std::env::var_os("HOME").map(|home| Path::new(&home).join(".debug")));
        caches.push(PathBuf::from("/usr/lib/debug"));
        let mut local = Local {
            running: None,
            caches,
            kernels,
            host: text("/proc/sys/kernel/hostname"),
            release: text("/proc/sys/kernel/osrelease"),
            build_id: build_id_of_notes(&fs::read("/sys/kernel/notes").unwrap_or_default()),
        };
        let build_id = build_id_of(&recorded.build_ids, b"[kernel.kallsyms]");
        let is_cached = local.cached_kernels(&build_id).iter().any(|file| file.is_file());
        if !is_cached && local.runs(&build_id, &recorded.origin) {
            local.running = Some(thread::spawn(|| read_kernel(Path::new(RUNNING_KERNEL), &[])));
        }
        local
    }

    /// Whether the running kernel is the one that was recorded.
    fn runs(&self, build_id: &[u8], origin: &Origin) -> bool {
        match build_id {
            [] => origin.host == self.host && origin.release == self.release,
            id => id == self.build_id,
        }
    }

    /// Where perf keeps the symbols of a kernel that it has recorded.
    fn cached_kernels(&self, build_id: &[u8]) -> Vec<PathBuf> {
        let file =
            |cache: &PathBuf| cache.join("[kernel.kallsyms]").join(hex(build_id)).join("kallsyms");
        let caches = self.caches.iter().filter(|_| !build_id.is_empty());
        caches.map(file).collect()
    }

    /// The symbols in a file of a kernel with that id.
    fn kernel(&mut self, file: &Path, build_id: &[u8]) -> Result<KernelSymbols, String> {
        if file == Path::new(RUNNING_KERNEL)
            && let Some(reading) = self.running.take()
        {
            return reading.join().map_err(|_| "could not be read".to_string())?;
        }
        let is_named = self.kernels.iter().any(|named| named == file);
        read_kernel(file, if is_named { &[] } else { build_id })
    }

    /// Files that perf or a distribution keeps by build id.
    fn by_id(&self, build_id: &[u8]) -> Vec<PathBuf> {
        let Some((first, rest)) = build_id.split_first() else { return Vec::new() };
        let (first, rest) = (hex(&[*first]), hex(rest));
        let below = |cache: &PathBuf| {
            let folder = cache.join(".build-id").join(&first);
            [folder.join(&rest).join("elf"), folder.join(format!("{rest}.debug"))]
        };
        self.caches.iter().flat_map(below).filter(|path| path.is_file()).collect()
    }
}

/// Names as they are found.
struct Namer<'a> {
    gathered: &'a mut Gathered,
    names: Vec<Option<String>>,
    after_system_call: Vec<bool>,
}

impl Namer<'_> {
    fn new(gathered: &mut Gathered) -> Namer<'_> {
        let places = gathered.places.len();
        Namer { gathered, names: vec![None; places], after_system_call: vec![false; places] }
    }

    /// Places of the kernel, and which modules they belong to.
    fn name_kernel(&mut self, local: Option<&mut Local>) {
        let build_id = build_id_of(&self.gathered.build_ids, b"[kernel.kallsyms]");
        self.gathered.kernel.symbols.sort();
        self.gathered.kernel.mappings.sort();
        let symbols = local.and_then(|local| self.kernel_symbols(local, &build_id));
        let kernel = std::mem::take(&mut self.gathered.kernel);
        let mut modules: HashMap<String, u32> = HashMap::new();
        for (index, place) in self.gathered.places.iter_mut().enumerate() {
            if place.object != KERNEL {
                continue;
            }
            let of_table = symbols.as_ref().and_then(|symbols| symbols.find(place.address));
            let mapping = at(&kernel.mappings, place.address);
            let (name, module) = match (at(&kernel.symbols, place.address), of_table) {
                (Some((_, _, name)), _) => (Some(name.clone()), None),
                (_, Some((name, module))) => (Some(name), module),
                (None, None) => (None, None),
            };
            self.names[index] = name;
            let module = module.or_else(|| mapping.map(|(_, _, name)| name.clone()));
            if let Some(module) = module.filter(|module| module != "[kernel]") {
                let objects = &mut self.gathered.recording.objects;
                place.object = *modules.entry(module).or_insert_with_key(|module| {
                    objects.push(Object { path: module.clone(), build_id: Vec::new() });
                    objects.len() as u32 - 1
                });
            }
            if self.names[index].is_none() {
                // Where a kernel lies differs from boot to boot; how far in does not.
                let start = mapping.map_or(0, |(start, _, _)| *start);
                place.address = place.address.wrapping_sub(start);
            }
        }
    }

    /// The symbols of the kernel that was recorded, wherever they are found first.
    fn kernel_symbols(&mut self, local: &mut Local, build_id: &[u8]) -> Option<KernelSymbols> {
        let reference = self.gathered.kernel.reference.clone();
        let origin = &self.gathered.recording.origin;
        let release = origin.release.clone();
        let mut files: Vec<PathBuf> = local.kernels.clone();
        // perf's copy is read in no time, but modules lie elsewhere after each boot.
        let mut copies = local.cached_kernels(build_id);
        if !self.has_modules() {
            files.append(&mut copies);
        }
        if local.runs(build_id, origin) {
            files.push(PathBuf::from(RUNNING_KERNEL));
        }
        files.append(&mut copies);
        if !build_id.is_empty() {
            files.extend(local.by_id(build_id));
            // A release comes from the file and becomes a part of a path.
            if !release.is_empty() && !release.contains('/') {
                files.push(PathBuf::from(format!("/usr/lib/debug/boot/vmlinux-{release}")));
                files.push(PathBuf::from(format!("/boot/vmlinux-{release}")));
            }
        }
        let mut why = Vec::new();
        for file in files.into_iter().filter(|file| file.is_file()) {
            let symbols = local.kernel(&file, build_id);
            match symbols.and_then(|symbols| symbols.moved(reference.as_ref())) {
                Ok(symbols) => return Some(symbols),
                Err(error) => why.push(format!("{} {error}", file.display())),
            }
        }
        let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
        self.gathered.recording.doubts.push(format!(
            "Functions of the kernel have no names here{why}: give --symbols a copy of \
             /proc/kallsyms, read by root on {} in the same boot, or its vmlinux.",
            if origin_host(self.gathered).is_empty() {
                "that host"
            } else {
                origin_host(self.gathered)
            }
        ));
        None
    }

    /// Whether samples lie in modules, of which only the table of that boot tells the functions.
    fn has_modules(&self) -> bool {
        let Gathered { places, kernel, .. } = &*self.gathered;
        let is_core = |address| at(&kernel.mappings, address).is_some_and(|m| m.2 == "[kernel]");
        let mut kernels = places.iter().filter(|place| place.object == KERNEL);
        kernels.any(|place| !is_core(place.address) && at(&kernel.symbols, place.address).is_none())
    }

    /// Places in programs and libraries, file by file, two at a time.
    fn name_objects(&mut self, local: &Local) {
        const THREADS: usize = 2;
        let mut by_object: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, place) in self.gathered.places.iter().enumerate() {
            let object = &self.gathered.recording.objects[place.object as usize];
            if self.names[index].is_none() && object.path.starts_with('/') {
                by_object.entry(place.object).or_default().push(index);
            }
        }
        let all: Vec<(u32, Vec<usize>)> = by_object.into_iter().collect();
        let leaves = self.leaves_of_users();
        let next = AtomicUsize::new(0);
        let named = Mutex::new(Vec::new());
        let this = &*self;
        let work = || {
            while let Some((object, places)) = all.get(next.fetch_add(1, Relaxed)) {
                let found = this.found(local, *object, places, &leaves);
                named.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            }
        };
        thread::scope(|scope| {
            (1..THREADS.min(all.len())).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        for (place, name, after) in named.into_inner().unwrap_or_else(PoisonError::into_inner) {
            self.names[place] = name;
            self.after_system_call[place] = after;
        }
    }

    /// Of each place in an object, its function and whether it follows a system call.
    fn found(
        &self,
        local: &Local,
        object: u32,
        places: &[usize],
        leaves: &HashSet<u32>,
    ) -> Vec<(usize, Option<String>, bool)> {
        let object = &self.gathered.recording.objects[object as usize];
        let build_id = match &object.build_id[..] {
            [] => build_id_of(&self.gathered.build_ids, object.path.as_bytes()),
            id => id.to_vec(),
        };
        let address = |place: &usize| self.gathered.places[*place].address;
        let offsets: Vec<u64> = places.iter().map(address).collect();
        let path = Path::new(&object.path);
        let Some(found) = self.functions(local, path, &build_id, &offsets) else {
            return Vec::new();
        };
        let is_leaf = |place: &usize| leaves.contains(&(*place as u32));
        let mut after = HashSet::new();
        if let Some(program) = found.program.filter(|_| self.is_x86()) {
            let leaves: Vec<usize> = places.iter().copied().filter(is_leaf).collect();
            let offsets: Vec<u64> = leaves.iter().map(address).collect();
            let is_after = elf::after_system_call(&program, &offsets);
            after.extend(leaves.into_iter().zip(is_after).filter(|(_, is)| *is).map(|(at, _)| at));
        }
        let named = places.iter().zip(found.names);
        named.map(|(place, name)| (*place, name, after.contains(place))).collect()
    }

    fn functions(
        &self,
        local: &Local,
        path: &Path,
        build_id: &[u8],
        offsets: &[u64],
    ) -> Option<Found> {
        let by_id = local.by_id(build_id);
        let debug = by_id.iter().find(|file| file.extension().is_some_and(|e| e == "debug"));
        let same_host = self.gathered.recording.origin.host == local.host;
        let question = Question {
            build_id,
            trusted: build_id.is_empty() && same_host,
            offsets,
            debug: debug.map(PathBuf::as_path),
        };
        let mut programs = std::iter::once(path.to_path_buf()).chain(by_id.iter().cloned());
        programs.find_map(|file| {
            let names = elf::functions(&file, &question).ok()?;
            let is_program = Some(&file) != debug;
            Some(Found { names, program: is_program.then_some(file) })
        })
    }

    /// Where samples in user mode were.
    fn leaves_of_users(&self) -> HashSet<u32> {
        let recording = &self.gathered.recording;
        let users = recording.samples.iter().filter(|sample| sample.mode == CpuMode::User);
        users.filter_map(|s| recording.chains.locations(s.chain).first().copied()).collect()
    }

    fn is_x86(&self) -> bool {
        self.gathered.recording.origin.architecture == "x86_64"
    }

    /// Functions of the names, and locations that refer to them.
    fn finish(self) -> Recording {
        let mut recording = std::mem::take(&mut self.gathered.recording);
        let mut index: Map<Function, u32> = Map::default();
        let places = self.gathered.places.iter().zip(self.names).zip(self.after_system_call);
        for ((place, name), after_system_call) in places {
            let known = name.is_some();
            let name = name.unwrap_or_else(|| nameless(&recording, place));
            let function = Function { name, object: place.object, known };
            let next = index.len() as u32;
            let function = *index.entry(function).or_insert(next);
            recording.locations.push(Location {
                object: place.object,
                address: place.address,
                function,
                after_system_call,
            });
        }
        let mut functions: Vec<(Function, u32)> = index.into_iter().collect();
        functions.sort_by_key(|(_, index)| *index);
        recording.functions = functions.into_iter().map(|(function, _)| function).collect();
        for sample in &mut recording.samples {
            let leaf = recording.chains.locations(sample.chain).first();
            let after = leaf.is_some_and(|l| recording.locations[*l as usize].after_system_call);
            if after && sample.mode == CpuMode::User {
                sample.mode = CpuMode::AfterSystemCall;
            }
        }
        recording
    }
}

/// The id of a file, as the recording lists them; empty where it does not.
fn build_id_of(listed: &[(Vec<u8>, Vec<u8>)], path: &[u8]) -> Vec<u8> {
    let mut listed = listed.iter();
    listed.find(|(known, _)| known == path).map(|(_, id)| id.clone()).unwrap_or_default()
}

/// The range that an address lies in, of sorted ones.
fn at(ranges: &[(u64, u64, String)], address: u64) -> Option<&(u64, u64, String)> {
    let after = ranges.partition_point(|(start, _, _)| *start <= address);
    ranges.get(after.checked_sub(1)?).filter(|(_, end, _)| address < *end)
}

/// Names of the functions of a file, and the file if it has the program's code.
struct Found {
    names: Vec<Option<String>>,
    program: Option<PathBuf>,
}

fn origin_host(gathered: &Gathered) -> &str {
    &gathered.recording.origin.host
}

/// Where in its object a place without a name is.
fn nameless(recording: &Recording, place: &Place) -> String {
    let object = recording.object_name(place.object);
    match place.address {
        0 => object.to_string(),
        address => format!("{object}+{address:#x}"),
    }
}

/// Reads a kernel's symbols from text or ELF.
fn read_kernel(path: &Path, build_id: &[u8]) -> Result<KernelSymbols, String> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.by_ref().take(4).read_to_end(&mut text)?;
        match &text[..] {
            b"\x7fELF" => Ok(0),
            _ => file.take(KALLSYMS_BYTES_MAX).read_to_end(&mut text),
        }
    });
    read.map_err(|error| error.to_string())?;
    match &text[..] {
        b"\x7fELF" => {
            let all = elf::all(path, build_id).map_err(|error| format!("{error:#}"))?;
            KernelSymbols::of(&all)
        }
        _ => KernelSymbols::parse(text),
    }
}

/// The id in the notes of the running kernel: lengths of name and contents, type 3, `GNU`.
fn build_id_of_notes(mut notes: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
    };
    while let (Some(name), Some(length), Some(kind)) =
        (number(notes, 0), number(notes, 4), number(notes, 8))
    {
        let start = 12 + name.next_multiple_of(4);
        let Some(contents) = notes.get(start..start + length) else { break };
        if kind == 3 && notes[12..].starts_with(b"GNU\0") {
            return contents.to_vec();
        }
        let Some(rest) = notes.get(start + length.next_multiple_of(4)..) else { break };
        notes = rest;
    }
    Vec::new()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
