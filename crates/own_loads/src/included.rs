//! The files that a source includes, which are compiled with it: read off its text, since a compiler may be started only
//! once they are permitted. What stands under a condition is included too. Not followed are names that macros make, and
//! headers in the folders of the system.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use host::{Limit, given_file};

/// Longest file that is read.
const LENGTH: Limit = Limit { bytes: 16 << 20, what: "a header" };

/// Flags with a folder in which headers are looked for.
const FOLDERS: [&str; 4] = ["-I", "-iquote", "-isystem", "-idirafter"];

/// Flags with a file that is included before the first line.
const FILES: [&str; 2] = ["-include", "-imacros"];

/// Variables with folders, between colons, in which compilers look for headers.
const VARIABLES: [&str; 3] = ["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"];

/// A file that is compiled, with its text.
pub struct Source {
    pub file: PathBuf,
    pub text: Vec<u8>,
}

impl Source {
    /// A source, unless it cannot be read: then the compiler says so.
    pub fn read(file: &Path) -> Option<Source> {
        let is_file = file.is_file();
        let text = is_file.then(|| given_file::read(file, LENGTH).ok()).flatten()?;
        Some(Source { file: file.to_path_buf(), text })
    }
}

/// The files that sources include, one through the other, where the compiler has these flags of the user. `provided` are
/// headers that knee has, whose names come before all others.
pub fn included(sources: Vec<Source>, flags: &[String], provided: &[&str]) -> Vec<PathBuf> {
    let mut folders = arguments(flags, &FOLDERS);
    folders.extend(
        VARIABLES
            .iter()
            .filter_map(env::var_os)
            .flat_map(|folders| env::split_paths(&folders).collect::<Vec<_>>()),
    );
    let mut known = BTreeSet::new();
    let mut files = arguments(flags, &FILES);
    let beyond = folders.iter().flat_map(|folder| files.iter().map(|file| folder.join(file)));
    files.extend(beyond.collect::<Vec<_>>());
    files.retain(|file| file.is_file());
    let mut unread: Vec<Source> = sources;
    loop {
        files.retain(|file| known.insert(file.clone()));
        unread.extend(files.drain(..).filter_map(|file| Source::read(&file)));
        let Some(Source { file, text }) = unread.pop() else { break };
        let beside = file.parent().unwrap_or(Path::new("")).to_path_buf();
        for name in names(&String::from_utf8_lossy(&text)) {
            if provided.contains(&name.as_str()) {
                continue;
            }
            // The first that is there is taken, but `#include_next` takes one behind it.
            let places = [&beside].into_iter().chain(&folders).map(|folder| folder.join(&name));
            files.extend(places.filter(|place| place.is_file()));
        }
    }
    known.into_iter().collect()
}

/// The arguments of flags with one of these names: `-Ia` and `-I a`.
fn arguments(flags: &[String], names: &[&str]) -> Vec<PathBuf> {
    let mut arguments = Vec::new();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let rest = names.iter().find_map(|name| flag.strip_prefix(name));
        match rest {
            Some("") => arguments.extend(flags.next().map(PathBuf::from)),
            Some(rest) => arguments.push(PathBuf::from(rest)),
            None => {}
        }
    }
    arguments
}

/// The names that lines such as `#include "a.h"` and `# include_next <b.h>` have.
fn names(text: &str) -> Vec<String> {
    let name = |mut line: &str| {
        line = line.trim_start();
        while let Some((_, rest)) = line.strip_prefix("/*").and_then(|line| line.split_once("*/")) {
            line = rest.trim_start();
        }
        let word = line.strip_prefix(['#', '%'])?.trim_start_matches(':').trim_start();
        let word = word.strip_prefix("include").or(word.strip_prefix("import"))?;
        let start = word.find(['"', '<'])?;
        let end = if word[start..].starts_with('"') { '"' } else { '>' };
        let name = &word[start + 1..];
        Some(name[..name.find(end)?].to_string())
    };
    text.replace("\\\n", "").lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_are_read_in_all_their_forms() {
        let text = "#include <a.h>\n  #  include \"b/c.h\" // yes\n#include_next <d.h>\nint include;\n#inc\\\nlude \"e.h\"\n\
                    #import \"f.h\"\n#define include \"g.h\"\n#include NAME\n%:include <h.h>\n\
                    /* first */ #include/**/<i.h>\n";
        assert_eq!(names(text), ["a.h", "b/c.h", "d.h", "e.h", "f.h", "h.h", "i.h"]);
    }

    #[test]
    fn headers_are_followed_beside_the_source_and_in_folders_of_flags() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for folder in ["one", "two"] {
            fs::create_dir(at(folder)).unwrap();
        }
        for (name, text) in [
            (
                "my.c",
                "#include \"near.h\"\n#include <one.h>\n#include <stdio.h>\n#include <knee.h>\n",
            ),
            ("near.h", "#ifdef NEVER\n#include \"one/deep.h\"\n#endif\n"),
            ("knee.h", ""),
            ("one/deep.h", "#include \"../near.h\"\n#include \"beside.h\"\n"),
            ("one/beside.h", ""),
            ("one/one.h", ""),
            ("two/one.h", ""),
            ("two/first.h", "#include \"absent.h\"\n"),
            ("two/unused.h", ""),
        ] {
            fs::write(at(name), text).unwrap();
        }
        let flag = |name: &str, file: &str| format!("{name}{}", at(file).display());
        let first = ["-include".to_string(), flag("", "two/first.h")];
        let flags = [vec![flag("-I", "one"), flag("-isystem", "two")], first.to_vec()].concat();
        let found = included(vec![Source::read(&at("my.c")).unwrap()], &flags, &["knee.h"]);
        let found: BTreeSet<PathBuf> =
            found.iter().map(|file| file.canonicalize().unwrap()).collect();
        let expected =
            ["near.h", "one/beside.h", "one/deep.h", "one/one.h", "two/first.h", "two/one.h"];
        let expected = expected.map(|name| at(name).canonicalize().unwrap());
        assert_eq!(found, BTreeSet::from(expected));
    }
}
