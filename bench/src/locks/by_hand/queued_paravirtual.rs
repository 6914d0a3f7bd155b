//! The paravirtual queued spin lock, by hand.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use super::nodes::{NODES, code};
use super::queued::QueuedLock;
use super::{ByHand, CPUS, Task, futex};

const LOADS: u32 = 1 << 15;
const SLOW: u8 = 3;
const RUNNING: u32 = 0;
const HALTED: u32 = 1;
const HASHED: u32 = 2;

#[repr(C)]
#[derive(Default)]
struct Node {
    next: AtomicU32,
    locked: AtomicU32,
    state: AtomicU32,
    kicked: AtomicU32,
    /// In the first node of a CPU: how many are in use.
    used: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Default)]
struct CpuNodes([Node; NODES as usize]);

#[derive(Default)]
pub struct QueuedParavirtual([CpuNodes; CPUS]);

#[repr(C)]
#[derive(Default)]
pub struct QueuedParavirtualLock {
    lock: QueuedLock,
    head: AtomicU32,
}

impl ByHand for QueuedParavirtual {
    type Lock = QueuedParavirtualLock;

    #[inline(always)]
    fn lock(&self, mem: &QueuedParavirtualLock, task: &Task) -> u32 {
        if mem.lock.word().compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            self.queue(mem, task);
        }
        0
    }

    #[inline(always)]
    fn unlock(&self, mem: &QueuedParavirtualLock, _: &Task, _: u32) {
        if mem.lock.locked.compare_exchange(1, 0, Release, Relaxed).is_err() {
            self.unlock_and_kick(mem);
        }
    }
}

impl QueuedParavirtual {
    #[inline(always)]
    fn own(&self, task: &Task, index: u32) -> &Node {
        &self.0[task.cpu].0[index as usize]
    }

    #[inline(always)]
    fn node(&self, code: u32) -> &Node {
        &self.0[(code >> 2) as usize - 1].0[(code & 3) as usize]
    }

    fn halt(&self, node: &Node) {
        futex(&node.kicked, libc::FUTEX_WAIT, 0);
        node.kicked.store(0, Relaxed);
    }

    #[cold]
    fn unlock_and_kick(&self, mem: &QueuedParavirtualLock) {
        mem.lock.locked.load(Acquire);
        let node = self.node(mem.head.load(Relaxed));
        mem.lock.locked.store(0, Release);
        node.kicked.store(1, Relaxed);
        futex(&node.kicked, libc::FUTEX_WAKE, 1);
    }

    #[cold]
    fn queue(&self, mem: &QueuedParavirtualLock, task: &Task) {
        let used = &self.own(task, 0).used;
        let index = used.load(Relaxed);
        assert!(index < NODES, "one CPU waits for more than {NODES} locks");
        used.store(index + 1, Relaxed);
        self.wait_in_queue(mem, self.own(task, index), code(task, index));
        used.store(used.load(Relaxed) - 1, Relaxed);
    }

    fn wait_in_queue(&self, mem: &QueuedParavirtualLock, node: &Node, mine: u32) {
        node.next.store(0, Relaxed);
        node.locked.store(0, Relaxed);
        node.state.store(RUNNING, Relaxed);
        if steal(&mem.lock) {
            return;
        }
        let before = mem.lock.tail.swap(mine as u16, AcqRel);
        let mut next = 0;
        if before != 0 {
            self.node(before.into()).next.store(mine, Release);
            self.wait_to_be_head(node);
            next = node.next.load(Acquire);
        }
        self.wait_as_head(mem, node, mine);
        let word = mem.lock.word();
        if word.load(Relaxed) >> 16 == mine
            && word.compare_exchange(mine << 16 | 1, 1, Relaxed, Relaxed).is_ok()
        {
            return;
        }
        while next == 0 {
            next = node.next.load(Acquire);
            if next == 0 {
                spin_loop();
            }
        }
        let heir = self.node(next);
        heir.locked.swap(1, SeqCst);
        if heir.state.compare_exchange(HALTED, HASHED, SeqCst, Relaxed).is_ok() {
            mem.head.store(next, Relaxed);
            mem.lock.locked.store(SLOW, Release);
        }
    }

    fn wait_to_be_head(&self, node: &Node) {
        loop {
            for _ in 0..LOADS {
                if node.locked.load(Acquire) != 0 {
                    return;
                }
                spin_loop();
            }
            node.state.swap(HALTED, SeqCst);
            if node.locked.load(SeqCst) == 0 {
                self.halt(node);
            }
            let _ = node.state.compare_exchange(HALTED, RUNNING, Relaxed, Relaxed);
        }
    }

    fn wait_as_head(&self, mem: &QueuedParavirtualLock, node: &Node, mine: u32) {
        let mut named = node.state.load(Relaxed) == HASHED;
        loop {
            node.state.store(RUNNING, Relaxed);
            mem.lock.pending.store(1, Relaxed);
            if take_as_head(&mem.lock) {
                return;
            }
            mem.lock.pending.store(0, Relaxed);
            if !named {
                mem.head.store(mine, Relaxed);
                if mem.lock.locked.swap(SLOW, AcqRel) == 0 {
                    return mem.lock.locked.store(1, Relaxed);
                }
                named = true;
            }
            node.state.store(HASHED, Relaxed);
            if mem.lock.locked.load(Relaxed) == SLOW {
                self.halt(node);
            }
        }
    }
}

fn steal(lock: &QueuedLock) -> bool {
    loop {
        let word = lock.word().load(Relaxed);
        if word & 0xFFFF == 0 && lock.locked.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return true;
        }
        if word >> 16 == 0 || word & 0xFF00 != 0 {
            return false;
        }
        spin_loop();
    }
}

fn take_as_head(lock: &QueuedLock) -> bool {
    let mut loads_left = LOADS;
    while loads_left > 0 {
        if lock.locked.load(Relaxed) != 0 {
            loads_left -= 1;
            spin_loop();
        } else if lock.locked_pending().compare_exchange(0x100, 1, Acquire, Relaxed).is_ok() {
            return true;
        } else {
            loads_left = LOADS;
        }
    }
    false
}
