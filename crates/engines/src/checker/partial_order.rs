//! Partial-order reduction: a step that commutes with all that other tasks can do before it is
//! taken first, alone. The orders in which it comes later are not tried.
//!
//! Whether a step commutes depends on which tasks can reach its word. A CPU reaches its own
//! per-CPU words. Any other task needs that CPU's number, which is in a word declared to hold
//! CPU numbers, or among the values that the task has read and not forgotten. Which words a
//! number leads to depends on the word that held it (from the tail of a queue to `next`, from
//! there to `locked`). The search learns that as it goes, and begins again when a number leads
//! to more words than it knew. So the numbers in memory and in histories bound what each task
//! could reach, whatever it does:
//!
//!     t ──next access──> word of CPU c      c = t, or c waits for this very word
//!     only t and c can reach it             so no other task's step touches it or wakes c
//!
//! A task that accesses the memory of a CPU whose number it cannot know is at fault, so the
//! premise is checked in every state that the search visits. Were it to fail in a state that
//! reduction leaves out, it would fail in a visited one too: all steps left out before the
//! first failure do commute.
//!
//! The rest follows Godefroid 1996 (Partial-order methods for the verification of concurrent
//! systems) and Clarke, Grumberg, Peled 1999, section 10: such a step is a persistent set. Two
//! kinds of step need all others to be tried as well: one by which a task gets its place in a
//! queue, because other tasks see it, and one that closes a cycle, because it could postpone
//! them for ever. The effect of a step on plain fields does not matter: an unordered access to
//! one is a race, which is found in any order. Two tasks that are inside together are found
//! likewise, by a race on what the lock guards.

use super::TASKS_MAX;
use super::layout::{Layout, OwnWords, WordLayout};
use super::request::{Request, RequestKind, ones};
use super::world::World;

impl World {
    /// A task whose next step can be taken first, alone, in all its alternatives. `None` without symmetry, where nothing says which
    /// task can reach what, and with interrupts, whose sender the handler does not know.
    pub fn persistent_task(&self) -> Option<usize> {
        if !self.symmetric || !self.check_races || self.interrupts {
            return None;
        }
        let tasks = 0..self.state.tasks.len();
        tasks.into_iter().find(|&task| self.is_persistent(task))
    }

    fn is_persistent(&self, task: usize) -> bool {
        let Some((owner, words)) = self.next_words(task) else { return false };
        let Request { kind, offset, .. } = self.state.tasks[task].request;
        let is_access = matches!(
            kind,
            RequestKind::Access(_) | RequestKind::Await(_) | RequestKind::AwaitFor(_)
        );
        let is_enabled = || self.alternatives(task) > 0;
        if !is_access || self.state.tasks[task].buffered > 0 || !is_enabled() {
            return false;
        }
        let owner_waits_for_it = || {
            let other = &self.state.tasks[owner];
            let awaits = matches!(other.request.kind, RequestKind::Await(_));
            let waits = awaits && self.alternatives(owner) == 0;
            other.ended || waits && other.request.offset == offset
        };
        if owner != task && !owner_waits_for_it() {
            return false;
        }
        !self.has_buffered_store_to(owner) && self.reach_without([task, owner])[owner] & words == 0
    }

    /// The per-CPU words that a task's next access touches, and the CPU that owns them.
    fn next_words(&self, task: usize) -> Option<(usize, OwnWords)> {
        let Request { offset, size, .. } = self.state.tasks[task].request;
        if self.state.tasks[task].ended || size == 0 {
            return None;
        }
        let mut words =
            self.layout.touched(offset, size).map(|word| &self.layout.words[word]).peekable();
        let owner = words.peek()?.cpu.map(usize::from)?;
        let own = words.fold(0, |own, word| own | word.own);
        (owner < self.state.tasks.len()).then_some((owner, own))
    }

    /// Whether some buffer has a store to a word of this CPU.
    fn has_buffered_store_to(&self, owner: usize) -> bool {
        let is_owned = |offset, size| {
            let mut words = self.layout.touched(offset, size);
            words.any(|word| self.layout.words[word].cpu.map(usize::from) == Some(owner))
        };
        let tasks = 0..self.state.tasks.len();
        let mut stores = tasks.flat_map(|task| self.state.buffered_stores(task));
        stores.any(|store| is_owned(store.offset, store.size))
    }

    /// For each CPU, those of its words that tasks other than `excluded` could ever access.
    fn reach_without(&self, excluded: [usize; 2]) -> [OwnWords; TASKS_MAX] {
        let leads_to = |role: u16| self.layout.leads_to[usize::from(role)];
        let mut reach = [0; TASKS_MAX];
        for (task, state) in self.state.tasks.iter().enumerate() {
            if !state.ended && !excluded.contains(&task) {
                reach[task] = OwnWords::MAX;
                for (cpu, role) in state.named_cpus.with_roles() {
                    reach[usize::from(cpu)] |= leads_to(role);
                }
            }
            for store in self.state.buffered_stores(task) {
                for word in self.layout.touched(store.offset, store.size) {
                    let word = &self.layout.words[word];
                    let value = store.value >> (8 * (word.offset - store.offset)) & ones(word.size);
                    if let Some(cpu) = self.named_cpu(word, value) {
                        reach[cpu] |= leads_to(word.role);
                    }
                }
            }
        }
        let mut before = None;
        while before != Some(reach) {
            before = Some(reach);
            for &word in &self.layout.naming {
                let word = &self.layout.words[usize::from(word)];
                let owner = word.cpu.map(usize::from);
                let is_reached = |cpu: usize| cpu < reach.len() && reach[cpu] & word.own != 0;
                if !owner.is_none_or(is_reached) {
                    continue;
                }
                if let Some(cpu) = self.named_cpu(word, self.read(word.offset, word.size)) {
                    reach[cpu] |= leads_to(word.role);
                }
                for cpu in self.named_by_messages(word) {
                    reach[cpu] |= leads_to(word.role);
                }
            }
        }
        reach
    }

    /// The CPUs whose numbers older values of a word hold, which tasks may still read.
    fn named_by_messages<'a>(&'a self, word: &'a WordLayout) -> impl Iterator<Item = usize> + 'a {
        let first_bit = 8 * (word.offset & 7);
        let mask = ones(word.size) << first_bit;
        let cell = self.is_weak.then(|| self.layout.cell_at(word.offset));
        let messages = self.state.views.messages.iter();
        let of_word = messages.filter(move |it| Some(it.cell) == cell && it.mask & mask == mask);
        of_word.filter_map(move |it| self.named_cpu(word, it.value >> first_bit & ones(word.size)))
    }

    /// The CPU whose number this value of a word holds.
    fn named_cpu(&self, word: &WordLayout, value: u64) -> Option<usize> {
        let cpu = (value >> word.cpu_shift?).checked_sub(1)? as usize;
        (cpu < self.state.tasks.len()).then_some(cpu)
    }

    /// Before an access to another CPU's word: notes which of the CPU numbers that the task has
    /// read could have led it there. Returns false if none could.
    pub fn learn_reach(&mut self, task: usize, offset: u32, size: u8) -> bool {
        if !self.symmetric || self.interrupts || size == 0 {
            return true;
        }
        let mut is_known = true;
        for word in self.layout.touched(offset, size) {
            let Layout { words, leads_to, .. } = &mut self.layout;
            let WordLayout { cpu, own, .. } = words[word];
            let Some(cpu) = cpu.filter(|&cpu| usize::from(cpu) != task) else { continue };
            let named_cpus = self.state.tasks[task].named_cpus.with_roles();
            let mut sources = named_cpus.filter(|&(named, _)| named == cpu).peekable();
            is_known &= sources.peek().is_some();
            for (_, role) in sources {
                let leads_to = &mut leads_to[usize::from(role)];
                self.grown |= *leads_to & own == 0;
                *leads_to |= own;
            }
        }
        is_known
    }
}
