//! Links of documents lead to files and headings that exist, here and on the site that is made of them.

use std::collections::BTreeSet;
use std::fs;

use crate::{check, root};

/// The lines of a document that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("    ")
    })
}

/// What a heading is called in addresses: GitHub and mdBook agree where its letters are plain.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || "-_ ".contains(*letter);
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars().filter(is_kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    prose(text).filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// The addresses of links and images in a text. A link may be broken over lines.
fn links(text: &str) -> Vec<String> {
    let text = prose(text).collect::<Vec<_>>().join("\n");
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(address, _)| address.trim().to_string()).collect()
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    check(".md", |path, text| {
        let folder = root().join(path).parent()?.to_path_buf();
        let is_broken = |link: &String| {
            if link.contains("://") || link.starts_with("mailto:") {
                return false;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { root().join(path) } else { folder.join(file) };
            if heading.is_empty() {
                return !target.exists();
            }
            !fs::read_to_string(target).is_ok_and(|text| anchors(&text).contains(heading))
        };
        let broken: Vec<String> = links(text).into_iter().filter(is_broken).collect();
        (!broken.is_empty()).then(|| format!("leads nowhere: {}", broken.join(", ")))
    });
}

#[test]
fn what_the_site_links_to_is_on_it() {
    // `.ci/site` takes along what lies there, besides documents, and makes no link of a folder.
    const TAKEN: [&str; 3] = ["docs", "publications", "packaging/python"];
    const FOLDERS: [&str; 1] = ["bench/results"];
    check(".md", |path, text| {
        if path == "README.md" {
            return None;
        }
        let folder = root().join(path).parent()?.to_path_buf();
        let is_missing = |link: &String| {
            let file = link.split('#').next().unwrap_or_default();
            if link.contains(':') || file.is_empty() || FOLDERS.contains(&file) {
                return false;
            }
            let target = folder.join(file).canonicalize().unwrap_or_default();
            let within = target.strip_prefix(root().canonicalize().unwrap()).ok();
            !within.is_some_and(|path| {
                let is_document = path.extension().is_some_and(|ending| ending == "md");
                is_document || TAKEN.iter().any(|folder| path.starts_with(folder))
            })
        };
        let missing: Vec<String> = links(text).into_iter().filter(is_missing).collect();
        (!missing.is_empty()).then(|| format!("not on the site: {}", missing.join(", ")))
    });
}

#[test]
fn addresses_of_headings_are_as_on_the_site() {
    let check = |heading: &str, expected: &str| assert_eq!(anchor(heading), expected);
    check("## Add a lock", "add-a-lock");
    check("### `--grow`: which rows grow?", "--grow-which-rows-grow");
    check("# A lock in C, as it is", "a-lock-in-c-as-it-is");
}

#[test]
fn each_document_begins_with_a_command() {
    const FIRST_LINES: usize = 9;
    check(".md", |path, text| {
        let is_command = |line: &str| {
            let is_code = line.starts_with("    ") || line.contains('`');
            is_code && ["knee ", "make ", "perf "].iter().any(|word| line.contains(word))
        };
        let begins = text.lines().take(FIRST_LINES).any(is_command);
        (path.starts_with("docs/") && !begins).then(|| "begins with no command".to_string())
    });
}

/// Words of prose in all documents below docs/: what has a letter or a digit between two blanks, but for commands, what they
/// print, and tables. Say a thing once.
const MOST_WORDS: usize = 40_000;

#[test]
fn all_documents_together_can_be_read() {
    let documents = crate::files(".md").into_iter().filter(|path| path.starts_with("docs/"));
    let words: usize = documents
        .map(|path| words_of_prose(&fs::read_to_string(root().join(path)).unwrap_or_default()))
        .sum();
    assert!(words <= MOST_WORDS, "docs/ has {words} words of prose, of {MOST_WORDS} at most");
}

fn words_of_prose(text: &str) -> usize {
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    let mut is_fenced = false;
    let prose = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        !is_fence && !is_fenced && !line.starts_with("    ") && !line.starts_with('|')
    });
    prose.map(|line| line.split_whitespace().filter(is_word).count()).sum()
}

#[test]
fn commands_tables_and_what_is_printed_are_no_prose() {
    let text = "One two - three.\n\n    knee run\n\n|a|b|\n```\nprinted\n```\nfour\n";
    assert_eq!(words_of_prose(text), 4);
}
