//! The licences of all crates that are linked into the binary: a list of names, versions and licence expressions, and each
//! text once, from the crates' own files. They are in no network: cargo has the sources of what it builds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{variable, write_packed};

/// What no crate of cargo has: name and licence.
const OTHERS: [(&str, &str); 2] =
    [("GNU C Library", "LGPL-2.1-or-later"), ("Rust standard library", "MIT OR Apache-2.0")];

/// What libbpf brings, where probes are built.
const OF_LIBBPF: [(&str, &str); 2] =
    [("libelf of elfutils", "LGPL-3.0-or-later OR GPL-2.0-or-later"), ("zlib", "Zlib")];

/// Something linked.
struct Library {
    /// Name and version.
    name: String,
    /// An SPDX expression.
    licence: String,
    /// The licence texts that it comes with.
    texts: Vec<String>,
}

/// Writes the compressed text.
pub fn write(path: &Path) {
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed={}", root.join("Cargo.lock").display());
    println!("cargo::rerun-if-changed=build");
    let mut libraries = match metadata(&root) {
        Ok(metadata) => crates(&metadata),
        Err(why) => {
            println!("cargo::warning=knee --licenses has no texts: {why}");
            Vec::new()
        }
    };
    libraries.extend(chart_library(&root));
    let has_probes = std::env::var_os("CARGO_FEATURE_BPF").is_some();
    let others = OTHERS.iter().chain(OF_LIBBPF.iter().filter(|_| has_probes));
    libraries.extend(others.map(|(name, licence)| Library {
        name: name.to_string(),
        licence: licence.to_string(),
        texts: Vec::new(),
    }));
    libraries.sort_by(|a, b| a.name.cmp(&b.name));
    write_packed(path, &text(&libraries));
}

/// What cargo knows of this build. It asks the network only where the sources of a crate are missing, such as those that
/// only tests need.
fn metadata(root: &Path) -> Result<Value, String> {
    let ask = |more: &[&str]| {
        let mut cargo = Command::new(variable("CARGO"));
        cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform"]);
        cargo.arg(variable("TARGET")).args(more);
        if std::env::var_os("CARGO_FEATURE_BPF").is_some() {
            cargo.args(["--features", "bpf"]);
        }
        cargo
            .current_dir(root.join("crates/knee"))
            .output()
            .map_err(|why| format!("cargo metadata: {why}"))
    };
    let offline = ask(&["--offline"])?;
    let output = if offline.status.success() { offline } else { ask(&[])? };
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "));
    }
    serde_json::from_slice(&output.stdout).map_err(|why| format!("cargo metadata: {why}"))
}

/// A crate of ours that links schemars in tests, and nothing in the product.
const IN_TESTS: &str = "schemas";

/// The crates of registries that knee is linked with: what its crates depend on, without what only builds, tests or expands
/// macros.
fn crates(metadata: &Value) -> Vec<Library> {
    let by_id = |list: &'static str, at: &'static str| -> HashMap<&str, &Value> {
        let list = metadata.pointer(list).and_then(Value::as_array).expect("cargo lists packages");
        list.iter().map(|one| (string(one, at), one)).collect()
    };
    let packages = by_id("/packages", "id");
    let nodes = by_id("/resolve/nodes", "id");
    let root = packages.values().find(|package| string(package, "name") == "knee");
    let mut ahead = vec![string(root.expect("knee is a package"), "id")];
    let mut linked = BTreeSet::new();
    while let Some(id) = ahead.pop() {
        if linked.insert(id) {
            let dependencies = nodes[id]["deps"].as_array().into_iter().flatten();
            let dependencies = dependencies.filter(|one| is_linked(one));
            let code =
                |id: &&str| !is_macro(packages[id]) && string(packages[id], "name") != IN_TESTS;
            ahead.extend(dependencies.map(|one| string(one, "pkg")).filter(code));
        }
    }
    let foreign =
        linked.into_iter().map(|id| packages[id]).filter(|package| !package["source"].is_null());
    foreign.map(library).collect()
}

fn string<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// Whether a dependency is more than one of a build script or of tests.
fn is_linked(dependency: &Value) -> bool {
    dependency["dep_kinds"]
        .as_array()
        .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

fn is_macro(package: &Value) -> bool {
    let mut targets = package["targets"].as_array().into_iter().flatten();
    targets.any(|target| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "proc-macro"))
    })
}

fn library(package: &Value) -> Library {
    let folder = Path::new(string(package, "manifest_path")).parent().expect("it is in a folder");
    let licence = match string(package, "license") {
        "" => "see its text",
        licence => licence,
    };
    let mut files = Vec::new();
    // Libraries in C lie in a folder of the crate that links them.
    const FOLDERS: usize = 2;
    collect(folder, FOLDERS, &mut files);
    files.sort();
    let mut texts: Vec<String> =
        files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    if texts.is_empty() {
        let authors = package["authors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let authors = authors.collect::<Vec<_>>().join(", ");
        texts.push(format!("It comes without a text. Licence: {licence}. Copyright: {authors}."));
    }
    let name = format!("{} {}", string(package, "name"), string(package, "version"));
    Library { name, licence: licence.replace('/', " OR "), texts }
}

/// The files of licences in a folder, and in those below it.
fn collect(folder: &Path, folders: usize, files: &mut Vec<PathBuf>) {
    const NAMES: [&str; 5] = ["license", "licence", "copying", "copyright", "notice"];
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_licence = NAMES.iter().any(|start| name.starts_with(start)) || name == "unlicense";
        if path.is_dir() && folders > 1 {
            collect(&path, folders - 1, files);
        } else if path.is_file() && is_licence {
            files.push(path);
        }
    }
}

/// What draws the charts of pages, where this build has scripts.
fn chart_library(root: &Path) -> Option<Library> {
    let folder = root.join("web/node_modules/uplot");
    println!("cargo::rerun-if-changed={}", folder.join("LICENSE").display());
    let text = fs::read_to_string(folder.join("LICENSE")).ok()?;
    let package: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("package.json")).ok()?).ok()?;
    let name = format!("uplot {}", string(&package, "version"));
    Some(Library { name, licence: string(&package, "license").to_string(), texts: vec![text] })
}

/// The list, then each text once, below the names of the libraries that it comes with.
fn text(libraries: &[Library]) -> String {
    const NAME_COLUMNS: usize = 36;
    let mut text = String::from("Linked into knee, with licences; their texts stand below.\n\n");
    for library in libraries {
        text += &format!("  {:NAME_COLUMNS$} {}\n", library.name, library.licence);
    }
    // Copies differ in line breaks.
    let mut texts: BTreeMap<String, (&str, Vec<&str>)> = BTreeMap::new();
    for library in libraries {
        for text in &library.texts {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            texts.entry(words).or_insert((text, Vec::new())).1.push(&library.name);
        }
    }
    let mut texts: Vec<(&str, Vec<&str>)> = texts.into_values().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1));
    for (licence, mut names) in texts {
        names.dedup();
        text += &format!("\n{}\n{}\n\n{}\n", "-".repeat(72), names.join(", "), licence.trim());
    }
    text
}
