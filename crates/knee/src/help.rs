//! What help pages show: the overview of all verbs in groups, and examples below each verb.

mod examples;
mod first_screen;
pub mod manual;

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use host::unknown;
use text::prose::wrapped;

use crate::{renamed, verbs};

/// The groups of the overview. Each visible verb is in one.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["run", "fleet", "kernel", "doctor"]),
    ("Judge", &["compare", "scale", "bisect", "gate", "watch"]),
    ("Explain", &["explain", "top", "conflicts"]),
    ("Check and simulate algorithms", &["check", "simulate", "new"]),
    ("Keep results", &["list", "show", "report", "serve", "record"]),
];

const GUIDES: &str = "Guides: `knee help guides`, `knee help --search WORDS`; `knee --licenses`";

/// The exit statuses of all verbs.
pub const EXIT_STATUS: &str = "Exit status: 0 success; 1 some runs failed, or a check found a fault; 2 knee could not do \
    it; 3 a verdict that --fail-if names, or a check could not check everything; 130 interrupted, finished runs are kept.";

/// The command line with its help pages, for lines of `width` columns.
pub fn prepared(knee: Command, width: usize) -> Command {
    let knee = knee
        .term_width(width)
        .mut_subcommand("explain", verbs::explain::with_short_help)
        .mut_subcommand("bisect", |bisect| {
            bisect.mut_subcommand("screen", verbs::screen::with_short_help)
        })
        .mut_subcommand("fleet", |fleet| {
            fleet.mut_subcommand("plan", verbs::fleet::with_help_of_plan)
        });
    let overview = overview(&knee, width);
    knee.mut_subcommands(|verb| {
        let name = verb.get_name().to_string();
        let below = verb.mut_subcommands(|below| {
            let path = format!("{name} {}", below.get_name());
            with_examples(with_long_help(below, &path), &path)
        });
        with_examples(with_long_help(below, &name), &name)
    })
    .override_help(overview)
}

/// The examples of a verb by the words of its name; of knee itself, where there are none.
pub fn examples_of(path: &str) -> &'static [&'static str] {
    examples::EXAMPLES.iter().find(|(verb, _)| *verb == path).map_or(&[], |(_, lines)| lines)
}

/// A verb whose long help is in paragraphs for lines of any width, the last of which says its exit statuses.
fn with_long_help(verb: Command, path: &str) -> Command {
    let about = verb.get_long_about().or(verb.get_about()).map(ToString::to_string);
    let about = about.unwrap_or_default();
    let has_statuses = about.contains(manual::STATUSES_OF);
    let mut paragraphs: Vec<String> = about.split("\n\n").map(unfolded).collect();
    if !has_statuses {
        paragraphs.push(format!("{}{}", manual::STATUSES_OF, manual::statuses(path)));
    }
    verb.long_about(paragraphs.join("\n\n"))
}

/// A paragraph on one line. Commands, which are indented, stay on their lines.
fn unfolded(paragraph: &str) -> String {
    let is_commands = paragraph.starts_with("    ");
    if is_commands { paragraph.to_string() } else { paragraph.replace('\n', " ") }
}

/// A verb with its examples at the end of its help.
fn with_examples(verb: Command, path: &str) -> Command {
    match examples::of(path) {
        Some(lines) => verb.after_help(format!("Examples:\n  {}\n  {}", lines[0], lines[1])),
        None => verb,
    }
}

/// One screen about all of knee.
fn overview(knee: &Command, width: usize) -> String {
    let style = knee.get_styles().get_header();
    let heading = |text: &str| format!("{style}{text}{style:#}\n");
    let about = knee.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = wrapped(&about, width, 0);
    page += "\nUsage: knee [OPTIONS] VERB …      (knee VERB -h shows a verb's options)\n";
    for (group, verbs) in GROUPS {
        page += &format!("\n{}", heading(group));
        for verb in verbs.iter().filter_map(|verb| knee.find_subcommand(verb)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            page += &wrapped(&format!("  {:10}{about}", verb.get_name()), width, 12);
        }
    }
    page += &format!("\n{}", heading("Options of all verbs"));
    let options = knee.get_arguments().filter(|option| !option.is_hide_short_help_set());
    for option in options {
        let long = option.get_long().unwrap_or_default();
        let value = option.get_value_names().filter(|_| option.get_action().takes_values());
        let value = value.map(|names| format!(" {}", names.join(" "))).unwrap_or_default();
        let short = option.get_short().map_or("    ".to_string(), |short| format!("-{short}, "));
        let about = option.get_help().map(ToString::to_string).unwrap_or_default();
        page += &wrapped(&format!("  {:22}{about}", format!("{short}--{long}{value}")), width, 24);
    }
    page + &format!("\n{}{}", wrapped(GUIDES, width, 0), wrapped(EXIT_STATUS, width, 0))
}

/// What to say instead of clap about a verb that is missing or unknown; `None` about anything else.
pub fn of_verb(error: &clap::Error, knee: &Command, line: &[OsString]) -> Option<String> {
    let is_missing =
        error.kind() == ErrorKind::MissingSubcommand && error.to_string().contains("'knee'");
    if is_missing || line.len() == 1 {
        return Some(first_screen::text(text::stdout_width()));
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let first = line.get(renamed::verb_at(line, knee)?)?.to_string_lossy();
    let above = if first == *wrong { None } else { knee.find_subcommand(&*first) };
    let (kind, old, list) = match above {
        Some(above) => {
            let name = above.get_name();
            (format!("verb of knee {name}"), &[][..], format!("knee {name} -h"))
        }
        None => ("verb".to_string(), &renamed::RENAMED[..], "knee --help".to_string()),
    };
    let verbs = above.unwrap_or(knee).get_subcommands().filter(|verb| !verb.is_hide_set());
    let old = old.iter().filter_map(|(old, _)| old.split(' ').next());
    Some(format!("knee: {}", unknown(&kind, wrong, verbs.map(Command::get_name).chain(old), &list)))
}

/// What clap says of a wrong command line, in the form of knee's other errors: one sentence, and where the options are.
pub fn of_error(error: &clap::Error, knee: &Command, line: &[OsString]) -> String {
    let told = error.render().to_string();
    // After the error and its tips come the verb's usage and a hint at --help.
    let is_told = |line: &&str| !["Usage: ", "For more"].iter().any(|end| line.starts_with(end));
    let mut sentence = String::new();
    for line in told.lines().map(str::trim).take_while(is_told).filter(|line| !line.is_empty()) {
        match line.strip_prefix("tip: ") {
            Some(tip) => sentence += &format!("; {tip}"),
            None => sentence += &format!(" {}", line.trim_start_matches("error: ")),
        }
    }
    format!("knee:{sentence}; `{} -h` shows all options", verb_of(line, knee).join(" "))
}

/// The names of the verb that a command line has, from `knee` on.
fn verb_of(line: &[OsString], knee: &Command) -> Vec<String> {
    let mut names = vec!["knee".to_string()];
    let Some(first) = renamed::verb_at(line, knee) else { return names };
    let mut verb = knee;
    for word in &line[first..] {
        let Some(below) = verb.find_subcommand(word) else { break };
        names.push(below.get_name().to_string());
        verb = below;
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    /// Every verb, also the hidden ones, with the words of its name.
    fn all_verbs() -> Vec<(String, Command)> {
        let mut knee = prepared(Cli::command(), 80);
        knee.build();
        let mut found = Vec::new();
        let mut ahead = vec![(String::new(), knee)];
        while let Some((path, command)) = ahead.pop() {
            for below in command
                .get_subcommands()
                .filter(|below| path.is_empty() || below.get_name() != "help")
            {
                ahead.push((
                    format!("{path} {}", below.get_name()).trim().to_string(),
                    below.clone(),
                ));
            }
            found.push((path, command));
        }
        found
    }

    /// Whether only knee itself starts a verb.
    fn is_internal(path: &str) -> bool {
        ["man-pages", "complete", "init", "remote", "metal", "worker"].contains(&path)
    }

    #[test]
    fn errors_are_one_sentence() {
        let check = |line: &str, expected: &str| {
            let mut knee = prepared(Cli::command(), 80);
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = knee.try_get_matches_from_mut(line.clone()).unwrap_err();
            assert_eq!(of_error(&error, &knee, &line), expected);
        };
        check(
            "knee run getppid --secondss 1",
            "knee: unexpected argument '--secondss' found; a similar argument exists: '--seconds'; `knee run -h` shows all options",
        );
        check(
            "knee run getppid --blocks x",
            "knee: invalid value 'x' for '--blocks <BLOCKS>': invalid digit found in string; `knee run -h` shows all options",
        );
        check(
            "knee --records r kernel build --jobs",
            "knee: a value is required for '--jobs <N>' but none was supplied; `knee kernel build -h` shows all options",
        );
        check(
            "knee compare a --fail-if sloer",
            "knee: invalid value 'sloer' for '--fail-if <VERDICT>' [possible values: slower, clearly-slower, faster, changed, undecided]; a similar value exists: 'slower'; `knee compare -h` shows all options",
        );
    }

    #[test]
    fn short_helps_fit_a_screen_of_45_lines() {
        let too_long = all_verbs().into_iter().filter_map(|(path, mut command)| {
            let lines = command.render_help().to_string().lines().count();
            (lines > 45).then(|| format!("knee {path} -h: {lines} lines"))
        });
        let too_long: Vec<String> = too_long.collect();
        assert!(too_long.is_empty(), "{}", too_long.join("\n"));
    }

    #[test]
    fn each_visible_verb_is_in_one_group() {
        let knee = Cli::command();
        let visible = knee.get_subcommands().filter(|verb| !verb.is_hide_set());
        let visible: BTreeSet<&str> = visible.map(Command::get_name).collect();
        let listed: Vec<&str> =
            GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        assert_eq!(listed.len(), 20);
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), visible);
    }

    #[test]
    fn long_helps_have_a_text_of_their_own_and_exit_statuses() {
        for (path, command) in all_verbs().into_iter().filter(|(path, _)| !is_internal(path)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
            let paragraphs: Vec<&str> = long.split("\n\n").collect();
            assert!(!about.contains('\n') && !about.ends_with([':', '.']), "knee {path}: {about}");
            assert!(paragraphs.len() > 2 || path.is_empty(), "knee {path} --help: {long}");
            assert_eq!(
                paragraphs[0].trim_end_matches('.'),
                about,
                "knee {path} --help begins with another text than -h"
            );
            let of_statuses =
                paragraphs.iter().filter(|text| text.starts_with(manual::STATUSES_OF));
            assert_eq!(of_statuses.count(), usize::from(!path.is_empty()), "knee {path}: {long}");
        }
    }

    #[test]
    fn each_verb_has_two_examples_that_can_be_parsed() {
        for (path, _) in all_verbs() {
            if path.is_empty() || is_internal(&path) {
                continue;
            }
            let lines =
                examples::of(&path).unwrap_or_else(|| panic!("knee {path} has no examples"));
            for line in lines {
                assert!(line.chars().count() <= 68, "{line}");
                assert!(line.starts_with(&format!("knee {path}")), "{path}: {line}");
                let line = line.split(['>', '|', '#']).next().unwrap_or_default();
                let words = shlex::split(line).expect("an example is a line for a shell");
                let parsed = Cli::command().try_get_matches_from(words);
                assert!(
                    parsed.is_ok(),
                    "{line}: {}",
                    parsed.err().map(|e| e.to_string()).unwrap_or_default()
                );
            }
        }
    }

    /// The command lines of knee in a document: those of indented blocks, up to what explains them or comes after them.
    fn commands(document: &str) -> Vec<String> {
        let mut lines = document.lines();
        let mut commands = Vec::new();
        while let Some(line) = lines.next() {
            let Some(line) = line.strip_prefix("    ") else { continue };
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            let is_printed = ["knee took ", "knee at "].iter().any(|start| line.starts_with(start));
            if is_printed || !line.starts_with("knee ") {
                continue;
            }
            let mut whole = line.to_string();
            while let Some(cut) = whole.strip_suffix('\\') {
                whole = format!("{cut} {}", lines.next().unwrap_or_default().trim());
            }
            let explained = whole.find("   ").unwrap_or(whole.len());
            commands.push(whole[..explained].to_string());
        }
        commands
    }

    /// The words of the first program of a shell's line.
    fn words_of_first(line: &str) -> Option<Vec<String>> {
        let mut words = Vec::new();
        for word in shlex::split(line)? {
            if ["|", ">", ";", "&", "&&", "#", "<(", "<"].contains(&word.as_str()) {
                break;
            }
            let ends = word.ends_with(';');
            // What another program prints is a number.
            let word = if word.starts_with("$(") { "1" } else { word.trim_end_matches(';') };
            words.push(word.to_string());
            if ends {
                break;
            }
        }
        Some(words)
    }

    #[test]
    fn every_command_of_the_documents_can_be_parsed() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut ahead = vec![root.join("docs"), root.join("README.md")];
        let (mut parsed, mut wrong) = (0, Vec::new());
        while let Some(path) = ahead.pop() {
            if path.is_dir() {
                ahead.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|ending| ending == "md") {
                for line in commands(&std::fs::read_to_string(&path).unwrap()) {
                    let words = words_of_first(&line).unwrap_or_default();
                    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
                    let mut knee = prepared(Cli::command(), 80);
                    let words = crate::renamed::with_new_names(words, &knee);
                    let is_help = |error: &clap::Error| !error.use_stderr();
                    match knee.try_get_matches_from_mut(words.clone()) {
                        Err(error) if !is_help(&error) => {
                            let why = of_error(&error, &knee, &words);
                            wrong.push(format!("{}: {line}\n    {why}", path.display()));
                        }
                        _ => parsed += 1,
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), parsed, wrong.join("\n"));
        assert!(parsed > 200, "{parsed}");
    }

    #[test]
    fn every_example_is_of_a_verb() {
        let verbs: BTreeSet<String> = all_verbs().into_iter().map(|(path, _)| path).collect();
        for (path, _) in examples::EXAMPLES {
            assert!(verbs.contains(*path), "{path}");
        }
    }
}
