//! Locks in C among the names on a command line: files, which are compiled.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use c_locks::Program;
use engines::Unsupported;
use studies::replays::OwnLock;

/// Whether a name on the command line is a lock in C.
pub fn is_c_file(name: impl AsRef<Path>) -> bool {
    name.as_ref().extension().is_some_and(|ending| ending == "c")
}

/// A lock in C that was compiled, or the reason why it cannot be checked.
pub type Checkable = std::result::Result<&'static Program, &'static Refused>;

/// A lock in C that cannot be checked.
pub struct Refused {
    pub name: String,
    pub file: PathBuf,
    pub why: Unsupported,
}

/// Compiles the C files among the names, with the user's flags. They are kept until the program ends.
pub fn compiled(names: &[String], flags: Option<&str>) -> Result<Vec<&'static Program>> {
    let program = |file: Checkable| {
        file.map_err(|refused| anyhow!("{}: not checked: {}", refused.file.display(), refused.why))
    };
    checkable(names, flags)?.into_iter().map(program).collect()
}

/// As [`compiled`], with the reasons for those that cannot be checked.
pub fn checkable(names: &[String], flags: Option<&str>) -> Result<Vec<Checkable>> {
    let flags = shlex::split(flags.unwrap_or_default()).context("--cflags has an open quote")?;
    let mut files: Vec<Checkable> = Vec::new();
    for file in names.iter().map(Path::new).filter(|file| is_c_file(file)) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if files.iter().any(|other| self::name(other) == name) {
            bail!("two locks are called {name}: rename a file, or name one of them only");
        }
        files.push(match c_locks::compile(file, &flags) {
            Ok(program) => Ok(Box::leak(Box::new(program))),
            Err(error) => {
                let why = error.downcast_ref::<Unsupported>().cloned();
                let Some(why) = why else { return Err(error) };
                Err(Box::leak(Box::new(Refused { name, file: file.to_path_buf(), why })))
            }
        });
    }
    Ok(files)
}

fn name(file: &Checkable) -> &'static str {
    file.map_or_else(|refused| refused.name.as_str(), |program| program.name.as_str())
}

/// The file with this name on the command line.
pub fn checkable_named(files: &[Checkable], name: &str) -> Option<Checkable> {
    let file = Path::new(name).file_name()?.to_str()?;
    files.iter().copied().find(|other| self::name(other) == file)
}

/// Compiles the lock in a file, for a publication that names it.
pub fn published(file: &Path, flags: &str) -> Result<&'static dyn OwnLock> {
    let flags = shlex::split(flags).context("cflags has an open quote")?;
    let program: &'static Program = Box::leak(Box::new(c_locks::compile(file, &flags)?));
    c_locks::refuse_faulty(program)?;
    Ok(program)
}

/// The program of the file with this name on the command line.
pub fn named(programs: &[&'static Program], name: &str) -> Option<&'static Program> {
    let file = Path::new(name).file_name()?.to_str()?;
    programs.iter().copied().find(|program| program.name == file)
}
