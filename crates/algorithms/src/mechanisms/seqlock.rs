//! Seqlock: readers of a record take nothing, and read again if a writer came between. Linux reads the time, the mount
//! table and the names of dentries so.
//!
//!     sequence:   even: the record is whole ──writer: + 1──> odd: it is being changed ──writer: + 1──> even
//!     reader:     waits for an even sequence ──> reads ──> the sequence is the same: done
//!                              ▲                              │ it is another
//!                              └──────────────────────────────┘
//!
//! Designs: in `before` readers share a read-write lock, whose word all of them write. In `after` they read as above, and
//! writers exclude each other by a lock. In `after+locked` a reader that must read again takes that lock for it
//! (read_seqbegin_or_lock), so writers cannot make it read for ever. `after+latch` has two copies and changes one after
//! the other: the lowest bit of the sequence says which one to read, and readers never wait (seqcount_latch).
//!
//! Invariants: all words that a reader used belong to one state of the record; at the end the record is that of the last
//! writer, and no lock is held.
//!
//! A reader's words are atomics, for they may change while it reads; it uses none before the sequence has been compared.
//!
//! Linux include/linux/seqlock.h. `before`: until 2.5.59, xtime_lock as an rwlock_t. `after`: 2.5.60, by Stephen Hemminger,
//! after gettimeofday on x86_64 by Andrea Arcangeli, 2003. `after+locked`: 3.12, introduce read_seqbegin_or_lock() and
//! friends, by Al Viro, 2013. `after+latch`: 3.17, timekeeping: Provide fast and NMI safe access to CLOCK_MONOTONIC, by
//! Thomas Gleixner, and seqcount: Add raw_write_seqcount_latch(), by Mathieu Desnoyers, 2014.

use machine::{Array, Atom, Line, Machine, Ordering, Region, Until, image};

use super::{Mechanism, Scenario, Setting, Settings};
use crate::locks::queued_read_write::{QueuedReadWrite, QueuedReadWriteMem};
use crate::{Equivalent, IN_ORDER, Lock, Shape, SharedLock};

/// The most words of a record, which then fills a cache line beside the sequence.
const WORDS_MAX: usize = 12;

image! {
    /// A record of which all words have the same value.
    struct Record {
        sequence: Atom<u32>,
        words: [Atom<u32>; WORDS_MAX],
    }
}

/// How readers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Under a read-write lock.
    ReadWriteLock,
    /// Without a lock, again until no writer came between.
    Sequence,
    /// Without a lock, and again under the lock of the writers if one came between.
    SequenceThenLock,
    /// Without a lock, the one of two copies that no writer changes now.
    Latch,
}

/// A record that many tasks read.
#[derive(Debug)]
pub struct Seqlock<L: Lock> {
    design: Design,
    words: usize,
    write_one_in: u32,
    write_ns: u64,
    work_ns: u64,
    lock: L,
    /// Writers exclude each other by it.
    writers: Array<Line<L::Mem>>,
    shared_lock: QueuedReadWrite,
    shared: Array<Line<QueuedReadWriteMem>>,
    /// The second copy serves the latch alone.
    records: Array<Line<Record>>,
}

/// A task that reads and sometimes writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    /// Reads that a writer spoiled.
    again: u64,
    written: u64,
}

impl<L: Lock> Mechanism for Seqlock<L> {
    const NAME: &'static str = "seqlock";
    type Design = Design;
    type Task = Reader;
    const OPERATION: &'static str = "a record read whole, or written";
    const TASKS_SHARE_CPUS: bool = true;
    const DESIGNS: &'static [(&'static str, Design)] = &[
        ("before", Design::ReadWriteLock),
        ("after", Design::Sequence),
        ("after+locked", Design::SequenceThenLock),
        ("after+latch", Design::Latch),
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "words",
            about: "words of four bytes in the record",
            default: 4,
            min: 1,
            max: WORDS_MAX as u64,
            searched: 2,
        },
        Setting {
            name: "write_one_in",
            about: "one operation in this many writes",
            default: 1000,
            min: 1,
            max: 1_000_000,
            searched: 2,
        },
        Setting::time("write_ns", "work of a writer between the first word and the others, in ns", 0),
        Setting::time("work_ns", "work between two operations, in ns", 0),
    ];
    #[rustfmt::skip]
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "skipped", line: "m.fence(Ordering::", why: IN_ORDER },
        Equivalent { change: "relaxed", line: "let sequence = self.sequence().load(m, Ordering::Acquire)", why: IN_ORDER },
        Equivalent { change: "relaxed", line: "m.await_until(self.sequence(), Until::clear(1)", why: IN_ORDER },
        Equivalent { change: "relaxed", line: "store(m, sequence.wrapping_add(2)", why: IN_ORDER },
    ];
    const SCENARIOS: &'static [Scenario] = &[Scenario::new(2, 1), Scenario::new(2, 2)];

    fn bytes(_: &Design, tasks: usize, _: &Settings) -> usize {
        (64 << 10) + tasks * 2048
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let shape = Shape::new(tasks, 1);
        Seqlock {
            design,
            words: settings.get("words") as usize,
            write_one_in: settings.get("write_one_in") as u32,
            write_ns: settings.get("write_ns"),
            work_ns: settings.get("work_ns"),
            lock: L::new(region, shape),
            writers: region.array("writers", 1),
            shared_lock: QueuedReadWrite::new(region, shape),
            shared: region.array("shared", 1),
            records: region.array("record", 2),
        }
    }

    fn start<M: Machine>(&self, _: &M, _: usize) -> Reader {
        Reader::default()
    }

    #[inline]
    fn operate<M: Machine>(&self, m: &M, task: &mut Reader) {
        let begin = m.history_mark();
        if m.chance(self.write_one_in) {
            m.forget_history(begin, 0);
            self.write(m);
            task.written += 1;
        } else {
            m.forget_history(begin, 0);
            task.again += self.read(m);
        }
        m.forget_history(begin, 0);
        m.work(self.work_ns);
    }

    fn live(_: &Reader) -> u64 {
        0
    }

    fn check<M: Machine>(&self, m: &M, operations: u64) -> Result<(), String> {
        let written = self.records[0].words[0].load(m, Ordering::Relaxed);
        let copies = if self.design == Design::Latch { 2 } else { 1 };
        for record in self.records.iter().take(copies) {
            let mut words = record.words.iter().take(self.words);
            if words.any(|word| word.load(m, Ordering::Relaxed) != written) {
                return Err("the words of the record differ at the end".to_string());
            }
        }
        if u64::from(written) > operations {
            return Err(format!("{written} writes in {operations} operations"));
        }
        let sequence = self.sequence().load(m, Ordering::Relaxed);
        let expected = if self.design == Design::ReadWriteLock { 0 } else { written.wrapping_mul(2) };
        if sequence != expected {
            return Err(format!("the sequence is {sequence} after {written} writes"));
        }
        let is_free = self.lock.at_rest(m, &self.writers[0].0)
            && self.shared_lock.at_rest(m, &self.shared[0].0);
        is_free.then_some(()).ok_or_else(|| "a lock is not free at the end".to_string())
    }

    fn effects(task: &Reader) -> Vec<(&'static str, u64)> {
        vec![("read_again", task.again), ("written", task.written)]
    }
}

impl<L: Lock> Seqlock<L> {
    fn sequence(&self) -> &Atom<u32> {
        &self.records[0].sequence
    }

    /// Reads the record whole; returns how often that took another time.
    #[inline(always)]
    fn read<M: Machine>(&self, m: &M) -> u64 {
        match self.design {
            Design::ReadWriteLock => {
                let hold = self.shared_lock.read_lock(m, &self.shared[0].0);
                self.use_words(m, 0);
                self.shared_lock.read_unlock(m, &self.shared[0].0, hold);
                0
            }
            Design::Sequence | Design::SequenceThenLock | Design::Latch => self.read_by_sequence(m),
        }
    }

    #[inline(always)]
    fn read_by_sequence<M: Machine>(&self, m: &M) -> u64 {
        let begin = m.history_mark();
        let mut again = 0;
        loop {
            let (sequence, copy) = self.begin(m);
            let record = &self.records[copy];
            let first = record.words[0].load(m, Ordering::Relaxed);
            let rest = record.words.iter().take(self.words).skip(1);
            let is_whole = rest.fold(true, |is_whole, word| {
                is_whole & (word.load(m, Ordering::Relaxed) == first)
            });
            // The words are read before the sequence is read again.
            m.fence(Ordering::Acquire);
            if self.sequence().load(m, Ordering::Relaxed) == sequence {
                assert!(is_whole, "a reader used words of two states");
                return again;
            }
            again += 1;
            m.forget_history(begin, 0);
            if self.design == Design::SequenceThenLock {
                let hold = self.lock.lock(m, &self.writers[0].0);
                self.use_words(m, 0);
                self.lock.unlock(m, &self.writers[0].0, hold);
                return again;
            }
        }
    }

    /// The sequence that a reader compares later, and the copy that it reads.
    #[inline(always)]
    fn begin<M: Machine>(&self, m: &M) -> (u32, usize) {
        if self.design == Design::Latch {
            let sequence = self.sequence().load(m, Ordering::Acquire);
            return (sequence, (sequence & 1) as usize);
        }
        (m.await_until(self.sequence(), Until::clear(1), Ordering::Acquire), 0)
    }

    /// Uses the words of a copy that no writer can change now.
    #[inline(always)]
    fn use_words<M: Machine>(&self, m: &M, copy: usize) {
        let mut words = self.records[copy].words.iter().take(self.words);
        let first = words.next().map(|word| word.load(m, Ordering::Relaxed));
        for word in words {
            let is_same = Some(word.load(m, Ordering::Relaxed)) == first;
            assert!(is_same, "a reader under the lock used words of two states");
        }
    }

    /// Writes the next number into all words.
    #[inline(always)]
    fn write<M: Machine>(&self, m: &M) {
        if self.design == Design::ReadWriteLock {
            let hold = self.shared_lock.write_lock(m, &self.shared[0].0);
            self.change(m, 0);
            self.shared_lock.write_unlock(m, &self.shared[0].0, hold);
            return;
        }
        let hold = self.lock.lock(m, &self.writers[0].0);
        let sequence = self.sequence().load(m, Ordering::Relaxed);
        // Readers of the first copy wait, or turn to the second.
        self.sequence().store(m, sequence.wrapping_add(1), Ordering::Relaxed);
        m.fence(Ordering::Release);
        self.change(m, 0);
        // Readers that see this see the words.
        self.sequence().store(m, sequence.wrapping_add(2), Ordering::Release);
        if self.design == Design::Latch {
            m.fence(Ordering::Release);
            self.change(m, 1);
        }
        self.lock.unlock(m, &self.writers[0].0, hold);
    }

    #[inline(always)]
    fn change<M: Machine>(&self, m: &M, copy: usize) {
        let words = &self.records[copy].words[..self.words];
        let next = words[0].load(m, Ordering::Relaxed).wrapping_add(1);
        words[0].store(m, next, Ordering::Relaxed);
        m.work(self.write_ns);
        for word in &words[1..] {
            word.store(m, next, Ordering::Relaxed);
        }
    }
}
