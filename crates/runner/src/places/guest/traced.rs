//! A guest whose accesses to memory are watched: it is booted once, and does one job after the other. Only its
//! operations are counted exactly; its times say nothing.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use guests::libraries;
use guests::qemu::{GuestOutput, Qemu};
use guests::tracer::{Entry, Trace, Tracer};
use host::signals;
use perf_data::Symbols;
use plan::guest_config;
use records::{Boot, Event, FileSystem, Guest, Job, Until, Variant};

use super::allowed_cpus;
use super::boot::{BootedGuest, Booter, power_off};
use super::console;
use super::protocol::{GuestRun, Reply, Request, line};
use super::watchdog::Watchdog;

/// Words of the kernel's command line: each slab cache keeps its own name, and programs, their libraries and the kernel are
/// where they are without random addresses.
const WORDS: &str = "slab_nomerge norandmaps nokaslr";

/// Four levels of page tables; without fast string instructions, as for other emulated guests.
const CPU: &str = "max,-erms,-fsrm,-la57";

/// The most memory that a traced guest may have: below it, a physical address is an offset in the file.
const MEMORY_MAX: u64 = 2 << 30;

/// Why a job failed in a guest that can do others.
#[derive(Debug)]
pub struct JobFailed(String);

impl fmt::Display for JobFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JobFailed {}

/// A guest that is up, with the symbols of its kernel.
pub struct TracedGuest {
    booter: Booter,
    booted: BootedGuest,
    guest: Guest,
    pub symbols: Symbols,
}

impl TracedGuest {
    /// Boots a guest. `file_system` is what its jobs will want on its disk; `files` are for its root directory: their paths
    /// there, without the first slash, and here.
    pub fn boot(
        guest: &Guest,
        file_system: Option<&FileSystem>,
        files: Vec<(String, PathBuf)>,
    ) -> Result<TracedGuest> {
        let words = guest.cmdline.as_deref().unwrap_or_default();
        let allowed = allowed_cpus()?;
        let first = allowed.first();
        let guest = Guest {
            cmdline: Some(format!("{WORDS} {words}").trim().to_string()),
            cpu: guest.cpu.clone().or(Some(CPU.to_string())),
            host_cpus: guest.host_cpus.clone().or(first.map(|cpu| cpu.to_string())),
            ..guest.clone()
        };
        let shape = guest.shape()?;
        ensure!(
            shape.memory <= MEMORY_MAX && shape.distances.is_none(),
            "a traced guest has at most 2 GiB of memory and one node"
        );
        let mut booter = Booter::traced(&guest, file_system, shape.memory, files)?;
        let mut booted = booter.boot(&guest, &host::paths::temporary(), 0)?;
        let symbols = symbols(&mut booted)?;
        booter.tracer()?.set_entries(&entries(&symbols)?)?;
        Ok(TracedGuest { booter, booted, guest, symbols })
    }

    /// The boot as records keep it.
    pub fn boot_facts(&self) -> &Boot {
        &self.booted.boot
    }

    /// The guest's memory. It changes while the guest runs.
    pub fn memory(&self) -> Result<&File> {
        Ok(&self.booter.tracer()?.memory)
    }

    /// The types (BTF) of the modules that the guest loads, by module.
    pub fn module_types(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.booter.module_types()
    }

    /// The libraries of a program in the guest: their paths there, and the addresses at which it loads them.
    pub fn libraries_of(&mut self, program: &str) -> Result<Vec<(String, u64)>> {
        let request = Request::Libraries(program.to_string());
        let listed = ask(&mut self.booted, &request, "list libraries", |reply| match reply {
            Reply::Libraries(listed) => Some(listed),
            _ => None,
        })?;
        Ok(libraries::loaded(&listed.map_err(anyhow::Error::msg)?))
    }

    /// Unmounts the file system of the job before, whose objects could be looked up until now.
    fn unmount(&mut self) -> Result<()> {
        let unmounted = ask(&mut self.booted, &Request::Unmount, "unmount", |reply| match reply {
            Reply::Unmounted(unmounted) => Some(unmounted),
            _ => None,
        })?;
        unmounted.map_err(anyhow::Error::msg)
    }

    /// Does a job, whose tasks mark their windows, and returns what they accessed. Its file system stays mounted until the
    /// next job: unmounting it would free what its memory says of the accesses.
    ///
    /// # Errors
    /// A [`JobFailed`] is about the job; after any other error, the guest does no other job.
    pub fn run(
        &mut self,
        job: &Job,
        file_system: Option<&FileSystem>,
        limit: Duration,
    ) -> Result<Trace> {
        ensure!(job.traced, "the job marks no windows");
        if file_system.is_some() {
            self.unmount()?;
        }
        if let (Some(made), Some(disk)) = (file_system, &self.booted.disk) {
            self.booter.format_disk(disk, made)?;
        }
        let tracer = self.booter.tracer()?;
        tracer.clear()?;
        if let Until::OperationsPerTask(all) = job.until {
            tracer.set_each((all / 4).max(1))?;
        }
        let variant = file_system
            .map(|made| Variant { file_system: Some(made.clone()), ..Variant::default() });
        let deadline_s = limit.as_secs_f64();
        let kept = file_system.is_some();
        let request = GuestRun { job: job.clone(), variant, kept, deadline_s };
        self.booted.qemu.send(&line(&Request::Run(Box::new(request))))?;
        self.wait(job, limit)?;
        self.booter.tracer()?.take()
    }

    /// Waits until the job is done; an error says why it failed.
    fn wait(&mut self, job: &Job, limit: Duration) -> Result<()> {
        let mut progress = match job.until {
            Until::OperationsPerTask(all) => Some(Progress::new(limit, all / 4)),
            _ => None,
        };
        let qemu = &mut self.booted.qemu;
        let mut watchdog = Watchdog::new(guest_config::watchdog_time(&self.guest)?, limit, limit);
        let (mut failed, mut has_finished) = (None, false);
        loop {
            ensure!(signals::received().is_none(), "interrupted");
            match qemu.next(Duration::from_secs(1)) {
                GuestOutput::Line(text) => {
                    watchdog.heard();
                    match Reply::read(&text) {
                        Ok(Reply::Event(Event::Failed { reason })) => failed = Some(reason),
                        Ok(Reply::Event(Event::Finished)) => has_finished = true,
                        Ok(Reply::Done(result)) if has_finished && failed.is_none() => {
                            let why = result.invalid_because.join("; ");
                            ensure!(why.is_empty(), JobFailed(why));
                            return Ok(());
                        }
                        Ok(Reply::Done(result)) => {
                            let why =
                                failed.unwrap_or_else(|| format!("its worker {}", result.exit));
                            bail!(JobFailed(why));
                        }
                        _ => (),
                    }
                }
                GuestOutput::Printed => watchdog.heard(),
                GuestOutput::Off => bail!("the guest {}", console::exit_reason(qemu)),
                GuestOutput::Nothing => (),
            }
            if let Some(why) = watchdog.check(qemu) {
                bail!(
                    "the guest {why}; on its console last: {}",
                    console::last_line(&qemu.console())
                );
            }
            if let Some(progress) = &mut progress {
                progress.check(qemu, self.booter.tracer()?)?;
            }
        }
    }

    /// Switches the guest off.
    pub fn end(self) {
        power_off(self.booted.qemu);
    }
}

/// The operations that the tasks have done, as far as they are seen: not those of a warm-up of knee's workloads and of loads
/// with knee.h. After the first ones, a pause means that a task waits for something that does not come.
struct Progress {
    done: u64,
    /// The operations of a task's warm-up.
    warm_up: u64,
    limit: Duration,
    since: Watchdog,
}

impl Progress {
    /// The longest that one operation takes in emulation, by far.
    const PAUSE_MAX: Duration = Duration::from_secs(60);
    /// The longest that the preparation and the warm-up take.
    const START_MAX: Duration = Duration::from_secs(300);

    fn new(limit: Duration, warm_up: u64) -> Progress {
        let since = Progress::watchdog(Progress::START_MAX, limit);
        Progress { done: 0, warm_up, limit, since }
    }

    fn watchdog(pause: Duration, limit: Duration) -> Watchdog {
        Watchdog::new(pause, Duration::ZERO, limit)
    }

    fn check(&mut self, qemu: &Qemu, tracer: &Tracer) -> Result<()> {
        let done = tracer.progress()?;
        if done != self.done {
            self.done = done;
            self.since = Progress::watchdog(Progress::PAUSE_MAX, self.limit);
        }
        let why = self.since.check(qemu);
        ensure!(
            why.is_none() || done > 0,
            "after {} s, its tasks were not through their warm-up of {} operations: does one wait for something that does \
             not come, or are that too many (--operations)?",
            Progress::START_MAX.as_secs(),
            self.warm_up
        );
        ensure!(
            why.is_none(),
            "its tasks did {done} operations, and none in the last {} s: does one wait for something that does not come?",
            Progress::PAUSE_MAX.as_secs()
        );
        Ok(())
    }
}

/// Asks the guest for the symbols of its kernel and of the modules that are loaded.
fn symbols(booted: &mut BootedGuest) -> Result<Symbols> {
    let mut text = String::new();
    ask(booted, &Request::Symbols, "send its symbols", |reply| match reply {
        Reply::Symbols(part) if part.is_empty() => Some(()),
        Reply::Symbols(part) => {
            text.push_str(&part);
            None
        }
        _ => None,
    })?;
    let symbols = Symbols::from_text(&text).ok();
    symbols.context(
        "the guest's kernel hides its addresses: leave kernel.kptr_restrict out of --cmdline",
    )
}

/// Asks the guest's init for something, and waits for the reply that is the answer.
fn ask<T>(
    booted: &mut BootedGuest,
    request: &Request,
    what: &str,
    mut answer: impl FnMut(Reply) -> Option<T>,
) -> Result<T> {
    const TIMEOUT: Duration = Duration::from_secs(300);
    booted.qemu.send(&line(request))?;
    let since = Instant::now();
    loop {
        ensure!(signals::received().is_none(), "interrupted");
        ensure!(since.elapsed() < TIMEOUT, "the guest did not {what} within {TIMEOUT:?}");
        match booted.qemu.next(Duration::from_secs(1)) {
            GuestOutput::Line(reply) => {
                if let Some(answer) = Reply::read(&reply).ok().and_then(&mut answer) {
                    return Ok(answer);
                }
            }
            GuestOutput::Off => bail!("the guest {}", console::exit_reason(&mut booted.qemu)),
            GuestOutput::Printed | GuestOutput::Nothing => (),
        }
    }
}

/// Where the kernel switches tasks and is entered (arch/x86/include/asm/idtentry.h names them since Linux 5.8).
fn entries(symbols: &Symbols) -> Result<Vec<(u64, u64, Entry)>> {
    let known = |name: &str| -> Option<Entry> {
        let entry = match name {
            "__switch_to_asm" => Entry::Switch,
            "asm_exc_nmi"
            | "asm_exc_machine_check"
            | "asm_common_interrupt"
            | "asm_spurious_interrupt" => Entry::Interrupt,
            "asm_sysvec_call_function"
            | "asm_sysvec_call_function_single"
            | "asm_sysvec_reschedule_ipi" => Entry::Ipi,
            "preempt_schedule"
            | "preempt_schedule_common"
            | "preempt_schedule_irq"
            | "preempt_schedule_notrace" => Entry::Preemption,
            "schedule" => Entry::Schedule,
            "exit_to_user_mode_prepare"
            | "exit_to_user_mode_loop"
            | "irqentry_exit_to_user_mode"
            | "syscall_exit_to_user_mode" => Entry::Exit,
            _ if name.starts_with("asm_exc_") => Entry::Exception,
            _ if name.starts_with("asm_sysvec_") => Entry::Interrupt,
            _ => return None,
        };
        Some(entry)
    };
    let functions =
        symbols.functions().filter_map(|(start, end, name)| Some((start, end, known(name)?)));
    let entries: Vec<_> = functions.collect();
    for (wanted, what) in
        [(Entry::Switch, "__switch_to_asm"), (Entry::Exception, "asm_exc_page_fault")]
    {
        ensure!(
            entries.iter().any(|(.., entry)| *entry == wanted),
            "the kernel has no function {what}, by which tasks and system calls are told apart: \
             kernels for x86-64 have it since Linux 5.8"
        );
    }
    Ok(entries)
}
