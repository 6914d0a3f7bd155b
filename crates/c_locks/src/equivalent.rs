//! Mutants that break nothing, as comments of a C file list them:
//!
//!     /* knee_equivalent: off by one | WRITE_ONCE(lock->locked | every value but 0 means locked */

use algorithms::Equivalent;
use anyhow::{Result, bail};

const MARK: &str = "knee_equivalent:";

/// Reads the lists in these files: the end of each path, and its text.
pub fn read(sources: &[(String, String)]) -> Result<Vec<Equivalent<String>>> {
    let mut all = Vec::new();
    for (path, text) in sources {
        for (index, line) in text.lines().enumerate() {
            let Some((_, listed)) = line.split_once(MARK) else { continue };
            let listed = listed.trim().trim_end_matches("*/");
            let parts: Vec<&str> = listed.split('|').map(str::trim).collect();
            let [change, of_line, why] = parts[..] else {
                bail!(
                    "{path}:{}: {MARK} needs a change, a part of the line and a reason, as in: {MARK} off by one | \
                     WRITE_ONCE(lock->locked | every value but 0 means locked",
                    index + 1
                );
            };
            let [change, line, why] = [change, of_line, why].map(str::to_string);
            all.push(Equivalent { change, line, why });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn comments_list_equivalent_mutants() {
        let text = "int x;\n/* knee_equivalent: off by one | WRITE_ONCE(x | any value will do */\n";
        let read = |text: &str| read(&[("/a.c".to_string(), text.to_string())]);
        let listed = read(text).unwrap();
        assert_eq!((&*listed[0].change, &*listed[0].line), ("off by one", "WRITE_ONCE(x"));
        assert_eq!(listed[0].why, "any value will do");
        assert!(
            read("// knee_equivalent: off by one\n").unwrap_err().to_string().contains("/a.c:1")
        );
    }
}
