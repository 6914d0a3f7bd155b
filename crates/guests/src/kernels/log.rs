//! Why a build failed, from its log: the first errors, which cause the others, and advice where the
//! remedy is known.

/// The number of error lines to show.
const LINES: usize = 3;

/// Longer lines are cut: a linker's may contain every symbol of a program.
const COLUMNS: usize = 300;

/// Texts in a log, and the advice for them.
const KNOWN: &[(&str, &str)] = &[
    ("No space left on device", "the disk is full: free some space, or choose another --scratch"),
    (
        "Killed signal terminated program",
        "the compiler was killed, perhaps for lack of memory: try fewer --jobs",
    ),
    ("openssl/", "the headers are missing: apt install libssl-dev"),
    ("gelf.h", "the header is missing: apt install libelf-dev"),
    ("libelf.h", "the header is missing: apt install libelf-dev"),
    ("ncurses.h", "the header is missing: apt install libncurses-dev"),
    ("dwarf.h", "the header is missing: apt install libdw-dev"),
    ("cpio: not found", "the build needs cpio: apt install cpio"),
    ("openssl: not found", "the build needs openssl: apt install openssl"),
    ("lz4: not found", "the build needs lz4: apt install lz4"),
    ("zstd: not found", "the build needs zstd: apt install zstd"),
    ("lzop: not found", "the build needs lzop: apt install lzop"),
    ("rsync: not found", "the build needs rsync: apt install rsync"),
    ("python3: not found", "the build needs python3: apt install python3"),
    ("gcc-plugin", "the compiler's plugin headers are missing: apt install gcc-NN-plugin-dev"),
    (
        "BTF: .tmp_vmlinux",
        "pahole could not generate the kernel's types (BTF): build without them (--without types)",
    ),
];

/// The lines that explain a failure: the first errors, or the last lines if none is an error.
pub fn reasons(log: &str) -> Vec<String> {
    let cut = |line: &str| line.trim().chars().take(COLUMNS).collect::<String>();
    let errors: Vec<&str> = log.lines().filter(|line| is_error(line)).collect();
    if errors.is_empty() {
        let is_informative =
            |line: &&str| !line.trim().is_empty() && !line.contains("ing directory '");
        let lines: Vec<&str> = log.lines().filter(is_informative).collect();
        return lines[lines.len().saturating_sub(LINES)..].iter().map(|line| cut(line)).collect();
    }
    let mut shown: Vec<String> = errors.iter().take(LINES).map(|line| cut(line)).collect();
    if errors.len() > LINES {
        shown.push(match errors.len() - LINES {
            1 => "and 1 more line".to_string(),
            more => format!("and {more} more lines"),
        });
    }
    shown
}

/// Advice for the first known cause in the lines that explain a failure.
pub fn advice(reasons: &[String]) -> Option<&'static str> {
    let is_in_reasons = |text: &str| reasons.iter().any(|line| line.contains(text));
    KNOWN.iter().find(|(text, _)| is_in_reasons(text)).map(|(_, advice)| *advice)
}

/// Whether a line reports an error of a compiler, linker, shell or tool, or one of make's own. What
/// make adds to the errors of others (`*** … Error 1`) explains nothing.
fn is_error(line: &str) -> bool {
    let marks = ["error:", "Error:", "ERROR:", "FAILED:", ": not found", "undefined reference to"];
    let is_makes_own =
        line.contains("*** ") && !line.contains("] Error ") && !line.contains("Waiting for");
    marks.iter().any(|mark| line.contains(mark))
        || is_makes_own
        || line.contains("No space left on device")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(log: &str, expected: Expect) {
        let reasons = reasons(log);
        let advice = advice(&reasons).map(|advice| format!("-> {advice}\n")).unwrap_or_default();
        expected.assert_eq(&format!("{}\n{advice}", reasons.join("\n")));
    }

    #[test]
    fn the_first_errors_explain_a_failure() {
        let log = "  CC      kernel/fork.o\n\
                   ../kernel/fork.c: In function 'f':\n\
                   ../kernel/fork.c:7:2: error: 'x' undeclared (first use)\n\
                   ../kernel/fork.c:8:2: error: two\n\
                   make[2]: *** [../scripts/Makefile.build:250: kernel/fork.o] Error 1\n\
                   make[1]: *** [../Makefile:2021: kernel] Error 2\n\
                   a.c:1:1: error: three\nb.c:1:1: error: four\n\
                   make[1]: *** Waiting for unfinished jobs....\n";
        check(
            log,
            expect![[r#"
            ../kernel/fork.c:7:2: error: 'x' undeclared (first use)
            ../kernel/fork.c:8:2: error: two
            a.c:1:1: error: three
            and 1 more line
        "#]],
        );
    }

    #[test]
    fn missing_programs_and_headers_are_named_with_their_package() {
        let log = "scripts/sign-file.c:25:10: fatal error: openssl/opensslv.h: No such file\n\
                   compilation terminated.\n";
        check(
            log,
            expect![[r#"
            scripts/sign-file.c:25:10: fatal error: openssl/opensslv.h: No such file
            -> the headers are missing: apt install libssl-dev
        "#]],
        );
        check(
            "/bin/sh: 1: zstd: not found\nmake[1]: *** [x] Error 127\n",
            expect![[r#"
            /bin/sh: 1: zstd: not found
            -> the build needs zstd: apt install zstd
        "#]],
        );
        check(
            "/tmp/cc1.s: Fatal error: can't write 9 bytes: No space left on device\n",
            expect![[r#"
            /tmp/cc1.s: Fatal error: can't write 9 bytes: No space left on device
            -> the disk is full: free some space, or choose another --scratch
        "#]],
        );
    }

    #[test]
    fn makes_own_errors_count_and_without_errors_the_last_lines_are_shown() {
        check(
            "make[1]: *** No rule to make target 'debian/certs.pem'.  Stop.\n",
            expect![[r#"
            make[1]: *** No rule to make target 'debian/certs.pem'.  Stop.
        "#]],
        );
        check(
            "a\nb\n\nc\nd\nmake: Leaving directory '/x'\n",
            expect![[r#"
            b
            c
            d
        "#]],
        );
        let nothing = reasons("");
        assert!(nothing.is_empty(), "{nothing:?}");
    }
}
