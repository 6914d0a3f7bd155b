//! The flags of a bisection whose commits are kernels, and what they ask for.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bisector::{KernelLoad, KernelRecipe, check_metric, parse_load};
use records::Guest;

/// Kernels to build, boot and run a workload in.
#[derive(clap::Args)]
pub struct KernelArguments {
    /// Build and boot each commit as a kernel
    ///
    /// It boots in a virtual machine. Kernels are built as `knee kernel build` does: all commits in one tree, so that make compiles what differs. Kernels stay in the cache.
    #[arg(long, help_heading = KERNELS, requires = "workload", conflicts_with_all = ["build", "products", "command", "shell", "value"])]
    kernel_build: bool,
    /// Measure this workload in each kernel
    ///
    /// A name and its parameters, such as 'posix01 range=own'. With --steps, the files there are kernels, which knee boots.
    #[arg(long = "run", id = "workload", value_name = "WORKLOAD", help_heading = KERNELS)]
    workload: Option<String>,
    /// Length of a run
    #[arg(long, default_value_t = 1.0, help_heading = KERNELS, requires = "workload", hide_short_help = true)]
    seconds: f64,
    /// Configuration fragment that overrides all other options; repeatable
    #[arg(long, value_name = "FILE", help_heading = KERNELS, requires = "kernel_build", hide_short_help = true)]
    config: Vec<PathBuf>,
    /// Start from this complete .config instead of the smallest; modules are not built
    #[arg(long, value_name = "FILE", help_heading = KERNELS, requires = "kernel_build", hide_short_help = true)]
    config_from: Option<PathBuf>,
    /// Leave out parts of the configuration: see `knee kernel build --help`
    #[arg(long, value_name = "PART", value_delimiter = ',', help_heading = KERNELS, requires = "kernel_build", hide_short_help = true)]
    without: Vec<String>,
    /// Compiler to use, such as gcc-11 for an old kernel
    #[arg(long, value_name = "PROGRAM", default_value = "gcc", help_heading = KERNELS, requires = "kernel_build", hide_short_help = true)]
    compiler: String,
    /// Number of parallel compile jobs [default: the number of usable CPUs]
    #[arg(long, value_name = "N", help_heading = KERNELS, requires = "kernel_build", hide_short_help = true)]
    jobs: Option<usize>,
    /// Build in this directory and remove sources and objects afterwards [default: keep them in the cache]
    #[arg(long, value_name = "DIR", help_heading = KERNELS, requires = "kernel_build", hide_short_help = true)]
    scratch: Option<PathBuf>,
    /// Execute guests by kvm, tcg (emulation) or icount (counts instructions) [default: kvm where it works]
    ///
    /// Where instructions decide (--metric instructions/op), the default is icount.
    #[arg(long, value_name = "NAME", help_heading = KERNELS, requires = "workload", hide_short_help = true)]
    accelerator: Option<String>,
    /// Memory of a guest [default: 1 GiB and 64 MiB for each CPU]
    #[arg(long, value_name = "SIZE", help_heading = KERNELS, requires = "workload", hide_short_help = true)]
    guest_memory: Option<String>,
}

const KERNELS: &str = "Kernels";

/// The kernels that the flags ask for; `None` if commits are programs. Refuses what no kernel of the range could do.
pub fn asked(arguments: &KernelArguments, metric: &str) -> Result<Option<KernelLoad>> {
    let Some(line) = &arguments.workload else { return Ok(None) };
    let (workload, parameters) = parse_load(line)?;
    let KernelArguments { seconds, compiler, accelerator, .. } = arguments;
    ensure!(*seconds > 0.0 && *seconds < 1e6, "--seconds {seconds}: must be above 0 s");
    let allowed = host::affinity::get().context("reading the CPU affinity")?.len();
    let jobs = arguments.jobs.unwrap_or(allowed);
    ensure!(jobs > 0, "--jobs 0: must be at least 1");
    // The bisection may be resumed in another folder.
    let absolute = |path: &PathBuf| {
        path.canonicalize().with_context(|| format!("looking for {}", path.display()))
    };
    let recipe = KernelRecipe {
        without: arguments.without.clone(),
        config_from: arguments.config_from.as_ref().map(absolute).transpose()?,
        config: arguments.config.iter().map(absolute).collect::<Result<_>>()?,
        compiler: compiler.clone(),
        jobs,
        scratch: arguments.scratch.as_ref().map(absolute).transpose()?,
    };
    recipe.configuration()?;
    let guest = Guest {
        accelerator: accelerator.clone(),
        memory: arguments.guest_memory.clone().map(records::Scalar),
        ..Guest::default()
    };
    guest.accelerator_choice()?;
    let load = KernelLoad { workload, parameters, seconds: *seconds, guest, recipe };
    check_metric(&load.guest, metric)?;
    Ok(Some(load))
}

/// Whether the flags name what is to be measured, of commits or of the entries of a folder (`has_steps`).
pub fn check(arguments: &KernelArguments, command: Option<&str>, has_steps: bool) -> Result<()> {
    if arguments.workload.is_none() {
        ensure!(
            command.is_some(),
            "--command LINE is missing: what to measure (of kernels: --kernel-build --run WORKLOAD)"
        );
        return Ok(());
    }
    ensure!(command.is_none(), "--run and --command: measure either kernels or a program");
    ensure!(
        arguments.kernel_build || has_steps,
        "--run measures kernels: add --kernel-build, or name a folder of kernels (--steps)"
    );
    Ok(())
}
