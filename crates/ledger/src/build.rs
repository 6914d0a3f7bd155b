//! From the windows of looks to a ledger.

use std::collections::BTreeMap;

use records::{
    Base, CpuState, LockTime, OWN_TASK_ON_THE_ONLY_CPUS, Obtained, Profile, ProfileKind, Share,
    Window,
};

use super::sampled::{FAULTS, GONE, Sampled, late_functions, sampled_rows};
use super::{
    AFFINITY, FOR_REASONS_NOT_KNOWN, IDLE, INTERRUPTS, Ledger, LedgerRow, LedgerUnit, NO_TASK,
    OTHERS, OWN, RowEvents, SPINNING, STOLEN, WORK, split,
};

/// The ledger of one point, from its looks. `None` if none of them saw where the time went. `compared` are
/// the looks of all points that it may be compared with: samples at one place have one name in all of them.
pub fn ledger(looks: &[&Profile], compared: &[&Profile]) -> Option<Ledger> {
    let (blocks, times) = units(looks, ProfileKind::Time);
    if times.is_empty() {
        return None;
    }
    let (_, counted) = units(looks, ProfileKind::Counts);
    let windows = compared.iter().flat_map(|look| &look.windows);
    let builder = LedgerBuilder {
        units: &times,
        counted: &counted,
        names: LockNames::from_looks(looks),
        late: late_functions(windows.filter_map(|window| window.samples.as_ref())),
    };
    let root = builder.root();
    let unit = |(block, windows): (&Option<u32>, &Vec<&Window>)| LedgerUnit {
        operations: windows.iter().map(|window| window.operations).sum(),
        budget_ns: windows.iter().map(|window| window.budget_ns()).sum(),
        block: *block,
    };
    Some(Ledger::of_runs(blocks.iter().zip(&times).map(unit).collect(), root))
}

/// The replicates and their blocks: looks, or the windows of a single look, which have no block.
pub(super) fn units<'a>(
    looks: &[&'a Profile],
    kind: ProfileKind,
) -> (Vec<Option<u32>>, Vec<Vec<&'a Window>>) {
    let units: (Vec<Option<u32>>, Vec<Vec<&Window>>) = looks
        .iter()
        .filter(|look| look.kind == kind && look.finished())
        .map(|look| (look.block, look.windows.iter().filter(|window| window.operations > 0)))
        .map(|(block, windows)| (Some(block), windows.collect::<Vec<&Window>>()))
        .filter(|(_, windows)| !windows.is_empty())
        .unzip();
    match &units.1[..] {
        [single] => single.iter().map(|window| (None, vec![*window])).unzip(),
        _ => units,
    }
}

/// How often any of `names` happened, and in how many operations, in each unit that counted them.
/// `None` if no unit did.
pub(super) fn counted(units: &[Vec<&Window>], what: &str, names: &[String]) -> Option<RowEvents> {
    let count = |window: &&Window| -> Option<(u64, u64)> {
        let counts = names.iter().map(|name| window.count(name));
        let counts: Vec<(u64, u64)> = counts.collect::<Option<_>>()?;
        // Either all of these names were counted in bursts or none of them.
        Some((counts.iter().map(|(times, _)| times).sum(), counts.first()?.1))
    };
    let count_unit = |windows: &Vec<&Window>| {
        let counts = windows.iter().filter_map(count);
        counts.reduce(|sum, each| (sum.0 + each.0, sum.1 + each.1))
    };
    let (counts, operations): (Vec<u64>, Vec<u64>) = units.iter().filter_map(count_unit).unzip();
    (!counts.is_empty()).then(|| RowEvents { what: what.to_string(), counts, operations })
}

/// Reads rows out of the windows of each unit.
struct LedgerBuilder<'a> {
    units: &'a [Vec<&'a Window>],
    counted: &'a [Vec<&'a Window>],
    names: LockNames,
    /// Functions whose samples come late.
    late: Vec<String>,
}

/// Idle time after a task was woken.
const WAKE_UP: &str = "wake-up latency";
/// Idle time of CPUs that no task of the workload had left to wait; the second is its older name.
pub(super) const UNUSED: [&str; 2] = [NO_TASK, "no task yet"];

/// At most this number of other tasks get a row of their own.
const NEIGHBOURS_MAX: usize = 8;

impl LedgerBuilder<'_> {
    /// One value for each unit.
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

    fn root(&self) -> LedgerRow {
        let rows = vec![self.work(), self.idle(), self.others(), self.stolen(), self.own()];
        let rows = rows.into_iter().filter(|row| row.total_ns() > 0).collect();
        let row = LedgerRow::from_parts("all", self.obtained(), rows);
        // Without any row there is no time, but the root needs a value for each unit.
        LedgerRow { ns: self.each(Window::budget_ns), ..row }
    }

    fn work(&self) -> LedgerRow {
        let rest = self.each(|w| w.time_ns(is_slice(Base::Work, CpuState::Rest)));
        let mut rows = self.rest_of_work(rest);
        rows.push(self.spinning());
        rows.push(self.interrupts(Base::Work));
        self.sum(WORK, rows)
    }

    /// The workload's time that no event divides, divided by samples.
    fn rest_of_work(&self, rest: Vec<u64>) -> Vec<LedgerRow> {
        let samples = Sampled::from_units(self.units, &self.late);
        match samples {
            Some(samples) => {
                let (sampled, lost) = self.without_lost(&rest);
                let mut rows = sampled_rows(&samples, &sampled);
                rows.extend(self.unseen_calls(&rows));
                let lost = LedgerRow::new("where samples were lost", Obtained::Apportioned, lost);
                rows.extend((lost.total_ns() > 0).then_some(lost));
                self.with_calls(rows.into_iter().map(|row| self.with_counts(row)).collect())
            }
            None => vec![LedgerRow::new("not sampled", self.obtained(), rest)],
        }
    }

    /// Divides the time that samples divide into the part whose samples arrived and the part whose
    /// samples were lost for lack of buffer space, in proportion to their numbers.
    fn without_lost(&self, rest: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let split_unit = |(ns, windows): (&u64, &Vec<&Window>)| {
            let samples = || windows.iter().filter_map(|window| window.samples.as_ref());
            let lost = samples().map(|samples| samples.lost).sum();
            let taken =
                samples().flat_map(|samples| &samples.stacks).map(|stack| stack.count).sum();
            let parts = split(*ns, &[taken, lost]);
            (parts[0], parts[1])
        };
        rest.iter().zip(self.units).map(split_unit).unzip()
    }

    /// Rows of calls that were counted but that no sample saw: without a row, a reader would believe
    /// that they were not made.
    fn unseen_calls(&self, sampled: &[LedgerRow]) -> Vec<LedgerRow> {
        // Rarer calls are those that the worker makes once.
        const PER_OPERATION_MIN: f64 = 1e-3;
        let windows = self.counted.iter().flatten();
        let calls = windows.flat_map(|window| window.counted());
        let mut calls: Vec<&str> = calls.filter_map(|name| name.strip_prefix("syscall.")).collect();
        calls.sort_unstable();
        calls.dedup();
        let row = |call: &str| {
            let no_time = vec![0; self.units.len()];
            let row = LedgerRow::new(format!("system call {call}"), Obtained::Sampled, no_time);
            self.with_counts(LedgerRow { samples: Some(0), ..row })
        };
        let is_often = |row: &LedgerRow| {
            row.events.as_ref().is_some_and(|e| e.per_operation().mean >= PER_OPERATION_MIN)
        };
        let rows = calls.into_iter().map(row).filter(is_often);
        rows.filter(|row| sampled.iter().all(|sampled| sampled.name != row.name)).collect()
    }

    /// Adds how often the calls or faults of a row happened, if looks counted them.
    fn with_counts(&self, row: LedgerRow) -> LedgerRow {
        let (what, names): (_, Vec<String>) = match row.name.as_str() {
            FAULTS => ("fault", vec!["fault.user".to_string(), "fault.kernel".to_string()]),
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

    /// Adds how often the functions that the user named were called, and how many processes were started.
    /// Only for functions with a single row: a count does not say which of two rows a call belongs to.
    fn with_calls(&self, mut rows: Vec<LedgerRow>) -> Vec<LedgerRow> {
        let names: Vec<String> =
            rows.iter().flat_map(|row| &row.rows).map(|part| part.name.clone()).collect();
        for part in rows.iter_mut().flat_map(|row| &mut row.rows) {
            if names.iter().filter(|name| **name == part.name).count() == 1 {
                let (what, name) = match part.name.as_str() {
                    GONE => ("process", "syscall.execve".to_string()),
                    name => ("call", format!("function.{name}")),
                };
                let calls = counted(self.counted, what, &[name]);
                part.events = part.events.take().or(calls);
            }
        }
        rows
    }

    fn spinning(&self) -> LedgerRow {
        let locks = self.units.iter().flatten().flat_map(|window| &window.locks);
        let locks = locks.filter(|lock| lock.base == Base::Work);
        let mut names: Vec<String> = locks.map(|lock| self.names.name(lock)).collect();
        names.sort();
        names.dedup();
        let sum_named = |window: &Window, name: &str, value: fn(&LockTime) -> u64| {
            let locks = window.locks.iter().filter(|l| l.base == Base::Work);
            locks.filter(|lock| self.names.name(lock) == name).map(value).sum()
        };
        let row = |name: &String| {
            let ns = self.each(|w| sum_named(w, name, |lock| lock.spin_ns));
            let spins = self.each(|w| sum_named(w, name, |lock| lock.spins));
            LedgerRow::new(name.clone(), self.obtained(), ns)
                .with_events(self.events("spin", spins))
        };
        let row = self.sum(SPINNING, names.iter().map(row).collect());
        let spins = self
            .each(|w| w.locks.iter().filter(|l| l.base == Base::Work).map(|lock| lock.spins).sum());
        row.with_events(self.events("spin", spins))
    }

    /// Interrupts and deferred work while `base` had the CPU.
    fn interrupts(&self, base: Base) -> LedgerRow {
        let states = CpuState::ALL.into_iter().filter_map(|state| Some((state, interrupt(state)?)));
        let row = |(state, (name, belongs_to_time)): (CpuState, (&str, bool))| {
            let ns = self.each(|w| w.time_ns(is_slice(base, state)));
            let entries = self.each(|w| entries(w, is_slice(base, state)));
            let row = LedgerRow::new(name, self.obtained(), ns);
            let row = row.with_events(self.events("interrupt", entries));
            if belongs_to_time { row.belonging_to_time() } else { row }
        };
        self.sum(INTERRUPTS, states.map(row).collect())
    }

    fn idle(&self) -> LedgerRow {
        let mut rows = self.shares("wait", |window| &window.idle);
        if rows.is_empty() {
            let rest = self.each(|w| w.time_ns(is_slice(Base::Idle, CpuState::Rest)));
            rows.push(LedgerRow::new(FOR_REASONS_NOT_KNOWN, self.obtained(), rest));
        }
        for row in rows.iter_mut().filter(|row| UNUSED.contains(&row.name.as_str())) {
            // Nobody waited: longer operations leave such a CPU unused for longer.
            *row = row.clone().belonging_to_time();
        }
        let woken = rows.iter_mut().filter(|row| row.name == WAKE_UP);
        woken.filter_map(|row| row.events.as_mut()).for_each(|e| e.what = "wake-up".to_string());
        self.name_affinity(&mut rows);
        rows.push(self.interrupts(Base::Idle));
        let spin = self.each(|w| w.time_ns(is_slice(Base::Idle, CpuState::Spin)));
        rows.push(LedgerRow::new(SPINNING, self.obtained(), spin));
        self.sum(IDLE, rows)
    }

    /// Divides the time of unused CPUs: as long as tasks waited that may only use others, their
    /// affinity left these CPUs unused.
    fn name_affinity(&self, rows: &mut Vec<LedgerRow>) {
        let waited = self.each(|window| {
            let waits = window.waits.iter().filter(|wait| wait.name == OWN_TASK_ON_THE_ONLY_CPUS);
            waits.map(|wait| wait.ns).sum()
        });
        let Some(unused) = rows.iter_mut().find(|row| row.name == UNUSED[0]) else { return };
        let affinity: Vec<u64> =
            unused.ns.iter().zip(&waited).map(|(unused, waited)| *unused.min(waited)).collect();
        unused.ns.iter_mut().zip(&affinity).for_each(|(unused, affinity)| *unused -= affinity);
        rows.push(LedgerRow::new(AFFINITY, Obtained::Apportioned, affinity));
    }

    fn others(&self) -> LedgerRow {
        let mut rows = self.shares("turn", |window| &window.others);
        if rows.is_empty() {
            let rest = self.each(|w| w.time_ns(is_slice(Base::Other, CpuState::Rest)));
            rows.push(LedgerRow::new("not known by name", self.obtained(), rest));
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
        if rows.len() > NEIGHBOURS_MAX {
            let rarer = rows.split_off(NEIGHBOURS_MAX);
            let sum = LedgerRow::from_parts("rarer tasks", self.obtained(), rarer);
            rows.push(LedgerRow { rows: Vec::new(), ..sum });
        }
        let spin = self.each(|w| w.time_ns(is_slice(Base::Other, CpuState::Spin)));
        rows.push(LedgerRow::new(SPINNING, self.obtained(), spin));
        rows.push(self.interrupts(Base::Other));
        self.sum(OTHERS, rows).belonging_to_time()
    }

    fn stolen(&self) -> LedgerRow {
        let ns = self.each(|w| w.time_ns(|_, state| state == CpuState::Steal));
        LedgerRow::new(STOLEN, self.obtained(), ns).belonging_to_time()
    }

    fn own(&self) -> LedgerRow {
        let looking = self.each(|w| w.time_ns(|_, state| state == CpuState::Sampling));
        let is_rest = |state| !matches!(state, CpuState::Sampling | CpuState::Steal);
        let rest = self.each(|w| w.time_ns(|base, state| base == Base::Own && is_rest(state)));
        let rows = vec![
            LedgerRow::new("samples and snapshots", self.obtained(), looking),
            LedgerRow::new("the worker", self.obtained(), rest),
        ];
        self.sum(OWN, rows).belonging_to_time()
    }

    /// One row for each name among the shares.
    fn shares(&self, what: &str, shares: fn(&Window) -> &Vec<Share>) -> Vec<LedgerRow> {
        let mut names: Vec<&String> =
            self.units.iter().flatten().flat_map(|w| shares(w)).map(|share| &share.name).collect();
        names.sort();
        names.dedup();
        let sum_named = |window: &Window, name: &String, value: fn(&Share) -> u64| {
            shares(window).iter().filter(|share| share.name == *name).map(value).sum()
        };
        let row = |name: &String| {
            let ns = self.each(|w| sum_named(w, name, |share| share.ns));
            let times = self.each(|w| sum_named(w, name, |share| share.times));
            LedgerRow::new(name.clone(), self.obtained(), ns).with_events(self.events(what, times))
        };
        names.into_iter().map(row).collect()
    }

    fn events(&self, what: &str, counts: Vec<u64>) -> RowEvents {
        RowEvents { what: what.to_string(), counts, operations: self.operations() }
    }

    /// The sum of the rows that have any time or event, the largest first.
    fn sum(&self, name: &str, mut rows: Vec<LedgerRow>) -> LedgerRow {
        let has_events =
            |row: &LedgerRow| row.events.as_ref().is_some_and(|e| e.counts.iter().any(|n| *n > 0));
        rows.retain(|row| row.total_ns() > 0 || has_events(row));
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
        let row = LedgerRow::from_parts(name, self.obtained(), rows);
        let ns = if row.ns.is_empty() { vec![0; self.units.len()] } else { row.ns.clone() };
        LedgerRow { ns, ..row }
    }
}

fn is_slice(base: Base, state: CpuState) -> impl Fn(Base, CpuState) -> bool {
    move |b, s| b == base && s == state
}

fn entries(window: &Window, is_counted: impl Fn(Base, CpuState) -> bool) -> u64 {
    window
        .slices()
        .filter(|slice| is_counted(slice.base, slice.state))
        .map(|slice| slice.entries)
        .sum()
}

/// Names for locks. For each place in memory: the members of structures that may lie there, and
/// the functions that waited, with how often.
pub(super) struct LockNames(BTreeMap<String, (Vec<String>, BTreeMap<String, u64>)>);

impl LockNames {
    pub(super) fn from_looks(looks: &[&Profile]) -> LockNames {
        let mut names: BTreeMap<String, (Vec<String>, BTreeMap<String, u64>)> = BTreeMap::new();
        let windows = looks.iter().flat_map(|look| &look.windows);
        for lock in windows.flat_map(|window| &window.locks) {
            let (members, callers) = names.entry(lock.place.clone()).or_default();
            members.clone_from(&lock.members);
            for (caller, times) in &lock.callers {
                *callers.entry(caller.clone()).or_default() += times;
            }
        }
        LockNames(names)
    }

    /// The name of a lock: its structure member if only one is possible, else the function that waits
    /// for it most often, else its place in memory.
    pub(super) fn name(&self, lock: &LockTime) -> String {
        let is_address = lock.place.starts_with("0x");
        let (members, callers) = self.0.get(&lock.place).cloned().unwrap_or_default();
        match (&members[..], callers.iter().max_by_key(|(_, times)| **times)) {
            ([member], _) => member.clone(),
            // A lock outside of slabs stays where it is as long as the kernel runs. Its address is
            // the same in each look, but tells a reader nothing.
            (_, Some((caller, _))) if is_address => format!("a lock in {caller}"),
            (_, None) if is_address => "locks whose waiters were not looked at".to_string(),
            (_, Some((caller, _))) => format!("a lock in {caller} ({})", lock.place),
            ([], None) => lock.place.clone(),
            (members, None) => format!("{} ({})", members.join(" or "), lock.place),
        }
    }
}

/// The name of an interrupt, and whether it belongs to time. `None` for other states.
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
