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
mod flags;
mod hypervisor;
mod patience;
pub mod wishes;
pub mod words;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use guests::machine::{Came as Heard, Machine};
use records::{Boot, Event, FileSystem, Guest, Point, Policy, Record, Until, Warning};

use self::boot::Laid;
use self::disk::Disk;
use self::patience::Patience;
use self::words::{Ask, Done, ToRun, Word, line};
use super::{Came, Place, Wanted};
use crate::leftovers::Journal;
use crate::signals;
use crate::talk::talk;

pub use boot::{Booter, Up, off};
pub use flags::{GuestFlags, MachineFlags};
pub use wishes::wanted;

/// The guests of one session.
pub struct Guests {
    booter: Booter,
    up: Option<Running>,
    /// The number that the next boot gets.
    next: u32,
    /// Runs for which no guest came up.
    failed: u32,
    told: Vec<Boot>,
    /// What was wrong with file systems that runs shared.
    doubts: Vec<Warning>,
}

/// A guest that is up, for these runs.
struct Running {
    key: Key,
    machine: Machine,
    disk: Option<Disk>,
    /// What lies on it, once something does.
    laid: Option<Laid>,
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
        for guest in wanted(record) {
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
            off(up.machine);
            hypervisor = Some(found);
        }
        record.hypervisor = hypervisor;
        Ok(Guests {
            booter,
            up: None,
            next: boots,
            failed: 0,
            told: Vec::new(),
            doubts: Vec::new(),
        })
    }

    /// The guest for a run: the one that is up, or a new one, with why it did not come up at first. A
    /// boot that failed cost nothing that was measured, so it is tried again. The inner error is the
    /// run's.
    fn provide(&mut self, wanted: &Wanted) -> Result<Result<Vec<String>>> {
        let guest = wanted.record.guest(&wanted.point.variant).context("the run has no guest")?;
        let (block, placebo) = (wanted.moment.block, wanted.placebo);
        let key = Key { guest, block, placebo, kept: kept(wanted).cloned() };
        if self.up.as_ref().is_some_and(|up| up.key == key) {
            return Ok(Ok(Vec::new()));
        }
        self.retire("was switched off");
        let mut refused = Vec::new();
        while refused.len() < TRIES {
            let random = crate::verbs::run::random();
            match self.booter.boot(&key.guest, &wanted.point.dir, random) {
                Ok(Up { machine, disk, boot }) => {
                    let boot = Boot { boot: self.next, block: key.block, ..boot };
                    self.next += 1;
                    self.told.push(boot.clone());
                    let (laid, since) = (None, Instant::now());
                    self.up = Some(Running { key, machine, disk, laid, boot, since });
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
    fn retire(&mut self, how: &str) {
        let Some(Running { key, machine, disk, mut boot, since, .. }) = self.up.take() else {
            return;
        };
        let is_well = how == "was switched off";
        let is_off = is_well && off(machine);
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
        self.told.push(boot);
    }

    /// Puts on the disk of the guest that is up what a run wants there, unless it is kept.
    fn lay(&mut self, made: Option<&FileSystem>) -> Result<()> {
        let up = self.up.as_mut().context("a guest is up")?;
        let is_there = up.key.kept.is_some() && up.laid.is_some();
        if let (Some(made), Some(disk), false) = (made, &up.disk, is_there) {
            up.laid = Some(self.booter.lay(disk, made)?);
        }
        Ok(())
    }

    /// One run in the guest that is up.
    fn converse(&mut self, wanted: &Wanted) -> Result<Option<Came>> {
        let variant = wanted.variant();
        let made = variant.and_then(|variant| variant.file_system.as_ref());
        let laid = self.lay(made);
        let up = self.up.as_mut().context("a guest is up")?;
        let mut came = Came { boot: Some(up.boot.boot), ..Came::refused(String::new()) };
        if let Err(why) = laid {
            return Ok(Some(Came { boot: came.boot, ..Came::refused(format!("{why:#}")) }));
        }
        came.events.clear();
        let kept = up.key.kept.is_some();
        // Its own process is number 1 there, as ours is here.
        let job = wanted.job(wanted.moment.run.to_string().into(), 1)?;
        let job = records::Job { scratch: format!("/{}", job.scratch.display()).into(), ..job };
        let ask = Ask::Run(Box::new(ToRun {
            job,
            variant: variant.cloned(),
            kept,
            deadline_s: wanted.deadline.as_secs_f64(),
        }));
        let before = up.machine.times();
        let end = match up.machine.say(&line(&ask)) {
            Ok(()) => listen(&mut up.machine, patience(&up.key.guest, wanted)?, &mut came),
            // It died after its last run, and its console says why.
            Err(_) if up.machine.wait(DYING) => End::Lost(boot::last_act(&mut up.machine)),
            Err(why) => End::Lost(format!("{why:#}")),
        };
        let after = up.machine.times();
        came.warnings.extend(kernel_warning(&came.spoilt));
        came.spoilt.clear();
        match end {
            End::Interrupted => return Ok(None),
            End::Lost(why) => {
                came.death = format!("was in a guest that {why}");
                let why = format!("{why} in run {}", wanted.moment.run);
                self.retire(&why);
                return Ok(Some(came));
            }
            End::Done(done) => {
                let Done { death, spoilt, warnings, mounted } = *done;
                came.death = death;
                came.spoilt = spoilt;
                came.warnings.extend(warnings);
                came.file_system = mounted;
            }
        }
        if let (Some(before), Some(after)) = (before, after) {
            note_times(&mut came.events, before, after);
        }
        if let (Some(made), Some(disk), Some(mounted)) = (made, &up.disk, &mut came.file_system) {
            let laid = up.laid.clone().unwrap_or_default();
            (mounted.geometry, mounted.aged) = (laid.geometry, laid.aged);
            mounted.on = format!("{}, a virtual disk on {}", mounted.on, disk.on);
            if !kept {
                came.spoilt.extend(disk.complaint(made));
            }
        }
        Ok(Some(came))
    }
}

impl Place for Guests {
    fn run(&mut self, _: &mut Journal, wanted: &Wanted) -> Result<Option<Came>> {
        match self.provide(wanted)? {
            _ if signals::received().is_some() => Ok(None),
            Ok(refused) => {
                let doubts = refused.into_iter().map(|why| {
                    Warning::new(
                        format!("the guest did not come up at first: {why}"),
                        "if that is the kernel's fault, it is a finding: `knee boot` it some times",
                    )
                });
                let came = self.converse(wanted)?;
                Ok(came
                    .map(|came| Came { warnings: doubts.chain(came.warnings).collect(), ..came }))
            }
            Err(why) => Ok(Some(Came::refused(format!("{why:#}")))),
        }
    }

    fn boots(&mut self) -> Vec<Boot> {
        std::mem::take(&mut self.told)
    }

    fn end(&mut self, _: &mut Journal) -> Result<Vec<Warning>> {
        self.retire("was switched off");
        Ok(std::mem::take(&mut self.doubts))
    }
}

/// The file system that a run shares with those of its boot, if so.
fn kept<'a>(wanted: &Wanted<'a>) -> Option<&'a FileSystem> {
    let made = wanted.variant()?.file_system.as_ref();
    made.filter(|_| wanted.record.experiment.storage.policy == Policy::Kept)
}

/// How a conversation ended.
enum End {
    Done(Box<Done>),
    /// The guest is of no use any more, because it …
    Lost(String),
    Interrupted,
}

/// How long a guest is waited for in a run.
fn patience(guest: &Guest, wanted: &Wanted) -> Result<Patience> {
    let Point { until, .. } = wanted.point;
    // Nothing is said while tasks are measured.
    let quiet = match until {
        Until::Seconds(seconds) => {
            Duration::from_secs_f64(seconds + wanted.record.experiment.stop_grace_s)
        }
        Until::OperationsPerTask(_) | Until::End => wanted.deadline,
    };
    Ok(Patience::new(wishes::patience(guest)?, quiet, wanted.deadline))
}

/// Hears what the guest says about a run, until that is over. What its kernel says is left in
/// `spoilt`.
fn listen(machine: &mut Machine, mut patience: Patience, came: &mut Came) -> End {
    loop {
        if signals::received().is_some() {
            return End::Interrupted;
        }
        match machine.next(Duration::from_secs(1)) {
            Heard::Line(text) => {
                patience.heard();
                match serde_json::from_str(&text) {
                    Ok(Word::Event(event)) => came.events.push(event),
                    Ok(Word::Kernel(text)) => came.spoilt.push(text),
                    Ok(Word::Done(done)) => return End::Done(done),
                    // Torn by a crash, which is noticed next.
                    Ok(Word::Up(_) | Word::Aged(_) | Word::Ended(_)) | Err(_) => (),
                }
            }
            Heard::Printed => patience.heard(),
            Heard::Off => return End::Lost(boot::last_act(machine)),
            Heard::Nothing => (),
        }
        if let Some(why) = patience.tried(machine) {
            return End::Lost(format!("{why} ({})", last_heard(machine, &came.events)));
        }
    }
}

/// What a guest that is given up has said last.
fn last_heard(machine: &mut Machine, events: &[Event]) -> String {
    let event = events.last().map(|event| event.line());
    // The name goes first: {"event":"ready", …
    let name = event.as_deref().and_then(|line| line.split('"').nth(3)).unwrap_or("nothing");
    let console = boot::last_line(&machine.console());
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
fn note_times(events: &mut [Event], before: (u64, u64), after: (u64, u64)) {
    let seconds = |before: u64, after: u64| after.saturating_sub(before) as f64 / 1e9;
    for event in events {
        if let Event::Measured(measured) = event {
            let gauges = &mut measured.gauges;
            gauges.insert("guest.ran_s".to_string(), seconds(before.0, after.0));
            gauges.insert("guest.waited_s".to_string(), seconds(before.1, after.1));
        }
    }
}
