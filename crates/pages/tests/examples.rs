//! The example pages in the documentation look as pages do now.

use std::fs;
use std::path::Path;

use answers::ConflictAnswer;
use pages::{Purpose, policy};

#[test]
fn example_pages_have_the_style_of_today() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let policy = policy(Purpose::FileWithoutScripts).replace('\'', "&#39;");
    let mut pages = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "html") {
            continue;
        }
        let html = fs::read_to_string(&path).unwrap();
        let stale = "is not what knee writes today: make examples";
        assert!(html.contains(&policy), "{} {stale}", path.display());
        assert!(!html.contains("<script") && html.len() < 60_000, "{}", path.display());
        pages += 1;
    }
    assert_eq!(pages, 6, "a page for each incident, and one of pairs");
}

/// Counts of emulated CPUs, kept as `knee conflicts --json` printed them.
#[test]
fn the_page_of_pairs_is_what_its_answer_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let answer: ConflictAnswer = serde_json::from_str(&read("pairs.json")).unwrap();
    let page = pages::html(&pages::conflicts(&answer), Purpose::FileWithoutScripts);
    assert!(page == read("pairs.html"), "pairs.html is not what knee writes today: make examples");
}
