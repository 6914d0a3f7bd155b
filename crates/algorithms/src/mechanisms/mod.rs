//! Kernel mechanisms, in the designs that they had before and after they scaled.

pub mod file_locks;

use crate::manual;

/// One mechanism.
#[derive(Debug)]
pub struct Mechanism {
    /// The name of its folder and of everything that shows it.
    pub name: &'static str,
    source: &'static str,
}

/// Every mechanism, in alphabetical order.
pub static MECHANISMS: &[Mechanism] =
    &[Mechanism { name: "file_locks", source: include_str!("file_locks/mod.rs") }];

impl Mechanism {
    /// Its manual page: the module doc of its file.
    pub fn manual(&self) -> String {
        manual(self.source)
    }

    /// The first sentence of that.
    pub fn summary(&self) -> String {
        crate::summary(&self.manual())
    }
}
