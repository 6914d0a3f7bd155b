//! The folder of a new lock or mechanism: a small crate whose program checks, mutates and simulates it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// What an algorithm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something that implements `Lock`.
    Lock,
    /// Something that implements `SharedLock`.
    ReadWriteLock,
    /// Something that implements `Mechanism`.
    Mechanism,
}

/// The files of a new lock, by path in its folder. `own_lock` stands for its name.
const LOCK: &[(&str, &str)] = &[
    ("Makefile", include_str!("../../../../own_algorithms/new/lock/Makefile")),
    ("src/main.rs", include_str!("../../../../own_algorithms/new/lock/src/main.rs")),
    ("src/own_lock.rs", include_str!("../../../../own_algorithms/new/lock/src/own_lock.rs")),
    ("examples/load.rs", include_str!("../../../../own_algorithms/new/lock/examples/load.rs")),
];

/// The files of a new read-write lock, by path in its folder. `own_lock` stands for its name.
const READ_WRITE_LOCK: &[(&str, &str)] = &[
    ("Makefile", include_str!("../../../../own_algorithms/new/read_write_lock/Makefile")),
    ("src/main.rs", include_str!("../../../../own_algorithms/new/read_write_lock/src/main.rs")),
    (
        "src/own_lock.rs",
        include_str!("../../../../own_algorithms/new/read_write_lock/src/own_lock.rs"),
    ),
    (
        "examples/load.rs",
        include_str!("../../../../own_algorithms/new/read_write_lock/examples/load.rs"),
    ),
];

/// The files of a new mechanism, by path in its folder. `own_mechanism` stands for its name.
const MECHANISM: &[(&str, &str)] = &[
    ("Makefile", include_str!("../../../../own_algorithms/new/mechanism/Makefile")),
    ("src/main.rs", include_str!("../../../../own_algorithms/new/mechanism/src/main.rs")),
    (
        "src/own_mechanism.rs",
        include_str!("../../../../own_algorithms/new/mechanism/src/own_mechanism.rs"),
    ),
    ("examples/load.rs", include_str!("../../../../own_algorithms/new/mechanism/examples/load.rs")),
];

/// The files of all. OWN_NAME and OWN_TREE stand for names.
const ALL: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../../../own_algorithms/new/manifest.toml")),
    (".gitignore", "/target\n"),
];

/// Writes the crate of a new algorithm to a folder that must not exist, which gives the algorithm its name. `tree` is a
/// source tree of knee, on which the crate depends by path.
pub fn write(kind: Kind, folder: &Path, tree: &Path) -> Result<()> {
    let shown = folder.display();
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ensure!(
        is_crate_name(&name),
        "{shown}: the folder's name becomes the algorithm's in Rust: use lower-case letters, digits and underscores, a \
         letter first, and no word of the language"
    );
    let own_algorithms = tree.join("crates/own_algorithms/Cargo.toml");
    ensure!(
        own_algorithms.is_file(),
        "{}: no source tree of knee, on which the crate depends; name one with --tree DIR",
        tree.display()
    );
    let tree = tree.canonicalize().with_context(|| format!("resolving {}", tree.display()))?;
    let tree_text = tree.to_str().context("the path of knee's source tree is not UTF-8")?;
    ensure!(
        !tree_text.contains(['"', '\\', '\n']),
        "{tree_text}: Cargo.toml cannot hold this path as it is; use a path without quotes"
    );
    fs::create_dir(folder).with_context(|| format!("creating {shown}"))?;
    let (files, template) = match kind {
        Kind::Lock => (LOCK, "own_lock"),
        Kind::ReadWriteLock => (READ_WRITE_LOCK, "own_lock"),
        Kind::Mechanism => (MECHANISM, "own_mechanism"),
    };
    let name_it = |text: &str| text.replace(template, &name);
    let fill = |text: &str| text.replace("OWN_NAME", &name).replace("OWN_TREE", tree_text);
    let named = files.iter().map(|(path, text)| (name_it(path), name_it(text)));
    let filled = ALL.iter().map(|(path, text)| (path.to_string(), fill(text)));
    for (path, text) in named.chain(filled) {
        let path = folder.join(path);
        let parent = path.parent().context("a file has a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    // The versions of libraries that the tree is tested with; without it, cargo chooses.
    let lock = tree.join("Cargo.lock");
    if lock.is_file() {
        fs::copy(&lock, folder.join("Cargo.lock"))
            .with_context(|| format!("copying {}", lock.display()))?;
    }
    Ok(())
}

/// Whether cargo and Rust accept it as the name of a crate and of a module.
fn is_crate_name(name: &str) -> bool {
    /// Words of the language, and names that the crate's own files use.
    const TAKEN: &[&str] = &[
        "abstract",
        "as",
        "async",
        "await",
        "become",
        "box",
        "break",
        "const",
        "continue",
        "crate",
        "do",
        "dyn",
        "else",
        "enum",
        "extern",
        "false",
        "final",
        "fn",
        "for",
        "gen",
        "if",
        "impl",
        "in",
        "let",
        "loop",
        "macro",
        "main",
        "match",
        "mod",
        "move",
        "mut",
        "override",
        "own_algorithms",
        "priv",
        "pub",
        "ref",
        "return",
        "self",
        "static",
        "std",
        "struct",
        "super",
        "test",
        "trait",
        "true",
        "try",
        "type",
        "typeof",
        "unsafe",
        "unsized",
        "use",
        "virtual",
        "where",
        "while",
        "yield",
    ];
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_allowed)
        && !TAKEN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::is_crate_name;

    #[test]
    fn names_are_those_that_rust_accepts() {
        for name in ["my_lock", "hclh2"] {
            assert!(is_crate_name(name), "{name}");
        }
        for name in ["", "2fast", "my-lock", "Lock", "loop", "own_algorithms", "a/b", "lück"] {
            assert!(!is_crate_name(name), "{name}");
        }
    }
}
