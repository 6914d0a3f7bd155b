//! A line of kernels by exact counts: what each operation of knee's workloads executes in the kernel, and which lines of
//! memory its CPUs need from each other. Counts come from emulated CPUs, so a point needs a kernel file and nothing else,
//! and another count is another kernel: there is no noise to decide about.
//!
//!     kernel ──> boot 1: each workload on each number of CPUs ──┐
//!           └──> boot 2: all of that once more ─────────────────┴──> counts ──> changes from kernel to kernel
//!
//! **The file of points**, `NAME.points.ndjson`, is the log of this. Each line is durable before the next count begins, so
//! that a killed `knee watch add` goes on where it was:
//!
//!     {"event":"begun","version":1,"knee":"0.1.0","at":…,"experiment":{"cpus":"1,2","operations":"64","workloads":"stat,…"}}
//!     {"event":"kernel","name":"6.12","image":"/…/vmlinuz","sha256":…,"release":"6.12.43+deb12-cloud-amd64","at":…}
//!     {"event":"boot","kernel":"6.12","boot":1,"at":…,"up_s":9.1,"knee":…,"emulator":"QEMU emulator version 7.2…",…}
//!     {"event":"counted","kernel":"6.12","boot":1,"workload":"stat","cpus":2,"semantics":1,"counts":{…},"functions":{…}}
//!     {"event":"counted","kernel":"6.12","boot":1,"workload":"xattr_set","cpus":1,"failed":"needs a file system …"}
//!
//! A kernel with the image of an earlier one has `same_as` in place of counts. A point is whole when both boots have all
//! workloads; what is missing is counted by the next `add`. Kernels stand in the order of their versions, whenever they were
//! added.
//!
//! **What follows**, computed anew each time: `change` compares each kernel with the one before it, workload by workload.
//! What the two boots of one kernel disagree about is its spread, and a difference below four spreads is none. A change has
//! an id, `KERNEL/WORKLOAD`, for `knee watch ack`, whose words go to `NAME.acks.ndjson` as those about other lines do; a
//! kernel's name alone accepts all its changes. A change is *gone again* if the newest kernel counts as the one before the
//! change does. `knee watch check` fails while a change for the worse is open.

mod answer;
mod change;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use answers::Conflicts;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

pub use self::answer::{
    FailedCount, KernelChange, KernelLineAnswer, KernelPoint, UnsteadyCount, WorkloadCounts,
};
pub use self::change::{Difference, FunctionChange, InstructionChange};
use crate::lines::{self, Lines, LinesOf};
use crate::watch::Ack;

/// Version of the files beside a line's own.
const VERSION: u32 = 1;

/// Boots of a kernel, each of which counts everything.
pub const BOOTS: u8 = 2;

const POINTS: LinesOf =
    LinesOf { file: "the points of a line", owner: "line", go_on: "add the kernel again" };
const ACKS: LinesOf =
    LinesOf { file: "the acks of a line", owner: "line", go_on: "ack the change again" };

/// What the file of a line says that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineOf {
    Kernels,
}

/// The file of a line of kernels: what its user chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelLineFile {
    /// Tells this file from that of a line of commits.
    pub of: LineOf,
    /// Numbers of CPUs, each with a task of its own, on which each workload is counted.
    pub cpus: BTreeSet<u32>,
    /// Operations of each task in the first window; the second has twice as many.
    pub operations: u64,
    /// Smallest change of instructions an operation that matters, as a share.
    pub smallest_effect: f64,
    /// The workloads: `stat`, or with values of parameters `path_call:open:file`.
    pub workloads: Vec<String>,
}

impl KernelLineFile {
    /// What decides a count, by names.
    fn experiment(&self) -> BTreeMap<String, String> {
        let cpus: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
        let fields = [("cpus", cpus.join(",")), ("operations", self.operations.to_string())];
        fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// A line of the file of points.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum KernelEvent {
    /// The first line. Workloads may join a line later, so they are not in `experiment`.
    Begun {
        version: u32,
        knee: String,
        at: jiff::Timestamp,
        experiment: BTreeMap<String, String>,
    },
    Kernel(Kernel),
    Boot(Booted),
    Counted(Box<Counted>),
}

/// A kernel of the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// What the user calls it.
    pub name: String,
    pub image: PathBuf,
    /// Hash of the image.
    pub sha256: String,
    pub release: String,
    pub at: jiff::Timestamp,
    /// An earlier kernel of this image, whose counts it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_as: Option<String>,
}

/// A boot that counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Booted {
    pub kernel: String,
    /// 1 or 2; a boot that was cut off has the number of the one that goes on.
    pub boot: u8,
    pub at: jiff::Timestamp,
    pub up_s: f64,
    pub knee: String,
    /// What QEMU says of its version.
    pub emulator: String,
    pub command_line: String,
}

/// What a workload counted in a boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    pub kernel: String,
    pub boot: u8,
    pub workload: String,
    pub cpus: u32,
    /// Version of what the workload does: counts of two versions are not compared.
    pub semantics: u32,
    pub seconds: f64,
    /// Instructions an operation, and contended lines without what is only for readers of one trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Conflicts>,
    /// Instructions an operation in each function of the kernel, on the fewest CPUs: the mean over both windows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, f64>,
    /// Why nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Whether the kernel has no types (BTF): then its lines have other names, and are compared with those of such kernels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_types: bool,
    /// Whether the guest died of it, or was given up: then the next `add` tries again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub died: bool,
}

/// A line with its files.
pub struct KernelLinePaths {
    /// The file that the user named.
    pub path: PathBuf,
    pub file: KernelLineFile,
}

/// A line that is being added to. Nobody else can add meanwhile.
pub struct OpenKernelLine {
    lines: Lines,
    pub line: KernelLine,
    /// Guests that died in a count, since the line was opened.
    deaths: BTreeMap<CountKey, u8>,
}

/// Guests that may die in a count before it is given up.
const DEATHS: u8 = 2;

/// A line, read.
#[derive(Clone, Debug, Default)]
pub struct KernelLine {
    /// In the order of their versions.
    pub kernels: Vec<Kernel>,
    boots: Vec<Booted>,
    counted: BTreeMap<CountKey, Counted>,
    acks: Vec<Ack>,
}

/// A place of the line that a count belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CountKey {
    kernel: String,
    workload: String,
    cpus: u32,
    boot: u8,
}

impl KernelLinePaths {
    /// The file of counts.
    pub fn points_path(&self) -> PathBuf {
        self.path.with_extension("points.ndjson")
    }

    fn acks_path(&self) -> PathBuf {
        self.path.with_extension("acks.ndjson")
    }

    /// The line as its files have it. One without kernels has none.
    ///
    /// # Errors
    /// Says which line of a file is no event, or that the counts are of another experiment than the file says.
    pub fn read(&self) -> Result<KernelLine> {
        let events = read_if_there(&self.points_path(), POINTS)?;
        self.check(&events)?;
        let acks = read_if_there(&self.acks_path(), ACKS)?;
        Ok(KernelLine::new(events, acks))
    }

    /// Opens the line to add to it.
    ///
    /// # Errors
    /// As [`KernelLinePaths::read`]; and if another knee adds to it.
    pub fn open(&self) -> Result<OpenKernelLine> {
        let (mut lines, events) = Lines::open::<KernelEvent>(&self.points_path(), POINTS)?;
        self.check(&events)?;
        if events.is_empty() {
            lines.append(&KernelEvent::Begun {
                version: VERSION,
                knee: env!("CARGO_PKG_VERSION").to_string(),
                at: jiff::Timestamp::now(),
                experiment: self.file.experiment(),
            })?;
        }
        let line = KernelLine::new(events, Vec::new());
        Ok(OpenKernelLine { lines, line, deaths: BTreeMap::new() })
    }

    fn check(&self, events: &[KernelEvent]) -> Result<()> {
        let points = self.points_path();
        let points = points.display();
        let Some(KernelEvent::Begun { version, experiment, .. }) = events.first() else {
            ensure!(events.is_empty(), "{points} does not begin a line of kernels");
            return Ok(());
        };
        ensure!(
            *version <= VERSION,
            "{points} is of a newer knee: its version is {version}, this one reads {VERSION}"
        );
        let now = self.file.experiment();
        let differing = now.iter().find(|(name, value)| experiment.get(*name) != Some(value));
        if let Some((name, value)) = differing {
            let before = experiment.get(name).cloned().unwrap_or_default();
            bail!(
                "{}: {name} was '{before}' and is '{value}': counts of both cannot be compared with those in {points}. \
                 Undo that, or begin a new line in another file (`knee watch init`)",
                self.path.display()
            );
        }
        Ok(())
    }

    /// Keeps a user's word about a change, `KERNEL/WORKLOAD` or an unambiguous start of it, or about all changes of a kernel.
    /// Returns the ids.
    ///
    /// # Errors
    /// Lists the changes if none, or more than one, is meant.
    pub fn ack(&self, id: &str, why: &str, is_false: bool) -> Result<Vec<String>> {
        let answer = self.read()?.answer(self);
        let said: Vec<&KernelChange> = answer.said().collect();
        let is_of_kernel = said.iter().any(|change| change.after == id);
        let is_meant = |change: &&&KernelChange| {
            if is_of_kernel {
                change.after == id
            } else {
                !id.is_empty() && change.id.starts_with(id)
            }
        };
        let mut meant: Vec<String> =
            said.iter().filter(is_meant).map(|change| change.id.clone()).collect();
        if let Some(exact) = meant.iter().find(|one| *one == id) {
            meant = vec![exact.clone()];
        }
        if meant.is_empty() || (meant.len() > 1 && !is_of_kernel) {
            let ids: Vec<&str> = said.iter().map(|change| change.id.as_str()).collect();
            let known = if ids.is_empty() { "it has none".to_string() } else { ids.join(", ") };
            bail!("no single change of this line begins with '{id}': {known}");
        }
        let (mut acks, _) = Lines::open::<Ack>(&self.acks_path(), ACKS)?;
        for change in &meant {
            let (change, why) = (change.clone(), why.to_string());
            acks.append(&Ack { change, why, is_false, at: jiff::Timestamp::now() })?;
        }
        Ok(meant)
    }
}

fn read_if_there<E: serde::de::DeserializeOwned + Send>(
    path: &Path,
    of: LinesOf,
) -> Result<Vec<E>> {
    if path.exists() { Ok(lines::read(path, of)?.0) } else { Ok(Vec::new()) }
}

impl OpenKernelLine {
    /// Appends an event. When this returns, it is durable.
    ///
    /// # Errors
    /// Says that the file cannot be written.
    pub fn append(&mut self, event: KernelEvent) -> Result<()> {
        self.lines.append(&event).context("adding to the line")?;
        self.line.take(event);
        Ok(())
    }

    /// Notes that a guest died in a count. The second time, that is what was counted.
    ///
    /// # Errors
    /// As [`OpenKernelLine::append`].
    pub fn died(&mut self, counted: Counted) -> Result<()> {
        let deaths = self.deaths.entry(counted.key()).or_default();
        *deaths += 1;
        if *deaths < DEATHS {
            return Ok(());
        }
        self.append(KernelEvent::Counted(Box::new(Counted { died: true, ..counted })))
    }

    /// What a boot of a kernel has to count still: its workloads, and the numbers of CPUs.
    pub fn missing(&self, file: &KernelLineFile, kernel: &str, boot: u8) -> Vec<(String, u32)> {
        let mut missing = self.line.missing(file, kernel, boot);
        missing.retain(|(workload, cpus)| {
            let (kernel, workload) = (kernel.to_string(), workload.clone());
            let key = CountKey { kernel, workload, cpus: *cpus, boot };
            self.deaths.get(&key).is_none_or(|deaths| *deaths < DEATHS)
        });
        missing
    }
}

impl Counted {
    fn key(&self) -> CountKey {
        CountKey {
            kernel: self.kernel.clone(),
            workload: self.workload.clone(),
            cpus: self.cpus,
            boot: self.boot,
        }
    }
}

impl KernelLine {
    /// The line that these events make.
    pub fn new(events: Vec<KernelEvent>, acks: Vec<Ack>) -> KernelLine {
        let mut line = KernelLine { acks, ..KernelLine::default() };
        events.into_iter().for_each(|event| line.take(event));
        line
    }

    fn take(&mut self, event: KernelEvent) {
        match event {
            KernelEvent::Begun { .. } => (),
            KernelEvent::Kernel(kernel) => {
                let version = version(&kernel.release);
                let is_before = |known: &Kernel| self::version(&known.release) <= version;
                let place = self.kernels.iter().rposition(is_before).map_or(0, |at| at + 1);
                self.kernels.insert(place, kernel);
            }
            KernelEvent::Boot(boot) => self.boots.push(boot),
            KernelEvent::Counted(counted) => {
                self.counted.insert(counted.key(), *counted);
            }
        }
    }

    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The kernel that was counted with this image.
    pub fn with_image(&self, sha256: &str) -> Option<&Kernel> {
        let is_it = |kernel: &&Kernel| kernel.sha256 == sha256 && kernel.same_as.is_none();
        self.kernels.iter().find(is_it)
    }

    /// What a boot of a kernel has not counted yet: workloads, and numbers of CPUs.
    pub fn missing(&self, file: &KernelLineFile, kernel: &str, boot: u8) -> Vec<(String, u32)> {
        let all = file
            .workloads
            .iter()
            .flat_map(|workload| file.cpus.iter().map(move |cpus| (workload.clone(), *cpus)));
        let is_missing = |(workload, cpus): &(String, u32)| {
            self.count(kernel, workload, *cpus, boot).is_none_or(|counted| counted.died)
        };
        all.filter(is_missing).collect()
    }

    fn count(&self, kernel: &str, workload: &str, cpus: u32, boot: u8) -> Option<&Counted> {
        let (kernel, workload) = (kernel.to_string(), workload.to_string());
        self.counted.get(&CountKey { kernel, workload, cpus, boot })
    }

    /// What all boots of a kernel counted; `None` where one failed or is not there yet.
    fn counts(&self, kernel: &Kernel, workload: &str, cpus: u32) -> Option<Vec<&Counted>> {
        let name = kernel.same_as.as_ref().unwrap_or(&kernel.name);
        let of_boot = |boot| {
            let counted = self.count(name, workload, cpus, boot)?;
            counted.counts.is_some().then_some(counted)
        };
        (1..=BOOTS).map(of_boot).collect()
    }
}

/// The numbers of a release, by which kernels are ordered: 6.1.0-57-cloud-amd64 is 6, 1, 0, 57.
fn version(release: &str) -> Vec<u32> {
    let parts = release.split(['.', '-', '+', '~']);
    parts.map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, release: &str) -> KernelEvent {
        KernelEvent::Kernel(Kernel {
            name: name.to_string(),
            image: PathBuf::from("vmlinuz"),
            sha256: name.to_string(),
            release: release.to_string(),
            at: jiff::Timestamp::UNIX_EPOCH,
            same_as: None,
        })
    }

    #[test]
    fn kernels_stand_in_the_order_of_their_versions() {
        let releases = [
            "6.12.43+deb12-cloud-amd64",
            "6.1.0-57-cloud-amd64",
            "6.1.0-9-amd64",
            "6.19.14+deb13",
            "6.2.0-rc3",
            "6.2.0-rc4",
        ];
        let events = releases.iter().map(|release| kernel(release, release)).collect();
        let line = KernelLine::new(events, Vec::new());
        let order: Vec<&str> = line.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let expected = [2, 1, 4, 5, 0, 3].map(|number: usize| releases[number]);
        assert_eq!(order, expected);
    }
}
