//! The programs of others that knee is measured against: Debian's packages, installed when root.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::output;

/// Where this program of this package is; installed first where it is missing and may be.
pub fn find(program: &str, package: &str) -> Result<PathBuf> {
    if let Some(found) = in_path(program) {
        return Ok(found);
    }
    let missing = || format!("no program {program}: install the package {package}");
    // SAFETY: no preconditions.
    ensure!(unsafe { libc::geteuid() } == 0 && in_path("apt-get").is_some(), missing());
    eprintln!("installing {package}");
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    output(install.args(["install", "-qq", "-y", "--no-install-recommends", package]))
        .with_context(missing)?;
    in_path(program).with_context(missing)
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
