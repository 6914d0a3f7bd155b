//! The folder of a new lock: a small crate whose program checks, mutates and simulates it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The files of a new lock, by path in its folder. OWN_NAME and OWN_TREE stand for names.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../new/manifest.toml")),
    ("Makefile", include_str!("../new/Makefile")),
    (".gitignore", "/target\n"),
    ("src/main.rs", include_str!("../new/main.rs")),
    ("src/OWN_NAME.rs", include_str!("../new/lock.rs")),
    ("examples/load.rs", include_str!("../new/load.rs")),
];

/// Writes the crate of a new lock to a folder that must not exist, which gives the lock its name. `tree` is a source
/// tree of knee, on which the crate depends by path.
pub fn write(folder: &Path, tree: &Path) -> Result<()> {
    let shown = folder.display();
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ensure!(
        is_crate_name(&name),
        "{shown}: the folder's name becomes the lock's in Rust: use lower-case letters, digits and underscores, a letter \
         first, and no word of the language"
    );
    let own_locks = tree.join("crates/own_locks/Cargo.toml");
    ensure!(
        own_locks.is_file(),
        "{}: no source tree of knee, on which the lock's crate depends; name one with --tree DIR",
        tree.display()
    );
    let tree = tree.canonicalize().with_context(|| format!("resolving {}", tree.display()))?;
    let tree_text = tree.to_str().context("the path of knee's source tree is not UTF-8")?;
    ensure!(
        !tree_text.contains(['"', '\\', '\n']),
        "{tree_text}: Cargo.toml cannot hold this path as it is; use a path without quotes"
    );
    fs::create_dir(folder).with_context(|| format!("creating {shown}"))?;
    for (path, text) in FILES {
        let fill = |text: &str| text.replace("OWN_NAME", &name).replace("OWN_TREE", tree_text);
        let path = folder.join(fill(path));
        let parent = path.parent().context("a file has a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        fs::write(&path, fill(text)).with_context(|| format!("writing {}", path.display()))?;
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
        "own_locks",
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
        for name in ["", "2fast", "my-lock", "Lock", "loop", "own_locks", "a/b", "lück"] {
            assert!(!is_crate_name(name), "{name}");
        }
    }
}
