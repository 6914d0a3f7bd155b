//! Relations between events, as a row of bits for each.

use super::{Bits, set};

/// A relation: for each event, those that it is related to.
#[derive(Clone, Debug)]
pub struct Relation(pub Vec<Bits>);

impl Relation {
    /// The relation of these events that nothing is in.
    pub fn empty(events: usize) -> Relation {
        Relation(vec![0; events])
    }

    pub fn new(events: usize, holds: impl Fn(usize, usize) -> bool) -> Relation {
        let row = |a| (0..events).filter(|&b| holds(a, b)).fold(0, |row, b| row | 1 << b);
        Relation((0..events).map(row).collect())
    }

    pub fn has(&self, a: usize, b: usize) -> bool {
        self.0[a] >> b & 1 != 0
    }

    /// From a to c, if this is from a to some b, and the other from b to c.
    pub fn then(&self, other: &Relation) -> Relation {
        let row = |&row: &Bits| set(row).fold(0, |all, b| all | other.0[b]);
        Relation(self.0.iter().map(row).collect())
    }

    pub fn or(&self, other: &Relation) -> Relation {
        Relation(self.0.iter().zip(&other.0).map(|(a, b)| a | b).collect())
    }

    pub fn and(&self, other: &Relation) -> Relation {
        Relation(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    /// This, or nothing.
    pub fn maybe(&self) -> Relation {
        Relation(self.0.iter().enumerate().map(|(a, row)| row | 1 << a).collect())
    }

    /// One or more times.
    pub fn closed(&self) -> Relation {
        let mut closed = self.clone();
        for middle in 0..self.0.len() {
            let through = closed.0[middle];
            for row in &mut closed.0 {
                if *row >> middle & 1 != 0 {
                    *row |= through;
                }
            }
        }
        closed
    }

    /// What begins in one set and ends in another.
    pub fn only(&self, begins: Bits, ends: Bits) -> Relation {
        let row = |(a, &row): (usize, &Bits)| if begins >> a & 1 != 0 { row & ends } else { 0 };
        Relation(self.0.iter().enumerate().map(row).collect())
    }

    pub fn is_acyclic(&self) -> bool {
        self.closed().0.iter().enumerate().all(|(a, row)| row >> a & 1 == 0)
    }
}
