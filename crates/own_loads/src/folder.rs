//! The loads of a folder, read without compiling them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use records::LoadInterface;

use crate::compiler::Language;

/// A file of a folder that is a load.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedLoad {
    /// The file.
    pub file: PathBuf,
    /// The interface whose names it has.
    pub interface: LoadInterface,
    /// What the load says it is; empty if that is not written as a plain text.
    pub description: String,
}

/// The loads of a folder, by name. Other files are left out; so are object files, which have no text.
pub fn list(folder: &Path) -> Result<Vec<ListedLoad>> {
    let reading = || format!("reading the folder {}", folder.display());
    let mut loads = Vec::new();
    let mut files = 0;
    for entry in fs::read_dir(folder).with_context(reading)? {
        let file = entry.with_context(reading)?.path();
        let has_text = Language::of(&file) != Language::Compiled;
        if !has_text || !crate::is_own_load(&file.to_string_lossy()) || !file.is_file() {
            continue;
        }
        files += 1;
        loads.extend(look(&file)?);
    }
    ensure!(
        !loads.is_empty(),
        "no file in {} is a load ({files} of C or C++ looked at): one has will-it-scale's testcase() or \
         knee.h's knee_operate()",
        folder.display()
    );
    loads.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(loads)
}

/// What the text of one file says that the load is; `None` if it is no load, or has no text.
pub fn look(file: &Path) -> Result<Option<ListedLoad>> {
    let reading = || format!("reading {}", file.display());
    ensure!(file.metadata().with_context(reading)?.is_file(), "{} is not a file", file.display());
    let text = String::from_utf8_lossy(&fs::read(file).with_context(reading)?).into_owned();
    Ok(described(&text).map(|(interface, description)| ListedLoad {
        file: file.to_path_buf(),
        interface,
        description,
    }))
}

/// The interface and the description in a text of C.
fn described(text: &str) -> Option<(LoadInterface, String)> {
    let (interface, name) = if text.contains("knee_operate") {
        (LoadInterface::Knee, "knee_description")
    } else if text.contains("testcase(") {
        (LoadInterface::WillItScale, "testcase_description")
    } else {
        return None;
    };
    let after = text.split(name).nth(1).and_then(|rest| rest.split_once('='));
    Some((interface, after.map_or(String::new(), |(_, rest)| literal(rest))))
}

/// The text of the string literals at the start; of a macro or an expression, nothing.
fn literal(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text.trim_start();
    while let Some(quoted) = rest.strip_prefix('"') {
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => found.extend(characters.next().map(|(_, c)| c)),
                Some((_, c)) => found.push(c),
                None => return found,
            }
        };
        rest = quoted[end + 1..].trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(LoadInterface, &str)>) {
        let expected = expected.map(|(interface, text)| (interface, text.to_string()));
        assert_eq!(described(text), expected);
    }

    #[test]
    fn descriptions_are_read_without_a_compiler() {
        let test = "char *testcase_description = \"Separate \"\n\t\"file\";\nvoid testcase(x) {}";
        check(test, Some((LoadInterface::WillItScale, "Separate file")));
        let load =
            "const char *const knee_description = \"a \\\"b\\\"\";\nint knee_operate(void *t)";
        check(load, Some((LoadInterface::Knee, "a \"b\"")));
        check("void testcase(int a) {}", Some((LoadInterface::WillItScale, "")));
        check("char *testcase_description = \"unclosed", None);
        check("int main(void) { return 0; }", None);
    }
}
