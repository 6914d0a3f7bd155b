//! The names of all extended attributes of a file of the task's own.
//!
//! Nothing changes and nothing waits for the disk: the names come from the cached inode
//! or block. Where each file has its own lock for attributes (ext4, xfs, tmpfs), tasks
//! share none and should scale nearly like getppid. The cost of a call grows with `names`:
//! compare only runs of equal `names`.

use crate::user_xattr::{self, LIST_BYTES, UserXattrs};
use crate::{Failure, Family, Forms, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one flistxattr of all names",
    forms: Forms::Both,
    parameters: user_xattr::PARAMETERS,
    needs: user_xattr::NEEDS,
    prepare: |load| {
        user_xattr::prepare(load, |attributes| {
            Ok(Box::new(Lister { attributes, list: vec![0; LIST_BYTES], listed_bytes: 0 }))
        })
    },
};

struct Lister {
    attributes: UserXattrs,
    list: Vec<u8>,
    /// The total length of all lists.
    listed_bytes: u64,
}

impl Task for Lister {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.listed_bytes += self.attributes.list(&mut self.list)? as u64;
        Ok(())
    }

    /// One more list has every name, and all counted lists had its length.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        self.attributes.check_count(self.attributes.names)?;
        let each_bytes = self.attributes.list(&mut self.list)? as u64;
        let expected = operations.wrapping_mul(each_bytes);
        if self.listed_bytes == expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{operations} lists of {each_bytes} bytes counted, but {} bytes listed",
            self.listed_bytes
        )))
    }
}
