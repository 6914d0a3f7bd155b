//! Which spinlocks an x86 kernel uses. In a virtual machine that is decided at boot, by what the
//! hypervisor offers and by the command line, and makes an order of magnitude where vCPUs are
//! preempted: a guest without paravirtual help falls back to test-and-set.
//!
//! Before Linux 4.2 they were ticket locks, of which nothing is said. A guest's kernel without
//! CONFIG_PARAVIRT would have queued ones; no distribution builds one.
//!
//! Source: `kvm_spinlock_init` in arch/x86/kernel/kvm.c, `virt_spin_lock` in
//! arch/x86/include/asm/qspinlock.h, Linux 4.2 to 6.18; Documentation/virt/kvm/x86/cpuid.rst.

use std::path::Path;

use crate::tree::value;

/// KVM_FEATURE_PV_UNHALT: a vCPU can halt until another one kicks it.
const PV_UNHALT: u32 = 1 << 7;

/// KVM_HINTS_REALTIME: vCPUs are never preempted for long.
const REALTIME: u32 = 1 << 0;

/// Only a kernel with CONFIG_PARAVIRT_SPINLOCKS has it.
const PARAVIRTUAL: &str = " __pv_queued_spin_lock_slowpath\n";

/// What decides.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// The CPU says that it is virtual.
    guest: bool,
    /// Features and hints of KVM, where that is the hypervisor.
    kvm: Option<(u32, u32)>,
    /// The kernel was built with paravirtual spinlocks; nothing where its symbols do not tell.
    built_in: Option<bool>,
    /// `nopvspin` stands on its command line.
    forbidden: bool,
    /// It has one CPU, and can have no more.
    alone: bool,
}

/// In words, for the host that the files below `root` describe; nothing where it is not known.
pub fn spinlocks(root: &Path) -> Option<String> {
    value(root, "proc/sys/kernel/osrelease").filter(|release| is_queued(release))?;
    let processor = value(root, "proc/cpuinfo")?;
    let flags = processor.lines().find(|line| line.starts_with("flags"))?;
    let guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    // Neither is in a recorded tree, and the list of symbols is long.
    let here = guest && root == Path::new("/");
    let symbols = here.then(|| value(root, "proc/kallsyms")).flatten().unwrap_or_default();
    let words = value(root, "proc/cmdline").unwrap_or_default();
    let facts = Facts {
        guest,
        kvm: if here { kvm() } else { None },
        built_in: (!symbols.is_empty()).then(|| symbols.contains(PARAVIRTUAL)),
        forbidden: words.split_whitespace().any(|word| word == "nopvspin"),
        alone: value(root, "sys/devices/system/cpu/possible").as_deref() == Some("0"),
    };
    // Without them nothing of a guest is known.
    (!guest || here).then(|| kind(facts).to_string())
}

fn kind(facts: Facts) -> &'static str {
    match facts {
        Facts { guest: false, .. } => "queued",
        Facts { kvm: None, .. } => "not known (a guest of another hypervisor than KVM)",
        Facts { built_in: None, .. } => "not known (a guest that does not show its symbols)",
        // Nothing of such a kernel reads nopvspin, nor what KVM hints.
        Facts { built_in: Some(false), .. } => {
            "test-and-set (a guest without CONFIG_PARAVIRT_SPINLOCKS)"
        }
        Facts { forbidden: true, .. } => "queued, as on bare metal (nopvspin)",
        Facts { kvm: Some((_, hints)), .. } if hints & REALTIME != 0 => {
            "queued, as on bare metal (the hypervisor promises not to preempt)"
        }
        Facts { alone: true, .. } => "queued, as on bare metal (one CPU)",
        Facts { kvm: Some((features, _)), .. } if features & PV_UNHALT != 0 => {
            "queued, paravirtual (KVM)"
        }
        Facts { .. } => "test-and-set (KVM offers no paravirtual ones)",
    }
}

/// Whether a kernel has queued spinlocks at all.
fn is_queued(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(4), Some(2))
}

/// Features and hints that KVM tells its guests by CPUID.
fn kvm() -> Option<(u32, u32)> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        // Hypervisors have a range of their own; each 256 leaves there may be another.
        let bases = (0x4000_0000..0x4001_0000).step_by(0x100);
        for base in bases {
            let leaf = __cpuid(base);
            let name = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
            if name == *b"KVMKVMKVM\0\0\0" {
                let features = __cpuid(base + 1);
                return Some((features.eax, features.edx));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_is_what_the_kernel_asks() {
        let kvm = Some((PV_UNHALT, 0));
        let guest = Facts { guest: true, kvm, built_in: Some(true), ..Facts::default() };
        let check = |facts: Facts, expected: &str| assert!(kind(facts).starts_with(expected));
        check(Facts::default(), "queued");
        check(guest, "queued, paravirtual");
        check(Facts { kvm: Some((0, 0)), ..guest }, "test-and-set (KVM");
        check(Facts { forbidden: true, ..guest }, "queued, as on bare metal (nopvspin");
        check(Facts { kvm: Some((PV_UNHALT, REALTIME)), ..guest }, "queued, as on bare metal (the");
        check(Facts { alone: true, ..guest }, "queued, as on bare metal (one");
        check(Facts { kvm: None, ..guest }, "not known (a guest of another");
        check(Facts { built_in: None, ..guest }, "not known (a guest that");
        check(Facts { built_in: Some(false), forbidden: true, ..guest }, "test-and-set (a guest");
    }

    #[test]
    fn before_linux_4_2_there_were_none() {
        for (release, queued) in [("4.1.52", false), ("4.2.0-rc1", true), ("6.18.44-fc", true)] {
            assert_eq!(is_queued(release), queued, "{release}");
        }
        assert!(!is_queued("3.10.0-1160.el7") && is_queued("10.0"));
    }
}
