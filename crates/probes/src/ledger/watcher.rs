//! Watches one run.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use host::affinity;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput};
use records::ProfileKind;

use super::counters::{self, COUNTERS, LedgerCounter};
use super::hardware::{self, HardwareCounters, HardwareCounts};
use super::load::{self, Loaded};
use super::mark::Marker;
use super::raw::{self, LedgerSnapshot, Totals};
use super::samples::{self, RawSample, StackSampler};
use super::sampling_schedule;
use super::slab::LockNamer;
use super::{Observations, SamplingStep, WatchPlan};
use perf_data::Symbols;

/// Programs attached, from [`Watcher::begin`] to [`Watcher::end`] or until it is dropped.
pub struct Watcher {
    plan: WatchPlan,
    loaded: Loaded,
    operation_map: MapHandle,
    snapshot_map: MapHandle,
    sampler: Option<StackSampler>,
    snapshots: Vec<LedgerSnapshot>,
    /// The sum of all task clocks at each snapshot.
    task_clocks_ns: Vec<u64>,
    hardware: Option<HardwareCounters>,
    /// The values of the hardware counters at each snapshot.
    hardware_counts: Vec<HardwareCounts>,
    /// The samples that arrived between each snapshot and the one before.
    samples: Vec<Vec<RawSample>>,
    /// The counters that count in bursts.
    frequent: Vec<&'static LedgerCounter>,
    /// Completed bursts, each with the number of snapshots before it.
    bursts: Vec<(usize, LedgerSnapshot, LedgerSnapshot)>,
}

/// How long knee stays on each CPU, so that a switch there shows which task has it.
const VISIT: Duration = Duration::from_millis(2);

impl Watcher {
    /// Attaches the programs, and visits each CPU.
    pub fn begin(plan: WatchPlan) -> Result<Watcher, String> {
        let mut loaded = load::load(&plan)?;
        let operation_map = map(&loaded, "operations")?;
        let snapshot_map = map(&loaded, "snapshots")?;
        let sampler = match (plan.hertz, plan.kind) {
            (0, ProfileKind::Time | ProfileKind::Counts) => None,
            (hertz, _) => match StackSampler::start(&loaded.object, &plan.cpus, hertz) {
                Ok(sampler) => Some(sampler),
                Err(why) => {
                    loaded.unavailable_probes.insert("samples".to_string(), why);
                    None
                }
            },
        };
        let hardware = (plan.kind == ProfileKind::Counts).then(|| {
            let (hardware, unavailable) = HardwareCounters::start(&plan.cpus);
            let unavailable = unavailable.map(|why| ("hardware counters".to_string(), why));
            loaded.unavailable_probes.extend(unavailable);
            hardware
        });
        let frequent = if plan.bursts { COUNTERS.iter().collect() } else { Vec::new() };
        let watcher = Watcher {
            plan,
            loaded,
            operation_map,
            snapshot_map,
            sampler,
            snapshots: Vec::new(),
            task_clocks_ns: Vec::new(),
            hardware,
            hardware_counts: Vec::new(),
            samples: Vec::new(),
            frequent,
            bursts: Vec::new(),
        };
        watcher.visit_cpus()?;
        Ok(watcher)
    }

    /// The memory for the operation counts of the tasks: 128 bytes each, the count in the middle.
    pub fn operations(&self) -> BorrowedFd<'_> {
        self.operation_map.as_fd()
    }

    /// What marks tasks as the workload's.
    pub fn marker(&self) -> Marker {
        let program = self.loaded.object.progs_mut().find(|program| program.name() == "mark_me");
        Marker { program: program.map_or(-1, |program| program.as_fd().as_raw_fd()) }
    }

    /// The steps of a run of `end_ns` with this number of windows, in ns since its beginning,
    /// without the snapshot at its end.
    pub fn schedule(&self, end_ns: u64, windows: u64) -> Vec<(u64, SamplingStep)> {
        sampling_schedule::schedule(end_ns, windows, !self.frequent.is_empty())
    }

    /// Takes a burst of this length, `at_ns` after the release of the tasks. The burst before the
    /// first snapshot is the trial: programs that count rare events stay attached.
    pub fn burst(&mut self, length: Duration, at_ns: u64) -> Result<(), String> {
        if self.frequent.is_empty() {
            return Ok(());
        }
        self.frequent.iter().for_each(|counter| self.loaded.attach(counter.program));
        let before = self.read_totals()?;
        std::thread::sleep(length);
        let after = self.read_totals()?;
        if self.snapshots.is_empty() {
            self.frequent = counters::frequent(&before, &after, at_ns);
        } else {
            self.bursts.push((self.snapshots.len(), before, after));
        }
        self.frequent.iter().for_each(|counter| self.loaded.detach(counter.program));
        Ok(())
    }

    /// Takes the snapshot that ends one window and begins the next; `task_clock_ns` is the sum of
    /// the CPU clocks of all tasks.
    pub fn take_snapshot(&mut self, task_clock_ns: u64) -> Result<(), String> {
        let snapshot = self.read_totals()?;
        if let Some(sampler) = &self.sampler {
            self.samples.push(sampler.take());
        }
        self.hardware_counts.extend(self.hardware.as_ref().map(HardwareCounters::read));
        self.snapshots.push(snapshot);
        self.task_clocks_ns.push(task_clock_ns);
        Ok(())
    }

    /// The totals of all measured CPUs, each taken on the CPU itself.
    fn read_totals(&self) -> Result<LedgerSnapshot, String> {
        const ON_CPU: u32 = 1; // BPF_F_TEST_RUN_ON_CPU
        let snapshot = self.loaded.object.progs_mut().find(|p| p.name() == "snapshot");
        let snapshot = snapshot.ok_or("internal error: no BPF program takes snapshots")?;
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
                format!(
                    "taking a snapshot of CPU {cpu}: {e}; was the CPU taken offline during the run?"
                )
            })?;
        }
        let read = |cpu: &u32| {
            let bytes = self.snapshot_map.lookup(&cpu.to_ne_bytes(), MapFlags::ANY);
            let bytes = bytes.map_err(|e| format!("reading the snapshot of CPU {cpu}: {e}"))?;
            Ok((*cpu, Totals::read(&bytes.unwrap_or_default())?))
        };
        self.plan.cpus.iter().map(read).collect()
    }

    /// Empties the ring of samples, which would overflow.
    pub fn drain(&mut self) {
        if let Some(sampler) = &self.sampler {
            sampler.drain();
        }
    }

    /// Detaches everything and returns what was observed.
    pub fn end(self) -> Observations {
        let Watcher { plan, mut loaded, sampler, snapshots, task_clocks_ns, samples, .. } = self;
        let programs = sampler.map(StackSampler::programs);
        let is_frequent = |counter: &LedgerCounter| {
            self.frequent.iter().any(|frequent| frequent.program == counter.program)
        };
        let (in_bursts, continuous): (Vec<&LedgerCounter>, Vec<&LedgerCounter>) = COUNTERS
            .iter()
            .filter(|counter| !loaded.unavailable_probes.contains_key(counter.program))
            .partition(|counter| is_frequent(counter));
        let is_counted_by = |counters: &[&LedgerCounter], name: &str| {
            LedgerCounter::for_count(name)
                .is_some_and(|wanted| counters.iter().any(|c| c.program == wanted.program))
        };
        let functions = loaded.functions();
        loaded.detach_all();
        let symbols = Symbols::from_kernel();
        if let Err(why) = &symbols {
            loaded.unavailable_probes.insert("symbols".to_string(), why.clone());
        }
        let symbols = symbols.ok();
        let namer = LockNamer::new(&loaded.object, symbols.as_ref());
        let mut windows = Vec::new();
        for (index, pair) in snapshots.windows(2).enumerate() {
            let mut window = raw::window(&pair[0], &pair[1], |name| {
                plan.kind == ProfileKind::Counts && is_counted_by(&continuous, name)
            });
            window.counts.extend(raw::functions(&pair[0], &pair[1], &functions));
            if let Some([before, after]) = self.hardware_counts.get(index..index + 2) {
                window.counts.extend(hardware::between(before, after));
            }
            let bursts = self.bursts.iter().filter(|(snapshots, ..)| *snapshots == index + 1);
            let bursts = bursts.map(|(_, before, after)| (before, after));
            window.bursts = Some(raw::bursts(bursts, |name| is_counted_by(&in_bursts, name)))
                .filter(|_| !in_bursts.is_empty());
            if plan.kind == ProfileKind::Names {
                let events = samples.get(index + 1).map_or(&[][..], Vec::as_slice);
                window.locks = namer.waits(events);
                // The programs add up over all windows.
                if index + 2 == snapshots.len() {
                    window.locks.extend(namer.held());
                }
                window.senders = namer.senders(events);
            }
            namer.name(&mut window.locks);
            let clock_ns = task_clocks_ns[index + 1].saturating_sub(task_clocks_ns[index]);
            window.task_clock_ns = Some(clock_ns);
            let lost = window.anomalies.get("samples lost").copied().unwrap_or(0);
            window.samples = match (&symbols, &programs) {
                (Some(symbols), Some(programs)) if plan.kind == ProfileKind::Time => {
                    let samples = &samples[index + 1];
                    Some(samples::folded(samples, plan.hertz, lost, symbols, programs))
                }
                _ => None,
            };
            windows.push(window);
        }
        Observations { windows, unavailable_probes: loaded.unavailable_probes }
    }

    /// Moves to each CPU briefly: the switches show the programs which task has it. Otherwise a
    /// CPU without switches would keep its initial state.
    fn visit_cpus(&self) -> Result<(), String> {
        let home =
            affinity::get().map_err(|e| format!("reading the CPUs that knee may use: {e}"))?;
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
    let map = map.ok_or_else(|| format!("internal error: no BPF map {name}"))?;
    MapHandle::try_from(&map).map_err(|e| format!("opening the BPF map {name}: {e}"))
}
