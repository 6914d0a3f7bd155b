//! A question on the terminal before something that cannot be undone.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result, ensure};

use crate::terminal::say;

/// Asks, and returns if the answer is yes. `refusal` says what is not done otherwise; `without_terminal`
/// says how to go on where nobody can be asked.
pub fn ask(question: &str, refusal: &str, without_terminal: &str) -> Result<()> {
    ensure!(
        io::stdin().is_terminal() && io::stderr().is_terminal(),
        "{refusal}, since there is no terminal to ask on: {without_terminal}"
    );
    say(format_args!("{question} [y/N] "));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("reading the answer")?;
    let is_yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
    ensure!(is_yes, "{refusal}: the answer was not yes");
    Ok(())
}
