//! From what looks saw to a ledger.

use std::collections::BTreeMap;

use records::{Base, CpuState, LockTime, Obtained, Profile, ProfileKind, Share, Window};

use super::sampled::{Sampled, sampled_rows};
use super::{Events, Ledger, Row, Unit};

/// The ledger of one point, from its looks; nothing if none of them saw where the time went.
pub fn ledger(looks: &[&Profile]) -> Option<Ledger> {
    let (blocks, times) = units(looks, ProfileKind::Time);
    if times.is_empty() {
        return None;
    }
    let (_, counted) = units(looks, ProfileKind::Counts);
    let builder = Builder { units: &times, counted: &counted, names: Names::of(looks) };
    let root = builder.root();
    let unit = |(block, windows): (&Option<u32>, &Vec<&Window>)| Unit {
        operations: windows.iter().map(|window| window.operations).sum(),
        budget_ns: windows.iter().map(|window| window.budget_ns()).sum(),
        block: *block,
    };
    Some(Ledger { units: blocks.iter().zip(&times).map(unit).collect(), root })
}

/// The replicates and their blocks: looks, or the windows of a single one, which are of no block.
pub(super) fn units<'a>(
    looks: &[&'a Profile],
    kind: ProfileKind,
) -> (Vec<Option<u32>>, Vec<Vec<&'a Window>>) {
    let seen = looks.iter().filter(|look| look.kind == kind && look.finished());
    let units: (Vec<Option<u32>>, Vec<Vec<&Window>>) = seen
        .map(|look| (look.block, look.windows.iter().filter(|window| window.operations > 0)))
        .map(|(block, windows)| (Some(block), windows.collect::<Vec<&Window>>()))
        .filter(|(_, windows)| !windows.is_empty())
        .unzip();
    match &units.1[..] {
        [single] => single.iter().map(|window| (None, vec![*window])).unzip(),
        _ => units,
    }
}

/// How often any of `names` happened, and in how many operations, in each unit that counted them;
/// nothing if none did.
pub(super) fn counted(units: &[Vec<&Window>], what: &str, names: &[String]) -> Option<Events> {
    let count = |window: &&Window| -> Option<(u64, u64)> {
        let counts = names.iter().map(|name| window.count(name));
        let counts: Vec<(u64, u64)> = counts.collect::<Option<_>>()?;
        // All of them were counted in bursts, or none.
        Some((counts.iter().map(|(times, _)| times).sum(), counts.first()?.1))
    };
    let of_unit = |windows: &Vec<&Window>| {
        let counts = windows.iter().filter_map(count);
        counts.reduce(|sum, each| (sum.0 + each.0, sum.1 + each.1))
    };
    let (counts, operations): (Vec<u64>, Vec<u64>) = units.iter().filter_map(of_unit).unzip();
    (!counts.is_empty()).then(|| Events { what: what.to_string(), counts, operations })
}

/// Reads rows out of the windows of each unit.
struct Builder<'a> {
    units: &'a [Vec<&'a Window>],
    counted: &'a [Vec<&'a Window>],
    names: Names,
}

/// Names of the rows that the whole program knows.
pub const WORK: &str = "the workload";
/// See [`WORK`].
pub const IDLE: &str = "idle";
/// See [`WORK`].
pub const OTHERS: &str = "other tasks";
/// See [`WORK`].
pub const STOLEN: &str = "stolen by the host";
/// See [`WORK`].
pub const OWN: &str = "knee itself";
/// Below [`WORK`].
pub const SPINNING: &str = "spinning for locks";
/// Below [`WORK`] and [`IDLE`].
pub const INTERRUPTS: &str = "interrupts";

/// Other tasks that get a row of their own.
const NEIGHBOURS_MAX: usize = 8;

impl Builder<'_> {
    /// One number a unit.
    fn each(&self, value: impl Fn(&Window) -> u64) -> Vec<u64> {
        let sum = |windows: &Vec<&Window>| windows.iter().map(|window| value(window)).sum();
        self.units.iter().map(sum).collect()
    }

    fn operations(&self) -> Vec<u64> {
        self.each(|window| window.operations)
    }

    /// How the time of all windows was obtained.
    fn obtained(&self) -> Obtained {
        let mut windows = self.units.iter().flatten();
        windows.find(|w| w.obtained != Obtained::Exact).map_or(Obtained::Exact, |w| w.obtained)
    }

    fn root(&self) -> Row {
        let rows = vec![self.work(), self.idle(), self.others(), self.stolen(), self.own()];
        let rows = rows.into_iter().filter(|row| row.total_ns() > 0).collect();
        let row = Row::sum_of("all", self.obtained(), rows);
        // No row at all is no time at all.
        Row { ns: self.each(Window::budget_ns), ..row }
    }

    fn work(&self) -> Row {
        let rest = self.each(|w| w.time_ns(is(Base::Work, CpuState::Rest)));
        let mut rows = self.rest_of_work(rest);
        rows.push(self.spinning());
        rows.push(self.interrupts(Base::Work));
        self.sum(WORK, rows)
    }

    /// The time that no event divides, divided by samples.
    fn rest_of_work(&self, rest: Vec<u64>) -> Vec<Row> {
        let samples = Sampled::of(self.units);
        match samples {
            Some(samples) => {
                let (seen, lost) = self.without_lost(&rest);
                let mut rows = sampled_rows(&samples, &seen);
                rows.extend(self.unseen_calls(&rows));
                let lost = Row::new("where samples were lost", Obtained::Apportioned, lost);
                rows.extend((lost.total_ns() > 0).then_some(lost));
                self.with_calls(rows.into_iter().map(|row| self.with_counts(row)).collect())
            }
            None => vec![Row::new("not sampled", self.obtained(), rest)],
        }
    }

    /// The time that samples divide, less the part of it whose samples found no room on their way
    /// here: as large as the lost ones are among all.
    fn without_lost(&self, rest: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let of_unit = |(ns, windows): (&u64, &Vec<&Window>)| {
            let samples = || windows.iter().filter_map(|window| window.samples.as_ref());
            let lost = samples().map(|samples| samples.lost).sum();
            let taken =
                samples().flat_map(|samples| &samples.stacks).map(|stack| stack.count).sum();
            let parts = super::split(*ns, &[taken, lost]);
            (parts[0], parts[1])
        };
        rest.iter().zip(self.units).map(of_unit).unzip()
    }

    /// Calls that were counted and that no sample saw: a row that is not there would say that they were
    /// not made.
    fn unseen_calls(&self, seen: &[Row]) -> Vec<Row> {
        // Rarer ones are what the worker does once.
        const PER_OPERATION_MIN: f64 = 1e-3;
        let windows = self.counted.iter().flatten();
        let calls = windows.flat_map(|window| window.counted());
        let mut calls: Vec<&str> = calls.filter_map(|name| name.strip_prefix("syscall.")).collect();
        calls.sort_unstable();
        calls.dedup();
        let row = |call: &str| {
            let none = vec![0; self.units.len()];
            let row = Row::new(format!("system call {call}"), Obtained::Sampled, none);
            self.with_counts(Row { samples: Some(0), ..row })
        };
        let is_often = |row: &Row| {
            row.events.as_ref().is_some_and(|e| e.per_operation().mean >= PER_OPERATION_MIN)
        };
        let rows = calls.into_iter().map(row).filter(is_often);
        rows.filter(|row| seen.iter().all(|seen| seen.name != row.name)).collect()
    }

    /// How often the calls or faults of a row happened, where looks have counted them.
    fn with_counts(&self, row: Row) -> Row {
        let (what, names): (_, Vec<String>) = match row.name.as_str() {
            "page faults" => ("fault", vec!["fault.user".to_string(), "fault.kernel".to_string()]),
            name => match name.strip_prefix("system call ") {
                Some("entry and exit") => ("system call", vec!["syscalls".to_string()]),
                Some(call) => ("call", vec![format!("syscall.{call}")]),
                None => return row,
            },
        };
        match counted(self.counted, what, &names) {
            Some(events) => row.with_events(events),
            None => row,
        }
    }

    /// How often the functions that the user named were called: of those with one row, because
    /// nobody counted apart what the calls of two rows are.
    fn with_calls(&self, mut rows: Vec<Row>) -> Vec<Row> {
        let names: Vec<String> =
            rows.iter().flat_map(|row| &row.rows).map(|part| part.name.clone()).collect();
        for part in rows.iter_mut().flat_map(|row| &mut row.rows) {
            if names.iter().filter(|name| **name == part.name).count() == 1 {
                let calls = counted(self.counted, "call", &[format!("function.{}", part.name)]);
                part.events = part.events.take().or(calls);
            }
        }
        rows
    }

    fn spinning(&self) -> Row {
        let locks = self.units.iter().flatten().flat_map(|window| &window.locks);
        let locks = locks.filter(|lock| lock.base == Base::Work);
        let mut names: Vec<String> = locks.map(|lock| self.names.name(lock)).collect();
        names.sort();
        names.dedup();
        let of = |window: &Window, name: &str, value: fn(&LockTime) -> u64| {
            let locks = window.locks.iter().filter(|l| l.base == Base::Work);
            locks.filter(|lock| self.names.name(lock) == name).map(value).sum()
        };
        let row = |name: &String| {
            let ns = self.each(|w| of(w, name, |lock| lock.spin_ns));
            let spins = self.each(|w| of(w, name, |lock| lock.spins));
            Row::new(name.clone(), self.obtained(), ns).with_events(self.events("spin", spins))
        };
        let row = self.sum(SPINNING, names.iter().map(row).collect());
        let spins = self
            .each(|w| w.locks.iter().filter(|l| l.base == Base::Work).map(|lock| lock.spins).sum());
        row.with_events(self.events("spin", spins))
    }

    /// Interrupts and deferred work while somebody had the CPU.
    fn interrupts(&self, base: Base) -> Row {
        let states = CpuState::ALL.into_iter().filter_map(|state| Some((state, interrupt(state)?)));
        let row = |(state, (name, belongs_to_time)): (CpuState, (&str, bool))| {
            let ns = self.each(|w| w.time_ns(is(base, state)));
            let entries = self.each(|w| entries(w, is(base, state)));
            let row = Row::new(name, self.obtained(), ns);
            let row = row.with_events(self.events("interrupt", entries));
            if belongs_to_time { row.of_time() } else { row }
        };
        self.sum(INTERRUPTS, states.map(row).collect())
    }

    fn idle(&self) -> Row {
        let mut rows = self.shares("turn", |window| &window.idle);
        if rows.is_empty() {
            let rest = self.each(|w| w.time_ns(is(Base::Idle, CpuState::Rest)));
            rows.push(Row::new("for reasons not known", self.obtained(), rest));
        }
        rows.push(self.interrupts(Base::Idle));
        let spin = self.each(|w| w.time_ns(is(Base::Idle, CpuState::Spin)));
        rows.push(Row::new(SPINNING, self.obtained(), spin));
        self.sum(IDLE, rows)
    }

    fn others(&self) -> Row {
        let mut rows = self.shares("turn", |window| &window.others);
        if rows.is_empty() {
            let rest = self.each(|w| w.time_ns(is(Base::Other, CpuState::Rest)));
            rows.push(Row::new("not known by name", self.obtained(), rest));
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
        if rows.len() > NEIGHBOURS_MAX {
            let rarer = rows.split_off(NEIGHBOURS_MAX);
            let sum = Row::sum_of("rarer tasks", self.obtained(), rarer);
            rows.push(Row { rows: Vec::new(), ..sum });
        }
        let spin = self.each(|w| w.time_ns(is(Base::Other, CpuState::Spin)));
        rows.push(Row::new(SPINNING, self.obtained(), spin));
        rows.push(self.interrupts(Base::Other));
        self.sum(OTHERS, rows).of_time()
    }

    fn stolen(&self) -> Row {
        let ns = self.each(|w| w.time_ns(|_, state| state == CpuState::Steal));
        Row::new(STOLEN, self.obtained(), ns).of_time()
    }

    fn own(&self) -> Row {
        let looking = self.each(|w| w.time_ns(|_, state| state == CpuState::Sampling));
        let is_rest = |state| !matches!(state, CpuState::Sampling | CpuState::Steal);
        let rest = self.each(|w| w.time_ns(|base, state| base == Base::Own && is_rest(state)));
        let rows = vec![
            Row::new("samples and snapshots", self.obtained(), looking),
            Row::new("the worker", self.obtained(), rest),
        ];
        self.sum(OWN, rows).of_time()
    }

    /// Rows of shares by name.
    fn shares(&self, what: &str, shares: fn(&Window) -> &Vec<Share>) -> Vec<Row> {
        let mut names: Vec<&String> =
            self.units.iter().flatten().flat_map(|w| shares(w)).map(|share| &share.name).collect();
        names.sort();
        names.dedup();
        let of = |window: &Window, name: &String, value: fn(&Share) -> u64| {
            shares(window).iter().filter(|share| share.name == *name).map(value).sum()
        };
        let row = |name: &String| {
            let ns = self.each(|w| of(w, name, |share| share.ns));
            let times = self.each(|w| of(w, name, |share| share.times));
            Row::new(name.clone(), self.obtained(), ns).with_events(self.events(what, times))
        };
        names.into_iter().map(row).collect()
    }

    fn events(&self, what: &str, counts: Vec<u64>) -> Events {
        Events { what: what.to_string(), counts, operations: self.operations() }
    }

    /// The sum of those rows that have any time or event, the largest first.
    fn sum(&self, name: &str, mut rows: Vec<Row>) -> Row {
        let happened =
            |row: &Row| row.events.as_ref().is_some_and(|e| e.counts.iter().any(|n| *n > 0));
        rows.retain(|row| row.total_ns() > 0 || happened(row));
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
        let row = Row::sum_of(name, self.obtained(), rows);
        let none = row.ns.is_empty();
        Row { ns: if none { vec![0; self.units.len()] } else { row.ns.clone() }, ..row }
    }
}

fn is(base: Base, state: CpuState) -> impl Fn(Base, CpuState) -> bool {
    move |b, s| b == base && s == state
}

fn entries(window: &Window, is: impl Fn(Base, CpuState) -> bool) -> u64 {
    window.slices().filter(|slice| is(slice.base, slice.state)).map(|slice| slice.entries).sum()
}

/// What looks know of locks, by the place where each lies.
pub(super) struct Names(BTreeMap<String, (Vec<String>, BTreeMap<String, u64>)>);

impl Names {
    pub(super) fn of(looks: &[&Profile]) -> Names {
        let mut names: BTreeMap<String, (Vec<String>, BTreeMap<String, u64>)> = BTreeMap::new();
        let windows = looks.iter().flat_map(|look| &look.windows);
        for lock in windows.flat_map(|window| &window.locks) {
            let (members, callers) = names.entry(lock.place.clone()).or_default();
            members.clone_from(&lock.members);
            for (caller, times) in &lock.callers {
                *callers.entry(caller.clone()).or_default() += times;
            }
        }
        Names(names)
    }

    /// What a lock is called: its member where only one can be meant, else who waits for it, else
    /// where it lies.
    pub(super) fn name(&self, lock: &LockTime) -> String {
        let is_address = lock.place.starts_with("0x");
        let known = self.0.get(&lock.place);
        let (members, callers) = known.cloned().unwrap_or_default();
        match (&members[..], callers.iter().max_by_key(|(_, times)| **times)) {
            ([member], _) => member.clone(),
            // What lies in no slab is there as long as the kernel runs: an address is the same lock
            // in each look, and says nothing to anybody.
            (_, Some((caller, _))) if is_address => format!("a lock in {caller}"),
            (_, None) if is_address => "locks whose waiters were not looked at".to_string(),
            (_, Some((caller, _))) => format!("a lock in {caller} ({})", lock.place),
            ([], None) => lock.place.clone(),
            (several, None) => format!("{} ({})", several.join(" or "), lock.place),
        }
    }
}

/// What an interrupt is called, and whether it belongs to time; nothing for other states.
fn interrupt(state: CpuState) -> Option<(&'static str, bool)> {
    Some(match state {
        CpuState::Rest | CpuState::Spin | CpuState::Sampling | CpuState::Steal => return None,
        CpuState::IrqTimer => ("timer", true),
        CpuState::IrqReschedule => ("reschedule, from another CPU", false),
        CpuState::IrqCallMany => ("function call, sent to many CPUs", false),
        CpuState::IrqCallOne => ("function call, sent to one CPU", false),
        CpuState::IrqWork => ("irq work", false),
        CpuState::IrqDevice => ("devices", true),
        CpuState::IrqOther => ("other interrupts", true),
        CpuState::SoftirqHigh => ("softirq high", false),
        CpuState::SoftirqTimer => ("softirq timer", true),
        CpuState::SoftirqNetSend => ("softirq network send", false),
        CpuState::SoftirqNetReceive => ("softirq network receive", false),
        CpuState::SoftirqBlock => ("softirq block", false),
        CpuState::SoftirqPoll => ("softirq poll", false),
        CpuState::SoftirqTasklet => ("softirq tasklet", false),
        CpuState::SoftirqSched => ("softirq balancing", true),
        CpuState::SoftirqHrtimer => ("softirq hrtimer", true),
        CpuState::SoftirqRcu => ("softirq RCU", false),
    })
}

#[cfg(test)]
mod tests;
