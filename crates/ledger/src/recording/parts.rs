//! The parts of a recording that its intervals rest on: short slices, dealt out to the units in turn.
//!
//!     slice   0 1 2 … 9 10 11 … 19 20 …
//!     unit    0 1 2 … 9  0  1 …  9  0 …
//!
//! A program starts, works and ends. Slices in turn give each unit as much of each phase, so that units differ by
//! chance alone; ten windows, one after the other, would differ by phase.

use records::recording::Recording;

/// Units: enough for meaningful intervals.
const UNITS: usize = 10;
/// Slices of a recording.
const SLICES: u64 = 100;
/// Longer than anybody records, and short enough that sums over all CPUs do not overflow.
const SPAN_NS_MAX: u64 = 1 << 50;

/// A recording's time, divided.
pub(super) struct Parts {
    pub start: u64,
    /// The end of each slice.
    ends: Vec<u64>,
    /// Number of units.
    pub units: usize,
}

impl Parts {
    pub fn new(recording: &Recording) -> Parts {
        let (start, end) = recording.span_ns();
        let span = end - start;
        // Without times, or with times that no clock can have shown, there is a single part.
        let (slices, units) =
            if (SLICES..SPAN_NS_MAX).contains(&span) { (SLICES, UNITS) } else { (1, 1) };
        let end_of =
            |slice: u64| start + (u128::from(span) * u128::from(slice) / u128::from(slices)) as u64;
        Parts { start, ends: (1..=slices).map(end_of).collect(), units }
    }

    pub fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.start)
    }

    /// Length of each slice.
    pub fn slices(&self) -> Vec<u64> {
        let starts = std::iter::once(self.start).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, to)| to - from).collect()
    }

    /// Length of each unit.
    pub fn lengths(&self) -> Vec<u64> {
        let mut lengths = vec![0; self.units];
        self.slices().into_iter().enumerate().for_each(|(s, ns)| lengths[s % self.units] += ns);
        lengths
    }

    /// The unit of a moment.
    pub fn unit(&self, time_ns: u64) -> usize {
        let slice = self.ends.partition_point(|end| *end < time_ns);
        slice.min(self.ends.len() - 1) % self.units
    }

    /// Cuts the time from `from` to `to` at the ends of slices, and passes the slice and its time to `add`.
    pub fn each_slice(&self, from: u64, to: u64, mut add: impl FnMut(usize, u64)) {
        let mut start = from;
        let mut slice = self.ends.partition_point(|end| *end <= from);
        while start < to && slice < self.ends.len() {
            let end = to.min(self.ends[slice]);
            add(slice, end - start);
            start = end;
            slice += 1;
        }
    }

    /// Cuts the time from `from` to `to`, and adds each part to that of its unit.
    pub fn add(&self, from: u64, to: u64, of_units: &mut [u64]) {
        self.each_slice(from, to, |slice, ns| of_units[slice % self.units] += ns);
    }
}
