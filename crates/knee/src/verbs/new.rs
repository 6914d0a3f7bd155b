//! `knee new`: writes the start of something of the user's own.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use host::terminal::hint;

/// Write the start of a load or lock of your own, in C
///
/// The file compiles and runs as it is: `knee run my_load.c`, `knee check my_lock.c`. See `knee help own-loads` and `knee
/// help own-lock`.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to write
    #[arg(value_enum)]
    what: NewKind,
    /// File to write, which must not exist
    file: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum NewKind {
    /// A load in C, for `knee run FILE`
    Load,
    /// A lock in C, for `knee check FILE` and `knee simulate FILE`
    Lock,
}

/// Writes the file.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { what, file } = arguments;
    let shown = file.display();
    let (kind, text) = match what {
        NewKind::Load => ("load", own_loads::EXAMPLE),
        NewKind::Lock => ("lock", c_locks::EXAMPLE),
    };
    ensure!(
        file.extension().is_some_and(|ending| ending == "c"),
        "a new {kind} is a file in C: name it {}",
        file.with_extension("c").display()
    );
    let mut created = match File::options().write(true).create_new(true).open(file) {
        Ok(created) => created,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown} exists already, and is left as it is")
        }
        Err(e) => return Err(anyhow!(e).context(format!("creating {shown}"))),
    };
    created.write_all(text.as_bytes()).with_context(|| format!("writing {shown}"))?;
    let (next, header) = match what {
        NewKind::Load => (format!("measure it with: knee run {shown} --set size=4k,64k"), "knee.h"),
        NewKind::Lock => (format!("check it with: knee check {shown}"), "knee_lock.h"),
    };
    hint(format_args!("written: {shown}; {next}"));
    hint(format_args!("the interface: knee show {header}"));
    Ok(ExitCode::SUCCESS)
}
