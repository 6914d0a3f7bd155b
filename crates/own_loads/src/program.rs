//! From a file to a program: compile it, compile the harness, link both, ask the program what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
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
    let flags = Flags::new(&own.flags);
    let input = compile(own, bytes, compiler, &flags, beside.path())?;
    let harness = harness(&root)?;
    let made = cache::program(beside.path(), own, linkage);
    let mut words = link_words(&input, &harness, &made, linkage);
    for (index, source) in flags.sources.iter().enumerate() {
        let source = Path::new(source);
        words.push(object(
            source,
            &format!("other-{index}"),
            compiler,
            &flags,
            own,
            beside.path(),
        )?);
    }
    words.extend(flags.of_linker());
    compiler.call(here(), &words).map_err(|why| explained(why, own, linkage))?;
    let interface = interface(&fs::read(&made)?)?;
    let described = describe(&made)?;
    let headers = files_used(&flags, beside.path())?;
    let compiled = compiled(own, bytes, compiler, headers, interface, described)?;
    let text = serde_json::to_string(&compiled)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::rename(&made, cache::program(folder, own, linkage))?;
    let description = beside.path().join(cache::DESCRIPTION);
    fs::write(&description, text)?;
    fs::rename(description, folder.join(cache::DESCRIPTION))?;
    Ok(compiled)
}

/// The user's words for the compiler and the linker. Those that name files from here are further inputs.
pub struct Flags<'a> {
    words: Vec<&'a str>,
    /// Sources, to be compiled as the load is.
    sources: Vec<&'a str>,
    /// Object files and libraries.
    objects: Vec<&'a str>,
}

impl Flags<'_> {
    pub fn new(flags: &[String]) -> Flags<'_> {
        let (mut words, mut sources, mut objects) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_argument = false;
        for flag in flags {
            let is_file = !is_argument && !flag.starts_with('-') && Path::new(flag).is_file();
            match Path::new(flag).extension().and_then(|ending| ending.to_str()) {
                Some("c" | "cc" | "cpp" | "cxx" | "C" | "S") if is_file => sources.push(&**flag),
                Some("o" | "a" | "so") if is_file => objects.push(&**flag),
                _ => words.push(&**flag),
            }
            // The next word belongs to these.
            is_argument = ["-I", "-L", "-include", "-isystem", "-iquote", "-D", "-Xlinker"]
                .contains(&flag.as_str());
        }
        Flags { words, sources, objects }
    }

    /// The files among them.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().chain(&self.objects).copied()
    }

    fn of_compiler(&self) -> impl Iterator<Item = OsString> {
        self.words.iter().map(OsString::from)
    }

    fn of_linker(&self) -> impl Iterator<Item = OsString> {
        self.objects.iter().chain(&self.words).map(OsString::from)
    }
}

/// Where the compiler runs: the user's flags name folders and files from here.
fn here() -> &'static Path {
    Path::new(".")
}

/// Makes an object file, or takes the file as it is. Returns the input of the linker.
fn compile(
    own: &OwnLoad,
    bytes: &[u8],
    compiler: &Compiler,
    flags: &Flags,
    beside: &Path,
) -> Result<PathBuf> {
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
    Ok(object(&copy, "load", compiler, flags, own, beside)?.into())
}

/// Compiles a source to `NAME.o`, and lists the files that it includes in `NAME.headers`.
fn object(
    source: &Path,
    name: &str,
    compiler: &Compiler,
    flags: &Flags,
    own: &OwnLoad,
    beside: &Path,
) -> Result<OsString> {
    let mut words: Vec<OsString> = FLAGS.map(OsString::from).to_vec();
    let near = own.file.parent().unwrap_or(Path::new("."));
    words.extend(["-iquote".into(), near.into(), "-I".into(), beside.into()]);
    words.extend(["-MMD".into(), "-MF".into(), beside.join(name).with_extension(HEADERS).into()]);
    words.extend(flags.of_compiler());
    let object: OsString = beside.join(name).with_extension("o").into();
    words.extend(["-c".into(), source.into(), "-o".into(), object.clone()]);
    compiler.call(here(), &words)?;
    Ok(object)
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
    headers: BTreeMap<PathBuf, String>,
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
        headers,
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

/// The ending of the lists of included files.
const HEADERS: &str = "headers";

/// The files that the load and the other sources include, as the compiler lists them for make, without the system's and
/// knee's; and the other files that the flags name.
fn files_used(flags: &Flags, beside: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let here = env::current_dir().context("finding the current directory")?;
    let named = flags.files().map(PathBuf::from);
    let mut all: BTreeSet<PathBuf> = named.map(|path| here.join(path)).collect();
    let others = (0..flags.sources.len()).map(|index| format!("other-{index}"));
    for name in others.chain(["load".to_string()]) {
        let list = beside.join(name).with_extension(HEADERS);
        // A load that is an object file has none.
        let Ok(text) = fs::read_to_string(list) else { continue };
        let (_, files) = text.split_once(": ").unwrap_or_default();
        let files = files.replace("\\\n", " ").replace("\\ ", "\0");
        let paths = files.split_whitespace().map(|word| here.join(word.replace('\0', " ")));
        all.extend(paths.filter(|path| !path.starts_with(beside)));
    }
    all.into_iter().map(|path| Ok((path.clone(), Seal::for_file(&path)?.sha256))).collect()
}
