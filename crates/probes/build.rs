//! Compiles the BPF programs with clang, if the feature `bpf` is on.

fn main() {
    #[cfg(feature = "bpf")]
    bpf::compile_all();
}

#[cfg(feature = "bpf")]
mod bpf {
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitStatus};
    use std::{env, fs, io};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    /// The probes in BPF, each with a folder of its own.
    const PROBES: &[&str] = &["ledger", "live", "lock_delay"];

    pub fn compile_all() {
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        for probe in PROBES {
            let source = PathBuf::from(format!("src/{probe}/{probe}.bpf.c"));
            let files = fs::read_dir(format!("src/{probe}")).expect("a probe is a folder");
            for path in files.map(|file| file.expect("the folder can be listed").path()) {
                if [".bpf.c", ".bpf.h"].iter().any(|end| path.to_string_lossy().ends_with(end)) {
                    println!("cargo::rerun-if-changed={}", path.display());
                }
            }
            let object = out.join(format!("{probe}.bpf.o"));
            compile(&source, &object);
            pack(&object).expect("cargo's folder can be written");
        }
    }

    /// Compresses an object, to a fifth, into a file beside it.
    fn pack(object: &Path) -> io::Result<()> {
        let file = fs::File::create(object.with_extension("o.gz"))?;
        let mut packed = GzEncoder::new(file, Compression::best());
        io::copy(&mut fs::File::open(object)?, &mut packed)?;
        packed.finish().map(|_| ())
    }

    fn compile(source: &Path, object: &Path) {
        let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
        let target = match architecture.as_str() {
            "x86_64" => "x86",
            "aarch64" => "arm64",
            other => other,
        };
        let libbpf = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys sets it");
        let here = env::current_dir().expect("cargo starts it in the package");
        // CPU version 3 has 32-bit jumps and arithmetic; every kernel with BTF accepts it.
        let built = Command::new("clang")
            .args(["-target", "bpf", "-mcpu=v3", "-g", "-O2", "-fno-stack-protector"])
            .args(["-Wall", "-Werror", "-c"])
            .arg(format!("-D__TARGET_ARCH_{target}"))
            .arg(format!("-I{libbpf}"))
            // Lines of the source are named in the object, the same in whichever folder it is built.
            .arg(format!("-ffile-prefix-map={}=.", here.display()))
            .arg(format!("-ffile-prefix-map={libbpf}=libbpf"))
            // Debian keeps asm/types.h there, where clang does not look for the BPF target.
            .arg(format!("-I/usr/include/{architecture}-linux-gnu"))
            .arg(source)
            .arg("-o")
            .arg(object)
            .status();
        if !built.as_ref().is_ok_and(ExitStatus::success) {
            panic!(
                "compiling {} with clang: {built:?}\nthis needs clang and libelf-dev (make setup); without \
                 the feature bpf, all of knee but `knee explain` works",
                source.display()
            );
        }
    }
}
