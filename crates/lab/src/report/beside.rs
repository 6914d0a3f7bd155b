//! Simulated rates beside measured ones: in the drawing of the load, and as a table. What `--simulate` leaves open
//! is as in the record: times inside and outside of the lock, designs and parameters, CPU counts.

use anyhow::{Result, ensure};
use pages::{Block, Page, PageTable, Section, reading};
use reports::{
    CurvePanel, LoadSetting, OVER_CPUS, PanelLine, PanelPoint, Reaching, quoted, value_panel,
};
use studies::simulations::SimulatedCurve;
use text::prose::counted;
use text::quantity::{fixed, short};
use text::table::{Align, Table};

use crate::report::simulation::Request;
use crate::simulate::page::{command, page as simulated_page, values};
use crate::simulate::tables;

/// The measured page with the simulated curves beside those of their loads, and what was simulated below.
///
/// With `yes`, files of others are compiled without asking.
pub fn beside(mut page: Page, words: &[String], mut yes: bool) -> Result<Page> {
    let request = Request::parse(words)?;
    let asked = |section: &Section| {
        let load =
            section.load.as_ref().filter(|_| section.blocks.iter().any(is_curve_of_rates))?;
        let is_named = request.names().iter().any(|name| is_load_of(load, name));
        is_named.then(|| flags(&request, load, &counts(section)))
    };
    let all: Vec<Option<Vec<String>>> = page.sections.iter().map(asked).collect();
    // Loads that differ in nothing of this are simulated together.
    let mut settings: Vec<&Vec<String>> = Vec::new();
    for setting in all.iter().flatten() {
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    ensure!(
        !settings.is_empty(),
        "--simulate {}: the records have no curve over CPUs of its workload (lock_NAME, mechanism_NAME): \
         simulate what was measured, or leave the records out",
        request.names().join(",")
    );
    if let Some(again) = page.again.first_mut() {
        *again += &format!(
            " --simulate {}",
            words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        );
    }
    let (mut simulated, mut grown) = (Vec::new(), Vec::new());
    for setting in settings {
        let words = [words, setting].concat();
        let simulation = Request::parse(&words)?.simulation(yes)?;
        // Who was asked once is not asked again.
        yes = true;
        let title = tables::title(&simulation);
        for (section, own) in page.sections.iter_mut().zip(&all) {
            let Some(load) = section.load.clone().filter(|_| own.as_ref() == Some(setting)) else {
                continue;
            };
            let host = &simulation.host.name;
            for curve in simulation.curves.iter().filter(|curve| is_load_of(&load, &curve.name)) {
                grown.extend(growth(section, curve, host));
                add(section, curve, &title);
            }
        }
        simulated.push(below(simulated_page(&simulation, command(&words)), &title));
    }
    for Growth { curve, .. } in &grown {
        let told = format!("{curve}: best at ");
        page.answers.retain(|answer| !answer.starts_with(&told) && !answer.starts_with("best at "));
    }
    page.answers.extend(grown.into_iter().take(GROWTHS_MAX).map(|growth| growth.sentence));
    Ok(simulated.into_iter().fold(page, Page::and))
}

/// The page of a simulation for below measured ones, which have the answer: folded, with what was simulated.
fn below(mut page: Page, title: &str) -> Page {
    page.answers.clear();
    for section in &mut page.sections {
        section.is_open = false;
        section.title += &format!(", {title}");
    }
    page
}

/// Measured curves whose growth stands beside the simulated one in the answer; tables have all.
const GROWTHS_MAX: usize = 4;

/// How a measured and a simulated curve grow.
struct Growth {
    /// The load and the line that were measured.
    curve: String,
    sentence: String,
}

/// How the rates of a section and of a curve grow up to the most CPUs that both have, for each line.
fn growth(section: &Section, curve: &SimulatedCurve, host: &str) -> Vec<Growth> {
    let panels = section.blocks.iter().filter_map(|block| match block {
        Block::Curves(panel) if is_rate(panel) => Some(panel),
        _ => None,
    });
    let lines = panels.flat_map(|panel| &panel.lines).filter(|line| is_measured(line));
    let sentence = |line: &PanelLine| {
        let both = both(line, curve);
        let (first, last) = (both.first()?, both.last()?);
        let times = |rates: fn(&Both) -> f64| fixed(rates(last) / rates(first), 2);
        let curve = format!("{}, {}", section.title, line.name);
        (first.0.cpus < last.0.cpus).then(|| {
            let sentence = format!(
                "{curve}: {} reach {} times the rate of {}; simulated on {host}: {} times",
                counted(last.0.cpus as usize, "CPU"),
                times(|(point, _)| point.spread.mean),
                counted(first.0.cpus as usize, "CPU"),
                times(|(_, (_, rate, _))| *rate),
            );
            Growth { curve, sentence }
        })
    };
    lines.filter_map(sentence).collect()
}

/// Whether a load runs what a name of `knee simulate` means: `lock_mcs` for `mcs` and `all`,
/// `mechanism_file_locks` for `file_locks` and, of the same design, for `file_locks:after`. With a lock of its own
/// for each task there is nothing to simulate.
fn is_load_of(load: &LoadSetting, name: &str) -> bool {
    let has = |parameter: &str, value: &str| {
        load.parameters.get(parameter).is_some_and(|own| own == value)
    };
    let (name, design) = name.split_once(':').map_or((name, None), |(name, one)| (name, Some(one)));
    if let Some(lock) = load.workload.strip_prefix("lock_") {
        return (lock == name || name == "all") && !has("lock", "own");
    }
    let mechanism = load.workload.strip_prefix("mechanism_");
    mechanism == Some(name) && design.is_none_or(|design| has("design", design))
}

/// Arguments that make a simulation what a load was, beside those that the request has.
fn flags(request: &Request, load: &LoadSetting, counts: &[String]) -> Vec<String> {
    let mut flags = Vec::new();
    let mut add = |flag: &str, value: Option<String>| {
        if let Some(value) = value.filter(|_| !request.gives(flag)) {
            flags.extend([format!("--{flag}"), value]);
        }
    };
    let ns = |parameter: &str| load.ns(parameter).map(|ns| format!("{ns:.0}ns"));
    let text = |parameter: &str| load.parameters.get(parameter);
    if load.workload.starts_with("lock_") {
        let varies = text("idle_ns").is_some_and(|text| text.ends_with("~exp"));
        let how = if varies { "exp" } else { "constant" };
        add("work", ns("idle_ns").map(|ns| format!("{ns}~{how}")));
        add("hold", ns("hold_ns"));
        // The counter that the lock guards lies on the line of the lock.
        add("data", Some("0".to_string()));
        add("read", Some("0".to_string()));
        let to_a_write = text("reads_to_a_write").and_then(|reads| reads.parse().ok());
        let percent = |reads: f64| format!("{:.0}", 100.0 * reads / (reads + 1.0));
        add("reads", to_a_write.map(percent));
    } else {
        add("work", ns("idle_ns"));
        add("over", text("over").cloned());
        add("design", text("design").cloned());
        let own = ["idle_ns", "over", "design"];
        for (name, value) in
            load.parameters.iter().filter(|(name, _)| !own.contains(&name.as_str()))
        {
            let is_given = request.sets(name);
            add("set", Some(format!("{name}={value}")).filter(|_| !is_given));
        }
    }
    add("cpus", Some(counts.join(",")));
    flags
}

/// The CPU counts at which a section has rates of one task for each CPU.
fn counts(section: &Section) -> Vec<String> {
    let mut counts: Vec<u32> = Vec::new();
    for block in section.blocks.iter().filter(|block| is_curve_of_rates(block)) {
        if let Block::Curves(panel) = block {
            let points = panel.lines.iter().flat_map(|line| &line.points);
            counts.extend(points.filter(|one| one.tasks == one.cpus).map(|one| one.cpus));
        }
    }
    counts.sort_unstable();
    counts.dedup();
    counts.iter().map(u32::to_string).collect()
}

fn is_curve_of_rates(block: &Block) -> bool {
    matches!(block, Block::Curves(panel) if is_rate(panel))
}

/// Adds the curve, simulated in this setting, to the rates of a section.
fn add(section: &mut Section, curve: &SimulatedCurve, setting: &str) {
    let mut blocks = Vec::new();
    for block in std::mem::take(&mut section.blocks) {
        match block {
            Block::Curves(mut panel) if is_rate(&panel) => {
                let table = compared(&panel, curve, setting);
                let name = format!("{}, simulated", curve.name);
                let simulated = value_panel("", OVER_CPUS, vec![(name, values(curve))]);
                panel.lines.extend(simulated.lines);
                blocks.extend([Block::Curves(panel), Block::Table(table)]);
            }
            other => blocks.push(other),
        }
    }
    section.blocks = blocks;
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
    for line in panel.lines.iter().filter(|line| is_measured(line)) {
        for row in rows(line, curve) {
            table.row(row);
        }
    }
    let caption = format!("Measured beside simulated: {}; {setting}", curve.name);
    PageTable::plain(&caption, table, reading::BESIDE)
}

fn is_measured(line: &PanelLine) -> bool {
    line.points.iter().any(|one| !one.runs.is_empty())
}

/// A measured point and the simulated value at its CPU count.
type Both<'a> = (&'a PanelPoint, Reaching);

/// The points at the CPU counts that were measured and simulated.
fn both<'a>(line: &'a PanelLine, curve: &SimulatedCurve) -> Vec<Both<'a>> {
    let simulated = values(curve);
    let at = |cpus: u32| simulated.iter().find(|(other, ..)| *other == cpus).copied();
    line.points.iter().filter_map(|point| Some((point, at(point.cpus)?))).collect()
}

fn rows(line: &PanelLine, curve: &SimulatedCurve) -> Vec<Vec<String>> {
    let both = both(line, curve);
    let Some((first, (_, first_simulated, _))) = both.first() else { return Vec::new() };
    let row = |(point, (cpus, rate, range)): &Both| {
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
