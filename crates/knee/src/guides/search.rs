//! Finds the sections of guides that are about some words.

use std::collections::HashMap;

use super::{Guide, all};

/// Words of questions that say nothing about what they ask for.
const EMPTY: [&str; 32] = [
    "a", "an", "and", "are", "be", "can", "do", "does", "for", "from", "get", "how", "i", "in",
    "is", "it", "knee", "me", "my", "not", "of", "on", "or", "see", "that", "the", "to", "what",
    "when", "which", "with", "without",
];

/// Sections on one screen of 24 lines.
pub const SCREEN: usize = 7;

/// A section that is about what somebody looks for.
#[derive(Debug)]
pub struct Found {
    pub guide: Guide,
    /// The heading of the section.
    pub heading: &'static str,
    /// The line in it that has most of the words.
    pub line: &'static str,
}

/// A section of a guide: a heading with what stands below it.
struct Section {
    guide: Guide,
    heading: &'static str,
    lines: Vec<&'static str>,
    words: Vec<String>,
}

/// The sections that are about these words, the best first, at most `most` and of each guide two.
///
/// A section counts by its own words, those of its guide, and the guide's name.
pub fn search(question: &str, most: usize) -> Vec<Found> {
    const PER_GUIDE: usize = 2;
    let asked = words(question).filter(|word| !EMPTY.contains(&word.as_str()));
    let wanted = with_pairs(asked.map(|word| stem(&word)).collect());
    let guides: Vec<Vec<Section>> = all().map(sections_of).collect();
    let wholes: Vec<Vec<&str>> =
        guides.iter().map(|sections| sections.iter().flat_map(Section::words).collect()).collect();
    let sections: Vec<&Section> = guides.iter().flatten().collect();
    let parts: Vec<Vec<&str>> = sections.iter().map(|section| section.words().collect()).collect();
    // Who asks for what a guide is named by most likely wants this guide.
    const NAMED_WEIGHS: f64 = 2.0;
    let weight = |sections: &[Section]| {
        let name = sections.first().map_or("", |section| section.guide.name());
        if words(name).any(|word| wanted.contains(&stem(&word))) { NAMED_WEIGHS } else { 1.0 }
    };
    let of_guides = guides.iter().zip(ranks(&wholes, &wanted));
    let of_guides =
        of_guides.flat_map(|(sections, rank)| vec![rank * weight(sections); sections.len()]);
    let both = ranks(&parts, &wanted).into_iter().zip(of_guides);
    let both = both.map(|(part, whole)| if part > 0.0 { part + whole } else { 0.0 });
    let mut ranked: Vec<(f64, &Section)> =
        both.zip(sections).filter(|(rank, _)| *rank > 0.0).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut of_guide: HashMap<&str, usize> = HashMap::new();
    let is_first = |(_, section): &(f64, &Section)| {
        let seen = of_guide.entry(section.guide.path).or_default();
        *seen += 1;
        *seen <= PER_GUIDE
    };
    let found = ranked.into_iter().filter(is_first).take(most);
    found.map(|(_, section)| section.found(&wanted)).collect()
}

impl Section {
    fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    fn found(&self, wanted: &[String]) -> Found {
        let has = |line: &&&str| words(line).filter(|word| wanted.contains(&stem(word))).count();
        let text = self.lines.iter().filter(|line| !line.trim().is_empty());
        let line = text.rev().max_by_key(has).copied().unwrap_or_default();
        Found { guide: self.guide, heading: self.heading, line: line.trim() }
    }
}

fn sections_of(guide: Guide) -> Vec<Section> {
    const HEADING_WEIGHS: usize = 3;
    let mut sections: Vec<Section> = Vec::new();
    let mut is_code = false;
    for line in guide.text.lines() {
        is_code ^= line.starts_with("```");
        if line.starts_with('#') && !is_code {
            let heading = line.trim_start_matches(['#', ' ']);
            let of_heading = words(heading).chain(words(guide.name())).map(|word| stem(&word));
            let words = of_heading.flat_map(|word| vec![word; HEADING_WEIGHS]).collect();
            sections.push(Section { guide, heading, lines: Vec::new(), words });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
            section.words.extend(with_pairs(words(line).map(|word| stem(&word)).collect()));
        }
    }
    sections
}

/// Words, and each two that stand beside each other: "false sharing" is not "a false alarm" and "shared".
fn with_pairs(words: Vec<String>) -> Vec<String> {
    let pairs = words.windows(2).map(|pair| pair.join(" "));
    let pairs: Vec<String> = pairs.collect();
    words.into_iter().chain(pairs).collect()
}

/// How much each text is about the wanted words, by BM25 (S. Robertson and H. Zaragoza, Foundations and Trends in Information
/// Retrieval 3, 2009), with the usual values.
fn ranks(texts: &[Vec<&str>], wanted: &[String]) -> Vec<f64> {
    const SATURATION: f64 = 1.2;
    const LENGTH_WEIGHS: f64 = 0.75;
    // Pairs say less than their words together: most stand nowhere.
    const PAIR_WEIGHS: f64 = 0.5;
    let all = texts.len() as f64;
    let mean = texts.iter().map(Vec::len).sum::<usize>() as f64 / all;
    let rarity = |word: &String| {
        let with = texts.iter().filter(|text| text.contains(&word.as_str())).count() as f64;
        let weight = if word.contains(' ') { PAIR_WEIGHS } else { 1.0 };
        weight * ((all - with + 0.5) / (with + 0.5) + 1.0).ln()
    };
    let rare: Vec<f64> = wanted.iter().map(rarity).collect();
    let rank = |text: &Vec<&str>| -> f64 {
        let length = 1.0 - LENGTH_WEIGHS + LENGTH_WEIGHS * text.len() as f64 / mean;
        let of = |(word, rare): (&String, &f64)| {
            let times = text.iter().filter(|one| *one == word).count() as f64;
            rare * times * (SATURATION + 1.0) / (times + SATURATION * length)
        };
        wanted.iter().zip(&rare).map(of).sum()
    };
    texts.iter().map(rank).collect()
}

/// The words of a text, in small letters.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_between = |letter: char| !letter.is_alphanumeric();
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// What words of one family have in common, more or less.
fn stem(word: &str) -> String {
    const ENDINGS: [&str; 12] =
        ["ions", "ion", "ors", "or", "ing", "ers", "er", "ed", "es", "ly", "s", "e"];
    const LEFT_MIN: usize = 3;
    let ending = ENDINGS
        .iter()
        .find(|ending| word.len() >= LEFT_MIN + ending.len() && word.ends_with(**ending));
    word.strip_suffix(*ending.unwrap_or(&"")).unwrap_or(word).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions of people who have not read the guides, and where the answers stand.
    const QUESTIONS: [(&str, &[&str]); 30] = [
        ("how do I compare two kernels", &["kernels", "building-kernels"]),
        ("bisect a regression between two tags", &["bisect"]),
        ("my server does not get faster with more cores", &["servers", "running"]),
        ("which lock is contended in a running process", &["running", "servers"]),
        ("false sharing without a PMU", &["conflicts", "running"]),
        ("run in CI for a pull request", &["gate"]),
        ("nightly benchmark history", &["watch"]),
        ("import fio results", &["importing"]),
        ("import sysbench threads", &["importing"]),
        ("will-it-scale", &["will-it-scale"]),
        ("xfs ext4 btrfs loop device", &["file-systems"]),
        ("measure on many hosts with ssh", &["fleet"]),
        ("Slurm", &["fleet"]),
        ("check my spinlock in C", &["own-lock", "algorithms"]),
        ("memory ordering on Arm", &["memory-models"]),
        ("litmus test", &["memory-models"]),
        ("simulate a lock on a large machine", &["simulator", "hosts"]),
        ("describe a host topology", &["hosts"]),
        ("what does steal time do to a verdict", &["methodology", "comparisons", "results"]),
        ("confidence interval of a verdict", &["comparisons", "methodology"]),
        ("Universal Scalability Law", &["scaling"]),
        ("forecast more CPUs", &["scaling"]),
        ("what does knee change on my machine", &["safety"]),
        ("kill -9 left a mount", &["safety"]),
        ("perf record profile", &["perf-data", "explain", "ledger"]),
        ("JSON schema of answers", &["answers"]),
        ("custom workload in C", &["own-loads"]),
        ("postgres pgbench clients", &["servers", "commands"]),
        ("explain without root", &["running", "safety", "explain"]),
        ("HTML report mail", &["reports"]),
    ];

    #[test]
    fn questions_lead_to_their_guides() {
        let is_missed = |(question, expected): &&(&str, &[&str])| {
            let found = search(question, SCREEN);
            !found.iter().any(|one| expected.contains(&one.guide.name()))
        };
        let missed: Vec<_> = QUESTIONS.iter().filter(is_missed).collect();
        assert!(missed.is_empty(), "{missed:#?}");
    }

    #[test]
    fn a_line_with_the_words_is_shown() {
        let found = search("litmus", 1);
        assert!(found[0].line.to_lowercase().contains("litmus"), "{found:?}");
        assert!(search("qwertzuiop", 5).is_empty());
        assert!(search("what is the", 5).is_empty());
    }
}
