//! `knee report`: one page about records, a comparison, a replay or a simulation, to be read by others.

pub mod measured;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::ConflictAnswer;
use anyhow::{Context, Result, bail, ensure};
use host::durable::write_durably_for_user;
use host::terminal::{hint, talk};
use host::{Limit, given_file};
use lab::replay;
use lab::report::{beside, simulation};
use lab::simulate::page as simulated;
use pages::{HAS_BUNDLE, Page, Purpose, View, ViewFlags, print_html};
use store::Store;

use super::bisect;
use super::compare::CompareQuestion;
use crate::browser;

/// Report records, replays or simulations as HTML, mail or Markdown
///
/// The answer stands first, then verdicts, curves, warnings, the host, and the commands that make the runs again. See `knee
/// help reports`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Records or variants, named as for `knee compare` [default: last]
    what: Vec<String>,
    /// Write one HTML file, which needs no network and no scripts; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["view", "mail", "markdown"])]
    html: Option<PathBuf>,
    /// Leave scripts out of the HTML file, for places that refuse them: no zoom, no flame graph
    #[arg(long, requires = "html")]
    no_scripts: bool,
    /// Open the HTML file in a browser
    #[arg(long, requires = "html")]
    open: bool,
    /// Form of the page: mail, markdown, html, terminal [default: mail]
    #[arg(long, value_name = "FORM", value_enum, hide_possible_values = true)]
    view: Option<View>,
    /// Print a mail, as --view mail
    #[arg(long, conflicts_with_all = ["view", "markdown"], hide = true)]
    mail: bool,
    /// Print Markdown, as --view markdown
    #[arg(long, conflicts_with = "view", hide = true)]
    markdown: bool,
    #[command(flatten)]
    question: CompareQuestion,
    /// Report a bisection: `last`, its id or the start of it
    #[arg(long, value_name = "ID", conflicts_with_all = ["what", "replay", "simulate"])]
    bisection: Option<String>,
    /// Report what `knee simulate replay` simulates of an incident or a publication
    #[arg(long, value_name = "NAME", conflicts_with_all = ["what", "simulate"])]
    replay: Option<String>,
    /// Report contended lines that `knee conflicts --json` printed to a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "bisection", "replay", "simulate"])]
    conflicts: Option<PathBuf>,
    /// Compile and run files that others wrote or named without asking (`knee help safety`)
    #[arg(long, hide_short_help = true)]
    yes: bool,
    /// Report a simulation, beside the records if some are named
    ///
    /// What follows are the arguments of `knee simulate`. Beside a record, times inside and outside of the lock,
    /// parameters, designs and CPU counts are those of the record unless they are given.
    #[arg(long, value_name = "ARGUMENTS", num_args = 1.., allow_hyphen_values = true)]
    simulate: Vec<String>,
}

/// Writes or prints the page.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let view = if arguments.markdown { Some(View::Markdown) } else { arguments.view };
    ensure!(
        view != Some(View::Json),
        "a report has no JSON: knee show, compare and explain print its numbers with --json"
    );
    let page = page(arguments, store)?;
    let purpose = if arguments.no_scripts { Purpose::FileWithoutScripts } else { Purpose::File };
    match &arguments.html {
        Some(path) if path.as_os_str() == "-" => print_html(&page, purpose)?,
        Some(path) => {
            written(path, &page, purpose)?;
            if arguments.open {
                browser::open(&path.to_string_lossy());
            }
        }
        None => ViewFlags::from(view.unwrap_or(View::Mail)).print_page(|| Ok(page))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn page(arguments: &Arguments, store: &Store) -> Result<Page> {
    if let Some(path) = &arguments.conflicts {
        return contended(path);
    }
    if let Some(which) = &arguments.bisection {
        return bisect::page::by_id(which, store);
    }
    if let Some(name) = &arguments.replay {
        return replay::page::named(name, arguments.yes);
    }
    let (what, words) = (&arguments.what, &arguments.simulate);
    let own = [
        "--html",
        "--mail",
        "--markdown",
        "--view",
        "--no-scripts",
        "--open",
        "--smallest-effect",
        "--metric",
        "--force",
        "--yes",
    ];
    if let Some(late) = words.iter().find(|word| own.contains(&word.as_str())) {
        bail!(
            "--simulate: all words after it are arguments of `knee simulate`: put {late} before --simulate"
        );
    }
    if words.is_empty() {
        return measured::page(what, &arguments.question, store);
    }
    if what.is_empty() {
        let request = simulation::Request::parse(words)?;
        let simulation = request.simulation(arguments.yes)?;
        return Ok(simulated::page(&simulation, simulated::command(words)));
    }
    // A record that is not there is said before the simulation takes its time.
    let measured = measured::page(what, &arguments.question, store)?;
    beside::beside(measured, words, arguments.yes)
}

/// The page of an answer that `knee conflicts --json` printed.
fn contended(path: &Path) -> Result<Page> {
    const LIMIT: Limit = Limit { bytes: 64 << 20, what: "an answer of knee conflicts" };
    let text = given_file::read_text(path, LIMIT)?;
    let answer: ConflictAnswer = serde_json::from_str(&text).with_context(|| {
        format!("reading {}: write one by `knee conflicts … --json > FILE`", path.display())
    })?;
    Ok(pages::conflicts(&answer))
}

/// Writes the file whole or not at all.
fn written(path: &Path, page: &Page, purpose: Purpose) -> Result<()> {
    if path.is_dir() {
        bail!("--html {}: is a directory; name a file in it", path.display());
    }
    let html = pages::html(page, purpose);
    let write = |mut file: &fs::File| Ok(file.write_all(html.as_bytes())?);
    write_durably_for_user(path, write).with_context(|| format!("writing {}", path.display()))?;
    talk(format_args!("wrote {} ({} KB)", path.display(), html.len().div_ceil(1000)));
    if !HAS_BUNDLE && purpose == Purpose::File {
        hint(
            "this knee was built without Node.js: its pages have no zoom, no flame graphs and no CSV",
        );
    }
    Ok(())
}
