//! Puts into the binary: the guides of `docs/`, as a list of their paths and texts, and the licences of what is linked.

mod licenses;

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    licenses::write(&Path::new(&variable("OUT_DIR")).join("licenses.txt.gz"));
    write_guides();
}

fn write_guides() {
    let docs = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../docs");
    println!("cargo::rerun-if-changed={}", docs.display());
    let mut files = Vec::new();
    collect(&docs, &mut files);
    files.sort();
    let entry = |file: &PathBuf| {
        println!("cargo::rerun-if-changed={}", file.display());
        let path = file.strip_prefix(&docs).expect("it is in there").with_extension("");
        let file = fs::canonicalize(file).expect("it is a file");
        format!("    ({:?}, include_str!({file:?})),\n", path.display().to_string())
    };
    let list: String = files.iter().map(entry).collect();
    let list = format!("const FILES: &[(&str, &str)] = &[\n{list}];\n");
    let out = Path::new(&variable("OUT_DIR")).join("guides.rs");
    fs::write(out, list).expect("cargo's folder can be written");
}

fn variable(name: &str) -> String {
    std::env::var(name).expect("cargo sets it")
}

/// All Markdown below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("docs are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
}
