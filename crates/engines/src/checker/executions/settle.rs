//! Drops events that no new cycle can pass, under the rules of Armv8.
//!
//! What comes before all that every task will ever do is in no new cycle: a new event would come before it, and it before that
//! event. Nor can anybody read behind such a write, or write before it. So it may go, if all that it rests on goes, too: a set
//! that contains whatever comes before its members, and of the writes of each word the first ones.

use super::{Bits, Event, Executions, Kind, NOBODY, armv8, set};

impl Executions {
    /// Drops events that no longer matter to these tasks, which are all that have not ended.
    pub fn settle(&mut self, live: &[u8]) {
        if self.events.is_empty() {
            return;
        }
        let all = (0..self.events.len()).fold(0, |all: Bits, id| all | 1 << id);
        let mut over = live.iter().fold(all, |over, &task| over & armv8::before_all(self, task));
        over &= !self.promised();
        over &= !self.of_task(NOBODY).fold(0, |all, (id, _)| all | 1 << id);
        loop {
            let stays = set(over).filter(|&id| !self.may_go(id, over));
            let stays: Bits = stays.fold(0, |all, id| all | 1 << id);
            if stays == 0 {
                break;
            }
            over &= !stays;
        }
        if over != 0 {
            self.merge(over);
            self.drop_events(over);
        }
        self.drop_memory();
    }

    /// Forgets what a task has read since it had this many events.
    pub fn forget(&mut self, task: usize, since: u8) {
        let late = self.of_task(task as u8).filter(|(_, event)| event.local >= since);
        let late = late.fold(0, |all: Bits, (id, _)| all | 1 << id);
        self.drop_events(late);
        self.counts[task] = since;
        let reads = self.of_task(task as u8).filter(|(_, event)| event.kind == Kind::Read);
        self.last_reads[task] = reads.map(|(_, event)| event.local).max();
        self.controls[task] &= (1 << since) - 1;
        self.drop_memory();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.events.clear();
        self.writes.clear();
    }

    /// Whether all that an event rests on is in this set.
    fn may_go(&self, id: usize, over: Bits) -> bool {
        let event = &self.events[id];
        let nobody = self.of_task(NOBODY).fold(0, |all: Bits, (id, _)| all | 1 << id);
        let before = event.before | self.external_before(id);
        if before & !over & !nobody != 0 {
            return false;
        }
        let mut earlier = self.order(event.cell).iter().map(|&one| usize::from(one));
        event.kind != Kind::Write
            || earlier.by_ref().take_while(|&one| one != id).all(|one| {
                let overlaps = self.events[one].words & event.words != 0;
                !overlaps || (over | nobody) >> one & 1 != 0
            })
    }

    /// Makes these writes a part of what memory held at first.
    fn merge(&mut self, over: Bits) {
        let mut nobody: Vec<(usize, u16)> =
            self.of_task(NOBODY).map(|(id, event)| (id, event.cell)).collect();
        for (first, cell) in nobody.drain(..) {
            let mut value = self.events[first].value;
            let mut gone: Bits = 0;
            for &id in self.order(cell) {
                if over >> id & 1 != 0 {
                    let Event { mask, value: new, .. } = self.events[usize::from(id)];
                    value = value & !mask | new;
                    gone |= 1 << id;
                }
            }
            self.events[first].value = value;
            for event in &mut self.events {
                if event.from & gone != 0 {
                    event.from = event.from & !gone | 1 << first;
                }
            }
        }
    }

    /// Removes events and numbers the others anew.
    fn drop_events(&mut self, over: Bits) {
        let renumbered = |events: Bits| {
            set(events & !over).fold(0, |all: Bits, id| {
                let lower = (1 << id) - 1;
                all | 1 << (id as u32 - (over & lower).count_ones())
            })
        };
        for event in &mut self.events {
            let bits = [
                &mut event.from,
                &mut event.address,
                &mut event.data,
                &mut event.control,
                &mut event.before,
            ];
            bits.into_iter().for_each(|bits| *bits = renumbered(*bits));
        }
        let mut id = 0;
        self.events.retain(|_| {
            id += 1;
            over >> (id - 1) & 1 == 0
        });
        self.writes.retain(|&id| over >> id & 1 == 0);
        for id in &mut self.writes {
            let lower = (1 << *id) - 1;
            *id -= (over & lower).count_ones() as u8;
        }
    }

    /// Drops what memory held at first, of cells that no event is in any more.
    fn drop_memory(&mut self) {
        let is_alone = |event: &Event| {
            let others = self
                .events
                .iter()
                .filter(|other| other.cell == event.cell && !matches!(other.kind, Kind::Fence(_)));
            event.task == NOBODY && others.count() == 1
        };
        let alone = self.events.iter().enumerate().filter(|(_, event)| is_alone(event));
        let alone = alone.fold(0, |all: Bits, (id, _)| all | 1 << id);
        if alone != 0 {
            self.drop_events(alone);
        }
    }
}
