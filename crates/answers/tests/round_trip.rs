//! Answers that are formats of files, too, are read and written again without loss.

use std::fs;
use std::path::Path;

use records::{Command, CompiledLoad, Record, Run};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The example of an answer.
fn golden(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    serde_json::from_slice(&fs::read(folder.join(format!("{name}.json"))).unwrap()).unwrap()
}

#[track_caller]
fn check<T: Serialize + DeserializeOwned>(value: Value) {
    let read: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), value);
}

#[test]
fn answers_that_are_files_come_back_as_they_were() {
    check::<Run>(golden("run"));
    let export = golden("record-export");
    check::<Record>(export["record"].clone());
    check::<Vec<Run>>(export["runs"].clone());
    check::<Command>(golden("show-command"));
    check::<CompiledLoad>(golden("show-load"));
}
