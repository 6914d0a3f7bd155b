//! `knee help`: the guides, which are in the binary, and the help of verbs.

mod tour;

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Command;
use flate2::read::GzDecoder;
use host::{pager, unknown};
use text::prose::wrapped;

use crate::guides;

/// Show a guide, or the help of a verb
///
/// All guides are in the binary: `knee help guides` lists them, --search finds words in them.
#[derive(clap::Args)]
pub struct Arguments {
    /// `guides` for a list of all, `licenses`, the name of a guide, or a verb [default: the overview]
    topic: Vec<String>,
    /// Find the sections of the guides that are about these words
    #[arg(long, value_name = "WORDS", conflicts_with = "topic")]
    search: Option<String>,
    /// Show six commands, run each on request, and explain what it prints
    #[arg(long, conflicts_with_all = ["topic", "search"])]
    tour: bool,
}

/// Prints it. `knee` is the whole command line.
pub fn run(arguments: &Arguments, mut knee: Command, width: usize) -> Result<ExitCode> {
    if arguments.tour {
        return tour::run(width);
    }
    let topic = arguments.topic.join(" ");
    let text = match (&arguments.search, topic.as_str()) {
        (Some(words), _) => found(words, width)?,
        (None, "") => knee.render_help().to_string(),
        (None, "guides") => list(width),
        (None, "licenses") => licenses()?,
        (None, topic) => about(topic, &arguments.topic, &mut knee)?,
    };
    pager::page(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The licences of all that is linked, with their texts; the build made them.
fn licenses() -> Result<String> {
    const TEXT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/licenses.txt.gz"));
    let mut text = String::new();
    GzDecoder::new(TEXT).read_to_string(&mut text).context("unpacking the licences")?;
    Ok(text)
}

/// A guide, or the help of a verb that has none.
fn about(topic: &str, words: &[String], knee: &mut Command) -> Result<String> {
    let names: Vec<&str> = guides::all().map(|guide| guide.name()).collect();
    let verb = verb(words, knee);
    match (guides::named(topic), verb) {
        (Some(guide), Some(_)) => {
            Ok(format!("(The options of `knee {topic}`: knee {topic} --help)\n\n{}", guide.text))
        }
        (Some(guide), None) => Ok(guide.text.to_string()),
        (None, Some(verb)) => Ok(verb.render_long_help().to_string()),
        (None, None) => {
            let verbs = knee.get_subcommands().filter(|verb| !verb.is_hide_set());
            let known = names.iter().copied().chain(verbs.map(Command::get_name));
            bail!(unknown("guide or verb", topic, known, "knee help guides"))
        }
    }
}

/// The verb that these words name: `bisect`, `bisect screen`.
fn verb<'c>(words: &[String], knee: &'c mut Command) -> Option<&'c mut Command> {
    knee.build();
    words.iter().try_fold(knee, |above, word| above.find_subcommand_mut(word))
}

fn list(width: usize) -> String {
    const NAME_COLUMNS: usize = 30;
    let mut page = wrapped(
        "The guides: `knee help NAME` shows one, `knee help --search WORDS` finds words in them.",
        width,
        0,
    );
    let mut folder = "";
    for guide in guides::all() {
        let own = guide.path.split_once('/').map_or("in general", |(folder, _)| folder);
        if own != folder {
            page += &format!("\n{own}\n");
            folder = own;
        }
        let is_hidden = guides::named(guide.name()).is_none_or(|one| one.path != guide.path);
        let name = if is_hidden { guide.path } else { guide.name() };
        page +=
            &wrapped(&format!("  {name:NAME_COLUMNS$}{}", guide.title()), width, NAME_COLUMNS + 2);
    }
    page
}

fn found(words: &str, width: usize) -> Result<String> {
    let found = guides::search(words, guides::SCREEN);
    if found.is_empty() {
        bail!("no guide has a word of \"{words}\": `knee help guides` lists all");
    }
    let section = |one: &guides::Found| {
        let title = format!("knee help {}: {}", one.guide.name(), one.heading);
        format!("{}{}", wrapped(&title, width, 2), wrapped(&format!("    {}", one.line), width, 4))
    };
    Ok(found.iter().map(section).collect::<Vec<_>>().join("\n"))
}
