//! The numbers of one snapshot.

use std::collections::BTreeMap;

/// The counters of one snapshot.
#[derive(Debug, Default)]
pub(super) struct CounterValues {
    pub counters: BTreeMap<String, CounterValue>,
    pub gauges: BTreeMap<String, f64>,
    pub unavailable: BTreeMap<String, String>,
}

/// One counter of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterValue {
    value: i64,
    direction: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    UpAndDown,
}

impl CounterValues {
    /// Adds a counter that only rises.
    pub fn count(&mut self, name: impl Into<String>, value: i64) {
        self.counters.insert(name.into(), CounterValue { value, direction: Direction::Up });
    }

    /// Adds a counter that may also go down.
    pub fn level(&mut self, name: impl Into<String>, value: i64) {
        self.counters.insert(name.into(), CounterValue { value, direction: Direction::UpAndDown });
    }

    /// Adds a value whose differences are meaningless.
    pub fn gauge(&mut self, name: impl Into<String>, value: f64) {
        self.gauges.insert(name.into(), value);
    }

    /// Notes what could not be read, and why.
    pub fn unavailable(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.unavailable.insert(name.into(), why.into());
    }

    pub fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.gauges.is_empty() && self.unavailable.is_empty()
    }

    pub fn extend(&mut self, other: CounterValues) {
        self.counters.extend(other.counters);
        self.gauges.extend(other.gauges);
        self.unavailable.extend(other.unavailable);
    }
}

impl CounterValue {
    /// The change since an earlier value. A counter that only rises but fell was reset or
    /// wrapped, an unknown number of times: its change is unknown.
    pub fn since(&self, earlier: &CounterValue) -> Result<i64, String> {
        match self.value.checked_sub(earlier.value) {
            Some(delta) if delta >= 0 || self.direction == Direction::UpAndDown => Ok(delta),
            _ => Err(format!("fell from {} to {}: reset or wrapped", earlier.value, self.value)),
        }
    }
}
