//! What holds running threads back, and the most that removing it could gain.
//!
//! All is in threads, the mean number of threads that do something at the same time: `runs` of them have CPUs, `active`
//! of them would get on if nothing held them, and `waits` of them wait for a lock. Without the lock these would be
//! active too, so the rate grows at most by `(active + waits) / active`, and by what the CPUs have left to give.

use records::live::{
    HolderState, HolderTime, LockPlace, OWN_THREADS, Observation, ObservedLine, ObservedLock,
    ObservedThread, ThreadState, WORK_QUEUE, WaitKind,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::places::{ALLOCATOR_LOCK, is_of_allocator, spins_in};
use crate::shares::{Share, Shares};

/// What holds threads back.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LiveCause {
    /// The kind of cause.
    pub cause: LiveCauseKind,
    /// The lock, thread, program or function.
    pub name: String,
    /// The share of the time in which it holds back, or of the CPU time that it takes: see `cause`.
    pub share: f64,
    /// Half the width of the share's 95 % interval, where there are several windows or samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_half: Option<f64>,
    /// The most by which the rate could grow without it: 2 is twice the rate. Absent if nothing bounds it.
    pub gain: Option<f64>,
    /// The mean number of threads that it keeps from work.
    pub threads: f64,
    /// The functions that wait for the lock, the longest first.
    pub waited_in: Vec<String>,
    /// The functions that have the lock, by how long others wait for them.
    pub held_in: Vec<String>,
    /// What the thread that has the lock does while others wait, the longest first.
    pub holder: Vec<HolderShare>,
}

/// What a thread that has a lock does.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HolderShare {
    /// What it does.
    pub reason: HolderState,
    /// The share of the time in which others wait.
    pub share: f64,
    /// The most by which the rate could grow if it never did this while it has the lock. Absent if nothing bounds it.
    pub gain: Option<f64>,
    /// By what: the program that has the CPU, the call, the other lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A kind of cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LiveCauseKind {
    /// A lock of the program. Share: of the time in which at least one thread waits for it.
    Lock,
    /// A lock of the kernel.
    KernelLock,
    /// The lock of an interpreter.
    InterpreterLock,
    /// The lock of the memory allocator.
    AllocatorLock,
    /// One thread that is always busy while the others wait for work. Share: of the time in which it is busy.
    BusyThread,
    /// The quota of a control group. Share: of the quota that is used; where it is not known, of the time of threads that
    /// could run.
    Quota,
    /// CPUs that the threads may not use. Share: of the CPUs that they may use, how much they use.
    Affinity,
    /// Other programs that have the CPUs. Share: of the time of threads that could run.
    OtherPrograms,
    /// Waiting for storage. Share: of the time of active threads.
    InputOutput,
    /// Page faults. Share: of the time of active threads.
    PageFaults,
    /// Memory reclaim. Share: of the time of active threads.
    Memory,
    /// A cache line that threads take from each other. Share: of the CPU time.
    SharedLine,
    /// Garbage collection. Share: of the CPU time.
    GarbageCollection,
    /// Locks whose holders wait for each other. Share: of the time in which threads wait for the first of them.
    Deadlock,
    /// Threads that a signal or a debugger stopped. Share: of the time of all threads.
    Stopped,
}

/// A smaller gain is none.
const GAIN_MIN: f64 = 1.1;
/// What holds back less is no cause.
const SHARE_MIN: f64 = 0.1;
/// A lock that threads wait for in less of the time limits nothing: other threads get on meanwhile.
const CONTENDED_MIN: f64 = 0.25;
/// A thread that is busy for this share of the time limits those that wait for it.
const BUSY_MIN: f64 = 0.85;
/// A lock that threads wait for in less of the time leaves a busy thread the limit.
const LIMITS_MIN: f64 = 0.5;
const GARBAGE_MIN: f64 = 0.2;
/// An interpreter whose lock limits has about one thread that runs or could run.
const INTERPRETER_MIN: f64 = 0.7;
const FAULTS_MIN: f64 = 0.3;

/// The causes, the one whose removal could gain most first.
pub fn causes(observation: &Observation) -> Vec<LiveCause> {
    let threads = Threads::of(observation);
    let locks: Vec<LiveCause> = threads.locks();
    let mut causes = Vec::new();
    let hard: Vec<LiveCause> = threads.quota().into_iter().chain(threads.affinity()).collect();
    if hard.is_empty() {
        causes.extend(threads.busy_thread(&locks));
        causes.extend(threads.others(&locks));
    }
    causes.extend(hard);
    causes.extend(threads.stopped());
    causes.extend(threads.garbage_collection());
    causes.extend(threads.shared_line());
    causes.extend(threads.storage(&locks));
    causes.extend(threads.faults(&locks));
    causes.extend(threads.memory());
    causes.extend(deadlock::joined(locks));
    // Where threads wait for each other for ever or are stopped, where a quota is used up, and where CPUs are full while others
    // are forbidden, this limits whatever else is in the way.
    let is_hard = |cause: &LiveCause| {
        use LiveCauseKind::{Affinity, Deadlock, Quota, Stopped};
        matches!(cause.cause, Deadlock | Stopped | Quota | Affinity)
    };
    causes.sort_by(|a, b| {
        let gain = |cause: &LiveCause| cause.gain.unwrap_or(f64::INFINITY);
        is_hard(b).cmp(&is_hard(a)).then(gain(b).total_cmp(&gain(a)))
    });
    causes
}

/// Mean numbers of threads that wait for a lock whose holder waits for another.
#[derive(Clone, Copy, Default)]
struct Behind {
    /// How many of this lock's waiters in truth wait for another.
    for_others: f64,
    /// How many waiters of other locks in truth wait for this one.
    for_this: f64,
}

/// The share of the time in which threads wait for a lock and its holder waits for the other.
fn holders_wait(lock: &ObservedLock, other: &ObservedLock) -> f64 {
    let waits = lock.holder.iter().filter(|t| t.reason == HolderState::Lock && t.by == other.name);
    let ns: u64 = waits.flat_map(|time| &time.ns).sum();
    ns as f64 / lock.contended_ns.iter().sum::<u64>().max(1) as f64
}

/// Mean numbers of threads, and what they are made of.
struct Threads<'o> {
    observation: &'o Observation,
    shares: Shares<'o>,
    runs: f64,
    behind_own: f64,
    behind_others: f64,
    throttled: f64,
    storage: f64,
    faults: f64,
    reclaim: f64,
    /// Threads that would get on: all of these, and those that are just being woken.
    active: f64,
}

impl<'o> Threads<'o> {
    fn of(observation: &'o Observation) -> Threads<'o> {
        let shares = Shares::new(observation);
        let sum = |is: fn(&ThreadState) -> bool| shares.threads(is);
        let runs = sum(|state| *state == ThreadState::Running);
        let behind_own = sum(|state| *state == ThreadState::BehindOwn);
        let behind_others = sum(|state| matches!(state, ThreadState::BehindOther(_)));
        let throttled = sum(|state| *state == ThreadState::Throttled);
        let storage = sum(|state| matches!(state, ThreadState::Disk(_)));
        let faults = sum(|state| *state == ThreadState::PageFault);
        let reclaim = sum(|state| *state == ThreadState::Reclaim);
        let wake_up = sum(|state| *state == ThreadState::WakeUp);
        let active =
            runs + behind_own + behind_others + throttled + storage + faults + reclaim + wake_up;
        Threads {
            observation,
            shares,
            runs,
            behind_own,
            behind_others,
            throttled,
            storage,
            faults,
            reclaim,
            active,
        }
    }

    /// The rate with so many threads more on CPUs, as far as the host has them: of what is idle, and of what others
    /// would leave.
    fn gain_with(&self, more: f64) -> f64 {
        let cpus = f64::from(self.observation.online_cpus.max(1));
        let most = (self.runs + more).min(cpus);
        if self.runs > 0.0 { most / self.runs } else { 1.0 }
    }

    fn locks(&self) -> Vec<LiveCause> {
        let locks = self.observation.locks.iter();
        let limits: Vec<&ObservedLock> =
            locks.filter(|lock| self.lock(lock, Behind::default()).is_some()).collect();
        let in_line = limits.iter().map(|lock| self.lock(lock, self.behind(lock, &limits)));
        in_line.flatten().collect()
    }

    /// How a lock stands to others that limit: its waiters wait for those while its holder does.
    fn behind(&self, lock: &ObservedLock, limits: &[&ObservedLock]) -> Behind {
        let others = || limits.iter().filter(|other| other.name != lock.name);
        let waits = self.shares.of_time(&lock.wait_ns).mean;
        let for_others: f64 = others().map(|other| holders_wait(lock, other)).sum();
        let for_this = others()
            .map(|other| self.shares.of_time(&other.wait_ns).mean * holders_wait(other, lock));
        Behind { for_others: waits * for_others, for_this: for_this.sum() }
    }

    fn lock(&self, lock: &ObservedLock, behind: Behind) -> Option<LiveCause> {
        let spins = self.spins(lock);
        let waits = self.shares.of_time(&lock.wait_ns).mean + spins;
        let share = self.shares.of_time(&lock.contended_ns);
        let share = Share { mean: (share.mean + spins).min(1.0), ..share };
        let held = |is: &dyn Fn(&HolderTime) -> bool| -> f64 {
            let times = lock.holder.iter().filter(|time| is(time));
            times.map(|time| self.shares.of_time(&time.ns).mean).sum()
        };
        let idle = held(&waits_for_work);
        let for_work = waits * idle / share.mean.max(1e-9);
        let freed = (waits - behind.for_others - for_work).max(0.0) + behind.for_this;
        // Where the quota or the affinity keeps the thread with the lock from a CPU, these are the cause.
        let is_pinned = self.observation.allowed_cpus < self.observation.online_cpus;
        let elsewhere = held(&|time| {
            time.reason == HolderState::Quota
                || (is_pinned && time.reason == HolderState::Preempted && time.by == OWN_THREADS)
        });
        let active = (self.active - spins).max(0.0);
        let by_threads = (active + freed) / active;
        let runs = (self.runs - spins).max(0.0);
        let by_cpus = (self.active + freed).min(f64::from(self.observation.online_cpus)) / runs;
        // A thread that sleeps with the lock needs no CPU. Of page faults only those do in which threads wait.
        let faults = held(&|time| time.reason == HolderState::PageFault);
        let sleeps = faults.min(self.faults + self.storage)
            + held(&|time| matches!(time.reason, HolderState::InputOutput | HolderState::Sleeping));
        let gain = if sleeps > 0.5 * share.mean { by_threads } else { by_threads.min(by_cpus) };
        // Threads also wait for an interpreter that is idle most of the time, as its timers wake many at once.
        let is_used = lock.kind != WaitKind::Interpreter
            || self.runs + self.behind_own + self.behind_others >= INTERPRETER_MIN;
        let is_limit =
            share.mean - elsewhere - idle >= CONTENDED_MIN && gain >= GAIN_MIN && is_used;
        is_limit.then(|| LiveCause {
            cause: match lock.kind {
                WaitKind::Kernel => LiveCauseKind::KernelLock,
                WaitKind::Interpreter => LiveCauseKind::InterpreterLock,
                WaitKind::Allocator => LiveCauseKind::AllocatorLock,
                _ if is_for_collection(lock) => LiveCauseKind::GarbageCollection,
                _ => LiveCauseKind::Lock,
            },
            name: lock.name.clone(),
            share: share.mean,
            share_half: share.half,
            gain: bound(gain),
            threads: waits,
            waited_in: names(&lock.waited_in, lock.kind),
            held_in: names(&lock.held_in, lock.kind),
            holder: holder(lock, (share.mean, spins), gain),
        })
    }

    /// The mean number of CPUs that spin for a lock of the kernel, by samples.
    fn spins(&self, lock: &ObservedLock) -> f64 {
        if lock.kind != WaitKind::Kernel {
            return 0.0;
        }
        let is_its = |stack: &[String]| {
            let place = spins_in(stack);
            place.is_some_and(|place| lock.waited_in.iter().any(|known| known.function == place))
        };
        self.shares.sampled(is_its).mean * self.runs
    }

    /// Threads that a signal or a debugger stopped.
    fn stopped(&self) -> Option<LiveCause> {
        let share =
            self.shares.of(|state| *state == ThreadState::Stopped, self.shares.threads(|_| true));
        let threads = self.shares.threads(|state| *state == ThreadState::Stopped);
        let stopped = LiveCause {
            gain: None,
            ..self.simple(LiveCauseKind::Stopped, String::new(), share, 1.0, threads)
        };
        (share.mean >= SHARE_MIN).then_some(stopped)
    }

    /// A quota that is used up, or that was seen to keep threads from CPUs: what does so is not seen in every switch.
    fn quota(&self) -> Option<LiveCause> {
        const USED_MIN: f64 = 0.85;
        let could_run = self.runs + self.behind_own + self.behind_others + self.throttled;
        let kept = self.shares.of(|state| *state == ThreadState::Throttled, could_run);
        let used = self.shares.of_time(&self.shares.cpu_ns(|cpus| cpus.subject_ns));
        let (name, share) = match self.observation.quota_cpus {
            Some(cpus) => (format!("quota of {cpus:.2} CPUs"), used.divided_by(cpus)),
            None => ("quota".to_string(), kept),
        };
        let is_used_up = self.observation.quota_cpus.is_some() && share.mean >= USED_MIN;
        let gain = self.gain_with(could_run - self.runs);
        let is_limit = (is_used_up || kept.mean >= SHARE_MIN) && gain >= GAIN_MIN;
        let threads = could_run - self.runs;
        is_limit.then(|| self.simple(LiveCauseKind::Quota, name, share, gain, threads))
    }

    /// Whether goroutines are what runs: Go's runtime has no more threads run than the CPUs that it may use
    /// (runtime/proc.go, GOMAXPROCS), so that one thread may be all that a program could run.
    fn is_go(&self) -> bool {
        let share = self
            .shares
            .sampled(|stack| stack.last().is_some_and(|name| name.starts_with("runtime.goexit")));
        share.mean > 0.5
    }

    /// CPUs that are full while others are forbidden. A program that has only one busy thread is not held back by that.
    fn affinity(&self) -> Option<LiveCause> {
        const FULL_MIN: f64 = 0.8;
        const ALONE_MIN: f64 = 0.95;
        let (allowed, online) = (self.observation.allowed_cpus, self.observation.online_cpus);
        let could_run = self.runs + self.behind_own + self.behind_others;
        let share = self.shares.of_time(&self.shares.cpu_ns(|cpus| cpus.subject_ns));
        let share = share.divided_by(f64::from(allowed.max(1)));
        let most = self.most_of_the_cpu_time();
        let gain = f64::from(online) / self.runs.max(0.1);
        // Threads may be bound to one CPU each, and use all together.
        let is_within = self.runs <= 1.1 * f64::from(allowed);
        let is_limit = allowed < online
            && is_within
            && could_run >= FULL_MIN * f64::from(allowed)
            && (most < ALONE_MIN || self.is_go())
            && gain >= GAIN_MIN;
        let name = format!("threads may use {allowed} of {online} CPUs");
        let kept = could_run - self.runs;
        is_limit.then(|| self.simple(LiveCauseKind::Affinity, name, share, gain, kept))
    }

    /// The share of the threads' CPU time that the busiest of them has.
    fn most_of_the_cpu_time(&self) -> f64 {
        let runs = |thread: &ObservedThread| {
            self.shares.of_thread(thread, |state| *state == ThreadState::Running).mean
        };
        let most = self.observation.threads.iter().map(runs).fold(0.0, f64::max);
        if self.runs > 0.0 { most / self.runs } else { 0.0 }
    }

    /// The one thread that is busy while the others wait for work, and not for a lock most of the time.
    fn busy_thread(&self, locks: &[LiveCause]) -> Option<LiveCause> {
        let busy = |thread: &ObservedThread| {
            self.shares.of_thread(thread, |state| {
                matches!(
                    state,
                    ThreadState::Running | ThreadState::BehindOwn | ThreadState::BehindOther(_)
                )
            })
        };
        let mut threads: Vec<(Share, &ObservedThread)> =
            self.observation.threads.iter().map(|thread| (busy(thread), thread)).collect();
        threads.sort_by(|a, b| b.0.mean.total_cmp(&a.0.mean));
        let (share, thread) = *threads.first()?;
        let second = threads.get(1).map_or(0.0, |(share, _)| share.mean);
        let gain = self.gain_with(f64::from(self.observation.online_cpus));
        let is_limit = share.mean >= BUSY_MIN
            && second < BUSY_MIN
            && gain >= GAIN_MIN
            && locks.iter().all(|lock| lock.threads < 0.3 || lock.share < LIMITS_MIN)
            && !is_collector(&thread.name);
        is_limit.then(|| {
            let threads = (self.observation.threads.len() as f64 - 1.0).max(0.0);
            self.simple(LiveCauseKind::BusyThread, thread.name.clone(), share, gain, threads)
        })
    }

    fn garbage_collection(&self) -> Option<LiveCause> {
        let (garbage, all) = garbage_samples(self.observation);
        let share = Share::of_samples(garbage, all);
        let gain = 1.0 / (1.0 - share.mean).max(0.01);
        let name = "garbage collection".to_string();
        let kind = LiveCauseKind::GarbageCollection;
        let threads = share.mean * self.runs;
        (share.mean >= GARBAGE_MIN).then(|| self.simple(kind, name, share, gain, threads))
    }

    /// The line that most samples are at. What would be left without sharing is not known: the bound is that of all of it.
    fn shared_line(&self) -> Option<LiveCause> {
        const SHARE_MIN: f64 = 0.25;
        let line = self.observation.lines.first()?;
        let share = Share::of_samples(line.samples, line.of);
        let name = line_name(line);
        let gain = 1.0 / (1.0 - share.mean).max(0.01);
        let is_limit = share.mean >= SHARE_MIN && self.runs + self.behind_others >= 1.1;
        let kind = match name.as_str() {
            ALLOCATOR_LOCK => LiveCauseKind::AllocatorLock,
            _ => LiveCauseKind::SharedLine,
        };
        let waited_in: Vec<String> = line.functions.iter().take(3).cloned().collect();
        // Threads that take a lock from each other so fast that none of them sleeps have it while they run.
        let is_lock = kind == LiveCauseKind::AllocatorLock;
        let runs =
            HolderShare { reason: HolderState::Running, share: 1.0, gain: Some(gain), by: None };
        is_limit.then(|| LiveCause {
            held_in: if is_lock { waited_in.clone() } else { Vec::new() },
            holder: is_lock.then_some(runs).into_iter().collect(),
            waited_in,
            ..self.simple(kind, name, share, gain, share.mean * self.runs)
        })
    }

    fn others(&self, locks: &[LiveCause]) -> Option<LiveCause> {
        let could_run = self.runs + self.behind_own + self.behind_others + self.throttled;
        let share = self.shares.of(|state| matches!(state, ThreadState::BehindOther(_)), could_run);
        let gain = self.gain_with(self.behind_others);
        // An idle server that is in the way of a burst once is not held back.
        let is_steady = share.half.is_none_or(|half| share.mean > half);
        let is_limit =
            share.mean >= 2.0 * SHARE_MIN && is_steady && gain >= GAIN_MIN && locks.is_empty();
        is_limit.then(|| {
            let name = self.shares.first_other().unwrap_or_else(|| "other programs".to_string());
            let kind = LiveCauseKind::OtherPrograms;
            self.simple(kind, name, share, gain, self.behind_others)
        })
    }

    fn storage(&self, locks: &[LiveCause]) -> Option<LiveCause> {
        let alone = (self.storage - self.held(locks, HolderState::InputOutput)).max(0.0);
        self.waiting(
            alone,
            2.0 * SHARE_MIN,
            LiveCauseKind::InputOutput,
            self.shares.first_disk_call(),
        )
    }

    fn memory(&self) -> Option<LiveCause> {
        let name = "memory reclaim".to_string();
        self.waiting(self.reclaim, SHARE_MIN, LiveCauseKind::Memory, name)
    }

    fn faults(&self, locks: &[LiveCause]) -> Option<LiveCause> {
        let running = self.shares.sampled(|stack| stack.iter().any(|name| is_fault(name)));
        let all = self.faults + running.mean * self.runs;
        let alone = (all - self.held(locks, HolderState::PageFault)).max(0.0);
        self.waiting(alone, FAULTS_MIN, LiveCauseKind::PageFaults, "page faults".to_string())
    }

    /// Threads that wait for something of which active threads would be rid.
    fn waiting(
        &self,
        threads: f64,
        least: f64,
        kind: LiveCauseKind,
        name: String,
    ) -> Option<LiveCause> {
        let active = self.active.max(1e-9);
        let share = Share::exactly(threads / active);
        let gain = active / (active - threads).max(0.01 * active);
        // A server that waits for its clients almost always is not held back by this.
        let is_limit = share.mean >= least && gain >= GAIN_MIN && self.active >= 0.2;
        is_limit.then(|| self.simple(kind, name, share, gain, threads))
    }

    /// The mean number of threads that have one of these locks and do this, while others wait.
    fn held(&self, causes: &[LiveCause], reason: HolderState) -> f64 {
        let of_lock = |cause: &LiveCause| {
            let holders = cause.holder.iter().filter(|holder| holder.reason == reason);
            cause.share * holders.map(|holder| holder.share).sum::<f64>()
        };
        causes.iter().map(of_lock).sum()
    }

    fn simple(
        &self,
        cause: LiveCauseKind,
        name: String,
        share: Share,
        gain: f64,
        threads: f64,
    ) -> LiveCause {
        LiveCause {
            cause,
            name,
            share: share.mean,
            share_half: share.half,
            gain: Some(gain),
            threads,
            waited_in: Vec::new(),
            held_in: Vec::new(),
            holder: Vec::new(),
        }
    }
}

/// What the threads that had a lock did, in shares; what took no hundredth is left out.
///
/// A gain, if something bounds it: where nothing runs, more than ever so much would.
fn bound(gain: f64) -> Option<f64> {
    const KNOWN_MAX: f64 = 1e4;
    (gain <= KNOWN_MAX).then_some(gain)
}

/// While threads wait, the lock is handed on without a rest, so that what its holders do is what the others take turns in:
/// the same turns without a part of it take that much less time. Without the lock, they take none.
///
/// While others spin for a lock of the kernel, the thread that has it runs: they sleep as soon as it does not
/// (kernel/locking/rwsem.c, `rwsem_spin_on_owner`).
fn holder(lock: &ObservedLock, (contended, spins): (f64, f64), gain: f64) -> Vec<HolderShare> {
    const SHARE_MIN: f64 = 0.01;
    let whole = lock.contended_ns.iter().sum::<u64>().max(1) as f64;
    let spun = (spins / contended.max(1e-9)).min(1.0);
    let share = |time: &HolderTime| {
        let slept = (1.0 - spun) * time.ns.iter().sum::<u64>() as f64 / whole;
        let is_seen_in_spins = time.reason == HolderState::Running;
        if is_seen_in_spins { slept + spun } else { slept }
    };
    let never_ran = !lock.holder.iter().any(|time| time.reason == HolderState::Running);
    let running = HolderTime { reason: HolderState::Running, by: String::new(), ns: Vec::new() };
    let seen_in_spins = (never_ran && spun > 0.0).then_some(&running);
    let shares = lock.holder.iter().chain(seen_in_spins).map(|time| {
        let left = (1.0 - contended * share(time)).max(0.0);
        let by = (!time.by.is_empty()).then(|| time.by.clone());
        let gain = bound(gain.min(1.0 / left));
        HolderShare { reason: time.reason, share: share(time), gain, by }
    });
    let mut shares: Vec<HolderShare> = shares.filter(|share| share.share >= SHARE_MIN).collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

/// The functions of places, each once, the first one first; of locks of the kernel with the program's that called.
fn names(places: &[LockPlace], kind: WaitKind) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for place in places {
        let callers = place.callers.iter().take(usize::from(kind == WaitKind::Kernel));
        for name in std::iter::once(&place.function).chain(callers) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// Whether a thread has a lock while there is no work: threads of a pool take turns to wait for it.
fn waits_for_work(holder: &HolderTime) -> bool {
    const CALLS: [&str; 10] = [
        "accept",
        "accept4",
        "epoll_wait",
        "epoll_pwait",
        "epoll_pwait2",
        "poll",
        "ppoll",
        "select",
        "pselect6",
        WORK_QUEUE,
    ];
    holder.reason == HolderState::Sleeping && CALLS.contains(&holder.by.as_str())
}

/// The variables in a cache line, or the function that accesses it. The words that several threads of an allocator write are
/// its locks, which are held too shortly to wait for.
pub fn line_name(line: &ObservedLine) -> String {
    match (line.variables.as_slice(), line.functions.first()) {
        ([], Some(function)) if is_of_allocator(function) => ALLOCATOR_LOCK.to_string(),
        ([], Some(function)) => format!("data of {function}"),
        ([], None) => "data".to_string(),
        (variables, _) => variables.join(" and "),
    }
}

/// Threads of virtual machines that collect garbage: HotSpot's, by their names (src/hotspot/share/gc).
fn is_collector(thread: &str) -> bool {
    const COLLECTORS: [&str; 8] =
        ["GC Thread", "G1 ", "ParGC", "Gang worker", "CMS ", "Shenandoah", "ZWorker", "ZDriver"];
    COLLECTORS.iter().any(|name| thread.starts_with(name))
}

/// The samples in which garbage is collected, and all samples.
pub fn garbage_samples(observation: &Observation) -> (u64, u64) {
    let (mut garbage, mut all) = (0, 0);
    for thread in &observation.threads {
        for sample in &thread.samples {
            let is_garbage =
                is_collector(&thread.name) || sample.stack.iter().any(|name| is_collecting(name));
            garbage += if is_garbage { sample.times } else { 0 };
            all += sample.times;
        }
    }
    (garbage, all)
}

/// Whether threads wait for a lock until garbage is collected: at the lock, or where it is held.
fn is_for_collection(lock: &ObservedLock) -> bool {
    let places = || lock.waited_in.iter().chain(&lock.held_in);
    let mut functions =
        places().flat_map(|place| std::iter::once(&place.function).chain(&place.callers));
    functions.any(|function| is_collecting(function))
}

/// Functions that collect garbage: of Go's runtime (runtime/mgc*.go), of CPython (Modules/gcmodule.c, Python/gc.c), of
/// HotSpot (src/hotspot/share/gc).
fn is_collecting(function: &str) -> bool {
    const COLLECTING: [&str; 17] = [
        "runtime.gcBgMarkWorker",
        "runtime.gcAssist",
        "runtime.gcDrain",
        "runtime.bgsweep",
        "runtime.gcStart",
        "runtime.gcMark",
        "runtime.sweepone",
        "runtime.scanobject",
        "gc_collect_main",
        "collect_generations",
        "_PyGC_Collect",
        "gc_collect_generations",
        "VM_GC_Operation",
        "VM_CollectForAllocation",
        "VM_GenCollect",
        "VM_ParallelGC",
        "VM_G1",
    ];
    COLLECTING.iter().any(|name| function.starts_with(name)) || function.contains("CollectedHeap")
}

pub fn is_fault(function: &str) -> bool {
    function == "exc_page_fault_[k]"
        || function == "asm_exc_page_fault_[k]"
        || function == "do_user_addr_fault_[k]"
}

mod deadlock;
#[cfg(test)]
mod tests;
