//! Loads the programs, marks threads, empties the ring, and puts the events together.

mod attached;
mod cut;
mod earlier_waits;
mod names;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::mem::take;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use host::clock::now_ns;
use host::parse_cpu_list;
use libbpf_rs::{Iter, MapCore, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder};
use perf_data::Symbols;
use records::live::{CpuUse, Left, OtherTask, StackTaken, Switch, Touch, Trace, TracedTask};

use self::attached::Attached;
use self::earlier_waits::read_words;
use self::names::name_stacks;
use super::Followed;
use super::bpf_object::{map, program, word};
use super::compat_calls;
use super::count_operations;
use super::cpython::{PythonStack, Pythons};
use super::function_names::FunctionNames;
use super::host_use::{own_cpu_ns, stolen_ns};
use super::operations::PassedFile;
use super::raw::{RawEvent, RawStack, RawTask, WAKING_CALLS, name_of};
use super::user_stacks::{UserStacks, touched};
use crate::bpf_programs::unpacked;
use crate::ledger::programs::CodeLocation;
use crate::libbpf_log::{self, with_log};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/live.bpf.o.gz"));

const FOLLOW: &str = "follow_wanted";
const FIND: &str = "find_followed";
const FORGET: &str = "forget_switches";

/// The share of the CPUs' time that following may take.
const BUDGET: f64 = 0.0075;
/// What the BPF programs and the end of a look take for a switch with its wake-up, in ns: PostgreSQL's rate on two CPUs with 70 000
/// switches a second, the programs attached and detached in turns. Their own run time (bpf_stats_enabled) is a third of that.
const SWITCH_NS: f64 = 2000.0;

/// How often the ring of events is emptied: before the budget of a window is used up, and seldom in a pause.
const DRAINED: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(50);
const DRAINED_IN_PAUSE: Duration = Duration::from_millis(100);

/// The size of the ring of events that wait to be read.
const RING_BYTES: u32 = 64 << 20;
/// For so many events, memory is kept between rounds.
const ARRIVED_KEPT: usize = 8192;
/// In a pause, one of so many samples is taken: copying and walking their stacks would take half of the budget.
const ONE_OF_IN_PAUSE: u32 = 4;
/// Stacks in a hundredth of a second and CPU, beside those of samples.
const STACKS: u32 = 3;

/// `config` of live.bpf.c.
#[repr(C)]
struct LiveConfig {
    knee: u32,
    futex: i32,
    file_calls: [i32; 4],
    waking_calls: [i32; 6],
    stacks: u32,
    unused: u32,
    compat_calls: [i16; compat_calls::COMPAT_CALLS],
}

/// `struct cpu_use` of live.bpf.c, in words.
const USE_BYTES: usize = 72;

/// Follows the threads of processes, and what they start, until it is dropped.
pub struct LiveWatch {
    object: Object,
    attached: Attached,
    ring: RingBuffer<'static>,
    arrived: Rc<RefCell<Vec<RawEvent>>>,
    stacks: UserStacks,
    pythons: Pythons,
    /// The kernel's functions; `None` if it does not show them.
    symbols: Option<Symbols>,
    names: FunctionNames,
    /// What frames of walked stacks are: of the kernel by address, of programs by place.
    walked: Vec<WalkedStack>,
    /// The processes whose threads are followed.
    wanted: BTreeSet<u32>,
    /// Addresses that threads waited at or were seen to access, by process.
    addresses: BTreeSet<(u32, u64)>,
    trace: Trace,
    /// What the CPUs' totals were at the last edge.
    last: Totals,
    /// CPU time of knee's process at the last edge.
    own_ns: u64,
    window_ns: f64,
    is_paused: bool,
    /// Number of switches that were seen before this window.
    switches_before: usize,
    /// Whether the look was ever cut: then what windows and answers take beyond their budget is owed.
    is_cut: bool,
    /// CPU time that is owed, in ns.
    debt_ns: f64,
    /// CPU time that answers took, and that no window has reported yet, in ns.
    answered_ns: u64,
    followed: Followed,
}

struct WalkedStack {
    at_ns: u64,
    task: u32,
    why: StackTaken,
    kernel: Vec<u64>,
    call: String,
    user: Vec<CodeLocation>,
    python: PythonStack,
    is_whole: bool,
    touches: Vec<Touch>,
}

/// Totals since the programs were loaded.
#[derive(Clone, Default)]
struct Totals {
    at_ns: u64,
    subject_ns: u64,
    idle_ns: u64,
    others_ns: u64,
    stolen_ns: u64,
    lost: u64,
    others: BTreeMap<String, u64>,
}

impl LiveWatch {
    /// Begins to follow the threads of these processes, with so many samples per second and CPU. Windows are about so long.
    ///
    /// # Errors
    /// Says what the kernel lacks or refuses.
    pub fn begin(processes: &[u32], hertz: u32, window: Duration) -> Result<LiveWatch, String> {
        libbpf_log::keep();
        let mut open = ObjectBuilder::default()
            .open_memory(&unpacked(PROGRAMS))
            .map_err(|e| with_log("opening knee's BPF programs", &e))?;
        configure(&mut open)?;
        attached::load_go(&mut open);
        let object = open.load().map_err(|e| {
            let why = with_log("loading knee's BPF programs", &e);
            format!("{why}: this needs root, or CAP_BPF and CAP_PERFMON, and Linux 5.11 or newer with BTF")
        })?;
        let mut followed = Followed::default();
        let attached = Attached::begin(&object, hertz, &mut followed.missing)?;
        let arrived = Rc::new(RefCell::new(Vec::new()));
        let ring = ring(&object, arrived.clone())?;
        let symbols = Symbols::from_kernel();
        if let Err(why) = &symbols {
            followed.missing.insert("names of kernel functions".to_string(), why.clone());
        }
        let mut watch = LiveWatch {
            object,
            attached,
            ring,
            arrived,
            stacks: UserStacks::default(),
            pythons: Pythons::default(),
            symbols: symbols.ok(),
            names: FunctionNames::default(),
            walked: Vec::new(),
            wanted: BTreeSet::new(),
            addresses: BTreeSet::new(),
            trace: Trace { hertz, online_cpus: online()?.len() as u32, ..Trace::default() },
            last: Totals::default(),
            own_ns: 0,
            window_ns: window.as_nanos() as f64,
            is_paused: false,
            switches_before: 0,
            is_cut: false,
            debt_ns: 0.0,
            answered_ns: 0,
            followed,
        };
        watch.follow(processes);
        if watch.trace.tasks.is_empty() {
            return Err(
                "none of the processes could be followed: they have ended, or are knee itself"
                    .to_string(),
            );
        }
        watch.start();
        Ok(watch)
    }

    /// Follows the threads of these processes too. Those that have ended are not followed.
    pub fn follow(&mut self, processes: &[u32]) {
        let Ok(wanted) = map(&self.object, "wanted") else { return };
        let new = processes.iter().filter(|process| !self.wanted.contains(process));
        let new: Vec<u32> = new.copied().collect();
        for process in &new {
            let one = 1_u32.to_ne_bytes();
            // A full map is beyond what a host has of processes.
            let _ = wanted.update(&process.to_ne_bytes(), &one, MapFlags::ANY);
        }
        if !new.is_empty()
            && let Err(why) = self.mark_wanted()
        {
            self.followed.missing.insert("threads that ran already".to_string(), why);
        }
        if let Err(why) = self.attached.add_go(&self.object, processes, self.is_paused) {
            self.followed.missing.insert("locks of goroutines".to_string(), why);
        }
        for process in new {
            self.wanted.insert(process);
            self.stacks.prepare(process);
            self.pythons.expect(&mut self.stacks, process);
            self.find_threads(process);
        }
        self.read_pythons();
    }

    /// Marks the threads that are there; those that they start later inherit it.
    fn mark_wanted(&self) -> Result<(), String> {
        self.walk_threads(FOLLOW)
    }

    /// Runs a BPF program on each thread of the host.
    fn walk_threads(&self, name: &str) -> Result<(), String> {
        let link = program(&self.object, name)?.attach();
        let link = link.map_err(|e| with_log("walking the threads", &e))?;
        let mut walk = Iter::new(&link).map_err(|e| with_log("walking the threads", &e))?;
        walk.read_to_end(&mut Vec::new()).map_err(|e| format!("walking the threads: {e}"))?;
        Ok(())
    }

    /// Begins the first window: what came before, while threads were marked, is left out.
    fn start(&mut self) {
        self.drain();
        self.trace.switches.clear();
        self.trace.goroutines.clear();
        self.last = self.totals();
        self.own_ns = own_cpu_ns();
        self.keep_earlier_waits(self.last.at_ns);
        self.begin_window();
    }

    /// Empties the ring, and walks stacks while their processes live.
    fn drain(&mut self) {
        // What cannot be read now is read next time, or counted as lost.
        let _ = self.ring.consume();
        self.stacks.begin_round();
        // Its memory is used again: the next round has about as many.
        let mut arrived = take(&mut *self.arrived.borrow_mut());
        for event in arrived.drain(..) {
            match event {
                RawEvent::Switch(raw) => {
                    raw.tasks.iter().flatten().for_each(|task| self.know(task, raw.switch.at_ns));
                    if let ([Some(leaving), _], Some(address)) = (raw.tasks, futex_of(&raw.switch))
                    {
                        self.addresses.insert((leaving.process, address));
                    }
                    self.trace.switches.push(raw.switch);
                }
                RawEvent::Found(task, mut found) => {
                    self.know(&task, found.at_ns);
                    read_words(task.process, &mut found);
                    self.trace.found.push(found);
                }
                RawEvent::Stack(raw) => {
                    if let Some(event) = raw.goroutine {
                        self.addresses.extend(event.waits_at.map(|at| (raw.process, at)));
                        self.trace.goroutines.push(event);
                        if raw.stack.is_empty() {
                            continue;
                        }
                    }
                    let raw = *raw;
                    let walked = self.stacks.walk(&raw);
                    let python = self.pythons.stack(&self.stacks, raw.process, &raw.python);
                    let is_sample = raw.why == StackTaken::Sampled && raw.kernel.is_empty();
                    let touches = is_sample
                        .then(|| touched(raw.process, raw.registers.ip, &raw.all_registers));
                    let touches = touches.unwrap_or_default();
                    self.addresses.extend(touches.iter().map(|touch| (raw.process, touch.address)));
                    let RawStack { at_ns, task, why, kernel, call, .. } = raw;
                    let (user, is_whole) = (walked.frames, walked.is_whole);
                    self.walked.push(WalkedStack {
                        at_ns,
                        task,
                        why,
                        kernel,
                        call,
                        user,
                        python,
                        is_whole,
                        touches,
                    });
                }
            }
        }
        arrived.shrink_to(ARRIVED_KEPT);
        *self.arrived.borrow_mut() = arrived;
        self.read_pythons();
    }

    /// Has the BPF programs read the frames of Python in processes in which it was found.
    fn read_pythons(&mut self) {
        for (process, python) in self.pythons.take_found() {
            let maps = map(&self.object, "pythons").and_then(|pythons| {
                python.register(&pythons, &map(&self.object, "python_threads")?, process)
            });
            if let Err(why) = maps {
                self.followed.missing.insert("Python functions".to_string(), why);
            }
        }
    }

    /// Notes that a task is followed, and what it is called now.
    fn know(&mut self, raw: &RawTask, at_ns: u64) {
        let name = raw.name();
        let known = self.trace.tasks.entry(raw.task).or_insert_with(|| TracedTask {
            process: raw.process,
            since_ns: at_ns,
            ..TracedTask::default()
        });
        if known.name != name {
            known.name = name.into_owned();
        }
    }

    /// Counts operations of followed tasks from now on, by places in their programs or by an event of the kernel.
    ///
    /// # Errors
    /// The kernel cannot put a probe there.
    pub fn count(
        &mut self,
        places: &[PassedFile],
        event: Option<(&str, &str)>,
    ) -> Result<(), String> {
        count_operations::attach(&self.object, places, event, &mut self.attached.always)
    }

    /// How many operations followed tasks have done since they are counted.
    pub fn operations(&self) -> Result<u64, String> {
        count_operations::passes(&self.object)
    }

    /// Takes in what there is, pauses if following has cost what a window may cost, and says after which time to call again.
    pub fn take_in(&mut self) -> Duration {
        self.drain();
        if self.is_paused {
            return DRAINED_IN_PAUSE;
        }
        let (cost_ns, budget_ns) = (self.cost_ns(), self.budget_ns() - self.payment_ns());
        if cost_ns > budget_ns {
            self.end_window();
            self.pause();
            return DRAINED_IN_PAUSE;
        }
        let since_ns = now_ns().saturating_sub(self.trace.edges_ns.last().copied().unwrap_or(0));
        until_next_round(cost_ns, budget_ns, since_ns)
    }

    /// CPU time that a window may take, in ns.
    fn budget_ns(&self) -> f64 {
        BUDGET * f64::from(self.trace.online_cpus) * self.window_ns
    }

    /// CPU time that following has taken since the window began, in ns: knee's own, and that of the BPF programs.
    fn cost_ns(&self) -> f64 {
        let events = self.trace.switches.len() - self.switches_before;
        own_cpu_ns().saturating_sub(self.own_ns) as f64 + events as f64 * SWITCH_NS
    }

    /// Ends a window, and begins the next; after a pause, with what threads do then.
    pub fn edge(&mut self) {
        self.drain();
        if !self.is_paused {
            return self.end_window();
        }
        if self.only_pays() || !self.resume() {
            return;
        }
        self.drain();
        self.last = self.totals();
        let gap = (self.trace.edges_ns.last().copied().unwrap_or_default(), self.last.at_ns);
        self.trace.gaps_ns.push(gap);
        self.begin_window();
    }

    fn begin_window(&mut self) {
        self.trace.edges_ns.push(self.last.at_ns);
        self.switches_before = self.trace.switches.len();
    }

    fn end_window(&mut self) {
        let now = self.totals();
        self.debt_ns -= self.payment_ns();
        self.owe_excess();
        let own_ns = own_cpu_ns();
        self.followed.own_ns.push(own_ns.saturating_sub(self.own_ns) + take(&mut self.answered_ns));
        self.followed.lost_events += now.lost - self.last.lost;
        self.trace.cpus.push(cpu_use(&self.last, &now));
        (self.last, self.own_ns) = (now, own_ns);
        self.begin_window();
    }

    /// Sees no switches until [`LiveWatch::resume`]: the programs are detached, since each costs its part of a switch even if it
    /// returns at once.
    fn pause(&mut self) {
        self.attached.pause();
        self.is_paused = true;
        self.take_one_of(ONE_OF_IN_PAUSE);
        // What a thread was known to do is long past when knee resumes.
        if let Err(why) = self.walk_threads(FORGET) {
            self.followed.missing.insert("what threads did in a pause".to_string(), why);
        }
    }

    /// Takes one of so many samples from now on.
    fn take_one_of(&self, samples: u32) {
        // If it is refused, all are taken.
        let _ = map(&self.object, "sampling").map(|sampling| {
            sampling.update(&0_u32.to_ne_bytes(), &samples.to_ne_bytes(), MapFlags::ANY)
        });
    }

    /// Sees switches again, and what each thread does now. Returns whether it does; if not, it is told as missing.
    fn resume(&mut self) -> bool {
        let attached = self.forget_uses().and_then(|()| self.attached.resume(&self.object));
        if let Err(why) = attached {
            self.followed.missing.insert("what came after a pause".to_string(), why);
            return false;
        }
        self.is_paused = false;
        self.take_one_of(1);
        if let Err(why) = self.walk_threads(FIND) {
            self.followed.missing.insert("what threads did after a pause".to_string(), why);
        }
        true
    }

    /// Has all CPUs begin anew, now and with nobody known to run there. No program may be attached that counts their time.
    fn forget_uses(&self) -> Result<(), String> {
        const UNKNOWN: u64 = 3;
        let key = 0_u32.to_ne_bytes();
        let uses = map(&self.object, "uses")?;
        let values = uses.lookup_percpu(&key, MapFlags::ANY).map_err(|e| e.to_string())?;
        let mut values = values.ok_or("internal error: CPUs have no counts of time")?;
        for bytes in values.iter_mut().filter(|bytes| bytes.len() >= USE_BYTES) {
            bytes[..8].copy_from_slice(&now_ns().to_ne_bytes());
            bytes[40..48].copy_from_slice(&UNKNOWN.to_ne_bytes());
        }
        uses.update_percpu(&key, &values, MapFlags::ANY).map_err(|e| e.to_string())
    }

    /// Ends: names the functions of all stacks.
    pub fn end(mut self) -> Followed {
        let (trace, walked) = (take(&mut self.trace), take(&mut self.walked));
        self.named(trace, &walked)
    }

    /// The totals of all CPUs, at one instant.
    fn totals(&self) -> Totals {
        const TRIES: usize = 5;
        const LONG_NS: u64 = 100_000;
        let mut totals = Totals::default();
        // Whoever takes the CPU from this thread meanwhile makes it a longer instant.
        for _ in 0..TRIES {
            let before = now_ns();
            totals = self.totals_at(before);
            let took = now_ns() - before;
            totals.at_ns = before + took / 2;
            if took < LONG_NS {
                break;
            }
        }
        totals.stolen_ns = stolen_ns();
        self.add_others(&mut totals);
        totals
    }

    fn totals_at(&self, now: u64) -> Totals {
        let mut totals = Totals::default();
        if let Ok(uses) = map(&self.object, "uses") {
            let values = uses.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
            values.into_iter().flatten().for_each(|bytes| totals.add_cpu(&bytes, now));
        }
        totals
    }

    fn add_others(&self, totals: &mut Totals) {
        let Ok(others) = map(&self.object, "others") else { return };
        for key in others.keys() {
            let values = others.lookup_percpu(&key, MapFlags::ANY).ok().flatten();
            let ns: u64 = values.into_iter().flatten().filter_map(|bytes| word(&bytes, 0)).sum();
            *totals.others.entry(name_of(&key)).or_default() += ns;
        }
    }
}

impl Totals {
    /// Adds a CPU's `struct cpu_use`, with what goes on there until now.
    fn add_cpu(&mut self, bytes: &[u8], now: u64) {
        if bytes.len() < USE_BYTES {
            return;
        }
        let word = |index: usize| word(bytes, 8 * index).unwrap_or(0);
        let goes_on = if word(0) == 0 { 0 } else { now.saturating_sub(word(0)) };
        let part = |is_so: bool| if is_so { goes_on } else { 0 };
        self.subject_ns += word(1) + part(word(5) == 0);
        self.others_ns += word(2) + part(word(5) == 1);
        self.idle_ns += word(3) + part(word(5) >= 2);
        self.lost += word(4);
    }
}

fn cpu_use(before: &Totals, after: &Totals) -> CpuUse {
    let others = after.others.iter().map(|(name, ns)| OtherTask {
        name: name.clone(),
        ns: ns.saturating_sub(before.others.get(name).copied().unwrap_or(0)),
    });
    let mut others: Vec<OtherTask> = others.filter(|other| other.ns > 0).collect();
    others.sort_by_key(|other| std::cmp::Reverse(other.ns));
    CpuUse {
        subject_ns: after.subject_ns.saturating_sub(before.subject_ns),
        idle_ns: after.idle_ns.saturating_sub(before.idle_ns),
        others_ns: after.others_ns.saturating_sub(before.others_ns),
        stolen_ns: after.stolen_ns.saturating_sub(before.stolen_ns),
        others,
    }
}

/// How long to wait with the next round, after a cost of so much in so long a time: half as long as the rest of the budget lasts,
/// because what follows may switch more often.
fn until_next_round(cost_ns: f64, budget_ns: f64, since_ns: u64) -> Duration {
    let left_ns = (budget_ns - cost_ns).max(0.0) / cost_ns.max(1.0) * since_ns as f64 / 2.0;
    Duration::from_nanos(left_ns as u64).clamp(*DRAINED.start(), *DRAINED.end())
}

/// The address of the futex that the task that leaves begins to wait at.
fn futex_of(switch: &Switch) -> Option<u64> {
    match &switch.from.as_ref()?.why {
        Left::Waits(wait) if wait.call == "futex" => Some(wait.arguments[0]),
        _ => None,
    }
}

fn configure(open: &mut libbpf_rs::OpenObject) -> Result<(), String> {
    let config = LiveConfig {
        knee: std::process::id(),
        futex: libc::SYS_futex as i32,
        file_calls: [libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev]
            .map(|call| call as i32),
        waking_calls: WAKING_CALLS.map(|call| call as i32),
        stacks: STACKS,
        unused: 0,
        compat_calls: compat_calls::table(),
    };
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == "events" {
            map.set_max_entries(RING_BYTES)
                .map_err(|e| format!("sizing the ring of events: {e}"))?;
        } else if name.ends_with(".rodata") {
            let length = size_of::<LiveConfig>();
            let section = map.initial_value_mut().and_then(|all| all.get_mut(..length));
            let section =
                section.ok_or("internal error: the BPF programs have no configuration")?;
            // SAFETY: a plain structure without padding, read as bytes.
            let bytes =
                unsafe { std::slice::from_raw_parts((&raw const config).cast::<u8>(), length) };
            section.copy_from_slice(bytes);
        }
    }
    Ok(())
}

fn ring(object: &Object, into: Rc<RefCell<Vec<RawEvent>>>) -> Result<RingBuffer<'static>, String> {
    let mut builder = RingBufferBuilder::new();
    let read = move |bytes: &[u8]| {
        into.borrow_mut().extend(RawEvent::read(bytes));
        0
    };
    let events = map(object, "events")?;
    builder.add(&events, read).map_err(|e| format!("opening the ring of events: {e}"))?;
    builder.build().map_err(|e| format!("opening the ring of events: {e}"))
}

/// The CPUs that are online.
fn online() -> Result<Vec<u32>, String> {
    const ONLINE: &str = "/sys/devices/system/cpu/online";
    let list = fs::read_to_string(ONLINE).map_err(|e| format!("reading {ONLINE}: {e}"))?;
    parse_cpu_list(&list).ok_or_else(|| format!("{ONLINE} says {list:?}, which is no list of CPUs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_sooner_the_less_is_left_of_the_budget() {
        let check = |cost_ms: f64, since_ms: u64, expected_ms| {
            let wait = until_next_round(cost_ms * 1e6, 10e6, since_ms * 1_000_000);
            assert_eq!(wait, Duration::from_millis(expected_ms), "{cost_ms} ms in {since_ms} ms");
        };
        check(1.0, 100, 50);
        check(5.0, 40, 20);
        check(9.0, 45, 5);
        check(0.0, 0, 5);
    }
}
