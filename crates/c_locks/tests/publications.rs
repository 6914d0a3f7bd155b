//! The publications of publications/with-c: each file can be read, and its locks in C are locks.

use std::path::Path;
use std::sync::Arc;

use c_locks::compile;
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::refuse_faulty;
use studies::replays::read_publication;

#[test]
fn every_publication_with_locks_in_c_names_locks_without_fault_and_known_hosts_and_inputs() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../publications/with-c"));
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    assert!(files.len() >= 2, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let publication = read_publication(&path, &text, &|file| {
            let program = compile(&Permitted::typed(file.to_path_buf()), &[])?;
            let lock = Subject::InC(Arc::new(program));
            refuse_faulty(&lock)?;
            Ok(lock)
        });
        let publication = publication.unwrap_or_else(|why| panic!("{why:#}"));
        assert!(!publication.limitations.is_empty(), "{}", publication.name);
    }
}
