//! Puts into the binary, compressed: the guides of `docs/`, and the licences of what is linked.

mod licenses;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() {
    // The standard library asks for it weakly. Where all crates are linked as one, so do all callers, and a static binary
    // without it calls address 0.
    println!("cargo::rustc-link-arg-bins=-Wl,--undefined=gettid");
    licenses::write(&Path::new(&variable("OUT_DIR")).join("licenses.txt.gz"));
    write_guides();
}

fn write_guides() {
    let docs = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../docs");
    println!("cargo::rerun-if-changed={}", docs.display());
    let mut files = Vec::new();
    collect(&docs, &mut files);
    files.sort();
    // Each path on a line, then the length of its text in bytes, then all texts.
    let mut list = String::new();
    let mut texts = String::new();
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let path = file.strip_prefix(&docs).expect("it is in there").with_extension("");
        let text = fs::read_to_string(file).expect("a guide is text");
        list += &format!("{} {}\n", path.display(), text.len());
        texts += &text;
    }
    let out = Path::new(&variable("OUT_DIR")).join("guides.txt.gz");
    write_packed(&out, &format!("{list}\n{texts}"));
}

/// Writes a text, compressed.
fn write_packed(path: &Path, text: &str) {
    let file = fs::File::create(path).expect("cargo's folder can be written");
    let mut file = GzEncoder::new(file, Compression::best());
    file.write_all(text.as_bytes()).expect("cargo's folder can be written");
    file.finish().expect("cargo's folder can be written");
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
