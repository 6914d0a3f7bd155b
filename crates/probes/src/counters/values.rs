//! The numbers of one snapshot.

use std::collections::BTreeMap;

/// What the sources of one snapshot say.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub counters: BTreeMap<String, Count>,
    pub gauges: BTreeMap<String, f64>,
    pub unavailable: BTreeMap<String, String>,
}

/// One counter of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    value: i64,
    falls: Falls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Falls {
    Never,
    Sometimes,
}

impl Values {
    /// A counter that only rises.
    pub fn count(&mut self, name: impl Into<String>, value: i64) {
        self.counters.insert(name.into(), Count { value, falls: Falls::Never });
    }

    /// A counter that may go down as well.
    pub fn level(&mut self, name: impl Into<String>, value: i64) {
        self.counters.insert(name.into(), Count { value, falls: Falls::Sometimes });
    }

    /// A value whose difference says nothing.
    pub fn gauge(&mut self, name: impl Into<String>, value: f64) {
        self.gauges.insert(name.into(), value);
    }

    /// Something that could not be read.
    pub fn unavailable(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.unavailable.insert(name.into(), why.into());
    }

    pub fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.gauges.is_empty() && self.unavailable.is_empty()
    }

    pub fn extend(&mut self, other: Values) {
        self.counters.extend(other.counters);
        self.gauges.extend(other.gauges);
        self.unavailable.extend(other.unavailable);
    }
}

impl Count {
    /// By how much it moved. A counter that only rises and went down was reset or
    /// wrapped; how often nobody knows, so there is no number to give.
    pub fn since(&self, earlier: &Count) -> Result<i64, String> {
        match self.value.checked_sub(earlier.value) {
            Some(delta) if delta >= 0 || self.falls == Falls::Sometimes => Ok(delta),
            _ => Err(format!("went from {} to {}: reset or wrapped", earlier.value, self.value)),
        }
    }
}
