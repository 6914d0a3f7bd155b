//! Locks in C among the names on a command line: files, which are compiled.

use std::path::Path;

use anyhow::{Context, Result, bail};
use c_locks::Program;
use studies::replays::OwnLock;

/// Whether a name on the command line is a lock in C.
pub fn is_c_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending == "c")
}

/// Compiles the C files among the names, with the user's flags. They are kept until the program ends.
pub fn compiled(names: &[String], flags: Option<&str>) -> Result<Vec<&'static Program>> {
    let flags = shlex::split(flags.unwrap_or_default()).context("--cflags has an open quote")?;
    let files: Vec<&String> = names.iter().filter(|name| is_c_file(name)).collect();
    let mut programs: Vec<&'static Program> = Vec::new();
    for file in files {
        let program = c_locks::compile(Path::new(file), &flags)?;
        if programs.iter().any(|other| other.name == program.name) {
            bail!("two locks are called {}: rename a file, or name one of them only", program.name);
        }
        programs.push(Box::leak(Box::new(program)));
    }
    Ok(programs)
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
