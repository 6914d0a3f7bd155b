//! What can stand where the cursor is: verbs and options, as clap knows them, and the names of what knee has and measured.

mod names;
mod position;
mod stored;
mod values;

use clap::Command;
use store::Store;

use self::position::{Expected, Position};
use self::values::Values;

/// A word that can stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The whole word, or its beginning.
    pub text: String,
    /// What it is, in a line; may be empty.
    pub about: String,
    /// Whether more of the word follows.
    pub goes_on: bool,
}

impl Candidate {
    pub fn new(text: impl Into<String>, about: impl Into<String>) -> Candidate {
        let text = text.into();
        let goes_on = text.ends_with(['=', ':', '/']);
        Candidate { text, about: about.into(), goes_on }
    }
}

/// What a shell offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    pub candidates: Vec<Candidate>,
    /// Whether any file can stand there, too.
    pub takes_files: bool,
}

/// What can stand at the end of a line. `words` are those before the cursor's, without the program; `current` is the
/// beginning of the word at the cursor. `store` is asked for records where they can stand there.
pub fn complete(knee: &Command, words: &[String], current: &str, store: &Store) -> Completion {
    let position = Position::of(knee, words, current);
    match &position.expected {
        Expected::Program => Completion { takes_files: true, ..Completion::default() },
        Expected::Option => {
            Completion { candidates: options(&position, current), takes_files: false }
        }
        Expected::Value { argument, before } => {
            let given = &current[before.len()..];
            let mut completion = match argument {
                Some(argument) => Values::new(&position, store).of(argument, given),
                None => Completion::default(),
            };
            if position.may_be_verb {
                let verbs = position.command.get_subcommands().filter(|verb| !verb.is_hide_set());
                let verbs = verbs.filter(|verb| verb.get_name().starts_with(given));
                let verbs = verbs.map(|verb| Candidate::new(verb.get_name(), about(verb)));
                completion.candidates.splice(0..0, verbs);
            }
            for candidate in &mut completion.candidates {
                candidate.text.insert_str(0, before);
            }
            completion
        }
    }
}

/// What a verb does.
fn about(verb: &Command) -> String {
    verb.get_about().map(ToString::to_string).unwrap_or_default()
}

/// The options that can be given; those that were given stay away, unless they can be given again.
fn options(position: &Position, current: &str) -> Vec<Candidate> {
    let of_verb = position.command.get_arguments();
    let of_all = position.knee.get_arguments().filter(|argument| argument.is_global_set());
    let is_root = std::ptr::eq(position.command, position.knee);
    let all = of_verb.filter(|argument| is_root || !argument.is_global_set()).chain(of_all);
    let mut options = Vec::new();
    for argument in all.filter(|argument| !argument.is_hide_set()) {
        let Some(long) = argument.get_long() else { continue };
        let is_repeated = matches!(argument.get_action(), clap::ArgAction::Append);
        let text = format!("--{long}");
        let is_given = position.options.contains(&long.to_string()) && !is_repeated;
        if text.starts_with(current) && !is_given && options.iter().all(|(one, _)| *one != text) {
            options.push((text, argument.get_help().map(ToString::to_string).unwrap_or_default()));
        }
    }
    options.into_iter().map(|(text, about)| Candidate::new(text, about)).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    /// The words that are offered at the end of a line without records.
    fn offered(line: &str) -> Completion {
        let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
        let current = words.pop().unwrap_or_default();
        complete(&Cli::command(), &words[1..], &current, &Store::at("/nonexistent/records".into()))
    }

    /// Whether all words of `some` are among what is offered, and none of `none`.
    fn check(line: &str, some: &[&str], none: &[&str]) {
        let texts: Vec<String> = offered(line).candidates.into_iter().map(|one| one.text).collect();
        let has = |word: &&&str| texts.iter().any(|text| text == *word);
        let missing: Vec<_> = some.iter().filter(|word| !has(word)).collect();
        let wrong: Vec<_> = none.iter().filter(has).collect();
        assert!(missing.is_empty() && wrong.is_empty(), "{line}: {missing:?} {wrong:?} {texts:?}");
    }

    #[test]
    fn what_can_stand_there_is_offered() {
        check("knee ", &["run", "watch"], &["worker", "init", "complete"]);
        check("knee r", &["run", "record", "report"], &["list"]);
        check("knee kernel ", &["build", "boot"], &["run"]);
        check("knee run ", &["posix_lock_shared", "first-look", "command:redis"], &["last"]);
        check("knee run command:re", &["command:redis"], &["getppid"]);
        check("knee run getppid --", &["--cpus", "--records", "--blocks"], &["--server"]);
        check("knee run --blocks 3 --b", &[], &["--blocks"]);
        check("knee run --set a=1 --se", &["--set", "--seconds"], &[]);
        check("knee run --cpus ", &["all", "cores", "adaptive"], &["getppid"]);
        check("knee run posix_lock_shared --set ", &["idle_ns=", "mode="], &["clients="]);
        check("knee run posix01 --set mode=", &["mode=try"], &[]);
        check("knee run posix01 --set mode=wait,", &["mode=wait,try"], &["mode=wait,wait"]);
        check("knee run command:redis --set cl", &["clients="], &[]);
        check("knee run getppid --metric=wal", &["--metric=wall_s"], &["wall_s"]);
        check("knee compare --metric system_s,wa", &["system_s,wall_s"], &[]);
        check("knee run x --variant fast=wo", &["fast=workload="], &[]);
        check("knee run x --fs ext4,", &["ext4,xfs"], &["ext4,ext4"]);
        check("knee list ", &["records", "hosts"], &["posix01"]);
        check("knee check ", &["ticket", "all"], &["getppid"]);
        check("knee simulate ticket,m", &["ticket,mcs"], &["ticket,ticket"]);
        check("knee simulate --host ", &["generic-2s"], &["ticket"]);
        check("knee show pos", &["posix_lock_shared"], &[]);
        check("knee simulate replay ", &["I5"], &[]);
        check("knee help ", &["guides", "bisect", "memory-models"], &[]);
        check("knee schema doc", &["doctor"], &[]);
        check("knee --width 80 li", &["list"], &[]);
        check("knee report --simulate mcs --ho", &["--host"], &["--html"]);
    }

    #[test]
    fn files_are_offered_where_they_can_stand() {
        let check = |line: &str, expected: bool| {
            assert_eq!(offered(line).takes_files, expected, "{line}");
        };
        check("knee run --dir ", true);
        check("knee bisect --git ", true);
        check("knee run --seconds ", false);
        check("knee run --command ", true);
        check("knee explain -- ./a", true);
        check("knee serve ", false);
        check("knee watch check ", true);
    }
}
