//! What could not be read in a run, and why: nearly always the same as in the run before, with which it is shared.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// Sources that could not be read, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unavailable(Arc<BTreeMap<String, String>>);

thread_local! {
    /// What the last run that was read has.
    static LAST: RefCell<Unavailable> = RefCell::default();
}

impl Deref for Unavailable {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl From<BTreeMap<String, String>> for Unavailable {
    fn from(sources: BTreeMap<String, String>) -> Unavailable {
        LAST.with_borrow_mut(|last| {
            if **last != sources {
                *last = Unavailable(Arc::new(sources));
            }
            last.clone()
        })
    }
}

impl Unavailable {
    /// Whether all sources could be read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Unavailable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Unavailable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unavailable, D::Error> {
        BTreeMap::deserialize(deserializer).map(Unavailable::from)
    }
}
