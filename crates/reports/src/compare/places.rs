//! Where cells are, as text: headings of the loads they belong to, and what tells the cells
//! of one load apart.

use analysis::{CellComparison, Comparison, Place};
use records::Pass;

use crate::loads::{self, not_default};
use crate::prose::counted;

/// Cells that differ only in their CPUs and tasks, with their indexes, in order of appearance.
pub fn loads(comparison: &Comparison) -> Vec<Vec<(usize, &CellComparison)>> {
    let mut loads: Vec<Vec<(usize, &CellComparison)>> = Vec::new();
    for cell in comparison.cells.iter().enumerate() {
        let same = |load: &&mut Vec<(usize, &CellComparison)>| {
            let of = |place: &Place| Place { cpus: 0, tasks: 0, ..place.clone() };
            of(&load[0].1.place) == of(&cell.1.place)
        };
        match loads.iter_mut().find(same) {
            Some(load) => load.push(cell),
            None => loads.push(vec![cell]),
        }
    }
    loads
}

/// "create_files size_bytes=4096, processes, 1 s, /mnt/scratch": all but CPUs and tasks.
pub fn heading(place: &Place) -> String {
    let parameters = not_default(&place.workload, &place.parameters);
    let load = [vec![place.workload.clone()], parameters].concat().join(" ");
    [vec![load], setting(place)].concat().join(", ")
}

/// Heading, CPUs and tasks.
pub fn whole(place: &Place) -> String {
    [vec![heading(place)], size(place)].concat().join(", ")
}

/// Form, length, directory, placement and pass, as far as they are worth saying.
pub fn setting(place: &Place) -> Vec<String> {
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
pub fn size(place: &Place) -> Vec<String> {
    let cpus = (place.cpus > 0).then(|| counted(place.cpus as usize, "CPU"));
    let tasks = (place.tasks > 0 && place.tasks != place.cpus)
        .then(|| counted(place.tasks as usize, "task"));
    cpus.into_iter().chain(tasks).collect()
}

/// What tells a cell from all others: empty where there is only one.
pub fn apart(comparison: &Comparison, cell: usize) -> String {
    let place = &comparison.cells[cell].place;
    let differs = |of: &dyn Fn(&Place) -> String| {
        comparison.cells.iter().any(|other| of(&other.place) != of(place))
    };
    let mut parts = Vec::new();
    let load = |place: &Place| Place { cpus: 0, tasks: 0, ..place.clone() };
    if comparison.cells.iter().any(|other| load(&other.place) != load(place)) {
        parts.push(distinguishing(comparison, place));
    }
    if differs(&|place| size(place).concat()) {
        parts.push(size(place).join(", "));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Workload, parameters and settings of a place in which the cells differ.
pub fn distinguishing(comparison: &Comparison, place: &Place) -> String {
    let cells = &comparison.cells;
    let mut words = Vec::new();
    if cells.iter().any(|cell| cell.place.workload != place.workload) {
        words.push(place.workload.clone());
    }
    let varies = |name: &String| {
        cells.iter().any(|cell| cell.place.parameters.get(name) != place.parameters.get(name))
    };
    let given = not_default(&place.workload, &place.parameters);
    let varying = place.parameters.iter().filter(|(name, _)| varies(name));
    let named = varying.map(|(name, value)| loads::setting(name, value));
    words.extend(named.filter(|text| given.contains(text)));
    if words.is_empty() && cells.iter().any(|cell| cell.place.parameters != place.parameters) {
        words.push("defaults".to_string());
    }
    let everywhere = |part: &String| cells.iter().all(|cell| setting(&cell.place).contains(part));
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
