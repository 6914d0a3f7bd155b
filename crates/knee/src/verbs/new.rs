//! `knee new`: writes the start of something of the user's own.

mod folder;

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use host::terminal::hint;

use self::folder::Kind;

/// What to write.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to write
    #[arg(value_enum)]
    what: NewKind,
    /// File or folder to write, which must not exist
    file: PathBuf,
    /// Source tree of knee, on which a lock's or mechanism's crate depends [default: the one this knee was built in]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum NewKind {
    /// A load in C, for `knee run FILE`
    Load,
    /// A folder with a lock in Rust, and a program that checks, mutates and simulates it
    Lock,
    /// A folder with a lock in Rust that readers share, and a program as for a lock
    ReadWriteLock,
    /// A folder with a data structure in Rust in its designs, and a program that checks, mutates and simulates them
    Mechanism,
}

/// Writes the file.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match arguments.what {
        NewKind::Load => {
            ensure!(
                arguments.tree.is_none(),
                "--tree: a load needs none of knee's sources: leave it out"
            );
            load(&arguments.file)?;
        }
        NewKind::Lock => algorithm(Kind::Lock, arguments)?,
        NewKind::ReadWriteLock => algorithm(Kind::ReadWriteLock, arguments)?,
        NewKind::Mechanism => algorithm(Kind::Mechanism, arguments)?,
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
    hint("the interface: knee show knee.h");
    Ok(())
}

fn algorithm(kind: Kind, arguments: &Arguments) -> Result<()> {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = &arguments.file;
    folder::write(kind, folder, arguments.tree.as_deref().unwrap_or(&built_in))?;
    let shown = folder.display();
    hint(format_args!("written: {shown}; try: cd {shown} && make check mutants simulate run"));
    hint(
        "the first make compiles knee's engines, which takes minutes; after a change of its file, seconds",
    );
    Ok(())
}
