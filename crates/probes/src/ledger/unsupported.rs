//! The watcher of a knee built without BPF, which cannot watch and says so.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{Observations, SamplingStep, WatchPlan};

/// Has no values: [`Watcher::begin`] always fails.
#[derive(Debug)]
pub enum Watcher {}

impl Watcher {
    /// Always an error.
    pub fn begin(_plan: WatchPlan) -> Result<Watcher, String> {
        Err("this knee was built without BPF: install clang, libelf-dev and zlib1g-dev, then \
             rebuild it (make build)"
            .to_string())
    }

    pub fn operations(&self) -> BorrowedFd<'_> {
        match *self {}
    }

    pub fn marker(&self) -> super::Marker {
        match *self {}
    }

    pub fn schedule(&self, _end_ns: u64, _windows: u64) -> Vec<(u64, SamplingStep)> {
        match *self {}
    }

    pub fn burst(&mut self, _length: Duration, _at_ns: u64) -> Result<(), String> {
        match *self {}
    }

    pub fn take_snapshot(&mut self, _task_clock_ns: u64) -> Result<(), String> {
        match *self {}
    }

    pub fn drain(&mut self) {
        match *self {}
    }

    pub fn end(self) -> Observations {
        match self {}
    }
}
