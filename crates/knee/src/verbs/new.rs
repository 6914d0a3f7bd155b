//! `knee new`: writes the start of something of the user's own.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use host::terminal::hint;

/// What to write.
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
}

/// Writes the file.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match arguments.what {
        NewKind::Load => load(&arguments.file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn load(file: &Path) -> Result<()> {
    let shown = file.display();
    ensure!(
        file.extension().is_some_and(|ending| ending == "c"),
        "a new load is a file in C: name it {shown}.c"
    );
    let mut made = match File::options().write(true).create_new(true).open(file) {
        Ok(made) => made,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            bail!("{shown} exists already, and is left as it is")
        }
        Err(e) => return Err(anyhow!(e).context(format!("creating {shown}"))),
    };
    made.write_all(own_loads::EXAMPLE.as_bytes()).with_context(|| format!("writing {shown}"))?;
    hint(format_args!("written: {shown}; measure it with: knee run {shown} --set size=4k,64k"));
    hint("the interface: knee describe knee.h");
    Ok(())
}
