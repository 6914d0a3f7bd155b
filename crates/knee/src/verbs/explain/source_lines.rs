//! Source lines of instructions, by addr2line where it is installed: knee reads no DWARF.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use host::children;
use ledger::{Explained, HotInstruction};

/// Adds the source line to each instruction that a report may name. A record knows a program by the last part of its
/// path, so only a file of this directory in which the function has the same name is taken for it. Asks once for
/// each file.
pub fn add(explained: &mut [Vec<Explained>]) {
    let instructions = explained.iter_mut().flatten().flat_map(|e| &mut e.hot_instructions);
    let mut of_file: BTreeMap<String, Vec<(&String, &mut HotInstruction)>> = BTreeMap::new();
    for (function, at) in instructions.filter(|(_, at)| at.is_clear()) {
        of_file.entry(at.object.clone()).or_default().push((function, at));
    }
    for (file, instructions) in of_file {
        let file = Path::new(".").join(file);
        if !file.is_file() {
            continue;
        }
        let offsets = instructions.iter().map(|(_, at)| format!("{:#x}", at.offset));
        let mut addr2line = Command::new("addr2line");
        addr2line.args(["-f", "-C", "-e"]).arg(&file).args(offsets);
        // Without it, the report says how to find the line.
        let Ok(said) = children::output(&mut addr2line) else { return };
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        for ((function, at), answer) in instructions.into_iter().zip(lines.chunks(2)) {
            let [named, line] = answer else { continue };
            at.source = source(line).filter(|_| is_same(function, named));
        }
    }
}

/// Whether two names are of one function: compilers add `.constprop.0` and the like.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |name: &str| name.split('.').next().map(str::to_string);
    plain(a) == plain(b)
}

/// "queue.c:42" of "/home/me/queue.c:42 (discriminator 3)"; `None` of "??:0" and "??:?".
fn source(line: &str) -> Option<String> {
    let place = line.split(" (").next()?.rsplit('/').next()?;
    let (file, number) = place.split_once(':')?;
    let is_known = file != "??" && number.parse::<u32>().is_ok_and(|number| number > 0);
    is_known.then(|| place.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_line_is_a_file_and_a_number() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(source(line).as_deref(), expected, "{line}");
        };
        check("/home/me/queue.c:42", Some("queue.c:42"));
        check("queue.c:42 (discriminator 3)", Some("queue.c:42"));
        check("??:0", None);
        check("??:?", None);
        check("/home/me/queue.c:?", None);
        check("", None);
    }
}
