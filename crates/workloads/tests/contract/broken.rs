//! Workloads that break the contract, each in one way: the contract must find it.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use workloads::{Control, Failure, Family, Forms, Load, Prepared, Spec, Task, TaskForm};

use crate::Check;
use crate::run::{self, Ending, Outcome, Run};

/// The checks, by name.
pub const CHECKS: &[Check] = &[
    ("a_sound_workload_passes", || check(Flaw::None, None)),
    ("an_operation_counted_twice_is_found", || {
        check(Flaw::CountsTwice, Some("200 operations counted, but 100 done"))
    }),
    ("an_operation_too_many_is_found", || {
        check(Flaw::OverrunsLimit, Some("201 operations instead of 200"))
    }),
    ("a_wrong_sum_is_found", || check(Flaw::WrongSum, Some("verification of all tasks"))),
    ("an_open_descriptor_is_found", || {
        check(Flaw::LeaksDescriptor, Some("descriptors are left open"))
    }),
    ("a_file_elsewhere_is_found", || check(Flaw::LeavesFile, Some("left outside"))),
    ("a_panic_is_found", || check(Flaw::Panics, Some("panicked"))),
    ("a_crash_is_found", || check(Flaw::Crashes, Some("wait status"))),
    ("a_task_that_cannot_be_interrupted_is_found", || {
        check(Flaw::IgnoresInterrupts, Some("tasks to stop"))
    }),
];

#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    CountsTwice,
    OverrunsLimit,
    WrongSum,
    LeaksDescriptor,
    LeavesFile,
    Panics,
    Crashes,
    IgnoresInterrupts,
}

/// A workload with this flaw fails with `expected` in both forms; one without passes.
fn check(flaw: Flaw, expected: Option<&str>) -> Result<(), String> {
    let must_hang = flaw == Flaw::IgnoresInterrupts;
    let ending = if must_hang { Ending::Stop } else { Ending::Count };
    for form in [TaskForm::Processes, TaskForm::Threads] {
        let phase_max = Duration::from_secs(if must_hang { 1 } else { 30 });
        let outcome = run::check(&Run { phase_max, ..Run::new(spec(flaw), form, 3, ending) });
        match (outcome, expected) {
            (Outcome::Passed, None) => {}
            (Outcome::Failed(why), Some(part)) if why.contains(part) => {}
            (Outcome::Failed(why), _) => return Err(format!("{form:?}: {why}")),
            (Outcome::Passed, _) => return Err(format!("{form:?}: passed")),
            (Outcome::Skipped(why), _) => return Err(format!("{form:?}: skipped: {why}")),
        }
    }
    Ok(())
}

fn spec(flaw: Flaw) -> &'static Spec {
    macro_rules! with {
        ($($flaw:ident)*) => {
            match flaw {
                $(Flaw::$flaw => {
                    static SPEC: Spec = Spec {
                        semantics: 1,
                        aliases: &[],
                        family: Family::Baseline,
                        operation: "one addition",
                        forms: Forms::Both,
                        parameters: &[],
                        needs: &[],
                        prepare: |load| prepare(load, Flaw::$flaw),
                    };
                    &SPEC
                })*
            }
        };
    }
    with!(None CountsTwice OverrunsLimit WrongSum LeaksDescriptor LeavesFile Panics Crashes
          IgnoresInterrupts)
}

fn prepare(load: &Load, flaw: Flaw) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Adders { flaw, directory: load.directory.clone() }))
}

struct Adders {
    flaw: Flaw,
    directory: PathBuf,
}

impl Prepared for Adders {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        match self.flaw {
            Flaw::LeaksDescriptor => {
                std::mem::forget(File::open("/dev/null").expect("/dev/null opens"));
            }
            Flaw::LeavesFile => {
                let path = self.directory.with_file_name(format!("left-{index}"));
                File::create(path).expect("a file in a fresh directory");
            }
            _ => {}
        }
        Ok(Box::new(Adder { flaw: self.flaw, done: 0 }))
    }

    fn verify(&self, _: u64) -> Result<(), Failure> {
        match self.flaw {
            Flaw::WrongSum => Err(Failure::new("the sum is wrong")),
            _ => Ok(()),
        }
    }
}

struct Adder {
    flaw: Flaw,
    done: u64,
}

impl Task for Adder {
    fn operate(&mut self) -> Result<(), Failure> {
        self.done += 1;
        match self.flaw {
            Flaw::Panics => panic!("as asked"),
            // SAFETY: no preconditions.
            Flaw::Crashes => unsafe { libc::abort() },
            // Sleeps on when interrupted.
            Flaw::IgnoresInterrupts if self.done > 10 => {
                std::thread::sleep(Duration::from_secs(60));
            }
            _ => {}
        }
        Ok(())
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.done == operations {
            return Ok(());
        }
        Err(Failure::new(format!("{operations} operations counted, but {} done", self.done)))
    }

    fn drive(&mut self, control: &Control) -> Result<(), Failure> {
        let (each, limit) = match self.flaw {
            Flaw::CountsTwice => (2, control.limit),
            Flaw::OverrunsLimit => (1, control.limit + 1),
            _ => (1, control.limit),
        };
        let mut done = 0;
        while done < limit && control.stop.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            self.operate()?;
            done += each;
            control.count.store(done, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(())
    }
}
