//! Names that verbs had before: old command lines go on working.

use std::ffi::OsString;
use std::io::{IsTerminal, stderr};

use clap::Command;
use host::terminal::hint;

/// Old words, and the words that stand for them now.
pub const RENAMED: [(&str, &str); 16] = [
    ("boot", "kernel boot"),
    ("calibrate", "doctor calibrate"),
    ("chunk", "fleet chunk"),
    ("describe", "show"),
    ("export", "record export"),
    ("forecast", "scale forecast"),
    ("fragile", "compare fragile"),
    ("import", "record import"),
    ("note", "record note"),
    ("prune", "record prune"),
    ("replay", "simulate replay"),
    ("rm", "record rm"),
    ("screen", "bisect screen"),
    ("selfcheck --host", "doctor verdicts"),
    ("series", "bisect series"),
    ("simulate --operation", "simulate operation"),
];

/// What `knee explain --view` took before it took forms of answers, and `--part` takes now.
const PARTS: [&str; 7] = ["ledger", "tree", "diff", "folded", "firefox", "locks", "ipis"];

/// The command line with new names for old ones. `knee` tells which options stand before a verb.
pub fn with_new_names(mut line: Vec<OsString>, knee: &Command) -> Vec<OsString> {
    let Some(at) = verb_at(&line, knee) else {
        // What has no verb, as --version has none.
        if line.len() == 2 && line[1] == "--licenses" {
            line.splice(1.., ["help", "licenses"].map(OsString::from));
        }
        return line;
    };
    let verb = line[at].to_string_lossy().into_owned();
    if verb == "explain" {
        name_parts(&mut line[at..]);
    }
    for (old, new) in RENAMED {
        let (old_verb, flag) = old.split_once(' ').map_or((old, None), |(v, flag)| (v, Some(flag)));
        if verb != old_verb {
            continue;
        }
        if let Some(flag) = flag {
            let mut options = line.iter().skip(at).take_while(|word| *word != "--");
            let Some(after) = options.position(|word| word == flag) else { continue };
            line.remove(at + after);
        }
        line.splice(at..=at, new.split(' ').map(OsString::from));
        if stderr().is_terminal() {
            hint(format_args!("knee {old} is called knee {new} now"));
        }
        return line;
    }
    line
}

/// Calls `--view PART` `--part PART`.
fn name_parts(line: &mut [OsString]) {
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    for at in 0..end {
        let word = line[at].to_string_lossy().into_owned();
        let next = line.get(at + 1).map(|next| next.to_string_lossy().into_owned());
        let (new, part) = match word.strip_prefix("--view=") {
            Some(part) => (format!("--part={part}"), Some(part.to_string())),
            None if word == "--view" => ("--part".to_string(), next),
            None => continue,
        };
        if let Some(part) = part.filter(|part| PARTS.contains(&part.as_str())) {
            line[at] = new.into();
            if stderr().is_terminal() {
                hint(format_args!("knee explain --view {part} is called --part {part} now"));
            }
        }
    }
}

/// Where the verb stands: the first word that is no option and no option's value. After `help`, the verb it is about.
pub fn verb_at(line: &[OsString], knee: &Command) -> Option<usize> {
    let takes_value = |word: &str| {
        let is_it = |argument: &&clap::Arg| {
            word.strip_prefix("--").is_some_and(|name| argument.get_long() == Some(name))
        };
        knee.get_arguments()
            .find(is_it)
            .is_some_and(|argument| argument.get_action().takes_values())
    };
    let mut at = 1;
    while let Some(word) = line.get(at).map(|word| word.to_string_lossy()) {
        match &*word {
            "--" => return None,
            "help" => at += 1,
            option if option.starts_with('-') => at += 1 + usize::from(takes_value(option)),
            _ => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    #[track_caller]
    fn check(old: &str, new: &str) {
        let line = old.split(' ').map(OsString::from).collect();
        let renamed = with_new_names(line, &Cli::command());
        let words: Vec<String> =
            renamed.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(words.join(" "), new, "{old}");
    }

    #[test]
    fn options_of_all_commands_may_stand_before_an_old_name() {
        check("knee rm last", "knee record rm last");
        check(
            "knee -q --records boot --width=80 boot x",
            "knee -q --records boot --width=80 kernel boot x",
        );
        check("knee help note", "knee help record note");
        check("knee run boot", "knee run boot");
        check("knee -- boot", "knee -- boot");
        check("knee bisect replay log", "knee bisect replay log");
        check("knee selfcheck --json --host", "knee doctor verdicts --json");
        check("knee selfcheck --scale", "knee selfcheck --scale");
        check("knee explain last --view locks", "knee explain last --part locks");
        check("knee explain --view=tree a -- b", "knee explain --part=tree a -- b");
        check("knee explain a --view mail", "knee explain a --view mail");
        check("knee explain a -- --view locks", "knee explain a -- --view locks");
        check("knee explain a --view", "knee explain a --view");
        check("knee", "knee");
    }

    #[test]
    fn every_new_name_is_a_verb() {
        let knee = Cli::command();
        for (old, new) in RENAMED {
            let found = new.split(' ').try_fold(&knee, |above, word| above.find_subcommand(word));
            assert!(found.is_some(), "{old} → {new}");
            let is_verb = knee.get_subcommands().any(|verb| verb.get_name() == old);
            assert!(!is_verb, "{old} is a verb and an old name");
        }
    }
}
