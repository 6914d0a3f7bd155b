//! Locks in C among the names on a command line, or in a publication: files, which are compiled. Their code runs in
//! knee itself, so that of others is shown and asked about first.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use engines::Unsupported;
use records::{Effect, EffectKind};
use setup::foreign::{Foreign, Permitted};
use studies::Subject;
use studies::checks::refuse_faulty;
use text::Style;

/// A lock in a file, and more words for its compiler.
#[derive(Clone)]
pub struct LockInC {
    pub file: PathBuf,
    pub flags: Vec<String>,
}

/// What a command line says to the compiler of locks in C.
#[derive(clap::Args)]
pub struct CompilerFlags {
    /// Flags for the compiler of locks in C
    ///
    /// As in --cflags '-O3 -DSPIN=1'.
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, hide_short_help = true)]
    pub cflags: Option<String>,
    /// Folder with headers of locks in C
    ///
    /// For a file of the kernel: that of its tree, as in -I linux/include.
    #[arg(short = 'I', value_name = "DIR", hide_short_help = true)]
    pub include: Vec<String>,
}

impl CompilerFlags {
    /// The compiler's words.
    pub fn words(&self) -> Result<Vec<String>> {
        let flags = shlex::split(self.cflags.as_deref().unwrap_or_default());
        let flags = flags.context("--cflags has an open quote")?;
        let folders = self.include.iter().map(|folder| format!("-I{folder}"));
        Ok(folders.chain(flags).collect())
    }

    /// The flags as they stand on a command line, with a space before.
    pub fn to_line(&self) -> String {
        let quote = |text: &String| {
            shlex::try_quote(text).map_or_else(|_| text.clone(), |quoted| quoted.into_owned())
        };
        let folders = self.include.iter().map(|folder| format!(" -I {}", quote(folder)));
        let flags = self.cflags.iter().filter(|flags| !flags.is_empty());
        folders.chain(flags.map(|flags| format!(" --cflags {}", quote(flags)))).collect()
    }

    /// Fails if there are flags, and no file that they are for.
    pub fn refuse_unused(&self, files: usize) -> Result<()> {
        ensure!(
            files > 0 || self.cflags.is_none(),
            "--cflags is for locks in C, and no name is a C file: leave it out"
        );
        ensure!(
            files > 0 || self.include.is_empty(),
            "-I is for locks in C, and no name is a C file: leave it out"
        );
        Ok(())
    }
}

/// Whether a name on the command line is a lock in C or C++: also a header, of the kernel's.
pub fn is_c_file(name: impl AsRef<Path>) -> bool {
    const ENDINGS: [&str; 5] = ["c", "h", "cc", "cpp", "cxx"];
    name.as_ref().extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
}

/// A lock in C that was compiled, or the reason why it cannot be checked.
pub type Checkable = std::result::Result<Subject, Refused>;

/// A lock in C that cannot be checked.
#[derive(Clone)]
pub struct Refused {
    pub name: String,
    pub file: PathBuf,
    pub why: Unsupported,
}

/// Compiles the C files among the names, with the user's flags.
pub fn compiled(names: &[String], flags: &CompilerFlags, yes: bool) -> Result<Vec<Subject>> {
    let program = |file: Checkable| {
        file.map_err(|refused| anyhow!("{}: not checked: {}", refused.file.display(), refused.why))
    };
    checkable(names, flags, yes)?.into_iter().map(program).collect()
}

/// As [`compiled`], with the reasons for those that cannot be checked.
pub fn checkable(names: &[String], flags: &CompilerFlags, yes: bool) -> Result<Vec<Checkable>> {
    let flags = flags.words()?;
    let named = names.iter().filter(|name| is_c_file(name)).map(PathBuf::from);
    let locks = named.map(|file| LockInC { file, flags: flags.clone() }).collect();
    let locks = permitted(Foreign::typed(locks), yes)?;
    let mut files: Vec<Checkable> = Vec::new();
    for index in 0..locks.len() {
        let lock = locks.part(|locks| locks[index].clone());
        let name = lock.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if files.iter().any(|other| self::name(other) == name) {
            bail!("two locks are called {name}: rename a file, or name one of them only");
        }
        files.push(match subject(&lock) {
            Ok(subject) => Ok(subject),
            Err(error) => {
                let why = error.downcast_ref::<Unsupported>().cloned();
                let Some(why) = why else { return Err(error) };
                Err(Refused { name, file: lock.file.clone(), why })
            }
        });
    }
    Ok(files)
}

/// The name of what is checked.
pub fn name(file: &Checkable) -> String {
    match file {
        Ok(subject) => subject.name(),
        Err(refused) => refused.name.clone(),
    }
}

/// The name as an argument of `knee check`: of a file its path, for the shell.
pub fn as_argument(file: &Checkable) -> String {
    match file {
        Ok(Subject::InC(program)) => quoted(&program.file.display().to_string()),
        _ => name(file),
    }
}

/// A text as one word of the shell.
pub fn quoted(text: &str) -> String {
    shlex::try_quote(text).map_or_else(|_| text.to_string(), Into::into)
}

/// The file with this name on the command line.
pub fn checkable_named<'a>(files: &'a [Checkable], name: &str) -> Option<&'a Checkable> {
    let file = Path::new(name).file_name()?.to_str()?;
    files.iter().find(|other| self::name(other) == file)
}

/// Locks to be compiled and run. If others wrote or named one of them, or a file that it includes, shows all and asks,
/// unless `yes` was given.
pub fn permitted(mut locks: Foreign<Vec<LockInC>>, yes: bool) -> Result<Permitted<Vec<LockInC>>> {
    for lock in locks.look().clone() {
        locks = locks.with_code(&lock.file)?;
        let included = c_locks::included(&lock.file, &lock.flags);
        locks = included.iter().try_fold(locks, |locks, file| locks.with_code(file))?;
    }
    locks.permitted(yes, |locks| {
        let effects: Vec<Effect> = locks.iter().map(effect).collect();
        Ok(reports::effects(&effects, &Style::for_stdout()))
    })
}

fn effect(lock: &LockInC) -> Effect {
    let bytes = fs::metadata(&lock.file).map_or(0, |found| found.len());
    let words = [vec![lock.file.display().to_string()], lock.flags.clone()].concat();
    Effect {
        kind: EffectKind::Compile,
        words,
        note: format!("{bytes} bytes, whose code runs in knee itself"),
    }
}

/// Compiles the lock in a file, for a publication that names it.
pub fn published(lock: &Permitted<LockInC>) -> Result<Subject> {
    let subject = subject(lock)?;
    refuse_faulty(&subject)?;
    ensure!(subject.is_lock(), "{} is a data structure, not a lock", subject.name());
    Ok(subject)
}

fn subject(lock: &Permitted<LockInC>) -> Result<Subject> {
    let program = c_locks::compile(&lock.part(|lock| lock.file.clone()), &lock.flags)?;
    Ok(Subject::InC(Arc::new(program)))
}

/// The file with this name on the command line.
pub fn named<'a>(subjects: &'a [Subject], name: &str) -> Option<&'a Subject> {
    let file = Path::new(name).file_name()?.to_str()?;
    subjects.iter().find(|subject| subject.name() == file)
}
