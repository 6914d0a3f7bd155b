//! Another descriptor for an open file, closed again.
//!
//! The file is the task's own and stays open, so nothing happens to it but one reference more and one less: what is
//! left is the file table, its bitmap of free numbers and the lock around it. Processes have a table each. Threads share
//! one, so they contend for that lock; compare with open_close_own, which adds the path and the file.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::{
    Failure, Family, Forms, Load, Need, Prepared, Spec, Task, TaskForm, each_task, files, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["dup1"],
    family: Family::Files,
    operation: "one dup of the task's open file and one close",
    forms: Forms::Both,
    parameters: &[],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let paths = load.task_paths();
    let form = load.form;
    each_task(move |index| {
        let file = files::create(&paths[index])?;
        Ok(Duplicator { file, form, last: None, numbers: 0 })
    })
}

struct Duplicator {
    file: File,
    form: TaskForm,
    /// The last descriptor, closed again.
    last: Option<i32>,
    /// The sum of the descriptors' numbers.
    numbers: u64,
}

impl Task for Duplicator {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // SAFETY: the file is open.
        let copy = sys("dup", unsafe { libc::dup(self.file.as_raw_fd()) })?;
        self.last = Some(copy);
        self.numbers = self.numbers.wrapping_add(copy as u64);
        // SAFETY: the descriptor made above, which nobody else knows.
        sys("close", unsafe { libc::close(copy) }).map(drop)
    }

    /// A process always gets the lowest free number, and it is free again at the end. One more descriptor leads to the
    /// same file.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        use std::os::unix::fs::MetadataExt;
        let copy = self.file.try_clone().map_err(|e| Failure::from_error("dup", e))?;
        let (file, copied) = (files::metadata(&self.file)?, files::metadata(&copy)?);
        if (file.dev(), file.ino()) != (copied.dev(), copied.ino()) {
            return Err(Failure::new("the descriptor's copy leads to another file"));
        }
        let Some(last) = self.last else { return Ok(()) };
        if self.form == TaskForm::Threads {
            // Other threads take and free numbers meanwhile.
            return Ok(());
        }
        let expected = operations.wrapping_mul(last as u64);
        if self.numbers != expected {
            return Err(Failure::new(format!(
                "the numbers of {operations} descriptors sum up to {}, not to {expected}",
                self.numbers
            )));
        }
        drop(copy);
        // SAFETY: asks about a number, open or not.
        if unsafe { libc::fcntl(last, libc::F_GETFD) } >= 0 {
            return Err(Failure::new("the last descriptor is still open"));
        }
        Ok(())
    }
}
