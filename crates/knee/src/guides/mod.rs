//! The guides of `docs/`, which are in the binary, compressed.

mod search;

use std::sync::LazyLock;

use crate::packed::Packed;

pub use search::{Found, SCREEN, search};

/// A guide.
#[derive(Clone, Copy, Debug)]
pub struct Guide {
    /// Its path below `docs/`, without the ending: `guide/bisect`.
    pub path: &'static str,
    /// Markdown.
    pub text: &'static str,
}

impl Guide {
    /// What one types: `bisect`; of a folder's own page, the folder.
    pub fn name(&self) -> &'static str {
        let path = self.path.strip_suffix("/README").unwrap_or(self.path);
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Its first heading.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

/// All of them, by path.
pub fn all() -> impl Iterator<Item = Guide> {
    static GUIDES: LazyLock<Packed> =
        LazyLock::new(|| Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/guides.txt.gz"))));
    GUIDES.texts().map(|(path, text)| Guide { path, text })
}

/// The guide of this name: `bisect`, or with its folder where a name has several, `lab/ledger`. Of these, the one for users.
pub fn named(name: &str) -> Option<Guide> {
    let is_it = |guide: &Guide| guide.path == name || guide.name() == name;
    // Users' folders come first.
    let order = |guide: &Guide| {
        ["guide", "reading"].iter().position(|folder| guide.path.starts_with(folder)).unwrap_or(9)
    };
    all().filter(is_it).min_by_key(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guides_have_names_and_titles() {
        let check = |name: &str, path: Option<&str>| {
            assert_eq!(named(name).map(|guide| guide.path), path, "{name}");
        };
        check("bisect", Some("guide/bisect"));
        check("ledger", Some("reading/ledger"));
        check("lab/ledger", Some("lab/ledger"));
        check("incidents", Some("incidents/README"));
        check("bisection", None);
        for guide in all() {
            assert!(guide.text.starts_with("# ") && !guide.title().is_empty(), "{}", guide.path);
        }
    }
}
