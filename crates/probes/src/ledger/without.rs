//! A knee that was built without BPF: says so, and sees nothing.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{Moment, Plan, Seen};

/// Nothing can make one.
#[derive(Debug)]
pub enum Watcher {}

impl Watcher {
    /// Always an error: this knee cannot watch.
    pub fn begin(_plan: Plan) -> Result<Watcher, String> {
        Err("this knee was built without BPF: install clang, libelf-dev and zlib1g-dev, and build \
             it again (make build)"
            .to_string())
    }

    /// Memory for the operation counts of the tasks.
    pub fn operations(&self) -> BorrowedFd<'_> {
        match *self {}
    }

    /// Marks tasks as the workload's.
    pub fn marker(&self) -> super::Marker {
        match *self {}
    }

    /// When to do what.
    pub fn moments(&self, _end_ns: u64, _windows: u64) -> Vec<(u64, Moment)> {
        match *self {}
    }

    /// Counts for so long what is counted in bursts.
    pub fn burst(&mut self, _length: Duration, _at_ns: u64) -> Result<(), String> {
        match *self {}
    }

    /// Takes an edge between two windows.
    pub fn edge(&mut self, _task_clock_ns: u64) -> Result<(), String> {
        match *self {}
    }

    /// Empties what would overflow.
    pub fn drain(&mut self) {
        match *self {}
    }

    /// What was seen.
    pub fn end(self) -> Seen {
        match self {}
    }
}
