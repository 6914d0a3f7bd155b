//! The busiest programs of the host, by name or by process.

use std::collections::BTreeMap;

use explanations::top::{Block, Place, ScreenPage};
use probes::live::busiest::{Busiest, BusyProcess};
use text::quantity::fixed;
use text::table::{Align, Table};

/// The programs, as they were listed last.
pub struct Programs {
    busiest: Busiest,
    listed: Vec<BusyProcess>,
    /// Whether each process has a row, instead of each name.
    by_process: bool,
}

impl Programs {
    pub fn begin() -> Programs {
        Programs { busiest: Busiest::begin(), listed: Vec::new(), by_process: false }
    }

    /// Lists what used CPUs since the last call.
    pub fn refresh(&mut self) {
        self.listed = self.busiest.since_last();
    }

    /// Whether nothing has been listed yet.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Lists processes instead of names, or names again.
    pub fn turn(&mut self) {
        self.by_process = !self.by_process;
    }

    /// The list as a page.
    pub fn page(&self) -> ScreenPage {
        let block = if self.by_process { self.processes() } else { self.names() };
        let said = if self.is_empty() {
            "Reading the CPU time of all processes …"
        } else {
            "Choose a program to see what holds it back; s lists names or processes"
        };
        ScreenPage {
            title: "The busiest programs of this host".to_string(),
            said: said.to_string(),
            blocks: vec![block],
        }
    }

    fn processes(&self) -> Block {
        let mut table = Table::new([
            ("process", Align::Right),
            ("CPUs", Align::Right),
            ("threads", Align::Right),
            ("program", Align::Left),
        ]);
        let mut leads_to = Vec::new();
        for busy in &self.listed {
            table.row(vec![
                busy.process.to_string(),
                fixed(busy.cpus, 2),
                busy.threads.to_string(),
                busy.name.clone(),
            ]);
            leads_to.push(Some(Place::Process(busy.process)));
        }
        Block { table, leads_to }
    }

    fn names(&self) -> Block {
        let mut names: BTreeMap<&str, (f64, u64, u64)> = BTreeMap::new();
        for busy in &self.listed {
            let (cpus, processes, threads) = names.entry(&busy.name).or_default();
            *cpus += busy.cpus;
            *processes += 1;
            *threads += busy.threads;
        }
        let mut names: Vec<(&str, (f64, u64, u64))> = names.into_iter().collect();
        names.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then_with(|| a.0.cmp(b.0)));
        let mut table = Table::new([
            ("program", Align::Left),
            ("CPUs", Align::Right),
            ("processes", Align::Right),
            ("threads", Align::Right),
        ]);
        let mut leads_to = Vec::new();
        for (name, (cpus, processes, threads)) in names {
            table.row(vec![
                name.to_string(),
                fixed(cpus, 2),
                processes.to_string(),
                threads.to_string(),
            ]);
            leads_to.push(Some(Place::Program(name.to_string())));
        }
        Block { table, leads_to }
    }
}
