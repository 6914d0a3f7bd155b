//! File locks against the running kernel: both get the same random calls on one file, and must
//! give the same answer to each.
//!
//! The calls come from several real processes: POSIX locks, open file description locks and
//! flock, with and without waiting; F_GETLK; open, dup, close, fork, exit, and a kill of a
//! process that waits. They are made one after the other, so that their order is known. A call
//! that waits in our manager must be listed as waiting in /proc/locks. When a lock is released,
//! our manager must grant exactly the requests that the kernel grants; all others must still
//! wait.
//!
//! Requests to which the kernel could give several answers are left out. Where several owners
//! block a request, the kernel follows only the first that it meets to detect a deadlock. So
//! here a request waits only for one owner, and no other owner comes to block it.

mod processes;
pub mod table;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

use algorithms::locks::ticket::Ticket;
use algorithms::mechanisms::file_locks::{
    Design, FileLocks, LockKind, LockOutcome, Owner, Range, Refused, TO_THE_END, WaitingRequest,
};
use anyhow::{Context, Result, bail, ensure};
use machine::{Native, Region};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use processes::{DESCRIPTORS, PROCESSES, ProcessCommand, ProcessReply, Processes};
use table::{LockLine, OwnerKind, ProcLocks};

/// Bytes of the file at which locks start and end; some locks end at the end of the file.
const BYTES: u64 = 24;

/// Lock records: enough for all that the owners could ever hold.
const RECORDS: usize = 4096;

/// Calls between two comparisons of the whole table.
const CALLS_PER_TABLE: u64 = 1000;

/// Time limit for woken requests to be granted or to wait again.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many calls are shown up to one that differs.
const TRAIL: usize = 12;

/// Counts of what was compared.
#[derive(Default)]
pub struct KernelComparison {
    /// Calls that were made on both.
    pub calls: u64,
    /// Requests that were granted, immediately or later.
    pub granted: u64,
    /// Requests refused with EAGAIN.
    pub refused: u64,
    /// Requests refused with EDEADLK.
    pub deadlocks: u64,
    /// Requests that had to wait.
    pub waited: u64,
    /// Calls of F_GETLK.
    pub asked: u64,
    /// Processes that were forked.
    pub forks: u64,
    /// Exits and kills.
    pub exits: u64,
    /// Comparisons of the whole table.
    pub tables: u64,
}

/// Makes this many calls on both. Fails at the first difference, and names it.
pub fn compare(calls: u64, design: Design, seed: u64) -> Result<KernelComparison> {
    let mut pair = SideBySide::start(design, seed)?;
    let mut trail = VecDeque::new();
    while pair.compared.calls < calls {
        let (process, call) = pair.choose();
        if trail.len() == TRAIL {
            trail.pop_front();
        }
        trail.push_back(format!("process {process}: {call:?}"));
        if let Err(why) = pair.call(process, call) {
            let (number, trail) = (pair.compared.calls + 1, trail.make_contiguous().join("\n  "));
            let table = pair.our_table();
            bail!("{why:#}\n{table}\nat call {number} of seed {seed}, the last of\n  {trail}");
        }
        pair.compared.calls += 1;
    }
    pair.compare_tables().context("comparing the final tables")?;
    Ok(pair.compared)
}

/// A system call of a process.
#[derive(Clone, Copy, Debug)]
enum Call {
    Open { descriptor: usize },
    Duplicate { from: usize, to: usize },
    Close { descriptor: usize },
    Fork { into: usize },
    Exit,
    Kill,
    Set { descriptor: usize, range: Range, wait: bool },
    Get { descriptor: usize, range: Range },
}

/// Our lock manager and the kernel's.
struct SideBySide {
    ours: FileLocks<Ticket>,
    m: Native,
    kernel: Processes,
    table: ProcLocks,
    processes: [Option<Process>; PROCESSES],
    random: Xoshiro256PlusPlus,
    compared: KernelComparison,
}

#[derive(Clone, Default)]
struct Process {
    /// The open file of each descriptor.
    files: [Option<u32>; DESCRIPTORS],
    waits: Option<BlockedRequest>,
}

/// A waiting request of a process.
#[derive(Clone, Copy, Debug)]
struct BlockedRequest {
    range: Range,
    waiting: WaitingRequest,
}

impl SideBySide {
    fn start(design: Design, seed: u64) -> Result<SideBySide> {
        let region = Region::new(1 << 20).context("mapping memory for file locks")?;
        let file = file_in_memory()?;
        Ok(SideBySide {
            ours: FileLocks::new(&region, 1, 1, RECORDS, design),
            m: Native::new(0, 0),
            table: ProcLocks::open(&file)?,
            kernel: Processes::start(&file)?,
            processes: std::array::from_fn(|_| Some(Process::default())),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            compared: KernelComparison::default(),
        })
    }

    // Choosing the next call.

    fn choose(&mut self) -> (usize, Call) {
        let waits = |process: &Option<Process>| process.as_ref().is_some_and(|p| p.waits.is_some());
        let runs = |process: &Option<Process>| process.as_ref().is_some_and(|p| p.waits.is_none());
        let numbers = |filter: &dyn Fn(&Option<Process>) -> bool| -> Vec<usize> {
            (0..PROCESSES).filter(|&p| filter(&self.processes[p])).collect()
        };
        let (running, waiting, free) = (numbers(&runs), numbers(&waits), numbers(&|p| p.is_none()));
        let process = self.one_of(&running).expect("one process always runs");
        let several = running.len() > 1;
        let descriptors = 0..DESCRIPTORS;
        let files = self.running(process).files;
        let (open, shut): (Vec<_>, Vec<_>) = descriptors.partition(|&d| files[d].is_some());
        let Some(descriptor) = self.one_of(&open) else {
            return (process, Call::Open { descriptor: 0 });
        };
        let call = match self.random.random_range(0..100_u32) {
            0..64 => self.set(process, descriptor, several),
            64..80 => self.get(process, descriptor),
            80..87 => Call::Close { descriptor },
            choice @ 87..95 => match self.one_of(&shut) {
                Some(to) if choice < 90 => Call::Duplicate { from: descriptor, to },
                Some(descriptor) => Call::Open { descriptor },
                None => Call::Close { descriptor },
            },
            95..98 => match self.one_of(&free) {
                Some(into) => Call::Fork { into },
                None => self.get(process, descriptor),
            },
            98 if several => Call::Exit,
            _ => match self.one_of(&waiting) {
                Some(process) => return (process, Call::Kill),
                None => self.get(process, descriptor),
            },
        };
        (process, call)
    }

    fn one_of(&mut self, numbers: &[usize]) -> Option<usize> {
        (!numbers.is_empty()).then(|| numbers[self.random.random_range(0..numbers.len())])
    }

    fn running(&self, process: usize) -> &Process {
        self.processes[process].as_ref().expect("only running processes are chosen")
    }

    fn random_range(&mut self, process: usize, descriptor: usize) -> Range {
        let file = self.running(process).files[descriptor].expect("an open descriptor");
        let owner = match self.random.random_range(0..8_u32) {
            0..4 => Owner::Process(process as u32),
            4..6 => Owner::OpenFile(file),
            _ => Owner::Flock(file),
        };
        let kinds = [LockKind::Read, LockKind::Write, LockKind::Unlock];
        let kind = kinds[self.random.random_range(0..3_usize)];
        let start = self.random.random_range(0..BYTES);
        let (start, end) = match (owner, self.random.random_range(0..12_u32)) {
            (Owner::Flock(_), _) => (0, TO_THE_END),
            (_, 0) => (0, TO_THE_END),
            (_, 1) => (start, TO_THE_END),
            (_, 2..5) => (start, start),
            _ => (start, start + self.random.random_range(0..BYTES / 2)),
        };
        Range { owner, kind, start, end }
    }

    fn get(&mut self, process: usize, descriptor: usize) -> Call {
        let mut range = self.random_range(process, descriptor);
        // There is no such call for flock, nor for unlocking.
        if let Owner::Flock(file) = range.owner {
            range.owner = Owner::OpenFile(file);
        }
        if range.kind == LockKind::Unlock {
            range.kind = LockKind::Write;
        }
        Call::Get { descriptor, range }
    }

    fn set(&mut self, process: usize, descriptor: usize, several: bool) -> Call {
        let mut range = self.random_range(process, descriptor);
        if several && self.random.random_range(0..6_u32) == 0 {
            range = self.towards_deadlock(process).unwrap_or(range);
        }
        let wait =
            several && range.kind != LockKind::Unlock && self.random.random_range(0..2_u32) == 0;
        if !self.is_ambiguous(range) {
            return Call::Set { descriptor, range, wait: wait && self.can_wait(range) };
        }
        self.get(process, descriptor)
    }

    /// A request that may close a cycle: for a byte held by another process that waits.
    fn towards_deadlock(&mut self, process: usize) -> Option<Range> {
        let owner = Owner::Process(process as u32);
        let mut held = Vec::new();
        self.ours.each_held(&self.m, |range| {
            let waits = self.waits().any(|wait| wait.range.owner == range.owner);
            if waits && range.owner != owner && matches!(range.owner, Owner::Process(_)) {
                held.push(range.start);
            }
        });
        let start = *held.get(self.random.random_range(0..held.len().max(1)))?;
        Some(Range { owner, kind: LockKind::Write, start, end: start })
    }

    /// Whether a request would block one that waits, so that the kernel could give several
    /// answers.
    fn is_ambiguous(&self, range: Range) -> bool {
        let unlocks = range.kind == LockKind::Unlock;
        let blocks = |waiting: Range| {
            !unlocks
                && overlap(waiting, range)
                && self.blockers(waiting).first().is_some_and(|owner| *owner != range.owner)
        };
        match range.owner {
            // A flock is dropped before it is changed, and a waiting request may get it then.
            Owner::Flock(_) => self.waits().any(|wait| overlap(wait.range, range)) && !unlocks,
            _ => self.waits().any(|wait| blocks(wait.range)),
        }
    }

    /// Whether the kernel's answer stays certain if this request waits. At most one owner may
    /// block it. No other request may wait for an overlapping range, except that processes may
    /// wait for equal ranges of another process. And no chain of waiting requests may lead over
    /// an open file: the kernel would see a cycle there only when a request is tried again.
    fn can_wait(&self, range: Range) -> bool {
        if matches!(range.owner, Owner::Flock(_)) {
            return true;
        }
        let is_process = |owner: Owner| matches!(owner, Owner::Process(_));
        let blockers = self.blockers(range);
        let is_equal = |other: Range| {
            let bytes = |range: Range| (range.kind, range.start, range.end);
            let all_processes = is_process(range.owner)
                && is_process(other.owner)
                && blockers.iter().all(|&owner| is_process(owner));
            bytes(range) == bytes(other) && all_processes
        };
        let is_chained = |other: Range| {
            let leads_over =
                |file: Owner, blockers: &[Owner]| !is_process(file) && blockers.contains(&file);
            leads_over(other.owner, &blockers) || leads_over(range.owner, &self.blockers(other))
        };
        blockers.len() <= 1
            && self.waits().all(|BlockedRequest { range: other, .. }| {
                other.owner != range.owner
                    && (!overlap(other, range) || is_equal(other))
                    && !is_chained(other)
            })
    }

    /// The owners of locks that conflict with a request.
    fn blockers(&self, range: Range) -> Vec<Owner> {
        let mut owners = Vec::new();
        self.ours.each_held(&self.m, |held| {
            let conflicts = held.owner != range.owner
                && overlap(held, range)
                && (held.kind == LockKind::Write || range.kind == LockKind::Write);
            if conflicts && !owners.contains(&held.owner) {
                owners.push(held.owner);
            }
        });
        owners
    }

    fn waits(&self) -> impl Iterator<Item = BlockedRequest> {
        self.processes.iter().flatten().filter_map(|process| process.waits)
    }

    // Making calls.

    fn call(&mut self, process: usize, call: Call) -> Result<()> {
        match call {
            Call::Open { descriptor } => {
                self.send(process, ProcessCommand::Open { descriptor })?;
                self.expect_success(process).context("opening the file")?;
                let free = self.free_file();
                self.files(process)[descriptor] = Some(free);
            }
            Call::Duplicate { from, to } => {
                self.send(process, ProcessCommand::Duplicate { from, to })?;
                self.expect_success(process).context("duplicating a descriptor")?;
                let files = self.files(process);
                files[to] = files[from];
            }
            Call::Close { descriptor } => {
                self.send(process, ProcessCommand::Close { descriptor })?;
                self.expect_success(process).context("closing the file")?;
                self.close(process, descriptor);
            }
            Call::Fork { into } => {
                self.send(process, ProcessCommand::Fork { into })?;
                let pid = self.kernel.reply(process)?.value;
                ensure!(pid > 0, "fork: {}", io::Error::from_raw_os_error(-pid));
                self.kernel.started(into, pid)?;
                self.processes[into] = self.processes[process].clone();
                self.compared.forks += 1;
            }
            Call::Exit => {
                self.send(process, ProcessCommand::Exit)?;
                self.end(process, false)?;
            }
            Call::Kill => self.end(process, true)?,
            Call::Set { descriptor, range, wait } => {
                self.set_both(process, descriptor, range, wait)?
            }
            Call::Get { descriptor, range } => self.get_both(process, descriptor, range)?,
        }
        self.settle().context("after the call")?;
        if self.compared.calls.is_multiple_of(CALLS_PER_TABLE) {
            self.compare_tables()?;
        }
        Ok(())
    }

    fn send(&self, process: usize, command: ProcessCommand) -> Result<()> {
        self.kernel.send(process, command)
    }

    fn files(&mut self, process: usize) -> &mut [Option<u32>; DESCRIPTORS] {
        &mut self.processes[process].as_mut().expect("only running processes are chosen").files
    }

    /// A number that no open file has.
    fn free_file(&self) -> u32 {
        let is_open = |file: u32| {
            self.processes.iter().flatten().any(|process| process.files.contains(&Some(file)))
        };
        (0..).find(|&file| !is_open(file)).expect("there are fewer files than numbers")
    }

    /// Closes a descriptor in our manager: drops the process's locks and, with the last
    /// descriptor of an open file, that file's locks.
    fn close(&mut self, process: usize, descriptor: usize) {
        let Some(file) = self.files(process)[descriptor].take() else { return };
        self.ours.close(&self.m, 0, Owner::Process(process as u32));
        let is_last = self.processes.iter().flatten().all(|p| !p.files.contains(&Some(file)));
        if is_last {
            self.ours.close(&self.m, 0, Owner::OpenFile(file));
            self.ours.close(&self.m, 0, Owner::Flock(file));
        }
    }

    fn end(&mut self, process: usize, kill: bool) -> Result<()> {
        self.kernel.wait_for_exit(process, kill)?;
        if let Some(wait) = self.running(process).waits {
            self.ours.give_up(&self.m, 0, wait.waiting);
        }
        for descriptor in 0..DESCRIPTORS {
            self.close(process, descriptor);
        }
        self.processes[process] = None;
        self.compared.exits += 1;
        Ok(())
    }

    fn set_both(
        &mut self,
        process: usize,
        descriptor: usize,
        range: Range,
        wait: bool,
    ) -> Result<()> {
        let ours = self.ours.attempt(&self.m, 0, range, wait);
        self.send(process, set_command(descriptor, range, wait))?;
        let ours = match ours {
            LockOutcome::Granted => Ok(()),
            LockOutcome::Refused(why) => Err(why),
            LockOutcome::Waits(waiting) => {
                let process = self.processes[process].as_mut().expect("it runs");
                process.waits = Some(BlockedRequest { range, waiting });
                self.compared.waited += 1;
                return Ok(());
            }
        };
        let kernel = answer(self.kernel.reply(process)?)?;
        self.count(ours);
        ensure!(ours == kernel, "{range:?}: ours answers {ours:?}, the kernel {kernel:?}");
        Ok(())
    }

    fn count(&mut self, answer: Result<(), Refused>) {
        match answer {
            Ok(()) => self.compared.granted += 1,
            Err(Refused::Deadlock) => self.compared.deadlocks += 1,
            Err(_) => self.compared.refused += 1,
        }
    }

    fn expect_success(&self, process: usize) -> Result<()> {
        let value = self.kernel.reply(process)?.value;
        ensure!(value >= 0, "{}", io::Error::from_raw_os_error(-value));
        Ok(())
    }

    fn get_both(&mut self, process: usize, descriptor: usize, range: Range) -> Result<()> {
        self.compared.asked += 1;
        let ours = self.ours.get(&self.m, 0, range).map(|held| self.line(held, false));
        let command = match range.owner {
            Owner::Process(_) => libc::F_GETLK,
            _ => libc::F_OFD_GETLK,
        };
        self.send(process, ProcessCommand::Fcntl { descriptor, command, lock: flock_of(range) })?;
        let ProcessReply { value, lock } = self.kernel.reply(process)?;
        ensure!(value >= 0, "F_GETLK: {}", io::Error::from_raw_os_error(-value));
        let kernel = line_of(&lock);
        ensure!(
            ours == kernel,
            "the lock that blocks {range:?}: ours answers {ours:?}, the kernel {kernel:?}"
        );
        Ok(())
    }

    // Waiting requests.

    /// Settles the waiting requests: those that the kernel has answered must get the same
    /// answer from ours, and all others must wait in both.
    fn settle(&mut self) -> Result<()> {
        let waiting: Vec<usize> = (0..PROCESSES)
            .filter(|&p| self.processes[p].as_ref().is_some_and(|p| p.waits.is_some()))
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let mut answers = self.kernel_answers(&waiting)?;
        if answers.len() > 1 {
            self.sort_by_grant(&mut answers)?;
        }
        while !answers.is_empty() {
            let next =
                answers.iter().position(|&(process, kernel)| self.expected(process) == kernel);
            let Some(next) = next else {
                bail!("the kernel answers waiting processes {answers:?}, ours answers none");
            };
            let (process, kernel) = answers.remove(next);
            self.retry(process, kernel)?;
        }
        // All others still wait in the kernel. Ours must let them wait again, as often as it
        // wakes them.
        let is_woken = |pair: &SideBySide, process: usize| {
            let wait = pair.waits_for(process);
            wait.is_some_and(|wait| pair.ours.is_woken(&pair.m, wait.waiting))
        };
        while let Some(&process) = waiting.iter().find(|&&process| is_woken(self, process)) {
            let BlockedRequest { range, waiting } = self.waits_for(process).context("it waits")?;
            match self.ours.again(&self.m, 0, range, waiting) {
                LockOutcome::Waits(waiting) => {
                    self.set_wait(process, Some(BlockedRequest { range, waiting }));
                }
                other => bail!("{range:?} still waits in the kernel, ours answers {other:?}"),
            }
        }
        Ok(())
    }

    /// Sorts answers by the order in which the kernel granted the requests.
    fn sort_by_grant(&mut self, answers: &mut [(usize, Result<(), Refused>)]) -> Result<()> {
        let lines = self.table.lines()?;
        // The newest line comes first.
        let line_number = |process: usize| {
            let wait = self.waits_for(process).map(|wait| self.line(wait.range, false));
            let covers = |line: &LockLine| wait.is_some_and(|wait| line.covers(&wait));
            lines.iter().position(covers).unwrap_or(lines.len())
        };
        answers.sort_by_key(|&(process, _)| std::cmp::Reverse(line_number(process)));
        Ok(())
    }

    fn waits_for(&self, process: usize) -> Option<BlockedRequest> {
        self.processes[process].as_ref().and_then(|process| process.waits)
    }

    fn set_wait(&mut self, process: usize, wait: Option<BlockedRequest>) {
        self.processes[process].as_mut().expect("it waits").waits = wait;
    }

    /// The kernel's answers to waiting requests, once all others are in its table again.
    fn kernel_answers(&mut self, waiting: &[usize]) -> Result<Vec<(usize, Result<(), Refused>)>> {
        let since = Instant::now();
        loop {
            let replied: Vec<usize> = waiting
                .iter()
                .filter_map(|&p| self.kernel.has_replied(p).map(|yes| yes.then_some(p)).transpose())
                .collect::<Result<_>>()?;
            if replied.len() + self.table.waiting()? == waiting.len() {
                let answer_of = |p| Ok((p, answer(self.kernel.reply(p)?)?));
                return replied.into_iter().map(answer_of).collect();
            }
            let in_time = since.elapsed() < SETTLE_TIMEOUT;
            ensure!(in_time, "woken requests neither return nor wait again in the kernel");
            std::thread::yield_now();
        }
    }

    /// The answer to expect from ours, if a waiting request were tried again now.
    fn expected(&self, process: usize) -> Result<(), Refused> {
        let Some(wait) = self.waits_for(process) else { return Err(Refused::Again) };
        if self.blockers(wait.range).is_empty() { Ok(()) } else { Err(Refused::Deadlock) }
    }

    /// Tries a request that waited again in ours, which must give the kernel's answer.
    fn retry(&mut self, process: usize, kernel: Result<(), Refused>) -> Result<()> {
        let BlockedRequest { range, waiting } = self.waits_for(process).context("it waits")?;
        ensure!(
            self.ours.is_woken(&self.m, waiting),
            "{range:?} no longer waits in the kernel ({kernel:?}), ours does not wake it"
        );
        let ours = match self.ours.again(&self.m, 0, range, waiting) {
            LockOutcome::Granted => Ok(()),
            LockOutcome::Refused(why) => Err(why),
            LockOutcome::Waits(_) => {
                bail!("{range:?}: the kernel answers {kernel:?}, ours waits again")
            }
        };
        self.set_wait(process, None);
        self.count(ours);
        ensure!(ours == kernel, "{range:?}, woken: ours answers {ours:?}, the kernel {kernel:?}");
        Ok(())
    }

    // The whole table.

    /// All held locks and waiting requests of ours, as text.
    fn our_table(&self) -> String {
        let mut lines = Vec::new();
        self.ours.each_held(&self.m, |held| lines.push(format!("held  {held:?}")));
        lines.extend(self.waits().map(|wait| format!("waits {:?}", wait.range)));
        lines.join("\n")
    }

    fn compare_tables(&mut self) -> Result<()> {
        let mut kernel = self.table.lines()?;
        kernel.sort_unstable();
        let mut ours = Vec::new();
        self.ours.each_held(&self.m, |held| ours.push(held));
        let mut ours: Vec<LockLine> = ours.into_iter().map(|held| self.line(held, false)).collect();
        ours.extend(self.waits().map(|wait| self.line(wait.range, true)));
        ours.sort_unstable();
        self.compared.tables += 1;
        if ours != kernel {
            let without = |lines: &[LockLine], others: &[LockLine]| {
                lines.iter().filter(|line| !others.contains(line)).copied().collect::<Vec<_>>()
            };
            bail!(
                "the tables differ: only ours has {:?}, only the kernel's has {:?}; they have {} \
                 and {} lines",
                without(&ours, &kernel),
                without(&kernel, &ours),
                ours.len(),
                kernel.len()
            );
        }
        Ok(())
    }

    /// The line of /proc/locks for a range.
    fn line(&self, range: Range, waits: bool) -> LockLine {
        let (owner, pid) = match range.owner {
            Owner::Process(process) => {
                (OwnerKind::Process, self.kernel.pid(process as usize).unwrap_or_default())
            }
            Owner::OpenFile(_) => (OwnerKind::OpenFile, 0),
            Owner::Flock(_) => (OwnerKind::Flock, 0),
        };
        let write = range.kind == LockKind::Write;
        LockLine { waits, owner, pid, write, start: range.start, end: range.end }
    }
}

/// Whether two ranges are of the same kind of locks and have bytes in common.
fn overlap(a: Range, b: Range) -> bool {
    let is_flock = |range: Range| matches!(range.owner, Owner::Flock(_));
    is_flock(a) == is_flock(b) && a.start <= b.end && b.start <= a.end
}

/// A file in memory: it has no name, so nothing can stay behind.
fn file_in_memory() -> Result<File> {
    // SAFETY: the name ends with a zero.
    let descriptor = unsafe { libc::memfd_create(c"locked".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error()).context("creating a file in memory");
    }
    // SAFETY: the descriptor is open and no one else's.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

fn set_command(descriptor: usize, range: Range, wait: bool) -> ProcessCommand {
    let command = match (range.owner, wait) {
        (Owner::Flock(_), _) => {
            let operation = match range.kind {
                LockKind::Read => libc::LOCK_SH,
                LockKind::Write => libc::LOCK_EX,
                LockKind::Unlock => libc::LOCK_UN,
            };
            let operation = if wait { operation } else { operation | libc::LOCK_NB };
            return ProcessCommand::Flock { descriptor, operation };
        }
        (Owner::Process(_), false) => libc::F_SETLK,
        (Owner::Process(_), true) => libc::F_SETLKW,
        (Owner::OpenFile(_), false) => libc::F_OFD_SETLK,
        (Owner::OpenFile(_), true) => libc::F_OFD_SETLKW,
    };
    ProcessCommand::Fcntl { descriptor, command, lock: flock_of(range) }
}

/// The kernel's answer to a request.
fn answer(reply: ProcessReply) -> Result<Result<(), Refused>> {
    match -reply.value {
        libc::EAGAIN | libc::EACCES => Ok(Err(Refused::Again)),
        libc::EDEADLK => Ok(Err(Refused::Deadlock)),
        libc::ENOLCK => Ok(Err(Refused::NoRecords)),
        error if error > 0 => Err(io::Error::from_raw_os_error(error)).context("locking the file"),
        _ => Ok(Ok(())),
    }
}

fn flock_of(range: Range) -> libc::flock {
    // SAFETY: plain data, valid when zero; the process has to be 0 for open files.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = match range.kind {
        LockKind::Read => libc::F_RDLCK,
        LockKind::Write => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = range.start as libc::off_t;
    lock.l_len = if range.end == TO_THE_END { 0 } else { (range.end - range.start + 1) as _ };
    lock
}

/// The lock that F_GETLK returned; it has no process where an open file owns it.
fn line_of(lock: &libc::flock) -> Option<LockLine> {
    let kind = i32::from(lock.l_type);
    let start = lock.l_start as u64;
    let line = LockLine {
        waits: false,
        owner: if lock.l_pid == -1 { OwnerKind::OpenFile } else { OwnerKind::Process },
        pid: lock.l_pid.max(0),
        write: kind == libc::F_WRLCK,
        start,
        end: if lock.l_len == 0 { TO_THE_END } else { start + lock.l_len as u64 - 1 },
    };
    (kind != libc::F_UNLCK).then_some(line)
}
