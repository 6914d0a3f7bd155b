//! Compiles the BPF programs with clang, where the feature `bpf` asks for them.

fn main() {
    #[cfg(feature = "bpf")]
    bpf::compile_all();
}

#[cfg(feature = "bpf")]
mod bpf {
    use std::env;
    use std::path::{Path, PathBuf};

    /// One program a probe, in its folder.
    const PROBES: &[&str] = &["ledger"];

    pub fn compile_all() {
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        for probe in PROBES {
            let source = PathBuf::from(format!("src/{probe}/{probe}.bpf.c"));
            let parts = std::fs::read_dir(format!("src/{probe}")).expect("a probe is a folder");
            for path in parts.map(|part| part.expect("it can be listed").path()) {
                if [".bpf.c", ".bpf.h"].iter().any(|end| path.to_string_lossy().ends_with(end)) {
                    println!("cargo::rerun-if-changed={}", path.display());
                }
            }
            compile(&source, &out.join(format!("{probe}.bpf.o")));
        }
    }

    fn compile(source: &Path, object: &Path) {
        let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
        // Debian keeps asm/types.h there; clang for the BPF target does not look into it.
        let include = format!("-I/usr/include/{architecture}-linux-gnu");
        // CPU version 3 has 32-bit jumps and arithmetic; every kernel that has BTF takes it.
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(source)
            .obj(object)
            .clang_args([include.as_str(), "-O2", "-mcpu=v3", "-Wall", "-Werror"])
            .build();
        if let Err(why) = built {
            panic!(
                "compiling {}: {why:?}\nclang and libelf-dev are needed (make setup); without \
                 the feature bpf everything but `knee explain` builds",
                source.display()
            );
        }
    }
}
