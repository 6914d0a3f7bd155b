//! Puts into the binary, compressed: the guides of `docs/`, the schemas of answers, and the licences of what is linked.

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
    write_folder("../../docs", ".md", "guides.txt.gz");
    write_folder("../answers/tests/golden", ".schema.json", "schemas.txt.gz");
}

/// Packs the files of a folder, relative to this crate, whose names end in `ending`, which their paths lose.
fn write_folder(folder: &str, ending: &str, packed: &str) {
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")).join(folder);
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect(&folder, ending, &mut files);
    files.sort();
    // Each path on a line, then the length of its text in bytes, then all texts.
    let mut list = String::new();
    let mut texts = String::new();
    for (path, file) in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let text = fs::read_to_string(file).expect("it is text");
        list += &format!("{path} {}\n", text.len());
        texts += &text;
    }
    let out = Path::new(&variable("OUT_DIR")).join(packed);
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

/// All files below a folder whose names end so, with their paths in it without the ending.
fn collect(folder: &Path, ending: &str, files: &mut Vec<(String, PathBuf)>) {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("the sources have it").flatten() {
            let path = entry.path();
            let within = path.strip_prefix(folder).expect("it is in there").display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(within) = within.strip_suffix(ending) {
                files.push((within.to_string(), path));
            }
        }
    }
}
