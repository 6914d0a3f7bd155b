//! The picture of the README is what knee draws of a record of a real run, which is kept beside the tests. UPDATE_EXPECT=1
//! draws it anew.

use std::fs;

use expect_test::expect_file;

use crate::home::Home;

/// PostgreSQL asked by more and more clients.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/picture/20261130-105859-3d25a0");

#[test]
fn the_readme_shows_what_knee_draws() {
    let home = Home::new();
    let drawn = home.path("drawn.svg");
    let ended = home.run(&format!("show {RECORD} --svg {}", drawn.display()));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let picture = fs::read_to_string(drawn).unwrap();
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/images/clients.svg")]
        .assert_eq(&picture);
    // What stands below it in words.
    let scaling = home.run(&format!("show {RECORD}")).stdout;
    assert!(
        scaling.contains("past 2 clients the rate falls, by 46 % (33 to 57) up to 32"),
        "{scaling}"
    );
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    assert!(readme.contains("past two clients") && readme.contains("by 46 % (33 to 57) up to 32]"));
}
