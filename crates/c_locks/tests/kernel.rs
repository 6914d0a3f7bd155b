//! What files of the kernel are made of, in small files of our own: waiters on stacks, wake queues, grace periods, time-outs.
//! Then files of kernel trees as they are, where a tree is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use c_locks::compile;
use described_hosts::Draw;
use engines::Unsupported;
use engines::checker::{Memory, Options, SearchResult, search};
use engines::simulated::NS;
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::mutants::{Fate, judge};
use studies::checks::{CheckSize, Mutation, with_tasks};
use studies::simulations::{Conditions, LockLoad, OneDraw, draw};

fn subject(file: &Path, flags: &[&str]) -> anyhow::Result<Subject> {
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    Ok(Subject::InC(Arc::new(compile(&Permitted::typed(file.to_path_buf()), &flags)?)))
}

fn own(name: &str, flags: &[&str]) -> Subject {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel").join(name);
    subject(&file, flags).unwrap_or_else(|error| panic!("{error:#}"))
}

fn searched(subject: &Subject, (threads, acquires): (usize, u32), memory: Memory) -> SearchResult {
    let size = CheckSize { threads, acquires, locks: 1 };
    let options = Options { memory, states_max: 3_000_000, ..Options::default() };
    with_tasks(subject, size, Mutation::None, |setup| search(setup, &options)).unwrap().unwrap()
}

/// Searches with store buffers; the fault, or nothing.
fn fault(subject: &Subject, size: (usize, u32)) -> Option<String> {
    let found = searched(subject, size, Memory::TotalStoreOrder);
    assert!(!found.gave_up, "{size:?}: gave up at {} states", found.states);
    println!("{subject:?} {size:?}: {} states", found.states);
    found.failure.map(|failure| format!("{}\n{}", failure.fault, failure.steps.join("\n")))
}

/// The file holds for these tasks; with each flag a fault is found whose message has these words.
fn check(name: &str, sizes: &[(usize, u32)], faults: &[(&str, &str)]) {
    for &size in sizes {
        assert_eq!(fault(&own(name, &[]), size), None, "{name} {size:?}");
    }
    for (flag, words) in faults {
        let found = sizes.iter().find_map(|size| fault(&own(name, &[flag]), *size));
        let found = found.unwrap_or_else(|| panic!("{name} {flag}: no fault"));
        assert!(found.contains(words), "{name} {flag}: '{words}' is not in {found}");
    }
}

#[test]
fn a_node_on_the_stack_of_its_task_is_seen_by_others() {
    check(
        "stack_mcs.c",
        &[(2, 2), (3, 1)],
        &[("-DRELAXED", "data race"), ("-DLATE", "no local variable there any more")],
    );
}

#[test]
fn a_waiter_on_a_stack_is_woken_through_a_wake_queue() {
    let sizes = [(2, 1), (3, 1)];
    let faults = [("-DNO_WAKE", "deadlock"), ("-DLATE", "stack[")];
    check("waiter.c", &sizes, &faults);
}

#[test]
fn the_words_of_a_local_variable_have_its_name() {
    let found = searched(&own("waiter.c", &["-DNO_WAKE"]), (2, 1), Memory::TotalStoreOrder);
    let failure = found.failure.unwrap();
    let steps = failure.steps.join("\n");
    for part in ["waiter.task", "stack[1].waiter.up = 0"] {
        assert!(steps.contains(part), "no '{part}' in {steps}");
    }
}

#[test]
fn wait_queues_wake_whoever_waits() {
    check("wait_queue.c", &[(2, 1), (3, 1)], &[("-DNO_WAKE", "deadlock")]);
    assert_eq!(fault(&own("wait_queue.c", &["-DCOMPLETION"]), (3, 1)), None);
}

#[test]
fn a_grace_period_waits_for_readers() {
    check("grace_period.c", &[(2, 1), (3, 1)], &[("-DNO_GRACE", "data race")]);
}

#[test]
fn a_time_out_and_a_signal_may_come_at_any_moment() {
    check("time_out.c", &[(2, 1)], &[("-DLOST", "assertion failed")]);
}

#[test]
fn per_cpu_variables_can_be_allocated_and_summed_up() {
    check("per_cpu_counter.c", &[(2, 1), (3, 1)], &[("-DSHARED", "KNEE_CHECK is false")]);
}

#[test]
fn an_accepted_race_is_none() {
    check("once.c", &[(2, 2), (3, 1)], &[("-DREFUSED", "data race")]);
}

#[test]
fn a_lock_that_looks_at_the_slots_of_all_tasks_is_checked_mutated_and_simulated() {
    check("bravo.c", &[(2, 2), (3, 1)], &[("-DLOOK_ONCE", "race")]);
    let bravo = own("bravo.c", &[]);
    let judged = judge(&bravo).unwrap();
    let caught = judged.iter().filter(|mutant| matches!(mutant.fate, Fate::Caught(_))).count();
    assert!(judged.len() >= 40 && caught >= 30, "{caught} of {}", judged.len());
    // All others are listed in the file with a reason, so none is searched in many sizes.
    let survived = judged.iter().filter(|mutant| matches!(mutant.fate, Fate::Survived));
    let survived: Vec<_> = survived.map(|one| (one.mutant.change, &one.line)).collect();
    assert!(survived.is_empty(), "{survived:?}");
    let host = described_hosts::find("uma-2").unwrap();
    let (load, conditions) =
        (LockLoad::steady(500, 100, 90), Conditions::new(&host, 1, 100_000 * NS));
    let once = OneDraw { load, conditions: &conditions, draw: Draw::Middle, cpus: 2, tasks: 2 };
    let curve = draw(&bravo, &once);
    assert!(curve.is_ok(), "{:#}", curve.err().unwrap());
}

/// A tree with headers and files of our own, under the names of the kernel's.
fn small_tree(folder: &Path) -> PathBuf {
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    };
    write("include/linux/compiler_types.h", "");
    write(
        "include/linux/semaphore.h",
        "struct semaphore { raw_spinlock_t lock; unsigned int count; struct list_head wait_list; };\n\
         static inline void sema_init(struct semaphore *sem, int count)\n\
         { sem->count = count; INIT_LIST_HEAD(&sem->wait_list); }\n",
    );
    write(
        "kernel/locking/semaphore.c",
        "#include <linux/semaphore.h>\n#include <linux/sched.h>\n\
         static void __down_common(struct semaphore *sem)\n\
         { while (!cmpxchg_acquire(&sem->count, 1, 0)) cpu_relax(); }\n\
         void down(struct semaphore *sem) { __down_common(sem); }\n\
         void up(struct semaphore *sem) { smp_store_release(&sem->count, 1); }\n",
    )
}

#[test]
fn a_file_of_a_kernel_tree_says_by_its_name_what_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = small_tree(folder.path());
    assert_eq!(fault(&subject(&file, &[]).unwrap(), (3, 1)), None);
    // A changed copy elsewhere, with the headers of the tree.
    let copy = tempfile::tempdir().unwrap();
    let changed = copy.path().join("semaphore.c");
    let text = fs::read_to_string(&file).unwrap().replace("smp_store_release(&", "WRITE_ONCE(");
    fs::write(&changed, text).unwrap();
    let refused = subject(&changed, &[]).unwrap_err();
    assert!(format!("{refused:#}").contains("-I linux/include"), "{refused:#}");
    assert!(refused.downcast_ref::<Unsupported>().is_some());
    let include = folder.path().join("include").display().to_string();
    let found = fault(&subject(&changed, &["-I", &include]).unwrap(), (2, 1)).unwrap();
    assert!(found.contains("needs release order"), "{found}");
    // A file that says itself what to check is no file of the kernel.
    fs::write(
        &changed,
        "#include <knee_lock.h>\nKNEE_LOCK(int, (void)\"__down_common\", (void)0)\n",
    )
    .unwrap();
    assert!(fault(&subject(&changed, &[]).unwrap(), (2, 1)).is_some());
    let rtmutex = copy.path().join("rtmutex.c");
    fs::write(&rtmutex, "int rt_mutex_adjust_prio_chain;").unwrap();
    let refused = format!("{:#}", subject(&rtmutex, &[]).unwrap_err());
    assert!(refused.contains("not checked") && refused.contains("priorities"), "{refused}");
}

/// A file of the kernel, a text in it, what stands there instead, and words of the fault that this makes.
struct Planted {
    path: &'static str,
    text: &'static str,
    change: &'static str,
    words: &'static str,
}

const PLANTED: &[Planted] = &[
    Planted {
        path: "kernel/locking/mutex.c",
        text: "__mutex_set_flag(lock, MUTEX_FLAG_WAITERS);",
        change: ";",
        words: "deadlock",
    },
    Planted {
        path: "kernel/locking/rwsem.c",
        text: "adjustment += RWSEM_FLAG_WAITERS;",
        change: ";",
        words: "the lock is still in use",
    },
    Planted {
        path: "kernel/locking/semaphore.c",
        text: "waiter->up = true;",
        change: ";",
        words: "deadlock",
    },
    Planted {
        path: "kernel/locking/percpu-rwsem.c",
        text: "atomic_set_release(&sem->block, 0);",
        change: "atomic_set(&sem->block, 0);",
        words: "data race",
    },
    Planted {
        path: "lib/lockref.c",
        text: "if (old.count < 0)",
        change: "if (0)",
        words: "dead object",
    },
    Planted {
        path: "lib/llist.c",
        text: "try_cmpxchg(&head->first, &first, new_first)",
        change: "try_cmpxchg_relaxed(&head->first, &first, new_first)",
        words: "data race",
    },
    Planted {
        path: "include/linux/seqlock.h",
        text: "return unlikely(READ_ONCE(s->sequence) != start);",
        change: "return 0;",
        words: "a reader of a seqlock",
    },
    Planted {
        path: "include/linux/bit_spinlock.h",
        text: "clear_bit_unlock(bitnum, addr);",
        change: "clear_bit(bitnum, addr);",
        words: "data race",
    },
];

/// Unpacked trees: what KNEE_KERNEL_TREES names, with colons between, and those in /usr/src.
fn trees() -> Vec<PathBuf> {
    let named = std::env::var("KNEE_KERNEL_TREES").unwrap_or_default();
    let named = named.split(':').filter(|path| !path.is_empty()).map(PathBuf::from);
    let installed = fs::read_dir("/usr/src").into_iter().flatten().flatten();
    let all = named.chain(installed.map(|entry| entry.path()));
    all.filter(|tree| tree.join("kernel/locking/rwsem.c").is_file()).collect()
}

/// Under the kernel's model until Linux 6.2 it hangs, which takes minutes to find: docs/lab/gallery.md.
#[test]
fn tasks_that_queue_behind_a_pending_one_end_on_x86() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/queued_behind_pending.c");
    for tree in trees() {
        let includes = [tree.clone(), tree.join("include")];
        let includes = includes.map(|folder| format!("-I{}", folder.display()));
        let flags = [&includes[0], &includes[1], "-DCONFIG_NR_CPUS=16384"];
        assert_eq!(fault(&subject(&file, &flags).unwrap(), (3, 1)), None, "{}", tree.display());
    }
}

#[test]
fn files_of_a_kernel_tree_hold_and_changed_ones_do_not() {
    let trees = trees();
    if trees.is_empty() {
        eprintln!(
            "skipped: no kernel tree; install linux-source, unpack it, and name it by KNEE_KERNEL_TREES"
        );
    }
    for tree in trees {
        let folder = tempfile::tempdir().unwrap();
        let include = format!("-I{}", tree.join("include").display());
        for Planted { path, text, change, words } in PLANTED {
            let file = tree.join(path);
            assert_eq!(fault(&subject(&file, &[]).unwrap(), (2, 1)), None, "{}", file.display());
            let original = fs::read_to_string(&file).unwrap();
            assert!(original.contains(text), "{} has no {text}", file.display());
            let copy = folder.path().join(file.file_name().unwrap());
            fs::write(&copy, original.replace(text, change)).unwrap();
            let found = fault(&subject(&copy, &[&include]).unwrap(), (2, 1));
            let found = found.unwrap_or_else(|| panic!("{path}, {change}: no fault"));
            assert!(found.contains(words), "{path}: '{words}' is not in {found}");
        }
    }
}
