//! The programs that build a kernel: which are missing, all at once and with the packages that
//! have them; and the versions of those on which the outcome depends.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Programs that every kernel needs, and the Debian packages that have them.
const PROGRAMS: &[(&str, &str)] = &[
    ("git", "git"),
    ("make", "make"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
];

/// What names types, for probes in BPF.
const TYPES: (&str, &str) = ("pahole", "pahole");

/// A header that the kernel's own tools include (objtool), and its package.
const HEADER: (&str, &str) = ("gelf.h", "libelf-dev");

/// What kernels are built with here.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// As make gets it: `gcc`, `ccache gcc-11`.
    pub command: String,
    /// The compiler's name for itself.
    pub compiler: String,
    /// The linker's.
    pub linker: String,
    /// The version of pahole, if there is one.
    pub pahole: Option<String>,
}

impl Toolchain {
    /// The tools here, with this compiler.
    pub fn find(compiler: &str) -> Result<Toolchain> {
        ensure!(
            std::env::consts::ARCH == "x86_64",
            "knee builds kernels for x86-64, on such a host; this one is {}",
            std::env::consts::ARCH
        );
        check_missing(compiler)?;
        let ccache = on_path("ccache").map_or("", |_| "ccache ");
        Ok(Toolchain {
            command: format!("{ccache}{compiler}"),
            compiler: version(compiler)?,
            linker: version("ld")?,
            pahole: on_path(TYPES.0).map(|_| version(TYPES.0)).transpose()?,
        })
    }

    /// Year in which the first release of this compiler's major version came, for gcc: a new
    /// one each spring since gcc 5 of 2015 (gcc.gnu.org/releases.html).
    pub fn year(&self) -> Option<(u32, u32)> {
        let (name, rest) = self.compiler.split_once(' ')?;
        let numbers = rest.rsplit(' ').find_map(|word| {
            let (major, rest) = word.split_once('.')?;
            rest.starts_with(|c: char| c.is_ascii_digit()).then(|| major.parse().ok())?
        });
        let major: u32 = numbers.filter(|_| name.contains("gcc"))?;
        (major >= 5).then_some((major, 2010 + major))
    }
}

/// Says everything that is missing, so that one installation does.
fn check_missing(compiler: &str) -> Result<()> {
    let mut missing: Vec<(String, &str)> = Vec::new();
    let programs = PROGRAMS.iter().copied().chain([(compiler, compiler)]);
    for (name, package) in programs.filter(|(name, _)| on_path(name).is_none()) {
        missing.push((name.to_string(), package));
    }
    if on_path(compiler).is_some() && !has_header(compiler, HEADER.0)? {
        missing.push((HEADER.0.to_string(), HEADER.1));
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    ensure!(
        missing.is_empty(),
        "building a kernel needs what is not here: {} (apt install {})",
        names.join(", "),
        packages.join(" ")
    );
    Ok(())
}

/// What is lost without pahole.
pub const WITHOUT_TYPES: &str = "no pahole here (apt install pahole): these kernels have no types \
                                 (BTF), and `knee explain` will see little in them";

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn has_header(compiler: &str, header: &str) -> Result<bool> {
    let include = ["-E", "-include", header, "-x", "c", "/dev/null"];
    let mut command = Command::new(compiler);
    command.args(include).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status().with_context(|| format!("starting {compiler}"))?.success())
}

/// The first line of what a program says of its version.
fn version(name: &str) -> Result<String> {
    let asked =
        Command::new(name).arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = asked.with_context(|| format!("starting {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
    Ok(line.with_context(|| format!("{name} --version says nothing"))?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(compiler: &str, expected: Option<(u32, u32)>) {
        let none = String::new();
        let (command, linker) = (none.clone(), none);
        let known = Toolchain { command, compiler: compiler.to_string(), linker, pahole: None };
        assert_eq!(known.year(), expected);
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
        let said = Toolchain::find("no-such-gcc").unwrap_err().to_string();
        assert!(said.contains("no-such-gcc"), "{said}");
        assert!(said.contains("(apt install "), "{said}");
    }
}
