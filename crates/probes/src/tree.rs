//! Files of /proc and /sys, below a root directory that tests replace.

use std::fs;
use std::path::Path;

/// The trimmed text of a file; `None` if it is absent, unreadable or empty.
pub(crate) fn value(root: &Path, path: &str) -> Option<String> {
    let text = fs::read(root.join(path)).ok()?;
    // Firmware tables may end their strings with zero bytes.
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// The choice in brackets, if the value is a list with one; otherwise the value unchanged.
pub(crate) fn chosen(value: String) -> String {
    match value.split(['[', ']']).collect::<Vec<_>>()[..] {
        [_, choice, _] => choice.to_owned(),
        _ => value,
    }
}

/// The number that a file holds.
pub(crate) fn number(root: &Path, path: &str) -> Option<u64> {
    value(root, path)?.parse().ok()
}

/// The text of a file, or why it cannot be read.
pub(crate) fn text(root: &Path, path: &str) -> Result<String, String> {
    fs::read(root.join(path))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|e| format!("/{path}: {e}"))
}

/// Creates a tree of these files, as the kernel would have them.
#[cfg(test)]
pub(crate) fn fake(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}
