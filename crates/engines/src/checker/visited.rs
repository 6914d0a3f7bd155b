//! The states that were visited, by fingerprint, in a hash table with open addressing. A state
//! whose fingerprint collides with another's is missed; among n states that happens with a
//! probability below n²/2⁶⁵.

/// Whether a state is new, still being searched, or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Entered into the table now, as open.
    New,
    /// Open, with this number.
    Open(u32),
    /// All states that follow it were searched.
    Closed,
}

/// Fingerprints, with the number of each open state.
#[derive(Debug)]
pub struct Visited {
    slots: Vec<Slot>,
    length: usize,
}

/// A fingerprint and its number, side by side on one cache line.
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
    pub fn enter(&mut self, fingerprint: u64, number: u32) -> Visit {
        if (self.length + 1) * 5 > self.slots.len() * 4 {
            self.grow();
        }
        let slot = self.slot(key(fingerprint));
        if slot.key == EMPTY.key {
            *slot = Slot { key: key(fingerprint), number };
            self.length += 1;
            return Visit::New;
        }
        match slot.number {
            0 => Visit::Closed,
            number => Visit::Open(number),
        }
    }

    /// Closes an open state.
    pub fn close(&mut self, fingerprint: u64) {
        self.slot(key(fingerprint)).number = 0;
    }

    /// The slot that holds the key, or the empty one where it would go.
    fn slot(&mut self, key: u64) -> &mut Slot {
        let mask = self.slots.len() - 1;
        let mut index = (key >> 20) as usize & mask;
        while self.slots[index].key != EMPTY.key && self.slots[index].key != key {
            index = (index + 1) & mask;
        }
        &mut self.slots[index]
    }

    fn grow(&mut self) {
        let larger = self.slots.len() * 2;
        let slots = std::mem::replace(&mut self.slots, vec![EMPTY; larger]);
        for slot in slots.into_iter().filter(|slot| slot.key != EMPTY.key) {
            *self.slot(slot.key) = slot;
        }
    }
}

/// The key of a fingerprint: never that of an empty slot.
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
            assert_eq!(visited.enter(fingerprint(n), n as u32 + 1), Visit::New);
        }
        visited.close(fingerprint(0));
        assert_eq!(visited.enter(fingerprint(0), 1), Visit::Closed);
        assert_eq!(visited.enter(fingerprint(7), 1), Visit::Open(8));
        assert_eq!(visited.len(), 10_000);
    }
}
