//! Loads and attaches the programs that delay, and reads what they did.

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};

use super::{Delayed, LockKind};
use crate::bpf_programs::unpacked;

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lock_delay.bpf.o.gz"));

/// In the order of attaching: a wait whose begin was not seen has no end.
const ATTACHED: [&str; 2] = ["delay_end", "delay_begin"];

/// `config` of lock_delay.bpf.c: a time and two words of 32 bits.
const CONFIG_BYTES: usize = 16;

// include/trace/events/lock.h: flags of contention_begin.
const SPIN: u32 = 1;
const READ_OR_WRITE: u32 = 2 | 4;
const RT: u32 = 8;
const PER_CPU: u32 = 16;
const MUTEX: u32 = 32;

impl LockKind {
    /// The flags that tell this kind from others, and what they are for it. A mutex is told while its waiter
    /// spins, too.
    fn flags(self) -> (u32, u32) {
        match self {
            LockKind::Mutex => (MUTEX, MUTEX),
            LockKind::Rwsem => (SPIN | RT | PER_CPU | MUTEX, 0),
            LockKind::Spinlock => (SPIN | READ_OR_WRITE | RT | PER_CPU | MUTEX, SPIN),
        }
    }
}

/// Delays the tasks of the caller's process group until it is dropped.
#[derive(Debug)]
pub struct LockDelay {
    object: Object,
    /// Dropping a link detaches its program.
    _links: Vec<Link>,
}

impl LockDelay {
    /// Begins to delay. An error says what the kernel lacks or refuses.
    pub fn begin(kind: LockKind, ns: u64) -> Result<LockDelay, String> {
        LockDelay::attach(kind, ns).map_err(|why| format!("delaying kernel locks by BPF: {why}"))
    }

    fn attach(kind: LockKind, ns: u64) -> Result<LockDelay, String> {
        let mut open =
            ObjectBuilder::default().open_memory(&unpacked(PROGRAMS)).map_err(|e| e.to_string())?;
        let (mask, flags) = kind.flags();
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().ends_with(".rodata") {
                let section = map.initial_value_mut().and_then(|all| all.get_mut(..CONFIG_BYTES));
                let section =
                    section.ok_or("internal error: the programs have no configuration")?;
                section[..8].copy_from_slice(&ns.to_ne_bytes());
                section[8..12].copy_from_slice(&mask.to_ne_bytes());
                section[12..].copy_from_slice(&flags.to_ne_bytes());
            }
        }
        let object = open.load().map_err(|e| {
            format!("loading the programs: {e} (needs root, Linux 5.19 or newer with BTF)")
        })?;
        let program = |name: &str| {
            let found = object.progs_mut().find(|program| program.name() == name);
            found.ok_or_else(|| format!("internal error: no program {name}"))
        };
        let run = program("remember")?.test_run(ProgramInput::default());
        let run = run.map_err(|e| format!("asking for our process group: {e}"))?;
        if run.return_value != 1 {
            return Err("the kernel's types name no process group".to_string());
        }
        let attach = |name| {
            program(name)?
                .attach()
                .map_err(|e| format!("attaching to the end of waits for locks: {e}"))
        };
        let links = ATTACHED.into_iter().map(attach).collect::<Result<_, String>>()?;
        Ok(LockDelay { object, _links: links })
    }

    /// What was delayed since the begin.
    pub fn so_far(&self) -> Result<Delayed, String> {
        let failed = |why: &str| format!("reading what was delayed: {why}");
        let mut maps = self.object.maps();
        let bss = maps.find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let bss = bss.ok_or_else(|| failed("internal error: the programs have no totals"))?;
        let bytes = bss.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = bytes.map_err(|e| failed(&e.to_string()))?.unwrap_or_default();
        let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        let (Some(times), Some(ns)) = (word(0), word(8)) else {
            return Err(failed("internal error: the totals are too short"));
        };
        Ok(Delayed { times: u64::from_ne_bytes(times), ns: u64::from_ne_bytes(ns) })
    }
}
