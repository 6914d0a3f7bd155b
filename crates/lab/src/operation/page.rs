//! The page of simulated operations: rates over CPUs, what stops them, and what it rests on.

use answers::{OperationCurves, OperationPoint, RateError, SimulatedOperation, StoppingLine};
use pages::{Block, Page, PageKind, PageTable, Section};
use records::operations::Copies;
use reports::{OVER_CPUS, Reaching, value_panel};
use studies::operation_sources;
use text::prose::counted;
use text::quantity::short;
use text::table::{Align, Table};

use crate::simulate::page::this_command;

/// The page of all operations.
pub fn page(curves: &OperationCurves) -> Page {
    let names: Vec<&str> =
        curves.operations.iter().map(|operation| operation.operation.as_str()).collect();
    let title = format!("{} simulated on {}", names.join(", "), curves.host);
    Page {
        answers: curves.operations.iter().flat_map(|one| answer(one, &curves.host)).collect(),
        sections: curves.operations.iter().flat_map(sections).collect(),
        method: method(curves),
        facts: vec![("host".to_string(), curves.host.clone())],
        again: vec![this_command()],
        ..Page::new(&title, PageKind::Simulation)
    }
}

/// Where the curve ends, and what ends it.
fn answer(one: &SimulatedOperation, host: &str) -> Vec<String> {
    let SimulatedOperation { operation, on, points, stops, .. } = one;
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let most = points.iter().max_by(|a, b| a.operations_per_s.total_cmp(&b.operations_per_s));
    let most = most.unwrap_or(last);
    let at = |point: &OperationPoint| format!("{} on {}", rate(point), counted(point.cpus, "CPU"));
    let mut told = vec![at(first)];
    told.extend(
        (most.cpus > first.cpus && most.cpus < last.cpus).then(|| format!("most {}", at(most))),
    );
    told.extend((last.cpus > first.cpus).then(|| at(last)));
    let curve =
        format!("`{operation}` of {on} on {host}, simulated: operations/s {}", told.join(", "));
    let stop = match &stops[..] {
        // Which line stops it is told of recorded accesses only.
        _ if last.cpus == 1 || operation_sources::source(operation).is_some() => None,
        [] => {
            Some(format!("no line that all tasks need stops it at {}", counted(last.cpus, "CPU")))
        }
        [first, others @ ..] => {
            let without = |stop: &StoppingLine| {
                format!("without `{}` it would be {:.1} times as fast", stop.member, stop.faster)
            };
            let next = others.first().map(|stop| format!("; {}", without(stop)));
            let at = counted(last.cpus, "CPU");
            Some(format!("At {at} {}{}", without(first), next.unwrap_or_default()))
        }
    };
    let error = one.model_error.map(|error| with_error(error, last));
    let ceiling = one.waits.as_ref().map(|waits| {
        format!("These rates are a ceiling: {waits}, and how long is not simulated. Where that decides, measured rates are lower")
    });
    [Some(curve), ceiling, stop, error].into_iter().flatten().collect()
}

/// The rate at the most CPUs, as far as the model may be off.
fn with_error(error: RateError, last: &OperationPoint) -> String {
    let RateError { factor, rates, compares } = error;
    let (low, high) =
        (last.operations_per_s_lowest / factor, last.operations_per_s_highest * factor);
    let stops = if compares { "a lockref stops" } else { "a line other than a lockref stops" };
    format!(
        "With the model's error {} to {} operations/s at {}: nine tenths of {} of operations that {stops} lie within the \
         interval of the draws widened by {factor:.1} on both sides",
        short(low),
        short(high),
        counted(last.cpus, "CPU"),
        counted(rates, "published rate"),
    )
}

/// The middle one, and the lowest and highest of all draws.
fn rate(point: &OperationPoint) -> String {
    let OperationPoint {
        operations_per_s, operations_per_s_lowest, operations_per_s_highest, ..
    } = *point;
    if operations_per_s_lowest == operations_per_s_highest {
        return short(operations_per_s);
    }
    let (low, high) = (short(operations_per_s_lowest), short(operations_per_s_highest));
    format!("{} ({low}..{high})", short(operations_per_s))
}

fn sections(one: &SimulatedOperation) -> Vec<Section> {
    let plain = |table| Block::Table(PageTable::plain("", table, pages::reading::SIMULATED));
    let values = one.points.iter().map(reaching).collect();
    let lines = vec![(one.operation.clone(), values)];
    let drawn = value_panel("operations/s, simulated", OVER_CPUS, lines);
    let title = format!("Rates of {}", one.operation);
    let mut all = vec![Section::open(&title, vec![Block::Curves(drawn), plain(rates(one))])];
    let stops = (!one.stops.is_empty()).then(|| {
        Section::open(&format!("What stops {}", one.operation), vec![plain(stopping(one))])
    });
    all.extend(stops);
    all
}

fn reaching(point: &OperationPoint) -> Reaching {
    let range = (point.operations_per_s_lowest, point.operations_per_s_highest);
    (point.cpus as u32, point.operations_per_s, Some(range).filter(|(low, high)| low < high))
}

fn rates(one: &SimulatedOperation) -> Table {
    let mut table = Table::new([
        ("CPUs", Align::Right),
        ("operations/s", Align::Right),
        ("of one CPU's\ntimes CPUs", Align::Right),
    ]);
    let single = one.points.iter().find(|point| point.cpus == 1);
    for point in &one.points {
        let of_ideal = single.map_or("-".to_string(), |single| {
            let ideal = single.operations_per_s * point.cpus as f64;
            format!("{:.0} %", 100.0 * point.operations_per_s / ideal)
        });
        table.row(vec![point.cpus.to_string(), rate(point), of_ideal]);
    }
    table
}

fn stopping(one: &SimulatedOperation) -> Table {
    let mut table = Table::new([
        ("line", Align::Left),
        ("copies", Align::Left),
        ("lock", Align::Left),
        ("without it,\ntimes as fast", Align::Right),
    ]);
    for stop in &one.stops {
        table.row(vec![
            stop.member.clone(),
            copies(stop.copies).to_string(),
            if stop.has_lock { "yes" } else { "" }.to_string(),
            format!("{:.2}", stop.faster),
        ]);
    }
    table
}

pub(super) fn copies(copies: Copies) -> &'static str {
    match copies {
        Copies::One => "one",
        Copies::PerNode => "one a node",
        Copies::PerPair => "one for two tasks",
    }
}

fn method(curves: &OperationCurves) -> Vec<String> {
    let mut method = Vec::new();
    for one in &curves.operations {
        let operations: usize = one.recorded.iter().sum();
        let pace = match one.one_cpu {
            Some(rate) => format!(
                "an instruction takes {:.2} ns, fitted to one CPU's {} operations/s",
                one.instruction_ns,
                short(rate)
            ),
            None => format!(
                "an instruction takes {:.2} ns, by the host's costs.instruction: the rate of one CPU (--rate, --record) would fit it",
                one.instruction_ns
            ),
        };
        method.push(format!(
            "{}: {operations} operations of {} on Linux {} repeated, {:.0} instructions each; {pace}; {} us of simulated time \
             at the most CPUs",
            one.operation,
            counted(one.recorded.len(), "task"),
            one.on,
            one.instructions,
            short(one.length_us)
        ));
        method.extend(one.warnings.iter().map(|warning| format!("{}: {warning}", one.operation)));
    }
    method.push(format!(
        "simulated, not measured: rates use the middle of each of the host's ranges; in brackets the lowest and highest of {} \
         more. Lines of a task's own are always in its cache; waiting for devices and interrupts is left out",
        counted(curves.draws as usize, "draw")
    ));
    method
}
