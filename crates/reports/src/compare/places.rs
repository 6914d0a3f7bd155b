//! Where cells are, as text: headings of the loads they belong to, and what tells the cells
//! of one load apart.

use analysis::{CellComparison, CellKey, Comparison};
use records::Pass;

use crate::loads::{self, not_default};
use crate::prose::counted;

/// Cells that differ only in their CPUs and tasks, with their indexes, in order of appearance.
pub fn loads(comparison: &Comparison) -> Vec<Vec<(usize, &CellComparison)>> {
    let mut loads: Vec<Vec<(usize, &CellComparison)>> = Vec::new();
    for cell in comparison.cells.iter().enumerate() {
        let same = |load: &&mut Vec<(usize, &CellComparison)>| {
            let load_key = |place: &CellKey| CellKey { cpus: 0, tasks: 0, ..place.clone() };
            load_key(&load[0].1.key) == load_key(&cell.1.key)
        };
        match loads.iter_mut().find(same) {
            Some(load) => load.push(cell),
            None => loads.push(vec![cell]),
        }
    }
    loads
}

/// "create_files size_bytes=4096, processes, 1 s, /mnt/scratch": all but CPUs and tasks.
pub fn heading(place: &CellKey) -> String {
    let parameters = not_default(&place.workload, &place.parameters);
    let load = [vec![place.workload.clone()], parameters].concat().join(" ");
    [vec![load], setting(place)].concat().join(", ")
}

/// Heading, CPUs and tasks.
pub fn whole(place: &CellKey) -> String {
    [vec![heading(place)], size(place)].concat().join(", ")
}

/// Form, length, directory, placement and pass, as far as they are worth saying.
pub fn setting(place: &CellKey) -> Vec<String> {
    // Cores first is what happens unless asked otherwise.
    let placement = match place.placement.as_str() {
        "" | "cores" => String::new(),
        placement => format!("placement {placement}"),
    };
    let timed = if place.pass == Pass::Latency { "each operation timed" } else { "" };
    let parts = [&place.form, &place.length, &place.dir, &placement, timed];
    parts.into_iter().filter(|part| !part.is_empty()).map(|part| part.to_string()).collect()
}

/// "8 CPUs", and "16 tasks" unless that is one a CPU.
pub fn size(place: &CellKey) -> Vec<String> {
    let cpus = (place.cpus > 0).then(|| counted(place.cpus as usize, "CPU"));
    let tasks = (place.tasks > 0 && place.tasks != place.cpus)
        .then(|| counted(place.tasks as usize, "task"));
    cpus.into_iter().chain(tasks).collect()
}

/// The settings that distinguish a cell from all others; empty if there is only one cell.
pub fn apart(comparison: &Comparison, cell: usize) -> String {
    let place = &comparison.cells[cell].key;
    let differs = |of: &dyn Fn(&CellKey) -> String| {
        comparison.cells.iter().any(|other| of(&other.key) != of(place))
    };
    let mut parts = Vec::new();
    let load = |place: &CellKey| CellKey { cpus: 0, tasks: 0, ..place.clone() };
    if comparison.cells.iter().any(|other| load(&other.key) != load(place)) {
        parts.push(distinguishing(comparison, place));
    }
    if differs(&|place| size(place).concat()) {
        parts.push(size(place).join(", "));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Workload, parameters and settings of a place in which the cells differ.
pub fn distinguishing(comparison: &Comparison, place: &CellKey) -> String {
    let cells = &comparison.cells;
    let mut words = Vec::new();
    if cells.iter().any(|cell| cell.key.workload != place.workload) {
        words.push(place.workload.clone());
    }
    let varies = |name: &String| {
        cells.iter().any(|cell| cell.key.parameters.get(name) != place.parameters.get(name))
    };
    let given = not_default(&place.workload, &place.parameters);
    let varying = place.parameters.iter().filter(|(name, _)| varies(name));
    let named = varying.map(|(name, value)| loads::setting(name, value));
    words.extend(named.filter(|text| given.contains(text)));
    if words.is_empty() && cells.iter().any(|cell| cell.key.parameters != place.parameters) {
        words.push("defaults".to_string());
    }
    let everywhere = |part: &String| cells.iter().all(|cell| setting(&cell.key).contains(part));
    let settings = setting(place).into_iter().filter(|part| !everywhere(part));
    let settings: Vec<String> = settings.collect();
    let words = words.join(",");
    [vec![words], settings]
        .concat()
        .into_iter()
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}
