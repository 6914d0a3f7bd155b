//! Whether equal programs run alike: they may read files as they run, and those may differ.

use std::path::Path;

/// Sources of languages that are compiled, and files that say how: a program holds what it needs of them.
const COMPILED: [&str; 38] = [
    "S", "asm", "bazel", "c", "c++", "cc", "cmake", "cpp", "cs", "cxx", "d", "f", "f90", "go",
    "gradle", "h", "h++", "hh", "hpp", "hs", "hxx", "inc", "inl", "java", "kt", "ll", "lock", "m",
    "ml", "mod", "proto", "rs", "s", "scala", "sum", "swift", "xml", "zig",
];

/// Files that say how to build, by their names.
const BUILDS: [&str; 8] = [
    "BUILD",
    "CMakeLists.txt",
    "Cargo.toml",
    "GNUmakefile",
    "Makefile",
    "makefile",
    "meson.build",
    "rust-toolchain.toml",
];

/// Files for readers.
const DOCUMENTS: [&str; 9] = ["adoc", "jpg", "markdown", "md", "org", "pdf", "png", "rst", "svg"];

/// Names of files for readers, with any ending.
const NOTES: [&str; 9] = [
    "AUTHORS",
    "CHANGELOG",
    "CHANGES",
    "CODEOWNERS",
    "CONTRIBUTING",
    "COPYING",
    "LICENSE",
    "NEWS",
    "README",
];

/// Whether a program may read this file of its repository as it runs: a script, data. Unlike documents, what tools of the
/// repository read (their names begin with a dot), and what compilers do, if there `is_build`: else the command may be one.
pub(super) fn may_be_read(path: &str, is_build: bool) -> bool {
    let path = Path::new(path);
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (name, ending) = (text(path.file_name()), text(path.extension()));
    let is_hidden = path.components().any(|part| part.as_os_str().as_encoded_bytes()[0] == b'.');
    let in_docs = path.starts_with("doc") || path.starts_with("docs");
    let stem = name.split('.').next().unwrap_or_default();
    let is_for_readers = in_docs || DOCUMENTS.contains(&&*ending) || NOTES.contains(&stem);
    let is_compiled = is_build && (COMPILED.contains(&&*ending) || BUILDS.contains(&&*name));
    !(is_hidden || is_for_readers || is_compiled)
}

#[cfg(test)]
mod tests {
    use super::may_be_read;

    #[test]
    fn scripts_and_data_may_be_read_and_documents_and_sources_may_not() {
        let check = |expected: bool, paths: &[&str]| {
            for path in paths {
                assert_eq!(may_be_read(path, true), expected, "{path}");
            }
        };
        check(
            true,
            &["bench.py", "data/words.json", "run.sh", "inputs/1.txt", "tests/README/x.bin"],
        );
        check(false, &["README", "README.txt", "docs/a.json", "src/lib.rs", "a/b.cc", "Makefile"]);
        check(false, &[".github/workflows/a.yml", ".gitignore", "Cargo.lock", "LICENSE-MIT.md"]);
        let unbuilt = ["kit.py", "a/b.cc", "Makefile", "README.md", "docs/a.json"];
        assert_eq!(unbuilt.map(|path| may_be_read(path, false)), [true, true, true, false, false]);
    }
}
