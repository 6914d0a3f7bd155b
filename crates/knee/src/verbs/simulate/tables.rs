//! What was simulated, as text: rates over CPUs, where the time goes, and what it rests on.

use std::collections::BTreeSet;

use analysis::ledger::{IDLE, WORK};
use calibration::native_check::{AGREES, Agreement, Agreements};
use studies::hosts::{DescribedHost, Origin};
use studies::simulations::{LockLoad, SimulatedCurve, SimulatedPoint};

use reports::Style;
use reports::plot::{Plot, SYMBOLS, Series, plot};
use reports::prose::{counted, wrapped};
use reports::quantity::{duration_ns, short};
use reports::table::{Align, Table};

/// Algorithms on a host.
pub fn simulated(
    all: &[SimulatedCurve],
    host: &DescribedHost,
    load: LockLoad,
    draws: u64,
    style: Style,
) -> String {
    let mut text = style.bold(&format!(
        "simulated on {}: {} inside, {} outside",
        host.name,
        duration_ns(load.hold_ns as f64),
        duration_ns(load.work_ns as f64)
    ));
    text += "\n";
    text += &rates(all, style);
    text += "\n";
    text += &curves(all, style);
    text += "\n";
    text += &ledgers(all, style);
    text += "\n";
    text += &effects(all, style);
    text + &wrapped(&basis(host, draws), style.width, 2)
}

/// Simulated rates beside native ones.
pub fn agreements(
    found: &Agreements,
    host: &DescribedHost,
    load: LockLoad,
    style: Style,
) -> String {
    let mut text = style.bold(&format!(
        "simulated on {} and native on this host: {} inside, {} outside",
        host.name,
        duration_ns(load.hold_ns as f64),
        duration_ns(load.work_ns as f64)
    ));
    text += "\n";
    let head = [
        ("lock", Align::Left),
        ("CPUs", Align::Right),
        ("native\noperations/s", Align::Right),
        ("simulated\noperations/s", Align::Right),
        ("simulated / native\n(quartiles)", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(head.map(|(name, align)| (name.to_string(), align)));
    let all = &found.all;
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
    text += &within(&table, style);
    let (least, most) = (AGREES.start(), AGREES.end());
    let counts: BTreeSet<usize> = all.iter().map(|one| one.cpus).collect();
    for cpus in counts {
        let at_cpus: Vec<_> = all.iter().filter(|one| one.cpus == cpus).collect();
        let agree = at_cpus.iter().filter(|one| one.agrees()).count();
        let cpu_count = counted(cpus, "CPU");
        text += &format!("at {cpu_count}: {agree} of {} within {least} to {most}\n", at_cpus.len());
    }
    if let (Some(now), Some(number)) =
        (&found.transfer_ns, host.numbers().get("transfer.node.load_modified"))
    {
        text += &format!(
            "here a cache line took {:.0} ns ({:.0}..{:.0}) from CPU to CPU; the host's description says {}\n",
            now.median, now.low, now.high, number.text
        );
    }
    text
}

/// As many side by side as fit a line.
const ABREAST: usize = 4;

fn rates(all: &[SimulatedCurve], style: Style) -> String {
    let crowded = all.iter().flat_map(|one| &one.points).any(|point| point.tasks != point.cpus);
    let some = |some: &[SimulatedCurve]| {
        let mut columns = vec![("CPUs".to_string(), Align::Right)];
        columns.extend(crowded.then(|| ("tasks".to_string(), Align::Right)));
        columns
            .extend(some.iter().map(|one| (format!("{}\noperations/s", one.name), Align::Right)));
        let mut table = Table::new(columns);
        for index in 0..some[0].points.len() {
            let (cpus, tasks) = (some[0].points[index].cpus, some[0].points[index].tasks);
            let mut cells = vec![cpus.to_string()];
            cells.extend(crowded.then(|| tasks.to_string()));
            cells.extend(some.iter().map(|one| rate(&one.points[index])));
            table.row(cells);
        }
        within(&table, style)
    };
    all.chunks(ABREAST).map(some).collect::<Vec<_>>().join("\n")
}

/// The middle one, and the lowest and highest of all draws.
fn rate(point: &SimulatedPoint) -> String {
    let (low, high) = point.range();
    match point.rates.len() {
        1 => short(point.middle.rate()),
        _ => format!("{} ({}..{})", short(point.middle.rate()), short(low), short(high)),
    }
}

fn within(table: &Table, style: Style) -> String {
    let (text, lost) = table.within(style.width);
    if lost.is_empty() {
        text
    } else {
        format!("{text}(columns that do not fit: {})\n", lost.join(", "))
    }
}

fn curves(all: &[SimulatedCurve], style: Style) -> String {
    let series = |one: &SimulatedCurve| Series {
        name: one.name.clone(),
        points: one.points.iter().map(|p| (p.cpus as u32, p.middle.rate())).collect(),
        idle: Vec::new(),
    };
    all.chunks(SYMBOLS)
        .map(|some| {
            plot(
                &Plot {
                    title: "operations/s, simulated".to_string(),
                    series: some.iter().map(series).collect(),
                    ideal: None,
                },
                style,
            )
        })
        .collect()
}

/// Where the time of an operation goes, at the most CPUs.
fn ledgers(all: &[SimulatedCurve], style: Style) -> String {
    let last: Vec<_> = all.iter().filter_map(|one| Some((one, one.points.last()?))).collect();
    let told: Vec<_> = last
        .iter()
        .filter_map(|(one, point)| Some((one.name.as_str(), point.ns_per_operation()?)))
        .collect();
    let Some((_, first)) = told.first() else {
        return "no operation finished in the simulated time: try a longer --length\n".to_string();
    };
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
    within(&table, style)
}

/// Other effects of mechanisms per operation, at the most CPUs.
fn effects(all: &[SimulatedCurve], style: Style) -> String {
    let last = all.iter().filter_map(|one| Some((one, one.points.last()?)));
    let last = last.filter(|(_, point)| !point.effects.is_empty());
    let mut text = String::new();
    // Designs of one mechanism have the same effects.
    let mechanism = |one: &SimulatedCurve| one.name.split(':').next().map(str::to_string);
    for some in last.collect::<Vec<_>>().chunk_by(|a, b| mechanism(a.0) == mechanism(b.0)) {
        let columns = some.iter().map(|(one, _)| (one.name.replace(':', "\n"), Align::Right));
        let heading = [("per operation".to_string(), Align::Left)];
        let mut table = Table::new(heading.into_iter().chain(columns));
        for (index, (effect, _)) in some[0].1.effects.iter().enumerate() {
            let cells = some.iter().map(|(_, point)| format!("{:.3}", point.effects[index].1));
            table.row([effect.replace('_', " ")].into_iter().chain(cells).collect());
        }
        text += &within(&table, style);
        text += "\n";
    }
    text
}

/// The origin of the host's numbers.
fn basis(host: &DescribedHost, draws: u64) -> String {
    let numbers =
        |is: fn(&Origin) -> bool| host.numbers().values().filter(|n| is(&n.origin)).count();
    let found = numbers(|origin| matches!(origin, Origin::Found(_)));
    let measured = numbers(|origin| matches!(origin, Origin::Measured(..)));
    let assumed = numbers(|origin| matches!(origin, Origin::Assumed(_)));
    let draws = match draws {
        0 => String::new(),
        draws => format!(
            "; in brackets the lowest and highest of {} more",
            counted(draws as usize, "draw")
        ),
    };
    format!(
        "simulated, not measured: {found} of the host's numbers were found in publications, {measured} measured, {assumed} \
         assumed as ranges. Rates use the middle of every range{draws}. Compare algorithms by \
         ratios and shapes, not by operations/s"
    )
}
