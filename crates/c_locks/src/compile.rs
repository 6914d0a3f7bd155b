//! From a C file to a [`Program`]: assembly by the host's compiler, the table of lines, an object file.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use engines::Unsupported;
use own_loads::{Compiler, Language, Scratch, Source};
use setup::foreign::Permitted;

use crate::assembly::{Annotated, annotate};
use crate::equivalent;
use crate::headers::{is_given, provided, write_headers};
use crate::instance::Instance;
use crate::kernel_files::KernelFile;
use crate::program::Program;
use crate::reached::undefined;

/// A lock that compiles, for a user to begin with.
pub const EXAMPLE: &str = include_str!("../c/example.c");

/// Largest file that is read as a lock.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Flags for all compilers. Without sibling calls, every call has a return address in its own line. Without a red zone, calls
/// may stand where the compiler knows of none.
const FLAGS: &[&str] = &[
    "-O2",
    "-g",
    "-fPIC",
    "-fsanitize=thread",
    "-fno-stack-protector",
    "-fno-optimize-sibling-calls",
    "-mno-red-zone",
    "-fno-tree-vectorize",
    "-fcf-protection=none",
    "-ftls-model=global-dynamic",
    // What no function of the lock leads to is left out, whatever it calls.
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    "-Wno-tsan",
];
/// Flags for C alone.
const C_FLAGS: &[&str] = &["-std=gnu11"];
/// Flags for C++ alone: without guards of static variables, which lock. Where an exception is thrown, a search ends.
const CPLUSPLUS_FLAGS: &[&str] = &["-std=gnu++20", "-fno-rtti", "-fno-threadsafe-statics"];
const GCC_FLAGS: &[&str] = &[
    "-mtls-dialect=gnu",
    "-fno-reorder-blocks-and-partition",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
];
/// After the user's flags: calls between instructions keep registers of 16 bytes, not wider ones.
const LAST_FLAGS: &[&str] = &["-mno-avx"];
const CLANG_FLAGS: &[&str] =
    &["-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-distinguish-volatile=1"];

/// Compiles the lock in a file, whose code then runs in this process. `flags` are the user's own, for the compiler. The
/// error is an [`Unsupported`] where the file is a lock, and only a search of it is not possible.
pub fn compile(file: &Permitted<PathBuf>, flags: &[String]) -> Result<Program> {
    compiled(file, flags).map_err(|error| {
        let context = if error.is::<Unsupported>() {
            format!("{}: not checked", file.display())
        } else {
            format!("{}: no lock that can be checked", file.display())
        };
        error.context(context)
    })
}

fn compiled(file: &Path, flags: &[String]) -> Result<Program> {
    ensure!(cfg!(target_arch = "x86_64"), "locks in C are checked on x86-64 only");
    let found = fs::metadata(file).context("looking for the file")?;
    ensure!(found.is_file(), "it is not a file");
    ensure!(found.len() <= FILE_BYTES_MAX, "it has more than {FILE_BYTES_MAX} bytes");
    let path = file.canonicalize().context("resolving its path")?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let compiler = Compiler::for_file(file)?;
    let folder = Scratch::new()?;
    write_headers(folder.path())?;
    let folder = folder.path();
    let is_cplusplus = compiler.language() == Language::Cplusplus;
    let of_language = if is_cplusplus { CPLUSPLUS_FLAGS } else { C_FLAGS };
    let mut arguments: Vec<OsString> =
        of_language.iter().chain(FLAGS).map(OsString::from).collect();
    let own = if compiler.version()?.contains("clang") { CLANG_FLAGS } else { GCC_FLAGS };
    arguments.extend(own.iter().map(OsString::from));
    arguments.extend(["-I".into(), folder.into()]);
    let tree = KernelFile::recognize(file, flags)?;
    ensure!(
        tree.is_some() || is_cplusplus || file.extension().is_some_and(|ending| ending == "c"),
        "it is a header: include it in a C file that says what to check (see knee show knee_lock.h)"
    );
    let flags = tree.as_ref().map_or_else(|| flags.to_vec(), |tree| tree.flags(flags));
    arguments.extend(flags.iter().map(OsString::from));
    arguments.extend(LAST_FLAGS.iter().map(OsString::from));
    let source = match &tree {
        Some(tree) => tree.write_contract(folder)?,
        None => path.clone(),
    };
    let build = Build { compiler: &compiler, folder, arguments: &arguments };
    let (mut annotated, mut object) = build.object(&source)?;
    if tree.is_none() && undefined(&object)?.iter().any(|symbol| is_given(symbol)) {
        (annotated, object) = build.object(&with_given_objects(folder, &path, is_cplusplus)?)?;
    }
    let mut program = Program::parse(&name, &object, &annotated)?;
    program.is_of_kernel = tree.is_some();
    program.sources = sources(&annotated.files, folder);
    program.equivalent = equivalent::read(&program.sources)?;
    program.file = file.to_path_buf();
    Instance::try_once(&program)?;
    Ok(program)
}

/// How a source becomes an object file.
struct Build<'a> {
    compiler: &'a Compiler,
    folder: &'a Path,
    arguments: &'a [OsString],
}

impl Build<'_> {
    fn object(&self, source: &Path) -> Result<(Annotated, Vec<u8>)> {
        let Build { compiler, folder, arguments } = self;
        let (assembly, object) = (folder.join("lock.s"), folder.join("lock.o"));
        let own: [OsString; 4] = ["-S".into(), "-o".into(), assembly.clone().into(), source.into()];
        // The user's flags may name folders from here.
        let here = Path::new(".");
        compiler.call(here, &[arguments, &own[..]].concat()).context("compiling it")?;
        let text = fs::read(&assembly).context("reading the compiler's assembly")?;
        let annotated = annotate(&String::from_utf8_lossy(&text));
        fs::write(&assembly, &annotated.text).context("writing assembly")?;
        let assemble: [OsString; 4] =
            ["-c".into(), "-o".into(), object.clone().into(), assembly.into()];
        compiler.call(here, &assemble).context("assembling it")?;
        Ok((annotated, fs::read(&object).context("reading the object file")?))
    }
}

/// A file with the user's, and the objects of the C library that knee gives behind it.
fn with_given_objects(folder: &Path, file: &Path, is_cplusplus: bool) -> Result<PathBuf> {
    let whole = folder.join(if is_cplusplus { "whole.cc" } else { "whole.c" });
    let text = format!("#include \"{}\"\n#include <knee_given.h>\n", file.display());
    fs::write(&whole, text).context("writing the file that includes it")?;
    Ok(whole)
}

/// The files that a lock includes, whose code would be compiled with it: those of the system and knee's headers are left out.
pub fn included(file: &Path, flags: &[String]) -> Vec<PathBuf> {
    let tree = KernelFile::recognize(file, flags).ok().flatten();
    let beside = tree.iter().flat_map(KernelFile::files);
    let sources = [file.to_path_buf()].into_iter().chain(beside);
    let flags = tree.as_ref().map_or_else(|| flags.to_vec(), |tree| tree.flags(flags));
    let sources = sources.filter_map(|file| Source::read(&file)).collect();
    own_loads::included(sources, &flags, &provided())
}

/// The user's own files: neither those of the system nor knee's headers.
fn sources(files: &[String], folder: &Path) -> Vec<(String, String)> {
    let is_own = |path: &&String| {
        let of_system = path.starts_with("/usr/") && !path.starts_with("/usr/src/");
        !path.is_empty() && !of_system && !Path::new(path).starts_with(folder)
    };
    let text = |path: &String| Some((format!("/{path}"), fs::read_to_string(path).ok()?));
    let mut sources: Vec<_> = files.iter().filter(is_own).filter_map(text).collect();
    sources.sort();
    sources.dedup();
    sources
}
