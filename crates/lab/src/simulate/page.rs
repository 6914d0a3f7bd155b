//! The page of a simulation: rates over CPUs, where the time goes, and what it rests on.

use calibration::native_check::Agreements;
use described_hosts::DescribedHost;
use pages::{Block, Page, PageKind, PageTable, Section};
use reports::{OVER_CPUS, Reaching, quoted, value_panel};
use studies::simulations::{LockLoad, SimulatedCurve, SimulatedPoint};
use text::prose::counted;
use text::quantity::short;

use super::compared::fastest;
use super::{Simulation, tables};

/// The command with these arguments.
pub fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("knee simulate {}", words.join(" "))
}

/// The command that is running.
pub fn this_command() -> String {
    host::command_line().iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The page of a simulation, which this command makes again.
pub fn page(simulation: &Simulation, again: String) -> Page {
    let host = &simulation.host.name;
    let title = format!("{}, on {host}", tables::setting(simulation));
    Page {
        answers: answers(simulation),
        sections: sections(simulation),
        method: vec![tables::basis(simulation)],
        facts: vec![("host".to_string(), host.clone())],
        again: vec![again],
        ..Page::new(&title, PageKind::Simulation)
    }
}

/// The page of native runs beside their simulation.
pub fn agreements(found: &Agreements, host: &DescribedHost, load: LockLoad, again: String) -> Page {
    let table = PageTable::plain("", tables::agreements(&found.all), &[]);
    let title = format!("{} and this host: {}", host.name, tables::of_locks(load));
    Page {
        answers: tables::how_many_agree(&found.all),
        sections: vec![Section::open("Native and simulated", vec![Block::Table(table)])],
        method: tables::transfer(found, host).into_iter().collect(),
        again: vec![again],
        ..Page::new(&title, PageKind::Simulation)
    }
}

/// Which is fastest with most CPUs, if that can be told; against a baseline, where each is faster or slower.
fn answers(simulation: &Simulation) -> Vec<String> {
    let compared = tables::compared(simulation);
    if !compared.is_empty() {
        return compared;
    }
    let fastest = fastest(&simulation.curves, &simulation.subjects, &simulation.load);
    let Some((one, point)) = fastest.first() else { return Vec::new() };
    let (cpus, rate) = (counted(point.cpus, "CPU"), short(point.middle.rate()));
    let others: Vec<String> =
        fastest[1..].iter().map(|(other, _)| format!("`{}`", other.name)).collect();
    let sentence = match (&others[..], simulation.curves.len()) {
        (_, 1) => format!(
            "`{}` at {cpus}: {rate} operations/s simulated; absolute rates are not predicted",
            one.name
        ),
        ([], _) => {
            format!("`{}` has the highest simulated rate at {cpus}: {rate} operations/s", one.name)
        }
        (others, _) => format!(
            "cannot tell which is fastest at {cpus}: `{}` has the highest simulated rate, {rate} operations/s, but with the \
             host's ranges and the model's error it may be {} (--baseline {} says how far apart they are)",
            one.name,
            others.join(", "),
            one.name
        ),
    };
    vec![sentence]
}

fn sections(simulation: &Simulation) -> Vec<Section> {
    let reading = pages::reading::SIMULATED;
    let plain = |table| Block::Table(PageTable::plain("", table, reading));
    let Simulation { curves, .. } = simulation;
    let lines = curves.iter().map(|one| (one.name.clone(), values(one))).collect();
    let drawn = value_panel("operations/s, simulated", OVER_CPUS, lines);
    let rates = plain(tables::rates(curves));
    let mut sections = vec![Section::open("Rates", vec![Block::Curves(drawn), rates])];
    sections.extend(tables::baseline(simulation).and_then(|baseline| {
        let others = curves.iter().filter(|one| one.name != baseline.name);
        let others: Vec<&SimulatedCurve> = others.collect();
        let title = format!("operations/s over those of {}, simulated", baseline.name);
        let lines = others.iter().map(|one| (one.name.clone(), ratios(one, baseline))).collect();
        let drawn = Block::Curves(value_panel(&title, OVER_CPUS, lines));
        let blocks =
            (!others.is_empty()).then(|| vec![drawn, plain(tables::ratios(&others, baseline))]);
        Some(Section::open(&format!("Compared with {}", baseline.name), blocks?))
    }));
    let ledger = tables::ledger_table(curves);
    sections.extend(ledger.map(|table| Section::open("Where the time goes", vec![plain(table)])));
    let effects: Vec<Block> = tables::effects(curves).into_iter().map(plain).collect();
    sections.extend((!effects.is_empty()).then(|| Section::open("Other effects", effects)));
    sections
}

/// The rates of a curve over those of the baseline.
fn ratios(curve: &SimulatedCurve, baseline: &SimulatedCurve) -> Vec<Reaching> {
    let points = curve.points.iter().zip(&baseline.points);
    points.map(|(point, base)| (point.cpus as u32, point.ratio_to(base).middle, None)).collect()
}

/// The rates of a curve, and how far its draws reach.
pub fn values(curve: &SimulatedCurve) -> Vec<Reaching> {
    let value = |point: &SimulatedPoint| -> Reaching {
        let range = Some(point.range()).filter(|_| point.rates.len() > 1);
        (point.cpus as u32, point.middle.rate(), range)
    };
    curve.points.iter().map(value).collect()
}
