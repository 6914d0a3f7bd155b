//! From a file to a program: compile it, compile the harness, link both, ask the program what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use host::children;
use host::durable::Seal;
use object::{Object, ObjectSymbol};
use records::{CompiledLoad, LoadInterface, OwnLoad, OwnParameter};
use serde::Deserialize;

use crate::compiler::{Compiler, Language};
use crate::scratch::Scratch;
use crate::{Linkage, cache};

/// What will-it-scale's Makefile gives the compiler, and threads. Functions begin at cache lines, so that no other version
/// of the harness moves them: a loop of 16 bytes elsewhere took 5 % longer.
const FLAGS: [&str; 4] = ["-O2", "-g", "-pthread", "-falign-functions=64"];

/// What functions of sanitizers begin with.
const SANITIZERS: [&str; 4] = ["__asan_", "__tsan_", "__ubsan_", "__msan_"];

/// Where the object file of a load is made.
const OBJECT: &str = "load.o";

/// What a program prints about its load.
#[derive(Deserialize)]
struct Described {
    description: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    semantics: u32,
    #[serde(default)]
    verifies: bool,
    #[serde(default)]
    parameters: Vec<OwnParameter>,
}

/// Makes the program of a load in the folder, which appears or changes whole.
pub fn build(
    own: &OwnLoad,
    bytes: &[u8],
    compiler: &Compiler,
    folder: &Path,
    linkage: Linkage,
) -> Result<CompiledLoad> {
    let root = cache::root()?;
    let beside = Scratch::new()?;
    fs::write(beside.path().join("knee.h"), crate::HEADER)?;
    let input = compile(own, bytes, compiler, beside.path())?;
    let harness = harness(&root)?;
    let made = cache::program(beside.path(), own, linkage);
    let flags = own.flags.iter().map(OsString::from);
    let linked = compiler.call(
        beside.path(),
        &[link_words(&input, &harness, &made, linkage), flags.collect()].concat(),
    );
    linked.map_err(|why| explained(why, own, linkage))?;
    let interface = interface(&fs::read(&made)?)?;
    let described = describe(&made)?;
    let compiled = compiled(own, bytes, compiler, beside.path(), interface, described)?;
    let text = serde_json::to_string(&compiled)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::rename(&made, cache::program(folder, own, linkage))?;
    let description = beside.path().join(cache::DESCRIPTION);
    fs::write(&description, text)?;
    fs::rename(description, folder.join(cache::DESCRIPTION))?;
    Ok(compiled)
}

/// Makes an object file, or takes the file as it is. Returns the input of the linker.
fn compile(own: &OwnLoad, bytes: &[u8], compiler: &Compiler, beside: &Path) -> Result<PathBuf> {
    if compiler.language() == Language::Compiled {
        let ending = own.file.extension().unwrap_or_default();
        let input = beside.join("load").with_extension(ending);
        fs::write(&input, bytes)?;
        return Ok(input);
    }
    // A copy, since the file may change or come from a record. Errors and assertions name the original.
    let copy = beside.join("load").with_extension(own.file.extension().unwrap_or_default());
    let path = own.file.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    fs::write(&copy, [format!("#line 1 \"{path}\"\n").as_bytes(), bytes].concat())?;
    let mut words: Vec<OsString> = FLAGS.map(OsString::from).to_vec();
    let near = own.file.parent().unwrap_or(Path::new("."));
    words.extend(["-iquote".into(), near.into(), "-I".into(), beside.into()]);
    words.extend(["-MMD", "-MF", "headers"].map(OsString::from));
    words.extend(own.flags.iter().map(OsString::from));
    words.extend(["-c".into(), copy.into(), "-o".into(), OBJECT.into()]);
    compiler.call(beside, &words)?;
    Ok(beside.join(OBJECT))
}

/// The object file of the harness, made once for a compiler of C.
fn harness(root: &Path) -> Result<PathBuf> {
    let compiler = Compiler::for_file(Path::new("harness.c"))?;
    let key = cache::key(&[&cache::harness_key(), &compiler.identity()?]);
    let object = root.join(format!("harness-{key}.o"));
    if object.is_file() {
        return Ok(object);
    }
    let beside = Scratch::new()?;
    fs::write(beside.path().join("knee.h"), crate::HEADER)?;
    fs::create_dir(beside.path().join("harness"))?;
    for (name, text) in cache::HARNESS {
        fs::write(beside.path().join(name), text)?;
    }
    let words = ["-O2", "-pthread", "-std=gnu11", "-c", "harness.c", "-o", "harness.o"];
    let made = compiler.call(beside.path(), &words.map(OsString::from));
    made.context("compiling knee's harness")?;
    fs::rename(beside.path().join("harness.o"), &object)?;
    Ok(object)
}

fn link_words(input: &Path, harness: &Path, made: &Path, linkage: Linkage) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["-O2", "-g", "-pthread"].map(OsString::from).to_vec();
    if linkage == Linkage::Static {
        words.push("-static".into());
    }
    // The load first: of two weak knee_drive, the linker takes the first, which has the operation inlined.
    if input.extension().is_some_and(|ending| ending == "a") {
        // The harness wants everything only weakly, for which no member of an archive is taken.
        words.extend(["-Wl,--whole-archive".into(), input.into(), "-Wl,--no-whole-archive".into()]);
    } else {
        words.push(input.into());
    }
    words.extend([harness.into(), "-lm".into(), "-o".into(), made.into()]);
    words
}

/// An error of the linker in the user's terms, where those are known.
fn explained(why: anyhow::Error, own: &OwnLoad, linkage: Linkage) -> anyhow::Error {
    let (said, name) = (format!("{why:#}"), own.name());
    let has_main =
        said.contains("multiple definition of `main'") || said.contains("duplicate symbol: main");
    if has_main {
        return anyhow::anyhow!(
            "{name} has a main, but a load has none: knee's harness calls it; for a whole program, use \
             --command"
        );
    }
    if linkage == Linkage::Static && said.contains("cannot find -l") {
        let advice = "linking it statically, as virtual machines need it: is the C library there as an \
                      archive (libc6-dev, glibc-static)?";
        return why.context(advice);
    }
    why
}

/// The interface that a program's load implements.
fn interface(program: &[u8]) -> Result<LoadInterface> {
    let file = object::File::parse(program).context("reading the symbols of the program")?;
    let defined = file.symbols().filter(|symbol| symbol.is_definition());
    let defined: BTreeSet<&str> = defined.filter_map(|symbol| symbol.name().ok()).collect();
    let all = file.symbols().chain(file.dynamic_symbols()).filter_map(|s| s.name().ok());
    let mut sanitizers = all.filter(|name| SANITIZERS.iter().any(|start| name.starts_with(start)));
    if let Some(name) = sanitizers.next() {
        bail!(
            "it is compiled with a sanitizer (it calls {name}): its time would be the sanitizer's; leave \
             -fsanitize out"
        );
    }
    let has = |name: &str| defined.contains(name);
    match (has("testcase"), has("knee_operate")) {
        (true, true) => bail!("it has both testcase and knee_operate: a load has one interface"),
        (true, false) => Ok(LoadInterface::WillItScale),
        (false, false) => bail!(
            "it is no load: it has neither knee_operate (see `knee new load`) nor will-it-scale's \
             testcase"
        ),
        (false, true) => {
            let needed = ["knee_description", "knee_operation", "knee_semantics"];
            let missing: Vec<&str> = needed.into_iter().filter(|name| !has(name)).collect();
            ensure!(missing.is_empty(), "it lacks {}: see knee.h", missing.join(", "));
            Ok(LoadInterface::Knee)
        }
    }
}

/// What a program says about its load.
fn describe(program: &Path) -> Result<Described> {
    let output = children::output(Command::new(program).arg("describe"))
        .context("asking the program what it is")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "the program ended with {} when it was asked what it is: a constructor of the load fails",
        output.status
    );
    let line = said.lines().last().unwrap_or_default();
    serde_json::from_str(line).context("reading what the program says about its load")
}

fn compiled(
    own: &OwnLoad,
    bytes: &[u8],
    compiler: &Compiler,
    beside: &Path,
    interface: LoadInterface,
    described: Described,
) -> Result<CompiledLoad> {
    let text = match compiler.language() {
        Language::Compiled => String::new(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    let flags = FLAGS.iter().map(|flag| flag.to_string());
    let operation = match interface {
        LoadInterface::Knee => described.operation,
        LoadInterface::WillItScale => {
            format!("operations as the test counts them ({})", described.description)
        }
    };
    Ok(CompiledLoad {
        sha256: Seal::for_bytes(bytes).sha256,
        text,
        headers: headers(beside)?,
        compiler: compiler.version()?,
        command: compiler.words().into_iter().chain(flags).chain(own.flags.clone()).collect(),
        interface,
        description: described.description,
        operation,
        semantics: described.semantics,
        verifies: described.verifies,
        parameters: described.parameters,
    })
}

/// The files that the load includes, as the compiler lists them for make, without the system's and knee's.
fn headers(beside: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let Ok(text) = fs::read_to_string(beside.join("headers")) else { return Ok(BTreeMap::new()) };
    let (_, files) = text.split_once(": ").unwrap_or_default();
    let files = files.replace("\\\n", " ").replace("\\ ", "\0");
    let paths = files.split_whitespace().map(|word| PathBuf::from(word.replace('\0', " ")));
    let paths = paths.filter(|path| path.is_absolute() && !path.starts_with(beside));
    paths.map(|path| Ok((path.clone(), Seal::for_file(&path)?.sha256))).collect()
}
