//! Futexes with all that the system call does to sleepers: bits, time-outs, requeues, and wake-ups without a cause.

use std::fs;
use std::sync::Arc;

use c_locks::compile;
use engines::checker::{Memory, Options, SearchResult, replay, search};
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::{CheckSize, Mutation, with_tasks};

const X86: Memory = Memory::TotalStoreOrder;

fn program(text: &str) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sleepers.c");
    fs::write(&file, text).unwrap();
    Subject::InC(Arc::new(compile(&Permitted::typed(file), &[]).unwrap()))
}

fn searched(program: &Subject, threads: usize, options: &Options) -> SearchResult {
    let size = CheckSize { threads, acquires: 1, locks: 1 };
    let found = with_tasks(program, size, Mutation::None, |setup| search(setup, options));
    let found = found.unwrap().unwrap();
    assert!(!found.gave_up, "{} states", found.states);
    found
}

fn word(found: &SearchResult) -> &'static str {
    found.failure.as_ref().map_or("holds", |failure| failure.fault.word())
}

/// What is said of a file if sleepers wake only by wake-ups, and if they also wake by themselves.
#[track_caller]
fn check(text: &str, threads: usize, memory: Memory, expected: [&str; 2]) {
    let program = program(text);
    let found = [false, true].map(|spurious_wakeups| {
        let options = Options { memory, spurious_wakeups, ..Options::default() };
        let found = searched(&program, threads, &options);
        println!("{threads} tasks, {memory:?}, {spurious_wakeups}: {} states", found.states);
        found
    });
    assert!(found[0].sleeps, "nobody sleeps");
    let said: Vec<String> = found
        .iter()
        .filter_map(|one| one.failure.as_ref())
        .map(|it| it.fault.to_string())
        .collect();
    assert_eq!([word(&found[0]), word(&found[1])], expected, "{memory:?}: {said:?}");
}

/// A task waits for what the other one says under a mutex, by this line.
fn condition(wait: &str) -> String {
    format!(
        "#include <assert.h>\n#include <knee_lock.h>\n#include <pthread.h>\n\
         struct shared {{ pthread_mutex_t mutex; pthread_cond_t ready; int said; }};\n\
         static void operate(struct shared *s) {{\n\
             pthread_mutex_lock(&s->mutex);\n\
             if (knee_cpu()) {{ {wait} assert(s->said); }}\n\
             else {{ s->said = 1; pthread_cond_broadcast(&s->ready); }}\n\
             pthread_mutex_unlock(&s->mutex);\n\
         }}\n\
         KNEE_OPERATION(struct shared, operate(shared))\n"
    )
}

#[test]
fn a_wait_without_a_loop_fails_where_a_sleeper_wakes_by_itself() {
    let once = condition("if (!s->said) pthread_cond_wait(&s->ready, &s->mutex);");
    let again = condition("while (!s->said) pthread_cond_wait(&s->ready, &s->mutex);");
    for memory in [X86, Memory::SequentiallyConsistent, Memory::Rc11] {
        check(&once, 2, memory, ["holds", "panic"]);
        check(&again, 2, memory, ["holds", "holds"]);
    }
    check(&once, 3, X86, ["holds", "panic"]);
    check(&again, 3, X86, ["holds", "holds"]);
}

#[test]
fn a_way_with_a_wake_up_without_a_cause_is_followed() {
    let program = program(&condition("if (!s->said) pthread_cond_wait(&s->ready, &s->mutex);"));
    let options = Options { memory: X86, spurious_wakeups: true, ..Options::default() };
    let failure = searched(&program, 2, &options).failure.unwrap();
    assert!(failure.schedule.to_string().contains('s'), "{}", failure.schedule);
    assert!(failure.steps.iter().any(|step| step.contains("without a wake-up")));
    let options = Options { spurious_wakeups: false, ..options };
    let size = CheckSize { threads: 2, acquires: 1, locks: 1 };
    let followed = with_tasks(&program, size, Mutation::None, |setup| {
        replay(setup, &options, &failure.schedule)
    });
    let followed = followed.unwrap().unwrap().unwrap();
    assert_eq!(followed.fault.map(|fault| fault.word()), Some("panic"));
}

/// A condition variable that wakes one waiter and lets the others queue for the mutex, of three states: free, held, with
/// sleepers. Whoever has slept takes it with sleepers.
fn requeues(broadcast: &str, relock: &str) -> String {
    format!(
        r"#include <assert.h>
#include <errno.h>
#include <knee_lock.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
struct shared {{ atomic_uint mutex, sequence; int said, seen; }};
static long futex(atomic_uint *word, int operation, unsigned value, uintptr_t other_value, atomic_uint *other, unsigned last)
{{
    return syscall(SYS_futex, word, operation, value, other_value, other, last);
}}
static void lock(atomic_uint *mutex, unsigned held)
{{
    unsigned old = 0;
    if (held == 1 && atomic_compare_exchange_strong(mutex, &old, 1)) return;
    while (atomic_exchange(mutex, 2)) futex(mutex, FUTEX_WAIT, 2, 0, 0, 0);
}}
static void unlock(atomic_uint *mutex)
{{
    if (atomic_exchange(mutex, 0) == 2) futex(mutex, FUTEX_WAKE, 1, 0, 0, 0);
}}
static void operate(struct shared *s)
{{
    lock(&s->mutex, 1);
    if (knee_cpu()) {{
        while (!s->said) {{
            unsigned sequence = s->sequence;
            unlock(&s->mutex);
            futex(&s->sequence, FUTEX_WAIT, sequence, 0, 0, 0);
            lock(&s->mutex, {relock});
        }}
        s->seen++;
        unlock(&s->mutex);
    }} else {{
        s->said = 1;
        s->sequence++;
        {broadcast}
        unlock(&s->mutex);
    }}
}}
KNEE_OPERATION(struct shared, operate(shared))
KNEE_CHECK(struct shared, shared->seen + 1 == (int)knee_operations())
"
    )
}

#[test]
fn sleepers_are_requeued() {
    let compares =
        "assert(futex(&s->sequence, FUTEX_CMP_REQUEUE, 1, 99, &s->mutex, s->sequence) >= 0);";
    let plain = "futex(&s->sequence, FUTEX_REQUEUE, 1, 99, &s->mutex, 0);";
    for broadcast in [compares, plain] {
        let text = requeues(broadcast, "2");
        check(&text, 2, X86, ["holds", "holds"]);
        check(&text, 3, X86, ["holds", "holds"]);
        check(&text, 2, Memory::Rc11, ["holds", "holds"]);
        check(&text, 2, Memory::Armv8, ["holds", "holds"]);
    }
    // Nobody wakes those who were moved, since the mutex does not say that it has sleepers.
    check(&requeues(compares, "1"), 3, X86, ["deadlock", "deadlock"]);
    let differs = "assert(futex(&s->sequence, FUTEX_CMP_REQUEUE, 1, 99, &s->mutex, 0) < 0 && errno == EAGAIN);
        futex(&s->sequence, FUTEX_WAKE, 99, 0, 0, 0);";
    check(&requeues(differs, "2"), 3, X86, ["holds", "holds"]);
    let one = "long woken = futex(&s->sequence, FUTEX_CMP_REQUEUE, 0, 1, &s->mutex, s->sequence);
        assert(woken >= 0 && woken <= 1);";
    check(&requeues(one, "2"), 3, X86, ["deadlock", "deadlock"]);
}

#[test]
fn a_signal_may_end_a_sleep_and_the_task_is_told() {
    let lock = |errors: &str| {
        format!(
            "#include <errno.h>\n#include <knee_lock.h>\n#include <linux/futex.h>\n#include <stdatomic.h>\n#include <stdlib.h>\n\
             #include <sys/syscall.h>\n#include <unistd.h>\nstruct lock {{ atomic_uint word; }};\n\
             static void take(struct lock *lock) {{\n\
                 while (atomic_exchange(&lock->word, 1))\n\
                     if (syscall(SYS_futex, &lock->word, FUTEX_WAIT, 1, 0, 0, 0) && {errors}) abort();\n\
             }}\n\
             static void release(struct lock *lock) {{\n\
                 lock->word = 0;\n\
                 syscall(SYS_futex, &lock->word, FUTEX_WAKE, 1, 0, 0, 0);\n\
             }}\n\
             KNEE_LOCK(struct lock, take(lock), release(lock))\n"
        )
    };
    let (one, both) = ("errno != EAGAIN", "errno != EAGAIN && errno != EINTR");
    for memory in [X86, Memory::Rc11, Memory::Armv8] {
        check(&lock(one), 2, memory, ["holds", "panic"]);
        check(&lock(both), 2, memory, ["holds", "holds"]);
    }
    let program = program(&lock(one));
    let options = Options { memory: X86, spurious_wakeups: true, ..Options::default() };
    let failure = searched(&program, 2, &options).failure.unwrap();
    assert!(failure.schedule.to_string().contains('e'), "{}", failure.schedule);
    assert!(failure.steps.iter().any(|step| step.contains("EINTR")), "{:?}", failure.steps);
}
