//! Kernels as the things that a bisection builds and boots. All commits are built in one tree, since make then compiles
//! only what differs from one to the next; the built kernels are those of `knee kernel build`, found again by what
//! they depend on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use guests::architecture::Architecture;
use guests::kernels::{
    BuildFailure, BuildInfo, BuildSettings, Builder, BuiltKernel, Change, Configuration,
    KernelRequest,
};
use host::durable::Seal;
use host::job_control::RunningSince;
use host::signals;
use records::{COUNTERS, Guest, METRICS, Many, MetricKind, Scalar, find_metric, per_operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::{Build, Built};
use crate::fingerprint::kernel_fingerprint;

/// The file that is booted, in the folder of a kernel.
const IMAGE: &str = "bzImage";

/// What is built and booted, in place of programs that are built and run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KernelLoad {
    /// The workload that runs in each kernel.
    pub workload: String,
    /// Parameters of the workload.
    pub parameters: BTreeMap<String, Many<Scalar>>,
    /// Length of a run.
    pub seconds: f64,
    /// The virtual machine.
    pub guest: Guest,
    /// How kernels are built.
    pub recipe: KernelRecipe,
}

/// How kernels are built.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KernelRecipe {
    /// Parts of knee's configuration that are left out.
    pub without: Vec<String>,
    /// A whole configuration to start from.
    pub config_from: Option<PathBuf>,
    /// Files with options that override all others.
    pub config: Vec<PathBuf>,
    /// The compiler.
    pub compiler: String,
    /// Number of compilers that run in parallel.
    pub jobs: usize,
    /// Directory for sources and objects.
    pub scratch: Option<PathBuf>,
}

impl KernelRecipe {
    /// The configuration. What is random in a build is left out of it, or no two kernels would be equal: a
    /// distribution's configuration may sign modules and shuffle structures.
    pub fn configuration(&self) -> Result<Configuration> {
        let mut configuration = Configuration::without(&self.without)?;
        if let Some(whole) = &self.config_from {
            configuration.start_from(whole)?;
            configuration.leave_out_chance();
        }
        for file in &self.config {
            configuration.add(file)?;
        }
        Ok(configuration)
    }
}

/// Builds the kernels of one bisection.
pub struct KernelWorkshop {
    repository: PathBuf,
    recipe: KernelRecipe,
    timeout_s: f64,
    /// Opened by the first build: looking at a bisection needs no compiler.
    builder: RefCell<Option<Builder>>,
}

impl KernelWorkshop {
    pub fn new(repository: &Path, recipe: &KernelRecipe, timeout_s: f64) -> KernelWorkshop {
        let builder = RefCell::new(None);
        let (repository, recipe) = (repository.to_path_buf(), recipe.clone());
        KernelWorkshop { repository, recipe, timeout_s, builder }
    }

    /// Builds a commit, without the change of another if one is given, or finds its kernel. `place` becomes a link to
    /// the kernel's folder.
    pub fn build(&self, commit: &str, without: Option<Change>, place: &Path) -> Result<Built> {
        let since = RunningSince::now();
        let mut opened = self.builder.borrow_mut();
        let builder = match &mut *opened {
            Some(builder) => builder,
            none => none.insert(self.open()?),
        };
        let request = KernelRequest {
            repository: self.repository.clone(),
            revision: Some(commit.to_string()),
            without,
            configuration: self.recipe.configuration()?,
            tells_of_changes: true,
        };
        let built = match builder.build(&request) {
            Ok(built) => built,
            Err(_) if signals::received().is_some() => return Ok(Built::Interrupted),
            Err(why) if why.is::<BuildFailure>() => return Ok(Built::Failed(format!("{why:#}"))),
            // A full disk, or no sources of Linux: no other commit would fare better.
            Err(why) => return Err(why),
        };
        link(&built.folder, place)?;
        let key = key_of(&built)?;
        Ok(Built::Done(Build {
            folder: place.to_path_buf(),
            key,
            seconds: since.elapsed().as_secs_f64(),
        }))
    }

    fn open(&self) -> Result<Builder> {
        let KernelRecipe { compiler, jobs, scratch, .. } = self.recipe.clone();
        let timeout = Some(Duration::from_secs_f64(self.timeout_s));
        Builder::open(BuildSettings { compiler, jobs, scratch, timeout })
    }

    /// Removes the tree that kernels were built in. The kernels stay.
    pub fn close(&self) -> Result<()> {
        match self.builder.borrow_mut().take() {
            Some(builder) => builder.close().context("removing sources and objects of the build"),
            None => Ok(()),
        }
    }
}

/// Takes a kernel's file as the build of a step. `place` becomes a folder with a link to it, so that its modules are
/// found beside it.
pub fn take_image(file: &Path, place: &Path) -> Result<Build> {
    let since = RunningSince::now();
    let named = || format!("reading the kernel {}", file.display());
    ensure!(file.is_file(), "{}: with --run, each step is a kernel's file", file.display());
    let file = file.canonicalize().with_context(named)?;
    let key = Seal::for_bytes(&fs::read(&file).with_context(named)?).sha256[..16].to_string();
    let making = || format!("making {}", place.display());
    fs::create_dir_all(place).with_context(making)?;
    let link = place.join(IMAGE);
    if !link.is_symlink() {
        symlink(&file, &link).with_context(making)?;
    }
    Ok(Build { folder: place.to_path_buf(), key, seconds: since.elapsed().as_secs_f64() })
}

/// What a kernel is: equal for kernels that load equal code and data.
fn key_of(built: &BuiltKernel) -> Result<String> {
    let unpacked = built.folder.join("vmlinux");
    if unpacked.is_file() {
        return kernel_fingerprint(&unpacked, &built.build.commit);
    }
    // Without strip(1) there is no unpacked kernel. The image names its commit, so no two are equal.
    Ok(built.build.image.sha256[..16].to_string())
}

/// How long a build took; of a kernel from the cache, when it was built.
pub fn build_s(build: &Build) -> f64 {
    let text = fs::read_to_string(build.folder.join("build.json")).unwrap_or_default();
    let kernel: Option<BuildInfo> = serde_json::from_str(&text).ok();
    kernel.map_or(build.seconds, |kernel| kernel.seconds.max(build.seconds))
}

/// Makes a link to a folder, in place of whatever link was there.
fn link(folder: &Path, place: &Path) -> Result<()> {
    let _ = fs::remove_file(place);
    symlink(folder, place).with_context(|| format!("linking {} to the kernel", place.display()))
}

/// The image to boot, of a build's folder.
pub fn image(folder: &Path) -> Result<PathBuf> {
    let image = folder.join(IMAGE);
    image.canonicalize().with_context(|| format!("looking for the kernel of {}", folder.display()))
}

/// Whether emulation leaves a metric as it is: a count of the program's events for each operation. `knee` declares
/// all metrics of a workload.
pub fn is_count(metric: &str) -> bool {
    let (name, is_per_operation) = per_operation(metric);
    is_per_operation && find_metric(name).is_some_and(|metric| metric.kind == MetricKind::Count)
}

/// Refuses to judge kernels by a metric that means nothing under emulation, where it is known before a boot that
/// guests would be emulated.
pub fn check_metric(guest: &Guest, metric: &str) -> Result<()> {
    let is_asked_for = guest.accelerator.as_deref() == Some("tcg");
    let why = runner::places::guest::no_kvm(Architecture::HOST);
    match (why, is_asked_for) {
        _ if is_count(metric) => Ok(()),
        (_, true) => refuse(metric, "--accelerator tcg asks for that"),
        (Some(why), false) => refuse(metric, &why),
        (None, false) => Ok(()),
    }
}

/// Refuses to judge runs by such a metric once they turned out to be emulated.
pub fn check_record(record: &records::Record, metric: &str) -> Result<()> {
    let Some(hypervisor) = record.hypervisor.as_ref().filter(|hypervisor| hypervisor.emulates())
    else {
        return Ok(());
    };
    let why = hypervisor.why_not_kvm.as_deref().unwrap_or("KVM was not asked for");
    if is_count(metric) { Ok(()) } else { refuse(metric, why) }
}

fn refuse(metric: &str, why: &str) -> Result<()> {
    let (name, is_per_operation) = per_operation(metric);
    let what = match find_metric(name).map(|metric| metric.kind) {
        Some(MetricKind::Count) if !is_per_operation => {
            format!("a run has more {name} the more it gets done in its time")
        }
        Some(kind) => format!("{name} is {}", kind.in_words()),
        None => format!("no metric of a workload is called {name}"),
    };
    let counts = METRICS.iter().chain(COUNTERS).filter(|metric| metric.kind == MetricKind::Count);
    let counts = counts.filter(|metric| !["operations", "effect.*"].contains(&metric.name));
    let counts: Vec<String> = counts.map(|metric| format!("{}/op", metric.name)).collect();
    bail!(
        "{metric} cannot tell kernels apart here: guests are emulated ({why}), and {what}. Judge by a count of what the \
         program causes (--metric): {}; or work on a host with KVM",
        counts.join(", ")
    )
}

/// Options of the kernel without which it counts nothing of a kind: the start of the metrics' names, the option, and the
/// part of knee's configuration that asks for it.
const COUNTED_BY: [(&str, &str, &str); 3] = [
    ("vmstat.", "CONFIG_VM_EVENT_COUNTERS", "probes"),
    ("pressure.", "CONFIG_PSI", "probes"),
    ("cgroup.", "CONFIG_CGROUPS", "containers"),
];

/// Why the kernel in a folder lacks a metric, if its configuration says so.
pub fn missing_option(metric: &str, folder: &Path) -> Option<String> {
    let (_, option, part) = COUNTED_BY.iter().find(|(start, ..)| metric.starts_with(start))?;
    let config = fs::read_to_string(folder.join("config")).ok()?;
    let is_set = config.lines().any(|line| line == format!("{option}=y"));
    (!is_set).then(|| {
        format!("its kernel has no {option}, which the part `{part}` of the configuration asks for (see --without)")
    })
}

/// A workload and its parameters from one line: `page_fault_anonymous size=64M`.
pub fn parse_load(line: &str) -> Result<(String, BTreeMap<String, Many<Scalar>>)> {
    let mut words = line.split_whitespace();
    let name = words.next().context("--run is empty: name a workload (knee list workloads)")?;
    let workload = plan::workload(name)?.name.to_string();
    let mut parameters = BTreeMap::new();
    for word in words {
        let (key, value) = word
            .split_once('=')
            .with_context(|| format!("'{word}' of --run is no parameter: write NAME=VALUE"))?;
        ensure!(
            !value.contains(','),
            "{key} of --run has several values: a bisection measures one load"
        );
        parameters.insert(key.to_string(), Many(vec![Scalar(value.to_string())]));
    }
    Ok((workload, parameters))
}

#[cfg(test)]
mod tests {
    use records::Guest;

    use super::{check_metric, missing_option, parse_load};

    #[test]
    fn a_missing_metric_is_explained_by_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let why = |metric: &str, config: &str| {
            std::fs::write(folder.path().join("config"), config).unwrap();
            missing_option(metric, folder.path())
        };
        let said = why("vmstat.pgfault/op", "# CONFIG_VM_EVENT_COUNTERS is not set\n").unwrap();
        assert!(
            said.contains("no CONFIG_VM_EVENT_COUNTERS") && said.contains("`probes`"),
            "{said}"
        );
        assert_eq!(why("vmstat.pgfault/op", "CONFIG_VM_EVENT_COUNTERS=y\n"), None);
        assert_eq!(why("time.minor_page_faults/op", ""), None);
    }

    #[test]
    fn emulated_kernels_are_judged_by_counts_of_the_program_only() {
        let guest = Guest { accelerator: Some("tcg".to_string()), ..Guest::default() };
        for (metric, what) in [
            ("operations_per_s", "operations_per_s is a time, or follows from one"),
            ("cpu_s/op", "cpu_s is a time"),
            ("time.system_time/op", "time.system_time is a time"),
            ("stat.ctxt/op", "stat.ctxt is a count of events that the clock causes"),
            ("interrupts.LOC/op", "interrupts.LOC is a count of events that the clock causes"),
            ("vmstat.pgfault", "a run has more vmstat.pgfault the more it gets done"),
            ("nothing/op", "no metric of a workload is called nothing"),
        ] {
            let why = check_metric(&guest, metric).unwrap_err().to_string();
            assert!(why.contains(what) && why.contains("--accelerator tcg"), "{metric}: {why}");
            assert!(
                why.contains("time.minor_page_faults/op") && !why.contains("ctxt/op,"),
                "{why}"
            );
        }
        for metric in ["time.minor_page_faults/op", "vmstat.pgfault/op", "effect.calls/op"] {
            check_metric(&guest, metric).unwrap();
        }
    }

    #[test]
    fn a_load_is_a_workload_with_parameters() {
        let (workload, parameters) = parse_load("page_fault1 size=64M").unwrap();
        assert_eq!((workload.as_str(), parameters.len()), ("page_fault_anonymous", 1));
        for (line, why) in [
            ("", "--run is empty"),
            ("posix01 fast", "is no parameter"),
            ("posix01 hold_ns=0,1", "several values"),
        ] {
            let said = parse_load(line).unwrap_err().to_string();
            assert!(said.contains(why), "{line}: {said}");
        }
        assert!(parse_load("nothing").is_err());
    }
}
