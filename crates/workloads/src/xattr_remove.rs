//! Removal of the extended attributes of a file of the task's own.
//!
//! An attribute can be removed only once: each task removes the `names` attributes of its
//! file in turn, and when none is left the next operation sets them all again. Only a run
//! of at most `names` operations per task is nothing but removals; the rate of a longer
//! one is that of one removal and one set (see xattr_set) together, and the latencies of
//! single operations separate the two. One extra attribute always stays, so that no block
//! is freed and allocated with the others. On journalling file systems each removal is a
//! transaction, and what tasks share, and what bends the curve, is the log.

use crate::user_xattr::{self, UserXattrs};
use crate::{Failure, Family, Forms, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one fremovexattr; all attributes set again after every `names` of them",
    forms: Forms::Both,
    parameters: user_xattr::PARAMETERS,
    needs: user_xattr::NEEDS,
    prepare: |load| {
        user_xattr::prepare(load, |attributes| {
            attributes.keep_one()?;
            Ok(Box::new(Remover { attributes, removed: 0 }))
        })
    },
};

struct Remover {
    attributes: UserXattrs,
    /// Attributes removed since all were set.
    removed: u64,
}

impl Task for Remover {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.removed == self.attributes.names {
            self.attributes.fill()?;
            self.removed = 0;
        }
        self.attributes.remove()?;
        self.removed += 1;
        Ok(())
    }

    /// The file has exactly the attributes not removed since all were set, with their values.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let names = self.attributes.names;
        if self.removed % names != operations % names {
            return Err(Failure::new(format!(
                "{operations} removals counted, but {} of {names} attributes are gone",
                self.removed
            )));
        }
        self.attributes.check_count(names - self.removed)?;
        self.attributes.check_values(names - self.removed)
    }
}
