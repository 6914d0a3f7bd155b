//! Where cells are, as text: headings of the loads they belong to, and what tells the cells
//! of one load apart.

use std::collections::{BTreeSet, HashMap};

use analysis::{CellComparison, CellKey, Comparison};
use records::Pass;
use text::prose::counted;

use crate::loads::{self, not_default};

/// Cells that differ only in their CPUs and tasks, with their indexes, in order of appearance.
pub fn loads(comparison: &Comparison) -> Vec<Vec<(usize, &CellComparison)>> {
    let mut loads: Vec<Vec<(usize, &CellComparison)>> = Vec::new();
    // Loads by what two that are equal share: of thousands, few have to be compared in full.
    let mut known: HashMap<(&str, &str, Vec<&str>), Vec<usize>> = HashMap::new();
    for cell in comparison.cells.iter().enumerate() {
        let key = &cell.1.key;
        let parameters = key.parameters.values().map(String::as_str).collect();
        let alike = known.entry((&key.workload, &key.dir, parameters)).or_default();
        match alike.iter().find(|load| is_same_load(&loads[**load][0].1.key, key)) {
            Some(load) => loads[*load].push(cell),
            None => {
                alike.push(loads.len());
                loads.push(vec![cell]);
            }
        }
    }
    loads
}

/// Whether two cells differ only in their CPUs and tasks.
pub fn is_same_load(a: &CellKey, b: &CellKey) -> bool {
    let b = CellKey { cpus: a.cpus, tasks: a.tasks, ..b.clone() };
    *a == b
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
    Places::new(comparison).apart(&comparison.cells[cell].key)
}

/// Workload, parameters and settings of a place in which the cells differ.
pub fn distinguishing(comparison: &Comparison, place: &CellKey) -> String {
    Places::new(comparison).distinguishing(place)
}

/// In what the cells of a comparison differ: what has to be said of one, so that it is no other.
pub struct Places {
    loads_differ: bool,
    sizes_differ: bool,
    workloads_differ: bool,
    parameters_differ: bool,
    varying_parameters: BTreeSet<String>,
    /// Settings that all cells have.
    common_settings: BTreeSet<String>,
}

impl Places {
    /// Looks at each cell once.
    pub fn new(comparison: &Comparison) -> Places {
        let mut places = Places {
            loads_differ: false,
            sizes_differ: false,
            workloads_differ: false,
            parameters_differ: false,
            varying_parameters: BTreeSet::new(),
            common_settings: BTreeSet::new(),
        };
        let Some(first) = comparison.cells.first().map(|cell| &cell.key) else { return places };
        places.common_settings = setting(first).into_iter().collect();
        for key in comparison.cells.iter().skip(1).map(|cell| &cell.key) {
            places.loads_differ |= !is_same_load(first, key);
            places.sizes_differ |= (first.cpus, first.tasks) != (key.cpus, key.tasks);
            places.workloads_differ |= first.workload != key.workload;
            if first.parameters != key.parameters {
                places.parameters_differ = true;
                let names = first.parameters.keys().chain(key.parameters.keys());
                let varying =
                    names.filter(|name| first.parameters.get(*name) != key.parameters.get(*name));
                places.varying_parameters.extend(varying.cloned());
            }
            let own = setting(key);
            places.common_settings.retain(|part| own.contains(part));
        }
        places
    }

    /// The settings that distinguish a place from all others; empty if there is only one.
    pub fn apart(&self, place: &CellKey) -> String {
        let load = if self.loads_differ { self.distinguishing(place) } else { String::new() };
        let size = if self.sizes_differ { size(place).join(", ") } else { String::new() };
        let parts = [load, size].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Workload, parameters and settings of a place in which the cells differ.
    pub fn distinguishing(&self, place: &CellKey) -> String {
        let mut words = Vec::new();
        if self.workloads_differ {
            words.push(place.workload.clone());
        }
        let given = not_default(&place.workload, &place.parameters);
        let varying =
            place.parameters.iter().filter(|(name, _)| self.varying_parameters.contains(*name));
        let named = varying.map(|(name, value)| loads::setting(name, value));
        words.extend(named.filter(|text| given.contains(text)));
        if words.is_empty() && self.parameters_differ {
            words.push("defaults".to_string());
        }
        let own = setting(place).into_iter().filter(|part| !self.common_settings.contains(part));
        let parts = [words.join(",")].into_iter().chain(own).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    }
}
