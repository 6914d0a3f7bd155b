//! Whether objects of other revisions may have made a build fail. make keeps track of the files that are compiled, but not
//! of what a revision no longer makes, such as a generated header. To build all anew takes minutes, which are lost if the
//! revision itself is at fault.

use std::path::Path;

/// Files that decide what is made, by the start of their names.
const RULES: [&str; 3] = ["Makefile", "Kbuild", "Kconfig"];

/// Folders whose programs make files.
const TOOLS: [&str; 3] = ["scripts/", "tools/", "usr/"];

/// Whether the objects may be at fault for these errors, where `changed` are the files in which the revision differs from
/// the one whose objects they are.
pub fn are_suspect(changed: &[String], reasons: &[String]) -> bool {
    let may_make_others = changed.iter().any(|path| decides_what_is_made(path));
    may_make_others && !reasons.iter().any(|reason| is_in(reason, changed))
}

fn decides_what_is_made(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    RULES.iter().any(|rule| name.starts_with(rule))
        || TOOLS.iter().any(|folder| path.starts_with(folder))
}

/// Whether a compiler's line, `../fs/locks.c:7:2: error: …`, is about one of these files.
fn is_in(reason: &str, changed: &[String]) -> bool {
    let Some((file, _)) = reason.split_once(':') else { return false };
    changed.iter().any(|path| Path::new(file.trim()).ends_with(path))
}

#[cfg(test)]
mod tests {
    use super::are_suspect;

    #[track_caller]
    fn check(changed: &[&str], reason: &str, expected: bool) {
        let changed: Vec<String> = changed.iter().map(|path| path.to_string()).collect();
        assert_eq!(are_suspect(&changed, &[reason.to_string()]), expected);
    }

    #[test]
    fn an_error_in_a_file_that_was_changed_is_no_fault_of_the_objects() {
        let error = "/x/source/fs/locks.c:1095:19: error: 'a' undeclared";
        check(&["fs/locks.c"], error, false);
        check(&["fs/locks.c", "fs/Makefile"], error, false);
        check(&["fs/Makefile"], error, true);
        check(&["fs/other.c"], error, false);
        check(&["scripts/sorttable.c"], "ld: undefined reference to `a'", true);
        check(&["include/linux/fs.h"], "ld: undefined reference to `a'", false);
    }
}
