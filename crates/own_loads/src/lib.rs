//! Loads that users wrote. The host's compiler makes a program from the file and knee's harness
//! (`c/harness.c` and `c/harness/`), which has the task's side of the worker's board. Two interfaces: `c/knee.h`, and
//! will-it-scale's. Programs are cached by all that they are made from.

mod cache;
mod compiler;
mod folder;
mod included;
mod program;
mod scratch;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, ensure};
use host::durable::Seal;
use host::signals::Held;
use records::{CompiledLoad, Experiment, OwnLoad};
use setup::foreign::{Foreign, Permitted};

pub use compiler::{Compiler, Language};
pub use folder::{ListedLoad, list, look};
pub use included::{Source, included};
pub use scratch::Scratch;

use program::Flags;

/// The header that loads include.
pub const HEADER: &str = include_str!("../c/knee.h");

/// The load that `knee new load` writes.
pub const EXAMPLE: &str = include_str!("../c/example.c");

/// How the program finds the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// On this host, as programs of it do.
    Dynamic,
    /// In a guest, which has no libraries.
    Static,
}

/// The endings of files that are loads.
const ENDINGS: [&str; 7] = ["c", "cc", "cpp", "cxx", "C", "o", "a"];

/// Longest file that is read as a load.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Whether an argument of `knee run` names a file that is a load.
pub fn is_own_load(argument: &str) -> bool {
    let ending = Path::new(argument).extension().unwrap_or_default();
    ENDINGS.iter().any(|known| ending == *known)
}

/// Why a folder, or another file, is no load; `None` where nothing has that name.
pub fn why_no_load(name: &str) -> Option<Error> {
    let path = Path::new(name);
    if path.is_dir() {
        let folder = name.trim_end_matches('/');
        return Some(anyhow!(
            "{folder} is a folder: name its files, as in {folder}/*.c; `knee list loads {folder}` shows which are loads"
        ));
    }
    path.is_file().then(|| {
        let endings = ENDINGS.join(", .");
        anyhow!(
            "{name} is no load of your own: that ends in .{endings}; --command measures a program"
        )
    })
}

/// An experiment, with the files that its loads would be compiled from: others may have written them.
pub fn with_code(experiment: Foreign<Experiment>) -> Result<Foreign<Experiment>> {
    let own: Vec<OwnLoad> = experiment.look().own_loads().cloned().collect();
    own.iter().try_fold(experiment, with_code_of)
}

/// A value that follows from a load, with the files that the load would be compiled from.
pub fn with_code_of<T>(value: Foreign<T>, own: &OwnLoad) -> Result<Foreign<T>> {
    let code = code(own);
    let text = contents(own).ok().filter(|_| Language::of(&own.file) != Language::Compiled);
    let load = text.map(|text| Source { file: own.file.clone(), text });
    let sources = code.iter().filter(|file| Language::of(file) != Language::Compiled);
    let sources = load.into_iter().chain(sources.filter_map(|file| Source::read(file))).collect();
    let included = included(sources, &own.flags, &["knee.h"]);
    code.iter().chain(&included).try_fold(value, |value, file| value.with_code(file))
}

/// The files that a load is compiled from, without what they include. A load whose text a record keeps has no file.
fn code(own: &OwnLoad) -> Vec<PathBuf> {
    let is_kept = own.compiled.as_ref().is_some_and(|compiled| !compiled.text.is_empty());
    let file = (!is_kept).then(|| own.file.clone());
    let flags = Flags::new(&own.flags);
    file.into_iter().chain(flags.files().map(PathBuf::from)).collect()
}

/// Adds to the loads of an experiment what earlier compilations showed. Starts nothing.
pub fn add_known(experiment: &mut Experiment) -> Result<()> {
    for own in experiment.own_loads_mut() {
        if own.compiled.is_none() {
            own.compiled = known(own);
        }
    }
    check_names(experiment)
}

/// What an earlier compilation of the same file, with the same headers, flags and compiler, showed.
pub fn known(own: &OwnLoad) -> Option<CompiledLoad> {
    let bytes = contents(own).ok()?;
    let compiler = Compiler::for_file(&own.file).ok()?;
    let folder = cache::folder(own, &Seal::for_bytes(&bytes), &compiler).ok()?;
    cache::find(&folder, own, Linkage::Dynamic)
}

/// Whether a load's file and headers are those that were compiled.
pub fn is_unchanged(own: &OwnLoad, compiled: &CompiledLoad) -> bool {
    let is = |path: &Path, sha256: &String| {
        Seal::for_file(path).is_ok_and(|seal| seal.sha256 == *sha256)
    };
    is(&own.file, &compiled.sha256) && compiled.headers.iter().all(|(path, sha)| is(path, sha))
}

/// Compiles all loads of an experiment that are files. What is cached is not compiled again.
pub fn compile_all(experiment: Permitted<Experiment>) -> Result<Permitted<Experiment>> {
    experiment.try_map(|mut experiment| {
        compile_loads(&mut experiment)?;
        Ok(experiment)
    })
}

fn compile_loads(experiment: &mut Experiment) -> Result<()> {
    let own: Vec<OwnLoad> = experiment.own_loads().cloned().collect();
    let variants = experiment.variants.iter().map(Some).chain([None]);
    let in_guests = variants.into_iter().any(|variant| experiment.guest(variant).is_some());
    // In this thread, which waits, and in those that it starts.
    let _held = Held::new();
    let compiled = host::in_parallel(own.len(), |index| {
        let compiled = compile_for(&own[index], Linkage::Dynamic)?;
        if in_guests {
            let same = OwnLoad { compiled: Some(compiled.clone()), ..own[index].clone() };
            compile_for(&same, Linkage::Static).context("for virtual machines")?;
        }
        Ok(compiled)
    });
    let compiled = compiled.into_iter().collect::<Result<Vec<_>>>()?;
    for (own, compiled) in experiment.own_loads_mut().zip(compiled) {
        own.compiled = Some(compiled);
    }
    check_names(experiment)
}

/// Points name loads by their file's name: two files of one name would be one load.
fn check_names(experiment: &Experiment) -> Result<()> {
    let own: Vec<&OwnLoad> = experiment.own_loads().collect();
    for (index, load) in own.iter().enumerate() {
        let other = own[..index].iter().find(|other| other.name() == load.name() && other != &load);
        if let Some(other) = other {
            anyhow::bail!(
                "{} and {} have one name: rename one of them, or run them separately",
                other.file.display(),
                load.file.display()
            );
        }
    }
    Ok(())
}

/// Compiles a load for this host, unless that has been done before.
pub fn compile(own: &Permitted<OwnLoad>) -> Result<CompiledLoad> {
    compile_for(own, Linkage::Dynamic)
}

fn compile_for(own: &OwnLoad, linkage: Linkage) -> Result<CompiledLoad> {
    let compiling = || format!("compiling {}", own.file.display());
    let bytes = contents(own).with_context(compiling)?;
    let compiler = Compiler::for_file(&own.file).with_context(compiling)?;
    let folder = cache::folder(own, &Seal::for_bytes(&bytes), &compiler)?;
    if let Some(compiled) = cache::find(&folder, own, linkage) {
        return Ok(compiled);
    }
    program::build(own, &bytes, &compiler, &folder, linkage).with_context(compiling)
}

/// The path of the program of a compiled load.
pub fn program(own: &OwnLoad, linkage: Linkage) -> Result<PathBuf> {
    let compiled = own.compiled.as_ref();
    let compiled = compiled.with_context(|| format!("{} is not compiled", own.file.display()))?;
    let compiler = Compiler::for_file(&own.file)?;
    let seal = Seal { bytes: 0, sha256: compiled.sha256.clone() };
    Ok(cache::program(&cache::folder(own, &seal, &compiler)?, own, linkage))
}

/// The file's contents: those that a record keeps, if the load comes from one.
fn contents(own: &OwnLoad) -> Result<Vec<u8>> {
    if let Some(compiled) = own.compiled.as_ref().filter(|compiled| !compiled.text.is_empty()) {
        return Ok(compiled.text.clone().into_bytes());
    }
    let found = fs::metadata(&own.file).context("looking for the file")?;
    ensure!(found.is_file(), "it is not a file");
    ensure!(
        found.len() <= FILE_BYTES_MAX,
        "it has {} bytes, more than {FILE_BYTES_MAX}",
        found.len()
    );
    let bytes = fs::read(&own.file).context("reading the file")?;
    if let Some(compiled) = &own.compiled {
        ensure!(
            Seal::for_bytes(&bytes).sha256 == compiled.sha256,
            "the file has changed since it was measured, and a record keeps no object files"
        );
    }
    Ok(bytes)
}
