//! The functions of programs in Python (CPython 3.11 to 3.13), which have no addresses of their own: all run in one C function.
//!
//!     UserStacks: maps of the process ─ _PyRuntime ─ Layout ─> cpython.bpf.h reads frames at each event: addresses of code
//!     addresses of code ─ Pythons, while the process lives ─> Cache.get (cache.py)
//!
//! Nothing is taken for Python's that does not say so: a code object has the type `PyCode_Type`, a name `PyUnicode_Type`.

mod layout;
mod memory;
mod stacks;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use host::clock::now_ns;
#[cfg(feature = "bpf")]
use libbpf_rs::{MapCore, MapFlags, MapImpl};
use perf_data::Variables;
use records::live::TracedFunction;

use self::layout::{Layout, Version};
pub use self::memory::Memory;
#[cfg(feature = "bpf")]
pub use self::stacks::PYTHON_FRAMES;
pub use self::stacks::{PythonStack, joined};
use super::user_stacks::{UserStacks, bias};
use crate::ledger::programs::root_of;

/// More interpreters or threads than a process has: their lists may change while they are read.
const INTERPRETERS_MAX: usize = 64;
const THREADS_MAX: usize = 8192;
/// How often they are read, if that fails.
const TRIES: usize = 5;
/// A code object is looked at again after this time: another may lie there.
const TRUSTED_NS: u64 = 1_000_000_000;

/// Processes that run Python, and the functions that were met in them.
#[derive(Default)]
pub struct Pythons {
    processes: HashMap<u32, Process>,
    files: Files,
    pub functions: Vec<TracedFunction>,
    indices: HashMap<TracedFunction, u32>,
    /// Processes whose frames may be read from now on.
    found: Vec<u32>,
    /// What has no names, and why.
    pub missing: BTreeMap<String, String>,
}

#[derive(Default)]
struct Process {
    /// How often its maps had been read when it was looked for an interpreter.
    maps: u64,
    search: Search,
    /// Code objects, by address.
    known: HashMap<u64, Known>,
}

#[derive(Default)]
enum Search {
    #[default]
    NotYet,
    Nothing,
    Found(Box<Python>),
}

/// A code object that was read.
struct Known {
    checked_ns: u64,
    identity: [u64; 2],
    function: u32,
}

/// The interpreter of a process.
pub struct Python {
    layout: Layout,
    code_type: u64,
    text_type: u64,
    /// Where the address of the first interpreter lies, and that of its first thread state.
    head: u64,
    first_thread: u64,
    /// Addresses of thread states, by the number of the thread in its own PID namespace.
    threads: BTreeMap<u32, u64>,
    /// When they were read once more.
    read_ns: u64,
}

/// What the interpreter says of itself, by the files that processes have mapped.
type Files = HashMap<PathBuf, Option<Variables>>;

/// Variables that every CPython exports since 3.11; the first of them since 3.7.
const EXPORTED: [&str; 4] = ["_PyRuntime", "Py_Version", "PyCode_Type", "PyUnicode_Type"];

/// Where a process has these variables; `None` if it runs no Python.
fn exported(files: &mut Files, stacks: &UserStacks, process: u32) -> Option<[Option<u64>; 4]> {
    let root = root_of(process);
    stacks.code(process).find_map(|mapping| {
        let path = PathBuf::from(format!("{root}{}", mapping.path));
        let file = files.entry(path.clone());
        let file = file.or_insert_with(|| perf_data::exported(&path, &EXPORTED).ok()).as_ref()?;
        let of = |name: &str| file.variables.iter().find(|variable| variable.name == name);
        of(EXPORTED[0])?;
        let bias = bias(mapping, file)?;
        Some(EXPORTED.map(|name| Some(of(name)?.address.wrapping_add(bias))))
    })
}

impl Pythons {
    /// The functions at addresses of code that were read at an event.
    pub fn stack(&mut self, stacks: &UserStacks, process: u32, words: &[u64]) -> PythonStack {
        if self.find(stacks, process).is_none() || words.is_empty() {
            return PythonStack { runs: Vec::new(), is_whole: true };
        }
        let PythonStack { runs, is_whole } = PythonStack::of_words(words);
        let runs = runs
            .into_iter()
            .map(|run| run.into_iter().map(|code| self.function(process, code)).collect());
        PythonStack { runs: runs.collect(), is_whole }
    }

    /// The frames of a thread that waits, as the BPF programs read them.
    pub fn words(&mut self, stacks: &UserStacks, process: u32, task: u32) -> Vec<u64> {
        let memory = Memory { process };
        let Some(python) = self.find(stacks, process) else { return Vec::new() };
        let is_known =
            python.threads.get(&task).is_some_and(|at| python.is_thread(memory, *at, task));
        let now = now_ns();
        if !is_known && now >= python.read_ns + TRUSTED_NS / 10 {
            python.threads = python.read_threads(memory).unwrap_or_default();
            python.read_ns = now;
        }
        let thread = python.threads.get(&task);
        thread.map_or(Vec::new(), |at| stacks::words(memory, &python.layout, *at))
    }

    /// Looks for an interpreter before anything was seen of a process, if its program is called Python.
    #[cfg(feature = "bpf")]
    pub fn expect(&mut self, stacks: &mut UserStacks, process: u32) {
        let program = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        if program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")) {
            stacks.read_maps(process);
            self.find(stacks, process);
        }
    }

    /// Whether any process runs Python.
    pub fn is_any(&self) -> bool {
        self.processes.values().any(|process| matches!(process.search, Search::Found(_)))
    }

    /// Processes in which an interpreter was found since the last call.
    #[cfg(feature = "bpf")]
    pub fn take_found(&mut self) -> impl Iterator<Item = (u32, &Python)> {
        let found = std::mem::take(&mut self.found);
        found.into_iter().filter_map(|process| match &self.processes.get(&process)?.search {
            Search::Found(python) => Some((process, &**python)),
            _ => None,
        })
    }

    /// The interpreter of a process, looked for again when it has mapped more code: it may have called exec.
    fn find(&mut self, stacks: &UserStacks, number: u32) -> Option<&mut Python> {
        let maps = stacks.maps_read(number);
        let process = self.processes.entry(number).or_default();
        if process.maps != maps {
            *process = Process { maps, ..Process::default() };
        }
        if matches!(process.search, Search::NotYet) && maps > 0 {
            process.search = match Python::find(&mut self.files, stacks, number) {
                Ok(search) => search,
                Err(_) if has_ended(number) => Search::Nothing,
                Err(why) => {
                    self.missing.insert(format!("Python functions of process {number}"), why);
                    Search::Nothing
                }
            };
            if matches!(process.search, Search::Found(_)) {
                self.found.push(number);
            }
        }
        match &mut process.search {
            Search::Found(python) => Some(python),
            _ => None,
        }
    }

    /// The function of a code object; `None` if none can be read there.
    fn function(&mut self, process: u32, code: u64) -> Option<u32> {
        let Process { search: Search::Found(python), known, .. } =
            self.processes.get_mut(&process)?
        else {
            return None;
        };
        let now = now_ns();
        if let Some(known) = known.get(&code).filter(|known| now < known.checked_ns + TRUSTED_NS) {
            return Some(known.function);
        }
        let memory = Memory { process };
        let identity = python.identity(memory, code)?;
        let same = known.get_mut(&code).filter(|known| known.identity == identity);
        if let Some(same) = same {
            same.checked_ns = now;
            return Some(same.function);
        }
        let function = python.function(memory, identity)?;
        let functions = &mut self.functions;
        let index = *self.indices.entry(function.clone()).or_insert_with(|| {
            functions.push(function);
            functions.len() as u32 - 1
        });
        known.insert(code, Known { checked_ns: now, identity, function: index });
        Some(index)
    }
}

/// Whether a process has no memory any more.
fn has_ended(process: u32) -> bool {
    fs::read(format!("/proc/{process}/maps")).is_ok_and(|maps| maps.is_empty())
        || !Path::new(&format!("/proc/{process}")).exists()
}

impl Python {
    /// Looks for the interpreter of a process, and its threads.
    fn find(files: &mut Files, stacks: &UserStacks, process: u32) -> Result<Search, String> {
        const SUPPORTED: &str = "names need CPython 3.11, 3.12 or 3.13";
        let Some(addresses) = exported(files, stacks, process) else { return Ok(Search::Nothing) };
        let [Some(runtime), Some(version), Some(code_type), Some(text_type)] = addresses else {
            return Err(format!("it runs CPython 3.10 or older; {SUPPORTED}"));
        };
        let memory = Memory { process };
        let Some(version) = memory.word(version).map(Version) else {
            return Err("its memory cannot be read: run knee as root, or as its user".to_string());
        };
        let Some(layout) = Layout::of(version, memory, runtime) else {
            return Err(format!("it runs CPython {}; {SUPPORTED}", version.words()));
        };
        let mut python = Python {
            layout,
            code_type,
            text_type,
            head: runtime + layout.interpreters.head,
            first_thread: 0,
            threads: BTreeMap::new(),
            read_ns: 0,
        };
        // Threads that end while they are read are no threads.
        match (0..TRIES).find_map(|_| python.read_threads(memory)) {
            // It has just been started.
            Some(threads) if threads.is_empty() => Ok(Search::NotYet),
            Some(threads) => {
                let interpreter = memory.word(python.head).unwrap_or(0);
                python.first_thread = interpreter.wrapping_add(layout.interpreters.threads);
                python.threads = threads;
                Ok(Search::Found(Box::new(python)))
            }
            None => Err(format!(
                "its threads do not lie where those of CPython {} do; {SUPPORTED}",
                version.words()
            )),
        }
    }

    /// The threads of all interpreters; `None` if what lies there are none.
    fn read_threads(&self, memory: Memory) -> Option<BTreeMap<u32, u64>> {
        let Layout { interpreters: at, thread, .. } = &self.layout;
        let mut threads = BTreeMap::new();
        let mut interpreter = memory.word(self.head)?;
        for _ in 0..INTERPRETERS_MAX {
            if interpreter == 0 {
                break;
            }
            let mut state = memory.member(interpreter, at.threads)?;
            for _ in 0..THREADS_MAX {
                if state == 0 {
                    break;
                }
                // One that ends meanwhile leads nowhere.
                let of = memory.member(state, thread.interpreter);
                let native_id = memory.member(state, thread.native_id);
                let native_id = native_id.and_then(|number| u32::try_from(number).ok());
                let (Some(native_id), true) = (native_id, of == Some(interpreter)) else {
                    if threads.is_empty() {
                        return None;
                    }
                    break;
                };
                threads.insert(native_id, state);
                state = memory.member(state, thread.next).unwrap_or(0);
            }
            interpreter = memory.member(interpreter, at.next).unwrap_or(0);
        }
        Some(threads)
    }

    fn is_thread(&self, memory: Memory, state: u64, task: u32) -> bool {
        memory.member(state, self.layout.thread.native_id) == Some(u64::from(task))
    }

    /// Where the strings of a code object are; `None` if none lies at this address.
    fn identity(&self, memory: Memory, code: u64) -> Option<[u64; 2]> {
        let at = &self.layout.code;
        let is_code = memory.member(code, self.layout.object_type)? == self.code_type;
        let strings = [memory.member(code, at.qualified_name)?, memory.member(code, at.file)?];
        is_code.then_some(strings)
    }

    /// The function of a code object, by its strings.
    fn function(&self, memory: Memory, [name, file]: [u64; 2]) -> Option<TracedFunction> {
        let text = |address: u64| {
            let kind = memory.member(address, self.layout.object_type)?;
            (kind == self.text_type).then(|| memory.text(&self.layout.text, address))?
        };
        let (name, file) = (text(name)?, text(file)?);
        let name = format!("{name} ({})", short(&file));
        Some(TracedFunction { name, object: format!("{FILE}{file}"), is_named: true })
    }

    /// Has the BPF programs read the frames of this process: fills their maps of processes and of threads.
    #[cfg(feature = "bpf")]
    pub fn register(
        &self,
        pythons: &MapImpl,
        threads: &MapImpl,
        process: u32,
    ) -> Result<(), String> {
        let failed =
            |e: libbpf_rs::Error| format!("telling the BPF programs of process {process}: {e}");
        for (thread, state) in &self.threads {
            let key = [process.to_ne_bytes(), thread.to_ne_bytes()].concat();
            threads.update(&key, &state.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        }
        pythons.update(&process.to_ne_bytes(), &self.bytes(), MapFlags::ANY).map_err(failed)
    }

    /// `struct python` of cpython.bpf.h.
    #[cfg(feature = "bpf")]
    fn bytes(&self) -> Vec<u8> {
        const NO_C_FRAME: u64 = 0xffff;
        let Layout { thread, frame, .. } = &self.layout;
        let members = [
            thread.next,
            thread.native_id,
            thread.frame,
            thread.current.unwrap_or(NO_C_FRAME),
            frame.code,
            frame.previous,
            frame.entry,
        ];
        let mut bytes = self.first_thread.to_ne_bytes().to_vec();
        bytes.extend(members.iter().flat_map(|offset| (*offset as u16).to_ne_bytes()));
        bytes.extend([frame.is_entry, u8::from(frame.has_code)]);
        bytes
    }
}

/// What stands before the path of a file in `TracedFunction::object`.
const FILE: &str = "py:";

/// The name of a file as people say it: `cache.py`, `shop/__init__.py`, `<string>`.
fn short(path: &str) -> &str {
    let start_of_name = |path: &str| path.rfind('/').map_or(0, |slash| slash + 1);
    let start = start_of_name(path);
    if path[start..].starts_with("__") && start > 0 {
        return &path[start_of_name(&path[..start - 1])..];
    }
    &path[start..]
}

#[cfg(test)]
mod tests {
    use super::layout::{PYTHON_3_11, PYTHON_3_12};
    use super::*;

    const CODE: u64 = 0xc0de;
    const TEXT: u64 = 0x7e87;

    /// An object in the memory of this process, with these words at these offsets. It is never freed.
    fn object(members: &[(u64, u64)]) -> u64 {
        let words = Box::leak(Box::new([0_u64; 32]));
        for (offset, word) in members {
            words[*offset as usize / 8] |= word << (8 * (offset % 8));
        }
        words.as_ptr() as u64
    }

    fn text(of: &Layout, characters: &str) -> u64 {
        let at = &of.text;
        let mut members = vec![
            (of.object_type, TEXT),
            (at.length, characters.len() as u64),
            // One byte for each character, compact, ASCII.
            (at.state, 1 << 2 | 1 << 5 | 1 << 6),
        ];
        let letters = characters.bytes().enumerate();
        members.extend(letters.map(|(index, byte)| (at.ascii + index as u64, u64::from(byte))));
        object(&members)
    }

    fn code(of: &Layout, name: &str) -> u64 {
        let (name, file) = (text(of, name), text(of, "/srv/a.py"));
        let at = &of.code;
        object(&[(of.object_type, CODE), (at.qualified_name, name), (at.file, file)])
    }

    /// A process with one interpreter and one thread, in a function that a C function began with.
    fn check(layout: Layout, frames: u64) {
        let process = std::process::id();
        let (memory, thread) = (Memory { process }, &layout.thread);
        let first = match thread.current {
            Some(current) => object(&[(current, frames)]),
            None => frames,
        };
        let interpreter = Box::leak(Box::new([0_u64; 32]));
        let address = interpreter.as_ptr() as u64;
        let members =
            [(thread.interpreter, address), (thread.native_id, 77), (thread.frame, first)];
        let state = object(&members);
        interpreter[layout.interpreters.threads as usize / 8] = state;
        let python = Python {
            layout,
            code_type: CODE,
            text_type: TEXT,
            head: object(&[(0, address)]),
            first_thread: 0,
            threads: BTreeMap::new(),
            read_ns: 0,
        };
        assert_eq!(python.read_threads(memory), Some(BTreeMap::from([(77, state)])));
        let words = stacks::words(memory, &layout, state);
        let search = Search::Found(Box::new(python));
        let known = Process { search, ..Process::default() };
        let mut pythons = Pythons::default();
        pythons.processes.insert(process, known);
        let PythonStack { runs, .. } = PythonStack::of_words(&words);
        let names = runs.concat().into_iter().map(|code| {
            let index = pythons.function(process, code)?;
            Some(pythons.functions[index as usize].name.clone())
        });
        let names: Vec<Option<String>> = names.collect();
        assert_eq!(names, [Some("get (a.py)".to_string()), None, Some("main (a.py)".to_string())]);
        assert_eq!(runs.len(), 2);
    }

    #[test]
    fn functions_are_read_from_the_frames_of_a_thread() {
        // What is no code object has no name, whatever lies there.
        let wrong = object(&[(PYTHON_3_11.object_type, TEXT)]);
        let at = PYTHON_3_11.frame;
        let main =
            object(&[(at.code, code(&PYTHON_3_11, "main")), (at.entry, u64::from(at.is_entry))]);
        let other =
            object(&[(at.code, wrong), (at.previous, main), (at.entry, u64::from(at.is_entry))]);
        let get = object(&[(at.code, code(&PYTHON_3_11, "get")), (at.previous, other)]);
        check(PYTHON_3_11, get);
        let at = PYTHON_3_12.frame;
        let mark =
            |previous| object(&[(at.previous, previous), (at.entry, u64::from(at.is_entry))]);
        let main = object(&[(at.code, code(&PYTHON_3_12, "main")), (at.previous, mark(0))]);
        let other = object(&[(at.code, wrong), (at.previous, mark(main))]);
        let get = object(&[(at.code, code(&PYTHON_3_12, "get")), (at.previous, other)]);
        check(PYTHON_3_12, get);
    }

    #[test]
    fn files_are_called_as_people_say_them() {
        assert_eq!(short("/srv/shop/cache.py"), "cache.py");
        assert_eq!(short("/srv/shop/__init__.py"), "shop/__init__.py");
        assert_eq!(short("__main__.py"), "__main__.py");
        assert_eq!(short("<frozen runpy>"), "<frozen runpy>");
    }
}
