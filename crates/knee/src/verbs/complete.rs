//! `knee complete`: prints what can stand at the cursor, for the scripts of `knee completions`. Exit status 1 says that any
//! file can stand there, too.

use std::process::ExitCode;

use anyhow::Result;
use clap::Command;
use host::terminal::{one_line, print};
use store::Store;

use crate::completion::{Candidate, Completion, complete};
use crate::renamed;

/// What stands before the cursor.
#[derive(clap::Args)]
pub struct Arguments {
    /// The line up to the cursor, as it was typed
    #[arg(long, conflicts_with = "words")]
    line: Option<String>,
    /// What bash replaces of it
    #[arg(long, requires = "line", default_value = "")]
    word: String,
    /// The words after the program, up to the cursor
    #[arg(last = true)]
    words: Vec<String>,
}

/// Prints a line for each: the word, what it is, and `+` if more follows it.
pub fn run(arguments: &Arguments, knee: &Command, store: &Store) -> Result<ExitCode> {
    let mut words = match &arguments.line {
        Some(line) => typed(line),
        None => arguments.words.clone(),
    };
    let current = words.pop().unwrap_or_default();
    let program = arguments.line.is_none().then(|| "knee".to_string());
    let line = program.into_iter().chain(words).map(Into::into).collect();
    let line = renamed::with_new_names(line, knee);
    let words: Vec<String> =
        line.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let Completion { candidates, takes_files } = complete(knee, &words, &current, store);
    // Bash replaces what follows the last `=` or `:` only.
    let replaced = if current.ends_with(&arguments.word) { arguments.word.len() } else { 0 };
    let kept = current.len() - replaced;
    let line = |one: &Candidate| match arguments.line {
        Some(_) => format!("{}{}\n", &one.text[kept..], if one.goes_on { "\t" } else { "" }),
        None => {
            let more = if one.goes_on { "+" } else { "" };
            format!("{}\t{}\t{more}\n", one.text, one_line(&one.about))
        }
    };
    print(candidates.iter().map(line).collect::<String>())?;
    Ok(ExitCode::from(u8::from(takes_files)))
}

/// The words of a line that is being typed: quotes may be open, and a blank at the end begins a word.
fn typed(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut is_escaped = false;
    for c in line.chars() {
        let ends = quote.is_none() && !is_escaped && c.is_whitespace();
        match (c, quote) {
            _ if ends && words.last().is_some_and(String::is_empty) => continue,
            _ if ends => words.push(String::new()),
            ('\\', None | Some('"')) if !is_escaped => {
                is_escaped = true;
                continue;
            }
            ('"' | '\'', None) if !is_escaped => quote = Some(c),
            (c, Some(open)) if c == open && !is_escaped => quote = None,
            _ => words.last_mut().expect("there is one").push(c),
        }
        is_escaped = false;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_while_it_is_typed() {
        let check = |line: &str, words: &[&str]| assert_eq!(typed(line), words, "{line}");
        check("knee", &["knee"]);
        check("knee ", &["knee", ""]);
        check("knee  run 'a b", &["knee", "run", "a b"]);
        check(r#"knee --command "./app \"x" --se"#, &["knee", "--command", "./app \"x", "--se"]);
        check(r"knee a\ b ", &["knee", "a b", ""]);
    }
}
