//! Records on disk: the golden record loads for ever, and whatever kills a writer, at
//! whatever step, leaves a record that can be read, with exactly the runs that counted.

mod golden;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use records::{Growing, Id, Index, Opened, Run, Sample, State, Store};

/// Writes the golden record anew, into a folder of its own, when asked to.
#[test]
fn the_golden_record_can_be_made_again() {
    let asked = std::env::var_os("KNEE_WRITE_GOLDEN").map(PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(asked.unwrap_or(folder.path().to_path_buf()));
    let mut growing = store.begin(golden::plan(), golden::id()).unwrap();
    add(&mut growing, golden::RUNS);
    growing.finish(golden::at(640)).unwrap().unwrap();
}

/// Adds runs up to this number.
fn add(growing: &mut Growing, up_to: u32) {
    while growing.next_run() < up_to {
        let (run, samples) = golden::run(growing.next_run());
        growing.append(&run, samples).unwrap();
    }
}
