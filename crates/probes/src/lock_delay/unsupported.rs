//! The delay of a knee built without BPF, which cannot delay and says so.

use super::{Delayed, LockKind};

/// Has no values: [`LockDelay::begin`] always fails.
#[derive(Debug)]
pub enum LockDelay {}

impl LockDelay {
    /// Always an error.
    pub fn begin(_kind: LockKind, _ns: u64) -> Result<LockDelay, String> {
        Err("delaying kernel locks: this knee was built without BPF: install clang, libelf-dev and \
             zlib1g-dev, then rebuild it (make build)"
            .to_string())
    }

    pub fn so_far(&self) -> Result<Delayed, String> {
        match *self {}
    }
}
