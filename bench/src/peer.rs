//! The programs of others that knee is measured against: Debian's packages, installed when root.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use host::executables::find_program;

use crate::output;

/// Where this program of this package is; installed first where it is missing and may be.
pub fn find(program: &str, package: &str) -> Result<PathBuf> {
    if let Some(found) = find_program(program) {
        return Ok(found);
    }
    let missing = || format!("no program {program}: install the package {package}");
    // SAFETY: no preconditions.
    ensure!(unsafe { libc::geteuid() } == 0 && find_program("apt-get").is_some(), missing());
    eprintln!("installing {package}");
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    output(install.args(["install", "-qq", "-y", "--no-install-recommends", package]))
        .with_context(missing)?;
    find_program(program).with_context(missing)
}
