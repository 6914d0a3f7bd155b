//! The host's compilers: found, identified, called.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use host::children;
use host::executables::find_program;

/// A compiler with the words that the user gave it by `CC` or `CXX`.
pub struct Compiler {
    /// Its file.
    path: PathBuf,
    words: Vec<String>,
    language: Language,
}

/// The language of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cplusplus,
    /// An object file or an archive, of any language.
    Compiled,
}

impl Language {
    /// The language of a file, by the ending of its name.
    pub fn of(file: &Path) -> Language {
        match file.extension().unwrap_or_default().to_str() {
            Some("o" | "a") => Language::Compiled,
            Some("cc" | "cpp" | "cxx" | "C") => Language::Cplusplus,
            _ => Language::C,
        }
    }
}

impl Compiler {
    /// The compiler for a file: of `CC` or `CXX`, else the first of the usual names in `PATH`.
    pub fn for_file(file: &Path) -> Result<Compiler> {
        let language = Language::of(file);
        let (variable, names): (_, &[&str]) = match language {
            Language::Cplusplus => ("CXX", &["c++", "g++", "clang++"]),
            Language::C | Language::Compiled => ("CC", &["cc", "gcc", "clang"]),
        };
        let given = env::var(variable).unwrap_or_default();
        let given =
            shlex::split(&given).with_context(|| format!("{variable} has an open quote"))?;
        if let [name, words @ ..] = &given[..] {
            let path = find_program(name);
            let path = path.with_context(|| format!("{variable} names {name}: no such program"))?;
            return Ok(Compiler { path, words: words.to_vec(), language });
        }
        match names.iter().find_map(|name| find_program(name)) {
            Some(path) => Ok(Compiler { path, words: Vec::new(), language }),
            None => bail!(
                "no compiler is in PATH ({}): install one (apt install gcc, dnf install gcc), or set \
                 {variable}",
                names.join(", ")
            ),
        }
    }

    pub fn language(&self) -> Language {
        self.language
    }

    /// The first line that it prints about its version.
    pub fn version(&self) -> Result<String> {
        let asking = || format!("asking {} for its version", self.path.display());
        let output = children::output(Command::new(&self.path).arg("--version"));
        let text = output.with_context(asking)?.stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(text.lines().next().unwrap_or_default().trim().to_string())
    }

    /// What changes whenever the compiler is another one. Cheaper than to start it.
    pub fn identity(&self) -> Result<String> {
        let path = fs::canonicalize(&self.path).unwrap_or(self.path.clone());
        let found = fs::metadata(&path)
            .with_context(|| format!("looking at the compiler {}", path.display()))?;
        let (bytes, time, ns) = (found.len(), found.mtime(), found.mtime_nsec());
        Ok(format!("{} {bytes} {time}.{ns} {}", path.display(), self.words.join(" ")))
    }

    /// The words of its command line before any argument.
    pub fn words(&self) -> Vec<String> {
        let path = self.path.to_string_lossy().into_owned();
        [path].into_iter().chain(self.words.iter().cloned()).collect()
    }

    /// Calls it in a folder. If it fails, the error is what it says.
    pub fn call(&self, folder: &Path, arguments: &[OsString]) -> Result<()> {
        let mut command = Command::new(&self.path);
        command.args(&self.words).args(arguments).current_dir(folder).env("LC_ALL", "C");
        let output = children::output(&mut command)
            .with_context(|| format!("starting {}", self.path.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{}: {}\n{}", self.path.display(), output.status, said.trim_end())
    }
}
