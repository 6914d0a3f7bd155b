//! A boot, described: the page of `knee kernel boot`.

use std::fmt::Write;

use records::{Boot, Hypervisor};

/// What a guest is and how it came up.
pub fn boot(boot: &Boot, hypervisor: &Hypervisor) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    row("kernel", &boot.release);
    row("version", &boot.version);
    row("command line", &boot.command_line);
    row("booted in", &format!("{:.2} s", boot.up_s));
    row("run by", &executed(boot, hypervisor));
    row("CPUs", &cpus(boot));
    row("kernel text", boot.text.as_deref().unwrap_or("unknown (kptr_restrict, or no kallsyms)"));
    row("initramfs", &format!("{:.1} MB", boot.initramfs_bytes as f64 / 1e6));
    let modules = boot.modules.join(" ");
    row("modules", if modules.is_empty() { "none" } else { &modules });
    row("warnings", &format!("{} lines", boot.said.len()));
    for line in &boot.said {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn executed(boot: &Boot, hypervisor: &Hypervisor) -> String {
    // Why not by KVM, the boot has said.
    let emulated = if hypervisor.emulates() { ", emulated" } else { "" };
    format!("{}, {}{emulated}", hypervisor.program, boot.accelerator)
}

fn cpus(boot: &Boot) -> String {
    let count = |group: fn(&host::Cpu) -> u32| {
        let groups: std::collections::BTreeSet<u32> =
            boot.topology.cpus.iter().map(group).collect();
        groups.len()
    };
    format!(
        "{} ({} packages, {} cores, {} nodes)",
        boot.topology.cpus.len(),
        count(|cpu| cpu.package),
        count(|cpu| cpu.core),
        count(|cpu| cpu.node)
    )
}
