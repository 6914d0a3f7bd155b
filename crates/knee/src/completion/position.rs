//! Where in a command line the cursor is: in the value of which argument of which verb.

use clap::{Arg, Command};

/// What is expected at the cursor.
pub enum Expected<'k> {
    Option,
    /// A value; no argument takes one where `argument` is none. `before` is what stands in the same word before it: `--set=`.
    Value {
        argument: Option<&'k Arg>,
        before: String,
    },
    /// A program or its arguments, after `--`.
    Program,
}

/// The place of the cursor.
pub struct Position<'k> {
    pub knee: &'k Command,
    /// The verb, and the words of its name.
    pub command: &'k Command,
    pub path: String,
    /// Values that stand before the cursor, each with the name of its argument.
    pub given: Vec<(&'k str, String)>,
    /// Long names of the options that were given.
    pub options: Vec<String>,
    /// Whether the name of a verb can stand there, too.
    pub may_be_verb: bool,
    pub expected: Expected<'k>,
}

impl<'k> Position<'k> {
    /// Reads the words before the cursor's, and the beginning of that one.
    pub fn of(knee: &'k Command, words: &[String], current: &str) -> Position<'k> {
        let mut position = Position {
            knee,
            command: knee,
            path: String::new(),
            given: Vec::new(),
            options: Vec::new(),
            may_be_verb: true,
            expected: Expected::Program,
        };
        let mut pending: Option<&Arg> = None;
        for word in words {
            if let Some(argument) = pending.take() {
                position.given.push((argument.get_id().as_str(), word.clone()));
            } else if word == "--" {
                return position;
            } else if is_option(word) {
                pending = position.option(word);
            } else {
                position.word(word);
            }
            // What follows it are arguments of another verb.
            if pending.is_some_and(|argument| argument.get_id() == "simulate") {
                pending = None;
                position.enter("simulate");
            }
        }
        position.expected = position.expected_after(pending, current);
        position.may_be_verb &= pending.is_none() && !is_option(current);
        position
    }

    /// The values before the cursor of the arguments with these names.
    pub fn values(&self, names: &[&str]) -> impl Iterator<Item = &str> {
        let of = self.given.iter().filter(move |(name, _)| names.contains(name));
        of.map(|(_, value)| value.as_str())
    }

    /// Takes an option; returns it if the next word is its value.
    fn option(&mut self, word: &str) -> Option<&'k Arg> {
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        let argument = self.named(name)?;
        self.options.extend(argument.get_long().map(str::to_string));
        match value {
            _ if !argument.get_action().takes_values() => None,
            Some(value) => {
                self.given.push((argument.get_id().as_str(), value.to_string()));
                None
            }
            None => Some(argument),
        }
    }

    /// The option of this name: `--cpus`, `-n`.
    fn named(&self, name: &str) -> Option<&'k Arg> {
        let is_it = |argument: &&Arg| match name.strip_prefix("--") {
            Some(long) => {
                argument.get_long() == Some(long)
                    || argument.get_all_aliases().is_some_and(|all| all.contains(&long))
            }
            None => argument.get_short().is_some_and(|short| name == format!("-{short}")),
        };
        self.command.get_arguments().chain(self.knee.get_arguments()).find(is_it)
    }

    /// Takes a word that is no option: a verb, or a value.
    fn word(&mut self, word: &str) {
        if self.may_be_verb && self.command.find_subcommand(word).is_some() {
            self.enter(word);
            return;
        }
        self.may_be_verb = false;
        if let Some(argument) = self.positional() {
            self.given.push((argument.get_id().as_str(), word.to_string()));
        }
    }

    fn enter(&mut self, verb: &str) {
        let above = if verb == "simulate" { self.knee } else { self.command };
        let Some(below) = above.find_subcommand(verb) else { return };
        let is_first = std::ptr::eq(above, self.knee);
        self.path = if is_first { verb.to_string() } else { format!("{} {verb}", self.path) };
        self.command = below;
        self.given.clear();
    }

    /// What takes the next word that is no option.
    fn positional(&self) -> Option<&'k Arg> {
        let takes_more = |argument: &&Arg| {
            let is_many = argument.get_num_args().is_some_and(|number| number.max_values() > 1);
            is_many || self.values(&[argument.get_id().as_str()]).next().is_none()
        };
        self.command.get_positionals().find(takes_more)
    }

    fn expected_after(&self, pending: Option<&'k Arg>, current: &str) -> Expected<'k> {
        if pending.is_some() {
            return Expected::Value { argument: pending, before: String::new() };
        }
        match current.split_once('=') {
            Some((name, _)) if name.starts_with("--") => {
                Expected::Value { argument: self.named(name), before: format!("{name}=") }
            }
            _ if is_option(current) || current == "-" => Expected::Option,
            _ => Expected::Value { argument: self.positional(), before: String::new() },
        }
    }
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}
