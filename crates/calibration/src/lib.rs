//! What this host takes for what the simulator prices, timed from user space on pinned threads of
//! this process: each number the median of repeats, with its quartiles.

mod barriers;
mod contended;
mod distances;
mod file;
mod kernel;
pub mod native_check;
mod private;
mod transfers;

use std::collections::BTreeMap;

pub use crate::distances::Layout;
pub use crate::file::{Occasion, file};
use analysis::Quartiles;
use anyhow::{Context, Result};

use crate::contended::Storm;
use crate::transfers::{Kind, Parties};
use studies::hosts::DISTANCES;

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// By their names in the file of a host.
    numbers: BTreeMap<String, Number>,
    /// Why a number could not be measured.
    missing: BTreeMap<String, &'static str>,
    /// What no number of a host is for, by what it is.
    beside: BTreeMap<String, Number>,
}

/// One number, as often as it was measured.
#[derive(Clone, Debug, Default)]
struct Number {
    values: Vec<f64>,
    /// ns, or none for a share.
    unit: &'static str,
    how: String,
}

impl Measured {
    fn ns(&mut self, name: &str, values: &[f64], how: impl Into<String>) {
        self.number(name, "ns", values, how);
    }

    fn number(&mut self, name: &str, unit: &'static str, values: &[f64], how: impl Into<String>) {
        let number = Number { values: values.to_vec(), unit, how: how.into() };
        self.numbers.insert(name.to_string(), number);
    }

    fn beside(&mut self, what: impl Into<String>, unit: &'static str, values: &[f64]) {
        let number = Number { values: values.to_vec(), unit, how: String::new() };
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

    /// The same, measured again.
    fn add(&mut self, again: Measured) {
        let both = [(&mut self.numbers, again.numbers), (&mut self.beside, again.beside)];
        for (numbers, again) in both {
            for (name, number) in again {
                let known = numbers.entry(name).or_default();
                known.values.extend(number.values);
                (known.unit, known.how) = (number.unit, number.how);
            }
        }
        self.missing.extend(again.missing);
    }
}

/// What a line takes now that the owner has modified and the user reads, in ns.
pub fn transfer(user: u32, owner: u32) -> Result<Vec<f64>> {
    let mut times = transfers::time(Parties { user, owner, reader: None })?;
    Ok(times.uses.swap_remove(0).1)
}

/// All is measured so often, one after the other: a host that moves virtual CPUs from core to core
/// is another one after some seconds.
const PASSES: usize = 8;

/// Measures, and says what it is at.
pub fn measure(layout: &Layout, say: &dyn Fn(&str)) -> Result<Measured> {
    let mut measured = Measured::default();
    for pass in 1..=PASSES {
        say(&format!("pass {pass} of {PASSES}"));
        measured.add(measured_once(layout)?);
    }
    memory(&mut measured, layout.neighbours()[0]).context("timing memory")?;
    Ok(measured)
}

fn measured_once(layout: &Layout) -> Result<Measured> {
    let mut measured = Measured::default();
    own(&mut measured, layout.neighbours()[0]).context("timing lines of its own")?;
    threads(&mut measured, layout).context("timing threads of a core")?;
    distant(&mut measured, layout).context("timing lines of others")?;
    wanted(&mut measured, layout).context("timing lines that several want")?;
    in_the_kernel(&mut measured, layout).context("timing system calls")?;
    Ok(measured)
}

fn own(measured: &mut Measured, cpu: u32) -> Result<()> {
    let private::Own { load, store, atomic, pause } = private::own(cpu)?;
    measured.ns("costs.load", &load, "loads of its own lines, each where the last one said");
    measured.ns("costs.store", &store, "stores to a line of its own");
    measured.ns("costs.atomic", &atomic, "fetch-and-add of a word of its own");
    measured.ns("costs.pause", &pause, "turns of a loop that only pauses");
    Ok(())
}

fn threads(measured: &mut Measured, layout: &Layout) -> Result<()> {
    match layout.pairs(DISTANCES[0]).first() {
        Some(&pair) => {
            let how = "work on one thread of a core, while the other works and while it sleeps";
            measured.number("costs.both_threads", "", &private::both_threads(pair)?, how);
        }
        None => measured.is_missing(&["costs.both_threads"], "cores have one thread here"),
    }
    Ok(())
}

fn distant(measured: &mut Measured, layout: &Layout) -> Result<()> {
    let mut moved = Vec::new();
    for distance in layout.distances() {
        let pairs = layout.pairs(distance);
        let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let third = |pair| layout.third(pair, distance);
        for &pair in &pairs {
            let [user, owner] = pair;
            let timed = transfers::time(Parties { user, owner, reader: third(pair) })?;
            for (kind, ns) in timed.uses {
                // What is on top of an atomic of a line of its own, and that.
                let own = if kind.is_atomic() { measured.median("costs.atomic") } else { 0.0 };
                times.entry(kind.name()).or_default().extend(ns.iter().map(|ns| ns + own));
            }
            moved.extend(timed.moved);
        }
        let of = match pairs.as_slice() {
            [[a, b]] => format!("CPU {a} from CPU {b}"),
            pairs => format!("{} pairs of CPUs", pairs.len()),
        };
        for kind in Kind::ALL {
            let name = format!("transfer.{distance}.{}", kind.name());
            let what = match kind {
                Kind::LoadShared if pairs.first().is_none_or(|&pair| third(pair).is_none()) => {
                    "128 lines that the other has unchanged, one after the other"
                }
                _ => "128 lines one after the other",
            };
            match times.get(kind.name()) {
                Some(ns) => measured.ns(&name, ns, format!("{what}, {of}")),
                None if pairs.is_empty() => measured.is_missing(&[&name], "this is one CPU"),
                None => measured.is_missing(&[&name], "caches cannot be emptied here"),
            }
        }
    }
    let how = "what reading a line again takes who wrote it, once another CPU has read it";
    measured.number("costs.read_moves", "", &moved, how);
    if moved.is_empty() {
        measured.is_missing(&["costs.read_moves"], "this is one CPU");
    }
    Ok(())
}

fn wanted(measured: &mut Measured, layout: &Layout) -> Result<()> {
    let atomic = measured.median("costs.atomic");
    let (mut holds, mut busy) = (Vec::new(), Vec::new());
    for distance in layout.distances().into_iter().filter(|distance| *distance != DISTANCES[0]) {
        let Some(&[a, b]) = layout.pairs(distance).first() else { continue };
        let latency = measured.median(&format!("transfer.{distance}.atomic_modified"));
        for storm in contended::storms(&[a, b])? {
            // The first change of a turn is the transfer's.
            let hold = (storm.changes - 1.0) * atomic;
            holds.push(hold);
            busy.push(((storm.turn_ns - hold) / latency).clamp(0.0, 1.0));
        }
        let what = format!(
            "from a store on CPU {a} until CPU {b}, which waits for it, has answered, half"
        );
        measured.beside(what, "ns", &contended::hand_over([a, b])?);
    }
    let how = "two CPUs change one word: how often each does before the other";
    match holds.is_empty() {
        true => measured.is_missing(&["costs.hold", "costs.busy"], "this is one CPU"),
        false => {
            measured.ns("costs.hold", &holds, how);
            measured.number("costs.busy", "", &busy, format!("{how}, and how long turns take"));
        }
    }
    let neighbours = layout.neighbours();
    let doubling = std::iter::successors(Some(2), |count| Some(count * 2));
    for count in doubling.take_while(|count| *count <= neighbours.len()) {
        storm_beside(measured, &neighbours[..count])?;
    }
    match neighbours.len() {
        0..=2 => measured.is_missing(&["costs.busy_shared"], "it takes three CPUs"),
        some => {
            let readers = &neighbours[..some.min(9)];
            let ns = contended::between_readers(readers)?;
            let how =
                format!("{} CPUs wait for one word: between two that see it", readers.len() - 1);
            measured.ns("costs.busy_shared", &ns, how);
        }
    }
    Ok(())
}

fn storm_beside(measured: &mut Measured, cpus: &[u32]) -> Result<()> {
    let storms = contended::storms(cpus)?;
    let of = |pick: fn(&Storm) -> f64| storms.iter().map(pick).collect::<Vec<_>>();
    let count = cpus.len();
    let each = of(|storm| storm.turn_ns / storm.changes);
    measured.beside(format!("from change to change of a word by {count} CPUs"), "ns", &each);
    measured.beside(
        format!("changes of it that a CPU makes in its turn, of {count}"),
        "",
        &of(|storm| storm.changes),
    );
    Ok(())
}

fn in_the_kernel(measured: &mut Measured, layout: &Layout) -> Result<()> {
    let cpus = layout.neighbours();
    let nobody = kernel::wake_nobody(cpus[0])?;
    measured.ns("costs.wake", &nobody, "futex(2) that wakes nobody");
    let wake = measured.median("costs.wake");
    let (switches, yields) = kernel::switch(cpus[0])?;
    let alone = Quartiles::from_values(&yields).map_or(0.0, |yields| yields.median);
    let less =
        |values: &[f64], ns: f64| values.iter().map(|v| (v - ns).max(0.0)).collect::<Vec<_>>();
    let how = "sched_yield(2) to another task of the CPU, less one to nobody";
    measured.ns("costs.switch", &less(&switches, alone), how);
    let slices = kernel::slices(cpus[0])?;
    match slices.is_empty() {
        true => measured.is_missing(&["costs.slice"], "no slice ended within 0.4 s"),
        false => measured.ns("costs.slice", &slices, "two tasks that never sleep on one CPU"),
    }
    measured.is_missing(&["costs.period", "costs.wake_lead"], "it is not timed");
    let sleeps = less(&kernel::sleep_and_switch(cpus[0])?, measured.median("costs.switch"));
    let how = "from futex(2) until another task of that CPU runs, less `switch`";
    measured.ns("costs.park", &sleeps, how);
    let &[_, other, ..] = cpus.as_slice() else {
        let why = "this is one CPU";
        let names = ["wake_each", "wake_latency"].map(|name| format!("costs.{name}"));
        measured.is_missing(&names.each_ref().map(String::as_str), why);
        return interrupts(measured, None);
    };
    let (calls, latencies) = kernel::wake_other([cpus[0], other])?;
    measured.ns(
        "costs.wake_each",
        &less(&calls, wake),
        "futex(2) that wakes one on an idle CPU, less `wake`",
    );
    let each = measured.median("costs.wake_each");
    let how = "from that call to the first instruction of who was woken, less the call";
    measured.ns("costs.wake_latency", &less(&latencies, wake + each), how);
    measured.beside("a page fault of new memory", "ns", &kernel::page_fault(cpus[0])?);
    interrupts(measured, Some([cpus[0], other]))
}

fn interrupts(measured: &mut Measured, cpus: Option<[u32; 2]>) -> Result<()> {
    measured.is_missing(&["costs.interrupt_send"], "user space cannot time it alone");
    let Some((calls, lost)) = cpus.and_then(|cpus| kernel::interrupt(cpus).ok()) else {
        let names = ["costs.interrupt_delivery", "costs.interrupt_entry"];
        measured.is_missing(&names, "it takes two CPUs, and membarrier(2)");
        return Ok(());
    };
    let how = "what the other CPU, which looks at its clock, loses to a membarrier(2)";
    measured.ns("costs.interrupt_entry", &lost, how);
    let rest = measured.median("costs.interrupt_entry");
    let how = "a membarrier(2) that interrupts one CPU, less `interrupt_entry`";
    measured.ns("costs.interrupt_delivery", &less(&calls, rest), how);
    Ok(())
}

/// What is more than that.
fn less(values: &[f64], ns: f64) -> Vec<f64> {
    values.iter().map(|value| (value - ns).max(0.0)).collect()
}

fn memory(measured: &mut Measured, cpu: u32) -> Result<()> {
    for shift in (14..=26).step_by(2) {
        let bytes = 1 << shift;
        let what = format!("a read anywhere in {:5} KiB", bytes >> 10);
        measured.beside(what, "ns", &private::memory(cpu, bytes)?);
    }
    Ok(())
}

/// Quartiles and the median between them, with three digits.
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
