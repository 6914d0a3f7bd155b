//! What a guest's instructions access, seen by a plugin of QEMU's translator (`plugin/accesses.c`, which draws how it
//! works). The plugin counts in a file without a name, which knee reads while the guest waits for its next request. The
//! guest's memory is such a file, too, so that what lies at an address can be looked up afterwards.
//!
//!     knee:   new ── set_entries ── (a run) ── take ── clear ── (a run) ── take …
//!     plugin:                       counts             counts

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail, ensure};
use host::memfd;
use rustix::fs::{FallocateFlags, fallocate};

/// The plugin, for each version of QEMU's interface that differs for it.
const PLUGINS: [(u32, &[u8]); 3] = [
    (1, include_bytes!(concat!(env!("OUT_DIR"), "/accesses-1.so"))),
    (2, include_bytes!(concat!(env!("OUT_DIR"), "/accesses-2.so"))),
    (3, include_bytes!(concat!(env!("OUT_DIR"), "/accesses-3.so"))),
];

// The layout of `struct head` and `struct access`.
const ENTRIES: usize = 512;
const CPUS: usize = 1024;
const WINDOWS: usize = 8;
const ACTORS: usize = 5;
const AT_ENTRIES: u64 = 8;
const AT_SLOTS: u64 = AT_ENTRIES + 8 + 24 * ENTRIES as u64;
const AT_LOST: u64 = AT_SLOTS + 8;
const MAP_BYTES: u64 = 1 << 18;
const AT_EACH: u64 = AT_LOST + 24;
const AT_MOVED: u64 = AT_EACH + 8;
const AT_WARMING: u64 = AT_MOVED + 8;
const AT_MAPS: u64 = AT_WARMING + 8;
const AT_INSTRUCTIONS: u64 = AT_MAPS + 8 + MAP_BYTES;
const OPERATION_CPUS: usize = 64;
const OPERATION_WINDOWS: usize = 4;
const OPERATIONS: usize = 1024;
const AT_OPERATIONS: u64 = AT_INSTRUCTIONS + 8 * (CPUS * WINDOWS * ACTORS) as u64;
const AT_OPERATION: u64 = AT_OPERATIONS + 4 * (OPERATION_CPUS * OPERATION_WINDOWS) as u64;
const AT_STEP_COUNTS: u64 =
    AT_OPERATION + 4 * (OPERATION_CPUS * OPERATION_WINDOWS * OPERATIONS) as u64;
const HEAD_BYTES: u64 = AT_STEP_COUNTS + 4 * OPERATION_CPUS as u64;
const LINE_BYTES: usize = 128;
const SLOT_BYTES: usize = 40;
const EXECUTION_BYTES: usize = 16;
const AT_TABLE: u64 = HEAD_BYTES + LINES * LINE_BYTES as u64;
const AT_EXECUTIONS: u64 = AT_TABLE + SLOTS * SLOT_BYTES as u64;
const AT_STEPS: u64 = AT_EXECUTIONS + EXECUTIONS * EXECUTION_BYTES as u64;
const STEP_BYTES: usize = 24;
const END: u64 = AT_STEPS + OPERATION_CPUS as u64 * STEPS * STEP_BYTES as u64;

/// Room for this many lines, as `LINES` of the plugin.
const LINES: u64 = 1 << 18;

/// Room for this many different accesses; more are counted as lost.
const SLOTS: u64 = 1 << 21;

/// Room for this many different instructions of the kernel, as `EXECUTIONS` of the plugin.
const EXECUTIONS: u64 = 1 << 17;

/// Room for this many steps of each CPU's operations, as `STEPS` of the plugin.
const STEPS: u64 = 1 << 17;

/// What a CPU does while it accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The operation of a measured task, in the kernel: its system calls and page faults.
    Kernel,
    /// The operation of a measured task, in its own code.
    User,
    /// An interrupt from another CPU (call functions, reschedule).
    Ipi,
    /// Another interrupt, with what follows it: timers, devices, RCU.
    Interrupt,
    /// Other tasks.
    Other,
}

const ALL_ACTORS: [Actor; ACTORS] =
    [Actor::Kernel, Actor::User, Actor::Ipi, Actor::Interrupt, Actor::Other];

/// How an instruction accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    Load,
    Store,
    /// A read-modify-write that is one access for all CPUs (the prefix lock).
    Atomic,
}

/// All accesses of one instruction to one line, on one CPU, as one actor in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the line's first byte: a virtual one, but the physical one where a guest's access was by a user
    /// address.
    pub line: u64,
    /// Whether the access was by a user address.
    pub is_user_address: bool,
    /// The address of the instruction.
    pub instruction: u64,
    /// The bytes of the line that were accessed, as a mask.
    pub bytes: u64,
    pub count: u32,
    /// Instructions from the CPU's last atomic on the line to each of these writes, added up: of a lock's release, how long
    /// the lock was held. 0 of loads, of stores within a burst, and where another CPU had an atomic meanwhile.
    pub since_atomic: u32,
    /// The vCPU; in a program, the thread.
    pub cpu: u16,
    /// The task's window; 0 for those of other tasks.
    pub window: u8,
    pub actor: Actor,
    pub how: How,
}

/// What a coherence protocol of endless caches does with one line, while the measured tasks access it in the order in
/// which the guest's CPUs did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// As in [`Access`].
    pub line: u64,
    /// The line's virtual address in the program that accessed it last, where `line` is a physical one.
    pub user_address: Option<u64>,
    pub windows: [Transfers; 4],
}

/// Transfers of a line in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Times that a CPU had to get the only copy, to write, where another had one.
    pub owned: u32,
    /// Times that a CPU had to get a copy to read that another CPU had written.
    pub copied: u32,
    /// Bursts of accesses with a write: where many CPUs want the line, each burst has to get it.
    pub bursts: u32,
}

/// What was seen between two [`Tracer::clear`].
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub accesses: Vec<Access>,
    pub lines: Vec<Line>,
    /// The instructions that each CPU executed, by window and actor.
    pub instructions: Vec<Executed>,
    /// Kernel instructions of the first operations of each CPU in each window.
    pub operations: Vec<Operations>,
    /// How often the measured tasks executed each instruction of the kernel, in all windows and on all CPUs.
    pub executions: Vec<Execution>,
    /// The first operations of each CPU in the first window, access by access.
    pub steps: Vec<Steps>,
    /// Accesses, and instructions, that were not counted, for want of room.
    pub lost: u64,
    /// Times that a task could not be told from others.
    pub confused: u64,
    /// Operations that tasks counted.
    pub done: u64,
    /// Operations before which their task had moved to another CPU.
    pub moved: u64,
}

/// The instructions of one CPU as one actor in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    pub cpu: u16,
    pub window: u8,
    pub actor: Actor,
    pub count: u64,
}

/// An instruction of the kernel, and how often it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    pub instruction: u64,
    pub count: u64,
}

/// Kernel instructions of a CPU's operations in a window, one number each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operations {
    pub cpu: u16,
    pub window: u8,
    pub instructions: Vec<u32>,
}

/// Whole operations of a CPU in the first window, step by step. Accesses to the task's own stack are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    pub cpu: u16,
    pub steps: Vec<Step>,
}

/// A step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Instructions that the operation had executed before, in the kernel and its own.
    pub at: u32,
    pub what: StepKind,
}

/// What an operation does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    Access {
        /// The first byte: a virtual address, but the physical one where the access was by a user address.
        address: u64,
        bytes: u8,
        is_user_address: bool,
        how: How,
        /// The address of the instruction.
        instruction: u64,
    },
    /// It waits for something: this instruction calls `schedule`.
    Waits { instruction: u64 },
    /// It ends.
    Ends,
}

/// Where the kernel is entered and switches tasks, for the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An exception that belongs to the task, such as a page fault.
    Exception = 1,
    /// An interrupt from another CPU.
    Ipi = 2,
    /// Another interrupt.
    Interrupt = 3,
    /// The code that switches to another task's stack.
    Switch = 4,
    /// A function in which a task loses its CPU against its will.
    Preemption = 5,
    /// `schedule`: the task waits, unless an `Exit` calls it.
    Schedule = 6,
    /// The way from the kernel to user mode.
    Exit = 7,
}

/// The plugin and the memory that it counts in.
pub struct Tracer {
    plugin: File,
    counts: File,
    /// The guest's memory.
    pub memory: File,
}

impl Tracer {
    /// Chooses the plugin for a version of QEMU, as `--version` prints it. `memory_bytes` is the guest's memory; 0 for
    /// QEMU's user mode.
    pub fn new(qemu_version: &str, memory_bytes: u64) -> Result<Tracer> {
        let plugin = for_version(&PLUGINS, qemu_version)?;
        let bytes = END;
        let counts = memfd::create_bounded(c"accesses", bytes)?;
        counts.write_all_at(&bytes.to_ne_bytes(), 0)?;
        counts.write_all_at(&SLOTS.to_ne_bytes(), AT_SLOTS)?;
        Ok(Tracer {
            plugin: memfd::in_memory("plugin.so", plugin)?,
            counts,
            memory: memfd::create_bounded(c"guest-memory", memory_bytes)?,
        })
    }

    /// The argument of QEMU's `-plugin`.
    pub fn argument(&self) -> String {
        let (plugin, counts) = (memfd::path(&self.plugin), memfd::path(&self.counts));
        format!("{},memory={}", plugin.display(), counts.display())
    }

    /// What QEMU is started with as LD_PRELOAD: the plugin again, whose clock goes more slowly while it watches.
    pub fn preloaded(&self) -> std::path::PathBuf {
        memfd::path(&self.plugin)
    }

    /// Tells the plugin the first and the end address of each entry. It uses them once a task arms it.
    pub fn set_entries(&self, entries: &[(u64, u64, Entry)]) -> Result<()> {
        ensure!(
            entries.len() <= ENTRIES,
            "the kernel has {} entries, more than {ENTRIES}",
            entries.len()
        );
        let mut bytes = (entries.len() as u64).to_ne_bytes().to_vec();
        for (start, end, entry) in entries {
            bytes.extend([*start, *end, *entry as u64].iter().flat_map(|word| word.to_ne_bytes()));
        }
        self.counts.write_all_at(&bytes, AT_ENTRIES).context("telling the plugin the entries")
    }

    /// Tells the plugin how many operations of a task that counts them are in its first window.
    pub fn set_each(&self, operations: u64) -> Result<()> {
        let told = self.counts.write_all_at(&operations.to_ne_bytes(), AT_EACH);
        told.context("telling the plugin the windows")
    }

    /// The memory map of a program that has ended, as /proc/PID/maps shows it.
    pub fn maps(&self) -> Result<String> {
        let mut bytes = [0; 8];
        self.counts.read_exact_at(&mut bytes, AT_MAPS).context("reading the program's map")?;
        let mut text = vec![0; u64::from_ne_bytes(bytes).min(MAP_BYTES) as usize];
        self.counts.read_exact_at(&mut text, AT_MAPS + 8).context("reading the program's map")?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Forgets what was counted. No window may be open.
    pub fn clear(&self) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let table = HEAD_BYTES.next_multiple_of(4096);
        self.counts.write_all_at(&vec![0; (table - AT_INSTRUCTIONS) as usize], AT_INSTRUCTIONS)?;
        self.counts.write_all_at(&[0; 16], AT_LOST)?;
        self.counts.write_all_at(&[0; 16], AT_MOVED)?;
        fallocate(&self.counts, flags, table, END - table).context("clearing the counts")
    }

    /// The operations that tasks have done since the last `clear`, while they do more: those of warm-ups, of tasks that count
    /// them, and those in windows.
    pub fn progress(&self) -> Result<u64> {
        let (mut warming, mut counts) = ([0; 8], [0; (AT_OPERATION - AT_OPERATIONS) as usize]);
        self.counts.read_exact_at(&mut warming, AT_WARMING).context("reading the counts")?;
        self.counts.read_exact_at(&mut counts, AT_OPERATIONS).context("reading the counts")?;
        Ok(u64::from_ne_bytes(warming) + operations_done(&counts))
    }

    /// What was counted since the last `clear`.
    pub fn take(&self) -> Result<Trace> {
        let mut head = vec![0; HEAD_BYTES as usize];
        self.counts.read_exact_at(&mut head, 0).context("reading the counts")?;
        let long = |at: u64| word(&head, at as usize);
        let mut trace = Trace {
            lost: long(AT_LOST),
            confused: long(AT_LOST + 8),
            done: operations_done(&head[AT_OPERATIONS as usize..AT_OPERATION as usize]),
            moved: long(AT_MOVED),
            ..Trace::default()
        };
        for cpu in 0..CPUS {
            for window in 0..WINDOWS {
                for (number, actor) in ALL_ACTORS.into_iter().enumerate() {
                    let at = ((cpu * WINDOWS + window) * ACTORS + number) as u64 * 8;
                    let count = long(AT_INSTRUCTIONS + at);
                    let (cpu, window) = (cpu as u16, window as u8);
                    let executed = Executed { cpu, window, actor, count };
                    trace.instructions.extend((count > 0).then_some(executed));
                }
            }
        }
        trace.operations = operations(&head);
        trace.lines = self.table(HEAD_BYTES, (LINES, LINE_BYTES), line)?;
        trace.accesses = self.table(AT_TABLE, (SLOTS, SLOT_BYTES), access)?;
        let executions = (EXECUTIONS, EXECUTION_BYTES);
        trace.executions = self.table(AT_EXECUTIONS, executions, execution)?;
        trace.steps = self.steps(&head)?;
        Ok(trace)
    }

    /// The steps of whole operations, of each CPU that has some.
    fn steps(&self, head: &[u8]) -> Result<Vec<Steps>> {
        let mut all = Vec::new();
        for cpu in 0..OPERATION_CPUS {
            let n = short(head, AT_STEP_COUNTS as usize + 4 * cpu) as usize;
            let mut bytes = vec![0; n * STEP_BYTES];
            let at = AT_STEPS + cpu as u64 * STEPS * STEP_BYTES as u64;
            self.counts.read_exact_at(&mut bytes, at).context("reading the steps")?;
            let mut steps: Vec<Step> = bytes.chunks_exact(STEP_BYTES).map(step).collect();
            let ends = steps.iter().rposition(|step| step.what == StepKind::Ends);
            steps.truncate(ends.map_or(0, |last| last + 1));
            all.extend((!steps.is_empty()).then_some(Steps { cpu: cpu as u16, steps }));
        }
        Ok(all)
    }

    /// The filled entries of a table.
    fn table<T>(
        &self,
        start: u64,
        (entries, bytes): (u64, usize),
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        const AT_ONCE: u64 = 1 << 14;
        let mut chunk = vec![0; bytes * AT_ONCE as usize];
        let mut filled = Vec::new();
        for first in (0..entries).step_by(AT_ONCE as usize) {
            let at = start + first * bytes as u64;
            self.counts.read_exact_at(&mut chunk, at).context("reading the counts")?;
            filled.extend(chunk.chunks_exact(bytes).filter_map(&read));
        }
        Ok(filled)
    }
}

/// A filled slot of the table.
fn access(slot: &[u8]) -> Option<Access> {
    let [where_, how] = [slot[30], slot[31]];
    let state = u32::from_ne_bytes(slot[32..36].try_into().ok()?);
    (state == 2).then_some(())?;
    Some(Access {
        line: word(slot, 0),
        instruction: word(slot, 8),
        bytes: word(slot, 16),
        count: u32::from_ne_bytes(slot[24..28].try_into().ok()?),
        since_atomic: u32::from_ne_bytes(slot[36..40].try_into().ok()?),
        cpu: u16::from_ne_bytes(slot[28..30].try_into().ok()?),
        window: where_ >> 4,
        actor: *ALL_ACTORS.get(usize::from(where_ & 0xf))?,
        how: how_of(how),
        is_user_address: how & 4 != 0,
    })
}

/// A step of an operation.
fn step(entry: &[u8]) -> Step {
    const WAITS: u8 = 16;
    let (instruction, how) = (word(entry, 8), entry[22]);
    let what = match how {
        0 => StepKind::Ends,
        WAITS => StepKind::Waits { instruction },
        how => StepKind::Access {
            address: word(entry, 0),
            bytes: entry[23],
            is_user_address: how & 4 != 0,
            how: how_of(how),
            instruction,
        },
    };
    Step { at: short(entry, 16), what }
}

fn how_of(how: u8) -> How {
    match how & 3 {
        1 => How::Load,
        2 => How::Store,
        _ => How::Atomic,
    }
}

/// A filled slot of the executed instructions.
fn execution(slot: &[u8]) -> Option<Execution> {
    let (instruction, count) = (word(slot, 0), word(slot, 8));
    (instruction != 0).then_some(Execution { instruction, count })
}

/// The instructions of single operations in the head of the counts.
fn operations(head: &[u8]) -> Vec<Operations> {
    let short = |at: usize| short(head, at);
    let mut all = Vec::new();
    for (cpu, window) in
        (0..OPERATION_CPUS).flat_map(|cpu| (0..OPERATION_WINDOWS).map(move |w| (cpu, w)))
    {
        let place = cpu * OPERATION_WINDOWS + window;
        let n = short(AT_OPERATIONS as usize + 4 * place).min(OPERATIONS as u32) as usize;
        let first = AT_OPERATION as usize + 4 * place * OPERATIONS;
        let instructions: Vec<u32> = (0..n).map(|number| short(first + 4 * number)).collect();
        let (cpu, window) = (cpu as u16, window as u8);
        all.extend((n > 0).then_some(Operations { cpu, window, instructions }));
    }
    all
}

/// A filled entry of the lines.
fn line(entry: &[u8]) -> Option<Line> {
    let short = |at: usize| short(entry, at);
    (short(40) == 2).then_some(())?;
    let transfers = |window: usize| {
        let at = 48 + 16 * window;
        Transfers { owned: short(at), copied: short(at + 4), bursts: short(at + 8) }
    };
    Some(Line {
        line: word(entry, 0),
        user_address: Some(word(entry, 24)).filter(|address| *address > 0),
        windows: [0, 1, 2, 3].map(transfers),
    })
}

/// The operations of all CPUs in all windows.
fn operations_done(counts: &[u8]) -> u64 {
    counts.chunks_exact(4).map(|count| u64::from(short(count, 0))).sum()
}

fn short(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The one of these plugins, by the version of the interface that each is for, that a version of QEMU takes.
pub(crate) fn for_version(plugins: &[(u32, &'static [u8])], qemu: &str) -> Result<&'static [u8]> {
    let interface = interface_of(qemu)?;
    let plugin = plugins.iter().rfind(|(version, _)| *version <= interface);
    Ok(plugin.context("every version has a plugin")?.1)
}

/// The version of the plugin interface that a QEMU has, by its own version (include/qemu/qemu-plugin.h of each).
fn interface_of(version: &str) -> Result<u32> {
    Ok(match numbers_of(version)? {
        (major @ ..=3, minor) | (major @ 4, minor @ ..=1) => {
            bail!("QEMU {major}.{minor} has no plugins: install 4.2 or newer")
        }
        (..=8, _) => 1,
        (9, 0) => 2,
        _ => 3,
    })
}

/// The first two numbers of QEMU's version, as `--version` prints it.
pub(crate) fn numbers_of(version: &str) -> Result<(u32, u32)> {
    let number =
        version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut parts = number.unwrap_or_default().split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(Some(major)), Some(Some(minor))) => Ok((major, minor)),
        _ => bail!("QEMU does not say its version: {version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_qemu_gets_the_plugin_for_its_interface() {
        let check = |version: &str, expected: u32| {
            assert_eq!(interface_of(version).unwrap(), expected, "{version}");
        };
        check("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", 1);
        check("QEMU emulator version 8.1.0", 1);
        check("QEMU emulator version 8.2.2 (Debian 1:8.2.2+ds-0ubuntu1)", 1);
        check("qemu-x86_64 version 9.0.2", 2);
        check("QEMU emulator version 10.0.0", 3);
        assert!(interface_of("QEMU emulator version 3.1.0").is_err());
        assert!(interface_of("no version").is_err());
    }
}
