//! Source lines of instructions, by addr2line where it is installed: knee reads no DWARF.

use std::collections::BTreeMap;
use std::process::Command;

use analysis::ledger::{Explained, HotInstruction};
use host::children;

/// Adds the source line to each instruction that a report may name. Asks once for each file.
pub fn add(explained: &mut [Vec<Explained>]) {
    let instructions = explained.iter_mut().flatten().flat_map(|e| e.hot_instructions.values_mut());
    let mut of_file: BTreeMap<String, Vec<&mut HotInstruction>> = BTreeMap::new();
    for at in instructions.filter(|at| at.is_clear() && at.object.starts_with('/')) {
        of_file.entry(at.object.clone()).or_default().push(at);
    }
    for (file, instructions) in of_file {
        let offsets = instructions.iter().map(|at| format!("{:#x}", at.offset));
        let mut addr2line = Command::new("addr2line");
        addr2line.arg("-e").arg(&file).args(offsets);
        // Without it, the report says how to find the line.
        let Ok(said) = children::output(&mut addr2line) else { return };
        let lines = String::from_utf8_lossy(&said.stdout).into_owned();
        for (at, line) in instructions.into_iter().zip(lines.lines()) {
            at.source = source(line);
        }
    }
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
