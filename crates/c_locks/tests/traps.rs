//! Files that would end knee, or never end: what is said of them instead.

use std::fs;
use std::sync::Arc;

use c_locks::compile;
use engines::checker::{Memory, Options, search};
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::{CheckSize, Mutation, with_tasks};

/// What a search of two tasks says of a file with these lines, whose tasks do this with what they share.
fn said(lines: &str, operate: &str, end: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nasty.c");
    let text = format!(
        "#include <assert.h>\n#include <knee_lock.h>\n#include <stdatomic.h>\n#include <stdlib.h>\n#include <string.h>\n\
         struct s {{ atomic_int a; int b; void *p; }};\n{lines}\nstatic void operate(struct s *s)\n{{\n{operate}\n}}\n\
         KNEE_OPERATION(struct s, operate(shared))\n{end}\n"
    );
    fs::write(&file, text).unwrap();
    let program = match compile(&Permitted::typed(file), &[]) {
        Ok(program) => Subject::InC(Arc::new(program)),
        Err(error) => return format!("{error:#}"),
    };
    let size = CheckSize { threads: 2, acquires: 1, locks: 1 };
    let options = Options { memory: Memory::TotalStoreOrder, ..Options::default() };
    match with_tasks(&program, size, Mutation::None, |setup| search(setup, &options)) {
        Ok(found) => {
            let found = found.unwrap();
            found.failure.map_or("holds".to_string(), |failure| failure.fault.to_string())
        }
        Err(error) => format!("{error:#}"),
    }
}

#[track_caller]
fn check(lines: &str, operate: &str, end: &str, words: &[&str]) {
    let said = said(lines, operate, end);
    for word in words {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

const ONE: &str = "if (knee_cpu()) return;\n";
/// A function that jumps to the next one, as if it returned there first.
const TAIL: &str = "__attribute__((noinline, optimize(\"optimize-sibling-calls\"))) static void go(void (*f)(struct s *), struct s *s) { f(s); }";

#[test]
fn what_the_processor_refuses_is_a_fault_with_its_line() {
    let divides = "int n = atomic_load(&s->a);\natomic_store(&s->a, 10 / (n - 10));\nif (n) atomic_store(&s->a, 10);";
    check("", divides, "", &["holds"]);
    check("", &divides.replace("(n - 10)", "n"), "", &["it divides by zero", "nasty.c:11"]);
    let least =
        "volatile int least = -2147483647 - 1;\ns->b = least / (atomic_fetch_add(&s->a, -1) - 1);";
    check("", &format!("{ONE}{least}"), "", &["the quotient has no room", "nasty.c:12"]);
    let check_divides = "KNEE_CHECK(struct s, 7 / (shared->a - 2))";
    check("", "atomic_fetch_add(&s->a, 1);", check_divides, &["it divides by zero", "nasty.c:13"]);
    let prepare_divides = "KNEE_PREPARE(struct s, lock->b = 7 / lock->b)";
    check("", "s->a = 1;", prepare_divides, &["KNEE_PREPARE fails: it divides by zero"]);
    let vector = "typedef int four __attribute__((vector_size(16)));";
    let moves = format!("{ONE}four *v = (four *)((char *)s->p + 4);\n*v = *v + 1;");
    let prepare = "KNEE_PREPARE(struct s, lock->p = aligned_alloc(64, 64))";
    check(vector, &moves, prepare, &["is not aligned as its type says", "nasty.c:12"]);
    check(
        "",
        &format!("{ONE}__asm__ volatile(\"mov $8, %rsp\");\ns->b = 1;"),
        "",
        &["where its stack should be"],
    );
}

#[test]
fn a_jump_to_no_code_is_a_fault_with_its_line() {
    let jumps = |to: &str| format!("{ONE}go((void (*)(struct s *)){to}, s);");
    check(TAIL, &jumps("s->p"), "", &["it jumps to 0x0, where no code is", "nasty.c:11"]);
    let data = "KNEE_PREPARE(struct s, lock->p = lock)";
    check(TAIL, &jumps("s->p"), data, &["it jumps to 0x", "where no code is", "nasty.c:11"]);
}

#[test]
fn a_stack_that_is_used_up_is_not_checked() {
    const WHY: &[&str] = &["need more than 64 KiB of stack", "leave recursion out"];
    let endless = "__attribute__((noinline)) static int down(volatile int *up) { volatile int here = *up + 1; return down(&here) + here; }";
    check(endless, "volatile int start = 0; s->b = down(&start);", "", WHY);
    let silent = "__attribute__((noinline)) static int down(int n) { int below = down(n + 1); return below ^ down(below); }";
    check(silent, &format!("{ONE}s->b = down(s->a);"), "", WHY);
    let large = "int n = 500000 + atomic_load(&s->a); char array[n]; memset(array, 1, n); s->a = array[n / 2] - 1;";
    check("", large, "", WHY);
    let bounded = "__attribute__((noinline)) static int down(struct s *s, int n) { if (!n) return 0; atomic_fetch_add(&s->a, 1); return down(s, n - 1) + 1; }";
    check(bounded, "assert(down(s, 3) == 3);", "KNEE_CHECK(struct s, shared->a == 6)", &["holds"]);
}

#[test]
fn what_no_search_has_is_refused_by_name() {
    for (lines, operate, words) in [
        (
            "#include <setjmp.h>\nstatic _Thread_local jmp_buf end;",
            "if (!setjmp(end)) longjmp(end, 1);",
            "no jumps from one function",
        ),
        (
            "#include <pthread.h>\nstatic void *run(void *p) { return p; }",
            "pthread_t t; pthread_create(&t, 0, run, s);",
            "the tasks of a check are its threads",
        ),
        ("#include <unistd.h>", "if (!fork()) _exit(0);", "which starts a process"),
        ("#include <signal.h>", "raise(SIGUSR1);", "a search has no signals"),
        (
            "__attribute__((noinline)) static void call(void (*f)(void)) { f(); }",
            "void inner(void) { atomic_fetch_add(&s->a, 1); } call(inner);",
            "a nested function",
        ),
    ] {
        check(lines, operate, "", &[words]);
    }
    let futex = |operation: &str| {
        let headers = "#include <linux/futex.h>\n#include <sys/syscall.h>\n#include <unistd.h>";
        let call = format!("syscall(SYS_futex, &s->a, {operation}, 1, 1, &s->b, 0);");
        check(headers, &call, "", &[operation, "wait and wake by those"]);
    };
    for operation in ["FUTEX_WAKE_OP", "FUTEX_LOCK_PI", "FUTEX_UNLOCK_PI", "FUTEX_TRYLOCK_PI"] {
        futex(operation);
    }
}

#[test]
fn a_weak_function_that_nobody_defines_has_no_address() {
    let maybe = "void maybe(void) __attribute__((weak));";
    let operate = "if (maybe) maybe();\natomic_fetch_add(&s->a, 1);";
    check(maybe, operate, "KNEE_CHECK(struct s, shared->a == 2)", &["holds"]);
    check(maybe, &operate.replace("if (maybe) ", ""), "", &["an instruction that traps"]);
}

#[test]
fn floating_point_numbers_are_values_as_others() {
    let lines = "static _Atomic double sum; static _Atomic float half; static long double own;";
    let operate = "double old = sum;\nwhile (!atomic_compare_exchange_weak(&sum, &old, old + 1.5));\nhalf += 0.25f;\n\
        if (!knee_cpu()) { own = own * 2 + 1; s->b = (int)own; }\nassert(sum >= 1.5 && half >= 0.25f);";
    check(lines, operate, "KNEE_CHECK(struct s, sum == 3 && shared->b == 1)", &["holds"]);
    check(lines, &operate.replace("sum >= 1.5", "sum == 1.5"), "", &["assertion failed"]);
}

/// The second loop has calls of hooks, the first has none.
#[test]
fn a_loop_that_never_comes_to_a_step_is_not_checked() {
    for endless in ["while (!s->b) ;", "for (volatile int i = 0;;) i++;"] {
        let operate = format!("{ONE}{endless}");
        check(
            "",
            &operate,
            "",
            &["goes on and on without an access", "an atomic or volatile variable"],
        );
    }
}

/// Each turn of the loop is another state: no search of all of them ends.
#[test]
fn an_interleaving_without_an_end_is_not_checked() {
    let counts = "for (long i = 0; ; i++) { atomic_store(&s->a, (int)i); s->p = (void *)i; }";
    check(
        "",
        &format!("{ONE}{counts}"),
        "",
        &["with more than 400000 steps", "give the loop an end"],
    );
}
