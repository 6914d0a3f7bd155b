//! Watches one run.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use host::affinity;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput};
use records::ProfileKind;

use super::counters::{self, COUNTERS, Counter};
use super::hardware::{self, Hardware};
use super::load::{self, Loaded};
use super::mark::Marker;
use super::moments::{self, Moment};
use super::raw::{self, Edge, Totals};
use super::samples::{self, Raw, Sampler};
use super::slab::Namer;
use super::symbols::Symbols;
use super::{Plan, Seen};

/// Programs attached, from [`Watcher::begin`] to [`Watcher::end`] or until it is dropped.
pub struct Watcher {
    plan: Plan,
    loaded: Loaded,
    operations: MapHandle,
    snapshots: MapHandle,
    sampler: Option<Sampler>,
    edges: Vec<Edge>,
    task_clocks_ns: Vec<u64>,
    hardware: Option<Hardware>,
    /// What the hardware had counted at each edge.
    hardware_counted: Vec<hardware::Counted>,
    /// Those of the window before each edge.
    samples: Vec<Vec<Raw>>,
    /// What is counted in bursts.
    frequent: Vec<&'static Counter>,
    /// Bursts that were, each with the number of edges before it.
    bursts: Vec<(usize, Edge, Edge)>,
}

/// How long knee stays on each CPU so that a switch there tells who has it.
const VISIT: Duration = Duration::from_millis(2);

impl Watcher {
    /// Attaches the programs, and visits each CPU.
    pub fn begin(plan: Plan) -> Result<Watcher, String> {
        let mut loaded = load::load(&plan)?;
        let operations = map(&loaded, "operations")?;
        let snapshots = map(&loaded, "snapshots")?;
        let sampler = match (plan.hertz, plan.kind) {
            (0, ProfileKind::Time | ProfileKind::Counts) => None,
            (hertz, _) => match Sampler::start(&loaded.object, &plan.cpus, hertz) {
                Ok(sampler) => Some(sampler),
                Err(why) => {
                    loaded.blind.insert("samples".to_string(), why);
                    None
                }
            },
        };
        let hardware = (plan.kind == ProfileKind::Counts).then(|| {
            let (hardware, blind) = Hardware::start(&plan.cpus);
            loaded.blind.extend(blind.map(|why| ("hardware counters".to_string(), why)));
            hardware
        });
        let frequent = if plan.bursts { COUNTERS.iter().collect() } else { Vec::new() };
        let watcher = Watcher {
            plan,
            loaded,
            operations,
            snapshots,
            sampler,
            edges: Vec::new(),
            task_clocks_ns: Vec::new(),
            hardware,
            hardware_counted: Vec::new(),
            samples: Vec::new(),
            frequent,
            bursts: Vec::new(),
        };
        watcher.visit_cpus()?;
        Ok(watcher)
    }

    /// Memory for the operation counts of the tasks: 128 bytes each, the count in the middle.
    pub fn operations(&self) -> BorrowedFd<'_> {
        self.operations.as_fd()
    }

    /// Marks tasks as the workload's.
    pub fn marker(&self) -> Marker {
        let program = self.loaded.object.progs_mut().find(|program| program.name() == "mark_me");
        Marker { program: program.map_or(-1, |program| program.as_fd().as_raw_fd()) }
    }

    /// When to do what in a run of `end_ns` and so many windows, in ns since its beginning, but
    /// for the edge that is its end.
    pub fn moments(&self, end_ns: u64, windows: u64) -> Vec<(u64, Moment)> {
        moments::moments(end_ns, windows, !self.frequent.is_empty())
    }

    /// Counts for so long what is counted in bursts; `at_ns` is the time since the release. The
    /// burst before the first edge is the trial: what is rare stays attached.
    pub fn burst(&mut self, length: Duration, at_ns: u64) -> Result<(), String> {
        if self.frequent.is_empty() {
            return Ok(());
        }
        self.frequent.iter().for_each(|counter| self.loaded.attach(counter.program));
        let begun = self.snapshot()?;
        std::thread::sleep(length);
        let ended = self.snapshot()?;
        if self.edges.is_empty() {
            self.frequent = counters::frequent(&begun, &ended, at_ns);
        } else {
            self.bursts.push((self.edges.len(), begun, ended));
        }
        self.frequent.iter().for_each(|counter| self.loaded.detach(counter.program));
        Ok(())
    }

    /// Takes an edge between two windows; `task_clock_ns` is what the clocks of all tasks show.
    pub fn edge(&mut self, task_clock_ns: u64) -> Result<(), String> {
        let edge = self.snapshot()?;
        if let Some(sampler) = &self.sampler {
            self.samples.push(sampler.take());
        }
        self.hardware_counted.extend(self.hardware.as_ref().map(Hardware::read));
        self.edges.push(edge);
        self.task_clocks_ns.push(task_clock_ns);
        Ok(())
    }

    /// The totals of all CPUs, each taken on the CPU itself.
    fn snapshot(&self) -> Result<Edge, String> {
        const ON_CPU: u32 = 1; // BPF_F_TEST_RUN_ON_CPU
        let snapshot = self.loaded.object.progs_mut().find(|p| p.name() == "snapshot");
        let snapshot = snapshot.ok_or("knee's own mistake: no program takes snapshots")?;
        let step = self.plan.cpus.len() as u64;
        for (first, cpu) in self.plan.cpus.iter().enumerate() {
            let context = [first as u64, step].map(u64::to_ne_bytes);
            let mut context = context.concat();
            let input = ProgramInput {
                context_in: Some(&mut context),
                cpu: *cpu,
                flags: ON_CPU,
                ..ProgramInput::default()
            };
            snapshot.test_run(input).map_err(|e| {
                format!("a snapshot of CPU {cpu}: {e}; was it taken offline during the run?")
            })?;
        }
        let read = |cpu: &u32| {
            let bytes = self.snapshots.lookup(&cpu.to_ne_bytes(), MapFlags::ANY);
            let bytes = bytes.map_err(|e| format!("reading the snapshot of CPU {cpu}: {e}"))?;
            Ok((*cpu, Totals::read(&bytes.unwrap_or_default())?))
        };
        self.plan.cpus.iter().map(read).collect()
    }

    /// Empties what would overflow.
    pub fn drain(&mut self) {
        if let Some(sampler) = &self.sampler {
            sampler.drain();
        }
    }

    /// Detaches everything and says what was seen.
    pub fn end(self) -> Seen {
        let Watcher { plan, mut loaded, sampler, edges, task_clocks_ns, samples, .. } = self;
        let programs = sampler.map(Sampler::programs);
        let in_bursts = |counter: &Counter| {
            self.frequent.iter().any(|frequent| frequent.program == counter.program)
        };
        let (always, sometimes): (Vec<&Counter>, Vec<&Counter>) = COUNTERS
            .iter()
            .filter(|counter| !loaded.blind.contains_key(counter.program))
            .partition(|counter| !in_bursts(counter));
        let is_by = |counters: &[&Counter], name: &str| {
            let of = Counter::of(name);
            of.is_some_and(|of| counters.iter().any(|counter| counter.program == of.program))
        };
        let functions = loaded.functions();
        loaded.detach_all();
        let symbols = Symbols::of_kernel();
        if let Err(why) = &symbols {
            loaded.blind.insert("symbols".to_string(), why.clone());
        }
        let symbols = symbols.ok();
        let namer = Namer::new(&loaded.object, symbols.as_ref());
        let mut windows = Vec::new();
        for (index, pair) in edges.windows(2).enumerate() {
            let mut window = raw::window(&pair[0], &pair[1], |name| {
                plan.kind == ProfileKind::Counts && is_by(&always, name)
            });
            window.counts.extend(raw::functions(&pair[0], &pair[1], &functions));
            if let Some([before, after]) = self.hardware_counted.get(index..index + 2) {
                window.counts.extend(hardware::between(before, after));
            }
            let bursts = self.bursts.iter().filter(|(edges, ..)| *edges == index + 1);
            let bursts = bursts.map(|(_, begun, ended)| (begun, ended));
            window.bursts = Some(raw::bursts(bursts, |name| is_by(&sometimes, name)))
                .filter(|_| !sometimes.is_empty());
            if plan.kind == ProfileKind::Names {
                let events = samples.get(index + 1).map_or(&[][..], Vec::as_slice);
                window.locks = namer.waits(events);
                window.senders = namer.senders(events);
            }
            namer.name(&mut window.locks);
            let clock_ns = task_clocks_ns[index + 1].saturating_sub(task_clocks_ns[index]);
            window.task_clock_ns = Some(clock_ns);
            let lost = window.anomalies.get("samples lost").copied().unwrap_or(0);
            window.samples = match (&symbols, &programs) {
                (Some(symbols), Some(programs)) if plan.kind == ProfileKind::Time => {
                    let raw = &samples[index + 1];
                    Some(samples::folded(raw, plan.hertz, lost, symbols, programs))
                }
                _ => None,
            };
            windows.push(window);
        }
        Seen { windows, blind: loaded.blind }
    }

    /// Goes to each CPU for a moment: the switches tell the programs who has it. Without them a
    /// CPU on which nothing switches would keep the state that it was born with.
    fn visit_cpus(&self) -> Result<(), String> {
        let home = affinity::get().map_err(|e| format!("the CPUs that knee may use: {e}"))?;
        let go = |cpus: &[u32]| {
            affinity::set(cpus).map_err(|e| format!("moving knee to CPUs {cpus:?}: {e}"))
        };
        for cpu in &self.plan.cpus {
            go(&[*cpu])?;
            std::thread::sleep(VISIT);
        }
        go(&home)
    }
}

fn map(loaded: &Loaded, name: &str) -> Result<MapHandle, String> {
    let map = loaded.object.maps().find(|map| map.name() == name);
    let map = map.ok_or_else(|| format!("knee's own mistake: no map {name}"))?;
    MapHandle::try_from(&map).map_err(|e| format!("opening the map {name}: {e}"))
}
