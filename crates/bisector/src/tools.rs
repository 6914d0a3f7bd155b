//! What builds a commit, as a hash: compilers and linkers of the host, and variables that they read. A base that another
//! compiler built would differ from the head by the compiler.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use host::durable::Seal;
use host::executables::find_program;
use host::paths;

/// Programs that compile or link.
const PROGRAMS: [&str; 20] = [
    "as", "c++", "cargo", "cc", "clang", "clang++", "g++", "gcc", "gfortran", "ghc", "go", "javac",
    "ld", "ld.gold", "ld.lld", "mold", "ocamlopt", "rustc", "swiftc", "zig",
];

/// Variables that say which of them compile, and how.
const VARIABLES: [&str; 27] = [
    "AS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CC",
    "CFLAGS",
    "CGO_CFLAGS",
    "CGO_CXXFLAGS",
    "CGO_ENABLED",
    "CGO_LDFLAGS",
    "CPPFLAGS",
    "CXX",
    "CXXFLAGS",
    "FC",
    "FFLAGS",
    "GOAMD64",
    "GOARM64",
    "GOEXPERIMENT",
    "GOFLAGS",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "LD",
    "LDFLAGS",
    "LDLIBS",
    "MAKEFLAGS",
    "RUSTC",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
];

/// The hash. Equal hashes build equal commits equally, as far as the size and the time of a file tell one compiler from another.
pub fn tools() -> String {
    let programs = PROGRAMS.into_iter().filter_map(find_program);
    let mut all: String = programs.chain(of_rustup()).filter_map(|path| stamp(&path)).collect();
    for name in VARIABLES {
        all += &format!("{name}={:?}\n", env::var_os(name));
    }
    Seal::for_bytes(all.as_bytes()).sha256[..16].to_string()
}

/// Compilers that rustup starts, and its choice among them.
fn of_rustup() -> Vec<PathBuf> {
    let given = env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let Some(home) = given.or_else(|| Some(paths::home_given()?.join(".rustup"))) else {
        return Vec::new();
    };
    let toolchains = fs::read_dir(home.join("toolchains")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = toolchains.map(|one| one.path().join("bin/rustc")).collect();
    files.push(home.join("settings.toml"));
    files.sort();
    files
}

/// What tells a file from another in its place: an update replaces it.
fn stamp(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let file = fs::metadata(&real).ok()?;
    Some(format!("{path:?} {real:?} {} {}.{}\n", file.len(), file.mtime(), file.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use super::stamp;

    #[test]
    fn a_compiler_that_is_updated_is_another() {
        let root = tempfile::tempdir().unwrap();
        let [old, new, cc] = ["gcc-12", "gcc-13", "cc"].map(|name| root.path().join(name));
        fs::write(&old, "12").unwrap();
        fs::write(&new, "13").unwrap();
        symlink(&old, &cc).unwrap();
        let before = stamp(&cc).unwrap();
        assert_eq!(stamp(&cc).unwrap(), before);
        let later = SystemTime::now() + Duration::from_secs(60);
        File::open(&old).unwrap().set_modified(later).unwrap();
        assert_ne!(stamp(&cc).unwrap(), before, "it was replaced");
        fs::remove_file(&cc).unwrap();
        symlink(&new, &cc).unwrap();
        assert!(stamp(&cc).unwrap().contains("gcc-13"));
        assert_eq!(stamp(&root.path().join("none")), None);
    }
}
