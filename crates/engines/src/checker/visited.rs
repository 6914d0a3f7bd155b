//! The states that were visited, by fingerprint: a table with open addressing. A state with
//! the fingerprint of another would be missed; of n states, that happens with a probability
//! below n²/2⁶⁵.

/// Whether a state is new, being searched, or done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is now in the table, as open.
    New,
    /// Open, with this number.
    Open(u32),
    /// All that follows was searched.
    Closed,
}

/// Fingerprints, with the number of each open state.
#[derive(Debug)]
pub struct Visited {
    slots: Vec<Slot>,
    length: usize,
}

/// A fingerprint and its number beside it, on one line of the cache.
#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    /// 0: closed.
    number: u32,
}

const EMPTY: Slot = Slot { key: 0, number: 0 };

impl Visited {
    pub fn new() -> Visited {
        Visited { slots: vec![EMPTY; 1024], length: 0 }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// Looks a fingerprint up, and enters it as open with this number, above 0, if it is new.
    pub fn enter(&mut self, fingerprint: u64, number: u32) -> Seen {
        if (self.length + 1) * 5 > self.slots.len() * 4 {
            self.grow();
        }
        let slot = self.slot(key(fingerprint));
        if slot.key == EMPTY.key {
            *slot = Slot { key: key(fingerprint), number };
            self.length += 1;
            return Seen::New;
        }
        match slot.number {
            0 => Seen::Closed,
            number => Seen::Open(number),
        }
    }

    /// Closes an open state.
    pub fn close(&mut self, fingerprint: u64) {
        self.slot(key(fingerprint)).number = 0;
    }

    /// Where it is, or would be.
    fn slot(&mut self, key: u64) -> &mut Slot {
        let mask = self.slots.len() - 1;
        let mut place = (key >> 20) as usize & mask;
        while self.slots[place].key != EMPTY.key && self.slots[place].key != key {
            place = (place + 1) & mask;
        }
        &mut self.slots[place]
    }

    fn grow(&mut self) {
        let larger = self.slots.len() * 2;
        let slots = std::mem::replace(&mut self.slots, vec![EMPTY; larger]);
        for slot in slots.into_iter().filter(|slot| slot.key != EMPTY.key) {
            *self.slot(slot.key) = slot;
        }
    }
}

/// No fingerprint is taken for an empty slot.
fn key(fingerprint: u64) -> u64 {
    fingerprint.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_entered_is_found_again_after_growing() {
        let mut visited = Visited::new();
        let fingerprint = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for n in 0..10_000 {
            assert_eq!(visited.enter(fingerprint(n), n as u32 + 1), Seen::New);
        }
        visited.close(fingerprint(0));
        assert_eq!(visited.enter(fingerprint(0), 1), Seen::Closed);
        assert_eq!(visited.enter(fingerprint(7), 1), Seen::Open(8));
        assert_eq!(visited.len(), 10_000);
    }
}
