//! The command line of this process.

use std::sync::OnceLock;

/// What `set_command_line` was given.
static WORDS: OnceLock<Vec<String>> = OnceLock::new();

/// Stores the words of the command line, which `main` reads once. Later calls change nothing.
pub fn set_command_line(words: Vec<String>) {
    WORDS.get_or_init(|| words);
}

/// The words of the command line, for records and reports; none in a program that has not set them.
pub fn command_line() -> Vec<String> {
    WORDS.get().cloned().unwrap_or_default()
}
