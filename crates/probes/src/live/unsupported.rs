//! Stands for the watcher in a build without BPF.

use std::time::Duration;

use records::live::Carried;

use super::Followed;
use super::operations::PassedFile;

/// Follows tasks; this build cannot.
#[derive(Debug)]
pub enum LiveWatch {}

impl LiveWatch {
    /// Always fails: says what the build lacks.
    pub fn begin(_processes: &[u32], _hertz: u32, _window: Duration) -> Result<LiveWatch, String> {
        Err("this knee was built without BPF (make setup installs clang and libelf-dev)"
            .to_string())
    }

    /// Never called: there is no such value.
    pub fn follow(&mut self, _processes: &[u32]) {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn count(
        &mut self,
        _places: &[PassedFile],
        _event: Option<(&str, &str)>,
    ) -> Result<(), String> {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn operations(&self) -> Result<u64, String> {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn take_in(&mut self) -> Duration {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn edge(&mut self) {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn cut<R>(&mut self, _answer: impl FnOnce(Followed) -> (R, Carried)) -> R {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn has_windows(&self) -> bool {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn is_paid(&self) -> bool {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn rest(&mut self) {
        match *self {}
    }

    /// Never called: there is no such value.
    pub fn end(self) -> Followed {
        match self {}
    }
}
