//! The paravirtual queued spin lock, by hand.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU32};

use super::{ByHand, CPUS, Word, futex};

const LOOKS: u32 = 1 << 15;
const SLOW: u8 = 3;
const RUNNING: u32 = 0;
const HALTED: u32 = 1;
const HASHED: u32 = 2;

#[repr(align(64))]
#[derive(Default)]
struct Node {
    next: AtomicU32,
    locked: AtomicU32,
    state: AtomicU32,
    kicked: AtomicU32,
}

#[derive(Default)]
pub struct QueuedParavirtual {
    word: Word,
    head: AtomicU32,
    nodes: [Node; CPUS],
}

impl QueuedParavirtual {
    #[inline(always)]
    fn locked(&self) -> &AtomicU8 {
        &self.word.locked
    }

    #[inline(always)]
    fn node(&self, code: u32) -> &Node {
        &self.nodes[code as usize - 1]
    }

    fn halt(&self, node: &Node) {
        futex(&node.kicked, libc::FUTEX_WAIT, 0);
        node.kicked.store(0, Relaxed);
    }

    #[cold]
    fn unlock_and_kick(&self) {
        self.locked().load(Acquire);
        let head = self.head.load(Relaxed);
        self.locked().store(0, Release);
        let node = self.node(head);
        node.kicked.store(1, Relaxed);
        futex(&node.kicked, libc::FUTEX_WAKE, 1);
    }

    fn steal(&self) -> bool {
        loop {
            let word = self.word.all().load(Relaxed);
            if word & 0xFFFF == 0 && self.locked().compare_exchange(0, 1, Acquire, Relaxed).is_ok()
            {
                return true;
            }
            if word >> 16 == 0 || word & 0xFF00 != 0 {
                return false;
            }
            spin_loop();
        }
    }

    fn take_as_head(&self) -> bool {
        let mut looks = LOOKS;
        loop {
            while self.locked().load(Relaxed) != 0 {
                looks -= 1;
                if looks == 0 {
                    return false;
                }
                spin_loop();
            }
            if self.word.locked_pending().compare_exchange(0x100, 1, Acquire, Relaxed).is_ok() {
                return true;
            }
            looks = LOOKS;
        }
    }

    fn wait_to_be_head(&self, node: &Node) {
        loop {
            for _ in 0..LOOKS {
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

    fn wait_as_head(&self, mine: u32) {
        let node = self.node(mine);
        let mut named = node.state.load(Relaxed) == HASHED;
        loop {
            node.state.store(RUNNING, Relaxed);
            self.word.pending.store(1, Relaxed);
            if self.take_as_head() {
                return;
            }
            self.word.pending.store(0, Relaxed);
            if !named {
                self.head.store(mine, Relaxed);
                if self.locked().swap(SLOW, AcqRel) == 0 {
                    return self.locked().store(1, Relaxed);
                }
                named = true;
            }
            node.state.store(HASHED, Relaxed);
            if self.locked().load(Relaxed) == SLOW {
                self.halt(node);
            }
        }
    }

    #[cold]
    fn queue(&self, cpu: usize) {
        let (node, mine) = (&self.nodes[cpu], cpu as u32 + 1);
        node.next.store(0, Relaxed);
        node.locked.store(0, Relaxed);
        node.state.store(RUNNING, Relaxed);
        if self.steal() {
            return;
        }
        let before = self.word.tail.swap(mine as u16, AcqRel);
        let mut next = 0;
        if before != 0 {
            self.node(before.into()).next.store(mine, Release);
            self.wait_to_be_head(node);
            next = node.next.load(Acquire);
        }
        self.wait_as_head(mine);
        let word = self.word.all().load(Relaxed);
        if word >> 16 == mine && self.empty_queue(mine) {
            return;
        }
        while next == 0 {
            spin_loop();
            next = node.next.load(Acquire);
        }
        let heir = self.node(next);
        heir.locked.swap(1, SeqCst);
        if heir.state.compare_exchange(HALTED, HASHED, SeqCst, Relaxed).is_ok() {
            self.head.store(next, Relaxed);
            self.locked().store(SLOW, Release);
        }
    }

    fn empty_queue(&self, mine: u32) -> bool {
        let word = mine << 16 | 1;
        self.word.all().compare_exchange(word, 1, Relaxed, Relaxed).is_ok()
    }
}

impl ByHand for QueuedParavirtual {
    #[inline(always)]
    fn lock(&self, cpu: usize) {
        if self.word.all().compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            self.queue(cpu);
        }
    }

    #[inline(always)]
    fn unlock(&self, _: usize) {
        if self.locked().compare_exchange(1, 0, Release, Relaxed).is_err() {
            self.unlock_and_kick();
        }
    }
}
