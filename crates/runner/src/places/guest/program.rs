//! knee as init of a guest: this binary, or, for a kernel of another architecture, the one beside it that was built
//! for that.

use std::fs;

use anyhow::{Context, Result};
use guests::architecture::Architecture;
use guests::initramfs::stripped;

/// The binary for a guest, without what only debuggers and linkers read.
pub fn for_guest(architecture: Architecture) -> Result<Vec<u8>> {
    if architecture == Architecture::HOST {
        let own = fs::read("/proc/self/exe").context("reading knee's own binary")?;
        return stripped(&own).context("making init of knee's own binary");
    }
    let (name, machine) = (architecture.name(), architecture.machine_name());
    let path = std::env::current_exe().context("looking for knee's own binary")?;
    let path = path.with_file_name(format!("knee-{machine}"));
    let read = || {
        let program = fs::read(&path)?;
        architecture.check_program(&program)?;
        stripped(&program)
    };
    read().with_context(|| {
        format!(
            "the kernel is for {name}, and its guest needs knee for {name} as {}: build the same revision with cargo \
             build --release --target {machine}-unknown-linux-gnu, and copy it there",
            path.display()
        )
    })
}
