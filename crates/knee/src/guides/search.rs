//! Finds the sections of guides that are about some words.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Guide, all};

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

/// A word that is looked for, or a pair of words, and how much it says about the question.
struct Wanted {
    word: String,
    weight: f64,
}

/// The sections that are about these words, the best first, at most `most` and of each guide two.
///
/// A section counts by its own words, those of its guide, and the guide's name.
pub fn search(question: &str, most: usize) -> Vec<Found> {
    const PER_GUIDE: usize = 2;
    // Who asks for what a guide is named by most likely wants this guide.
    const NAMED_WEIGHS: f64 = 1.6;
    let wanted = wanted(question);
    let guides: Vec<Vec<Section>> = all().map(sections_of).collect();
    let wholes: Vec<Vec<&str>> =
        guides.iter().map(|sections| sections.iter().flat_map(Section::words).collect()).collect();
    let sections: Vec<&Section> = guides.iter().flatten().collect();
    let parts: Vec<Vec<&str>> = sections.iter().map(|section| section.words().collect()).collect();
    let weight = |sections: &[Section]| {
        let name = sections.first().map_or("", |section| section.guide.name());
        let is_asked = |word: String| {
            let stem = stem(&word);
            wanted.iter().any(|one| one.weight >= 1.0 && one.word == stem)
        };
        if words(name).any(is_asked) { NAMED_WEIGHS } else { 1.0 }
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

/// What a question asks for: its words, each two that stand beside each other, and what guides say in their place.
fn wanted(question: &str) -> Vec<Wanted> {
    // Pairs say less than their words together: most stand nowhere.
    const PAIR_WEIGHS: f64 = 0.5;
    const INSTEAD_WEIGHS: f64 = 0.5;
    let vocabulary = &*VOCABULARY;
    let asked: Vec<String> =
        words(question).filter(|word| !vocabulary.empty.contains(&word.as_str())).collect();
    let stems: Vec<String> = asked.iter().map(|word| stem(word)).collect();
    let instead = stems.iter().filter_map(|word| vocabulary.instead.get(word)).flatten();
    let instead: Vec<String> = instead.cloned().collect();
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut add = |word: String, weight| {
        if !wanted.iter().any(|one| one.word == word) {
            wanted.push(Wanted { word, weight });
        }
    };
    stems.iter().for_each(|word| add(word.clone(), 1.0));
    pairs(&stems).into_iter().for_each(|pair| add(pair, PAIR_WEIGHS));
    instead.into_iter().for_each(|word| add(word, INSTEAD_WEIGHS));
    wanted
}

/// How the search reads words.
struct Vocabulary {
    /// Words of questions that say nothing about what they ask for.
    empty: Vec<&'static str>,
    /// Endings that make no other word, the longest first.
    endings: Vec<&'static str>,
    /// What guides say, by the stem of what people ask.
    instead: HashMap<String, Vec<String>>,
}

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let lines = include_str!("words.txt").lines().filter(|line| !line.starts_with('#'));
    let (instead, listed): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains(':'));
    let list = |name| {
        let lines = listed.iter().filter_map(move |line| line.strip_prefix(name));
        lines.flat_map(str::split_whitespace).collect::<Vec<_>>()
    };
    let endings = list("ending ");
    let instead = instead.iter().filter_map(|line| line.split_once(':'));
    let instead = instead.flat_map(|(asked, said)| {
        let said: Vec<String> = said.split(',').map(|one| stems(one, &endings).join(" ")).collect();
        stems(asked, &endings).into_iter().map(move |word| (word, said.clone()))
    });
    Vocabulary { empty: list("empty "), instead: instead.collect(), endings }
});

impl Section {
    fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    fn found(&self, wanted: &[Wanted]) -> Found {
        let is_wanted = |word: &String| wanted.iter().any(|one| one.word == stem(word));
        let has = |line: &&&str| words(line).filter(is_wanted).count();
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
            let of_heading: Vec<String> =
                words(heading).chain(words(guide.name())).map(|word| stem(&word)).collect();
            let of_heading = pairs(&of_heading).into_iter().chain(of_heading);
            let words = of_heading.flat_map(|word| vec![word; HEADING_WEIGHS]).collect();
            sections.push(Section { guide, heading, lines: Vec::new(), words });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line);
            let stems: Vec<String> = words(&shown(line)).map(|word| stem(&word)).collect();
            section.words.extend(pairs(&stems));
            section.words.extend(stems);
        }
    }
    sections
}

/// A line without where its links lead.
fn shown(line: &str) -> String {
    let mut parts = line.split("](");
    let first = parts.next();
    let after = parts.filter_map(|part| part.split_once(')')).map(|(_, after)| after);
    first.into_iter().chain(after).collect::<Vec<_>>().join(" ")
}

/// Each two words that stand beside each other: "false sharing" is not "a false alarm" and "shared".
fn pairs(words: &[String]) -> Vec<String> {
    words.windows(2).map(|pair| pair.join(" ")).collect()
}

/// How much each text is about the wanted words, by BM25 (S. Robertson and H. Zaragoza, Foundations and Trends in Information
/// Retrieval 3, 2009), with the usual values.
fn ranks(texts: &[Vec<&str>], wanted: &[Wanted]) -> Vec<f64> {
    const SATURATION: f64 = 1.2;
    const LENGTH_WEIGHS: f64 = 0.75;
    let all = texts.len() as f64;
    let mean = texts.iter().map(Vec::len).sum::<usize>() as f64 / all;
    let rarity = |one: &Wanted| {
        let with = texts.iter().filter(|text| text.contains(&one.word.as_str())).count() as f64;
        one.weight * ((all - with + 0.5) / (with + 0.5) + 1.0).ln()
    };
    let rare: Vec<f64> = wanted.iter().map(rarity).collect();
    let rank = |text: &Vec<&str>| -> f64 {
        let length = 1.0 - LENGTH_WEIGHS + LENGTH_WEIGHS * text.len() as f64 / mean;
        let of = |(one, rare): (&Wanted, &f64)| {
            let times = text.iter().filter(|word| **word == one.word).count() as f64;
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

fn stems(text: &str, endings: &[&str]) -> Vec<String> {
    words(text).map(|word| stem_by(&word, endings)).collect()
}

fn stem(word: &str) -> String {
    stem_by(word, &VOCABULARY.endings)
}

/// What words of one family have in common, more or less: "stop" of "stopping".
fn stem_by(word: &str, endings: &[&str]) -> String {
    const LEFT_MIN: usize = 3;
    let is_it = |ending: &&&str| word.len() >= LEFT_MIN + ending.len() && word.ends_with(**ending);
    let ending = endings.iter().find(is_it).copied().unwrap_or_default();
    let stem = word.strip_suffix(ending).unwrap_or(word);
    let mut letters = stem.chars().rev();
    let is_doubled = letters.next() == letters.next() && stem.len() > LEFT_MIN;
    stem[..stem.len() - usize::from(is_doubled && stem.is_ascii())].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether one of the sections answers: `PAGE`, or `PAGE#HEADING`, with | between several.
    fn is_answered(found: &[Found], answers: &str) -> bool {
        let is_it = |one: &Found, answer: &str| {
            let (page, heading) = answer.split_once('#').unwrap_or((answer, one.heading));
            one.guide.path == page && one.heading == heading
        };
        answers.split(" | ").any(|answer| found.iter().any(|one| is_it(one, answer)))
    }

    #[test]
    fn questions_lead_to_their_guides() {
        let check = |list: &'static str, most: usize| {
            let lines = list.lines().filter(|line| !line.starts_with('#'));
            let is_missed =
                |(question, answers): &(&str, &str)| !is_answered(&search(question, most), answers);
            let questions = lines.filter_map(|line| line.split_once(" = "));
            let missed: Vec<_> = questions.filter(is_missed).collect();
            assert!(missed.is_empty(), "not among the first {most}: {missed:#?}");
        };
        check(include_str!("../../tests/questions/first-three.txt"), 3);
        check(include_str!("../../tests/questions/one-screen.txt"), SCREEN);
    }

    #[test]
    fn answers_of_questions_exist() {
        let list = include_str!("../../tests/questions/first-three.txt");
        let answers = list.lines().filter_map(|line| line.split_once(" = "));
        for answer in answers.flat_map(|(_, answers)| answers.split(" | ")) {
            let (page, heading) = answer.split_once('#').unwrap_or((answer, ""));
            let guide = all().find(|guide| guide.path == page);
            let is_there = guide.is_some_and(|guide| {
                heading.is_empty() || sections_of(guide).iter().any(|one| one.heading == heading)
            });
            assert!(is_there, "{answer}");
        }
    }

    #[test]
    fn a_line_with_the_words_is_shown() {
        let found = search("litmus", 1);
        assert!(found[0].line.to_lowercase().contains("litmus"), "{found:?}");
        assert!(search("qwertzuiop", 5).is_empty());
        assert!(search("what is the", 5).is_empty());
    }

    #[test]
    fn words_of_one_family_have_one_stem() {
        let check = |words: &str| {
            let stems: Vec<String> = words.split(' ').map(stem).collect();
            assert!(stems.windows(2).all(|two| two[0] == two[1]), "{words}: {stems:?}");
        };
        check("stop stops stopped stopping");
        check("run runs running");
        check("noise noisy");
        check("library libraries");
        assert_ne!(stem("lock"), stem("log"));
    }

    #[test]
    fn addresses_of_links_are_no_words() {
        let of = |line| words(&shown(line)).collect::<Vec<_>>();
        assert_eq!(
            of("see [gates](../guide/gate.md#how) and [that](x) now"),
            of("see gates and that now")
        );
    }
}
