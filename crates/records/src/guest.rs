//! Virtual machines that runs are made in: what is asked for, and what each boot was.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use host::Topology;
use serde::{Deserialize, Serialize};

use crate::experiment::Scalar;

/// A virtual machine, as an experiment or a variant asks for it. What is absent is as the
/// experiment has it, or the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guest {
    /// The kernel's file. Without one, nothing is booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<PathBuf>,
    /// Where its modules lie: a folder with lib/modules/RELEASE in it, or that itself. Default
    /// beside the kernel's package, or on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules: Option<PathBuf>,
    /// What is added to the kernel's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmdline: Option<String>,
    /// The model of CPU with its features, as QEMU takes it. Default `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Packages. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// Cores of each package. Default as many as CPUs are needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Hardware threads of each core. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Distances of memory, own node and other nodes: `10,21`. With it each package is a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_distance: Option<String>,
    /// Memory: `2G`. Default 1 GiB and 64 MiB for each CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Scalar>,
    /// The CPUs of the host that the guest's run on, in order: `0-3,8`. With fewer of them than the
    /// guest has, some share one. Default all that this process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_cpus: Option<String>,
    /// What executes the guest: `kvm` or `tcg`. Default KVM where a boot with it succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<String>,
    /// How often each point is run in a boot. Default 1. More cost less than more boots, and tell how
    /// much of the noise is between boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// For how many seconds it may not run, or say nothing beyond what its run takes, before it is
    /// given up. Default 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_s: Option<f64>,
}

impl Guest {
    /// This where it says something, else `outer`'s.
    pub fn over(&self, outer: &Guest) -> Guest {
        let mut fields = outer.fields();
        fields.extend(self.fields());
        Guest::of(fields)
    }

    /// Both at once; refuses what both say.
    pub fn and(&self, other: &Guest) -> Result<Guest> {
        let (mut fields, others) = (self.fields(), other.fields());
        let both = others.keys().find(|name| fields.contains_key(*name));
        ensure!(both.is_none(), "both set {} of the guest", both.map_or("", String::as_str));
        fields.extend(others);
        Ok(Guest::of(fields))
    }

    /// What it says, a word or two each: "kernel bzImage", "cmdline 'nopvspin'".
    pub fn words(&self) -> Vec<String> {
        let word = |(name, value): (String, serde_json::Value)| match value.as_str() {
            Some(text) if name == "cmdline" => format!("cmdline '{text}'"),
            Some(text) => format!("{name} {text}"),
            None => format!("{name} {value}"),
        };
        self.fields().into_iter().map(word).collect()
    }

    fn fields(&self) -> BTreeMap<String, serde_json::Value> {
        let value = serde_json::to_value(self).expect("a guest is plain data");
        serde_json::from_value(value).expect("a struct is a map")
    }

    fn of(fields: BTreeMap<String, serde_json::Value>) -> Guest {
        let value = serde_json::to_value(fields).expect("a map is plain data");
        serde_json::from_value(value).expect("the fields of guests")
    }
}

/// What a guest may be executed by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AcceleratorChoice {
    /// KVM, or emulation where KVM does not work.
    Any,
    /// KVM or nothing.
    Kvm,
    /// Emulation, even where KVM works.
    Tcg,
}

impl Guest {
    /// What the guest may be executed by.
    pub fn accelerator_choice(&self) -> Result<AcceleratorChoice> {
        match self.accelerator.as_deref() {
            None => Ok(AcceleratorChoice::Any),
            Some("kvm") => Ok(AcceleratorChoice::Kvm),
            Some("tcg") => Ok(AcceleratorChoice::Tcg),
            Some(other) => bail!("there is no accelerator '{other}': must be kvm or tcg"),
        }
    }
}

/// What executes guests, found by a boot before the first run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hypervisor {
    /// The program, with its version.
    pub program: String,
    /// `kvm` or `tcg`.
    pub accelerator: String,
    /// Why it is not KVM, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_kvm: Option<String>,
}

impl Hypervisor {
    /// Whether a guest's instructions are translated, so that its times say nothing about a
    /// processor.
    pub fn emulates(&self) -> bool {
        self.accelerator != "kvm"
    }
}

/// One boot of a guest. One line of `boots.ndjson` when it is up, and one when it has ended, which
/// replaces the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Boot {
    /// Number of the boot in its record, from 0.
    pub boot: u32,
    /// The block it was for.
    pub block: u32,
    /// When the machine was started.
    pub started: jiff::Timestamp,
    /// What was asked for.
    pub guest: Guest,
    /// The kernel's release.
    pub release: String,
    /// The kernel's version, as /proc/version has it.
    pub version: String,
    /// Its whole command line.
    pub command_line: String,
    /// Random name that the kernel gave this boot.
    pub boot_id: String,
    /// What executed it: `kvm`, or `tcg` with the number of threads.
    pub accelerator: String,
    /// Where the kernel's text lies; absent where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// From the start of the machine to the first word of its init, in seconds.
    pub up_s: f64,
    /// The CPUs that the guest sees.
    pub topology: Topology,
    /// Modules that were loaded, in order.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Bytes of the guest's program and modules.
    pub initramfs_bytes: u64,
    /// What the kernel said of level "warning" and worse, up to the first run.
    #[serde(default)]
    pub said: Vec<String>,
    /// How it ended; absent while it lives, or if knee was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// How long it lived, in seconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Boot {
    /// Reads one line of `boots.ndjson`.
    pub fn read(line: &str) -> Result<Boot> {
        serde_json::from_str(line).context("reading a boot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_says_what_is_not_said_outside_of_it() {
        let outer = Guest { cores: Some(4), cmdline: Some("quiet".into()), ..Guest::default() };
        let inner = Guest { cores: Some(2), threads: Some(2), ..Guest::default() };
        let both = inner.over(&outer);
        assert_eq!(
            (both.cores, both.threads, both.cmdline.as_deref()),
            (Some(2), Some(2), Some("quiet"))
        );
        let error = inner.and(&outer).unwrap_err().to_string();
        assert!(error.contains("cores"), "{error}");
        let kernel = Guest { kernel: Some("k".into()), ..Guest::default() };
        assert_eq!(kernel.and(&outer).unwrap(), kernel.over(&outer));
    }
}
