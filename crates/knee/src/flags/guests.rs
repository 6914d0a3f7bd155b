//! The flags about virtual machines, and what they change in an experiment.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plan::guest_config;
use records::{Experiment, Guest, PointOrder, Scalar, Variant};

/// Virtual machines that runs are made in.
#[derive(clap::Args)]
pub struct GuestFlags {
    /// Boot this kernel (a vmlinuz or bzImage) in a virtual machine for the runs; several are
    /// compared. The name of its variant goes before: patched=../linux/arch/x86/boot/bzImage
    #[arg(long = "kernel", value_name = "[NAME=]FILE", value_parser = kernel)]
    kernels: Vec<(String, PathBuf)>,
    /// Add to the kernel's command line; several are compared: plain='' nopv='nopvspin'
    #[arg(long = "cmdline", value_name = "NAME=WORDS", value_parser = cmdline)]
    cmdlines: Vec<(String, String)>,
    /// How often each point is run in a boot: the mean is one value [default: 1]
    #[arg(long, value_name = "N")]
    runs_per_boot: Option<u32>,
    #[command(flatten)]
    machine: MachineFlags,
}

/// What a virtual machine is made of.
#[derive(clap::Args)]
pub struct MachineFlags {
    /// Where the kernel's modules lie [default: beside its package, or this host's]
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// Packages of the virtual machine [default: 1]
    #[arg(long)]
    sockets: Option<u32>,
    /// Cores of each package [default: as many as CPUs are asked for]
    #[arg(long)]
    cores: Option<u32>,
    /// Hardware threads of each core [default: 1]
    #[arg(long)]
    threads: Option<u32>,
    /// Make each package a node of memory, with these distances
    #[arg(long, value_name = "OWN,OTHER")]
    numa_distance: Option<String>,
    /// The CPUs of this host that those of the virtual machine run on, in order; fewer than it has
    /// are shared [default: all]
    #[arg(long, value_name = "LIST")]
    host_cpus: Option<String>,
    /// Its memory [default: 1 GiB and 64 MiB for each CPU]
    #[arg(long, value_name = "BYTES")]
    guest_memory: Option<String>,
    /// Its model of CPU, as QEMU takes it [default: max]
    #[arg(long, value_name = "MODEL[,FEATURE…]")]
    guest_cpu: Option<String>,
    /// What executes it: kvm or tcg (emulation) [default: kvm where a boot with it succeeds]
    #[arg(long, value_name = "kvm|tcg")]
    accelerator: Option<String>,
    /// Seconds after which a guest is given up that does not run at all, or is silent for so much
    /// longer than its run takes [default: 120]
    #[arg(long, value_name = "SECONDS")]
    patience: Option<f64>,
}

/// NAME=FILE, or a file whose name is told from that.
fn kernel(text: &str) -> Result<(String, PathBuf)> {
    let named = text.split_once('=').filter(|_| !Path::new(text).exists());
    if let Some((name, path)) = named {
        return Ok((name.to_string(), path.into()));
    }
    let path = Path::new(text);
    let file = path.file_name().context("must be a file")?.to_string_lossy();
    let name = file.strip_prefix("vmlinuz-").unwrap_or(&file);
    Ok((name.to_string(), path.to_path_buf()))
}

fn cmdline(text: &str) -> Result<(String, String)> {
    let (name, words) =
        text.split_once('=').context("must be NAME=WORDS, such as nopv=nopvspin")?;
    Ok((name.to_string(), words.to_string()))
}

impl MachineFlags {
    /// As a guest.
    pub fn guest(&self) -> Guest {
        Guest {
            kernel: None,
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
    /// Puts what was asked for into an experiment.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<()> {
        let own = Guest { runs: self.runs_per_boot, ..self.machine.guest() };
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
        let kernels = self.kernels.iter().map(|(name, path)| {
            (name.clone(), Guest { kernel: Some(path.clone()), ..Guest::default() })
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
            // To switch to another guest is to boot it.
            experiment.compare.order = PointOrder::Grouped;
        }
        Ok(())
    }
}

/// Makes paths of kernels and modules hold wherever knee is started.
fn make_kernel_paths_absolute(experiment: &mut Experiment) -> Result<()> {
    let guests = experiment.variants.iter_mut().flat_map(|variant| &mut variant.guest);
    for guest in guests.chain(&mut experiment.guest) {
        for path in [&mut guest.kernel, &mut guest.modules].into_iter().flatten() {
            *path = path
                .canonicalize()
                .with_context(|| format!("looking for {} (--kernel)", path.display()))?;
        }
    }
    Ok(())
}
