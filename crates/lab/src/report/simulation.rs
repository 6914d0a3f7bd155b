//! The page of a simulation: rates over CPUs, where the time goes, and what it rests on.

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use pages::{Block, Page, PageKind, PageTable, Section};
use reports::{OVER_CPUS, Reaching, quoted, value_panel};
use studies::simulations::SimulatedCurve;
use text::quantity::short;

use crate::simulate::{self, Simulation, tables};

/// What `knee simulate` is asked for.
pub struct Request {
    arguments: simulate::Arguments,
    matches: ArgMatches,
}

impl Request {
    /// Reads the arguments of `knee simulate`.
    pub fn parse(words: &[String]) -> Result<Request> {
        let command = simulate::Arguments::augment_args(Command::new("knee simulate"));
        let line = [&["knee simulate".to_string()], words].concat();
        let matches = command.try_get_matches_from(line);
        let read = matches.and_then(|matches| {
            let arguments = simulate::Arguments::from_arg_matches(&matches)?;
            Ok(Request { arguments, matches })
        });
        read.map_err(|error| anyhow::anyhow!("--simulate: {error}"))
    }

    /// Simulates it. With `yes`, files of others are compiled without asking.
    pub fn simulation(self, yes: bool) -> Result<Simulation> {
        simulate::simulation(&self.arguments, yes)
    }

    /// The names of what is to be simulated.
    pub fn names(&self) -> &[String] {
        self.arguments.names()
    }

    /// Whether the user gave the flag.
    pub fn gives(&self, flag: &str) -> bool {
        flag != "set" && self.matches.value_source(flag) == Some(ValueSource::CommandLine)
    }

    /// Whether the user set a parameter of a mechanism.
    pub fn sets(&self, parameter: &str) -> bool {
        self.arguments.settings().any(|name| name == parameter)
    }
}

/// The page of a simulation with these arguments.
pub fn page(simulation: &Simulation, words: &[String]) -> Page {
    let again: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Page {
        title: tables::title(simulation),
        kind: PageKind::Simulation,
        is_growing: false,
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
    let plain = |caption: &str, table| Block::Table(PageTable::plain(caption, table, reading));
    let lines = simulation.curves.iter().map(|one| (one.name.clone(), values(one))).collect();
    let curves = value_panel("operations/s, simulated", OVER_CPUS, lines);
    let mut blocks = vec![Block::Curves(curves)];
    let rates = tables::rate_tables(&simulation.curves);
    blocks.extend(rates.into_iter().map(|table| plain("operations/s, simulated", table)));
    let mut sections = vec![Section::open("Rates", blocks)];
    sections.extend(tables::ledger_table(&simulation.curves).map(|table| {
        Section::open(
            "Where the time goes",
            vec![plain("CPU time per operation with most CPUs", table)],
        )
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
