//! What operations run as in the virtual machine that traces them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use records::{FileSystem, Guest};

/// Options of all verbs that trace operations.
#[derive(Clone, clap::Args)]
pub struct GuestFlags {
    /// Directory of the kernel's modules [default: next to the kernel, or this host's]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub modules: Option<PathBuf>,
    /// Words to add to the kernel command line
    #[arg(long, value_name = "WORDS", hide_short_help = true)]
    pub cmdline: Option<String>,
    /// Number of tasks, each on its own CPU
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub tasks: u32,
    /// Tasks as threads of one process
    #[arg(long)]
    pub threads: bool,
    /// Operations of each task in the first window; the second has twice as many [default: 256]
    #[arg(long = "operations", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub window: Option<u64>,
    /// A parameter of the workloads
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
    /// File system to work in, made on the virtual machine's disk [default: tmpfs]
    #[arg(long = "fs", value_name = "KIND")]
    pub file_system: Option<String>,
    /// Compile and run files that others wrote without asking
    #[arg(long, hide_short_help = true)]
    pub yes: bool,
}

fn setting(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("must be NAME=VALUE, such as size=4k")?;
    Ok((name.to_string(), value.to_string()))
}

impl GuestFlags {
    /// Operations of each task in the first window.
    pub fn window(&self) -> u64 {
        self.window.unwrap_or(256)
    }

    /// The file system to work in, if one is to be made.
    pub fn made(&self) -> Result<Option<FileSystem>> {
        self.file_system.as_deref().map(FileSystem::parse).transpose()
    }

    /// The guest that boots this kernel.
    pub fn guest(&self, kernel: PathBuf) -> Guest {
        Guest {
            kernel: Some(kernel),
            modules: self.modules.clone(),
            cmdline: self.cmdline.clone(),
            cores: Some(self.tasks),
            ..Guest::default()
        }
    }
}
