//! The virtual-machine flags, and how they change an experiment.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use plan::guest_config;
use records::{Experiment, Guest, PointOrder, Scalar, Variant};

use super::kernels::BuildFlags;

/// Virtual machines for the runs.
#[derive(clap::Args)]
#[command(next_help_heading = "Virtual machines")]
pub struct GuestFlags {
    /// Boot this kernel in a virtual machine
    ///
    /// With --on metal, this host itself boots it.
    /// A vmlinuz or bzImage, a folder in which make was run, a source tree (.) or a git revision (v6.12), which knee builds
    /// first; optionally named: patched=../linux. Several kernels are compared. With --on slurm, NAME=feature:F is the
    /// kernel that Slurm boots on nodes for the feature F.
    #[arg(long = "kernel", value_name = "[NAME=]WHAT", value_parser = kernel)]
    kernels: Vec<(String, PathBuf)>,
    /// Add words to its command line
    ///
    /// Several are compared: plain='' nopv='nopvspin'.
    #[arg(long = "cmdline", value_name = "NAME=WORDS", value_parser = cmdline, hide_short_help = true)]
    cmdlines: Vec<(String, String)>,
    /// With --on metal, the initramfs of the kernels [default: the one beside each]
    ///
    /// The default is initrd.img-RELEASE or initramfs-RELEASE.img beside vmlinuz-RELEASE; none boots without.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    initrd: Option<PathBuf>,
    /// Runs of each point per boot; their mean is one value [default: 1]
    #[arg(long, value_name = "N", hide_short_help = true)]
    runs_per_boot: Option<u32>,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    build: BuildFlags,
}

/// The shape of a virtual machine.
#[derive(clap::Args)]
#[command(next_help_heading = "Virtual machines")]
pub struct MachineFlags {
    /// Directory of the kernel's modules [default: next to the kernel, or this host's]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    modules: Option<PathBuf>,
    /// Sockets of the virtual machine [default: 1]
    #[arg(long, hide_short_help = true)]
    sockets: Option<u32>,
    /// Cores per socket [default: enough for the highest CPU count]
    #[arg(long, hide_short_help = true)]
    cores: Option<u32>,
    /// Hardware threads per core [default: 1]
    #[arg(long, hide_short_help = true)]
    threads: Option<u32>,
    /// Make each socket a NUMA node, with these distances to itself and to the others
    #[arg(long, value_name = "OWN,OTHER", hide_short_help = true)]
    numa_distance: Option<String>,
    /// Host CPUs to pin the vCPUs to, in order; vCPUs share them if there are fewer [default: all]
    #[arg(long, value_name = "LIST", hide_short_help = true)]
    host_cpus: Option<String>,
    /// Memory of the virtual machine [default: 1 GiB plus 64 MiB per vCPU]
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    guest_memory: Option<String>,
    /// CPU model of the virtual machine, as in QEMU's -cpu [default: max]
    #[arg(long, value_name = "MODEL[,FEATURE…]", hide_short_help = true)]
    guest_cpu: Option<String>,
    /// QEMU accelerator: kvm, tcg (emulation) or icount (counts instructions) [default: kvm if a boot with it succeeds]
    ///
    /// Where --metric instructions decides, the default is icount: one emulated CPU whose clock goes on by 1 ns with each
    /// instruction. Counts repeat to 0.1 % between boots and hosts; they are instructions, not times.
    #[arg(long, value_name = "kvm|tcg|icount", hide_short_help = true)]
    accelerator: Option<String>,
    /// Give up on a guest that has not run at all for this long, or is silent for this much
    /// longer than its run takes [default: 120]
    #[arg(long, value_name = "SECONDS", hide_short_help = true)]
    patience: Option<f64>,
}

/// What a kernel begins with that Slurm boots.
const FEATURE: &str = "feature:";

/// Reads NAME=WHAT, or WHAT, whose name is then derived from that of the file or revision.
pub fn kernel(text: &str) -> Result<(String, PathBuf)> {
    let named = text.split_once('=').filter(|_| !Path::new(text).exists());
    if let Some((name, path)) = named {
        return Ok((name.to_string(), path.into()));
    }
    if let Some(feature) = text.strip_prefix(FEATURE) {
        return Ok((feature.to_string(), text.into()));
    }
    let path = Path::new(text);
    // `.` has the name of the folder.
    let whole = path.canonicalize().ok().filter(|_| path.file_name().is_none());
    let file = whole.as_deref().unwrap_or(path).file_name();
    let file = file.context("must be a kernel file, a folder or a revision")?.to_string_lossy();
    let name = ["vmlinuz-", "rev:", "tree:"].iter().find_map(|start| file.strip_prefix(start));
    Ok((name.unwrap_or(&file).to_string(), path.to_path_buf()))
}

fn cmdline(text: &str) -> Result<(String, String)> {
    let (name, words) =
        text.split_once('=').context("must be NAME=WORDS, such as nopv=nopvspin")?;
    Ok((name.to_string(), words.to_string()))
}

impl MachineFlags {
    pub fn guest(&self) -> Guest {
        Guest {
            kernel: None,
            metal: None,
            feature: None,
            initrd: None,
            modules: self.modules.clone(),
            cmdline: None,
            cpu: self.guest_cpu.clone(),
            sockets: self.sockets,
            cores: self.cores,
            threads: self.threads,
            numa_distance: self.numa_distance.clone(),
            memory: self.guest_memory.clone().map(Scalar),
            host_cpus: self.host_cpus.clone(),
            accelerator: self.accelerator.clone(),
            runs: None,
            patience_s: self.patience,
        }
    }
}

impl GuestFlags {
    /// The files of the kernels, each with its name; what Slurm boots stays as it is.
    fn images(&self, building: Building) -> Result<Vec<(String, PathBuf)>> {
        let is_feature = |path: &Path| path.to_str().is_some_and(|path| path.starts_with(FEATURE));
        if self.kernels.iter().any(|(_, path)| is_feature(path)) {
            return Ok(self.kernels.clone());
        }
        match building {
            Building::Allowed { yes } => self.build.images(&self.kernels, yes),
            Building::Refused => self.build.images_without_building(&self.kernels),
        }
    }

    /// Applies the flags to an experiment.
    pub fn apply(
        &self,
        experiment: &mut Experiment,
        is_metal: bool,
        building: Building,
    ) -> Result<()> {
        ensure!(
            is_metal || self.initrd.is_none(),
            "--initrd is for --on metal: knee makes the initramfs of a virtual machine itself"
        );
        let own = Guest {
            runs: self.runs_per_boot,
            metal: is_metal.then_some(true),
            initrd: self.initrd.clone(),
            ..self.machine.guest()
        };
        let mut outer = own.over(&experiment.guest.clone().unwrap_or_default());
        let mut factor = |name: &str, levels: Vec<(String, Guest)>| match levels.as_slice() {
            [] => (),
            [(_, one)] => outer = one.over(&outer),
            several => experiment.variants.extend(several.iter().map(|(level, guest)| Variant {
                name: level.clone(),
                factor: name.to_string(),
                guest: Some(guest.clone()),
                ..Variant::default()
            })),
        };
        let files = self.images(building)?;
        let kernels = files.iter().map(|(name, path)| {
            let feature = path.to_str().and_then(|path| path.strip_prefix(FEATURE));
            let guest = match feature {
                Some(feature) => {
                    let feature = Some(feature.to_string());
                    Guest { feature, metal: Some(true), ..Guest::default() }
                }
                None => Guest { kernel: Some(path.clone()), ..Guest::default() },
            };
            (name.clone(), guest)
        });
        factor("kernel", kernels.collect());
        let cmdlines = self.cmdlines.iter().map(|(name, words)| {
            (name.clone(), Guest { cmdline: Some(words.clone()), ..Guest::default() })
        });
        factor("cmdline", cmdlines.collect());
        if outer != Guest::default() {
            experiment.guest = Some(outer);
        }
        make_kernel_paths_absolute(experiment)?;
        guest_config::complete(experiment, runner::allowed_cpus()?.len() as u32);
        let boots = experiment.variants.iter().any(|variant| variant.guest.is_some());
        if boots || experiment.guest.is_some() {
            // Each switch to another guest is a boot.
            experiment.compare.order = PointOrder::Grouped;
        }
        Ok(())
    }
}

/// Whether kernels may be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Building {
    /// They may; `yes`: also from sources that others wrote, without asking.
    Allowed { yes: bool },
    /// Only a plan is made, which starts nothing.
    Refused,
}

/// Makes the paths of kernels and modules independent of the current directory.
fn make_kernel_paths_absolute(experiment: &mut Experiment) -> Result<()> {
    let guests = experiment.variants.iter_mut().flat_map(|variant| &mut variant.guest);
    for guest in guests.chain(&mut experiment.guest) {
        let files = [&mut guest.kernel, &mut guest.modules, &mut guest.initrd];
        for path in files.into_iter().flatten().filter(|path| path.as_os_str() != "none") {
            *path = path.canonicalize().with_context(|| {
                format!("looking for {} (--kernel, --modules, --initrd)", path.display())
            })?;
        }
    }
    Ok(())
}
