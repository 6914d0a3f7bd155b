//! A line of kernels as an answer: what changed from kernel to kernel, and what each of them counts.

use answers::{ChangedLine, Conflicts};
use bisection::watch::{Fate, Score, score};
use schemars::JsonSchema;
use serde::Serialize;

use super::change::{Difference, FunctionChange, InstructionChange, Sides, compare, spread};
use super::{BOOTS, Booted, Counted, Kernel, KernelLine, KernelLineFile, KernelLinePaths};
use crate::watch::Ack;

/// What `knee watch show` says of a line of kernels.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KernelLineAnswer {
    /// The file of the line.
    pub line: String,
    /// Smallest change of instructions that matters, as a share.
    pub smallest_effect: f64,
    /// Numbers of CPUs that workloads are counted on. Instructions are those on the fewest, lines those on the most.
    pub cpus: Vec<u32>,
    /// Operations of each task in the first window.
    pub operations: u64,
    /// The kernels in the order of their versions.
    pub kernels: Vec<KernelPoint>,
    /// What each kernel counts, workload by workload.
    pub workloads: Vec<WorkloadCounts>,
    /// What changed, in the order of the line, and of the size of the change for each kernel.
    pub changes: Vec<KernelChange>,
    /// How often the alarms were right.
    pub score: Score,
}

/// A kernel of a line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KernelPoint {
    /// What the user calls it.
    pub name: String,
    /// What it calls itself.
    pub release: String,
    /// Hash of its image.
    pub sha256: String,
    /// When it was added.
    pub added: String,
    /// The kernel whose image it has: nothing was counted again.
    pub same_as: Option<String>,
    /// The kernel that it is compared with; the first has none.
    pub before: Option<String>,
    /// Workloads that were counted in all boots.
    pub counted: usize,
    /// Seconds that its boots and counts took, added up.
    pub seconds: f64,
    /// What QEMU and knee were, and the kernel's command line, where it differs from those of the kernel before.
    pub counted_by: Vec<String>,
    /// Workloads that do not run there, and why.
    pub failed: Vec<FailedCount>,
    /// Instructions that do not repeat from boot to boot, or from window to window.
    pub unsteady: Vec<UnsteadyCount>,
    /// Whether `knee watch add` has more to count.
    pub is_whole: bool,
}

/// A workload that was not counted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FailedCount {
    /// The workload.
    pub workload: String,
    /// Why it does not run there.
    pub why: String,
}

/// A count that does not repeat.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UnsteadyCount {
    /// The workload.
    pub workload: String,
    /// The smallest and the largest count of the median operation.
    pub instructions: [f64; 2],
}

/// What a workload counts on each kernel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkloadCounts {
    /// The workload, as the file of the line names it.
    pub workload: String,
    /// Instructions of the median operation in the kernel, by kernel; absent where it was not counted.
    pub instructions: Vec<Option<f64>>,
    /// Transfers of contended lines an operation, all lines together, by kernel.
    pub transfers: Vec<Option<f64>>,
}

/// What a workload counts differently than on the kernel before.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KernelChange {
    /// Its name for `knee watch ack`: KERNEL/WORKLOAD.
    pub id: String,
    /// The workload, as the file of the line names it.
    pub workload: String,
    /// The last kernel before on which the workload was counted.
    pub before: String,
    /// The first kernel that counts differently.
    pub after: String,
    /// What became of it.
    pub is: Fate,
    /// Whether it is for the worse: more instructions, or a line that is needed more often.
    pub worse: bool,
    /// Instructions an operation executes in the kernel, if they differ.
    pub instructions: Option<InstructionChange>,
    /// The functions with the largest differences.
    pub functions: Vec<FunctionChange>,
    /// Contended lines that differ, the largest difference first.
    pub lines: Vec<ChangedLine>,
    /// The reason of who accepted it; else empty.
    pub why: String,
}

impl KernelLineAnswer {
    /// What both boots of both kernels agree about.
    pub fn said(&self) -> impl Iterator<Item = &KernelChange> {
        self.changes.iter().filter(|change| change.is != Fate::NotConfirmed)
    }

    /// The changes for the worse that nobody answered.
    pub fn open(&self) -> impl Iterator<Item = &KernelChange> {
        self.changes.iter().filter(|change| change.is == Fate::Open && change.worse)
    }
}

impl KernelChange {
    /// Its size, for an order: the share of instructions, and a tenth for each transfer.
    pub fn size(&self) -> f64 {
        let instructions = self.instructions.map_or(0.0, |change| change.share().abs());
        let moved = self.lines.iter().map(|line| (line.transfers[1] - line.transfers[0]).abs());
        instructions + moved.sum::<f64>() / 10.0
    }
}

impl KernelLine {
    /// The whole line as an answer.
    pub fn answer(&self, paths: &KernelLinePaths) -> KernelLineAnswer {
        let file = &paths.file;
        let mut changes = Vec::new();
        for place in 0..self.kernels.len() {
            let mut of_kernel: Vec<KernelChange> = file
                .workloads
                .iter()
                .filter_map(|workload| self.change(file, workload, place))
                .collect();
            of_kernel.sort_by(|a, b| b.size().total_cmp(&a.size()));
            changes.extend(of_kernel);
        }
        let fates: Vec<Fate> = changes.iter().map(|change| change.is).collect();
        KernelLineAnswer {
            line: paths.path.display().to_string(),
            smallest_effect: file.smallest_effect,
            cpus: file.cpus.iter().copied().collect(),
            operations: file.operations,
            kernels: (0..self.kernels.len()).map(|place| self.point(file, place)).collect(),
            workloads: file.workloads.iter().map(|name| self.workload(file, name)).collect(),
            changes,
            score: score(&fates),
        }
    }

    /// What all boots of a kernel counted of a workload.
    fn sides(&self, file: &KernelLineFile, kernel: &Kernel, workload: &str) -> Sides<'_> {
        let counts = |cpus: Option<&u32>| {
            cpus.and_then(|cpus| self.counts(kernel, workload, *cpus)).unwrap_or_default()
        };
        let most = file.cpus.last().filter(|cpus| **cpus > 1);
        Sides { alone: counts(file.cpus.first()), together: counts(most) }
    }

    /// How a workload counts differently on the kernel at `place` than on the last one before that counted it.
    fn change(&self, file: &KernelLineFile, workload: &str, place: usize) -> Option<KernelChange> {
        let smallest = file.smallest_effect;
        let kernel = &self.kernels[place];
        let after = self.sides(file, kernel, workload);
        let semantics = after.alone.first()?.semantics;
        let is_alike = |side: &Sides| side.alone.iter().all(|one| one.semantics == semantics);
        let is_before = |known: &&Kernel| !self.sides(file, known, workload).alone.is_empty();
        let previous = self.kernels[..place].iter().rev().find(is_before)?;
        let before = self.sides(file, previous, workload);
        if !is_alike(&before) {
            return None;
        }
        let found = compare(&before, &after, smallest);
        if !found.is_change() && !found.has_unsteady {
            return None;
        }
        let id = format!("{}/{workload}", kernel.name);
        let newest = self.kernels.iter().rev().find(is_before)?;
        let is_back = || {
            let now = compare(&before, &self.sides(file, newest, workload), smallest);
            newest.name != kernel.name && !stays(&found, &now)
        };
        let ack = self.acks.iter().rev().find(|ack| ack.change == id);
        let is = match ack {
            _ if !found.is_change() => Fate::NotConfirmed,
            Some(Ack { is_false: true, .. }) => Fate::False,
            Some(_) => Fate::Accepted,
            None if is_back() => Fate::GoneAgain,
            None => Fate::Open,
        };
        Some(KernelChange {
            id,
            workload: workload.to_string(),
            before: previous.name.clone(),
            after: kernel.name.clone(),
            is,
            worse: found.is_worse(),
            instructions: found.instructions,
            functions: found.functions,
            lines: found.lines,
            why: ack.map(|ack| ack.why.clone()).unwrap_or_default(),
        })
    }

    fn point(&self, file: &KernelLineFile, place: usize) -> KernelPoint {
        let kernel = &self.kernels[place];
        let own = kernel.same_as.as_ref().unwrap_or(&kernel.name);
        let sides = |workload: &String| self.sides(file, kernel, workload).alone;
        let first = |workload: &String| self.count(own, workload, *file.cpus.first()?, 1);
        let failed = file.workloads.iter().filter_map(|workload| {
            let why = first(workload)?.failed.clone()?;
            Some(FailedCount { workload: workload.clone(), why })
        });
        let unsteady = file.workloads.iter().filter_map(|workload| {
            let (low, high) = spread(&sides(workload))?;
            let instructions = [low, high];
            (low < high).then(|| UnsteadyCount { workload: workload.clone(), instructions })
        });
        let of_boots = self.boots.iter().filter(|boot| boot.kernel == *own);
        let of_counts = self.counted.values().filter(|counted| counted.kernel == *own);
        let seconds = of_boots.map(|boot| boot.up_s).sum::<f64>()
            + of_counts.map(|counted| counted.seconds).sum::<f64>();
        KernelPoint {
            name: kernel.name.clone(),
            release: kernel.release.clone(),
            sha256: kernel.sha256.clone(),
            added: kernel.at.to_string(),
            same_as: kernel.same_as.clone(),
            before: place.checked_sub(1).map(|at| self.kernels[at].name.clone()),
            counted: file.workloads.iter().filter(|workload| !sides(workload).is_empty()).count(),
            seconds: if kernel.same_as.is_some() { 0.0 } else { seconds },
            counted_by: self.counted_by(place),
            failed: failed.collect(),
            unsteady: unsteady.collect(),
            is_whole: (1..=BOOTS).all(|boot| self.missing(file, own, boot).is_empty()),
        }
    }

    /// What counted a kernel otherwise than the one before: "QEMU … → …".
    fn counted_by(&self, place: usize) -> Vec<String> {
        let boot = |kernel: &Kernel| {
            let own = kernel.same_as.as_ref().unwrap_or(&kernel.name);
            self.boots.iter().rfind(|boot| boot.kernel == *own)
        };
        let previous = place.checked_sub(1).and_then(|at| boot(&self.kernels[at]));
        let (Some(before), Some(after)) = (previous, boot(&self.kernels[place])) else {
            return Vec::new();
        };
        let without_types = |boot: &Booted| {
            let counted = self.counted.values().find(|counted| counted.kernel == boot.kernel);
            counted.is_some_and(|counted| counted.without_types)
        };
        let types = |boot| if without_types(boot) { "none" } else { "BTF" }.to_string();
        let types = [types(before), types(after)];
        let facts = [
            ("QEMU", &before.emulator, &after.emulator),
            ("knee", &before.knee, &after.knee),
            ("command line", &before.command_line, &after.command_line),
            ("types, without which no lines are compared", &types[0], &types[1]),
        ];
        let differing = facts.into_iter().filter(|(_, before, after)| before != after);
        differing.map(|(name, before, after)| format!("{name}: {before} → {after}")).collect()
    }

    fn workload(&self, file: &KernelLineFile, workload: &str) -> WorkloadCounts {
        let of_kernels = |count: &dyn Fn(&Sides) -> Option<f64>| {
            let kernels = self.kernels.iter();
            kernels.map(|kernel| count(&self.sides(file, kernel, workload))).collect()
        };
        let counts = |one: &[&Counted]| one.first().and_then(|one| one.counts.clone());
        WorkloadCounts {
            workload: workload.to_string(),
            instructions: of_kernels(&|sides| Some(counts(&sides.alone)?.instructions?.kernel)),
            transfers: of_kernels(&|sides| Some(transfers(&counts(&sides.together)?))),
        }
    }
}

/// Transfers of all contended lines an operation.
fn transfers(counts: &Conflicts) -> f64 {
    let contended = counts.lines.iter().map(|line| line.transfers[0]);
    contended.filter(|transfers| *transfers >= counts.least_transfers).sum::<f64>() + 0.0
}

/// Whether a part of a change is still there: the newest kernel differs from the one before the change in the same direction.
fn stays(change: &Difference, now: &Difference) -> bool {
    let instructions = change.instructions.zip(now.instructions);
    let is_same = |(then, now): (InstructionChange, InstructionChange)| {
        (then.after > then.before) == (now.after > now.before)
    };
    let key = |line: &ChangedLine| (line.place.clone(), line.member.clone());
    let stays = |line: &ChangedLine| now.lines.iter().any(|other| key(other) == key(line));
    instructions.is_some_and(is_same) || change.lines.iter().any(stays)
}
