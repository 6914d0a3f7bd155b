//! Simulated rates beside measured ones: in the drawing of the load, and as a table.

use anyhow::{Result, ensure};
use pages::{Block, Page, PageTable, Section, reading};
use reports::{CurvePanel, OVER_CPUS, PanelLine, PanelPoint, value_panel};
use studies::simulations::SimulatedCurve;
use text::quantity::{fixed, short};
use text::table::{Align, Table};

use crate::verbs::report::simulation::values;
use crate::verbs::simulate::{Simulation, tables};

/// The measured page with the simulated curves beside those of their loads.
pub fn beside(mut page: Page, simulation: &Simulation) -> Result<Page> {
    let mut drawn = 0;
    for section in &mut page.sections {
        let title = section.title.clone();
        for curve in simulation.curves.iter().filter(|curve| is_of(&title, curve)) {
            drawn += add(section, curve, &tables::title(simulation));
        }
    }
    let names: Vec<String> = simulation.curves.iter().map(load_name).collect();
    ensure!(
        drawn > 0,
        "--simulate: no curve over CPUs of the records is of {}: simulate what was measured, or leave the \
         records out",
        names.join(" or ")
    );
    Ok(page)
}

/// The load that runs what a curve simulates: `lock_mcs` for `mcs`.
fn load_name(curve: &SimulatedCurve) -> String {
    let (name, is_mechanism) = match curve.name.split_once(':') {
        Some((mechanism, _design)) => (mechanism, true),
        None => (curve.name.as_str(), false),
    };
    format!("{}_{name}", if is_mechanism { "mechanism" } else { "lock" })
}

/// Whether a section is about the load of a curve: its title begins with the load's name.
fn is_of(title: &str, curve: &SimulatedCurve) -> bool {
    title.split_whitespace().next() == Some(load_name(curve).as_str())
}

/// Adds the curve, simulated in this setting, to the rates of a section. Returns to how many drawings.
fn add(section: &mut Section, curve: &SimulatedCurve, setting: &str) -> usize {
    let mut blocks = Vec::new();
    let mut drawn = 0;
    for block in std::mem::take(&mut section.blocks) {
        match block {
            Block::Curves(mut panel) if is_rate(&panel) => {
                let table = compared(&panel, curve, setting);
                let name = format!("{}, simulated", curve.name);
                let simulated = value_panel("", OVER_CPUS, vec![(name, values(curve))]);
                panel.lines.extend(simulated.lines);
                blocks.extend([Block::Curves(panel), Block::Table(table)]);
                drawn += 1;
            }
            other => blocks.push(other),
        }
    }
    section.blocks = blocks;
    drawn
}

fn is_rate(panel: &CurvePanel) -> bool {
    panel.metric == "operations_per_s" && panel.over == OVER_CPUS
}

/// Rates at the CPU counts that were measured and simulated, and how both grow from the first of them.
fn compared(panel: &CurvePanel, curve: &SimulatedCurve, setting: &str) -> PageTable {
    let mut table = Table::new([
        ("CPUs", Align::Right),
        ("measured", Align::Left),
        ("operations/s", Align::Right),
        ("simulated", Align::Right),
        ("measured, x first", Align::Right),
        ("simulated, x first", Align::Right),
    ]);
    for line in panel.lines.iter().filter(|line| line.points.iter().any(|one| !one.runs.is_empty()))
    {
        for row in rows(line, curve) {
            table.row(row);
        }
    }
    let caption = format!("Measured beside simulated: {}; {setting}", curve.name);
    PageTable::plain(&caption, table, reading::BESIDE)
}

fn rows(line: &PanelLine, curve: &SimulatedCurve) -> Vec<Vec<String>> {
    let simulated = values(curve);
    let at = |cpus: u32| simulated.iter().find(|(other, ..)| *other == cpus);
    let both = line.points.iter().filter_map(|point| Some((point, at(point.cpus)?)));
    let both: Vec<_> = both.collect();
    let Some((first, (_, first_simulated, _))) = both.first() else { return Vec::new() };
    let row = |(point, (cpus, rate, range)): &(&PanelPoint, &reports::Reaching)| {
        let range = range.map(|(low, high)| format!(" [{}, {}]", short(low), short(high)));
        vec![
            cpus.to_string(),
            line.name.clone(),
            short(point.spread.mean),
            format!("{}{}", short(*rate), range.unwrap_or_default()),
            fixed(point.spread.mean / first.spread.mean, 2),
            fixed(rate / first_simulated, 2),
        ]
    };
    both.iter().map(row).collect()
}
