//! Runs in virtual machines: a kernel is booted with knee as its init, which does the jobs of one variant
//! in one block. Each block boots anew, so that boots are repeated as runs are.
//!
//!     block 0:  boot base: runs … off ─ boot patched: runs … off
//!     block 1:  boot patched: runs … off ─ boot base: runs … off
//!
//! A guest that panics, hangs or stops costs the run in progress; the next one boots again.

mod ageing;
mod boot;
mod commands;
pub mod console;
mod disk;
mod hypervisor;
pub mod init;
mod program;
pub mod protocol;
pub mod traced;
mod watchdog;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use guests::qemu::{GuestOutput, Qemu};
use host::terminal::hint;
use host::{job_control, signals};
use plan::{guest_config, schedule};
use records::{Boot, Event, FileSystem, Guest, OwnJob, Policy, Record, Until, Warning, Work};

use self::boot::{FormattedDisk, WARNING_PREFIX};
use self::disk::Disk;
use self::protocol::{GuestRun, GuestRunResult, Reply, Request, line};
use self::watchdog::Watchdog;
use super::{RunOutcome, RunRequest};

pub use self::boot::{BootedGuest, Booter, power_off, program_in_guest};
pub use self::hypervisor::no_kvm;
pub use self::init::directory_of_run;

/// The host CPUs that this process may use, for guests to run on.
pub fn allowed_cpus() -> Result<Vec<u32>> {
    probes::limits(Path::new("/")).cpus_allowed.map_err(anyhow::Error::msg)
}

/// The guests of one session.
pub struct Guests {
    booter: Booter,
    /// The guest that was tried out last: it serves the first run if that wants one like it.
    unused: Option<UnusedGuest>,
    running: Option<RunningGuest>,
    /// The number of the next boot.
    next_boot: u32,
    /// Runs for which no guest came up.
    runs_without_guest: u32,
    /// Boots that are not in the record yet.
    unwritten: Vec<Boot>,
    /// What the checks of file systems that runs shared found wrong.
    warnings: Vec<Warning>,
}

/// A guest that is up and has done nothing yet.
struct UnusedGuest {
    guest: Guest,
    booted: BootedGuest,
    since: Instant,
    /// [`job_control::stops`] before the boot: the kernel of a guest that was stopped meanwhile has missed
    /// ticks.
    stops: u64,
}

/// A guest that is up, and the runs that it is for.
struct RunningGuest {
    key: BootKey,
    qemu: Qemu,
    disk: Option<Disk>,
    /// What is on the disk, once it is formatted.
    formatted: Option<FormattedDisk>,
    boot: Boot,
    since: Instant,
    /// As in [`UnusedGuest`].
    stops: u64,
}

/// Runs with equal keys share a boot.
#[derive(Clone, Debug, PartialEq)]
struct BootKey {
    guest: Guest,
    block: u32,
    placebo: bool,
    /// The file system that these runs share, with the policy `kept`.
    kept: Option<FileSystem>,
}

/// How often knee tries to boot a guest before its run fails.
const BOOT_ATTEMPTS: usize = 3;

/// The end of a boot that ended as it should, in the record.
const SWITCHED_OFF: &str = "was switched off";

/// How long QEMU may take to end when its guest is dead.
const QEMU_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// After this many runs for which no guest came up, knee stops.
const RUNS_WITHOUT_GUEST_MAX: u32 = 2;

impl Guests {
    /// Finds what executes guests, and boots each guest of the record once, so that what cannot work is
    /// refused before anything is measured.
    pub fn new(record: &mut Record, boots: u32) -> Result<Guests> {
        let mut booter = Booter::new(record)?;
        let mut hypervisor = None;
        let mut unused: Option<UnusedGuest> = None;
        for guest in in_order_of_trial(record) {
            if signals::received().is_some() {
                break;
            }
            // Two guests would have to share the CPUs that one is pinned to.
            if let Some(before) = unused.take() {
                power_off(before.booted.qemu);
            }
            let stops = job_control::stops();
            // Any boot may fail once.
            let mut try_out = || booter.try_out(&guest, host::random());
            let (found, booted) = try_out().or_else(|_| try_out())?;
            let Boot { release, up_s, said, .. } = &booted.boot;
            let advice = "check what it means for what is compared";
            let warnings = said.iter().filter_map(|line| line.strip_prefix(WARNING_PREFIX));
            record.warnings.extend(warnings.map(|warning| Warning::new(warning, advice)));
            hint(format_args!("Linux {release} booted in {up_s:.1} s ({})", found.accelerator));
            hypervisor = Some(found);
            unused = Some(UnusedGuest { guest, booted, since: Instant::now(), stops });
        }
        record.hypervisor = hypervisor;
        // One that has aged a file system has done some work.
        if record.experiment.storage.policy == Policy::Aged
            && let Some(used) = unused.take()
        {
            power_off(used.booted.qemu);
        }
        Ok(Guests {
            booter,
            unused,
            running: None,
            next_boot: boots,
            runs_without_guest: 0,
            unwritten: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Makes sure that the guest for a run is up. Returns the errors of failed attempts to boot it: a
    /// failed boot costs no measurement, so it is repeated. The inner error is the run's.
    fn provide(&mut self, request: &RunRequest) -> Result<Result<Vec<String>>> {
        let guest = request.planned.guest.clone().context("the run has no guest")?;
        let (block, placebo) = (request.id.block, request.placebo);
        let key = BootKey { guest, block, placebo, kept: kept(request).cloned() };
        let stops = job_control::stops();
        let can_serve = |guest: &RunningGuest| guest.key == key && guest.stops == stops;
        if self.running.as_ref().is_some_and(can_serve) {
            return Ok(Ok(Vec::new()));
        }
        self.end_guest(SWITCHED_OFF);
        let mut errors = Vec::new();
        if let Some(unused) = self.unused.take() {
            if unused.guest == key.guest && unused.stops == stops {
                self.begin_guest(key, unused);
                return Ok(Ok(errors));
            }
            power_off(unused.booted.qemu);
        }
        while errors.len() < BOOT_ATTEMPTS {
            match self.booter.boot(&key.guest, &request.planned.point.dir, host::random()) {
                Ok(booted) => {
                    let (guest, since) = (key.guest.clone(), Instant::now());
                    self.begin_guest(key, UnusedGuest { guest, booted, since, stops });
                    return Ok(Ok(errors));
                }
                Err(why) => errors.push(format!("{why:#}")),
            }
            if signals::received().is_some() {
                return Ok(Err(anyhow!("interrupted")));
            }
        }
        self.runs_without_guest += 1;
        let last = &errors[BOOT_ATTEMPTS - 1];
        let why = format!("the guest failed to boot {BOOT_ATTEMPTS} times in a row, last: {last}");
        ensure!(
            self.runs_without_guest < RUNS_WITHOUT_GUEST_MAX,
            "for each of {RUNS_WITHOUT_GUEST_MAX} runs, {why}"
        );
        Ok(Err(anyhow!(why)))
    }

    /// Gives the runs of `key` a guest that has done nothing yet.
    fn begin_guest(&mut self, key: BootKey, unused: UnusedGuest) {
        let UnusedGuest { booted: BootedGuest { qemu, disk, boot }, since, stops, .. } = unused;
        let boot = Boot { boot: self.next_boot, block: key.block, ..boot };
        self.next_boot += 1;
        self.unwritten.push(boot.clone());
        let formatted = None;
        self.running = Some(RunningGuest { key, qemu, disk, formatted, boot, since, stops });
    }

    /// Ends the running guest, if there is one. `how` is its end in the record.
    fn end_guest(&mut self, how: &str) {
        let Some(guest) = self.running.take() else { return };
        let RunningGuest { key, qemu, disk, mut boot, since, .. } = guest;
        let is_well = how == SWITCHED_OFF;
        let is_off = is_well && power_off(qemu);
        let how =
            if is_well && !is_off { "did not switch itself off, and was stopped" } else { how };
        // A file system that was not unmounted cannot be checked.
        if let (true, Some(made), Some(disk)) = (is_off, &key.kept, &disk) {
            let advice = "do not trust its numbers; see what the guest's kernel says";
            let complaint = disk.complaint(made).map(|complaint| {
                let text = format!("{made} at the end of boot {}: {complaint}", boot.boot);
                Warning::new(text, advice)
            });
            self.warnings.extend(complaint);
        }
        boot.end = Some(how.to_string());
        boot.seconds = Some(since.elapsed().as_secs_f64());
        self.unwritten.push(boot);
    }

    /// Formats the disk of the running guest for a run, unless its file system is kept.
    fn format_disk(&mut self, made: Option<&FileSystem>) -> Result<()> {
        let guest = self.running.as_mut().context("a guest is up")?;
        let is_kept = guest.key.kept.is_some() && guest.formatted.is_some();
        if let (Some(made), Some(disk), false) = (made, &guest.disk, is_kept) {
            guest.formatted = Some(self.booter.format_disk(disk, made)?);
        }
        Ok(())
    }

    /// Does one run in the running guest.
    fn run_in_guest(&mut self, request: &RunRequest) -> Result<Option<RunOutcome>> {
        let made = request.planned.file_system;
        let formatted = self.format_disk(made);
        let guest = self.running.as_mut().context("a guest is up")?;
        let boot = Some(guest.boot.boot);
        if let Err(why) = formatted {
            return Ok(Some(RunOutcome { boot, ..RunOutcome::failed_to_start(&why) }));
        }
        let kept = guest.key.kept.is_some();
        let message = Request::Run(Box::new(guest_run(request, kept)?));
        let before = guest.qemu.times();
        let report = match guest.qemu.send(&line(&message)) {
            Ok(()) => listen(&mut guest.qemu, watchdog(&guest.key.guest, request)?),
            // It died after its last run, and its console says why.
            Err(_) if guest.qemu.wait(QEMU_EXIT_TIMEOUT) => {
                GuestReport::lost(console::exit_reason(&mut guest.qemu))
            }
            Err(why) => GuestReport::lost(format!("{why:#}")),
        };
        let after = guest.qemu.times();
        let mut outcome = RunOutcome { events: report.events, boot, ..RunOutcome::default() };
        let loads_modules = request.planned.loads_modules();
        outcome.warnings.extend(kernel_warning(&report.kernel_lines, loads_modules));
        match report.end {
            GuestRunEnd::Interrupted => return Ok(None),
            GuestRunEnd::Lost(why) => {
                outcome.exit = format!("was in a guest that {why}");
                self.end_guest(&format!("{why} in run {}", request.id.run));
                return Ok(Some(outcome));
            }
            GuestRunEnd::Done(result) => {
                outcome.exit = result.exit;
                outcome.invalid_because = result.invalid_because;
                outcome.warnings.extend(result.warnings);
                outcome.file_system = result.mounted;
            }
        }
        if let (Some(before), Some(after)) = (before, after) {
            add_cpu_times(&mut outcome.events, before, after);
        }
        if let (Some(made), Some(disk), Some(mounted)) =
            (made, &guest.disk, &mut outcome.file_system)
        {
            let formatted = guest.formatted.clone().unwrap_or_default();
            (mounted.geometry, mounted.aged) = (formatted.geometry, formatted.aged);
            mounted.on = format!("{}, a virtual disk on {}", mounted.on, disk.on);
            if !kept {
                outcome.invalid_because.extend(disk.complaint(made));
            }
        }
        Ok(Some(outcome))
    }
}

/// The guests of a record, of which the first run wants the last.
fn in_order_of_trial(record: &Record) -> Vec<Guest> {
    let mut guests = guest_config::guests(record);
    let planned = schedule::block(record, &[], 0);
    let first = planned.first().and_then(|first| record.points.get(first.point));
    let first = first.and_then(|point| record.guest(&point.variant));
    guests.sort_by_key(|guest| Some(guest) == first.as_ref());
    guests
}

/// The run as knee sends it to the guest's init.
fn guest_run(request: &RunRequest, kept: bool) -> Result<GuestRun> {
    let (number, variant) = (request.id.run.to_string(), request.planned.variant);
    let scratch = directory_of_run(&number, request.planned.file_system.is_some());
    // Init is process 1 of the guest, and the worker's parent there.
    let mut job = request.job(scratch.clone(), 1)?;
    job.work = match job.work {
        Work::Own(own) => {
            let program = Path::new("/").join(boot::program_in_guest(&own.name));
            Work::Own(OwnJob { program, ..own })
        }
        Work::Command(command) => Work::Command(commands::in_guest(command, &scratch, variant)?),
        work => work,
    };
    let deadline_s = request.deadline.as_secs_f64();
    let variant = variant.map(commands::variant_in_guest).transpose()?;
    Ok(GuestRun { job, variant, kept, deadline_s })
}

impl Guests {
    /// Does one run in a guest. Returns `None` if a signal interrupted it. An error ends the whole execution; a
    /// failure of this run alone is in its outcome.
    pub fn run(&mut self, request: &RunRequest) -> Result<Option<RunOutcome>> {
        match self.provide(request)? {
            _ if signals::received().is_some() => Ok(None),
            Ok(errors) => {
                let warnings = errors.into_iter().map(|why| {
                    Warning::new(
                        format!("the guest failed to boot at first: {why}"),
                        "if the kernel is at fault, that is a finding: repeat it with `knee kernel boot`",
                    )
                });
                let outcome = self.run_in_guest(request)?;
                Ok(outcome.map(|outcome| RunOutcome {
                    warnings: warnings.chain(outcome.warnings).collect(),
                    ..outcome
                }))
            }
            Err(why) => Ok(Some(RunOutcome::failed_to_start(&why))),
        }
    }

    /// The guests booted since the last call, to be written to the record.
    pub fn boots(&mut self) -> Vec<Boot> {
        std::mem::take(&mut self.unwritten)
    }

    /// Switches the last guest off. Returns what was wrong with guests.
    pub fn end(&mut self) -> Vec<Warning> {
        self.end_guest(SWITCHED_OFF);
        std::mem::take(&mut self.warnings)
    }
}

/// The file system that a run shares with the other runs of its boot, if any.
fn kept<'a>(request: &RunRequest<'a>) -> Option<&'a FileSystem> {
    let made = request.planned.file_system;
    made.filter(|_| request.record.experiment.storage.policy == Policy::Kept)
}

/// What a guest sent during a run, and how the run ended.
struct GuestReport {
    /// The worker's events.
    events: Vec<Event>,
    /// What the guest's kernel logged, of level "warning" or worse.
    kernel_lines: Vec<String>,
    end: GuestRunEnd,
}

/// How a run in a guest ended.
enum GuestRunEnd {
    Done(Box<GuestRunResult>),
    /// The guest is unusable, for this reason, to follow "the guest".
    Lost(String),
    Interrupted,
}

impl GuestReport {
    fn lost(why: String) -> GuestReport {
        GuestReport { events: Vec::new(), kernel_lines: Vec::new(), end: GuestRunEnd::Lost(why) }
    }
}

/// The limits after which knee gives up a guest in a run.
fn watchdog(guest: &Guest, request: &RunRequest) -> Result<Watchdog> {
    // A worker is silent while its tasks are measured.
    let quiet = match request.planned.point.until {
        Until::Seconds(seconds) => {
            Duration::from_secs_f64(seconds + request.record.experiment.stop_grace_s)
        }
        Until::OperationsPerTask(_) | Until::End => request.deadline,
    };
    Ok(Watchdog::new(guest_config::watchdog_time(guest)?, quiet, request.deadline))
}

/// Collects what the guest sends about a run, until the run is over.
fn listen(qemu: &mut Qemu, mut watchdog: Watchdog) -> GuestReport {
    let (mut events, mut kernel_lines) = (Vec::new(), Vec::new());
    let end = loop {
        if signals::received().is_some() {
            break GuestRunEnd::Interrupted;
        }
        match qemu.next(Duration::from_secs(1)) {
            GuestOutput::Line(text) => {
                watchdog.heard();
                match Reply::read(&text) {
                    Ok(Reply::Event(event)) => events.push(event),
                    Ok(Reply::Kernel(text)) => kernel_lines.push(text),
                    Ok(Reply::Done(result)) => break GuestRunEnd::Done(result),
                    // A line that a crash has cut: the loop sees the crash next.
                    Ok(_) | Err(_) => (),
                }
            }
            GuestOutput::Printed => watchdog.heard(),
            GuestOutput::Off => break GuestRunEnd::Lost(console::exit_reason(qemu)),
            GuestOutput::Nothing => (),
        }
        if let Some(why) = watchdog.check(qemu) {
            break GuestRunEnd::Lost(format!("{why} ({})", last_output(qemu, &events)));
        }
    };
    GuestReport { events, kernel_lines, end }
}

/// The last output of a guest that is given up.
fn last_output(qemu: &mut Qemu, events: &[Event]) -> String {
    let event = events.last().map(|event| event.line());
    // The name goes first: {"event":"ready", …
    let name = event.as_deref().and_then(|line| line.split('"').nth(3)).unwrap_or("nothing");
    let console = console::last_line(&qemu.console());
    format!("its worker last said: {name}; on its console last: {console}")
}

/// What the lines of a broken kernel's log contain.
const SPLATS: [&str; 9] = [
    "WARNING:",
    "BUG:",
    "Oops",
    "general protection",
    "INFO: task",
    "rcu:",
    "soft lockup",
    "possible circular locking",
    "possible recursive locking",
];

/// A warning about a run during which the guest's kernel logged warnings; it quotes the worst. Where the run loads modules
/// on purpose, such as one that tests a lock, these log what they do, and only a fault is worth a warning.
fn kernel_warning(kernel_lines: &[String], loads_modules: bool) -> Option<Warning> {
    let splat = kernel_lines.iter().find(|text| SPLATS.iter().any(|splat| text.contains(splat)));
    let text = splat.or_else(|| kernel_lines.first().filter(|_| !loads_modules))?;
    let others = match kernel_lines.len() {
        1 => String::new(),
        n => format!(", and {} more lines", n - 1),
    };
    let advice = match splat {
        Some(_) => "this kernel has a fault: do not trust its numbers before that is understood",
        None => "check what it means for this load",
    };
    Some(Warning::new(format!("the guest's kernel logged '{text}'{others}"), advice))
}

/// Adds to a measurement how long the guest's CPUs ran on the host's CPUs and waited for them.
fn add_cpu_times(events: &mut [Event], before: (u64, u64), after: (u64, u64)) {
    let seconds = |before: u64, after: u64| after.saturating_sub(before) as f64 / 1e9;
    for event in events {
        if let Event::Measured(measured) = event {
            let gauges = &mut measured.gauges;
            gauges.insert("guest.ran_s".to_string(), seconds(before.0, after.0));
            gauges.insert("guest.waited_s".to_string(), seconds(before.1, after.1));
        }
    }
}
