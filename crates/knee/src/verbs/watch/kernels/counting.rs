//! A boot that counts: one workload after the other on emulated CPUs whose every access and instruction is seen. What a
//! guest dies of is tried once more in another.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use answers::Conflicts;
use anyhow::Result;
use bisector::kernel_line::{Booted, Counted, Kernel, KernelEvent, KernelLineFile, OpenKernelLine};
use conflicts::{KernelImage, Namer, Traced, by_kernel_function};
use guests::architecture::Architecture;
use host::signals;
use host::terminal::hint;
use records::{Guest, Job, PROTOCOL, Pass, Until, Work};
use runner::places::guest::directory_of_run;
use runner::places::guest::traced::{JobFailed, TracedGuest};

use super::words::{self, CountedLoad};
use crate::verbs::conflicts::types;

/// The longest that a workload may take on a number of CPUs.
const TIME: Duration = Duration::from_secs(300);

/// Lines that an operation needs less often are not kept.
const KEPT: f64 = 1.0 / 64.0;

/// Functions in which an operation executes fewer instructions are not kept.
const KEPT_OF_A_FUNCTION: f64 = 0.25;

/// A kernel to boot.
pub struct Target {
    pub name: String,
    pub image: PathBuf,
    pub sha256: String,
    /// Number of the boot, from 1.
    pub boot: u8,
    /// The host's CPU that emulates.
    pub host_cpu: Option<u32>,
}

/// Counts in one boot of a kernel, and in another after something failed there.
pub struct Counting<'a> {
    target: Target,
    file: &'a KernelLineFile,
    loads: Vec<CountedLoad>,
    emulator: String,
}

/// The line, for the thread of one boot.
pub fn locked(line: &Mutex<OpenKernelLine>) -> MutexGuard<'_, OpenKernelLine> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Counting<'a> {
    /// Finds what is needed.
    pub fn new(target: Target, file: &'a KernelLineFile) -> Result<Counting<'a>> {
        let emulator = guests::qemu::version(Architecture::X86_64)?;
        Ok(Counting { target, file, loads: words::loads(&file.workloads)?, emulator })
    }

    /// Counts all that the line lacks of this boot.
    ///
    /// # Errors
    /// Says why the kernel does not boot. A workload that fails is a part of the line.
    pub fn count_all(&self, line: &Mutex<OpenKernelLine>) -> Result<()> {
        loop {
            let Target { name, boot, .. } = &self.target;
            let missing = locked(line).missing(self.file, name, *boot);
            if missing.is_empty() {
                return Ok(());
            }
            self.count(&missing, line)?;
        }
    }

    /// Boots, and counts until the guest dies.
    fn count(&self, missing: &[(String, u32)], line: &Mutex<OpenKernelLine>) -> Result<()> {
        let mut guest = self.boot()?;
        self.booted(&guest, line)?;
        let types = types(&guest)?;
        let namer = types.as_ref().map(|types| Namer::new(types, &guest.symbols));
        let mut done = 0;
        for (word, cpus) in missing {
            let Some(load) = self.loads.iter().find(|load| load.word == *word) else { continue };
            let since = Instant::now();
            let counted = self.count_one(&mut guest, load, *cpus, namer.as_ref());
            if signals::received().is_some() {
                counted.as_ref().map_err(|why| anyhow::anyhow!("{why:#}"))?;
            }
            let event = self.event(load, *cpus, since.elapsed());
            let mut event = Counted { without_types: namer.is_none(), ..event };
            match counted {
                Ok((counts, functions)) => {
                    (event.counts, event.functions) = (Some(counts), functions);
                }
                Err(why) => {
                    event.failed = Some(format!("{why:#}"));
                    if !why.is::<JobFailed>() {
                        return locked(line).died(event);
                    }
                }
            }
            locked(line).append(KernelEvent::Counted(Box::new(event)))?;
            done += 1;
            if done % 20 == 0 || done == missing.len() {
                let Target { name, boot, .. } = &self.target;
                hint(format_args!("{name}, boot {boot}: {done} of {} counts", missing.len()));
            }
        }
        guest.end();
        Ok(())
    }

    fn boot(&self) -> Result<TracedGuest> {
        let guest = Guest {
            kernel: Some(self.target.image.clone()),
            cores: self.file.cpus.last().copied(),
            host_cpus: self.target.host_cpu.map(|cpu| cpu.to_string()),
            ..Guest::default()
        };
        TracedGuest::boot(&guest, None, Vec::new())
    }

    /// Adds the kernel, if this is its first boot, and the boot.
    fn booted(&self, guest: &TracedGuest, line: &Mutex<OpenKernelLine>) -> Result<()> {
        let Target { name, image, sha256, boot, .. } = &self.target;
        let facts = guest.boot_facts();
        let mut open = locked(line);
        if open.line.kernel(name).is_none() {
            open.append(KernelEvent::Kernel(Kernel {
                name: name.clone(),
                image: image.clone(),
                sha256: sha256.clone(),
                release: facts.release.clone(),
                at: jiff::Timestamp::now(),
                same_as: None,
            }))?;
        }
        hint(format_args!("{name}, boot {boot}: Linux {} in {:.1} s", facts.release, facts.up_s));
        open.append(KernelEvent::Boot(Booted {
            kernel: name.clone(),
            boot: *boot,
            at: jiff::Timestamp::now(),
            up_s: facts.up_s,
            knee: env!("CARGO_PKG_VERSION").to_string(),
            emulator: self.emulator.clone(),
            command_line: facts.command_line.clone(),
        }))
    }

    fn event(&self, load: &CountedLoad, cpus: u32, took: Duration) -> Counted {
        Counted {
            kernel: self.target.name.clone(),
            boot: self.target.boot,
            workload: load.word.clone(),
            cpus,
            semantics: load.job.semantics,
            seconds: (took.as_secs_f64() * 100.0).round() / 100.0,
            counts: None,
            functions: BTreeMap::new(),
            failed: None,
            without_types: false,
            died: false,
        }
    }

    /// Counts a workload with a task on each of so many CPUs: lines and instructions, and those by function.
    fn count_one(
        &self,
        guest: &mut TracedGuest,
        load: &CountedLoad,
        cpus: u32,
        namer: Option<&Namer<'_>>,
    ) -> Result<(Conflicts, BTreeMap<String, f64>)> {
        let operations = self.file.operations;
        let trace = guest.run(&job(load, cpus, operations), None, TIME)?;
        let image = KernelImage::new(guest.memory()?, &guest.symbols, namer, cpus as usize)?;
        let traced = Traced {
            operation: load.word.clone(),
            on: guest.boot_facts().release.clone(),
            tasks: cpus,
            counted: conflicts::Counted::Windows([operations, 2 * operations]),
            trace: &trace,
            records: false,
        };
        let counts = kept(conflicts::of_guest(&traced, &image, &[]));
        if self.file.cpus.first() != Some(&cpus) {
            return Ok((counts, BTreeMap::new()));
        }
        let of_windows = (3 * operations * u64::from(cpus)) as f64;
        let mut functions = by_kernel_function(&trace, &guest.symbols, of_windows);
        functions.retain(|_, instructions| *instructions >= KEPT_OF_A_FUNCTION);
        Ok((counts, functions))
    }
}

/// The job that counts a workload: a warm-up, a window of so many operations, and one of twice as many.
fn job(load: &CountedLoad, cpus: u32, operations: u64) -> Job {
    Job {
        protocol: PROTOCOL,
        work: Work::Workload(load.job.clone()),
        beside: None,
        together: false,
        form: load.form,
        tasks: cpus,
        cpus: (0..cpus).collect(),
        until: Until::OperationsPerTask(4 * operations),
        pass: Pass::Rate,
        profile: None,
        scratch: directory_of_run("traced", false),
        keep: false,
        allocations: false,
        traced: true,
        daemon: None,
        stop_grace_s: TIME.as_secs_f64(),
    }
}

/// What a line keeps of a trace: what is compared with other kernels.
fn kept(mut counts: Conflicts) -> Conflicts {
    counts.lines.retain(|line| line.transfers[0] >= KEPT);
    for line in &mut counts.lines {
        line.background.clear();
        line.members.iter_mut().for_each(|member| member.read_by.clear());
    }
    counts
}
