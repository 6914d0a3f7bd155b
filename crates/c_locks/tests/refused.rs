//! Files that are no lock that can be checked: what is said about them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use c_locks::compile;
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::{CheckSize, Mutation, with_tasks};

/// Compiles a text, which is refused with these words.
fn check(text: &str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my_lock.c");
    fs::write(&file, text).unwrap();
    let error = compile(&Permitted::typed(file.clone()), &[]).expect_err(text);
    let said = format!("{error:#}");
    for word in words {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

fn compiled(file: &Path) -> Subject {
    Subject::InC(Arc::new(compile(&Permitted::typed(file.to_path_buf()), &[]).unwrap()))
}

/// Starts this many tasks.
fn start(subject: &Subject, threads: usize) -> anyhow::Result<()> {
    let size = CheckSize { threads, acquires: 1, locks: 1 };
    with_tasks(subject, size, Mutation::None, |_| ())
}

const LOCK: &str = "\nKNEE_LOCK(struct my_lock, my_lock(lock), my_unlock(lock))\n";

fn lock(body: &str) -> String {
    let start = "#include <knee_lock.h>\n#include <stdatomic.h>\n#include <stdlib.h>\nstruct my_lock { atomic_int word; };\n";
    format!(
        "{start}static void my_unlock(struct my_lock *lock) {{ lock->word = 0; }}\n{body}{LOCK}"
    )
}

#[test]
fn a_file_without_a_lock_is_refused_with_what_to_add() {
    check("int main(void) { return 0; }\n", &["my_lock.c", "it defines no lock", "KNEE_LOCK("]);
}

#[test]
fn a_function_of_elsewhere_is_refused_with_its_line() {
    let body = "long elsewhere(void);\nstatic void my_lock(struct my_lock *lock)\n{\n\tlock->word = elsewhere();\n}";
    check(&lock(body), &["line 9: it calls elsewhere", "include its source"]);
}

#[test]
fn inline_assembly_that_no_machine_has_is_refused_with_its_line() {
    let body = "static void my_lock(struct my_lock *lock)\n{\n\t__asm__ volatile(\"lock; rcll $1, %0\" : \"+m\"(lock->word));\n}";
    check(&lock(body), &["my_lock.c:8: inline assembly: lock; rcll", "<stdatomic.h>"]);
}

#[test]
fn what_the_lock_does_not_call_is_not_refused() {
    let body = "#include <stdio.h>\nvoid other(struct my_lock *lock)\n{\n\t__asm__ volatile(\"lock; rcll $1, %0\" : \"+m\"(lock->word));\n\
        \tfree(malloc(8)); __atomic_fetch_nand(&lock->word, 1, 5); fopen(\"a\", \"b\");\n}\n\
        static void my_lock(struct my_lock *lock)\n{\n\twhile (atomic_exchange(&lock->word, 1)) ;\n}";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my_lock.c");
    fs::write(&file, lock(body)).unwrap();
    start(&compiled(&file), 2).unwrap();
}

#[test]
fn half_of_a_read_write_lock_and_two_kinds_at_once_are_refused() {
    let start = "#include <knee_lock.h>\nstruct s { int a; };\n";
    let read = "KNEE_READ_LOCK(struct s, (void)0, (void)0)\n";
    check(&format!("{start}{read}"), &["KNEE_READ_LOCK alone"]);
    let both = "KNEE_LOCK(struct s, (void)0, (void)0)\nKNEE_OPERATION(struct s, (void)0)\n";
    check(&format!("{start}{both}"), &["a lock and a data structure"]);
}

#[test]
fn what_the_compiler_says_is_shown() {
    check(
        &lock("static void my_lock(struct my_lock *lock) { lock->wort = 1; }"),
        &["wort", "my_lock.c"],
    );
}

#[test]
fn large_memory_is_refused() {
    let body =
        "int table[100000];\nstatic void my_lock(struct my_lock *lock) { table[lock->word] = 1; }";
    check(&lock(body), &["has more than 16384 words"]);
    let body = "struct big { char bytes[9000]; };\n#include <knee_lock.h>\nKNEE_LOCK(struct big, (void)0, (void)0)\n";
    check(body, &["the lock has 9000 bytes", "static variables"]);
}

#[test]
fn an_operation_that_no_machine_has_is_refused() {
    let body =
        "static void my_lock(struct my_lock *lock) { __atomic_fetch_nand(&lock->word, 1, 5); }";
    check(&lock(body), &["no machine of knee has: __tsan_atomic32_fetch_nand"]);
}

#[test]
fn variables_of_all_tasks_that_no_search_tells_apart_are_refused() {
    let body = "static _Thread_local char own[4096];\nstatic char all[4096];\n\
        static void my_lock(struct my_lock *lock)\n{\n\town[lock->word & 1]++; all[lock->word & 1]++;\n}";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my_lock.c");
    fs::write(&file, lock(body)).unwrap();
    let subject = compiled(&file);
    start(&subject, 2).unwrap();
    let why = start(&subject, 15).unwrap_err().to_string();
    assert!(why.contains("15 tasks with 4096 thread-local words each"), "{why}");
}

/// What a first state lacks is no panic of knee, of a lock and of a data structure alike.
#[test]
fn a_first_state_that_fails_is_refused_with_its_line() {
    let start = "#include <knee_lock.h>\n#include <assert.h>\nstatic _Thread_local int own;\nstruct s { int a; };\n";
    for end in ["KNEE_LOCK(struct s, (void)0, (void)0)\n", "KNEE_OPERATION(struct s, (void)0)\n"] {
        let said = |prepare: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("my_lock.c");
            let prepare = format!("KNEE_PREPARE(struct s, {prepare})\n");
            fs::write(&file, format!("{start}{prepare}{end}")).unwrap();
            start_of(&file)
        };
        let why = said("*(int *)knee_of_cpu(&own, 2) = 1").unwrap_err();
        assert!(why.contains("there is no CPU 2, only 2, at my_lock.c:5"), "{why}");
        let why = said("assert(lock->a)").unwrap_err();
        assert!(why.contains("KNEE_PREPARE fails: assertion failed: lock->a"), "{why}");
        let all = "for (int i = 0; i < knee_cpus(); i++) *(int *)knee_of_cpu(&own, i) = 1";
        said(all).unwrap();
    }
}

fn start_of(file: &Path) -> Result<(), String> {
    start(&compiled(file), 2).map_err(|error| format!("{error:#}"))
}
