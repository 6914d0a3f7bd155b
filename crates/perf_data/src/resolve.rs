//! Function names for code sites, from the files of this host: the symbols of the running kernel if it
//! is the recorded one, perf's cache, debug files, the programs themselves. A file is trusted only if
//! it has the recorded build id, or the recorded path.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder, JoinHandle};

use records::CpuMode;

use crate::container::Features;
use crate::elf::{self, Question};
use crate::gather::{CodeSite, Gathered, KERNEL};
use crate::kallsyms::KernelSymbols;
use records::recording::{Function, Location, Object, Origin, Recording};

use crate::Map;

/// More than the symbols of any kernel.
const KALLSYMS_BYTES_MAX: u64 = 256 << 20;

const RUNNING_KERNEL: &str = "/proc/kallsyms";

/// Names all sites with the files of this host.
pub fn resolve(gathered: Gathered, mut local: Local) -> Recording {
    name_all(gathered, Some(&mut local))
}

/// Names only the sites that the recording itself names.
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

/// Sources of names on this host.
pub struct Local {
    /// Folders like ~/.debug; the user's come first.
    caches: Vec<PathBuf>,
    /// Files with a kernel's symbols that the user named.
    kernels: Vec<PathBuf>,
    host: String,
    release: String,
    build_id: Vec<u8>,
    /// The symbols of the running kernel, read by a thread: the kernel takes 30 ms to print them, while
    /// records are read. Without a thread they are read when they are needed.
    running: Option<JoinHandle<Result<KernelSymbols, String>>>,
}

impl Local {
    /// Finds the sources, and starts to read the symbols of the running kernel if it is the recorded
    /// one.
    pub fn for_host(symbols: &[PathBuf], recorded: &Features) -> Local {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let (mut folders, kernels): (Vec<_>, Vec<_>) =
            symbols.iter().cloned().partition(|path| path.is_dir());
        folders.extend(caches());
        let mut local = Local {
            running: None,
            caches: folders,
            kernels,
            host: text("/proc/sys/kernel/hostname"),
            release: text("/proc/sys/kernel/osrelease"),
            build_id: build_id_of_notes(&fs::read("/sys/kernel/notes").unwrap_or_default()),
        };
        let build_id = build_id_of(&recorded.build_ids, b"[kernel.kallsyms]");
        let is_cached = local.cached_kernels(&build_id).iter().any(|file| file.is_file());
        if !is_cached && local.runs(&build_id, &recorded.origin) {
            let read = || read_kernel(Path::new(RUNNING_KERNEL), &[]);
            local.running = Builder::new().spawn(read).ok();
        }
        local
    }

    /// Whether the running kernel is the recorded one.
    fn runs(&self, build_id: &[u8], origin: &Origin) -> bool {
        match build_id {
            [] => origin.host == self.host && origin.release == self.release,
            id => id == self.build_id,
        }
    }

    /// perf's copies of the symbols of a kernel that it recorded.
    fn cached_kernels(&self, build_id: &[u8]) -> Vec<PathBuf> {
        let file =
            |cache: &PathBuf| cache.join("[kernel.kallsyms]").join(hex(build_id)).join("kallsyms");
        let caches = self.caches.iter().filter(|_| !build_id.is_empty());
        caches.map(file).collect()
    }

    /// The symbols in a file, if it is of the kernel with that build id.
    fn kernel(&mut self, file: &Path, build_id: &[u8]) -> Result<KernelSymbols, String> {
        if file == Path::new(RUNNING_KERNEL)
            && let Some(reading) = self.running.take()
        {
            return reading.join().map_err(|_| "could not be read".to_string())?;
        }
        let is_named = self.kernels.iter().any(|named| named == file);
        read_kernel(file, if is_named { &[] } else { build_id })
    }

    fn by_id(&self, build_id: &[u8]) -> Vec<PathBuf> {
        by_id(&self.caches, build_id)
    }
}

/// Folders in which perf and the distributions keep files by build id.
pub fn caches() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".debug"));
    home.into_iter().chain([PathBuf::from("/usr/lib/debug")]).collect()
}

/// Files that perf or a distribution keeps by build id.
pub fn by_id(caches: &[PathBuf], build_id: &[u8]) -> Vec<PathBuf> {
    let Some((first, rest)) = build_id.split_first() else { return Vec::new() };
    let (first, rest) = (hex(&[*first]), hex(rest));
    let below = |cache: &PathBuf| {
        let folder = cache.join(".build-id").join(&first);
        [folder.join(&rest).join("elf"), folder.join(format!("{rest}.debug"))]
    };
    caches.iter().flat_map(below).filter(|path| path.is_file()).collect()
}

/// Names the sites of a recording.
struct Namer<'a> {
    gathered: &'a mut Gathered,
    names: Vec<Option<String>>,
    after_system_call: Vec<bool>,
}

impl Namer<'_> {
    fn new(gathered: &mut Gathered) -> Namer<'_> {
        let sites = gathered.sites.len();
        Namer { gathered, names: vec![None; sites], after_system_call: vec![false; sites] }
    }

    /// Names the kernel's sites, and assigns them to modules.
    fn name_kernel(&mut self, local: Option<&mut Local>) {
        let build_id = build_id_of(&self.gathered.build_ids, b"[kernel.kallsyms]");
        self.gathered.kernel.symbols.sort();
        self.gathered.kernel.mappings.sort();
        let symbols = local.and_then(|local| self.kernel_symbols(local, &build_id));
        let kernel = std::mem::take(&mut self.gathered.kernel);
        let mut modules: HashMap<String, u32> = HashMap::new();
        for (index, site) in self.gathered.sites.iter_mut().enumerate() {
            if site.object != KERNEL {
                continue;
            }
            let of_table = symbols.as_ref().and_then(|symbols| symbols.find(site.address));
            let mapping = at(&kernel.mappings, site.address);
            let (name, module) = match (at(&kernel.symbols, site.address), of_table) {
                (Some((_, _, name)), _) => (Some(name.clone()), None),
                (_, Some((name, module))) => (Some(name), module),
                (None, None) => (None, None),
            };
            self.names[index] = name;
            let module = module.or_else(|| mapping.map(|(_, _, name)| name.clone()));
            if let Some(module) = module.filter(|module| module != "[kernel]") {
                let objects = &mut self.gathered.recording.objects;
                site.object = *modules.entry(module).or_insert_with_key(|module| {
                    objects.push(Object { path: module.clone(), build_id: Vec::new() });
                    objects.len() as u32 - 1
                });
            }
            if self.names[index].is_none() {
                // The kernel's address differs between boots; the offset in it does not.
                let start = mapping.map_or(0, |(start, _, _)| *start);
                site.address = site.address.wrapping_sub(start);
            }
        }
    }

    /// The symbols of the recorded kernel, from the first source that has them.
    fn kernel_symbols(&mut self, local: &mut Local, build_id: &[u8]) -> Option<KernelSymbols> {
        let reference = self.gathered.kernel.reference.clone();
        let origin = &self.gathered.recording.origin;
        let release = origin.release.clone();
        let mut files: Vec<PathBuf> = local.kernels.clone();
        // perf's copy is fast to read, but modules have other addresses after each boot.
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
            // The release comes from an untrusted file and becomes part of a path.
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
        self.gathered.recording.warnings.push(format!(
            "Kernel functions have no names{why}: give --symbols a copy of /proc/kallsyms, read by \
             root on {} in the same boot, or its vmlinux.",
            if origin_host(self.gathered).is_empty() {
                "that host"
            } else {
                origin_host(self.gathered)
            }
        ));
        None
    }

    /// Whether there are samples in modules, whose functions only the symbol table of that boot has.
    fn has_modules(&self) -> bool {
        let Gathered { sites, kernel, .. } = &*self.gathered;
        let is_core = |address| at(&kernel.mappings, address).is_some_and(|m| m.2 == "[kernel]");
        let mut kernels = sites.iter().filter(|site| site.object == KERNEL);
        kernels.any(|site| !is_core(site.address) && at(&kernel.symbols, site.address).is_none())
    }

    /// Names the sites in programs and libraries, file by file, on two threads.
    fn name_objects(&mut self, local: &Local) {
        const THREADS: usize = 2;
        let mut by_object: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, site) in self.gathered.sites.iter().enumerate() {
            let object = &self.gathered.recording.objects[site.object as usize];
            if self.names[index].is_none() && object.path.starts_with('/') {
                by_object.entry(site.object).or_default().push(index);
            }
        }
        let all: Vec<(u32, Vec<usize>)> = by_object.into_iter().collect();
        let leaves = self.leaves_of_users();
        let next = AtomicUsize::new(0);
        let named = Mutex::new(Vec::new());
        let this = &*self;
        let work = || {
            while let Some((object, sites)) = all.get(next.fetch_add(1, Relaxed)) {
                let found = this.found(local, *object, sites, &leaves);
                named.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
            }
        };
        thread::scope(|scope| {
            // Where the system grants no threads, this one does it all.
            let start = |_| drop(Builder::new().spawn_scoped(scope, work));
            (1..THREADS.min(all.len())).for_each(start);
            work();
        });
        for (site, name, after) in named.into_inner().unwrap_or_else(PoisonError::into_inner) {
            self.names[site] = name;
            self.after_system_call[site] = after;
        }
    }

    /// The function of each site in an object, and whether the site follows a system call.
    fn found(
        &self,
        local: &Local,
        object: u32,
        sites: &[usize],
        leaves: &HashSet<u32>,
    ) -> Vec<(usize, Option<String>, bool)> {
        let object = &self.gathered.recording.objects[object as usize];
        let build_id = match &object.build_id[..] {
            [] => build_id_of(&self.gathered.build_ids, object.path.as_bytes()),
            id => id.to_vec(),
        };
        let address = |site: &usize| self.gathered.sites[*site].address;
        let offsets: Vec<u64> = sites.iter().map(address).collect();
        let path = Path::new(&object.path);
        let Some(found) = self.functions(local, path, &build_id, &offsets) else {
            return Vec::new();
        };
        let is_leaf = |site: &usize| leaves.contains(&(*site as u32));
        let mut after = HashSet::new();
        if let Some(program) = found.program.filter(|_| self.is_x86()) {
            let leaves: Vec<usize> = sites.iter().copied().filter(is_leaf).collect();
            let offsets: Vec<u64> = leaves.iter().map(address).collect();
            let is_after = elf::after_system_call(&program, &offsets);
            after.extend(leaves.into_iter().zip(is_after).filter(|(_, is)| *is).map(|(at, _)| at));
        }
        let named = sites.iter().zip(found.names);
        named.map(|(site, name)| (*site, name, after.contains(site))).collect()
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

    /// The sites where samples in user mode were taken.
    fn leaves_of_users(&self) -> HashSet<u32> {
        let recording = &self.gathered.recording;
        let users = recording.samples.iter().filter(|sample| sample.mode == CpuMode::User);
        users.filter_map(|s| recording.chains.locations(s.chain).first().copied()).collect()
    }

    fn is_x86(&self) -> bool {
        self.gathered.recording.origin.architecture == "x86_64"
    }

    /// The recording with functions, and with locations that refer to them.
    fn finish(self) -> Recording {
        let mut recording = std::mem::take(&mut self.gathered.recording);
        let mut index: Map<Function, u32> = Map::default();
        let sites = self.gathered.sites.iter().zip(self.names).zip(self.after_system_call);
        for ((site, name), after_system_call) in sites {
            let known = name.is_some();
            let name = name.unwrap_or_else(|| nameless(&recording, site));
            let function = Function { name, object: site.object, known };
            let next = index.len() as u32;
            let function = *index.entry(function).or_insert(next);
            recording.locations.push(Location {
                object: site.object,
                address: site.address,
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

/// The build id of a file in the recording's list; empty if it is not in the list.
fn build_id_of(listed: &[(Vec<u8>, Vec<u8>)], path: &[u8]) -> Vec<u8> {
    let mut listed = listed.iter();
    listed.find(|(known, _)| known == path).map(|(_, id)| id.clone()).unwrap_or_default()
}

/// The range that contains an address, among sorted ranges.
fn at(ranges: &[(u64, u64, String)], address: u64) -> Option<&(u64, u64, String)> {
    let after = ranges.partition_point(|(start, _, _)| *start <= address);
    ranges.get(after.checked_sub(1)?).filter(|(_, end, _)| address < *end)
}

/// Names of functions from a file, and the file if it has the program's code.
struct Found {
    names: Vec<Option<String>>,
    program: Option<PathBuf>,
}

fn origin_host(gathered: &Gathered) -> &str {
    &gathered.recording.origin.host
}

/// A description of a site without a name: its offset in the object.
fn nameless(recording: &Recording, site: &CodeSite) -> String {
    let object = recording.object_name(site.object);
    match site.address {
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
            KernelSymbols::from_functions(&all)
        }
        _ => KernelSymbols::parse(text),
    }
}

/// The build id in the notes of the running kernel: lengths of name and contents, type 3, `GNU`.
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
