//! File locks against the running kernel: the same random calls to both, on a file, and the
//! same answers expected of both, call by call.
//!
//! The calls are those of several real processes: POSIX locks, open file description locks
//! and flock, that wait or not; F_GETLK; open, dup, close, fork, exit, and a kill of one that
//! waits. One call follows the other, so that their order is known. A call that waits, by
//! ours, must stand in /proc/locks as waiting. When something is given back, all whom the
//! kernel lets go on must be granted theirs by ours too, and all others must still wait.
//!
//! Left out are requests to which the kernel could give several answers. Of several that are in
//! the way it follows one, the first that it met, to see a circle; so a request waits only
//! where one owner is in its way, and nobody else comes into it meanwhile.

mod processes;
mod table;

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

use processes::{Command, DESCRIPTORS, PROCESSES, Processes, Reply};
use table::{Line, Owners, Table};

/// Bytes that locks end and begin at; one more ends at the end of all files.
const BYTES: u64 = 24;

/// Records for all that the owners could ever hold at once.
const RECORDS: usize = 4096;

/// Calls between two looks at the whole table.
const BETWEEN_TABLES: u64 = 1000;

/// Time for those who were woken to go on or wait again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Calls that are shown before one that differs.
const TRAIL: usize = 12;

/// What was compared.
#[derive(Default)]
pub struct Compared {
    /// All calls.
    pub calls: u64,
    /// Calls that got what they asked for.
    pub granted: u64,
    /// EAGAIN.
    pub refused: u64,
    /// EDEADLK.
    pub deadlocks: u64,
    /// Calls that had to wait.
    pub waited: u64,
    /// F_GETLK.
    pub asked: u64,
    /// Processes that made another one.
    pub forks: u64,
    /// Exits and kills.
    pub exits: u64,
    /// Looks at the whole table.
    pub tables: u64,
}

/// Does so many calls with both; fails at the first difference, which it names.
pub fn compare(calls: u64, design: Design, seed: u64) -> Result<Compared> {
    let mut both = Both::start(design, seed)?;
    let mut trail = VecDeque::new();
    while both.compared.calls < calls {
        let (process, call) = both.choose();
        if trail.len() == TRAIL {
            trail.pop_front();
        }
        trail.push_back(format!("process {process}: {call:?}"));
        if let Err(why) = both.call(process, call) {
            let (number, trail) = (both.compared.calls + 1, trail.make_contiguous().join("\n  "));
            let held = both.told();
            bail!("{why:#}\n{held}\nat call {number} of seed {seed}, the last of\n  {trail}");
        }
        both.compared.calls += 1;
    }
    both.same_table().context("the final table")?;
    Ok(both.compared)
}

/// A call of a process.
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

struct Both {
    ours: FileLocks<Ticket>,
    m: Native,
    kernel: Processes,
    table: Table,
    processes: [Option<Process>; PROCESSES],
    random: Xoshiro256PlusPlus,
    compared: Compared,
}

#[derive(Clone, Default)]
struct Process {
    /// The open file of each descriptor.
    files: [Option<u32>; DESCRIPTORS],
    waits: Option<Wait>,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Wait {
    range: Range,
    waiting: WaitingRequest,
}

impl Both {
    fn start(design: Design, seed: u64) -> Result<Both> {
        let region = Region::new(1 << 20).context("mapping memory for file locks")?;
        let file = file_in_memory()?;
        Ok(Both {
            ours: FileLocks::new(&region, 1, 1, RECORDS, design),
            m: Native::new(0, 0),
            table: Table::of(&file)?,
            kernel: Processes::start(&file)?,
            processes: std::array::from_fn(|_| Some(Process::default())),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            compared: Compared::default(),
        })
    }

    // What to do next.

    fn choose(&mut self) -> (usize, Call) {
        let waits = |process: &Option<Process>| process.as_ref().is_some_and(|p| p.waits.is_some());
        let runs = |process: &Option<Process>| process.as_ref().is_some_and(|p| p.waits.is_none());
        let which = |is: &dyn Fn(&Option<Process>) -> bool| -> Vec<usize> {
            (0..PROCESSES).filter(|&p| is(&self.processes[p])).collect()
        };
        let (running, waiting, free) = (which(&runs), which(&waits), which(&|p| p.is_none()));
        let process = self.one_of(&running).expect("a process that does not wait is left");
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

    fn one_of(&mut self, all: &[usize]) -> Option<usize> {
        (!all.is_empty()).then(|| all[self.random.random_range(0..all.len())])
    }

    fn running(&self, process: usize) -> &Process {
        self.processes[process].as_ref().expect("only those that run are chosen")
    }

    fn range(&mut self, process: usize, descriptor: usize) -> Range {
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
        let mut range = self.range(process, descriptor);
        // flock has no such call, and nobody can ask who unlocks.
        if let Owner::Flock(file) = range.owner {
            range.owner = Owner::OpenFile(file);
        }
        if range.kind == LockKind::Unlock {
            range.kind = LockKind::Write;
        }
        Call::Get { descriptor, range }
    }

    fn set(&mut self, process: usize, descriptor: usize, several: bool) -> Call {
        let mut range = self.range(process, descriptor);
        if several && self.random.random_range(0..6_u32) == 0 {
            range = self.towards_a_circle(process).unwrap_or(range);
        }
        let wait =
            several && range.kind != LockKind::Unlock && self.random.random_range(0..2_u32) == 0;
        if !self.disturbs(range) {
            return Call::Set { descriptor, range, wait: wait && self.can_wait(range) };
        }
        self.get(process, descriptor)
    }

    /// A byte that a process holds which itself waits.
    fn towards_a_circle(&mut self, process: usize) -> Option<Range> {
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

    /// Whether a request would come into the way of one that waits, so that the kernel's answer
    /// would be one of several.
    fn disturbs(&self, range: Range) -> bool {
        let unlocks = range.kind == LockKind::Unlock;
        let into = |waits: Range| {
            !unlocks
                && meet(waits, range)
                && self.in_the_way(waits).first().is_some_and(|owner| *owner != range.owner)
        };
        match range.owner {
            // To change a flock is to drop it first: whoever waits may get it then, by chance.
            Owner::Flock(_) => self.waits().any(|wait| meet(wait.range, range)) && !unlocks,
            _ => self.waits().any(|wait| into(wait.range)),
        }
    }

    /// Whether a request may wait: at most one owner is in the way, and no other request waits
    /// for it, unless both are of processes that wait for just the same of another process.
    /// And no chain of those who wait leads over an open file: the kernel would see a circle
    /// there only when somebody tries again.
    fn can_wait(&self, range: Range) -> bool {
        if matches!(range.owner, Owner::Flock(_)) {
            return true;
        }
        let process = |owner: Owner| matches!(owner, Owner::Process(_));
        let in_the_way = self.in_the_way(range);
        let alike = |other: Range| {
            let bytes = |range: Range| (range.kind, range.start, range.end);
            let processes = process(range.owner) && process(other.owner);
            bytes(range) == bytes(other) && processes && in_the_way.iter().all(|&o| process(o))
        };
        let chained = |other: Range| {
            let behind = |first: Owner, then: &[Owner]| !process(first) && then.contains(&first);
            behind(other.owner, &in_the_way) || behind(range.owner, &self.in_the_way(other))
        };
        in_the_way.len() <= 1
            && self.waits().all(|Wait { range: other, .. }| {
                other.owner != range.owner
                    && (!meet(other, range) || alike(other))
                    && !chained(other)
            })
    }

    /// Owners who hold what a request cannot have.
    fn in_the_way(&self, range: Range) -> Vec<Owner> {
        let mut owners = Vec::new();
        self.ours.each_held(&self.m, |held| {
            let conflict = held.owner != range.owner
                && meet(held, range)
                && (held.kind == LockKind::Write || range.kind == LockKind::Write);
            if conflict && !owners.contains(&held.owner) {
                owners.push(held.owner);
            }
        });
        owners
    }

    fn waits(&self) -> impl Iterator<Item = Wait> {
        self.processes.iter().flatten().filter_map(|process| process.waits)
    }

    // Doing it.

    fn call(&mut self, process: usize, call: Call) -> Result<()> {
        match call {
            Call::Open { descriptor } => {
                self.tell(process, Command::Open { descriptor })?;
                self.kernel_grants(process).context("opening the file")?;
                let free = self.free_file();
                self.files(process)[descriptor] = Some(free);
            }
            Call::Duplicate { from, to } => {
                self.tell(process, Command::Duplicate { from, to })?;
                self.kernel_grants(process).context("duplicating a descriptor")?;
                let files = self.files(process);
                files[to] = files[from];
            }
            Call::Close { descriptor } => {
                self.tell(process, Command::Close { descriptor })?;
                self.kernel_grants(process).context("closing the file")?;
                self.close(process, descriptor);
            }
            Call::Fork { into } => {
                self.tell(process, Command::Fork { into })?;
                let pid = self.kernel.reply(process)?.value;
                ensure!(pid > 0, "fork: {}", io::Error::from_raw_os_error(-pid));
                self.kernel.born(into, pid)?;
                self.processes[into] = self.processes[process].clone();
                self.compared.forks += 1;
            }
            Call::Exit => {
                self.tell(process, Command::Exit)?;
                self.end(process, false)?;
            }
            Call::Kill => self.end(process, true)?,
            Call::Set { descriptor, range, wait } => {
                self.set_both(process, descriptor, range, wait)?
            }
            Call::Get { descriptor, range } => self.get_both(process, descriptor, range)?,
        }
        self.settle().context("afterwards")?;
        if self.compared.calls.is_multiple_of(BETWEEN_TABLES) {
            self.same_table()?;
        }
        Ok(())
    }

    fn tell(&self, process: usize, command: Command) -> Result<()> {
        self.kernel.tell(process, command)
    }

    fn files(&mut self, process: usize) -> &mut [Option<u32>; DESCRIPTORS] {
        &mut self.processes[process].as_mut().expect("only those that run are chosen").files
    }

    /// A number that no open file has.
    fn free_file(&self) -> u32 {
        let is_open = |file: u32| {
            self.processes.iter().flatten().any(|process| process.files.contains(&Some(file)))
        };
        (0..).find(|&file| !is_open(file)).expect("few are open")
    }

    /// A descriptor goes, with the process's locks and, if it was the last, the open file's.
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
        self.kernel.gone(process, kill)?;
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
        self.tell(process, set_command(descriptor, range, wait))?;
        let ours = match ours {
            LockOutcome::Granted => Ok(()),
            LockOutcome::Refused(why) => Err(why),
            LockOutcome::Waits(waiting) => {
                let process = self.processes[process].as_mut().expect("it runs");
                process.waits = Some(Wait { range, waiting });
                self.compared.waited += 1;
                return Ok(());
            }
        };
        let kernel = answer(self.kernel.reply(process)?)?;
        self.count(ours);
        ensure!(ours == kernel, "{range:?}: ours {ours:?}, the kernel's {kernel:?}");
        Ok(())
    }

    fn count(&mut self, answer: Result<(), Refused>) {
        match answer {
            Ok(()) => self.compared.granted += 1,
            Err(Refused::Deadlock) => self.compared.deadlocks += 1,
            Err(_) => self.compared.refused += 1,
        }
    }

    fn kernel_grants(&self, process: usize) -> Result<()> {
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
        self.tell(process, Command::Fcntl { descriptor, command, lock: flock_of(range) })?;
        let Reply { value, lock } = self.kernel.reply(process)?;
        ensure!(value >= 0, "asking: {}", io::Error::from_raw_os_error(-value));
        let kernel = line_of(&lock);
        ensure!(
            ours == kernel,
            "who is in the way of {range:?}: ours {ours:?}, the kernel's {kernel:?}"
        );
        Ok(())
    }

    // Those who wait.

    /// Brings everybody who waits to rest: whoever the kernel let go on must be granted, or
    /// refused, the same by ours; all others wait, in both.
    fn settle(&mut self) -> Result<()> {
        let waiting: Vec<usize> = (0..PROCESSES)
            .filter(|&p| self.processes[p].as_ref().is_some_and(|p| p.waits.is_some()))
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let mut answers = self.at_rest(&waiting)?;
        if answers.len() > 1 {
            self.in_order(&mut answers)?;
        }
        while !answers.is_empty() {
            let next =
                answers.iter().position(|&(process, kernel)| self.would_be(process) == kernel);
            let Some(next) = next else {
                bail!("went on, by process: {answers:?}; ours would not");
            };
            let (process, kernel) = answers.remove(next);
            self.again(process, kernel)?;
        }
        // The kernel lets all others wait: ours must, as often as it wakes them.
        let still = |both: &Both, process: usize| {
            let waits = both.processes[process].as_ref().and_then(|process| process.waits);
            waits.is_some_and(|wait| both.ours.is_woken(&both.m, wait.waiting))
        };
        while let Some(&process) = waiting.iter().find(|&&process| still(self, process)) {
            let Wait { range, waiting } = self.waits_for(process).context("it waits")?;
            match self.ours.again(&self.m, 0, range, waiting) {
                LockOutcome::Waits(waiting) => {
                    self.set_wait(process, Some(Wait { range, waiting }))
                }
                other => bail!("{range:?} still waits for the kernel, ours: {other:?}"),
            }
        }
        Ok(())
    }

    /// Puts those whom the kernel let go on in the order in which they were granted theirs.
    fn in_order(&mut self, answers: &mut [(usize, Result<(), Refused>)]) -> Result<()> {
        let lines = self.table.lines()?;
        let newest = |process: usize| {
            let wait = self.waits_for(process).map(|wait| self.line(wait.range, false));
            let has = |line: &Line| wait.is_some_and(|wait| line.covers(&wait));
            lines.iter().position(has).unwrap_or(lines.len())
        };
        answers.sort_by_key(|&(process, _)| std::cmp::Reverse(newest(process)));
        Ok(())
    }

    fn waits_for(&self, process: usize) -> Option<Wait> {
        self.processes[process].as_ref().and_then(|process| process.waits)
    }

    fn set_wait(&mut self, process: usize, wait: Option<Wait>) {
        self.processes[process].as_mut().expect("it waits").waits = wait;
    }

    /// The answers of those who went on, once all others stand in the kernel's table.
    fn at_rest(&mut self, waiting: &[usize]) -> Result<Vec<(usize, Result<(), Refused>)>> {
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
            ensure!(since.elapsed() < PATIENCE, "in the kernel, those who wait come to no rest");
            std::thread::yield_now();
        }
    }

    /// What ours would answer a request that waits, if it were asked now.
    fn would_be(&self, process: usize) -> Result<(), Refused> {
        let Some(wait) = self.waits_for(process) else { return Err(Refused::Again) };
        if self.in_the_way(wait.range).is_empty() { Ok(()) } else { Err(Refused::Deadlock) }
    }

    /// A request that waited tries again, and must come to the kernel's answer.
    fn again(&mut self, process: usize, kernel: Result<(), Refused>) -> Result<()> {
        let Wait { range, waiting } = self.waits_for(process).context("it waits")?;
        ensure!(
            self.ours.is_woken(&self.m, waiting),
            "{range:?} went on in the kernel ({kernel:?}), ours does not wake it"
        );
        let ours = match self.ours.again(&self.m, 0, range, waiting) {
            LockOutcome::Granted => Ok(()),
            LockOutcome::Refused(why) => Err(why),
            LockOutcome::Waits(_) => bail!("{range:?}: the kernel's {kernel:?}, ours waits again"),
        };
        self.set_wait(process, None);
        self.count(ours);
        ensure!(ours == kernel, "{range:?}, woken: ours {ours:?}, the kernel's {kernel:?}");
        Ok(())
    }

    // The whole table.

    /// All that is held and waited for, by ours.
    fn told(&self) -> String {
        let mut told = Vec::new();
        self.ours.each_held(&self.m, |held| told.push(format!("held  {held:?}")));
        told.extend(self.waits().map(|wait| format!("waits {:?}", wait.range)));
        told.join("\n")
    }

    fn same_table(&mut self) -> Result<()> {
        let mut kernel = self.table.lines()?;
        kernel.sort_unstable();
        let mut ours = Vec::new();
        self.ours.each_held(&self.m, |held| ours.push(held));
        let mut ours: Vec<Line> = ours.into_iter().map(|held| self.line(held, false)).collect();
        ours.extend(self.waits().map(|wait| self.line(wait.range, true)));
        ours.sort_unstable();
        self.compared.tables += 1;
        if ours != kernel {
            let without = |all: &[Line], others: &[Line]| {
                all.iter().filter(|line| !others.contains(line)).copied().collect::<Vec<_>>()
            };
            bail!(
                "the table: only ours {:?}, only the kernel's {:?}; lines {} and {}",
                without(&ours, &kernel),
                without(&kernel, &ours),
                ours.len(),
                kernel.len()
            );
        }
        Ok(())
    }

    /// A range as the kernel tells it.
    fn line(&self, range: Range, waits: bool) -> Line {
        let (owners, pid) = match range.owner {
            Owner::Process(process) => {
                (Owners::Process, self.kernel.pid(process as usize).unwrap_or_default())
            }
            Owner::OpenFile(_) => (Owners::OpenFile, 0),
            Owner::Flock(_) => (Owners::Flock, 0),
        };
        let write = range.kind == LockKind::Write;
        Line { waits, owners, pid, write, start: range.start, end: range.end }
    }
}

/// Whether two ranges, of one kind of locks, have bytes in common.
fn meet(a: Range, b: Range) -> bool {
    let flock = |range: Range| matches!(range.owner, Owner::Flock(_));
    flock(a) == flock(b) && a.start <= b.end && b.start <= a.end
}

/// A file in memory, without a name: nothing can stay behind.
fn file_in_memory() -> Result<File> {
    // SAFETY: the name is a string with its end.
    let descriptor = unsafe { libc::memfd_create(c"locked".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error()).context("making a file in memory");
    }
    // SAFETY: a descriptor that is open and nobody else's.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

fn set_command(descriptor: usize, range: Range, wait: bool) -> Command {
    let command = match (range.owner, wait) {
        (Owner::Flock(_), _) => {
            let operation = match range.kind {
                LockKind::Read => libc::LOCK_SH,
                LockKind::Write => libc::LOCK_EX,
                LockKind::Unlock => libc::LOCK_UN,
            };
            let operation = if wait { operation } else { operation | libc::LOCK_NB };
            return Command::Flock { descriptor, operation };
        }
        (Owner::Process(_), false) => libc::F_SETLK,
        (Owner::Process(_), true) => libc::F_SETLKW,
        (Owner::OpenFile(_), false) => libc::F_OFD_SETLK,
        (Owner::OpenFile(_), true) => libc::F_OFD_SETLKW,
    };
    Command::Fcntl { descriptor, command, lock: flock_of(range) }
}

/// What the kernel answered to a request.
fn answer(reply: Reply) -> Result<Result<(), Refused>> {
    match -reply.value {
        libc::EAGAIN | libc::EACCES => Ok(Err(Refused::Again)),
        libc::EDEADLK => Ok(Err(Refused::Deadlock)),
        libc::ENOLCK => Ok(Err(Refused::NoRecords)),
        error if error > 0 => Err(io::Error::from_raw_os_error(error)).context("locking"),
        _ => Ok(Ok(())),
    }
}

fn flock_of(range: Range) -> libc::flock {
    // SAFETY: plain data, valid when zero; the process must be 0 for open files.
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

/// Who is in the way, as F_GETLK tells it: of open files, no process.
fn line_of(lock: &libc::flock) -> Option<Line> {
    let kind = i32::from(lock.l_type);
    let start = lock.l_start as u64;
    let line = Line {
        waits: false,
        owners: if lock.l_pid == -1 { Owners::OpenFile } else { Owners::Process },
        pid: lock.l_pid.max(0),
        write: kind == libc::F_WRLCK,
        start,
        end: if lock.l_len == 0 { TO_THE_END } else { start + lock.l_len as u64 - 1 },
    };
    (kind != libc::F_UNLCK).then_some(line)
}
