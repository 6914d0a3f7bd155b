//! What knee gives to files as they are: a heap, the objects of POSIX threads and of std, atomic accesses of 16 bytes, futexes by
//! the instruction for system calls.

use std::fs;
use std::sync::Arc;

use c_locks::compile;
use engines::checker::{Memory, Options, search};
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::{CheckSize, Mutation, with_tasks};

const X86: Memory = Memory::TotalStoreOrder;
const RC11: Memory = Memory::Rc11;

/// What a search of two tasks says of a file: `holds`, the fault, or why it is not checked.
fn said(name: &str, text: &str, memory: Memory) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    let program = match compile(&Permitted::typed(file), &[]) {
        Ok(program) => Subject::InC(Arc::new(program)),
        Err(error) => return format!("{error:#}"),
    };
    let size = CheckSize { threads: 2, acquires: 1, locks: 1 };
    let options = Options { memory, states_max: 500_000, ..Options::default() };
    let found = with_tasks(&program, size, Mutation::None, |setup| search(setup, &options));
    match found {
        Ok(found) => {
            let found = found.unwrap();
            assert!(!found.gave_up, "{} states", found.states);
            found.failure.map_or("holds".to_string(), |failure| failure.fault.to_string())
        }
        Err(error) => format!("{error:#}"),
    }
}

/// Each of these memories says something with this in it.
#[track_caller]
fn check(name: &str, text: &str, expected: &[(Memory, &str)]) {
    for (memory, words) in expected {
        let said = said(name, text, *memory);
        assert!(said.contains(words), "{memory:?}: '{words}' is not in: {said}");
    }
}

/// A file with these lines behind the headers, whose tasks do this with what they share.
fn operation(lines: &str, shared: &str, prepare: &str, operate: &str) -> String {
    format!(
        "#include <assert.h>\n#include <knee_lock.h>\n#include <pthread.h>\n#include <semaphore.h>\n#include <stdatomic.h>\n\
         #include <stdlib.h>\n{lines}\nstruct shared {{ {shared} }};\nstatic void operate(struct shared *s) {{ {operate} }}\n\
         static void prepare(struct shared *s) {{ {prepare} }}\nKNEE_OPERATION(struct shared, operate(shared))\n\
         KNEE_PREPARE(struct shared, prepare(shared))\n"
    )
}

#[test]
fn allocated_memory_is_part_of_what_is_searched() {
    let publishes = |order: &str| {
        operation(
            "struct box { int first; short second; };",
            "struct box *_Atomic box;",
            "(void)s;",
            &format!(
                "struct box *box;
                if (knee_cpu()) {{
                    if ((box = atomic_load_explicit(&s->box, memory_order_acquire)))
                        assert(box->first == 1 && box->second == 2);
                }} else {{
                    box = malloc(sizeof(*box));
                    box->first = 1;
                    box->second = 2;
                    atomic_store_explicit(&s->box, box, memory_order_{order});
                }}"
            ),
        )
    };
    check(
        "a.c",
        &publishes("release"),
        &[(X86, "holds"), (RC11, "holds"), (Memory::Armv8, "holds")],
    );
    check("a.c", &publishes("relaxed"), &[(RC11, "data race")]);
    let grows = operation(
        "",
        "int a;",
        "char *p = malloc(9000); p[8999] = 1; s->a = p[8999];",
        "assert(s->a);",
    );
    check("a.c", &grows, &[(X86, "holds")]);
    let fails = operation("", "int a;", "(void)s;", "s->a = *(int *)malloc(1 << 30);");
    check("a.c", &fails, &[(X86, "allocates more than a search keeps")]);
}

#[test]
fn memory_that_was_freed_is_no_longer_the_tasks() {
    let (unchanged, shared) = ("", "int *_Atomic p; atomic_int ready;");
    for (operate, words) in [
        (
            "int *p = s->p; if (!knee_cpu()) { free(p); s->ready = 1; } else if (s->ready) *p = 2;",
            "that was freed",
        ),
        ("free(s->p);", "it frees heap memory twice"),
        ("int a; free(&a + 4);", "which no allocation returned"),
        ("int *p = malloc(4); s->p = p; p[4] = 1;", "that is not allocated"),
        (
            "int *p = malloc(4), *again; free(p); again = malloc(4); assert(p == again); free(again); (void)s;",
            "holds",
        ),
    ] {
        let text = operation(unchanged, shared, "s->p = malloc(4);", operate);
        check("a.c", &text, &[(X86, words)]);
    }
}

/// What a task takes after it has freed another task's memory is that memory, and not its own that others have.
#[test]
fn memory_of_another_task_is_taken_again() {
    let operate = "int *mine = malloc(4), *its, *again;
        *mine = knee_cpu();
        atomic_store(&s->given[knee_cpu()], mine);
        while (!(its = atomic_load(&s->given[!knee_cpu()])));
        assert(*its == !knee_cpu());
        atomic_fetch_add(&s->seen, 1);
        while (atomic_load(&s->seen) < 2);
        free(its);
        again = malloc(4);
        assert(again == its);
        *again = 7;";
    let text = operation("", "int *_Atomic given[2]; atomic_int seen;", "(void)s;", operate);
    check("a.c", &text, &[(X86, "holds"), (RC11, "holds")]);
}

/// A stack whose nodes are freed by whoever pops them: the others still read them.
#[test]
fn a_stack_that_frees_its_nodes_is_wrong() {
    let text = operation(
        "struct node { struct node *_Atomic next; };",
        "struct node *_Atomic top;",
        "for (int i = 0; i < 2; i++) { struct node *n = malloc(sizeof(*n)); n->next = s->top; s->top = n; }",
        "struct node *top = s->top;
        while (top && !atomic_compare_exchange_strong(&s->top, &top, top->next)) ;
        free(top);",
    );
    let keeps = text.replace("free(top);", "");
    check("a.c", &keeps, &[(X86, "holds"), (RC11, "holds")]);
    for memory in [X86, RC11] {
        let said = said("a.c", &text, memory);
        assert!(
            said.contains("that was freed") || said.contains("data race"),
            "{memory:?}: {said}"
        );
    }
}

#[test]
fn mutexes_and_condition_variables_are_given() {
    let hands_over = |wait: &str, unlock: &str| {
        operation(
            "",
            "pthread_mutex_t mutex; pthread_cond_t cond; int ready;",
            "pthread_mutex_init(&s->mutex, NULL); pthread_cond_init(&s->cond, NULL);",
            &format!(
                "pthread_mutex_lock(&s->mutex);
                if (knee_cpu()) {{ {wait} assert(s->ready); }} else {{ s->ready = 1; pthread_cond_signal(&s->cond); }}
                {unlock}"
            ),
        )
    };
    let (waits, unlocks) = (
        "while (!s->ready) pthread_cond_wait(&s->cond, &s->mutex);",
        "pthread_mutex_unlock(&s->mutex);",
    );
    check("a.c", &hands_over(waits, unlocks), &[(X86, "holds"), (RC11, "holds")]);
    let always = "pthread_cond_wait(&s->cond, &s->mutex);";
    check("a.c", &hands_over(always, unlocks), &[(X86, "deadlock")]);
    check("a.c", &hands_over(waits, ""), &[(X86, "deadlock")]);
    let twice = "pthread_mutex_unlock(&s->mutex); pthread_mutex_unlock(&s->mutex);";
    check(
        "a.c",
        &hands_over("", twice).replace("assert(s->ready);", ""),
        &[(X86, "a mutex that it does not hold")],
    );
    let recursive = operation(
        "",
        "pthread_mutex_t mutex; int a;",
        "pthread_mutexattr_t attr; pthread_mutexattr_init(&attr); pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&s->mutex, &attr);",
        "pthread_mutex_lock(&s->mutex); pthread_mutex_lock(&s->mutex); s->a++;
        pthread_mutex_unlock(&s->mutex); s->a++; pthread_mutex_unlock(&s->mutex);",
    );
    check("a.c", &recursive, &[(X86, "holds"), (RC11, "holds")]);
    check(
        "a.c",
        &recursive.replace("PTHREAD_MUTEX_RECURSIVE", "PTHREAD_MUTEX_NORMAL"),
        &[(X86, "deadlock")],
    );
}

#[test]
fn semaphores_and_read_write_locks_are_given() {
    let semaphore = |post: &str| {
        let operate = format!("sem_wait(&s->sem); s->a++; {post}");
        operation("", "sem_t sem; int a;", "sem_init(&s->sem, 0, 1);", &operate)
    };
    check("a.c", &semaphore("sem_post(&s->sem);"), &[(X86, "holds"), (RC11, "holds")]);
    check("a.c", &semaphore(""), &[(X86, "deadlock")]);
    let rwlock = |how: &str| {
        let operate = format!(
            "if (knee_cpu()) {{ pthread_rwlock_{how}lock(&s->lock); s->a++; }}
            else {{ pthread_rwlock_rdlock(&s->lock); assert(s->a <= 1); }}
            pthread_rwlock_unlock(&s->lock);"
        );
        operation(
            "",
            "pthread_rwlock_t lock; int a;",
            "pthread_rwlock_init(&s->lock, NULL);",
            &operate,
        )
    };
    check("a.c", &rwlock("wr"), &[(X86, "holds"), (RC11, "holds")]);
    check("a.c", &rwlock("rd"), &[(X86, "data race")]);
    let once = operation(
        "static pthread_once_t once; static int made; static void make(void) { made++; }",
        "pthread_barrier_t barrier;",
        "pthread_barrier_init(&s->barrier, NULL, 2);",
        "pthread_once(&once, make); assert(made == 1); pthread_barrier_wait(&s->barrier);",
    );
    check("a.c", &once, &[(X86, "holds"), (RC11, "holds")]);
}

#[test]
fn files_in_cplusplus_have_new_and_the_locks_of_std() {
    let text = "#include <cassert>\n#include <condition_variable>\n#include <memory>\n#include <mutex>\n#include <stdexcept>\n\
        #include <vector>\n#include <knee_lock.h>\n\
        struct shared { std::mutex mutex; std::condition_variable cond; std::vector<int> items; };\n\
        static void operate(shared *s) {\n\
        \tif (knee_cpu()) { std::lock_guard<std::mutex> guard(s->mutex); s->items.push_back(7); NOTIFY return; }\n\
        \tstd::unique_lock<std::mutex> lock(s->mutex);\n\
        \ts->cond.wait(lock, [&] { return !s->items.empty(); });\n\
        \tauto item = std::make_unique<int>(s->items.back()); assert(*item == 7); THROW }\n\
        KNEE_OPERATION(shared, operate(shared))\nKNEE_PREPARE(shared, new (shared) struct shared)\n";
    let with = |notify: &str, throw: &str| text.replace("NOTIFY", notify).replace("THROW", throw);
    let notifies = "s->cond.notify_one();";
    check("a.cc", &with(notifies, ""), &[(X86, "holds"), (RC11, "holds")]);
    check("a.cc", &with("", ""), &[(X86, "deadlock")]);
    let throws = "if (s->items.size() == 1) throw std::runtime_error(\"one\");";
    check("a.cc", &with(notifies, throws), &[(X86, "it throws an exception")]);
    check("a.cc", &with(notifies, &throws.replace("== 1", "== 2")), &[(X86, "holds")]);
    let shares = "#include <cassert>\n#include <memory>\n#include <mutex>\n#include <knee_lock.h>\nstruct pair { int one, two; };\n\
        struct shared { std::mutex mutex; std::shared_ptr<pair> p; };\n\
        static void operate(shared *s) {\n\
        \tauto next = std::make_shared<pair>(pair{2, 2});\n\
        \tstd::unique_lock<std::mutex> lock(s->mutex);\n\
        \tif (knee_cpu()) s->p = next; else next = s->p;\n\
        \tlock.unlock();\n\
        \tassert(next->one == next->two);\n}\n\
        KNEE_OPERATION(shared, operate(shared))\n\
        KNEE_PREPARE(shared, (new (shared) struct shared)->p = std::make_shared<pair>(pair{1, 1}))\n";
    check("a.cc", shares, &[(X86, "holds"), (RC11, "holds")]);
    let plain = shares.replace("lock(s->mutex)", "lock(s->mutex, std::defer_lock)");
    let plain = plain.replace("lock.unlock();", "");
    check("a.cc", &plain, &[(X86, "data race")]);
}

#[test]
fn atomic_accesses_of_16_bytes_are_searched_on_x86() {
    let text = operation(
        "struct head { unsigned long tag; long value; };",
        "_Alignas(16) _Atomic struct head head; atomic_int both;",
        "(void)s;",
        "struct head new, old = atomic_load(&s->head);
        do {
            assert(old.tag == (unsigned long)old.value);
            new.tag = old.tag + 1;
            new.value = old.value + 1;
        } while (!atomic_compare_exchange_strong(&s->head, &old, new));
        if (s->both++) assert(atomic_load(&s->head).value == 2);",
    );
    check("a.c", &text, &[(X86, "holds"), (RC11, "16 bytes is searched on x86 alone")]);
    let by_hand = operation(
        "struct head { unsigned long tag, value; };
        static int change(struct head *head, struct head *old, struct head new)
        {
            char same;
            __asm__ volatile(\"lock; cmpxchg16b %1; sete %0\"
                : \"=q\"(same), \"+m\"(*head), \"+a\"(old->tag), \"+d\"(old->value) : \"b\"(new.tag), \"c\"(new.value) : \"memory\", \"cc\");
            return same;
        }",
        "_Alignas(16) struct head head; atomic_int both;",
        "(void)s;",
        "struct head new, old = { 0, 0 };
        do {
            assert(old.tag == old.value);
            new.tag = old.tag + 1;
            new.value = old.value + 1;
        } while (!change(&s->head, &old, new));
        assert(s->both++ == 0 || old.tag == 1 || new.tag == 1);",
    );
    check("a.c", &by_hand, &[(X86, "holds"), (RC11, "16 bytes is searched on x86 alone")]);
    let half = text.replace("(void)s;", "").replace(
        "if (s->both++)",
        "__atomic_store_n((long *)&s->head, 0, __ATOMIC_SEQ_CST); if (s->both++)",
    );
    check("a.c", &half, &[(X86, "a part of what others access with 16 bytes")]);
}

/// A spin of a thousand tries before a task sleeps, and a backoff that grows.
#[test]
fn loops_that_count_their_tries_are_searched() {
    let lock = |take: &str, wake: &str| {
        format!(
            "#include <knee_lock.h>\nstruct lock {{ int word; }};
            static void take(struct lock *lock) {{ {take} }}
            static void release(struct lock *lock)
            {{
                __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE); {wake}
            }}
            KNEE_LOCK(struct lock, take(lock), release(lock))\n"
        )
    };
    let spins = |order: &str| {
        format!(
            "for (;;) {{
                for (int tries = 0; tries < 1000; tries++)
                    if (!__atomic_load_n(&lock->word, __ATOMIC_RELAXED) && !__atomic_exchange_n(&lock->word, 1, {order}))
                        return;
                knee_park(&lock->word, 1);
            }}"
        )
    };
    let (spins, relaxed) = (spins("__ATOMIC_ACQUIRE"), spins("__ATOMIC_RELAXED"));
    let (all, wakes) = ([X86, RC11, Memory::Armv8, Memory::Lkmm], "knee_wake(&lock->word, 1);");
    check("a.c", &lock(&spins, wakes), &all.map(|memory| (memory, "holds")));
    check("a.c", &lock(&spins, ""), &all.map(|memory| (memory, "deadlock")));
    check(
        "a.c",
        &lock(&relaxed, wakes),
        &all[1..].iter().map(|memory| (*memory, "data race")).collect::<Vec<_>>(),
    );
    let backs_off =
        "for (unsigned int pause = 0; __atomic_exchange_n(&lock->word, 1, __ATOMIC_ACQUIRE);) {
            pause = (pause + pause / 4 + 1) & 0x1ffff;
            for (volatile unsigned int i = 0; i < pause % 64; i++) ;
        }";
    check("a.c", &lock(backs_off, ""), &[(X86, "holds"), (RC11, "holds")]);
}

#[test]
fn a_futex_by_the_instruction_for_system_calls_is_seen() {
    let lock = |wake: &str| {
        format!(
            "#include <knee_lock.h>
            static long futex(void *word, long operation, long value)
            {{
                register long timeout __asm__(\"r10\") = 0;
                long result;
                __asm__ volatile(\"syscall\" : \"=a\"(result) : \"a\"(202L), \"D\"(word), \"S\"(operation), \"d\"(value), \"r\"(timeout)
                    : \"rcx\", \"r11\", \"memory\");
                return result;
            }}
            struct lock {{ int word; }};
            static void take(struct lock *lock)
            {{
                while (__atomic_exchange_n(&lock->word, 1, __ATOMIC_ACQUIRE)) futex(&lock->word, 128, 1);
            }}
            static void release(struct lock *lock)
            {{
                __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE); {wake}
            }}
            KNEE_LOCK(struct lock, take(lock), release(lock))\n"
        )
    };
    check("a.c", &lock("futex(&lock->word, 129, 1);"), &[(X86, "holds"), (RC11, "holds")]);
    check("a.c", &lock(""), &[(X86, "deadlock")]);
}

/// Words are as small as the accesses to them, where loads may read old values.
#[test]
fn what_is_copied_by_bytes_is_searched_by_bytes() {
    let text = |fence: &str| {
        operation(
            "static void copy(char *to, const char *from)
            {
                for (int i = 0; i < 2; i++)
                    __atomic_store_n(to + i, __atomic_load_n(from + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
            }",
            "atomic_uint sequence; short value;",
            "(void)s;",
            &format!(
                "short value = 0x0101;
                if (!knee_cpu()) {{
                    atomic_store_explicit(&s->sequence, 1, memory_order_relaxed);
                    {fence}
                    copy((char *)&s->value, (char *)&value);
                    atomic_store_explicit(&s->sequence, 2, memory_order_release);
                    return;
                }}
                unsigned int before = atomic_load_explicit(&s->sequence, memory_order_acquire);
                copy((char *)&value, (char *)&s->value);
                atomic_thread_fence(memory_order_acquire);
                if (before % 2 == 0 && atomic_load_explicit(&s->sequence, memory_order_relaxed) == before)
                    assert(value == 0 || value == 0x0101);"
            ),
        )
    };
    let fence = "atomic_thread_fence(memory_order_release);";
    check("a.c", &text(fence), &[(X86, "holds"), (RC11, "holds"), (Memory::Armv8, "holds")]);
    check(
        "a.c",
        &text(""),
        &[(X86, "holds"), (RC11, "assertion failed"), (Memory::Armv8, "assertion failed")],
    );
}

#[test]
fn variables_with_constructors_are_made_before_tasks_begin() {
    let text = |object: &str| {
        format!(
            "#include <cassert>\n#include <iostream>\n#include <knee_lock.h>\nstatic int seven() {{ return 7; }}\n\
             struct shared {{ int a; }};\n{object}\nKNEE_OPERATION(shared, assert(made == 7))\n"
        )
    };
    check("a.cc", &text("static int made = seven();"), &[(X86, "holds")]);
    let other = "static int made = 7;\nextern int elsewhere(); static int unused = elsewhere();";
    check("a.cc", &text(other), &[(X86, "holds")]);
    let in_c = operation(
        "static int made; __attribute__((constructor)) static void make(void) { made = 7; }",
        "int a;",
        "assert(made == 7); s->a = made;",
        "assert(s->a == 7);",
    );
    check("a.c", &in_c, &[(X86, "holds")]);
}

/// A round of several loads that is tried a thousand times: it ends as it should, also when it gives up.
#[test]
fn rounds_of_several_loads_are_searched_to_the_last_one() {
    let queue = |at_end: &str| {
        operation(
            "",
            "atomic_uint head, tail, full;",
            "(void)s;",
            &format!(
                "unsigned tries;
                for (tries = 0; tries < 1000; tries++) {{
                    unsigned head = atomic_load(&s->head), tail = atomic_load(&s->tail);
                    if (head == tail && !atomic_load(&s->full)) {{
                        if (atomic_compare_exchange_strong(&s->head, &head, head + 1)) break;
                    }}
                }}
                if (tries == 1000) {{ {at_end} }}
                atomic_store(&s->full, 1);
                atomic_store(&s->tail, atomic_load(&s->head));
                atomic_store(&s->full, 0);"
            ),
        )
    };
    check("a.c", &queue("return;"), &[(X86, "holds"), (Memory::SequentiallyConsistent, "holds")]);
    // It gives up only after the last round.
    check("a.c", &queue("assert(0);"), &[(X86, "assertion failed")]);
    check("a.c", &queue("assert(tries < 1000);"), &[(X86, "assertion failed")]);
}

/// A condition variable whose memory is freed as soon as its only waiter is signalled, and taken again for another one.
#[test]
fn a_condition_variable_may_go_once_its_waiters_are_signalled() {
    let text = operation(
        "struct waiter { pthread_cond_t cond; int said; };",
        "pthread_mutex_t mutex; struct waiter *waits; int done;",
        "pthread_mutex_init(&s->mutex, NULL);",
        "struct waiter *mine;
        pthread_mutex_lock(&s->mutex);
        if (knee_cpu()) {
            mine = s->waits = malloc(sizeof(*mine));
            pthread_cond_init(&mine->cond, NULL);
            while (!s->done) pthread_cond_wait(&mine->cond, &s->mutex);
        } else {
            s->done = 1;
            if ((mine = s->waits)) {
                pthread_cond_signal(&mine->cond);
                pthread_cond_destroy(&mine->cond);
                free(mine);
                mine = malloc(sizeof(*mine));
                pthread_cond_init(&mine->cond, NULL);
            }
        }
        pthread_mutex_unlock(&s->mutex);",
    );
    check("a.c", &text, &[(X86, "holds"), (RC11, "holds")]);
    let unsignalled = text.replace("pthread_cond_signal(&mine->cond);", "");
    check("a.c", &unsignalled, &[(X86, "deadlock")]);
}

/// Loops that wait by sequentially consistent accesses, beside plain ones, and by compare-exchanges that are relaxed where they fail.
#[test]
fn spins_are_waits_under_each_model() {
    let lock = |own: &str, take: &str, release: &str| {
        format!(
            "#include <knee_lock.h>\n#include <stdatomic.h>\nstruct lock {{ atomic_int next, serving; }};\n{own}\n\
             static void take(struct lock *lock) {{ {take} }}\n\
             KNEE_LOCK(struct lock, take(lock), {release})\n"
        )
    };
    let models = [X86, RC11, Memory::Armv8];
    let ticket = lock(
        "static _Thread_local int mine;",
        "mine = atomic_fetch_add(&lock->next, 1); while (atomic_load(&lock->serving) != mine) ;",
        "atomic_fetch_add(&lock->serving, 1)",
    );
    check("a.c", &ticket, &models.map(|memory| (memory, "holds")));
    let exchanges = |success: &str| {
        let take = format!(
            "int free = 0;
            while (!atomic_compare_exchange_weak_explicit(&lock->next, &free, 1, memory_order_{success}, memory_order_relaxed))
                free = 0;"
        );
        lock("", &take, "atomic_store_explicit(&lock->next, 0, memory_order_release)")
    };
    check("a.c", &exchanges("acquire"), &models.map(|memory| (memory, "holds")));
    check("a.c", &exchanges("acquire"), &[(Memory::Lkmm, "holds")]);
    check("a.c", &exchanges("relaxed"), &models.map(|memory| (memory, "data race")));
}
