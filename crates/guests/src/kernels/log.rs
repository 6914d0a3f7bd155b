//! What the log of a build that failed says about why: the first errors, which are the cause of
//! the others, and what helps where that is known.

/// So many lines tell it.
const LINES: usize = 3;

/// Longer lines are cut: a linker's may hold all names of a program.
const COLUMNS: usize = 300;

/// Words in a log, and what they mean for the user.
const KNOWN: &[(&str, &str)] = &[
    ("No space left on device", "the disk is full: free some space, or name another --scratch"),
    (
        "Killed signal terminated program",
        "the compiler was killed, for want of memory perhaps: try fewer --jobs",
    ),
    ("openssl/", "its headers are in libssl-dev (apt install libssl-dev)"),
    ("gelf.h", "its header is in libelf-dev (apt install libelf-dev)"),
    ("libelf.h", "its header is in libelf-dev (apt install libelf-dev)"),
    ("ncurses.h", "its header is in libncurses-dev (apt install libncurses-dev)"),
    ("dwarf.h", "its header is in libdw-dev (apt install libdw-dev)"),
    ("cpio: not found", "it needs cpio (apt install cpio)"),
    ("openssl: not found", "it needs openssl (apt install openssl)"),
    ("lz4: not found", "it needs lz4 (apt install lz4)"),
    ("zstd: not found", "it needs zstd (apt install zstd)"),
    ("lzop: not found", "it needs lzop (apt install lzop)"),
    ("rsync: not found", "it needs rsync (apt install rsync)"),
    ("python3: not found", "it needs python3 (apt install python3)"),
    ("gcc-plugin", "it needs the compiler's plugin headers (apt install gcc-NN-plugin-dev)"),
    (
        "BTF: .tmp_vmlinux",
        "pahole could not name the kernel's types; without them: --without types",
    ),
];

/// Why, in lines: the first errors, or the last lines where none calls itself one.
pub fn reasons(log: &str) -> Vec<String> {
    let cut = |line: &str| line.trim().chars().take(COLUMNS).collect::<String>();
    let errors: Vec<&str> = log.lines().filter(|line| is_error(line)).collect();
    if errors.is_empty() {
        let says = |line: &&str| !line.trim().is_empty() && !line.contains("ing directory '");
        let lines: Vec<&str> = log.lines().filter(|line| says(line)).collect();
        return lines[lines.len().saturating_sub(LINES)..].iter().map(|line| cut(line)).collect();
    }
    let mut said: Vec<String> = errors.iter().take(LINES).map(|line| cut(line)).collect();
    if errors.len() > LINES {
        said.push(match errors.len() - LINES {
            1 => "and 1 more line".to_string(),
            more => format!("and {more} more lines"),
        });
    }
    said
}

/// What helps, by the lines that tell why.
pub fn advice(reasons: &[String]) -> Option<&'static str> {
    let said = |words: &str| reasons.iter().any(|line| line.contains(words));
    KNOWN.iter().find(|(words, _)| said(words)).map(|(_, advice)| *advice)
}

/// Compilers, linkers, shells and tools say it so. What make adds (`*** … Error 1`) says only
/// that there was one, unless it is make's own.
fn is_error(line: &str) -> bool {
    let words = ["error:", "Error:", "ERROR:", "FAILED:", ": not found", "undefined reference to"];
    let own = line.contains("*** ") && !line.contains("] Error ") && !line.contains("Waiting for");
    words.iter().any(|word| line.contains(word)) || own || line.contains("No space left on device")
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
    fn the_first_errors_tell_why() {
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
    fn what_is_missing_is_told_with_its_package() {
        let log = "scripts/sign-file.c:25:10: fatal error: openssl/opensslv.h: No such file\n\
                   compilation terminated.\n";
        check(
            log,
            expect![[r#"
            scripts/sign-file.c:25:10: fatal error: openssl/opensslv.h: No such file
            -> its headers are in libssl-dev (apt install libssl-dev)
        "#]],
        );
        check(
            "/bin/sh: 1: zstd: not found\nmake[1]: *** [x] Error 127\n",
            expect![[r#"
            /bin/sh: 1: zstd: not found
            -> it needs zstd (apt install zstd)
        "#]],
        );
        check(
            "/tmp/cc1.s: Fatal error: can't write 9 bytes: No space left on device\n",
            expect![[r#"
            /tmp/cc1.s: Fatal error: can't write 9 bytes: No space left on device
            -> the disk is full: free some space, or name another --scratch
        "#]],
        );
    }

    #[test]
    fn makes_own_words_are_errors_and_without_any_the_last_lines_are_told() {
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
