//! A page as one HTML file: whole without scripts and without a network. Scripts, where this knee has them,
//! only add ways to look.

mod chart;
mod data;
mod flame;
mod hash;
mod interval;
mod ledger;
mod markup;
mod matrix;
mod svg;
mod table;

use crate::manual;
use crate::page::{Block, Page, PageFile, Section, brief};

use chart::chart;
use data::data;
use flame::flame;
use hash::source_hash;
use ledger::ledger;
pub use markup::Markup;
use matrix::matrix;
pub use svg::svg;
use table::table;

const STYLE: &str = include_str!("page.css");
const BUNDLE_STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.css"));
const BUNDLE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.js"));
/// What the list of `knee serve` gets instead: it only follows the news.
const LIVE_BUNDLE: &str = include_str!(concat!(env!("OUT_DIR"), "/live.js"));

/// Whether this knee was built with what scripts add to pages.
pub const HAS_BUNDLE: bool = !BUNDLE.is_empty();

/// Where a page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// In a file, which may be sent to others: it fetches nothing.
    File,
    /// In a file where scripts would be refused, as by some mail filters.
    FileWithoutScripts,
    /// From `knee serve`, which sends the policy itself and may tell of new runs.
    Served,
}

impl Purpose {
    fn has_scripts(self) -> bool {
        HAS_BUNDLE && self != Purpose::FileWithoutScripts
    }

    /// Style sheets of ours; that of the scripts only beside them.
    fn styles(self) -> impl Iterator<Item = &'static str> {
        let bundled = Some(BUNDLE_STYLE).filter(|text| self.has_scripts() && !text.is_empty());
        [STYLE].into_iter().chain(bundled)
    }
}

/// The content security policy of a page: only the styles and scripts of this knee, and no requests.
pub fn policy(purpose: Purpose) -> String {
    let styles: Vec<String> = purpose.styles().map(source_hash).collect();
    let scripts = match purpose {
        _ if !purpose.has_scripts() => "'none'".to_string(),
        Purpose::Served => format!("{} {}", source_hash(BUNDLE), source_hash(LIVE_BUNDLE)),
        Purpose::File | Purpose::FileWithoutScripts => source_hash(BUNDLE),
    };
    let (connect, form, frame) = match purpose {
        Purpose::File | Purpose::FileWithoutScripts => ("'none'", "'none'", ""),
        Purpose::Served => ("'self'", "'self'", "; frame-ancestors 'none'"),
    };
    format!(
        "default-src 'none'; style-src {}; script-src {scripts}; connect-src {connect}; base-uri \
         'none'; form-action {form}{frame}",
        styles.join(" ")
    )
}

/// The whole file.
pub fn html(page: &Page, purpose: Purpose) -> String {
    let title = page.brief_title();
    document(&format!("{}: {title}", page.kind.name()), purpose, Scripts::Drawings, |markup| {
        markup.element("header", &[("class", "top")], |markup| {
            markup.element("p", &[("class", "kind")], |markup| {
                if purpose == Purpose::Served {
                    markup.leaf("a", &[("href", "/")], "All records");
                    markup.text(" / ");
                }
                markup.text(page.kind.name());
            });
            markup.leaf("h1", &[], &title);
        });
        let follows = page.is_growing && purpose == Purpose::Served;
        let main = [("id", "main"), ("data-growing", "yes")];
        markup.element("main", &main[..if follows { 2 } else { 1 }], |markup| {
            if follows {
                let attributes = [("class", "growing"), ("role", "status")];
                markup.leaf("p", &attributes, "A run goes on.");
            }
            answer(markup, page);
            for (index, part) in page.sections.iter().enumerate() {
                section(markup, part, index);
            }
            background(markup, page);
        });
        if purpose.has_scripts() {
            data(markup, page);
        }
    })
}

/// Which scripts a document has, where this knee has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    /// Those that add to drawings.
    Drawings,
    /// The one that asks the server for news.
    Live,
    None,
}

impl Scripts {
    fn text(self) -> &'static str {
        match self {
            Scripts::Drawings => BUNDLE,
            Scripts::Live => LIVE_BUNDLE,
            Scripts::None => "",
        }
    }
}

/// A document of ours around a body.
pub fn document(
    title: &str,
    purpose: Purpose,
    scripts: Scripts,
    body: impl FnOnce(&mut Markup),
) -> String {
    let mut markup = Markup::document();
    markup.element("html", &[("lang", "en")], |markup| {
        markup.element("head", &[], |markup| {
            markup.empty("meta", &[("charset", "utf-8")]);
            if purpose != Purpose::Served {
                let policy = policy(purpose);
                let equivalent = [("http-equiv", "Content-Security-Policy"), ("content", &policy)];
                markup.empty("meta", &equivalent);
            }
            let viewport =
                [("name", "viewport"), ("content", "width=device-width, initial-scale=1")];
            markup.empty("meta", &viewport);
            markup.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
            markup.leaf("title", &[], &format!("{title} - knee"));
            let styles = if scripts == Scripts::Drawings { 2 } else { 1 };
            purpose.styles().take(styles).for_each(|style| markup.ours("style", &[], style));
        });
        markup.element("body", &[], |markup| {
            markup.leaf("a", &[("class", "skip"), ("href", "#main")], "Skip to the answer");
            body(markup);
            if purpose.has_scripts() && scripts != Scripts::None {
                markup.ours("script", &[], scripts.text());
            }
        });
    });
    markup.finish()
}

/// The sentences that answer, and the verdicts counted.
fn answer(markup: &mut Markup, page: &Page) {
    markup.element("section", &[("class", "answer"), ("aria-label", "Answer")], |markup| {
        for sentence in &page.answers {
            let sentence = brief(sentence);
            markup.element("p", &[("class", "verdict")], |markup| markup.sentence(&sentence));
        }
        if page.counts.is_empty() {
            return;
        }
        markup.element("ul", &[("class", "counts"), ("aria-label", "Verdicts")], |markup| {
            for count in &page.counts {
                let class = format!("count {}", count.tone.name());
                markup.element("li", &[("class", &class)], |markup| {
                    markup.leaf("b", &[], &count.n.to_string());
                    markup.text(" ");
                    markup.text(count.word);
                });
            }
        });
    });
}

fn section(markup: &mut Markup, part: &Section, index: usize) {
    let id = format!("s{}", index + 1);
    let open = [("class", "part"), ("id", id.as_str()), ("open", "")];
    let attributes = if part.is_open { &open[..] } else { &open[..2] };
    markup.element("details", attributes, |markup| {
        markup.element("summary", &[], |markup| {
            markup.element("h2", &[], |markup| markup.sentence(&part.title));
        });
        for (number, block) in part.blocks.iter().enumerate() {
            match block {
                Block::Text(sentences) => list(markup, "notes", sentences),
                Block::Curves(panel) => chart(markup, panel, &format!("{id}-{number}")),
                Block::Table(block) => table(markup, &part.title, block),
                Block::Matrix(block) => matrix(markup, &part.title, block),
                Block::Ledger(tree) => ledger(markup, tree, &format!("{id}-{number}")),
                Block::Flame(graph) => flame(markup, graph, &format!("{id}-{number}")),
                Block::Manual(text) => manual::html(markup, text),
                Block::Folded(title, sentences) => folded(markup, title, sentences),
            }
        }
    });
}

/// Sentences that a reader has to ask for; nothing where there are none.
fn folded(markup: &mut Markup, title: &str, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    markup.element("details", &[("class", "folded")], |markup| {
        markup.leaf("summary", &[], title);
        list(markup, "notes", sentences);
    });
}

/// Sentences as a list; nothing where there are none.
fn list(markup: &mut Markup, class: &'static str, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    markup.element("ul", &[("class", class)], |markup| {
        for sentence in sentences {
            markup.element("li", &[], |markup| markup.sentence(sentence));
        }
    });
}

/// Warnings, method, host and how to do it again: what the answer rests on.
fn background(markup: &mut Markup, page: &Page) {
    let part = |markup: &mut Markup, title: &str, content: &dyn Fn(&mut Markup)| {
        markup.element("section", &[("class", "part")], |markup| {
            markup.leaf("h2", &[], title);
            content(markup);
        });
    };
    for (title, sentences) in &page.warnings {
        part(markup, title, &|markup| list(markup, "notes", sentences));
    }
    if !page.method.is_empty() {
        part(markup, "Method", &|markup| list(markup, "notes", &page.method));
    }
    if !page.facts.is_empty() {
        part(markup, page.facts_title(), &|markup| facts(markup, &page.facts));
    }
    if !page.again.is_empty() {
        part(markup, "Do it again", &|markup| {
            for command in &page.again {
                let attributes = [("class", "command"), ("tabindex", "0")];
                markup.leaf("pre", &attributes, command);
            }
            for file in &page.files {
                markup.element("p", &[], |markup| markup.sentence(&elsewhere(file)));
                markup.leaf("pre", &[("class", "command"), ("tabindex", "0")], &file.command);
                markup.element("details", &[("class", "folded")], |markup| {
                    markup.leaf("summary", &[], &file.name);
                    markup.leaf("pre", &[("class", "command"), ("tabindex", "0")], &file.text);
                });
            }
        });
    }
}

/// What to do with a file of a page.
fn elsewhere(file: &PageFile) -> String {
    format!(
        "On a host without the files of this command, save the experiment below as `{}`:",
        file.name
    )
}

fn facts(markup: &mut Markup, facts: &[(String, String)]) {
    markup.element("dl", &[("class", "facts")], |markup| {
        for group in facts.chunk_by(|_, next| next.0.is_empty()) {
            markup.element("div", &[], |markup| {
                markup.leaf("dt", &[], &group[0].0);
                for (_, value) in group {
                    markup.leaf("dd", &[], value);
                }
            });
        }
    });
}
