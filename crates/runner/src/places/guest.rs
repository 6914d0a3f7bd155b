//! A virtual machine: a kernel file is booted with knee as its init, which does the jobs of one
//! variant in one block. Each block boots anew, so the boot is what is repeated.
//!
//!     block 0:  boot base: runs … off ─ boot patched: runs … off
//!     block 1:  boot patched: runs … off ─ boot base: runs … off
//!
//! A guest that panics, hangs or stops costs the run in progress; the next one boots again.

mod ageing;
pub mod boot;
mod disk;
mod hypervisor;
pub mod init;
pub mod protocol;
mod watchdog;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use guests::qemu::{GuestOutput, Qemu};
use host::signals;
use host::stderr::talk;
use plan::guest_config;
use records::{Boot, Event, FileSystem, Guest, Policy, Record, Until, Warning};
use setup::journal::Journal;

use crate::places::guest::boot::FormattedDisk;
use crate::places::guest::disk::Disk;
use crate::places::guest::protocol::{Done, GuestRun, Reply, Request, line};
use crate::places::guest::watchdog::Watchdog;
use crate::places::{Place, RunOutcome, RunRequest};

pub use boot::{Booter, Up, off};

/// The host CPUs that this process may use, for guests to run on.
pub fn allowed_cpus() -> Result<Vec<u32>> {
    probes::limits(Path::new("/")).cpus_allowed.map_err(anyhow::Error::msg)
}

/// The guests of one session.
pub struct Guests {
    booter: Booter,
    up: Option<Running>,
    /// The number that the next boot gets.
    next: u32,
    /// Runs for which no guest came up.
    failed: u32,
    /// Boots that are not written down yet.
    unwritten: Vec<Boot>,
    /// What was wrong with file systems that runs shared.
    doubts: Vec<Warning>,
}

/// A guest that is up, for these runs.
struct Running {
    key: Key,
    qemu: Qemu,
    disk: Option<Disk>,
    /// What lies on it, once something does.
    formatted: Option<FormattedDisk>,
    boot: Boot,
    since: Instant,
}

/// Runs that share a boot.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    guest: Guest,
    block: u32,
    placebo: bool,
    /// What these runs share, with the policy `kept`.
    kept: Option<FileSystem>,
}

/// How often a boot is tried.
const TRIES: usize = 3;

/// How long QEMU may take to end when its guest is dead.
const DYING: Duration = Duration::from_secs(5);

/// A kernel that does not come up for so many runs will not come up.
const FAILURES_MAX: u32 = 2;

impl Guests {
    /// Finds out what executes guests, and boots each that the record wants once, so that what cannot
    /// be is refused before anything is measured.
    pub fn new(record: &mut Record, boots: u32) -> Result<Guests> {
        let mut booter = Booter::new(record)?;
        let mut hypervisor = None;
        for guest in guest_config::guests_of(record) {
            if signals::received().is_some() {
                break;
            }
            // Once more, as any boot.
            let (found, up) = booter.try_out(&guest).or_else(|_| booter.try_out(&guest))?;
            let release = &up.boot.release;
            let advice = "see what it means for what is compared";
            let doubts = up.boot.said.iter().filter(|said| said.starts_with("knee: "));
            record.warnings.extend(doubts.map(|said| Warning::new(&said[6..], advice)));
            talk(format_args!(
                "Linux {release} is up after {:.1} s ({})",
                up.boot.up_s, found.accelerator
            ));
            off(up.qemu);
            hypervisor = Some(found);
        }
        record.hypervisor = hypervisor;
        Ok(Guests {
            booter,
            up: None,
            next: boots,
            failed: 0,
            unwritten: Vec::new(),
            doubts: Vec::new(),
        })
    }

    /// The guest for a run: the one that is up, or a new one, with why it did not come up at first. A
    /// boot that failed cost nothing that was measured, so it is tried again. The inner error is the
    /// run's.
    fn provide(&mut self, request: &RunRequest) -> Result<Result<Vec<String>>> {
        let guest = request.planned.guest.clone().context("the run has no guest")?;
        let (block, placebo) = (request.id.block, request.placebo);
        let key = Key { guest, block, placebo, kept: kept(request).cloned() };
        if self.up.as_ref().is_some_and(|up| up.key == key) {
            return Ok(Ok(Vec::new()));
        }
        self.switch_off("was switched off");
        let mut refused = Vec::new();
        while refused.len() < TRIES {
            let random = host::random();
            match self.booter.boot(&key.guest, &request.planned.point.dir, random) {
                Ok(Up { qemu, disk, boot }) => {
                    let boot = Boot { boot: self.next, block: key.block, ..boot };
                    self.next += 1;
                    self.unwritten.push(boot.clone());
                    let (formatted, since) = (None, Instant::now());
                    self.up = Some(Running { key, qemu, disk, formatted, boot, since });
                    return Ok(Ok(refused));
                }
                Err(why) => refused.push(format!("{why:#}")),
            }
            if signals::received().is_some() {
                return Ok(Err(anyhow!("interrupted")));
            }
        }
        self.failed += 1;
        let why = format!(
            "the guest did not come up {TRIES} times in a row, at last: {}",
            refused[TRIES - 1]
        );
        ensure!(self.failed < FAILURES_MAX, "for {FAILURES_MAX} runs {why}");
        Ok(Err(anyhow!(why)))
    }

    /// Ends the guest that is up, if one is.
    fn switch_off(&mut self, how: &str) {
        let Some(Running { key, qemu, disk, mut boot, since, .. }) = self.up.take() else {
            return;
        };
        let is_well = how == "was switched off";
        let is_off = is_well && off(qemu);
        let how = match is_well && !is_off {
            true => "did not switch itself off, and was stopped",
            false => how,
        };
        // What died with its guest has no end to be checked.
        if let (true, Some(made), Some(disk)) = (is_off, &key.kept, &disk) {
            let advice = "its numbers are not to be trusted; see what the guest's kernel says";
            let complaint = disk.complaint(made).map(|complaint| {
                let text = format!("{made} at the end of boot {}: {complaint}", boot.boot);
                Warning::new(text, advice)
            });
            self.doubts.extend(complaint);
        }
        boot.end = Some(how.to_string());
        boot.seconds = Some(since.elapsed().as_secs_f64());
        self.unwritten.push(boot);
    }

    /// Puts on the disk of the guest that is up what a run wants there, unless it is kept.
    fn format_disk(&mut self, made: Option<&FileSystem>) -> Result<()> {
        let up = self.up.as_mut().context("a guest is up")?;
        let is_there = up.key.kept.is_some() && up.formatted.is_some();
        if let (Some(made), Some(disk), false) = (made, &up.disk, is_there) {
            up.formatted = Some(self.booter.format_disk(disk, made)?);
        }
        Ok(())
    }

    /// One run in the guest that is up.
    fn run_in_guest(&mut self, request: &RunRequest) -> Result<Option<RunOutcome>> {
        let made = request.planned.file_system;
        let formatted = self.format_disk(made);
        let up = self.up.as_mut().context("a guest is up")?;
        let boot = Some(up.boot.boot);
        if let Err(why) = formatted {
            return Ok(Some(RunOutcome { boot, ..RunOutcome::failed_to_start(&why) }));
        }
        let kept = up.key.kept.is_some();
        let message = Request::Run(Box::new(guest_run(request, kept)?));
        let before = up.qemu.times();
        let heard = match up.qemu.send(&line(&message)) {
            Ok(()) => listen(&mut up.qemu, watchdog(&up.key.guest, request)?),
            // It died after its last run, and its console says why.
            Err(_) if up.qemu.wait(DYING) => Heard::lost(boot::last_act(&mut up.qemu)),
            Err(why) => Heard::lost(format!("{why:#}")),
        };
        let after = up.qemu.times();
        let mut outcome = RunOutcome { events: heard.events, boot, ..RunOutcome::default() };
        outcome.warnings.extend(kernel_warning(&heard.kernel_lines));
        match heard.end {
            End::Interrupted => return Ok(None),
            End::Lost(why) => {
                outcome.exit = format!("was in a guest that {why}");
                self.switch_off(&format!("{why} in run {}", request.id.run));
                return Ok(Some(outcome));
            }
            End::Done(done) => {
                outcome.exit = done.exit;
                outcome.invalid_because = done.invalid_because;
                outcome.warnings.extend(done.warnings);
                outcome.file_system = done.mounted;
            }
        }
        if let (Some(before), Some(after)) = (before, after) {
            add_cpu_times(&mut outcome.events, before, after);
        }
        if let (Some(made), Some(disk), Some(mounted)) = (made, &up.disk, &mut outcome.file_system)
        {
            let formatted = up.formatted.clone().unwrap_or_default();
            (mounted.geometry, mounted.aged) = (formatted.geometry, formatted.aged);
            mounted.on = format!("{}, a virtual disk on {}", mounted.on, disk.on);
            if !kept {
                outcome.invalid_because.extend(disk.complaint(made));
            }
        }
        Ok(Some(outcome))
    }
}

/// The run as the guest's init gets it.
fn guest_run(request: &RunRequest, kept: bool) -> Result<GuestRun> {
    // Init is process 1 of the guest, and the worker's parent there.
    let job = request.job(request.id.run.to_string().into(), 1)?;
    let job = records::Job { scratch: format!("/{}", job.scratch.display()).into(), ..job };
    let deadline_s = request.deadline.as_secs_f64();
    Ok(GuestRun { job, variant: request.planned.variant.cloned(), kept, deadline_s })
}

impl Place for Guests {
    fn run(&mut self, _: &mut Journal, request: &RunRequest) -> Result<Option<RunOutcome>> {
        match self.provide(request)? {
            _ if signals::received().is_some() => Ok(None),
            Ok(refused) => {
                let doubts = refused.into_iter().map(|why| {
                    Warning::new(
                        format!("the guest did not come up at first: {why}"),
                        "if that is the kernel's fault, it is a finding: `knee boot` it some times",
                    )
                });
                let outcome = self.run_in_guest(request)?;
                Ok(outcome.map(|outcome| RunOutcome {
                    warnings: doubts.chain(outcome.warnings).collect(),
                    ..outcome
                }))
            }
            Err(why) => Ok(Some(RunOutcome::failed_to_start(&why))),
        }
    }

    fn boots(&mut self) -> Vec<Boot> {
        std::mem::take(&mut self.unwritten)
    }

    fn end(&mut self, _: &mut Journal) -> Result<Vec<Warning>> {
        self.switch_off("was switched off");
        Ok(std::mem::take(&mut self.doubts))
    }
}

/// The file system that a run shares with those of its boot, if it shares one.
fn kept<'a>(request: &RunRequest<'a>) -> Option<&'a FileSystem> {
    let made = request.planned.file_system;
    made.filter(|_| request.record.experiment.storage.policy == Policy::Kept)
}

/// What a guest sent during a run, and how that ended.
struct Heard {
    /// The worker's events.
    events: Vec<Event>,
    /// What the guest's kernel logged, of level "warning" or worse.
    kernel_lines: Vec<String>,
    end: End,
}

/// How a run in a guest ended.
enum End {
    Done(Box<Done>),
    /// The guest is of no use any more, because it …
    Lost(String),
    Interrupted,
}

impl Heard {
    fn lost(why: String) -> Heard {
        Heard { events: Vec::new(), kernel_lines: Vec::new(), end: End::Lost(why) }
    }
}

/// How long knee waits for a guest in a run.
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
fn listen(qemu: &mut Qemu, mut watchdog: Watchdog) -> Heard {
    let (mut events, mut kernel_lines) = (Vec::new(), Vec::new());
    let end = loop {
        if signals::received().is_some() {
            break End::Interrupted;
        }
        match qemu.next(Duration::from_secs(1)) {
            GuestOutput::Line(text) => {
                watchdog.heard();
                match serde_json::from_str(&text) {
                    Ok(Reply::Event(event)) => events.push(event),
                    Ok(Reply::Kernel(text)) => kernel_lines.push(text),
                    Ok(Reply::Done(done)) => break End::Done(done),
                    // Torn by a crash, which is noticed next.
                    Ok(Reply::Ready(_) | Reply::Aged(_) | Reply::Ended(_)) | Err(_) => (),
                }
            }
            GuestOutput::Printed => watchdog.heard(),
            GuestOutput::Off => break End::Lost(boot::last_act(qemu)),
            GuestOutput::Nothing => (),
        }
        if let Some(why) = watchdog.tried(qemu) {
            break End::Lost(format!("{why} ({})", last_heard(qemu, &events)));
        }
    };
    Heard { events, kernel_lines, end }
}

/// What a guest that is given up has said last.
fn last_heard(qemu: &mut Qemu, events: &[Event]) -> String {
    let event = events.last().map(|event| event.line());
    // The name goes first: {"event":"ready", …
    let name = event.as_deref().and_then(|line| line.split('"').nth(3)).unwrap_or("nothing");
    let console = boot::last_line(&qemu.console());
    format!("its worker last said: {name}; on its console last: {console}")
}

/// What in the kernel's words means that it is broken, or warns of it.
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

/// What the kernel said during a run, as a doubt about it; the worst first.
fn kernel_warning(said: &[String]) -> Option<Warning> {
    let splat = said.iter().find(|text| SPLATS.iter().any(|splat| text.contains(splat)));
    let text = splat.or_else(|| said.first())?;
    let others = match said.len() {
        1 => String::new(),
        n => format!(", and {} lines more", n - 1),
    };
    let advice = match splat {
        Some(_) => "this kernel has a fault: do not trust its numbers before that is understood",
        None => "see what it means for this load",
    };
    Some(Warning::new(format!("the guest's kernel said '{text}'{others}"), advice))
}

/// Adds to what was measured how long the guest's CPUs ran on the host and waited for it.
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
