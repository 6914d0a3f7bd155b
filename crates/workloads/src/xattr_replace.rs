//! New values for the extended attributes of a file of the task's own.
//!
//! Each task gives its `names` attributes new values in turn, each as long as the old one
//! and never equal to it. Nothing is allocated or freed in between, so of the xattr
//! workloads that change something this one is the purest. Attributes are metadata: on
//! journalling file systems each change is a transaction, and what tasks share, and what
//! bends the curve, is the log.

use libc::XATTR_REPLACE;

use crate::user_xattr::{self, UserXattrs};
use crate::{Failure, Family, Forms, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one fsetxattr that replaces the value of an attribute (XATTR_REPLACE)",
    forms: Forms::Both,
    parameters: user_xattr::PARAMETERS,
    needs: user_xattr::NEEDS,
    prepare: |load| {
        user_xattr::prepare(load, |attributes| {
            Ok(Box::new(Replacer { attributes, next: 0, replaced: 0 }))
        })
    },
};

struct Replacer {
    attributes: UserXattrs,
    /// The next attribute; `names` at the end of a pass.
    next: u64,
    replaced: u64,
}

impl Task for Replacer {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.attributes.names {
            self.attributes.rewind();
            self.next = 0;
        }
        self.attributes.set("fsetxattr of a new value", XATTR_REPLACE)?;
        self.next += 1;
        self.replaced += 1;
        Ok(())
    }

    /// No attribute came or went, and each has the value last set.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.replaced != operations {
            return Err(Failure::new(format!(
                "{operations} replacements counted, but {} made",
                self.replaced
            )));
        }
        let names = self.attributes.names;
        self.attributes.check_count(names)?;
        self.attributes.check_values(names)
    }
}
