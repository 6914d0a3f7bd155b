//! Lockref: a reference count and its spinlock in one word of eight bytes, as in Linux's dentries.
//! A task takes a reference before it uses an object, and drops it afterwards. A task that gives the object
//! another identity, as reclaim does, first takes the lock and finds no reference.
//!
//!     count:   0 <──get, put──> 1, 2, …        by any task
//!              │ ▲
//!       kill   ▼ │ revive                      under the lock
//!             dead                             a get fails; the killer alone uses the object
//!
//! Designs: `before` takes the lock, changes the count and releases the lock. `after` changes the count by a
//! compare-and-exchange of lock and count together while the lock is free. If the lock is taken, or after `tries`
//! attempts, it does as `before`. So whoever holds the lock sees a count that does not change. `after+unbounded` tries
//! for ever. `after+alone` changes the count by compare-and-exchange whether or not the lock is taken, as `kref` does: then
//! holding the lock says nothing of the count, and a killer takes it from 0 to dead in one step.
//!
//! Invariants: an object has one identity from get to put; a dead object has no reference; at the end no reference and
//! no lock is left.
//!
//! In Linux a path lookup (stat, open) takes and drops one reference, that of the last component: RCU walks over the others
//! (fs/namei.c, complete_walk). So all tasks that stat files in one directory share no count, all that stat
//! one file do.
//!
//! Differs from Linux: a dead dentry is freed and another one allocated, here it is revived; and its
//! compare-and-exchange is relaxed, since the lock and RCU order what it does not.
//!
//! Linux lib/lockref.c. `before`: 3.11, dget and dput under d_lock. `after`: 3.12, lockref: implement lockless
//! reference count updates using cmpxchg(), by Linus Torvalds, after Waiman Long, 2013; without a bound on `tries` until 5.3,
//! lockref: Limit number of cmpxchg loop retries, by Jan Glauber, 2019. The lock is the queued spin lock, whatever
//! lock is asked for. `after+alone` is not in Linux.

use std::marker::PhantomData;
use std::ptr;

use machine::{Array, Atom, Field, Line, Machine, Ordering, Region, image};

use super::{Mechanism, Scenario, Setting, Settings};
use crate::locks::queued::{Queued, QueuedMem};
use crate::{Equivalent, Lock, Shape};

/// The count of a dead object.
const DEAD: u32 = 1 << 31;

/// The bits of the lock in the word; those of the count are above.
const LOCK: u64 = u32::MAX as u64;
const COUNT_SHIFT: u32 = 32;

const _: () = assert!(cfg!(target_endian = "little"), "the word's halves are in another order");

image! {
    /// The word.
    #[repr(align(8))]
    struct LockedCount {
        lock: QueuedMem,
        count: Atom<u32>,
    }

    /// What has references.
    struct Object {
        references: LockedCount,
        /// Changes while the object is dead.
        identity: Field<u32>,
    }
}

impl LockedCount {
    /// Lock and count together.
    #[inline(always)]
    fn word(&self) -> &Atom<u64> {
        // SAFETY: eight bytes of atomics, aligned to eight, as an `Atom` of that size. Accesses of both sizes
        // overlap, which Rust leaves open for atomics; x86 and Arm do what Linux expects.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

/// How a count changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Under the lock.
    Locked,
    /// By a compare-and-exchange while the lock is free, a bounded number of times.
    Lockless,
    /// By a compare-and-exchange while the lock is free, as often as it takes.
    Unbounded,
    /// By a compare-and-exchange that does not look at the lock.
    Alone,
}

/// Objects whose references tasks take and drop.
#[derive(Debug)]
pub struct Lockref<L> {
    design: Design,
    tries: u32,
    reuse_one_in: u32,
    use_ns: u64,
    work_ns: u64,
    queued: Queued,
    objects: Array<Line<Object>>,
    /// The lock is always the queued one.
    over: PhantomData<fn() -> L>,
}

/// A task that uses objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct User {
    /// Compare-and-exchanges that found another count than the load before.
    retries: u64,
    /// Changes of a count under the lock.
    locked: u64,
    /// Gets of a dead object.
    found_dead: u64,
    reused: u64,
}

impl<L: Lock> Mechanism for Lockref<L> {
    const NAME: &'static str = "lockref";
    type Design = Design;
    type Task = User;
    const OPERATION: &'static str = "a reference taken, an object used, the reference dropped";
    const TASKS_SHARE_CPUS: bool = true;
    const DESIGNS: &'static [(&'static str, Design)] =
        &[
            ("before", Design::Locked),
            ("after", Design::Lockless),
            ("after+unbounded", Design::Unbounded),
            ("after+alone", Design::Alone),
        ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "objects",
            about: "objects, of which each operation uses one at random",
            default: 1,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "tries",
            about: "compare-and-exchanges before a task takes the lock",
            default: 100,
            min: 1,
            max: u32::MAX as u64,
            searched: 2,
        },
        Setting {
            name: "reuse_one_in",
            about: "one operation in this many reuses the object, if nobody has a reference",
            default: 1_000_000,
            min: 1,
            max: 1_000_000,
            searched: 2,
        },
        Setting::time("use_ns", "work with the object, in ns", 0),
        Setting::time("work_ns", "work between two operations, in ns", 0),
    ];
    const EQUIVALENT: &'static [Equivalent] = &[Equivalent {
        change: "skipped",
        line: "object.identity.set(m,",
        why: "it only serves the check that nobody uses an object then",
    }];
    const SCENARIOS: &'static [Scenario] = &[
        Scenario::new(2, 1),
        Scenario::new(2, 2),
        Scenario::new(3, 1),
    ];

    fn bytes(_: &Design, tasks: usize, settings: &Settings) -> usize {
        (64 << 10) + tasks * 256 + settings.get("objects") as usize * 64
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let objects = settings.get("objects") as usize;
        Lockref {
            design,
            tries: settings.get("tries") as u32,
            reuse_one_in: settings.get("reuse_one_in") as u32,
            use_ns: settings.get("use_ns"),
            work_ns: settings.get("work_ns"),
            queued: Queued::new(region, Shape::new(tasks, objects)),
            objects: region.array("object", objects),
            over: PhantomData,
        }
    }

    fn start<M: Machine>(&self, _: &M, _: usize) -> User {
        User::default()
    }

    #[inline]
    fn operate<M: Machine>(&self, m: &M, task: &mut User) {
        let begin = m.history_mark();
        let index = m.random(self.objects.len() as u32);
        let object = &self.objects[index as usize].0;
        if m.chance(self.reuse_one_in) {
            m.forget_history(begin, index.into());
            task.reused += u64::from(self.reuse(m, object));
        } else {
            m.forget_history(begin, index.into());
            self.use_object(m, object, task);
        }
        m.forget_history(begin, 0);
        m.work(self.work_ns);
    }

    fn live(_: &User) -> u64 {
        0
    }

    fn check<M: Machine>(&self, m: &M, operations: u64) -> Result<(), String> {
        let mut reused = 0;
        for (index, object) in self.objects.iter().enumerate() {
            let count = object.references.count.load(m, Ordering::Relaxed);
            if count != 0 {
                return Err(format!("object {index} has the count {count} at the end"));
            }
            if !self.queued.at_rest(m, &object.references.lock) {
                return Err(format!("the lock of object {index} is not free at the end"));
            }
            reused += u64::from(object.identity.get(m));
        }
        if reused > operations {
            return Err(format!("{reused} reuses in {operations} operations"));
        }
        Ok(())
    }

    fn effects(task: &User) -> Vec<(&'static str, u64)> {
        vec![
            ("retries", task.retries),
            ("locked", task.locked),
            ("found_dead", task.found_dead),
            ("reused", task.reused),
        ]
    }
}

impl<L> Lockref<L> {
    /// Takes a reference, uses the object and drops the reference. Does nothing with a dead object.
    #[inline(always)]
    fn use_object<M: Machine>(&self, m: &M, object: &Object, task: &mut User) {
        let begin = m.history_mark();
        if !self.change(m, &object.references, 1, task) {
            task.found_dead += 1;
            return;
        }
        m.forget_history(begin, 0);
        let identity = object.identity.get(m);
        m.work(self.use_ns);
        assert!(object.identity.get(m) == identity, "an object was reused while it was used");
        m.forget_history(begin, 0);
        assert!(self.change(m, &object.references, -1, task), "a dead object has a reference");
        m.forget_history(begin, 0);
    }

    /// Adds to the count, unless the object is dead.
    #[inline(always)]
    fn change<M: Machine>(
        &self,
        m: &M,
        references: &LockedCount,
        by: i32,
        task: &mut User,
    ) -> bool {
        let tried = match self.design {
            Design::Locked => None,
            Design::Lockless => self.change_together(m, references, by, task, Some(self.tries)),
            Design::Unbounded => self.change_together(m, references, by, task, None),
            Design::Alone => Some(change_alone(m, &references.count, by, task)),
        };
        if let Some(is_alive) = tried {
            return is_alive;
        }
        task.locked += 1;
        let hold = self.queued.lock(m, &references.lock);
        let count = references.count.load(m, Ordering::Relaxed);
        if count != DEAD {
            references.count.store(m, count.wrapping_add_signed(by), Ordering::Relaxed);
        }
        self.queued.unlock(m, &references.lock, hold);
        count != DEAD
    }

    /// Changes the count and leaves the lock free in one step. Returns whether the object is alive; `None` if the lock is
    /// taken, or after this many tries.
    #[inline(always)]
    fn change_together<M: Machine>(
        &self,
        m: &M,
        references: &LockedCount,
        by: i32,
        task: &mut User,
        tries: Option<u32>,
    ) -> Option<bool> {
        let begin = m.history_mark();
        let mut word = references.word().load(m, Ordering::Relaxed);
        let mut left = tries;
        while word & LOCK == 0 && left != Some(0) {
            let count = (word >> COUNT_SHIFT) as u32;
            if count == DEAD {
                return Some(false);
            }
            let changed = u64::from(count.wrapping_add_signed(by)) << COUNT_SHIFT;
            // Acquire: a get comes after the revival. Release: a put comes before the next kill.
            let ordering = Ordering::AcqRel;
            match references.word().compare_exchange(m, word, changed, ordering) {
                Ok(_) => return Some(true),
                Err(now) => word = now,
            }
            task.retries += 1;
            left = left.map(|left| left - 1);
            m.forget_history(begin, word ^ u64::from(left.unwrap_or(0)) << 24);
        }
        m.forget_history(begin, 0);
        None
    }

    /// Gives the object another identity, if nobody has a reference.
    #[inline(always)]
    fn reuse<M: Machine>(&self, m: &M, object: &Object) -> bool {
        let begin = m.history_mark();
        let LockedCount { lock, count } = &object.references;
        if self.design == Design::Alone {
            // Acquire: comes after the puts.
            let killed = count.compare_exchange(m, 0, DEAD, Ordering::Acquire).is_ok();
            m.forget_history(begin, killed.into());
            if killed {
                object.identity.set(m, object.identity.get(m) + 1);
                m.forget_history(begin, 0);
                // Release: comes before the gets.
                count.store(m, 0, Ordering::Release);
            }
            return killed;
        }
        let hold = self.queued.lock(m, lock);
        // Relaxed: a put without the lock has written the lock's bytes too, as free, and we have acquired those.
        let is_unused = count.load(m, Ordering::Relaxed) == 0;
        if is_unused {
            count.store(m, DEAD, Ordering::Relaxed);
        }
        self.queued.unlock(m, lock, hold);
        m.forget_history(begin, is_unused.into());
        if is_unused {
            object.identity.set(m, object.identity.get(m) + 1);
            m.forget_history(begin, 0);
            let hold = self.queued.lock(m, lock);
            count.store(m, 0, Ordering::Relaxed);
            self.queued.unlock(m, lock, hold);
        }
        is_unused
    }
}

/// Changes the count whether or not the lock is taken. Returns whether the object is alive.
#[inline(always)]
fn change_alone<M: Machine>(m: &M, count: &Atom<u32>, by: i32, task: &mut User) -> bool {
    let begin = m.history_mark();
    let mut now = count.load(m, Ordering::Relaxed);
    while now != DEAD {
        // As in `change_together`.
        let changed = now.wrapping_add_signed(by);
        match count.compare_exchange(m, now, changed, Ordering::AcqRel) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
        task.retries += 1;
        m.forget_history(begin, now.into());
    }
    false
}
