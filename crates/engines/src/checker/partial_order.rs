//! Partial-order reduction: a step that commutes with all that others can do before it is
//! taken first, alone, and the orders in which it comes later are not tried.
//!
//! Which steps are that is a matter of reach. What is per CPU can be reached by its CPU, and
//! otherwise only by its name, which lies in a word that is said to name CPUs or in what a
//! task has read there since its last cut. To which words a name leads depends on the word
//! where it was read (from the tail of a queue to `next`, from there to `locked`); that is
//! found, and when it turns out to be more, the search begins anew. So from the names that
//! lie about follows what each task could reach, whatever it does:
//!
//!     t ──next access──> word of CPU c      c = t, or c waits for this very word
//!     nobody but t and c reaches it         so no step of others meets it, nor wakes c
//!
//! A task that comes to the memory of a CPU whose name it cannot know is at fault. So the
//! premise is checked in every state that the search sees; and if it failed in one that
//! reduction leaves out, it would in one that is seen, for before the first failure all
//! steps left out do commute.
//!
//! The rest is as in Godefroid 1996 (Partial-order methods for the verification of
//! concurrent systems) and Clarke, Grumberg, Peled 1999, section 10: such a step is a
//! persistent set. A step by which a task gets its place in a queue is seen by others, and
//! one that closes a cycle could postpone them for ever; after both, all other steps are
//! tried too. What a step does to plain fields needs no look: if others do something there
//! that is not ordered, that is a race, found in whatever order. That two are inside
//! together is found so too, as a race for what the lock guards.

use super::TASKS_MAX;
use super::layout::{LaidWord, Layout, OwnWords};
use super::request::{Kind, Request, ones};
use super::schedule::Turn;
use super::world::World;

impl World {
    /// A step that can go first, alone. None where tasks are not alike: then nothing says
    /// who can reach what. Nor where they can be interrupted, by whom they do not know.
    pub fn alone(&self) -> Option<Turn> {
        if !self.alike || !self.races || self.interrupts {
            return None;
        }
        let tasks = 0..self.state.tasks.len();
        let task = tasks.into_iter().find(|&task| self.is_alone(task))?;
        Some((task as u8, 0))
    }

    fn is_alone(&self, task: usize) -> bool {
        let Some((owner, words)) = self.next_words(task) else { return false };
        let Request { kind, offset, .. } = self.state.tasks[task].request;
        let simple = matches!(kind, Kind::Access(_) | Kind::Await(_) | Kind::AwaitFor(_));
        if !simple || self.state.tasks[task].buffered > 0 || self.ways(task) == 0 {
            return false;
        }
        let its_owner_waits = || {
            let other = &self.state.tasks[owner];
            let waits = matches!(other.request.kind, Kind::Await(_)) && self.ways(owner) == 0;
            other.ended || waits && other.request.offset == offset
        };
        if owner != task && !its_owner_waits() {
            return false;
        }
        !self.is_held_back(owner) && self.reach_without([task, owner])[owner] & words == 0
    }

    /// The CPU to whose words the next access of a task is, and which those are.
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

    /// Whether a store to a word of this CPU waits in some buffer.
    fn is_held_back(&self, owner: usize) -> bool {
        let of_owner = |offset, size| {
            let mut words = self.layout.touched(offset, size);
            words.any(|word| self.layout.words[word].cpu.map(usize::from) == Some(owner))
        };
        let mut entries = (0..self.state.tasks.len()).flat_map(|task| self.state.held_back(task));
        entries.any(|entry| of_owner(entry.offset, entry.size))
    }

    /// The words of each CPU that the tasks beside these could ever come to.
    fn reach_without(&self, apart: [usize; 2]) -> [OwnWords; TASKS_MAX] {
        let leads_to = |role: u16| self.layout.leads_to[usize::from(role)];
        let mut reach = [0; TASKS_MAX];
        for (task, state) in self.state.tasks.iter().enumerate() {
            if !state.ended && !apart.contains(&task) {
                reach[task] = OwnWords::MAX;
                for (cpu, role) in state.names.with_roles() {
                    reach[usize::from(cpu)] |= leads_to(role);
                }
            }
            for entry in self.state.held_back(task) {
                for word in self.layout.touched(entry.offset, entry.size) {
                    let word = &self.layout.words[word];
                    let value = entry.value >> (8 * (word.offset - entry.offset)) & ones(word.size);
                    if let Some(cpu) = self.named(word, value) {
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
                let reached = |cpu: usize| cpu < reach.len() && reach[cpu] & word.own != 0;
                if owner.is_none_or(reached)
                    && let Some(cpu) = self.named(word, self.read(word.offset, word.size))
                {
                    reach[cpu] |= leads_to(word.role);
                }
            }
        }
        reach
    }

    /// The CPU that a word with this value names.
    fn named(&self, word: &LaidWord, value: u64) -> Option<usize> {
        let cpu = (value >> word.cpu_shift?).checked_sub(1)? as usize;
        (cpu < self.state.tasks.len()).then_some(cpu)
    }

    /// Notes how a task has come to this word, if that is another CPU's: by which names.
    /// False if it knows none.
    pub fn find_reach(&mut self, task: usize, offset: u32, size: u8) -> bool {
        if !self.alike || self.interrupts || size == 0 {
            return true;
        }
        let mut known = true;
        for word in self.layout.touched(offset, size) {
            let Layout { words, leads_to, .. } = &mut self.layout;
            let LaidWord { cpu, own, .. } = words[word];
            let Some(cpu) = cpu.filter(|&cpu| usize::from(cpu) != task) else { continue };
            let names = self.state.tasks[task].names.with_roles();
            let mut by_name = names.filter(|&(name, _)| name == cpu).peekable();
            known &= by_name.peek().is_some();
            for (_, role) in by_name {
                let leads_to = &mut leads_to[usize::from(role)];
                self.grown |= *leads_to & own == 0;
                *leads_to |= own;
            }
        }
        known
    }
}
