//! How many instructions a program executes, and which system calls, by a plugin of QEMU's user mode (`plugin/counts.c`).
//! Nothing is timed, so a small change shows that no clock could see; what a count costs in time, it does not say.
//!
//!     program ─┬─ thread, child: counted by the same QEMU, or a fork of it
//!              └─ execve: QEMU is started again on the new program, with the same counts
//!
//! Not counted is the kernel, and programs that QEMU cannot start in another's place (set-user-ID, other architectures):
//! `uncounted` says how many. QEMU 7.2 has no vDSO: reading the clock is a system call there. A block in which a signal
//! handler of a fault begins counts whole.
//!
//! Ten counts each, with QEMU 7.2 on two CPUs:
//!
//! | program | instructions | spread | time, of native |
//! | --- | --- | --- | --- |
//! | ls | 533 102 | 0 | + 0.1 s |
//! | malloc, strings, a hash table, in C | 246 088 769 | 0 | 13 times |
//! | Python, a dictionary as JSON | 220 829 068 | 0 | 18 times |
//! | two threads in C that share nothing | 120 109 170 | 94: whether join waits | 12 times |
//! | two threads in C that take turns with a mutex | 13 311 600 | 0.002 % (9 % on two CPUs): waits | 30 times |
//! | Go, a map and a sort | 466 000 000 | 5 %: the garbage collector and preemption go by the clock | 21 times |
//! | the same with GOGC=off, GODEBUG=asyncpreemptoff=1 | 406 700 000 | 0.1 % | 22 times |
//!
//! So a program sees one CPU. It gets the same addresses and numbers from getrandom(2) each time, not the same process
//! ids, clock and /dev/urandom. Longer arguments, folders or variables of the environment move its stack, which may change
//! the counts of string functions: compare under paths of one length.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use host::children::{self, Streams};
use host::executables::{find_program, in_path, is_executable};
use host::{kill_with_parent, memfd};

use crate::program::{QEMU, version};
use crate::tracer::for_version;

/// The plugin, for each version of QEMU's interface that differs for it.
const PLUGINS: [(u32, &[u8]); 3] = [
    (1, include_bytes!(concat!(env!("OUT_DIR"), "/counts-1.so"))),
    (2, include_bytes!(concat!(env!("OUT_DIR"), "/counts-2.so"))),
    (3, include_bytes!(concat!(env!("OUT_DIR"), "/counts-3.so"))),
];

// The layout of `struct head`.
const OBJECTS: usize = 1024;
const PATH_BYTES: usize = 4096;
const SYSTEM_CALLS: usize = 1024;
const UNCOUNTED: usize = 16;
const AT_SLOTS: usize = 8;
const AT_INSTALLED: usize = 16;
const AT_LOST: usize = 40;
const AT_UNCOUNTED: usize = 48;
const AT_UNCOUNTED_PATHS: usize = 56;
const AT_QEMU: usize = AT_UNCOUNTED_PATHS + UNCOUNTED * PATH_BYTES;
const AT_PLUGIN: usize = AT_QEMU + PATH_BYTES;
const AT_ARGUMENT: usize = AT_PLUGIN + PATH_BYTES;
const AT_SYSTEM_CALLS: usize = AT_ARGUMENT + PATH_BYTES;
const AT_OBJECTS: usize = AT_SYSTEM_CALLS + 8 * SYSTEM_CALLS;
const HEAD_BYTES: usize = AT_OBJECTS + OBJECTS * PATH_BYTES;

/// Room for this many different blocks; executions of more are counted as lost.
const SLOTS: usize = 1 << 20;
const SLOT_BYTES: usize = 16;

/// What a program executed, with its threads, its children and the programs that these started.
#[derive(Clone, Debug)]
pub struct CountedProgram {
    /// Paths of the files with code. The first is empty: code in no file, as JITs make it.
    pub objects: Vec<String>,
    /// In the order of objects and offsets.
    pub blocks: Vec<CountedBlock>,
    /// How often each system call was called, by its number.
    pub system_calls: BTreeMap<u64, u64>,
    pub status: ExitStatus,
    /// Both output streams, in the order in which they were written.
    pub output: Vec<u8>,
    /// Executions of blocks that were not counted, for want of room.
    pub lost: u64,
    /// How many programs were started without being counted.
    pub uncounted: u64,
    /// The first ones of them.
    pub uncounted_paths: Vec<String>,
}

/// Instructions that are executed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedBlock {
    /// The place of its file in `objects`.
    pub object: usize,
    /// Where the block begins in its file; of code in no file, nothing.
    pub offset: u64,
    pub instructions: u64,
    pub executions: u64,
}

impl CountedProgram {
    /// All instructions that were executed.
    pub fn instructions(&self) -> u64 {
        self.blocks.iter().map(|block| block.instructions * block.executions).sum()
    }
}

/// Runs a command line in a folder, with this environment only, and counts. Its addresses and random numbers are always
/// the same. Fails where the program cannot be started under QEMU, after `limit`, and when a signal asks knee to end; that
/// the program fails is in its status.
pub fn count(
    words: &[String],
    folder: &Path,
    environment: &[(String, String)],
    limit: Duration,
) -> Result<CountedProgram> {
    let name = words.first().context("no program to count")?;
    let plugin = for_version(&PLUGINS, &version("")?)?;
    let plugin = memfd::in_memory("plugin.so", plugin)?;
    let counts = counts_for(&plugin)?;
    let folder = std::path::absolute(folder).context("looking for the folder")?;
    let (program, arguments) = resolve(words, &folder, environment)?;
    let mut command = command(&plugin, &counts, environment);
    command.arg("-0").arg(&arguments[0]).arg("--").arg(&program).args(&arguments[1..]);
    command.current_dir(folder);
    let output = children::output_until(&mut command, Streams::Together, limit)
        .with_context(|| format!("counting the instructions of {name}"))?;
    let mut head = vec![0; HEAD_BYTES];
    counts.read_exact_at(&mut head, 0).context("reading the counts")?;
    ensure!(
        word(&head, AT_INSTALLED) > 0,
        "{QEMU} did not start {name}: {}",
        String::from_utf8_lossy(&output.stdout).trim()
    );
    let mut table = vec![0; SLOTS * SLOT_BYTES];
    counts.read_exact_at(&mut table, HEAD_BYTES as u64).context("reading the counts")?;
    Ok(taken(&head, &table, output.status, output.stdout))
}

/// The memory that the plugin counts in.
fn counts_for(plugin: &File) -> Result<File> {
    let bytes = HEAD_BYTES + SLOTS * SLOT_BYTES;
    let counts = memfd::create_bounded(c"counts", bytes as u64)?;
    let plugin = memfd::path(plugin);
    let qemu = find_program(QEMU);
    let texts = [
        (AT_QEMU, qemu.with_context(|| format!("looking for {QEMU}"))?.display().to_string()),
        (AT_PLUGIN, plugin.display().to_string()),
        (AT_ARGUMENT, argument(&plugin, &counts)),
    ];
    for (at, text) in texts {
        ensure!(text.len() < PATH_BYTES, "too long a path: {text}");
        counts.write_all_at(text.as_bytes(), at as u64)?;
    }
    counts.write_all_at(&bytes.to_ne_bytes(), 0)?;
    counts.write_all_at(&SLOTS.to_ne_bytes(), AT_SLOTS as u64)?;
    Ok(counts)
}

/// The argument of QEMU's `-plugin`.
fn argument(plugin: &Path, counts: &File) -> String {
    format!("{},memory={}", plugin.display(), memfd::path(counts).display())
}

/// QEMU with all options but the program. As the plugin's `follow`.
fn command(plugin: &File, counts: &File, environment: &[(String, String)]) -> Command {
    let mut command = Command::new(QEMU);
    let plugin = memfd::path(plugin);
    command.args(["-seed", "1", "-U", "LD_PRELOAD", "-U", "KNEE_STARTED_BY"]);
    command.arg("-plugin").arg(argument(&plugin, counts)).env_clear();
    for (name, value) in environment {
        // They are the program's, not QEMU's, which splits its options at commas.
        if name.starts_with("LD_") && !value.contains(',') {
            command.arg("-E").arg(format!("{name}={value}"));
        } else {
            command.env(name, value);
        }
    }
    command.env("LD_PRELOAD", plugin);
    // A count of a knee that was killed would disturb the next one.
    kill_with_parent(&mut command, libc::SIGKILL);
    // SAFETY: system calls only.
    unsafe { command.pre_exec(keep_from_chance) };
    command
}

/// Gives this process the same addresses each time, and one CPU. For a child between fork and exec.
fn keep_from_chance() -> io::Result<()> {
    // SAFETY: plain calls on live data; a zeroed set is valid.
    let is_done = unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut cpus);
        libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) >= 0
            && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cpus) == 0
    };
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The ELF file that QEMU starts for a command line, and its arguments: those of the interpreter if it is a script.
fn resolve(
    words: &[String],
    folder: &Path,
    environment: &[(String, String)],
) -> Result<(PathBuf, Vec<String>)> {
    /// As the kernel allows them (fs/exec.c, exec_binprm).
    const SCRIPTS: usize = 5;
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or("/usr/bin:/bin", |(_, value)| value);
    let mut arguments = words.to_vec();
    let mut program = found(&words[0], path, folder)
        .with_context(|| format!("there is no program {}", words[0]))?;
    for _ in 0..SCRIPTS {
        let mut start = Vec::new();
        let file =
            File::open(&program).with_context(|| format!("opening {}", program.display()))?;
        file.take(256).read_to_end(&mut start)?;
        let Some(line) = start.strip_prefix(b"#!") else { return Ok((program, arguments)) };
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).trim().to_string();
        let (interpreter, argument) = line.split_once([' ', '\t']).unwrap_or((&line, ""));
        if !arguments[0].contains('/') {
            arguments[0] = program.display().to_string();
        }
        if !argument.trim().is_empty() {
            arguments.insert(0, argument.trim().to_string());
        }
        arguments.insert(0, interpreter.to_string());
        program = folder.join(interpreter);
    }
    bail!("{}: too many interpreters of interpreters", words[0]);
}

/// The file of a program, as a shell in this folder finds it.
fn found(name: &str, path: &str, folder: &Path) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(folder.join(name)).filter(|file| is_executable(file));
    }
    path.split(':').find_map(|place| in_path(name, folder.join(place).to_str()?))
}

/// What the plugin counted.
fn taken(head: &[u8], table: &[u8], status: ExitStatus, output: Vec<u8>) -> CountedProgram {
    let object = |number: usize| text(head, AT_OBJECTS + number * PATH_BYTES + 4);
    let mut objects: Vec<String> = (0..OBJECTS).map(object).collect();
    let used = objects.iter().rposition(|path| !path.is_empty()).map_or(1, |last| last + 1);
    objects.truncate(used);
    // Two processes may have entered a file at the same time.
    let first = |number: usize| objects.iter().position(|path| *path == objects[number]);
    let first: Vec<usize> = (0..used).filter_map(first).collect();
    let mut executions: BTreeMap<(usize, u64, u64), u64> = BTreeMap::new();
    for slot in table.chunks_exact(SLOT_BYTES) {
        let (key, count) = (word(slot, 0), word(slot, 8));
        let object = first.get((key >> 36) as usize & 0xffff).copied().unwrap_or(0);
        let place = (object, key & ((1 << 36) - 1), key >> 52);
        if count > 0 {
            *executions.entry(place).or_default() += count;
        }
    }
    let block = |((object, offset, instructions), executions)| CountedBlock {
        object,
        offset: if object > 0 { offset } else { 0 },
        instructions,
        executions,
    };
    let calls = (0..SYSTEM_CALLS).map(|k| (k as u64, word(head, AT_SYSTEM_CALLS + 8 * k)));
    let uncounted = (0..UNCOUNTED).map(|k| text(head, AT_UNCOUNTED_PATHS + k * PATH_BYTES));
    CountedProgram {
        objects,
        blocks: executions.into_iter().map(block).collect(),
        system_calls: calls.filter(|(_, count)| *count > 0).collect(),
        status,
        output,
        lost: word(head, AT_LOST),
        uncounted: word(head, AT_UNCOUNTED),
        uncounted_paths: uncounted.filter(|path| !path.is_empty()).collect(),
    }
}

/// A text that ends with a zero.
fn text(bytes: &[u8], at: usize) -> String {
    let bytes = &bytes[at..at + PATH_BYTES - 4];
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
