//! Writes the file of the measured host, in the format of `hosts/*.toml`.

use std::fmt::Write;

use described_hosts::{BY_DISTANCE, COSTS, DescribedHost, TRANSFERS};

use crate::distances::CpuLayout;
use crate::{Measurements, range};
use studies::simulations::keep::KeepFit;

/// The host and time of the measurements.
#[derive(Debug)]
pub struct Provenance {
    /// The host's name.
    pub host: String,
    /// The CPU model.
    pub model: String,
    /// The day.
    pub date: String,
    /// The day and the minute.
    pub time: String,
    pub seconds: f64,
}

/// The text of a host's file. Numbers that could not be measured are those of the `other` host.
pub fn file(
    measured: &Measurements,
    layout: &CpuLayout,
    occasion: &Provenance,
    other: &DescribedHost,
) -> String {
    let mut text = String::new();
    let Provenance { host, model, time, seconds, .. } = occasion;
    let version = env!("CARGO_PKG_VERSION");
    text += &format!(
        "# Measurements by knee doctor calibrate {version} on {host}, {time}, in {seconds:.0} s.\n"
    );
    text += "# Measured numbers are lower quartile..median..upper quartile of the repeats.\n";
    if let Some(what) = &measured.moved {
        text += &format!(
            "# The host changed each time that it was measured: {what}.\n\
             # Ranges are those of all passes of the last time; simulations of one moment need a host that is quiet.\n"
        );
    }
    text += "#\n";
    text += "# Also measured, not used by the simulator:\n";
    for (what, number) in &measured.beside {
        if let Some(range) = range(&number.values, number.unit) {
            text += &format!("# - {what}: {range}\n");
        }
    }
    if !measured.fits.is_empty() {
        text += "#\n# Fits of keep and busy, time from one addition of a task to its next:\n";
    }
    for line in measured.fits.iter().flat_map(KeepFit::lines) {
        text += &format!("# {line}\n");
    }
    let CpuLayout { nodes, cores, threads, .. } = layout;
    let cpus = layout.described();
    let about = format!("{host}: {model}, {cpus} CPUs ({nodes} × {cores} × {threads}).");
    text += &format!("about = {about:?}\n");
    text += &format!("nodes = {nodes}\ncores = {cores}\nthreads = {threads}\n");
    if *nodes > 1 {
        let rows = layout.hops.iter().map(|row| format!("    {row:?},\n"));
        text += &format!("hops = [\n{}]\n", rows.collect::<String>());
    }
    text += "\n[sources]\n";
    for distance in layout.distances() {
        let name = format!("transfer.{distance}");
        let has = |cost: &&str| measured.numbers.contains_key(&format!("{name}.{cost}"));
        let keys = TRANSFERS.into_iter().chain(BY_DISTANCE.into_iter().filter(has));
        table(&mut text, &name, &keys.collect::<Vec<_>>(), measured, occasion, other);
    }
    let pace = ["instruction", "call", "fault", "own_line", "copied_line"];
    let has = |cost: &&str| measured.numbers.contains_key(&format!("costs.{cost}"));
    let where_measured = ["notice", "kernel_instruction", "stream"].into_iter().filter(has);
    let costs: Vec<&str> = COSTS.into_iter().chain(where_measured).chain(pace).collect();
    table(&mut text, "costs", &costs, measured, occasion, other);
    text
}

fn table(
    text: &mut String,
    name: &str,
    keys: &[&str],
    measured: &Measurements,
    occasion: &Provenance,
    other: &DescribedHost,
) {
    let _ = writeln!(text, "\n[{name}]");
    for key in keys {
        let path = format!("{name}.{key}");
        let number = measured.numbers.get(&path);
        let ranged =
            number.and_then(|number| Some((range(&number.values, number.unit)?, &number.how)));
        let line = match ranged {
            Some((range, how)) => format!(
                "measured = {range:?}, at = \"{}, {}\", how = {how:?}",
                occasion.host, occasion.date,
            ),
            None => {
                let why = measured.missing.get(&path).copied().unwrap_or("it was not measured");
                // Another host may have fewer nodes: then its longest distance.
                let numbers = other.numbers();
                let substitute =
                    numbers.get(&path).or_else(|| numbers.get(&format!("transfer.hop1.{key}")));
                let text = substitute.map_or("0", |number| number.text.as_str());
                format!("assumed = {text:?}, why = \"{why}; taken from {}\"", other.name)
            }
        };
        let _ = writeln!(text, "{key} = {{ {line} }}");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use host::{Cpu, Topology};

    use super::*;
    use crate::measured_once;
    use described_hosts::Draw;
    use described_hosts::Origin;

    fn layout(nodes: u32, cores: u32, first: u32) -> CpuLayout {
        let cpu = |i: u32| {
            let (cpu, node) = (first + i, i / cores);
            Cpu { cpu, core: cpu, llc: node, node, package: node }
        };
        let topology = Topology { cpus: (0..nodes * cores).map(cpu).collect() };
        CpuLayout::from_topology(&topology, Path::new("/nonexistent"))
    }

    fn text(measured: &Measurements, layout: &CpuLayout) -> String {
        let occasion = Provenance {
            host: "vm".to_string(),
            model: "AMD \"EPYC\"".to_string(),
            date: "2026-11-21".to_string(),
            time: "2026-11-21 00:00 UTC+00:00".to_string(),
            seconds: 3.0,
        };
        file(measured, layout, &occasion, &described_hosts::find("generic-2s").unwrap())
    }

    #[test]
    fn measured_numbers_are_read_back_and_missing_ones_are_assumed_with_a_reason() {
        let mut measured = Measurements::default();
        measured.ns("costs.atomic", &[4.0, 5.0, 7.0], "fetch-and-add of \"a word\"");
        measured.number("costs.busy", "", &[0.5], "a share");
        measured.is_missing(&["costs.keep"], "needs two CPUs");
        measured.number("transfer.hop1.keep", "", &[0.5], "two CPUs change one word");
        let host = described_hosts::parse("mine", &text(&measured, &layout(4, 2, 0))).unwrap();
        assert_eq!(host.cpus(), 8);
        let number = |name: &str| host.numbers()[name].clone();
        let atomic = number("costs.atomic");
        assert_eq!((atomic.low, atomic.middle, atomic.high), (4500.0, 5000.0, 6000.0));
        let how = "fetch-and-add of \"a word\"".to_string();
        assert_eq!(atomic.origin, Origin::Measured("vm, 2026-11-21".to_string(), how));
        assert_eq!(number("costs.busy").middle, 0.5);
        let why = "needs two CPUs; taken from generic-2s".to_string();
        assert_eq!(number("costs.keep").origin, Origin::Assumed(why));
        let host = host.host(Draw::Middle);
        assert_eq!(host.contradiction(), None);
        let keep: Vec<u32> =
            host.transfers.iter().map(|transfer| transfer.keep_per_mille).collect();
        assert_eq!(keep[1..], [400, 500]);
    }

    #[test]
    fn one_cpu_of_this_host_can_be_measured_and_simulated() {
        let allowed = host::affinity::get().unwrap();
        let layout = layout(1, 1, allowed[0]);
        let measured = measured_once(&layout).unwrap();
        let host = described_hosts::parse("mine", &text(&measured, &layout)).unwrap();
        let is_measured = |name: &str| matches!(host.numbers()[name].origin, Origin::Measured(..));
        for name in ["costs.load", "costs.atomic", "costs.pause", "costs.wake", "costs.switch"] {
            assert!(is_measured(name), "{name}");
        }
        for name in ["transfer.node.load_modified", "costs.keep", "costs.wake_latency"] {
            assert!(!is_measured(name), "{name}");
        }
    }
}
