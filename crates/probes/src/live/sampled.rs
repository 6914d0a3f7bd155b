//! Follows tasks that knee did not start without any privilege: reads the files of each of their threads in /proc, many
//! times a second, and walks the stacks of those that wait.
//!
//! What this costs is measured, and the rate follows from it: knee shall use no more than a hundredth of the CPUs.
//! The instants vary at random, so that threads which wake up by a clock are not always met in the same state.

mod cut;
mod goroutines;
mod names;
mod owners;
mod thread;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use host::clock::now_ns;
use host::parse_cpu_list;
use records::live::{Touch, Trace, TracedTask};
use records::sampled::{Round, Samples, Sighted, Sighting};

use self::thread::Thread;
use super::clock_samples::ClockSamples;
use super::cpython::{PythonStack, Pythons};
use super::function_names::FunctionNames;
use super::go_semaphores::GoSemaphores;
use super::host_use::{HostUse, own_cpu_ns};
use super::page_faults;
use super::refusals::{functions_refused, refused};
use super::task_files::{Counters, Place, Seen, TaskFiles};
use super::throttling::Throttling;
use super::user_stacks::{UserStacks, touched};
use crate::ledger::programs::CodeLocation;

/// No more rounds in a second than this.
const ROUNDS_PER_S: u64 = 100;
/// The share of all CPUs that knee may use.
const OWN_SHARE: f64 = 0.008;
/// The part of that share which rounds may take as long as what it took to begin is not made up for.
const FOLLOWING_SHARE: f64 = 0.5;
/// The longest time between rounds.
const INTERVAL_MAX_NS: u64 = 500_000_000;
/// How often it is checked at least whether threads have come or gone, and how often they are looked for anyway.
const CHECKED_NS: u64 = 100_000_000;
const SOUGHT_NS: u64 = 1_000_000_000;
/// Stacks in a round that were walked before from the same place; those at new places come first.
const WALKED_AGAIN: usize = 4;
/// All stacks that are walked in a round.
const WALKED_MAX: usize = 64;
/// A thread that did not move for so many rounds is met there again without reading what it does.
const STILL_ROUNDS: u32 = 3;
/// But it is read after so many.
const STILL_MAX: u32 = 10;
/// A thread that ran for so long is sampled by its clock.
const CLOCK_AFTER_NS: u64 = 5_000_000;
/// But no more threads than this: their samples take memory that the kernel bounds.
const CLOCKS_MAX: usize = 32;
/// Nothing is taken for granted with so few threads.
const FEW_THREADS: usize = 24;

/// Follows the threads of processes, and what they start, until it is dropped.
pub struct ProcWatch {
    wanted: BTreeSet<u32>,
    threads: BTreeMap<u32, Thread>,
    samples: Samples,
    stacks: UserStacks,
    pythons: Pythons,
    go: GoSemaphores,
    names: FunctionNames,
    /// Walked stacks: those of the program's code, and whether they are whole.
    walked: Vec<WalkedStack>,
    /// The last stack that was walked from a place of a thread: where it is in the kernel, and in which Python functions.
    known: HashMap<(u32, Place, String, Vec<u64>), usize>,
    /// Addresses of futexes, and those that samples access, by process.
    addresses: BTreeSet<(u32, u64)>,
    host: HostUse,
    throttling: Throttling,
    checked_ns: u64,
    sought_ns: u64,
    /// How many threads each process had when they were looked for.
    numbers: BTreeMap<u32, u64>,
    next_ns: u64,
    /// The time, and CPU time of this process, when the watch began.
    began: (u64, u64),
    /// CPU time of this process after the first round.
    started_ns: u64,
    /// Number of rounds since then.
    rounds: u64,
    random: u64,
    own_ns: u64,
    /// What a page fault takes.
    fault_ns: u64,
    /// Why no more threads are sampled.
    refused: Option<String>,
    pub(super) result: SampledResult,
}

/// What following tasks by /proc gave.
#[derive(Debug, Default)]
pub struct SampledResult {
    pub samples: Samples,
    /// Share of stacks that were walked to their end.
    pub whole_stacks: f64,
    /// What could not be read, and why.
    pub missing: BTreeMap<String, String>,
    /// CPU time that knee's own process used in each window, ns.
    pub own_ns: Vec<u64>,
}

struct WalkedStack {
    task: u32,
    /// When its clock fired; `None` if the thread waits.
    sampled_ns: Option<u64>,
    /// The kernel's function that waits for a lock; empty if it waits for none.
    kernel: String,
    frames: Vec<CodeLocation>,
    python: PythonStack,
    is_whole: bool,
    touches: Vec<Touch>,
}

impl ProcWatch {
    /// Begins to follow the threads of these processes.
    ///
    /// # Errors
    /// None of them may be looked into, or all have ended.
    pub fn begin(processes: &[u32]) -> Result<ProcWatch, String> {
        allow_open_files();
        let online_cpus = online().len() as u32;
        let mut watch = ProcWatch {
            wanted: BTreeSet::new(),
            threads: BTreeMap::new(),
            samples: Samples {
                trace: Trace { online_cpus, hertz: ROUNDS_PER_S as u32, ..Trace::default() },
                ..Samples::default()
            },
            stacks: UserStacks::default(),
            pythons: Pythons::default(),
            go: GoSemaphores::default(),
            names: FunctionNames::default(),
            walked: Vec::new(),
            known: HashMap::new(),
            addresses: BTreeSet::new(),
            host: HostUse::new(),
            throttling: Throttling::default(),
            checked_ns: 0,
            sought_ns: 0,
            numbers: BTreeMap::new(),
            next_ns: 0,
            began: (now_ns(), own_cpu_ns()),
            started_ns: 0,
            rounds: 0,
            random: now_ns() | 1,
            own_ns: 0,
            fault_ns: page_faults::fault_ns(),
            refused: None,
            result: SampledResult::default(),
        };
        watch.follow(processes);
        if watch.threads.is_empty() {
            return Err("none of the processes could be followed: they have ended".to_string());
        }
        watch.may_look()?;
        watch.start();
        Ok(watch)
    }

    /// Follows the threads of these processes too.
    pub fn follow(&mut self, processes: &[u32]) {
        self.wanted.extend(processes);
        self.throttling.follow(processes);
        self.seek();
    }

    /// Whether what threads wait for can be read of any process.
    fn may_look(&mut self) -> Result<(), String> {
        let shown = |shows: bool| {
            let threads = self.threads.values().filter(move |t| t.files.shows_waits() == shows);
            threads.map(|thread| thread.process).collect::<BTreeSet<u32>>()
        };
        let (seen, hidden) = (shown(true), shown(false));
        let hidden: Vec<u32> = hidden.difference(&seen).copied().collect();
        let Some(first) = hidden.first() else { return Ok(()) };
        if seen.is_empty() {
            return Err(refused(*first));
        }
        let list: Vec<String> = hidden.iter().map(u32::to_string).collect();
        let what = format!("waits of processes {}", list.join(", "));
        self.result.missing.insert(what, refused(*first));
        Ok(())
    }

    fn start(&mut self) {
        self.round();
        self.samples.rounds.drain(..self.samples.rounds.len() - 1);
        self.own_ns = own_cpu_ns();
        self.started_ns = self.own_ns;
        self.host.start();
        self.throttling.start();
        let at_ns = self.samples.rounds[0].at_ns;
        self.samples.trace.edges_ns.push(at_ns);
    }

    /// Takes a round if it is time for one, and says after which time to call again.
    pub fn drain(&mut self) -> Duration {
        let now = now_ns();
        if now >= self.next_ns {
            self.round();
        }
        Duration::from_nanos(self.next_ns.saturating_sub(now_ns()))
    }

    /// Ends a window with a round, and begins the next.
    pub fn edge(&mut self) {
        self.round();
        let Some(last) = self.samples.rounds.last() else { return };
        self.samples.trace.edges_ns.push(last.at_ns);
        let subject_ns = self.subject_ns();
        self.samples.trace.cpus.push(self.host.window(&self.wanted, subject_ns));
        self.samples.throttled_ns.push(self.throttling.window_ns());
        for (task, thread) in self.threads.iter_mut().filter(|(_, thread)| thread.ran_ns > 0) {
            thread.read_charged();
            let (in_kernel, faulting) = thread.in_kernel(self.fault_ns);
            self.samples.in_kernel.insert(*task, in_kernel);
            self.samples.faulting.insert(*task, faulting);
        }
        let own_ns = own_cpu_ns();
        self.result.own_ns.push(own_ns.saturating_sub(self.own_ns));
        self.own_ns = own_ns;
    }

    /// CPU time of all threads in the window that has just ended.
    fn subject_ns(&self) -> u64 {
        let edges = &self.samples.trace.edges_ns;
        let from = edges[edges.len() - 2];
        let mut first: HashMap<u32, u64> = HashMap::new();
        let mut last: HashMap<u32, u64> = HashMap::new();
        let start = self.samples.rounds.partition_point(|round| round.at_ns < from);
        for sighting in self.samples.rounds[start..].iter().flat_map(|round| &round.sightings) {
            first.entry(sighting.task).or_insert(sighting.run_ns);
            last.insert(sighting.task, sighting.run_ns);
        }
        last.iter().map(|(task, run_ns)| run_ns.saturating_sub(first[task])).sum()
    }

    /// Sees every thread once.
    fn round(&mut self) {
        let began = now_ns();
        if began >= self.checked_ns && (began >= self.sought_ns || self.have_changed()) {
            self.seek();
        }
        self.stacks.begin_round();
        let mut round = Round { at_ns: now_ns(), ..Round::default() };
        let mut walks = Walks { again: WALKED_AGAIN, all: WALKED_MAX };
        let is_few = self.threads.len() <= FEW_THREADS;
        let tasks = self.busy_first();
        for task in tasks {
            match self.sighting(task, is_few, &mut walks) {
                Some(sighting) => round.sightings.push(sighting),
                None => drop(self.threads.remove(&task)),
            }
        }
        round.sightings.sort_unstable_by_key(|sighting| sighting.task);
        self.find_owners(&mut round, &mut walks);
        round.goroutines = self.goroutines(&mut walks);
        self.take_clock_samples();
        self.samples.rounds.push(round);
        self.rounds += 1;
        self.next_ns = began + self.interval_ns();
    }

    /// All threads, those first that have moved of late, beginning with any of them: while knee has a CPU, threads that are woken
    /// wait for it, so that a round sees the more of them so the longer it takes.
    fn busy_first(&self) -> Vec<u32> {
        let moves = |is: bool| {
            let moving = self.threads.iter().filter(move |(_, thread)| (thread.still == 0) == is);
            moving.map(|(task, _)| *task)
        };
        let mut tasks: Vec<u32> = moves(true).collect();
        let first = self.random as usize % tasks.len().max(1);
        tasks.rotate_left(first);
        tasks.extend(moves(false));
        tasks
    }

    /// The time to the next round: as long as the rounds so far allow, and up to a quarter more or less by chance. What it took
    /// to begin, as reading the tables of a virtual machine does, is made up for little by little.
    fn interval_ns(&mut self) -> u64 {
        let cpus = f64::from(self.samples.trace.online_cpus.max(1));
        let budget = OWN_SHARE * cpus;
        let (now_ns, own_ns) = (now_ns(), own_cpu_ns());
        let round_ns = own_ns.saturating_sub(self.started_ns) / self.rounds.max(1);
        let used_ns = own_ns.saturating_sub(self.began.1) as f64;
        let is_behind = used_ns > budget * now_ns.saturating_sub(self.began.0) as f64;
        let share = if is_behind { FOLLOWING_SHARE } else { 1.0 };
        let allowed_ns = (round_ns as f64 / (budget * share)) as u64;
        let interval_ns = allowed_ns.clamp(1_000_000_000 / ROUNDS_PER_S, INTERVAL_MAX_NS);
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        interval_ns * 3 / 4 + self.random % (interval_ns / 2)
    }

    fn sighting(&mut self, task: u32, is_few: bool, walks: &mut Walks) -> Option<Sighting> {
        let thread = self.threads.get_mut(&task)?;
        let counters = thread.files.counters()?;
        let last = thread.last.as_ref().map_or(counters, |(last, ..)| *last);
        let is_same = thread.last.is_some() && last == counters;
        thread.ran_ns += counters.run_ns.saturating_sub(last.run_ns);
        thread.still = if is_same { thread.still + 1 } else { 0 };
        let is_still =
            !is_few && thread.still >= STILL_ROUNDS && !thread.still.is_multiple_of(STILL_MAX);
        let (doing, stack) = match &thread.last {
            Some((_, doing @ Sighted::Waits(_), stack)) if is_still => (doing.clone(), *stack),
            _ => self.look(task, walks)?,
        };
        let thread = self.threads.get_mut(&task)?;
        thread.last = Some((counters, doing.clone(), stack));
        let Counters { run_ns, delay_ns, arrivals } = counters;
        Some(Sighting { task, run_ns, delay_ns, arrivals, doing, stack })
    }

    /// What a thread does, with its stack if it waits.
    fn look(&mut self, task: u32, walks: &mut Walks) -> Option<(Sighted, Option<usize>)> {
        let thread = self.threads.get(&task)?;
        let process = thread.process;
        Some(match thread.files.seen()? {
            Seen::Runnable(cpu) => (Sighted::Runnable(cpu), None),
            Seen::Waits(wait, place) => {
                if wait.call == "futex" {
                    self.addresses.insert((process, wait.arguments[0]));
                }
                let stack = place.and_then(|at| self.stack(process, task, (at, ""), walks));
                (Sighted::Waits(wait), stack)
            }
            Seen::WaitsInKernel(wait, place, kernel) => {
                let function = kernel.function.as_str();
                let stack = place.and_then(|at| self.stack(process, task, (at, function), walks));
                (Sighted::Waits(wait), stack)
            }
        })
    }

    /// The stack of a thread that waits at a place, in a function of the kernel if that is known: a new one as long as
    /// there is time for it, or the last one there.
    fn stack(
        &mut self,
        process: u32,
        task: u32,
        (place, kernel): (Place, &str),
        walks: &mut Walks,
    ) -> Option<usize> {
        // Python functions call each other without a trace on the stack of C.
        let words = self.pythons.words(&self.stacks, process, task);
        let key = (task, place, kernel.to_string(), words);
        let known = self.known.get(&key).copied();
        if !walks.take(known.is_some()) {
            return known;
        }
        let walked = self.stacks.walk_waiting(process, place);
        if walked.frames.is_empty() && kernel.is_empty() {
            return None;
        }
        let python = self.pythons.stack(&self.stacks, process, &key.3);
        let index = self.index(WalkedStack {
            task,
            sampled_ns: None,
            kernel: kernel.to_string(),
            frames: walked.frames,
            python,
            is_whole: walked.is_whole,
            touches: Vec::new(),
        });
        self.known.insert(key, index);
        Some(index)
    }

    /// Walks what the clocks of threads sampled, and begins to sample those that have run for a while.
    fn take_clock_samples(&mut self) {
        let mut clocks = self.threads.values().filter(|thread| thread.clock.is_some()).count();
        for (task, thread) in &mut self.threads {
            let is_wanted = thread.ran_ns >= CLOCK_AFTER_NS && clocks < CLOCKS_MAX;
            if thread.clock.is_none() && is_wanted && self.refused.is_none() {
                match ClockSamples::begin(*task) {
                    Ok(clock) => thread.clock = Some(clock),
                    Err(why) => self.refused = Some(why),
                }
                clocks += 1;
            }
            let samples = thread.clock.as_mut().map(ClockSamples::take).unwrap_or_default();
            for sample in samples {
                let walked =
                    self.stacks.walk_from(thread.process, &sample.registers, &sample.stack);
                let touches = touched(thread.process, sample.registers.ip, &sample.all_registers);
                self.addresses.extend(touches.iter().map(|touch| (thread.process, touch.address)));
                self.walked.push(WalkedStack {
                    task: *task,
                    sampled_ns: Some(sample.at_ns),
                    kernel: String::new(),
                    frames: walked.frames,
                    // Where it is now tells nothing of then.
                    python: PythonStack::default(),
                    is_whole: walked.is_whole,
                    touches,
                });
            }
        }
    }

    fn index(&mut self, stack: WalkedStack) -> usize {
        let same = |known: &WalkedStack| {
            known.task == stack.task
                && known.sampled_ns.is_none()
                && known.kernel == stack.kernel
                && known.frames == stack.frames
        };
        // Threads have few different stacks, and the last ones are the most likely.
        const LOOKED_AT: usize = 256;
        let recent = self.walked.iter().enumerate().rev().take(LOOKED_AT);
        if let Some((index, _)) = recent.into_iter().find(|(_, known)| same(known)) {
            return index;
        }
        self.walked.push(stack);
        self.walked.len() - 1
    }

    /// Looks for threads that have come.
    fn seek(&mut self) {
        let online = online();
        for process in self.wanted.clone() {
            let tasks =
                fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
            for task in tasks.filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok()) {
                self.meet(process, task, &online);
            }
        }
        let now = now_ns();
        self.checked_ns = now + CHECKED_NS.max(self.threads.len() as u64 * 1_000_000);
        self.sought_ns = now + SOUGHT_NS;
        self.numbers = self.wanted.iter().map(|process| (*process, threads_of(*process))).collect();
    }

    /// Whether a process has another number of threads than when they were looked for: that is cheaper than looking for them.
    fn have_changed(&mut self) -> bool {
        self.checked_ns = now_ns() + CHECKED_NS;
        self.numbers.iter().any(|(process, number)| threads_of(*process) != *number)
    }

    fn meet(&mut self, process: u32, task: u32, online: &BTreeSet<usize>) {
        let is_new = !self.threads.contains_key(&task);
        if is_new {
            match TaskFiles::open(process, task) {
                Ok(files) => {
                    let thread = Thread::new(process, files);
                    self.threads.insert(task, thread);
                }
                Err(e) if e.raw_os_error() == Some(libc::EMFILE) => {
                    let why = format!("{e} (ulimit -n)");
                    self.result.missing.insert("some threads".to_string(), why);
                    return;
                }
                // It has just ended.
                Err(_) => return,
            }
        }
        // Most threads are given their names and CPUs soon after their start.
        const YOUNG: u32 = 3;
        const EVERY: u32 = 8;
        let met = self.threads.get_mut(&task).map_or(0, |thread| {
            thread.met += 1;
            thread.met
        });
        if met <= YOUNG || (met + task).is_multiple_of(EVERY) {
            self.name(process, task, online);
        }
    }

    fn name(&mut self, process: u32, task: u32, online: &BTreeSet<usize>) {
        let file = |name: &str| fs::read(format!("/proc/{process}/task/{task}/{name}"));
        let Ok(name) = file("comm") else { return };
        let name = String::from_utf8_lossy(&name).trim_end_matches('\n').to_string();
        let since_ns = 0;
        let known = self.samples.trace.tasks.entry(task);
        known.or_insert(TracedTask { process, name: String::new(), waited: None, since_ns }).name =
            name;
        let status = file("status").unwrap_or_default();
        if let Some(cpus) = cpus_allowed(&String::from_utf8_lossy(&status), online) {
            self.samples.cpus_allowed.insert(task, cpus);
        }
    }

    /// Ends: names the functions of all stacks.
    pub fn end(mut self) -> SampledResult {
        self.named()
    }
}

/// How many stacks may still be walked in a round.
struct Walks {
    again: usize,
    all: usize,
}

impl Walks {
    fn take(&mut self, is_again: bool) -> bool {
        let left = if is_again { self.again.min(self.all) } else { self.all };
        if left == 0 {
            return false;
        }
        self.all -= 1;
        self.again -= usize::from(is_again);
        true
    }
}

/// The address of the futex that a thread waits at.
fn futex_of(doing: &Sighted) -> Option<u64> {
    match doing {
        Sighted::Waits(wait) if wait.call == "futex" => Some(wait.arguments[0]),
        _ => None,
    }
}

/// The number of threads of a process, or another number that changes with it: the folder of each is a link.
fn threads_of(process: u32) -> u64 {
    fs::metadata(format!("/proc/{process}/task")).map_or(0, |folder| folder.nlink())
}

/// The number of online CPUs in the line `Cpus_allowed_list` of /proc/PID/status.
fn cpus_allowed(status: &str, online: &BTreeSet<usize>) -> Option<u32> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let cpus = parse_cpu_list(list.trim())?;
    Some(cpus.iter().filter(|cpu| online.contains(&(**cpu as usize))).count() as u32)
}

fn online() -> BTreeSet<usize> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = parse_cpu_list(list.trim()).unwrap_or_default();
    cpus.into_iter().map(|cpu| cpu as usize).collect()
}

/// Threads have three open files each: takes as many as this process may have.
fn allow_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live and written by the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the structure is live. If it fails, fewer threads are seen, which is said.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::owners::mutex_of;
    use super::*;

    #[test]
    fn allowed_cpus_are_those_that_are_online() {
        let online = BTreeSet::from([0, 1, 2]);
        let check = |list: &str, expected| {
            let status = format!("Name:\ta\nCpus_allowed:\tff\nCpus_allowed_list:\t{list}\n");
            assert_eq!(cpus_allowed(&status, &online), expected);
        };
        check("0-63", Some(3));
        check("1,5", Some(1));
        assert_eq!(cpus_allowed("Name:\ta\n", &online), None);
    }

    /// A mutex that two threads of this process take in turns, each for a millisecond, until they are told to stop.
    fn contend(stop: &'static AtomicBool) -> u64 {
        let mutex = Box::new(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let address = Box::leak(mutex).get() as u64;
        for _ in 0..2 {
            std::thread::spawn(move || {
                let mutex = address as *mut libc::pthread_mutex_t;
                while !stop.load(Ordering::Relaxed) {
                    // SAFETY: an initialised mutex that lives for ever.
                    unsafe { libc::pthread_mutex_lock(mutex) };
                    std::thread::sleep(Duration::from_millis(1));
                    // SAFETY: this thread has it.
                    unsafe { libc::pthread_mutex_unlock(mutex) };
                }
            });
        }
        address
    }

    /// Who waits for the mutex and whom its word names, of each sighting within a time, if that is another thread of this process.
    fn owners(mutex: u64, time: Duration) -> Vec<(u32, Option<u32>)> {
        let begin = std::time::Instant::now();
        let mut watch = ProcWatch::begin(&[std::process::id()]).unwrap();
        while begin.elapsed() < time {
            std::thread::sleep(watch.drain());
        }
        watch.edge();
        let samples = watch.end().samples;
        let sightings = samples.rounds.iter().flat_map(|round| &round.sightings);
        let waits = sightings.filter_map(|sighting| match &sighting.doing {
            Sighted::Waits(wait) if mutex_of(&sighting.doing) == Some(mutex) => {
                Some((sighting.task, wait.words[2]))
            }
            _ => None,
        });
        let known = |task, owner| task != owner && samples.trace.tasks.contains_key(&owner);
        waits.map(|(task, owner)| (task, known(task, owner).then_some(owner))).collect()
    }

    /// A busy host gives a look few turns, and then it looks for longer.
    #[test]
    fn a_mutex_of_this_process_is_seen_with_its_owner() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let mutex = contend(&STOP);
        let mut looks = [0.5, 3.0, 20.0].map(Duration::from_secs_f64).into_iter();
        let seen = looks.find_map(|time| {
            let owners = owners(mutex, time);
            let known = owners.iter().filter(|(_, owner)| owner.is_some()).count();
            (known * 2 > owners.len()).then_some(known)
        });
        STOP.store(true, Ordering::Relaxed);
        assert!(seen.is_some(), "the word of the mutex names no other thread of this process");
    }

    #[test]
    fn stacks_at_new_places_come_first() {
        let mut walks = Walks { again: 1, all: 3 };
        assert_eq!(
            [true, true, false, false, false].map(|again| walks.take(again)),
            [true, false, true, true, false]
        );
    }
}
