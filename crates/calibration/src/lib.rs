//! Measures the costs that the simulator charges on this host, from user space on pinned threads of
//! this process. Each number is the median of repeats, with its quartiles.

mod barriers;
mod contended;
mod distances;
mod file;
mod instructions;
mod keep;
mod kernel;
pub mod native_check;
mod private;
mod transfers;

use std::collections::BTreeMap;
use std::mem;

pub use crate::distances::CpuLayout;
pub use crate::file::{Provenance, file};
pub use crate::keep::measure_keep;
use analysis::Quartiles;
use anyhow::{Context, Result};

use crate::contended::Storm;
use crate::kernel::FirstUse;
use crate::transfers::{TransferCpus, TransferKind};
use described_hosts::DISTANCES;
use studies::simulations::keep::KeepFit;

/// The measured numbers of a host.
#[derive(Debug, Default)]
pub struct Measurements {
    /// Numbers by their names in the host's file.
    numbers: BTreeMap<String, MeasuredNumber>,
    /// Why a number could not be measured, by its name.
    missing: BTreeMap<String, &'static str>,
    /// Numbers that have no place in a host's file, by description.
    beside: BTreeMap<String, MeasuredNumber>,
    /// What changed while the host was measured, if something did each time.
    moved: Option<String>,
    /// Fits of `keep` and `busy`, by distance; empty unless asked for.
    pub fits: Vec<KeepFit>,
}

/// All repeats of one number.
#[derive(Clone, Debug, Default)]
struct MeasuredNumber {
    values: Vec<f64>,
    /// `ns`, or empty for a share.
    unit: &'static str,
    /// How it was measured.
    how: String,
}

impl Measurements {
    fn ns(&mut self, name: &str, values: &[f64], how: impl Into<String>) {
        self.number(name, "ns", values, how);
    }

    fn number(&mut self, name: &str, unit: &'static str, values: &[f64], how: impl Into<String>) {
        let number = MeasuredNumber { values: values.to_vec(), unit, how: how.into() };
        self.numbers.insert(name.to_string(), number);
    }

    fn beside(&mut self, what: impl Into<String>, unit: &'static str, values: &[f64]) {
        let number = MeasuredNumber { values: values.to_vec(), unit, how: String::new() };
        self.beside.insert(what.into(), number);
    }

    fn is_missing(&mut self, names: &[&str], why: &'static str) {
        self.missing.extend(names.iter().map(|name| (name.to_string(), why)));
    }

    fn median(&self, name: &str) -> f64 {
        let quartiles =
            self.numbers.get(name).and_then(|number| Quartiles::from_values(&number.values));
        quartiles.map_or(0.0, |quartiles| quartiles.median)
    }

    /// Replaces what two CPUs said of `keep` and `busy` by what fits the curves of more, where that fits.
    fn take_fits(&mut self) {
        for fit in mem::take(&mut self.fits) {
            let costs =
                if fit.misses() { &[][..] } else { &[("keep", fit.keep), ("busy", fit.busy)] };
            for &(cost, [low, best, high]) in costs {
                let name = format!("transfer.{}.{cost}", fit.distance);
                // Of which these are the quartiles.
                self.number(&name, "", &[low, low, best, high, high], fit.how());
            }
            self.fits.push(fit);
        }
    }

    /// Adds the repeats of another pass.
    fn add(&mut self, again: Measurements) {
        let both = [(&mut self.numbers, again.numbers), (&mut self.beside, again.beside)];
        for (numbers, again) in both {
            for (name, number) in again {
                let repeats = numbers.entry(name).or_default();
                repeats.values.extend(number.values);
                (repeats.unit, repeats.how) = (number.unit, number.how);
            }
        }
        self.missing.extend(again.missing);
    }
}

/// The time of a read by `user` of a cache line that `owner` has modified, in ns for each round.
pub fn transfer(user: u32, owner: u32) -> Result<Vec<f64>> {
    let mut times = transfers::time(TransferCpus { user, owner, reader: None })?;
    Ok(times.uses.swap_remove(0).1)
}

/// The whole set of measurements is repeated this often: a host that moves virtual CPUs between
/// cores has other distances after some seconds.
const PASSES: usize = 8;

/// All passes are made again, up to this often, if the host has changed meanwhile: a file with the
/// numbers of two hosts describes neither.
const SETS_MAX: usize = 3;

/// Medians of two passes that are this far apart do not belong to one host: virtual CPUs have
/// moved, or the clock rate has.
const MOVED: f64 = 1.5;

/// Measures all numbers; passes its progress to `report`.
pub fn measure(layout: &CpuLayout, report: &dyn Fn(&str)) -> Result<Measurements> {
    let mut measured = Measurements::default();
    for set in 1..=SETS_MAX {
        let pass = |pass: usize| {
            report(&format!("pass {pass} of {PASSES}"));
            measured_once(layout)
        };
        let passes: Vec<Measurements> = (1..=PASSES).map(pass).collect::<Result<_>>()?;
        let moved = moved(&passes);
        measured = Measurements::default();
        passes.into_iter().for_each(|pass| measured.add(pass));
        match &moved {
            None => break,
            Some(what) if set < SETS_MAX => report(&format!("again, since {what}")),
            Some(_) => measured.moved = moved,
        }
    }
    memory(&mut measured, layout.neighbours()[0]).context("timing memory")?;
    stream(&mut measured, &layout.neighbours()).context("timing memory that is cleared")?;
    Ok(measured)
}

/// What differs between passes as on two hosts, if something does: how long a line takes over a
/// distance, or an atomic instruction.
fn moved(passes: &[Measurements]) -> Option<String> {
    let transfers = DISTANCES.map(|distance| format!("transfer.{distance}.load_modified"));
    transfers.into_iter().chain(["costs.atomic".into()]).find_map(|name| {
        let medians = passes.iter().map(|pass| pass.median(&name)).filter(|median| *median > 0.0);
        let (low, high) = medians.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), median| {
            (low.min(median), high.max(median))
        });
        let text = || format!("{name} took {low:.0} ns in one pass and {high:.0} ns in another");
        (high > low * MOVED).then(text)
    })
}

fn measured_once(layout: &CpuLayout) -> Result<Measurements> {
    let mut measured = Measurements::default();
    private_lines(&mut measured, layout.neighbours()[0])
        .context("timing accesses to private lines")?;
    threads(&mut measured, layout).context("timing the threads of a core")?;
    transfers_of_lines(&mut measured, layout).context("timing transfers of lines")?;
    contention(&mut measured, layout).context("timing contended lines")?;
    system_calls(&mut measured, layout).context("timing system calls")?;
    Ok(measured)
}

fn private_lines(measured: &mut Measurements, cpu: u32) -> Result<()> {
    let private::OwnLineCosts { load, store, atomic, pause } = private::own(cpu)?;
    measured.ns("costs.load", &load, "dependent loads of private lines");
    measured.ns("costs.store", &store, "stores to a private line");
    measured.ns("costs.atomic", &atomic, "fetch-and-add of a private word");
    measured.ns("costs.pause", &pause, "iterations of a loop of spin-wait hints");
    let how = "copies of pages within 256 KiB, for each line read or written";
    measured.ns("costs.copied_line", &private::copied_line(cpu)?, how);
    match instructions::instruction(cpu)? {
        Some(times) => {
            let how = "of loops: four chains of additions, and loads, stores and branches as in compiled code";
            measured.ns("costs.instruction", &times, how);
        }
        None => measured
            .is_missing(&["costs.instruction"], "knee has no such loops for this architecture"),
    }
    let [near, far] = [16 << 10, 256 << 10].map(|bytes| private::memory(cpu, bytes));
    let near = Quartiles::from_values(&near?).map_or(0.0, |near| near.median);
    let how = "a random read in 256 KiB, less one in 16 KiB";
    measured.ns("costs.own_line", &less(&far?, near), how);
    Ok(())
}

fn threads(measured: &mut Measurements, layout: &CpuLayout) -> Result<()> {
    match layout.pairs(DISTANCES[0]).first() {
        Some(&pair) => {
            let how = "time of work on one thread of a core while the other thread works, over the \
                       time while it sleeps";
            measured.number("costs.both_threads", "", &private::both_threads(pair)?, how);
        }
        None => measured.is_missing(&["costs.both_threads"], "cores of this host have one thread"),
    }
    Ok(())
}

fn transfers_of_lines(measured: &mut Measurements, layout: &CpuLayout) -> Result<()> {
    let mut moved = Vec::new();
    for distance in layout.distances() {
        let pairs = layout.pairs(distance);
        let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let third = |pair| layout.third(pair, distance);
        for &pair in &pairs {
            let [user, owner] = pair;
            let timed = transfers::time(TransferCpus { user, owner, reader: third(pair) })?;
            for (kind, ns) in timed.uses {
                // The time beyond an atomic on a private line, and that.
                let own = if kind.is_atomic() { measured.median("costs.atomic") } else { 0.0 };
                times.entry(kind.name()).or_default().extend(ns.iter().map(|ns| ns + own));
            }
            moved.extend(timed.moved);
        }
        let which_cpus = match pairs.as_slice() {
            [[a, b]] => format!("CPU {a} from CPU {b}"),
            pairs => format!("{} pairs of CPUs", pairs.len()),
        };
        for kind in TransferKind::ALL {
            let name = format!("transfer.{distance}.{}", kind.name());
            let what = match kind {
                TransferKind::LoadShared
                    if pairs.first().is_none_or(|&pair| third(pair).is_none()) =>
                {
                    "128 lines that the other CPU holds unmodified, one after the other"
                }
                _ => "128 lines one after the other",
            };
            match times.get(kind.name()) {
                Some(ns) => measured.ns(&name, ns, format!("{what}, {which_cpus}")),
                None if pairs.is_empty() => measured.is_missing(&[&name], "needs two CPUs"),
                None => measured
                    .is_missing(&[&name], "user space cannot flush caches on this architecture"),
            }
        }
    }
    let how = "extra time of the writer's next read of a line after another CPU has read it, over a transfer";
    measured.number("costs.read_moves", "", &moved, how);
    if moved.is_empty() {
        measured.is_missing(&["costs.read_moves"], "needs two CPUs");
    }
    Ok(())
}

/// The mean time for which an owner holds a line that another CPU asks for, if this share of the times is longer than an
/// atomic instruction: as the simulator draws it.
fn held(keep: f64, atomic: f64) -> f64 {
    if keep > 0.0 { atomic / (1.0 / keep).ln() } else { 0.0 }
}

fn contention(measured: &mut Measurements, layout: &CpuLayout) -> Result<()> {
    let atomic = measured.median("costs.atomic");
    let how = "two CPUs change a word: changes by one CPU before the line moves";
    let how_busy = format!("{how}, and the time of such a turn");
    let (mut all_keep, mut all_busy, mut all_notice) = (Vec::new(), Vec::new(), Vec::new());
    for distance in layout.distances().into_iter().filter(|distance| *distance != DISTANCES[0]) {
        let Some(&[a, b]) = layout.pairs(distance).first() else { continue };
        let latency = measured.median(&format!("transfer.{distance}.atomic_modified"));
        let storms = contended::storms(&[a, b])?;
        let keep: Vec<f64> = storms.iter().map(Storm::keep).collect();
        let in_flight = |storm: &Storm| (storm.turn_ns - held(storm.keep(), atomic)) / latency;
        let busy: Vec<f64> = storms.iter().map(|storm| in_flight(storm).clamp(0.0, 1.0)).collect();
        measured.number(&format!("transfer.{distance}.keep"), "", &keep, how);
        measured.number(&format!("transfer.{distance}.busy"), "", &busy, &how_busy);
        all_keep.extend(keep);
        all_busy.extend(busy);
        let what =
            format!("half a round trip between CPUs {a} and {b}, by stores and spinning reads");
        let hand_over = contended::hand_over([a, b])?;
        let [store, load, busy] = ["store_shared", "load_modified", "busy"]
            .map(|cost| measured.median(&format!("transfer.{distance}.{cost}")));
        // The reader's request is on its way while the line comes to the writer.
        all_notice.extend(less(&hand_over, store + busy * load));
        measured.beside(what, "ns", &hand_over);
    }
    // Those of the threads of a core, whose transfers are short.
    if all_keep.is_empty() {
        measured.is_missing(&["costs.keep", "costs.busy"], "needs two CPUs");
    } else {
        measured.number("costs.keep", "", &all_keep, format!("{how}, at all distances"));
        measured.number("costs.busy", "", &all_busy, format!("{how_busy}, at all distances"));
        let how = "half a round trip by stores and spinning reads after random times, less `store_shared` and the \
                   flight of `load_modified`";
        measured.ns("costs.notice", &all_notice, how);
    }
    let neighbours = layout.neighbours();
    let doubling = std::iter::successors(Some(2), |count| Some(count * 2));
    for count in doubling.take_while(|count| *count <= neighbours.len()) {
        storm_beside(measured, &neighbours[..count])?;
    }
    match neighbours.len() {
        0..=2 => measured.is_missing(&["costs.busy_shared"], "needs three CPUs on one node"),
        some => {
            let readers = &neighbours[..some.min(9)];
            let ns = contended::between_readers(readers)?;
            let how = format!(
                "{} CPUs wait for one word: time between two that see it",
                readers.len() - 1
            );
            measured.ns("costs.busy_shared", &ns, how);
        }
    }
    Ok(())
}

fn storm_beside(measured: &mut Measurements, cpus: &[u32]) -> Result<()> {
    let storms = contended::storms(cpus)?;
    let values = |pick: fn(&Storm) -> f64| storms.iter().map(pick).collect::<Vec<_>>();
    let count = cpus.len();
    let each = values(|storm| storm.turn_ns / storm.changes);
    measured.beside(format!("between two changes of a word by {count} CPUs"), "ns", &each);
    measured.beside(
        format!("changes of the word before it moves, with {count} CPUs"),
        "",
        &values(|storm| storm.changes),
    );
    Ok(())
}

fn system_calls(measured: &mut Measurements, layout: &CpuLayout) -> Result<()> {
    let cpus = layout.neighbours();
    let how = "a system call of a number that the kernel lacks";
    measured.ns("costs.call", &kernel::no_call(cpus[0])?, how);
    let instructions = kernel::instruction(cpus[0], measured.median("costs.call"))?;
    if !instructions.is_empty() {
        let how = "a byte through a pipe, one through a socket, a mapping made and removed, less the calls: by the instructions \
                   that Linux 6.18 executes for them";
        measured.ns("costs.kernel_instruction", &instructions, how);
    }
    let how = "first reads of pages of zeros";
    measured.ns("costs.fault", &kernel::page_fault(cpus[0], FirstUse::Read)?, how);
    let wakes = kernel::wake_nobody(cpus[0])?;
    measured.ns("costs.wake", &wakes, "futex(2) that wakes no task");
    let wake = measured.median("costs.wake");
    let (switches, yields) = kernel::switch(cpus[0])?;
    let alone = Quartiles::from_values(&yields).map_or(0.0, |yields| yields.median);
    let how = "sched_yield(2) to another task on the CPU, less one without another task";
    measured.ns("costs.switch", &less(&switches, alone), how);
    let slices = kernel::slices(cpus[0])?;
    if slices.is_empty() {
        measured.is_missing(&["costs.slice"], "no time slice ended within 0.4 s");
    } else {
        measured.ns("costs.slice", &slices, "time slices of two tasks that never sleep on one CPU");
    }
    measured.is_missing(
        &["costs.period", "costs.wake_lead"],
        "knee doctor calibrate does not measure it",
    );
    let sleeps = less(&kernel::sleep_and_switch(cpus[0])?, measured.median("costs.switch"));
    let how = "from futex(2) until another task on that CPU runs, less `switch`";
    measured.ns("costs.park", &sleeps, how);
    let &[_, other, ..] = cpus.as_slice() else {
        let why = "needs two CPUs";
        let names = ["wake_each", "wake_latency"].map(|name| format!("costs.{name}"));
        measured.is_missing(&names.each_ref().map(String::as_str), why);
        return interrupts(measured, None);
    };
    let (calls, latencies) = kernel::wake_other([cpus[0], other])?;
    measured.ns(
        "costs.wake_each",
        &less(&calls, wake),
        "futex(2) that wakes a task on an idle CPU, less `wake`",
    );
    let each = measured.median("costs.wake_each");
    let how = "from that call to the first instruction of the woken task, less the call";
    measured.ns("costs.wake_latency", &less(&latencies, wake + each), how);
    measured.beside(
        "a page fault on new memory",
        "ns",
        &kernel::page_fault(cpus[0], FirstUse::Write)?,
    );
    interrupts(measured, Some([cpus[0], other]))
}

fn interrupts(measured: &mut Measurements, cpus: Option<[u32; 2]>) -> Result<()> {
    measured.is_missing(&["costs.interrupt_send"], "user space cannot time it separately");
    let Some((calls, lost)) = cpus.and_then(|cpus| kernel::interrupt(cpus).ok()) else {
        let names = ["costs.interrupt_delivery", "costs.interrupt_entry"];
        measured.is_missing(&names, "needs two CPUs and membarrier(2)");
        return Ok(());
    };
    let how = "time that a membarrier(2) takes from another CPU, which reads its clock in a loop";
    measured.ns("costs.interrupt_entry", &lost, how);
    let rest = measured.median("costs.interrupt_entry");
    let how = "a membarrier(2) that interrupts one CPU, less `interrupt_entry`";
    measured.ns("costs.interrupt_delivery", &less(&calls, rest), how);
    Ok(())
}

/// Subtracts `ns` from each value, at least to zero.
fn less(values: &[f64], ns: f64) -> Vec<f64> {
    values.iter().map(|value| (value - ns).max(0.0)).collect()
}

fn memory(measured: &mut Measurements, cpu: u32) -> Result<()> {
    for shift in (14..=26).step_by(2) {
        let bytes = 1 << shift;
        let what = format!("a random read in {:5} KiB", bytes >> 10);
        measured.beside(what, "ns", &private::memory(cpu, bytes)?);
    }
    Ok(())
}

/// How fast the memory of a node takes what a CPU of each core clears, where that is what bounds them.
fn stream(measured: &mut Measurements, cpus: &[u32]) -> Result<()> {
    /// The share of the CPUs' single rates below which the memory bounds them: what is more is noise.
    const BOUND: f64 = 0.8;
    let median = |ns: &[f64]| Quartiles::from_values(ns).map_or(0.0, |ns| ns.median);
    let (one, all) = (private::cleared_line(&cpus[..1])?, private::cleared_line(cpus)?);
    if median(&one) / cpus.len() as f64 <= BOUND * median(&all) {
        let how = format!("lines that {} CPUs clear at once, 32 MiB each", cpus.len());
        measured.ns("costs.stream", &all, how);
    }
    Ok(())
}

/// `low..median..high`: the quartiles with three digits.
fn range(values: &[f64], unit: &str) -> Option<String> {
    let Quartiles { low, median, high, .. } = Quartiles::from_values(values)?;
    let digits = |value: f64| match value {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    let [low, median, high] = [low, median, high].map(digits);
    let range = if low == high { median } else { format!("{low}..{median}..{high}") };
    Some(format!("{range} {unit}").trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_differ_by_half_are_those_of_two_hosts() {
        let pass = |transfer_ns: f64, atomic_ns: f64| {
            let mut pass = Measurements::default();
            let around = |ns: f64| [0.9 * ns, ns, 1.1 * ns];
            pass.ns("transfer.node.load_modified", &around(transfer_ns), "");
            pass.ns("costs.atomic", &around(atomic_ns), "");
            pass
        };
        assert_eq!(moved(&[pass(28.0, 7.0), pass(40.0, 7.5), pass(35.0, 7.0)]), None);
        assert_eq!(
            moved(&[pass(28.0, 7.0), pass(127.0, 7.0), pass(30.0, 7.0)]).unwrap(),
            "transfer.node.load_modified took 28 ns in one pass and 127 ns in another"
        );
        assert_eq!(
            moved(&[pass(28.0, 7.0), pass(28.0, 12.0)]).unwrap(),
            "costs.atomic took 7 ns in one pass and 12 ns in another"
        );
        // One CPU has no transfers.
        assert_eq!(moved(&[Measurements::default(), Measurements::default()]), None);
    }
}
