//! The cases of a benchmark: named by the user, or listed by a program of each build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow};
use host::children::{Streams, output_within};
use host::executables::{find_program, is_executable};
use host::signals;
use regex_lite::Regex;

/// A program that lists cases may take so long.
const LIST_MAX: Duration = Duration::from_secs(120);

/// Where the cases come from.
#[derive(Clone, Debug)]
pub enum Cases {
    /// The command itself is the only case.
    One,
    /// These, in both builds.
    Named(Vec<String>),
    /// A program that runs in the folder of a build. Each line that it prints is a case: the group of the pattern where it
    /// matches, or the whole line without a pattern. `{program}` in a word is the path of the program of that build, and
    /// `{pattern}` what the user calls it.
    Listed { words: Vec<String>, pattern: Option<Regex> },
}

/// A program of a build.
pub(crate) struct NamedProgram {
    /// As the user names it, where `*` stands for any characters.
    pub name: String,
    pub path: String,
}

/// The cases of a build, or why they are not known.
pub(crate) fn list(
    cases: &Cases,
    folder: &Path,
    program: Option<&NamedProgram>,
) -> Result<Result<Vec<String>, String>> {
    let (words, pattern) = match cases {
        Cases::One => return Ok(Ok(Vec::new())),
        Cases::Named(names) => return Ok(Ok(names.clone())),
        Cases::Listed { words, pattern } => (words, pattern),
    };
    let filled = words.iter().map(|word| match program {
        Some(program) => {
            word.replace("{program}", &program.path).replace("{pattern}", &program.name)
        }
        None => word.clone(),
    });
    let filled: Vec<String> = filled.collect();
    let [first, rest @ ..] = &filled[..] else {
        return Ok(Err("no program lists them".to_string()));
    };
    let line = match (pattern, program) {
        (Some(_), Some(program)) => format!("what lists those of {}", program.name),
        _ => format!("`{}`", words.join(" ")),
    };
    let mut command = Command::new(first);
    command.args(rest).current_dir(folder);
    let output = match output_within(&mut command, Streams::Apart, LIST_MAX) {
        Ok(output) => output,
        Err(_) if signals::received().is_some() => return Err(anyhow!("interrupted")),
        Err(why) => return Ok(Err(format!("{line}: {why:#}"))),
    };
    let names = named(&String::from_utf8_lossy(&output.stdout), pattern.as_ref());
    // Where one case fails as it is listed, the others are judged all the same.
    if !output.status.success() && (names.is_empty() || pattern.is_none()) {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        return Ok(Err(format!("{line} ended with {}: {last:.160}", output.status)));
    }
    Ok(Ok(names))
}

/// The path of a program of a build: the newest file in its folder that the name matches, in which `*` stands for any
/// characters within a part; or the name, if it is a program of the host, or a part of a file (`FILE::TEST`).
pub(super) fn program(folder: &Path, name: &str) -> Result<String, String> {
    let mut found = vec![folder.to_path_buf()];
    for part in name.split('/') {
        found = found.iter().flat_map(|folder| matching(folder, part)).collect();
    }
    found.retain(|path| is_executable(path) || !name.contains('*'));
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    match found.into_iter().max_by_key(changed) {
        Some(path) => Ok(path.to_string_lossy().into_owned()),
        None if !name.contains('*') && (name.contains("::") || find_program(name).is_some()) => {
            Ok(name.to_string())
        }
        None => Err(format!("the build made no {name}")),
    }
}

/// Paths in a folder whose names a part of a name matches.
fn matching(folder: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains('*') {
        return [folder.join(part)].into_iter().filter(|path| path.exists()).collect();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let matches = |name: &str| {
        let mut pieces = part.split('*');
        let first = pieces.next().unwrap_or_default();
        let last = pieces.next_back().unwrap_or_default();
        let Some(middle) = name.strip_prefix(first) else { return false };
        let Some(mut middle) = middle.strip_suffix(last) else { return false };
        pieces.all(|piece| match middle.split_once(piece) {
            Some((_, rest)) => {
                middle = rest;
                true
            }
            None => false,
        })
    };
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| matches(name)).map(|name| folder.join(name)).collect()
}

/// The cases that a list names.
fn named(text: &str, pattern: Option<&Regex>) -> Vec<String> {
    let name = |line: &str| match pattern {
        None => Some(line.trim().to_string()).filter(|name| !name.is_empty()),
        Some(pattern) => {
            let found = pattern.captures(line)?;
            Some(found.get(1).or_else(|| found.get(0))?.as_str().to_string())
        }
    };
    let mut names: Vec<String> = Vec::new();
    for name in text.lines().filter_map(name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use regex_lite::Regex;

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{named, program};

    #[test]
    fn lists_of_harnesses_name_each_case_once() {
        let check = |text: &str, pattern: Option<&str>, expected: &[&str]| {
            let pattern = pattern.map(|pattern| Regex::new(pattern).unwrap());
            assert_eq!(named(text, pattern.as_ref()), expected);
        };
        check("a/1\n\n  b c \na/1\n", None, &["a/1", "b c"]);
        check(
            "BenchmarkA\nBenchmarkB-2\nok  \tx\t0.1s\n",
            Some(r"^(Benchmark\S*)"),
            &["BenchmarkA", "BenchmarkB-2"],
        );
        check(
            "group/one: benchmark\ntwo: test\n\n1 test, 1 benchmark\n",
            Some("^(.+): benchmark$"),
            &["group/one"],
        );
    }

    #[test]
    fn a_program_is_the_newest_that_its_name_matches() {
        let folder = tempfile::tempdir().unwrap();
        let deps = folder.path().join("target/deps");
        fs::create_dir_all(&deps).unwrap();
        for (name, mode) in [("speed-1a", 0o755), ("speed-1a.d", 0o644), ("other-2b", 0o755)] {
            fs::write(deps.join(name), "").unwrap();
            fs::set_permissions(deps.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let check = |name: &str, expected: Result<&str, &str>| {
            let here = |path: String| path.replace(folder.path().to_str().unwrap(), ".");
            let found = program(folder.path(), name).map(here);
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        };
        check("target/deps/speed-*", Ok("./target/deps/speed-1a"));
        check("tar*/*/*p*-*a", Ok("./target/deps/speed-1a"));
        check("target/deps/other-2b", Ok("./target/deps/other-2b"));
        check("target/deps/none-*", Err("the build made no target/deps/none-*"));
        check("sh", Ok("sh"));
        check("tests/a.py::b", Ok("tests/a.py::b"));
        check("bnch.test", Err("the build made no bnch.test"));
    }
}
