//! The programs that build a kernel: reports all missing ones together, with their packages, and
//! reads the versions that the image depends on.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use host::children;
use host::executables::find_program;

/// Programs that every kernel's build needs, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("git", "git"),
    ("make", "make"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
];

/// The program that generates types (BTF) for probes in BPF, and its package.
const TYPES: (&str, &str) = ("pahole", "pahole");

/// A header that the kernel's own tools include (objtool), and its package.
const HEADER: (&str, &str) = ("gelf.h", "libelf-dev");

/// The tools of this host that kernels are built with.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The compiler command for make: `gcc`, `ccache gcc-11`.
    pub command: String,
    /// The first line of the compiler's `--version`.
    pub compiler: String,
    /// The first line of the linker's `--version`.
    pub linker: String,
    /// The version of pahole, if there is one.
    pub pahole: Option<String>,
}

impl Toolchain {
    /// Finds the tools of this host, with this compiler.
    pub fn find(compiler: &str) -> Result<Toolchain> {
        ensure!(
            std::env::consts::ARCH == "x86_64",
            "knee builds kernels only for x86-64 and on x86-64; this host is {}",
            std::env::consts::ARCH
        );
        check_missing(compiler)?;
        let ccache = find_program("ccache").map_or("", |_| "ccache ");
        Ok(Toolchain {
            command: format!("{ccache}{compiler}"),
            compiler: version(compiler)?,
            linker: version("ld")?,
            pahole: find_program(TYPES.0).map(|_| version(TYPES.0)).transpose()?,
        })
    }

    /// The major version of gcc and the year of its first release: one each spring since gcc 5 of
    /// 2015 (gcc.gnu.org/releases.html). `None` for other compilers.
    pub fn year(&self) -> Option<(u32, u32)> {
        let (name, rest) = self.compiler.split_once(' ')?;
        let major = rest.rsplit(' ').find_map(|word| {
            let (major, rest) = word.split_once('.')?;
            rest.starts_with(|c: char| c.is_ascii_digit()).then(|| major.parse().ok())?
        });
        let major: u32 = major.filter(|_| name.contains("gcc"))?;
        (major >= 5).then_some((major, 2010 + major))
    }
}

/// Refuses a host that lacks tools, and names all of them, so that one installation is enough.
fn check_missing(compiler: &str) -> Result<()> {
    let mut missing: Vec<(String, &str)> = Vec::new();
    let programs = PROGRAMS.iter().copied().chain([(compiler, compiler)]);
    for (name, package) in programs.filter(|(name, _)| find_program(name).is_none()) {
        missing.push((name.to_string(), package));
    }
    if find_program(compiler).is_some() && !has_header(compiler, HEADER.0)? {
        missing.push((HEADER.0.to_string(), HEADER.1));
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    ensure!(
        missing.is_empty(),
        "this host lacks what building a kernel needs: {} (apt install {})",
        names.join(", "),
        packages.join(" ")
    );
    Ok(())
}

/// The warning where types are requested and pahole is missing.
pub const WITHOUT_TYPES: &str = "this host has no pahole (apt install pahole): these kernels get no \
                                 types (BTF), so most probes of `knee explain` will not work in them";

fn has_header(compiler: &str, header: &str) -> Result<bool> {
    let include = ["-E", "-include", header, "-x", "c", "/dev/null"];
    let mut command = Command::new(compiler);
    let output = children::output(command.args(include));
    Ok(output.with_context(|| format!("starting {compiler}"))?.status.success())
}

/// The first line of a program's `--version`.
fn version(name: &str) -> Result<String> {
    let output = children::output(Command::new(name).arg("--version").env("LC_ALL", "C"));
    let output = output.with_context(|| format!("starting {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
    Ok(line.with_context(|| format!("{name} --version printed nothing"))?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(compiler: &str, expected: Option<(u32, u32)>) {
        let (command, linker) = (String::new(), String::new());
        let toolchain = Toolchain { command, compiler: compiler.to_string(), linker, pahole: None };
        assert_eq!(toolchain.year(), expected);
    }

    #[test]
    fn the_year_of_a_gcc_follows_from_its_number() {
        check("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", Some((12, 2022)));
        check("gcc-5 (Ubuntu 5.5.0-12ubuntu1) 5.5.0 20171010", Some((5, 2015)));
        check("gcc (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)", None);
        check("Debian clang version 14.0.6", None);
        check("", None);
    }

    #[test]
    fn a_compiler_that_is_missing_is_named() {
        let error = Toolchain::find("no-such-gcc").unwrap_err().to_string();
        assert!(error.contains("no-such-gcc"), "{error}");
        assert!(error.contains("(apt install "), "{error}");
    }
}
