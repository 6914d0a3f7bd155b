//! `knee man-pages`: writes the manual pages, one for each verb, as `make install` needs them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Arg, Command};
use clap_mangen::Man;
use host::HeldFolder;

use crate::help;
use crate::help::manual::{self, Entry, STATUSES_OF};

/// Where they go.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the pages, which exists
    directory: PathBuf,
}

/// Writes the pages of `command`, the whole command line of knee.
pub fn run(arguments: &Arguments, command: Command) -> Result<ExitCode> {
    let directory = &arguments.directory;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let written = HeldFolder::open(directory).and_then(|folder| write_all(&command, &folder));
    written.with_context(|| format!("writing manual pages into {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands.
fn write_all(command: &Command, folder: &HeldFolder) -> Result<()> {
    for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        write_all(subcommand, folder)?;
    }
    // What short help hides has a text of one line only, which a manual page would leave out.
    let with_text = |argument: Arg| match (argument.get_long_help(), argument.get_help().cloned()) {
        (None, Some(help)) => argument.long_help(help),
        _ => argument,
    };
    let man = Man::new(command.clone().mut_args(with_text));
    folder.put(man.get_filename(), page(&man, command)?.as_bytes())
}

/// A page: its synopsis is the usage of the help; below the options stand the sections that help has not.
fn page(man: &Man, command: &Command) -> Result<String> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = name.strip_prefix("knee").unwrap_or(name).trim_start_matches('-').replace('-', " ");
    let (described, statuses) = without_statuses(command);
    let statuses =
        statuses.unwrap_or(help::EXIT_STATUS.trim_start_matches(STATUSES_OF).to_string());
    let mut written = Vec::new();
    man.render_title(&mut written)?;
    man.render_name_section(&mut written)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:");
    written.extend(unfilled("SYNOPSIS", usage.lines()).into_bytes());
    Man::new(described).render_description_section(&mut written)?;
    man.render_options_section(&mut written)?;
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        man.render_subcommands_section(&mut written)?;
    }
    let concerns = |entries: &'static [Entry]| {
        let of_verb = entries.iter().filter(|entry| entry.concerns(&path));
        of_verb.map(|entry| (entry.name.to_string(), entry.text.to_string())).collect::<Vec<_>>()
    };
    let text = [
        unfilled("EXAMPLES", help::examples_of(&path).iter().copied()),
        entries("FILES", &concerns(manual::FILES)),
        entries("ENVIRONMENT", &concerns(manual::ENVIRONMENT)),
        entries("EXIT STATUS", &of_statuses(&statuses)),
        see_also(command, &path),
    ];
    written.extend(text.concat().into_bytes());
    String::from_utf8(written).context("a manual page is no text")
}

/// A verb whose description has no exit statuses, and these.
fn without_statuses(command: &Command) -> (Command, Option<String>) {
    let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let (statuses, rest): (Vec<&str>, Vec<&str>) =
        about.split("\n\n").partition(|paragraph| paragraph.starts_with(STATUSES_OF));
    match statuses.first() {
        None => (command.clone(), None),
        Some(found) => {
            let found = found.trim_start_matches(STATUSES_OF).to_string();
            (command.clone().long_about(rest.join("\n\n")), Some(found))
        }
    }
}

/// `0 success; 2 knee could not do it.` as statuses and meanings. What begins with no number goes on with the status
/// before it.
fn of_statuses(text: &str) -> Vec<(String, String)> {
    let mut statuses: Vec<(String, String)> = Vec::new();
    for part in text.trim_end_matches('.').split("; ") {
        let number = part.split_once(' ').filter(|(word, _)| word.parse::<u8>().is_ok());
        match (number, statuses.last_mut()) {
            (Some((number, meaning)), _) => {
                statuses.push((number.to_string(), meaning.to_string()))
            }
            (None, Some((_, before))) => *before += &format!("; {part}"),
            (None, None) => statuses.push((String::new(), part.to_string())),
        }
    }
    statuses
}

/// The other pages and the guides about it.
fn see_also(command: &Command, path: &str) -> String {
    let above = path.rsplit_once(' ').map(|(above, _)| above);
    let below = command.get_subcommands().filter(|one| !one.is_hide_set());
    let mut pages: Vec<String> =
        below.map(|below| format!("{path} {}", below.get_name())).collect();
    pages.extend(above.map(str::to_string));
    pages.extend(manual::neighbours(path).map(str::to_string));
    pages.sort();
    let named = |path: &String| format!("knee-{}(1)", path.trim().replace(' ', "-"));
    let own = if path.is_empty() { None } else { Some("knee(1)".to_string()) };
    let pages: Vec<String> = own.into_iter().chain(pages.iter().map(named)).collect();
    let guides: Vec<String> =
        manual::guides(path).iter().map(|guide| format!("knee help {guide}")).collect();
    let more = if guides.is_empty() { "knee help guides".to_string() } else { guides.join(", ") };
    format!(".SH SEE ALSO\n{}\n.PP\nGuides: {}\n", escaped(&pages.join(", ")), escaped(&more))
}

/// A section of names and texts.
fn entries(title: &str, entries: &[(String, String)]) -> String {
    let one = |(name, text): &(String, String)| {
        format!(".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(text))
    };
    format!(".SH {title}\n{}", entries.iter().map(one).collect::<String>())
}

/// A section whose lines stay as they are.
fn unfilled<'a>(title: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(|line| escaped(line) + "\n").collect();
    format!(".SH {title}\n.nf\n{}.fi\n", lines.concat())
}

/// A line of text, for roff: hyphens can be copied, and none is a control line.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\\\").replace('-', "\\-").replace('~', "\\(ti");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}
