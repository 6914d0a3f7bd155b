//! Compiles the plugins of QEMU for each version of QEMU's interface, to be embedded.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Their names, in `plugin`.
const PLUGINS: [&str; 2] = ["accesses", "counts"];

/// The versions of the interface that differ for the plugins.
const VERSIONS: [u32; 3] = [1, 2, 3];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=plugin/interface.h");
    for plugin in PLUGINS {
        let source = format!("plugin/{plugin}.c");
        println!("cargo::rerun-if-changed={source}");
        for version in VERSIONS {
            compile(&source, version, &out.join(format!("{plugin}-{version}.so")));
        }
    }
}

/// Compiles with the compiler that links Rust's programs, without any library: QEMU has loaded the C library.
fn compile(source: &str, version: u32, plugin: &Path) {
    let target = env::var("TARGET").expect("cargo sets it").to_uppercase().replace('-', "_");
    let linker = env::var(format!("CARGO_TARGET_{target}_LINKER"));
    let compiler = env::var("RUSTC_LINKER").or(linker).unwrap_or_else(|_| "cc".to_string());
    let built = Command::new(&compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-nostdlib", "-s"])
        .args(["-fvisibility=hidden", "-fno-stack-protector"])
        .arg(format!("-DPLUGIN_API={version}"))
        .arg(source)
        .arg("-o")
        .arg(plugin)
        .status();
    if !built.as_ref().is_ok_and(ExitStatus::success) {
        panic!(
            "compiling {source} with {compiler}: {built:?}\nthis needs a C compiler (make setup)"
        );
    }
}
