//! What executes guests: KVM where a boot with it succeeds, else emulation. A file called /dev/kvm
//! proves nothing: hosts that are guests themselves often have one that does not work.

use std::fs::OpenOptions;

use anyhow::{Result, bail};
use guests::machine::{self, Accelerator};
use records::{Guest, Hypervisor};

/// What a guest asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wish {
    /// KVM, or emulation where that does not work.
    Whatever,
    /// KVM or nothing.
    Kvm,
    /// Emulation, though there may be better.
    Tcg,
}

impl Wish {
    /// The wish of a guest.
    pub fn of(guest: &Guest) -> Result<Wish> {
        match guest.accelerator.as_deref() {
            None => Ok(Wish::Whatever),
            Some("kvm") => Ok(Wish::Kvm),
            Some("tcg") => Ok(Wish::Tcg),
            Some(other) => bail!("there is no accelerator '{other}': must be kvm or tcg"),
        }
    }
}

/// Why KVM is not even tried.
pub fn no_kvm() -> Option<String> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    opened.err().map(|why| format!("/dev/kvm cannot be opened: {why}"))
}

/// What is found, as a record keeps it.
pub fn found(accelerator: Accelerator, why_not_kvm: Option<String>) -> Result<Hypervisor> {
    Ok(Hypervisor {
        program: machine::version()?,
        accelerator: name(accelerator).to_string(),
        why_not_kvm,
    })
}

/// The word for it.
pub fn name(accelerator: Accelerator) -> &'static str {
    match accelerator {
        Accelerator::Kvm => "kvm",
        Accelerator::Tcg | Accelerator::TcgOneThread => "tcg",
    }
}
