//! Kernels booted in virtual machines. It takes QEMU and a Debian kernel, which `make setup` unpacks
//! below target/kernels; KNEE_KERNEL names another one. Each file runs as a process of its own
//! (.ci/run-tests): an emulated boot takes some 4 s of CPU time.

mod arm64;
mod boots;
mod commands;
mod conflicts;
mod disks;
mod faults;
mod metal;
mod odometer;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::home::entries;
use crate::skip::skip;

/// The kernel to boot; nothing, with a reason, where there is none.
pub fn kernel(test: &str) -> Option<PathBuf> {
    let boot = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels/boot");
    let unpacked = entries(&boot).into_iter().find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    });
    let kernel = std::env::var_os("KNEE_KERNEL").map(PathBuf::from).or(unpacked);
    if kernel.is_none() {
        skip(test, "no kernel in target/kernels/boot (make setup unpacks one)");
    }
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output();
    if qemu.is_err() {
        skip(test, "no qemu-system-x86_64");
    }
    kernel.filter(|_| qemu.is_ok())
}

/// Some boots and runs on a busy host.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// One guest at a time: more only wait for each other's CPUs.
pub static ALONE: Mutex<()> = Mutex::new(());
