//! The architectures of kernels that guests boot, and what of a virtual machine depends on them.

use object::Endianness::Little;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

use anyhow::{Context, Result, bail, ensure};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    X86_64,
    Arm64,
}

impl Architecture {
    /// That of this host, for which this program was built.
    pub const HOST: Architecture =
        if cfg!(target_arch = "aarch64") { Architecture::Arm64 } else { Architecture::X86_64 };

    /// The name that the kernel's community uses.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86-64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// The name in Rust's targets, in QEMU's programs and of `uname -m`.
    pub fn machine_name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "aarch64",
        }
    }

    /// QEMU's program.
    pub fn qemu(self) -> &'static str {
        match self {
            Architecture::X86_64 => "qemu-system-x86_64",
            Architecture::Arm64 => "qemu-system-aarch64",
        }
    }

    /// Debian's package of [`Architecture::qemu`].
    pub fn qemu_package(self) -> &'static str {
        match self {
            Architecture::X86_64 => "qemu-system-x86",
            Architecture::Arm64 => "qemu-system-arm",
        }
    }

    /// QEMU's machine.
    pub(crate) fn qemu_machine(self) -> &'static str {
        match self {
            Architecture::X86_64 => "q35",
            // The second version of the interrupt controller has 8 CPUs.
            Architecture::Arm64 => "virt,gic-version=max",
        }
    }

    /// The serial console.
    pub fn console(self) -> &'static str {
        match self {
            Architecture::X86_64 => "ttyS0",
            Architecture::Arm64 => "ttyAMA0",
        }
    }

    /// What a kernel is built with to have that console.
    pub fn console_option(self) -> &'static str {
        match self {
            Architecture::X86_64 => "CONFIG_SERIAL_8250_CONSOLE",
            Architecture::Arm64 => "CONFIG_SERIAL_AMBA_PL011_CONSOLE",
        }
    }

    /// What an emulated kernel is spared. On x86-64: measuring the loops in a tick, for which each CPU takes some
    /// tenths of a second while all others wait (10000000 is for 2.5 GHz at 250 ticks/s; no device here depends on
    /// delay loops), whether the CPUs' clocks agree, which are all the host's, and whether timer interrupts come in time, for
    /// want of which kernels panic on a busy host. Everywhere: tests of ciphers, an eighth of
    /// a boot. The user's words come later, and the kernel takes the last of each word.
    pub fn words_for_emulation(self) -> &'static str {
        match self {
            Architecture::X86_64 => "lpj=10000000 tsc=reliable no_timer_check cryptomgr.notests ",
            Architecture::Arm64 => "cryptomgr.notests ",
        }
    }

    /// Refuses a program that cannot be init of a guest with nothing else in it.
    pub fn check_program(self, program: &[u8]) -> Result<()> {
        let header = FileHeader64::<object::Endianness>::parse(program).context("is no program")?;
        let found = match header.e_machine(Little) {
            EM_X86_64 => Architecture::X86_64,
            EM_AARCH64 => Architecture::Arm64,
            _ => bail!("is for another architecture"),
        };
        ensure!(found == self, "is for {}", found.name());
        let segments = header.program_headers(Little, program)?;
        ensure!(
            segments.iter().all(|segment| segment.p_type(Little) != PT_INTERP),
            "is linked dynamically, and a guest has no libraries"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_a_guest_could_not_start_are_refused() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(Architecture::HOST.check_program(&own).is_ok());
        let check = |architecture: Architecture, program: &[u8], expected: &str| {
            let error = architecture.check_program(program).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        };
        let other = match Architecture::HOST {
            Architecture::X86_64 => Architecture::Arm64,
            Architecture::Arm64 => Architecture::X86_64,
        };
        check(other, &own, Architecture::HOST.name());
        check(other, b"#!/bin/sh", "is no program");
        let shell = std::fs::read("/bin/sh").unwrap();
        check(Architecture::HOST, &shell, "is linked dynamically");
    }
}
