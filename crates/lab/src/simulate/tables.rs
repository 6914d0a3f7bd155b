//! What was simulated, as tables and sentences: rates over CPUs, where the time goes, and what it rests on.

use std::collections::BTreeSet;

use calibration::native_check::{AGREES, Agreement, Agreements};
use described_hosts::{DescribedHost, Origin};
use engines::simulated::{NS, Noise, Time};
use ledger::{IDLE, WORK};
use studies::simulations::{LockLoad, SimulatedCurve, SimulatedPoint, Variation};
use text::prose::counted;
use text::quantity::{duration_ns, short};
use text::table::{Align, Table};

use super::Simulation;
use super::compared::Comparison;

/// What was simulated, and on which host.
pub fn title(simulation: &Simulation) -> String {
    format!("simulated on {}: {}", simulation.host.name, setting(simulation))
}

/// The load and the noise in words.
pub fn setting(simulation: &Simulation) -> String {
    let Simulation { load, has_locks, noise, .. } = simulation;
    load_text(*load, *has_locks) + &noise.map(noise_text).unwrap_or_default()
}

/// ", each CPU taken for 20 us after 1 ms (both exp)".
fn noise_text(noise: Noise) -> String {
    let text = |time: Time| duration_ns((time / NS) as f64);
    format!(", each CPU taken for {} after {} (both exp)", text(noise.mean), text(noise.interval))
}

/// The curve that the others are compared with.
pub fn baseline(simulation: &Simulation) -> Option<&SimulatedCurve> {
    let name = simulation.baseline.as_ref()?;
    simulation.curves.iter().find(|one| one.name == *name)
}

/// What there is to say of each curve against the baseline, a sentence each; empty without a baseline.
pub fn compared(simulation: &Simulation) -> Vec<String> {
    let Some(baseline) = baseline(simulation) else { return Vec::new() };
    let curve = |name: &str| simulation.curves.iter().find(|curve| curve.name == name);
    let sentences = |one: &Comparison| {
        let by_placement = curve(&one.name).and_then(|curve| by_placement(curve, baseline));
        one.sentences(&baseline.name).into_iter().chain(by_placement)
    };
    simulation.comparisons.iter().flat_map(sentences).collect()
}

/// The load in words, of locks if there is one.
fn load_text(load: LockLoad, has_locks: bool) -> String {
    if has_locks {
        return of_locks(load);
    }
    format!("{} outside ({})", duration_ns(load.work_ns as f64), Variation::Uniform.name())
}

/// "200 ns inside with 2 lines written and 2 read, 1 us outside (exp)".
pub fn of_locks(load: LockLoad) -> String {
    let locks = if load.locks > 1 { format!("{} locks, ", load.locks) } else { String::new() };
    format!(
        "{locks}{} inside with {} written and {} read, {} outside ({})",
        duration_ns(load.hold_ns as f64),
        counted(load.lines_written, "line"),
        load.lines_read,
        duration_ns(load.work_ns as f64),
        load.variation.name()
    )
}

/// Simulated rates beside native ones.
pub fn agreements(all: &[Agreement]) -> Table {
    let mut table = Table::new([
        ("lock", Align::Left),
        ("CPUs", Align::Right),
        ("native\noperations/s", Align::Right),
        ("simulated\noperations/s", Align::Right),
        ("simulated / native\n(quartiles)", Align::Right),
        ("verdict", Align::Left),
    ]);
    for one in all {
        let Agreement { name, cpus, native, simulated, ratio } = one;
        table.row(vec![
            name.clone(),
            cpus.to_string(),
            short(native.median),
            short(*simulated),
            format!("{:.2} ({:.2}..{:.2})", ratio.median, ratio.low, ratio.high),
            if one.agrees() { "agrees" } else { "DIFFERS" }.to_string(),
        ]);
    }
    table
}

/// How many agree, a sentence for each number of CPUs.
pub fn how_many_agree(all: &[Agreement]) -> Vec<String> {
    let (least, most) = (AGREES.start(), AGREES.end());
    let counts: BTreeSet<usize> = all.iter().map(|one| one.cpus).collect();
    let sentence = |cpus: usize| {
        let at_cpus: Vec<_> = all.iter().filter(|one| one.cpus == cpus).collect();
        let agree = at_cpus.iter().filter(|one| one.agrees()).count();
        let cpu_count = counted(cpus, "CPU");
        format!("at {cpu_count}: {agree} of {} within {least} to {most}", at_cpus.len())
    };
    counts.into_iter().map(sentence).collect()
}

/// What a cache line took meanwhile, beside what the host's description says.
pub fn transfer(found: &Agreements, host: &DescribedHost) -> Option<String> {
    let now = found.transfer_ns.as_ref()?;
    let numbers = host.numbers();
    let number = numbers.get("transfer.node.load_modified")?;
    Some(format!(
        "here a cache line took {:.0} ns ({:.0}..{:.0}) from CPU to CPU; the host's description says {}",
        now.median, now.low, now.high, number.text
    ))
}

/// The rates of all curves.
pub fn rates(all: &[SimulatedCurve]) -> Table {
    let all: Vec<&SimulatedCurve> = all.iter().collect();
    let head = |one: &SimulatedCurve| format!("{}\noperations/s", one.name);
    by_cpus(&all, head, |_, point| rate(point))
}

/// The rates of all others as multiples of the baseline's.
pub fn ratios(others: &[&SimulatedCurve], baseline: &SimulatedCurve) -> Table {
    let head = |one: &SimulatedCurve| format!("{}\n/ {}", one.name, baseline.name);
    let ratio = |index: usize, point: &SimulatedPoint| {
        let ratio = point.ratio_to(&baseline.points[index]);
        match point.rates.len() {
            1 => format!("{:.2}", ratio.middle),
            _ => format!("{:.2} ({:.2}..{:.2})", ratio.middle, ratio.low, ratio.high),
        }
    };
    by_cpus(others, head, ratio)
}

/// "cna: the placement decides whether it is faster than mcs at 16 CPUs: 0.80..0.92 compact, 1.10..1.31 scatter".
fn by_placement(one: &SimulatedCurve, baseline: &SimulatedCurve) -> Option<String> {
    let points = one.points.iter().zip(&baseline.points);
    let told = points.filter_map(|(point, base)| {
        let ratios = point.decided_by_placement(base).into_iter();
        let ratios: Vec<String> = ratios
            .map(|(placement, ratio)| format!("{:.2}..{:.2} {placement}", ratio.low, ratio.high))
            .collect();
        let cpus = counted(point.cpus, "CPU");
        (!ratios.is_empty()).then(|| format!("at {cpus}: {}", ratios.join(", ")))
    });
    let told: Vec<String> = told.collect();
    let name = &baseline.name;
    let decides = format!("{}: the placement decides whether it is faster than {name} ", one.name);
    (!told.is_empty()).then(|| decides + &told.join("; "))
}

/// A row for each number of CPUs, and a column for each curve.
fn by_cpus(
    all: &[&SimulatedCurve],
    head: impl Fn(&SimulatedCurve) -> String,
    cell: impl Fn(usize, &SimulatedPoint) -> String,
) -> Table {
    let crowded = all.iter().flat_map(|one| &one.points).any(|point| point.tasks != point.cpus);
    let mut columns = vec![("CPUs".to_string(), Align::Right)];
    columns.extend(crowded.then(|| ("tasks".to_string(), Align::Right)));
    columns.extend(all.iter().map(|one| (head(one), Align::Right)));
    let mut table = Table::new(columns);
    for (index, point) in all[0].points.iter().enumerate() {
        let mut cells = vec![point.cpus.to_string()];
        cells.extend(crowded.then(|| point.tasks.to_string()));
        cells.extend(all.iter().map(|one| cell(index, &one.points[index])));
        table.row(cells);
    }
    table
}

/// The middle one, and the lowest and highest of all draws.
fn rate(point: &SimulatedPoint) -> String {
    let (low, high) = point.range();
    match point.rates.len() {
        1 => short(point.middle.rate()),
        _ => format!("{} ({}..{})", short(point.middle.rate()), short(low), short(high)),
    }
}

/// Where the time of an operation goes, at the most CPUs; nothing where that is unknown.
pub fn ledger_table(all: &[SimulatedCurve]) -> Option<Table> {
    let last: Vec<_> = all.iter().filter_map(|one| Some((one, one.points.last()?))).collect();
    let told: Vec<_> = last
        .iter()
        .filter_map(|(one, point)| Some((one.name.as_str(), point.ns_per_operation()?)))
        .collect();
    let (_, first) = told.first()?;
    let cpus = last[0].1.cpus;
    let heading = format!("CPU time per operation\nat {}, ns", counted(cpus, "CPU"));
    let names = told.iter().map(|(name, _)| ((*name).to_string(), Align::Right));
    let mut table = Table::new([(heading, Align::Left)].into_iter().chain(names));
    let ns = |ns: f64| format!("{ns:.1}");
    let all_of = |rows: &[(&str, f64)]| ns(rows.iter().map(|(_, ns)| ns).sum());
    let cells = told.iter().map(|(_, rows)| all_of(rows));
    table.row([format!("all: {} x time", counted(cpus, "CPU"))].into_iter().chain(cells).collect());
    let is_idle = |row: &&(&str, f64)| row.0 == IDLE;
    let of_work =
        |rows: &[(&str, f64)]| ns(rows.iter().filter(|row| !is_idle(row)).map(|(_, ns)| ns).sum());
    let cells = told.iter().map(|(_, rows)| of_work(rows));
    table.row([format!("  {WORK}")].into_iter().chain(cells).collect());
    for (index, row) in first.iter().enumerate() {
        let cells: Vec<f64> = told.iter().map(|(_, rows)| rows[index].1).collect();
        if cells.iter().any(|ns| *ns > 0.0) {
            let name =
                if is_idle(&row) { format!("  {}", row.0) } else { format!("    {}", row.0) };
            table.row([name].into_iter().chain(cells.into_iter().map(ns)).collect());
        }
    }
    Some(table)
}

/// Other effects of mechanisms per operation, at the most CPUs: a table for each mechanism.
pub fn effects(all: &[SimulatedCurve]) -> Vec<Table> {
    let last = all.iter().filter_map(|one| Some((one, one.points.last()?)));
    let last = last.filter(|(_, point)| !point.effects.is_empty());
    // Designs of one mechanism have the same effects.
    let mechanism = |one: &SimulatedCurve| one.name.split(':').next().map(str::to_string);
    let table = |some: &[(&SimulatedCurve, &SimulatedPoint)]| {
        let columns = some.iter().map(|(one, _)| (one.name.replace(':', "\n"), Align::Right));
        let heading = [("per operation".to_string(), Align::Left)];
        let mut table = Table::new(heading.into_iter().chain(columns));
        for (index, (effect, _)) in some[0].1.effects.iter().enumerate() {
            let cells = some.iter().map(|(_, point)| format!("{:.3}", point.effects[index].1));
            table.row([effect.replace('_', " ")].into_iter().chain(cells).collect());
        }
        table
    };
    let last: Vec<_> = last.collect();
    last.chunk_by(|a, b| mechanism(a.0) == mechanism(b.0)).map(table).collect()
}

/// The origin of the host's numbers.
pub fn basis(simulation: &Simulation) -> String {
    let Simulation { curves, host, .. } = simulation;
    let draws = curves.iter().flat_map(|one| &one.points).map(|point| point.rates.len() - 1);
    let draws = draws.max().unwrap_or(0);
    let numbers =
        |is: fn(&Origin) -> bool| host.numbers().values().filter(|n| is(&n.origin)).count();
    let found = numbers(|origin| matches!(origin, Origin::Found(_)));
    let measured = numbers(|origin| matches!(origin, Origin::Measured(..)));
    let assumed = numbers(|origin| matches!(origin, Origin::Assumed(_)));
    let draws = match draws {
        0 => String::new(),
        draws => format!("; in brackets the lowest and highest of {} more", counted(draws, "draw")),
    };
    format!(
        "simulated, not measured: {found} of the host's numbers were found in publications, {measured} measured, {assumed} \
         assumed as ranges. Rates use the middle of every range{draws}. Absolute rates are not predicted: \
         compare algorithms by ratios and shapes"
    )
}
