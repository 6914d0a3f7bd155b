//! Runs on this host under kernels that it boots for them. A boot ends the process, so this place does only the
//! runs of the boot that the host is in; for any other it says which boot it needs, and the session ends. Once
//! the host has booted, the record is resumed.
//!
//!     session 1: needs boot a ─ reboot ─ session 2: runs of a …, needs boot b ─ reboot ─ session 3: …

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use guests::build_id;
use guests::kernel::version_in;
use host::topology;
use records::{Boot, Guest, Warning};
use setup::journal::Journal;
use setup::metal::{Arrival, BOOT_ATTEMPTS, KernelBoot, initrd, running_version};

use super::local::Local;
use super::{RunOutcome, RunRequest};

/// This host, which boots kernels.
pub struct Metal {
    /// The boot that the host was last rebooted for.
    arrival: Option<Arrival>,
    /// The boot that the next run needs.
    needed: Option<KernelBoot>,
    /// The boot that the host is in, as the record has it.
    current: Option<Boot>,
    since: Instant,
    unwritten: Vec<Boot>,
}

impl Metal {
    /// The place after the reboot that knee asked for last, if there was one.
    pub fn new(arrival: Option<Arrival>) -> Metal {
        let (needed, current, unwritten) = (None, None, Vec::new());
        Metal { arrival, needed, current, since: Instant::now(), unwritten }
    }

    /// Whether runs of this place have been begun by an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.arrival.is_some()
    }

    /// The boot that the next run needs; `None` if none is needed.
    pub fn needed(&self) -> Option<&KernelBoot> {
        self.needed.as_ref()
    }

    /// Notes the boot that the host is in as the one of this number, unless it is the host's own kernel.
    pub fn begin(&mut self, number: u32) -> Result<()> {
        let Some((arrival, up_s)) = self.arrival.as_ref().and_then(|a| Some((a, a.up_s?))) else {
            return Ok(());
        };
        let boot = boot_now(number, &arrival.boot, up_s)?;
        if arrival.boot.guest.feature.is_none() {
            check_kernel(arrival, &boot)?;
        }
        self.unwritten.push(boot.clone());
        self.current = Some(boot);
        Ok(())
    }

    /// Does one run if the host is in its boot. Otherwise returns `None` and keeps the boot as needed.
    pub fn run(
        &mut self,
        local: &mut Local,
        journal: &mut Journal,
        request: &RunRequest,
    ) -> Result<Option<RunOutcome>> {
        let guest = request.record.metal(&request.planned.point.variant);
        let guest = guest.context("the variant has no kernel to boot (--on metal)")?;
        let wanted = KernelBoot { guest, block: request.id.block, placebo: request.placebo };
        let arrival = self.arrival.as_ref().filter(|arrival| arrival.boot == wanted);
        let lost = arrival.map(|arrival| arrival.lost.clone()).unwrap_or_default();
        match (arrival, &self.current) {
            (Some(_), Some(current)) => {
                let boot = Some(current.boot);
                let outcome = local.run(journal, request)?;
                let warnings: Vec<Warning> = lost.into_iter().map(lost_boot).collect();
                Ok(outcome.map(|outcome| RunOutcome {
                    boot,
                    warnings: [warnings, outcome.warnings].concat(),
                    ..outcome
                }))
            }
            _ if lost.len() >= BOOT_ATTEMPTS => {
                let why = anyhow!("lost {} boots in a row: {}", lost.len(), lost.join("; "));
                Ok(Some(RunOutcome::failed_to_start(&why)))
            }
            _ if let Some(why) = self.why_given_up(&wanted.guest) => {
                let why =
                    anyhow!("not booted again, since it never came up in an earlier block: {why}");
                Ok(Some(RunOutcome::failed_to_start(&why)))
            }
            _ => {
                self.needed = Some(wanted);
                Ok(None)
            }
        }
    }

    /// Why a kernel is not booted any more. A host with much memory takes minutes for each boot that is lost.
    fn why_given_up(&self, guest: &Guest) -> Option<&str> {
        let given_up = self.arrival.iter().flat_map(|arrival| &arrival.given_up);
        given_up.into_iter().find(|(known, _)| known == guest).map(|(_, why)| why.as_str())
    }

    /// The boots since the last call, to be written to the record.
    pub fn boots(&mut self) -> Vec<Boot> {
        std::mem::take(&mut self.unwritten)
    }

    /// Notes the end of the boot that the host is in.
    pub fn end(&mut self) {
        if let Some(boot) = self.current.take() {
            let (end, seconds) = (Some("was left for the next".to_string()), self.since.elapsed());
            self.unwritten.push(Boot { end, seconds: Some(seconds.as_secs_f64()), ..boot });
        }
    }
}

fn lost_boot(why: String) -> Warning {
    Warning::new(
        format!("an earlier attempt at this boot was lost: {why}"),
        "if the kernel is at fault, that is a finding: its console or pstore may tell",
    )
}

/// The facts about the boot that the host is in.
fn boot_now(number: u32, wanted: &KernelBoot, up_s: f64) -> Result<Boot> {
    let host = probes::host(Path::new("/"));
    let initrd_bytes = match initrd(&wanted.guest) {
        Ok(Some(path)) => fs::metadata(path).map_or(0, |found| found.len()),
        _ => 0,
    };
    Ok(Boot {
        boot: number,
        block: wanted.block,
        started: jiff::Timestamp::now(),
        guest: wanted.guest.clone(),
        release: host.kernel_release.clone().unwrap_or_default(),
        version: running_version()?,
        build_id: build_id::running(),
        command_line: host.kernel_command_line.clone().unwrap_or_default(),
        boot_id: host.boot_id.clone().unwrap_or_default(),
        accelerator: "metal".to_string(),
        text: None,
        up_s,
        topology: topology::read(Path::new("/sys"))?,
        modules: Vec::new(),
        initramfs_bytes: initrd_bytes,
        said: Vec::new(),
        end: None,
        seconds: None,
    })
}

/// Refuses to measure on another kernel than the file that was asked for.
fn check_kernel(arrival: &Arrival, boot: &Boot) -> Result<()> {
    let path = arrival.boot.guest.kernel.as_ref().context("a boot has a kernel")?;
    let running = Running {
        release: &boot.release,
        version: &boot.version,
        build_id: boot.build_id.as_deref(),
    };
    let why = running.difference(&version_in(path)?, arrival.build_id.as_deref());
    ensure!(
        why.is_none(),
        "the host runs another kernel than {}: {}. The file has changed since knee started, or something else was \
         booted; nothing is measured on it",
        path.display(),
        why.unwrap_or_default()
    );
    Ok(())
}

/// The kernel that runs.
#[derive(Clone, Copy)]
struct Running<'a> {
    release: &'a str,
    version: &'a str,
    build_id: Option<&'a str>,
}

impl Running<'_> {
    /// How it differs from a file with this version and build ID.
    fn difference(&self, file: &str, build_id: Option<&str>) -> Option<String> {
        let release = file.split(' ').next().unwrap_or_default();
        let built = file.split_once(" #").map(|(_, built)| built.trim());
        if release != self.release || built.is_some_and(|built| !self.version.ends_with(built)) {
            return Some(format!("'{}', not '{file}'", self.version));
        }
        match (build_id, self.build_id) {
            (Some(asked), Some(runs)) if asked != runs => {
                Some(format!("its build ID is {runs}, that of the file {asked}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kernel_than_the_file_is_noticed() {
        let version = "Linux version 6.1.0-9 (me@host) (gcc) #1 SMP Mon";
        let same = Running { release: "6.1.0-9", version, build_id: Some("ab") };
        let check = |running: Running, build_id, expected: Option<&str>| {
            let found = running.difference("6.1.0-9 (me@host) #1 SMP Mon", build_id);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            let found = found.unwrap_or_default();
            assert!(found.contains(expected.unwrap_or_default()), "{found}");
        };
        check(same, Some("ab"), None);
        check(Running { build_id: None, ..same }, Some("ab"), None);
        check(same, None, None);
        check(same, Some("ac"), Some("its build ID is ab, that of the file ac"));
        check(Running { release: "6.1.0-8", ..same }, Some("ab"), Some("not '6.1.0-9"));
        let later = version.replace("#1", "#2");
        check(Running { version: &later, ..same }, Some("ab"), Some("#2 SMP"));
    }
}
