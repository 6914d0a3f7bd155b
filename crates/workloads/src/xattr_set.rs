//! New extended attributes on a file of the task's own.
//!
//! Each task sets `names` attributes that its file does not have; then the file is full,
//! and the next operation removes them all first. Only a run of at most `names` operations
//! per task is nothing but sets; the rate of a longer one is that of one set and one
//! removal (see xattr_remove) together, and the latencies of single operations separate
//! the two. One extra attribute always stays, so that no block is freed and allocated with
//! the others. On journalling file systems each set is a transaction, and what tasks
//! share, and what bends the curve, is the log. Values differ between tasks: ext4 keeps
//! equal ones in one block.

use libc::XATTR_CREATE;

use crate::user_xattr::{self, UserXattrs};
use crate::{Failure, Family, Forms, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one fsetxattr of a new attribute; all removed again after every `names` of them",
    forms: Forms::Both,
    parameters: user_xattr::PARAMETERS,
    needs: user_xattr::NEEDS,
    prepare: |load| {
        user_xattr::prepare(load, |mut attributes| {
            attributes.keep_one()?;
            attributes.clear()?;
            Ok(Box::new(Setter { attributes, present: 0 }))
        })
    },
};

struct Setter {
    attributes: UserXattrs,
    /// The number of attributes that are set.
    present: u64,
}

impl Task for Setter {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.present == self.attributes.names {
            self.attributes.clear()?;
            self.present = 0;
        }
        self.attributes.set("fsetxattr of a new attribute", XATTR_CREATE)?;
        self.present += 1;
        Ok(())
    }

    /// The file has exactly the attributes set since all were removed, with their values.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let names = self.attributes.names;
        if self.present % names != operations % names {
            return Err(Failure::new(format!(
                "{operations} sets counted, but {} of {names} attributes are there",
                self.present
            )));
        }
        self.attributes.check_count(self.present)?;
        self.attributes.check_values(self.present)
    }
}
