//! Kernels that are booted for runs, in virtual machines or on the host itself: what an experiment asks for,
//! and facts about each boot.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use host::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scalar::Scalar;

/// A virtual machine that an experiment or a variant asks for. An absent field of a variant has the
/// experiment's value, else the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Guest {
    /// The kernel to boot. Without one, runs are made on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<PathBuf>,
    /// The folder of the kernel's modules: lib/modules/RELEASE, or a folder that contains it. Default:
    /// next to the kernel's package, or this host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules: Option<PathBuf>,
    /// Whether the kernel is booted on the host itself, in place of the host's own, instead of in a virtual
    /// machine. Absent for a virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metal: Option<bool>,
    /// The feature of Slurm's nodes that stands for the kernel, which Slurm boots before a job that asks for it. In the
    /// place of `kernel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The initramfs of a kernel that is booted on the host itself. Default: the one beside the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initrd: Option<PathBuf>,
    /// Arguments added to the kernel's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmdline: Option<String>,
    /// CPU model and features in QEMU's notation. Default `max`, emulated without what is slow to emulate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Number of packages. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// Cores of each package. Default: enough for the CPUs that are needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Hardware threads of each core. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// NUMA distances to the own node and to other nodes: `10,21`. With them each package is a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_distance: Option<String>,
    /// Memory: `2G`. Default 1 GiB and 64 MiB for each CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Scalar>,
    /// The host's CPUs that the guest's vCPUs run on, in order: `0-3,8`. With fewer CPUs than vCPUs,
    /// some vCPUs share a CPU. Default: all that this process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_cpus: Option<String>,
    /// The accelerator of the guest: `kvm`, `tcg`, or `icount`, which emulates one CPU and counts instructions. Default:
    /// `icount` where instructions decide, else KVM if a boot with it succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<String>,
    /// Runs of each point in a boot. Default 1. Further runs cost less than further boots, and show
    /// how much of the noise is between boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// After how many seconds without progress, or without output beyond the length of its run, the
    /// guest is given up. Default 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_s: Option<f64>,
}

impl Guest {
    /// The fields of this guest; for those that are absent, the fields of `outer`.
    pub fn over(&self, outer: &Guest) -> Guest {
        let mut fields = outer.fields();
        fields.extend(self.fields());
        Guest::from_fields(fields)
    }

    /// The fields of both guests. Refuses fields that both have.
    pub fn and(&self, other: &Guest) -> Result<Guest> {
        let (mut fields, others) = (self.fields(), other.fields());
        let both = others.keys().find(|name| fields.contains_key(*name));
        ensure!(both.is_none(), "{} of the guest is set twice", both.map_or("", String::as_str));
        fields.extend(others);
        Ok(Guest::from_fields(fields))
    }

    /// The fields that are present, in words: "kernel bzImage", "cmdline 'nopvspin'".
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

    fn from_fields(fields: BTreeMap<String, serde_json::Value>) -> Guest {
        let value = serde_json::to_value(fields).expect("a map is plain data");
        serde_json::from_value(value).expect("the fields of guests")
    }
}

/// The name of emulation with a clock that counts instructions.
pub const ICOUNT: &str = "icount";

/// The metric that such guests have: their CPU time is in instructions.
pub const INSTRUCTIONS: &str = "instructions";

/// The accelerators that a guest may run with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AcceleratorChoice {
    /// KVM, or emulation if KVM does not work.
    Any,
    /// KVM only.
    Kvm,
    /// Emulation, even if KVM works.
    Tcg,
    /// Emulation with a clock that counts instructions.
    Icount,
}

impl Guest {
    /// The accelerators that the guest may run with.
    pub fn accelerator_choice(&self) -> Result<AcceleratorChoice> {
        match self.accelerator.as_deref() {
            None => Ok(AcceleratorChoice::Any),
            Some("kvm") => Ok(AcceleratorChoice::Kvm),
            Some("tcg") => Ok(AcceleratorChoice::Tcg),
            Some(ICOUNT) => Ok(AcceleratorChoice::Icount),
            Some(other) => bail!("accelerator is '{other}', must be kvm, tcg or {ICOUNT}"),
        }
    }
}

/// The hypervisor that runs guests, found by a boot before the first run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hypervisor {
    /// The program with its version.
    pub program: String,
    /// `kvm`, `tcg` or `icount`.
    pub accelerator: String,
    /// Why the accelerator is not KVM, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_kvm: Option<String>,
}

impl Hypervisor {
    /// Whether the guests' clock counts instructions.
    pub fn counts_instructions(&self) -> bool {
        self.accelerator == ICOUNT
    }

    /// Whether guests are emulated, so that their times say nothing about a processor.
    pub fn emulates(&self) -> bool {
        self.accelerator != "kvm"
    }
}

/// One boot of a guest. It has a line in `boots.ndjson` when it is up, and a second line, which
/// replaces the first, when it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Boot {
    /// Number of the boot in its record, from 0.
    pub boot: u32,
    /// The block it was for.
    pub block: u32,
    /// When the virtual machine was started.
    pub started: jiff::Timestamp,
    /// The guest that was asked for.
    pub guest: Guest,
    /// The kernel's release.
    pub release: String,
    /// The kernel's version, as in /proc/version.
    pub version: String,
    /// The hash that the linker put into the kernel that runs, in hexadecimal; absent of virtual machines, and of
    /// kernels without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// The kernel's whole command line.
    pub command_line: String,
    /// The kernel's random id of this boot.
    pub boot_id: String,
    /// The accelerator: `kvm`, or `tcg` with the number of threads; `metal` if the host itself booted.
    pub accelerator: String,
    /// The address of the kernel's text; absent if the guest does not reveal it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// From the start of the virtual machine to the first output of its init, in seconds. On the host itself,
    /// from the request to reboot to knee's start in the new kernel.
    pub up_s: f64,
    /// The CPUs that the guest sees.
    pub topology: Topology,
    /// Modules that were loaded, in order.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Size of the initramfs: knee and the modules.
    pub initramfs_bytes: u64,
    /// Kernel messages of level "warning" and worse, up to the first run.
    #[serde(default)]
    pub said: Vec<String>,
    /// How the boot ended; absent while the guest runs, or if knee was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// How long the guest ran, in seconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Boot {
    /// Parses one line of `boots.ndjson`.
    pub fn read(line: &str) -> Result<Boot> {
        serde_json::from_str(line).context("reading a boot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_overrides_what_is_around_it() {
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
