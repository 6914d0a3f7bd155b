//! The list of records that `knee serve` shows: by experiment, with search and the newest verdicts.

use crate::html::{Markup, Purpose, Scripts, document};
use crate::page::Tone;

/// All that the list shows.
pub struct Listing {
    pub experiments: Vec<ListedExperiment>,
    /// What the reader searched for; may be empty.
    pub search: String,
    /// What was left out, and why; may be empty.
    pub note: String,
    /// Whether a run goes on, so that the list changes.
    pub is_growing: bool,
}

/// The records of one experiment.
pub struct ListedExperiment {
    pub name: String,
    pub records: Vec<ListedRecord>,
}

/// One record.
pub struct ListedRecord {
    /// Its id, which consists of digits, small letters and hyphens; empty where its page cannot be shown.
    pub id: String,
    /// Its label, or the id.
    pub name: String,
    pub started: String,
    pub state: String,
    pub workloads: String,
    pub host: String,
    pub runs: String,
    /// The newest verdicts: words with what they mean.
    pub verdicts: Vec<(Tone, String)>,
    /// What was found, in a sentence; may be empty.
    pub result: String,
}

/// The page with the list.
pub fn listing(listing: &Listing) -> String {
    document("Records", Purpose::Served, Scripts::Live, |markup| {
        markup.element("header", &[("class", "top")], |markup| {
            markup.leaf("p", &[("class", "kind")], "knee");
            markup.leaf("h1", &[], "Records");
            search(markup, &listing.search);
        });
        markup.element("main", &[("id", "main")], |markup| {
            if listing.is_growing {
                markup.leaf("p", &[("class", "growing"), ("role", "status")], "A run goes on.");
            }
            if !listing.note.is_empty() {
                markup.leaf("p", &[], &listing.note);
            }
            if listing.experiments.is_empty() {
                markup.leaf("p", &[], "No record is listed.");
            }
            for experiment in &listing.experiments {
                of_experiment(markup, experiment);
            }
        });
    })
}

fn search(markup: &mut Markup, words: &str) {
    markup.element("form", &[("action", "/"), ("role", "search")], |markup| {
        markup.leaf("label", &[("for", "search")], "Search");
        let field = [("type", "search"), ("id", "search"), ("name", "search"), ("value", words)];
        markup.empty("input", &field);
        markup.leaf("button", &[], "Find");
    });
}

fn of_experiment(markup: &mut Markup, experiment: &ListedExperiment) {
    markup.element("section", &[("class", "part")], |markup| {
        markup.leaf("h2", &[], &experiment.name);
        markup.element("ul", &[("class", "records")], |markup| {
            for record in &experiment.records {
                markup.element("li", &[], |markup| line(markup, record));
            }
        });
    });
}

fn line(markup: &mut Markup, record: &ListedRecord) {
    if record.id.is_empty() {
        markup.leaf("b", &[], &record.name);
    } else {
        let address = format!("/records/{}", record.id);
        markup.leaf("a", &[("href", &address)], &record.name);
    }
    markup.text(" ");
    for (tone, words) in &record.verdicts {
        let class = format!("count {}", tone.name());
        markup.leaf("span", &[("class", &class)], words);
        markup.text(" ");
    }
    if !record.result.is_empty() {
        markup.leaf("p", &[], &record.result);
    }
    let facts = [&record.started, &record.state, &record.runs, &record.workloads, &record.host];
    let facts: Vec<&str> =
        facts.into_iter().map(String::as_str).filter(|f| !f.is_empty()).collect();
    markup.leaf("p", &[("class", "facts-line")], &facts.join(" · "));
}

/// A page that only says why there is no other.
pub fn message(title: &str, text: &str) -> String {
    document(title, Purpose::Served, Scripts::None, |markup| {
        markup.element("main", &[("id", "main")], |markup| {
            markup.leaf("h1", &[], title);
            markup.leaf("p", &[], text);
            markup.element("p", &[], |markup| markup.leaf("a", &[("href", "/")], "All records"));
        });
    })
}
