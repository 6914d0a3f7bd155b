//! The example pages in the documentation look as pages do now.

use std::fs;
use std::path::Path;

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
    assert_eq!(pages, 5, "a page for each incident");
}
