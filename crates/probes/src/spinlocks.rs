//! Which spinlocks an x86 kernel uses. A guest decides it at boot, by what the hypervisor offers
//! and by the command line, and the choice makes an order of magnitude where vCPUs are preempted:
//! a guest without paravirtual spinlocks falls back to test-and-set.
//!
//! Before Linux 4.2 there were ticket locks, which are not reported. A guest kernel without
//! CONFIG_PARAVIRT would have queued spinlocks; no distribution builds one.
//!
//! Source: `kvm_spinlock_init` in arch/x86/kernel/kvm.c, `virt_spin_lock` in
//! arch/x86/include/asm/qspinlock.h, Linux 4.2 to 6.18; Documentation/virt/kvm/x86/cpuid.rst.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::tree::value;

/// KVM_FEATURE_PV_UNHALT: a vCPU can halt until another vCPU kicks it.
const PV_UNHALT: u32 = 1 << 7;

/// KVM_HINTS_REALTIME: vCPUs are never preempted for long.
const REALTIME: u32 = 1 << 0;

/// A function that only kernels with CONFIG_PARAVIRT_SPINLOCKS have.
const PARAVIRTUAL: &str = "__pv_queued_spin_lock_slowpath";

/// The facts by which a kernel chooses its spinlocks.
#[derive(Clone, Copy, Debug, Default)]
struct SpinlockFacts {
    /// The CPU is virtual.
    guest: bool,
    /// The features and hints of KVM, if that is the hypervisor.
    kvm: Option<(u32, u32)>,
    /// Whether the kernel was built with paravirtual spinlocks, if its symbols are readable.
    built_in: Option<bool>,
    /// `nopvspin` is on the command line.
    forbidden: bool,
    /// The kernel has one CPU and cannot have more.
    single_cpu: bool,
}

/// The spinlocks of the host that the files below `root` describe, in words; `None` if unknown.
pub fn spinlocks(root: &Path) -> Option<String> {
    value(root, "proc/sys/kernel/osrelease").filter(|release| is_queued(release))?;
    let processor = value(root, "proc/cpuinfo")?;
    let flags = processor.lines().find(|line| line.starts_with("flags"))?;
    let guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    // A recorded tree has neither CPUID nor symbols.
    let here = guest && root == Path::new("/");
    let words = value(root, "proc/cmdline").unwrap_or_default();
    let facts = SpinlockFacts {
        guest,
        kvm: if here { kvm() } else { None },
        built_in: if here { built_in(root) } else { None },
        forbidden: words.split_whitespace().any(|word| word == "nopvspin"),
        single_cpu: value(root, "sys/devices/system/cpu/possible").as_deref() == Some("0"),
    };
    // Of a guest in a recorded tree, the deciding facts are unknown.
    (!guest || here).then(|| kind(facts).to_string())
}

/// Whether the kernel has [`PARAVIRTUAL`]. Its types name most functions; /proc/kallsyms names all, but
/// the kernel formats it anew for each reader, which takes some 50 ms.
fn built_in(root: &Path) -> Option<bool> {
    let names = names_of_types(&root.join("sys/kernel/btf/vmlinux")).unwrap_or_default();
    if names.split(|byte| *byte == 0).any(|name| name == PARAVIRTUAL.as_bytes()) {
        return Some(true);
    }
    let symbols = value(root, "proc/kallsyms")?;
    Some(symbols.lines().any(|line| line.split_whitespace().nth(2) == Some(PARAVIRTUAL)))
}

/// The names in a file of BTF, each with a zero byte behind it, and nothing else of the file: the kernel
/// gives a page for each read.
fn names_of_types(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut header = [0; 24];
    file.read_exact(&mut header)?;
    let number = |at: usize| {
        u64::from(u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes")))
    };
    file.seek(SeekFrom::Start(number(4) + number(16)))?;
    let mut names = Vec::new();
    file.take(number(20)).read_to_end(&mut names)?;
    Ok(names)
}

fn kind(facts: SpinlockFacts) -> &'static str {
    match facts {
        SpinlockFacts { guest: false, .. } => "queued",
        SpinlockFacts { kvm: None, .. } => "unknown (a guest of a hypervisor other than KVM)",
        SpinlockFacts { built_in: None, .. } => "unknown (a guest with unreadable kernel symbols)",
        // Such a kernel ignores nopvspin and KVM's hints.
        SpinlockFacts { built_in: Some(false), .. } => {
            "test-and-set (a guest without CONFIG_PARAVIRT_SPINLOCKS)"
        }
        SpinlockFacts { forbidden: true, .. } => "queued, as on bare metal (nopvspin)",
        SpinlockFacts { kvm: Some((_, hints)), .. } if hints & REALTIME != 0 => {
            "queued, as on bare metal (the hypervisor promises not to preempt)"
        }
        SpinlockFacts { single_cpu: true, .. } => "queued, as on bare metal (one CPU)",
        SpinlockFacts { kvm: Some((features, _)), .. } if features & PV_UNHALT != 0 => {
            "queued, paravirtual (KVM)"
        }
        SpinlockFacts { .. } => "test-and-set (KVM does not offer paravirtual spinlocks)",
    }
}

/// Whether a kernel of this release has queued spinlocks.
fn is_queued(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(4), Some(2))
}

/// The features and hints that KVM reports to its guests in CPUID.
fn kvm() -> Option<(u32, u32)> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        // Hypervisors have their own range of leaves; every 256 leaves another may begin.
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
        let guest =
            SpinlockFacts { guest: true, kvm, built_in: Some(true), ..SpinlockFacts::default() };
        let check =
            |facts: SpinlockFacts, expected: &str| assert!(kind(facts).starts_with(expected));
        check(SpinlockFacts::default(), "queued");
        check(guest, "queued, paravirtual");
        check(SpinlockFacts { kvm: Some((0, 0)), ..guest }, "test-and-set (KVM");
        check(SpinlockFacts { forbidden: true, ..guest }, "queued, as on bare metal (nopvspin");
        check(
            SpinlockFacts { kvm: Some((PV_UNHALT, REALTIME)), ..guest },
            "queued, as on bare metal (the",
        );
        check(SpinlockFacts { single_cpu: true, ..guest }, "queued, as on bare metal (one");
        check(SpinlockFacts { kvm: None, ..guest }, "unknown (a guest of a");
        check(SpinlockFacts { built_in: None, ..guest }, "unknown (a guest with");
        check(
            SpinlockFacts { built_in: Some(false), forbidden: true, ..guest },
            "test-and-set (a guest",
        );
    }

    #[test]
    fn the_kernel_has_a_function_that_its_types_or_its_symbols_name() {
        // magic, version, flags; lengths of the header and offsets of types and strings.
        let types = |names: &str, length: u32| {
            let header = [24, 0, 4, 4, length].map(u32::to_ne_bytes).concat();
            [&[0x9f, 0xeb, 1, 0][..], &header, &[0xff; 4], names.as_bytes()].concat()
        };
        let check = |types: &[u8], symbols: &str, expected: Option<bool>| {
            let files = [("sys/kernel/btf/vmlinux", ""), ("proc/kallsyms", symbols)];
            let root = crate::tree::fake(&files);
            std::fs::write(root.path().join(files[0].0), types).unwrap();
            assert_eq!(built_in(root.path()), expected, "{types:?} {symbols}");
        };
        let found = format!("\0int\0{PARAVIRTUAL}\0");
        check(&types(&found, found.len() as u32), "", Some(true));
        check(&types(&found, u32::MAX), "", Some(true));
        check(&types(&found, 5), "", None);
        check(&types(&found, 5), "ffff T _text", Some(false));
        check(&[0x9f, 0xeb], &format!("ffff T _text\nffff T {PARAVIRTUAL}\n"), Some(true));
        check(&[], &format!("ffff t {PARAVIRTUAL}_x"), Some(false));
    }

    #[test]
    fn before_linux_4_2_there_were_none() {
        for (release, queued) in [("4.1.52", false), ("4.2.0-rc1", true), ("6.18.44-fc", true)] {
            assert_eq!(is_queued(release), queued, "{release}");
        }
        assert!(!is_queued("3.10.0-1160.el7") && is_queued("10.0"));
    }
}
