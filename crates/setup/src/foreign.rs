//! The gate before everything that compiles or starts what a file decides. A value that files decided is
//! [`Foreign`]: it can be looked at, and nothing more. It becomes [`Permitted`], which what compiles and starts
//! programs asks for, if all of these files are the user's own, or if the user agrees to what it would do.

use std::ops::Deref;
use std::path::Path;

use anyhow::Result;
use host::question;
use host::terminal::{one_line, say, talk};

use crate::own_file;

/// A value that files decided, with those of them that may be another's than the user's.
#[derive(Clone, Debug)]
pub struct Foreign<T> {
    value: T,
    strangers: Vec<Stranger>,
}

/// A file that is not the user's own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stranger {
    /// Its name, as the user gave it.
    name: String,
    /// Why it is not, to follow the name.
    why: String,
}

impl<T> Foreign<T> {
    /// A value that the command line decided.
    pub fn typed(value: T) -> Foreign<T> {
        Foreign { value, strangers: Vec::new() }
    }

    /// A value that the file `name` decided, too; `why` it is not the user's own, if it is not.
    pub fn decided_by(mut self, name: &str, why: Option<String>) -> Foreign<T> {
        let stranger = why.map(|why| Stranger { name: name.to_string(), why });
        self.strangers.extend(stranger.filter(|stranger| !self.strangers.contains(stranger)));
        self
    }

    /// A value with which this file is compiled: who wrote the file matters, not where it lies.
    pub fn with_code(self, file: &Path) -> Result<Foreign<T>> {
        let why = own_file::why_code_not_own(file)?;
        Ok(self.decided_by(&file.to_string_lossy(), why))
    }

    /// The value, to be shown.
    pub fn look(&self) -> &T {
        &self.value
    }

    /// Whether nobody but the user decided it.
    pub fn is_own(&self) -> bool {
        self.strangers.is_empty()
    }

    /// Why it is not the user's alone, as a sentence's start; `None` if it is.
    pub fn why_not_own(&self) -> Option<String> {
        self.strangers.first().map(|Stranger { name, why }| format!("{name} {why}"))
    }

    /// Another value that follows from this one.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Foreign<U> {
        Foreign { value: change(self.value), strangers: self.strangers }
    }

    /// Another value that follows from this one, if any does.
    pub fn try_map<U>(self, change: impl FnOnce(T) -> Result<U>) -> Result<Foreign<U>> {
        Ok(Foreign { value: change(self.value)?, strangers: self.strangers })
    }

    /// Both values: whoever decided one of them decided what comes of both.
    pub fn and<U>(self, other: Foreign<U>) -> Foreign<(T, U)> {
        let mut strangers = self.strangers;
        strangers.extend(other.strangers);
        strangers.dedup();
        Foreign { value: (self.value, other.value), strangers }
    }

    /// The value, to be run. Unless it is the user's own, or `yes` was given, shows the list of what it would
    /// do and asks on the terminal, once; without a terminal, refuses.
    pub fn permitted(
        self,
        yes: bool,
        list: impl FnOnce(&T) -> Result<String>,
    ) -> Result<Permitted<T>> {
        if yes || self.is_own() {
            return Ok(Permitted(self.value));
        }
        for Stranger { name, why } in &self.strangers {
            talk(format_args!("{} {why}; what it decides runs with your rights.", one_line(name)));
        }
        say(list(&self.value)?);
        let names: Vec<String> = self.strangers.iter().map(|s| one_line(&s.name)).collect();
        let (is, them) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
        let refusal = format!("{} {is} not run", names.join(", "));
        let remedy = format!("read {them}, then add --yes, or copy {them} to a folder of yours");
        question::ask("Run it?", &refusal, &remedy)?;
        Ok(Permitted(self.value))
    }
}

/// A value that may be compiled or run: the user typed it, it is the user's own, or the user agreed.
#[derive(Clone, Debug)]
pub struct Permitted<T>(T);

impl<T> Permitted<T> {
    /// A value that the command line decided alone, or that comes with knee. Not for what was read from a file.
    pub fn typed(value: T) -> Permitted<T> {
        Permitted(value)
    }

    /// Another value that follows from this one alone.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Permitted<U> {
        Permitted(change(self.0))
    }

    /// Another value that follows from this one alone, if any does.
    pub fn try_map<U>(self, change: impl FnOnce(T) -> Result<U>) -> Result<Permitted<U>> {
        change(self.0).map(Permitted)
    }

    /// A part of the value, or what follows from it.
    pub fn part<U>(&self, part: impl FnOnce(&T) -> U) -> Permitted<U> {
        Permitted(part(&self.0))
    }

    /// The value, where it is run.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Permitted<Result<T>> {
    /// The value, if there is one.
    pub fn transpose(self) -> Result<Permitted<T>> {
        self.0.map(Permitted)
    }
}

impl<T> Deref for Permitted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_own_is_listed_and_refused_without_a_terminal() {
        let own = Foreign::typed(1).decided_by("a", None);
        assert!(own.is_own() && *own.permitted(false, |_| unreachable!()).unwrap() == 1);
        let both = Foreign::typed(1)
            .decided_by("b", Some("is eve's".to_string()))
            .and(Foreign::typed(2).decided_by("c", Some("is eve's".to_string())));
        assert_eq!(both.why_not_own().unwrap(), "b is eve's");
        assert_eq!(*both.clone().permitted(true, |_| unreachable!()).unwrap(), (1, 2));
        let mut listed = false;
        let list = |_: &(i32, i32)| {
            listed = true;
            Ok(String::new())
        };
        // A person who runs the tests is not asked.
        if !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
            let why = both.permitted(false, list).unwrap_err().to_string();
            assert!(
                listed && why.starts_with("b, c are not run, since there is no terminal"),
                "{why}"
            );
        }
    }
}
