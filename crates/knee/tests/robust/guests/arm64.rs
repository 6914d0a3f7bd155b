//! Kernels for arm64 on a host of another architecture. To boot one takes more than CI has: KNEE_ARM64_KERNEL names the
//! kernel, and knee for arm64 lies beside the tested knee (docs/guide/kernels.md).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use crate::guests::{ALONE, PATIENCE};
use crate::home::Home;
use crate::skip::skip;

#[test]
fn a_kernel_for_arm64_runs_verified_locks_faults_and_files() {
    let test = "a kernel for arm64 in a virtual machine";
    let Some(kernel) = std::env::var_os("KNEE_ARM64_KERNEL").map(PathBuf::from) else {
        return skip(test, "KNEE_ARM64_KERNEL names none (docs/guide/kernels.md)");
    };
    if !Path::new(env!("CARGO_BIN_EXE_knee")).with_file_name("knee-aarch64").is_file() {
        return skip(test, "no knee-aarch64 beside knee (docs/guide/kernels.md)");
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let loads = "run lock_mcs posix_lock_own page_fault_shared_file create_files --cpus 1,2 \
                 --as processes,threads --seconds 0.2 --blocks 1 --seed 7";
    let knee = &mut home.knee(&format!("{loads} --kernel {}", kernel.display()));
    let ended = home.start(knee).end_within(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let record = home.record();
    assert_eq!(record.runs.len(), 16);
    for run in &record.runs {
        assert!(run.finished(), "{run:?}");
    }
    assert!(record.record.emulated());
}

#[test]
fn a_kernel_for_another_architecture_says_which_knee_it_needs() {
    if cfg!(target_arch = "aarch64") {
        return skip("a kernel for another architecture", "the test's own is for arm64");
    }
    let home = Home::new();
    let qemu = "qemu-system-aarch64";
    let mut image = vec![0; 0x38];
    image.extend(b"ARM\x64\0Linux version 6.1.0-arm64 (me) #1\0");
    fs::write(home.path("image"), image).unwrap();
    let boot = |path: &Path| {
        let mut knee = home.knee("kernel boot image");
        home.start(knee.env("PATH", path)).end()
    };
    let refused = boot(Path::new("/nonexistent"));
    let wanted = format!("{qemu}, which runs virtual machines for arm64 kernels, is not installed");
    assert!(refused.stderr.contains(&wanted), "{}", refused.stderr);
    fs::create_dir(home.path("bin")).unwrap();
    let fake = home.path("bin").join(qemu);
    fs::write(&fake, "#!/bin/sh\necho QEMU\n").unwrap();
    fs::set_permissions(fake, Permissions::from_mode(0o755)).unwrap();
    let refused = boot(&home.path("bin"));
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("its guest needs knee for arm64 as"), "{}", refused.stderr);
    assert!(refused.stderr.contains("knee-aarch64"), "{}", refused.stderr);
}
