//! The page of a simulation: rates over CPUs, where the time goes, and what it rests on.

use anyhow::Result;
use clap::{Args, Command, FromArgMatches};
use pages::{Block, Page, PageTable, Section};
use reports::{OVER_CPUS, Reaching, quoted, value_panel};
use studies::simulations::SimulatedCurve;
use text::quantity::short;

use crate::verbs::simulate::{self, Simulation, tables};

/// What `knee simulate` would compute with these arguments.
pub fn simulated(words: &[String]) -> Result<Simulation> {
    let command = simulate::Arguments::augment_args(Command::new("knee simulate"));
    let line = [&["knee simulate".to_string()], words].concat();
    let matches = command.try_get_matches_from(line);
    let arguments = matches.and_then(|matches| simulate::Arguments::from_arg_matches(&matches));
    let arguments = arguments.map_err(|error| anyhow::anyhow!("--simulate: {error}"))?;
    simulate::simulation(&arguments)
}

/// The page of a simulation with these arguments.
pub fn page(simulation: &Simulation, words: &[String]) -> Page {
    let again: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Page {
        title: tables::title(simulation),
        kind: "Simulation",
        answers: answers(simulation),
        counts: Vec::new(),
        sections: sections(simulation),
        method: vec![tables::basis(simulation)],
        doubts: Vec::new(),
        facts: vec![("simulated host".to_string(), simulation.host.name.clone())],
        again: vec![format!("knee simulate {}", again.join(" "))],
    }
}

/// Which is fastest with most CPUs; against a baseline, where each is faster or slower.
fn answers(simulation: &Simulation) -> Vec<String> {
    let compared = tables::compared(simulation);
    if !compared.is_empty() {
        return compared;
    }
    let last = simulation.curves.iter().filter_map(|one| Some((one, one.points.last()?)));
    let best = last.max_by(|a, b| a.1.middle.rate().total_cmp(&b.1.middle.rate()));
    let sentence = |(one, point): (&SimulatedCurve, &studies::simulations::SimulatedPoint)| {
        format!(
            "`{}` has the highest simulated rate at {}: {} operations/s",
            one.name,
            text::prose::counted(point.cpus, "CPU"),
            short(point.middle.rate())
        )
    };
    best.map(sentence).into_iter().collect()
}

fn sections(simulation: &Simulation) -> Vec<Section> {
    let reading = pages::reading::SIMULATED;
    let open = |title: &str, blocks| Section { title: title.to_string(), is_open: true, blocks };
    let plain = |caption: &str, table| Block::Table(PageTable::plain(caption, table, reading));
    let lines = simulation.curves.iter().map(|one| (one.name.clone(), values(one))).collect();
    let curves = value_panel("operations/s, simulated", OVER_CPUS, lines);
    let mut blocks = vec![Block::Curves(curves)];
    let rates = tables::rate_tables(&simulation.curves);
    blocks.extend(rates.into_iter().map(|table| plain("operations/s, simulated", table)));
    let mut sections = vec![open("Rates", blocks)];
    sections.extend(tables::ledger_table(&simulation.curves).map(|table| {
        open("Where the time goes", vec![plain("CPU time per operation with most CPUs", table)])
    }));
    sections
}

/// The rates of a curve, and how far its draws reach.
pub fn values(curve: &SimulatedCurve) -> Vec<Reaching> {
    let value = |point: &studies::simulations::SimulatedPoint| -> Reaching {
        let range = Some(point.range()).filter(|_| point.rates.len() > 1);
        (point.cpus as u32, point.middle.rate(), range)
    };
    curve.points.iter().map(value).collect()
}
