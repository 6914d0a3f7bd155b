//! Locks of Java, by the methods on a stack. A thread that waits for one is parked at a condition variable of its own
//! (src/hotspot/os/posix/os_posix.cpp, `Parker` and `PlatformEvent`), as one is that waits for work: what it waits for,
//! only the methods tell.

use records::live::WaitKind;

/// Stands in stacks where a thread enters a monitor (`synchronized`).
const MONITORENTER: &str = "monitorenter";

/// Methods that are part of locks and conditions, and functions of HotSpot between them and the C library.
const PARTS: &[&str] = &[
    MONITORENTER,
    "java.util.concurrent.",
    "java.util.Collections$Synchronized",
    "java.util.Hashtable.",
    "java.util.Vector.",
    "jdk.internal.misc.Unsafe.park",
    "jdk.internal.misc.Unsafe.unpark",
    "java.lang.Object.wait",
    "java.lang.Object.notify",
    "java.lang.Thread.join",
    "java.lang.Thread.sleep",
    "JVM_MonitorWait",
    "Unsafe_Park",
    "Unsafe_Unpark",
];

/// The classes of locks, with what each is.
const LOCKS: &[(&str, WaitKind)] = &[
    ("java.util.concurrent.locks.ReentrantLock", WaitKind::Mutex),
    ("java.util.concurrent.locks.ReentrantReadWriteLock", WaitKind::ReadWriteLock),
    ("java.util.concurrent.locks.StampedLock", WaitKind::ReadWriteLock),
    ("java.util.concurrent.Semaphore", WaitKind::Semaphore),
];

/// Whether a function is part of a lock or a condition of Java.
pub fn is_part(name: &str) -> bool {
    PARTS.iter().any(|part| name.starts_with(part))
}

/// What a thread of Java waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JavaWait {
    /// Work, an answer, another thread's end, a time.
    Condition,
    /// A lock: its class, or `monitor`.
    Lock(WaitKind, String),
}

impl JavaWait {
    pub fn kind(&self) -> WaitKind {
        match self {
            JavaWait::Condition => WaitKind::Condition,
            JavaWait::Lock(kind, _) => *kind,
        }
    }
}

/// What the innermost functions of a stack wait for; `None` if they are no methods of Java.
pub fn wait(lock: &[&str]) -> Option<JavaWait> {
    let has = |part: &str| lock.iter().any(|name| name.contains(part));
    // At a safepoint, threads wait by futex(2) itself, wherever they are.
    if !lock.iter().any(|name| is_part(name)) || !has("pthread_") {
        return None;
    }
    if lock.contains(&MONITORENTER) {
        return Some(JavaWait::Lock(WaitKind::Mutex, "monitor".to_string()));
    }
    let of_class = |(class, _): &&(&str, WaitKind)| {
        let is_method = |rest: &str| rest.starts_with(['.', '$']);
        lock.iter().any(|name| name.strip_prefix(class).is_some_and(is_method))
    };
    let known = LOCKS.iter().find(of_class).map(|(class, kind)| {
        let simple = class.rsplit('.').next().unwrap_or(class);
        JavaWait::Lock(*kind, simple.to_string())
    });
    // Classes of locks queue threads by one of two classes, whose conditions have a method of another name.
    let is_queued = has("QueuedSynchronizer.acquire") || has("QueuedLongSynchronizer.acquire");
    let is_stamped = has(".StampedLock.");
    if !is_queued && !is_stamped {
        return Some(JavaWait::Condition);
    }
    // Latches are acquired by all that wait for them, as the locks of readers are.
    let is_shared = has("Synchronizer.acquireShared");
    Some(known.unwrap_or_else(|| {
        if is_shared {
            JavaWait::Condition
        } else {
            JavaWait::Lock(WaitKind::Mutex, "lock".to_string())
        }
    }))
}

/// Whether methods take a read-write lock to write; `None` if they take none.
pub fn writes(lock: &[&str]) -> Option<bool> {
    const TO_WRITE: [&str; 3] = ["WriteLock.", ".acquireWrite", ".writeLock"];
    const TO_READ: [&str; 3] = ["ReadLock.", ".acquireRead", ".readLock"];
    let has = |words: &[&str]| lock.iter().any(|name| words.iter().any(|word| name.contains(word)));
    match () {
        () if has(&TO_WRITE) => Some(true),
        () if has(&TO_READ) => Some(false),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: Option<JavaWait>) {
        let park = ["pthread_cond_wait", "libjvm.so+0x9c", "jdk.internal.misc.Unsafe.park"];
        let names: Vec<String> = park
            .iter()
            .map(ToString::to_string)
            .chain(names.iter().map(|name| format!("java.util.concurrent.{name}")))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(wait(&names), expected, "{names:?}");
    }

    fn lock(kind: WaitKind, class: &str) -> Option<JavaWait> {
        Some(JavaWait::Lock(kind, class.to_string()))
    }

    #[test]
    fn classes_of_locks_are_told_from_queues_and_latches() {
        let park = "locks.LockSupport.park";
        let acquire = "locks.AbstractQueuedSynchronizer.acquire";
        let shared = "locks.AbstractQueuedSynchronizer.acquireShared";
        let waits = "locks.AbstractQueuedSynchronizer$ConditionObject.await";
        let mutex = lock(WaitKind::Mutex, "ReentrantLock");
        check(&[park, acquire, "locks.ReentrantLock.lock"], mutex.clone());
        let write = "locks.ReentrantReadWriteLock$WriteLock.lock";
        check(&[park, acquire, write], lock(WaitKind::ReadWriteLock, "ReentrantReadWriteLock"));
        let read = "locks.ReentrantReadWriteLock$ReadLock.lock";
        let read_write = lock(WaitKind::ReadWriteLock, "ReentrantReadWriteLock");
        check(&[park, acquire, shared, read], read_write);
        let stamped = "locks.StampedLock.acquireWrite";
        check(&[park, stamped], lock(WaitKind::ReadWriteLock, "StampedLock"));
        let semaphore = lock(WaitKind::Semaphore, "Semaphore");
        check(&[park, acquire, shared, "Semaphore.acquire"], semaphore);
        check(&[park, acquire, shared, "CountDownLatch.await"], Some(JavaWait::Condition));
        check(&[park, waits, "ArrayBlockingQueue.take"], Some(JavaWait::Condition));
        // Told that there is work, it waits for the lock of the queue.
        let again = [park, acquire, waits, "ArrayBlockingQueue.take"];
        check(&again, lock(WaitKind::Mutex, "lock"));
        let put =
            [park, acquire, "locks.ReentrantLock.lockInterruptibly", "ArrayBlockingQueue.put"];
        check(&put, mutex);
        check(&["CompletableFuture$Signaller.block"], Some(JavaWait::Condition));
    }

    #[test]
    fn a_monitor_is_a_mutex_but_a_safepoint_and_a_program_in_another_language_are_nothing() {
        let enter = ["pthread_cond_wait", "libjvm.so+0x9c", MONITORENTER];
        assert_eq!(wait(&enter), lock(WaitKind::Mutex, "monitor"));
        assert_eq!(wait(&["syscall", "libjvm.so+0x9c", MONITORENTER]), None);
        assert_eq!(wait(&["pthread_cond_wait", "std::condition_variable::wait"]), None);
    }
}
