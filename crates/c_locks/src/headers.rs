//! The headers that a lock in C may include and that knee provides: its own, and all of the kernel's that stand for them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The header that says which functions are the lock's.
pub const HEADER: &str = include_str!("../c/knee_lock.h");
/// The header with the kernel's words.
pub const KERNEL_HEADER: &str = include_str!("../c/knee_kernel.h");
/// Its second part: tasks that sleep.
pub const KERNEL_TASKS_HEADER: &str = include_str!("../c/knee_kernel_tasks.h");

/// Objects of the C library, for files that call them.
pub const GIVEN_HEADER: &str = include_str!("../c/knee_given.h");

/// The names of knee's own headers.
const OWN: [&str; 4] = ["knee_lock.h", "knee_kernel.h", "knee_kernel_tasks.h", "knee_given.h"];

/// What the name of a function of the C library has before it where knee gives it.
pub const GIVEN: &str = "knee_given_";

/// Whether knee gives this function of the C library.
pub fn is_given(symbol: &str) -> bool {
    let mut rest = GIVEN_HEADER.split(GIVEN).skip(1);
    rest.any(|text| text.strip_prefix(symbol).is_some_and(|after| after.starts_with(['(', ' '])))
}

/// Headers of the kernel that the files of its locks include: all stand for knee's.
const KERNEL_INCLUDES: &[&str] = &[
    "asm/barrier.h",
    "asm/bitops.h",
    "asm/byteorder.h",
    "asm/current.h",
    "asm/processor.h",
    "generated/bounds.h",
    "linux/atomic.h",
    "linux/bitops.h",
    "linux/bits.h",
    "linux/bug.h",
    "linux/build_bug.h",
    "linux/cache.h",
    "linux/cleanup.h",
    "linux/compiler.h",
    "linux/completion.h",
    "linux/container_of.h",
    "linux/cpumask.h",
    "linux/debug_locks.h",
    "linux/delay.h",
    "linux/err.h",
    "linux/export.h",
    "linux/ftrace.h",
    "linux/hardirq.h",
    "linux/init.h",
    "linux/instrumented.h",
    "linux/interrupt.h",
    "linux/irqflags.h",
    "linux/jiffies.h",
    "linux/kcsan-checks.h",
    "linux/kernel.h",
    "linux/ktime.h",
    "linux/linkage.h",
    "linux/list.h",
    "linux/lockdep.h",
    "linux/lockdep_types.h",
    "linux/log2.h",
    "linux/math.h",
    "linux/minmax.h",
    "linux/module.h",
    "linux/percpu.h",
    "linux/preempt.h",
    "linux/prefetch.h",
    "linux/processor.h",
    "linux/rcu_sync.h",
    "linux/rcupdate.h",
    "linux/rcuwait.h",
    "linux/rtmutex.h",
    "linux/rwlock.h",
    "linux/sched.h",
    "linux/sched/clock.h",
    "linux/sched/debug.h",
    "linux/sched/rt.h",
    "linux/sched/signal.h",
    "linux/sched/task.h",
    "linux/sched/wake_q.h",
    "linux/slab.h",
    "linux/smp.h",
    "linux/spinlock.h",
    "linux/spinlock_types.h",
    "linux/stddef.h",
    "linux/swait.h",
    "linux/threads.h",
    "linux/time.h",
    "linux/timer.h",
    "linux/topology.h",
    "linux/types.h",
    "linux/wait.h",
    "trace/events/lock.h",
];

/// Headers with a type of lock: a kernel tree's own, if the user's flags name one.
const TREE_INCLUDES: &[&str] = &["linux/mutex.h"];

/// Headers that the architecture provides.
const ARCH_INCLUDES: [&str; 2] = ["asm/spinlock.h", "asm/spinlock_types.h"];

/// Headers of an architecture for which the kernel has a generic one, which the user's flags may name.
const GENERIC_INCLUDES: &[&str] = &["mcs_spinlock.h", "qrwlock.h", "qspinlock.h"];

/// The architecture's spin lock, which is the queued one where a file checks that.
const ARCH_SPINLOCK: &str = "#include <knee_kernel.h>
#if !defined(KNEE_ARCH_SPINLOCK) && !defined(__ASM_GENERIC_QSPINLOCK_TYPES_H)
#define KNEE_ARCH_SPINLOCK
typedef struct knee_spinlock arch_spinlock_t;
#define __ARCH_SPIN_LOCK_UNLOCKED { 0 }
#define arch_spin_lock(lock) knee_spin_lock(&(lock)->locked)
#define arch_spin_trylock(lock) knee_spin_trylock(&(lock)->locked)
#define arch_spin_unlock(lock) knee_spin_unlock(&(lock)->locked)
#define arch_spin_is_locked(lock) READ_ONCE((lock)->locked)
#endif
";

/// A header that a file of the kernel and one of user space may both include: the system's own, if it has one, unless the file
/// has the kernel's words or the user's flags name a kernel tree.
fn stands_for_kernel(name: &str) -> String {
    format!(
        "#if defined(KNEE_KERNEL_H) || !__has_include_next(<{name}>) || __has_include(<linux/compiler_types.h>)
#include <knee_kernel.h>
#else
#include_next <{name}>
#endif
"
    )
}

/// A header of a kernel tree, where the user's flags name one.
fn from_tree(name: &str) -> String {
    format!(
        "#include <knee_kernel.h>
#if __has_include(<linux/compiler_types.h>) && __has_include_next(<{name}>)
#include_next <{name}>
#endif
"
    )
}

/// The names of all headers that stand for the kernel's.
pub fn provided() -> Vec<&'static str> {
    OWN.iter().chain(KERNEL_INCLUDES).chain(&ARCH_INCLUDES).copied().collect()
}

/// Writes all headers into a folder.
pub fn write_headers(folder: &Path) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let parent = path.parent().context("a header has a folder")?;
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("writing {name}"))
    };
    for (name, text) in OWN.iter().zip([HEADER, KERNEL_HEADER, KERNEL_TASKS_HEADER, GIVEN_HEADER]) {
        write(name, text)?;
    }
    for name in KERNEL_INCLUDES {
        write(name, &stands_for_kernel(name))?;
    }
    for name in TREE_INCLUDES {
        write(name, &from_tree(name))?;
    }
    for name in ARCH_INCLUDES {
        write(name, ARCH_SPINLOCK)?;
    }
    for name in GENERIC_INCLUDES {
        let generic = format!("<asm-generic/{name}>");
        write(
            &format!("asm/{name}"),
            &format!(
                "#include <knee_kernel.h>\n#if __has_include({generic})\n#include {generic}\n#endif\n"
            ),
        )?;
    }
    Ok(())
}
