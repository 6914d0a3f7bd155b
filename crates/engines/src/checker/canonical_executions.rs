//! The hash of an execution: its events, what they read, and their order, whatever order the search added them in.

use super::canonical_views::Renumbering;
use super::executions::{Bits, Event, Kind, NOBODY, set};
use super::hash::mix;
use super::request::ones;
use super::views::bits;
use super::world::World;

/// Kinds of things that are hashed.
const EVENT: u64 = 11 << 60;
const CONTROL: u64 = 12 << 60;

impl World {
    /// A hash of the execution under this renumbering.
    pub fn hash_executions(&self, renumbering: &Renumbering) -> u64 {
        let executions = &self.state.executions;
        let ids = self.event_ids(renumbering);
        let several = |events: Bits| {
            set(events).fold(0_u64, |sum, event| sum.wrapping_add(mix(ids[event], EVENT)))
        };
        let mut sum = 0_u64;
        for (id, event) in executions.events.iter().enumerate() {
            let mut hash = mix(ids[id], self.hash_event(event, renumbering));
            for events in [event.from, event.before, event.address, event.data, event.control] {
                hash = mix(hash, several(events));
            }
            if event.kind == Kind::Write {
                let order = executions.order(event.cell).iter().map(|&one| usize::from(one));
                let earlier = order.take_while(|&one| one != id);
                let overlaps = |one: &usize| executions.events[*one].words & event.words != 0;
                let earlier = earlier.filter(overlaps).fold(0, |all: Bits, one| all | 1 << one);
                hash = mix(hash, several(earlier));
            }
            sum = sum.wrapping_add(hash);
        }
        for (task, &locals) in executions.controls.iter().enumerate() {
            let controls = executions.named(task, locals);
            if controls != 0 {
                let number = u64::from(renumbering.numbers[task]);
                sum = sum.wrapping_add(mix(CONTROL | number, several(controls)));
            }
        }
        sum
    }

    /// The identity of each event: its task, and its place among those of its task that are kept. Where tasks name their
    /// reads by number, that number.
    fn event_ids(&self, renumbering: &Renumbering) -> Vec<u64> {
        let events = &self.state.executions.events;
        let ids = events.iter().map(|event| {
            let is_earlier = |other: &&super::executions::Event| {
                other.task == event.task && !other.is_promise && other.local < event.local
            };
            if event.task == NOBODY {
                return EVENT | (renumbering.word_id)(usize::from(event.cell)) << 8 | 0xFF;
            }
            let number = u64::from(renumbering.numbers[usize::from(event.task)]);
            if event.is_promise {
                let cell = (renumbering.word_id)(usize::from(event.cell));
                return mix(EVENT | 1 << 58 | number, cell << 8 | u64::from(event.words));
            }
            let place = if self.layout.names_reads {
                u64::from(event.local)
            } else {
                events.iter().filter(is_earlier).count() as u64
            };
            EVENT | 1 << 59 | place << 8 | number
        });
        ids.collect()
    }

    fn hash_event(&self, event: &Event, renumbering: &Renumbering) -> u64 {
        let Event { kind, strength, is_plain, is_update, words, mask, value, cell, .. } = *event;
        if let Kind::Fence(barrier) = kind {
            return mix(EVENT, 16 + barrier as u64);
        }
        let first = usize::from(cell);
        let flags = u64::from(is_plain) | u64::from(is_update) << 1 | (strength as u64) << 2;
        let kind = u64::from(kind == Kind::Write);
        let mut hash =
            mix((renumbering.word_id)(first), flags << 16 | kind << 8 | u64::from(words));
        for bit in bits(words.into()) {
            let word = &self.layout.words[first + bit];
            let shift = 8 * (word.offset & 7);
            let value = (value & mask) >> shift & ones(word.size);
            hash = mix(hash, (renumbering.value)(first + bit, value));
        }
        hash
    }
}
