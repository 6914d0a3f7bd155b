//! What executes guests: KVM where a boot with it succeeds, else emulation. A file called /dev/kvm
//! proves nothing: hosts that are guests themselves often have one that does not work.

use std::fs::OpenOptions;

use anyhow::Result;
use guests::architecture::Architecture;
use guests::qemu::{self, Accelerator};
use records::{Hypervisor, ICOUNT};

/// Why KVM cannot even be tried for such a kernel, if so.
pub fn no_kvm(architecture: Architecture) -> Option<String> {
    if architecture != Architecture::HOST {
        let (kernel, host) = (architecture.name(), Architecture::HOST.name());
        return Some(format!("the kernel is for {kernel}, and the host is {host}"));
    }
    let opened = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    opened.err().map(|why| format!("/dev/kvm cannot be opened: {why}"))
}

/// The hypervisor as a record keeps it.
pub fn describe(
    architecture: Architecture,
    accelerator: Accelerator,
    why_not_kvm: Option<String>,
) -> Result<Hypervisor> {
    Ok(Hypervisor {
        program: qemu::version(architecture)?,
        accelerator: name(accelerator).to_string(),
        why_not_kvm,
    })
}

/// The accelerator's name in records and on the command line.
pub fn name(accelerator: Accelerator) -> &'static str {
    match accelerator {
        Accelerator::Kvm => "kvm",
        Accelerator::Tcg | Accelerator::TcgOneThread => "tcg",
        Accelerator::TcgCounted => ICOUNT,
    }
}
