//! The terminal: all that knee writes for people goes through here. Results go to standard output,
//! messages to standard error. `println!` and `eprintln!` panic when the reader is gone; a measurement
//! must not end for that reason.
//!
//! Names in records and texts of other tools may hold characters that move the cursor, change the title
//! or reverse the order of what follows. They are shown as `\u001b`, which JSON and TOML read as the same
//! character. Colours pass because they carry a mark that only this process knows.

use std::env;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{LazyLock, PoisonError, RwLock};

use anyhow::{Context, Result};

use crate::random;

/// The context of errors about a result that cannot be written.
pub const WRITING: &str = "writing the result";

/// What the user asked for by options.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Columns to stay within.
    pub width: Option<usize>,
    pub color: ColorChoice,
    /// No progress and no hints.
    pub quiet: bool,
    /// Whether long texts may be shown in a pager.
    pub pager: bool,
}

/// When output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorChoice {
    /// On a terminal that can, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

static SETTINGS: RwLock<Settings> =
    RwLock::new(Settings { width: None, color: ColorChoice::Auto, quiet: false, pager: true });

/// From now on, output is as the user asked for.
pub fn configure(settings: Settings) {
    *SETTINGS.write().unwrap_or_else(PoisonError::into_inner) = settings;
}

fn settings() -> Settings {
    *SETTINGS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a pager may show long texts.
pub fn allows_pager() -> bool {
    settings().pager && is_capable()
}

/// Prints a line on standard error, and ignores failures: there is nowhere to report them.
pub fn talk(line: impl Display) {
    say(format_args!("{line}\n"));
}

/// Prints a text on standard error, and ignores failures.
pub fn say(text: impl Display) {
    let _ = io::stderr().write_all(shown(&text.to_string()).as_bytes());
}

/// Prints progress or advice, which `--quiet` silences, on standard error.
pub fn hint(line: impl Display) {
    if !is_quiet() {
        talk(line);
    }
}

/// Whether the user wants no progress and no hints.
pub fn is_quiet() -> bool {
    settings().quiet
}

/// Prints a result, or a part of one. A reader that closes the pipe early is no error.
pub fn print(text: impl Display) -> Result<()> {
    match write(&mut io::stdout(), &shown(&text.to_string())) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context(WRITING),
    }
}

/// Prints a line of a result.
pub fn print_line(text: impl Display) -> Result<()> {
    print(format_args!("{text}\n"))
}

fn write(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// The columns that the user asked for.
pub fn requested_columns() -> Option<usize> {
    settings().width
}

/// The width of the terminal in columns, if standard output is one.
pub fn stdout_columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call fills one live winsize.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col > 0).then_some(size.ws_col as usize)
}

/// Whether standard output is a terminal that shows more than plain lines.
pub fn is_capable() -> bool {
    io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether this process may draw on the terminal of standard error: a shell has not put it into the
/// background.
pub fn is_foreground() -> bool {
    // SAFETY: plain calls. Without a terminal the first one fails, and nobody is disturbed.
    let (foreground, own) = unsafe { (libc::tcgetpgrp(libc::STDERR_FILENO), libc::getpgrp()) };
    foreground == -1 || foreground == own
}

/// Whether results are coloured. Options come before NO_COLOR, and that before CLICOLOR_FORCE.
pub fn has_color() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let forced = || env::var_os("CLICOLOR_FORCE").is_some_and(|v| !v.is_empty() && v != "0");
    match settings().color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => !is_set("NO_COLOR") && (is_capable() || forced()),
    }
}

/// Begins each colour of ours. Other text cannot hold it: it was drawn when this process started.
static MARK: LazyLock<String> = LazyLock::new(|| format!("\x1b{:016x}[", random()));

/// Text in a colour or weight, by its ANSI number: 1 is bold, 2 dim, 36 cyan.
pub fn painted(text: &str, number: u8) -> String {
    let mark = &*MARK;
    format!("{mark}{number}m{text}{mark}0m")
}

/// Marks the colours in a text of ours, such as a help page, so that they pass.
pub fn trusted(text: &str) -> String {
    text.replace("\x1b[", &MARK)
}

/// The text as the terminal gets it: colours of ours, and everything else that would control the
/// terminal as an escape that can be read.
pub fn shown(text: &str) -> String {
    if !text.chars().any(is_control) {
        return text.to_string();
    }
    text.split(&*MARK).map(escaped).collect::<Vec<_>>().join("\x1b[")
}

/// Control and formatting characters as `\u202e`; newlines and tabs, which lay out text, stay.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if is_control(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                escaped += &format!("\\u{unit:04x}");
            }
        } else {
            escaped.push(char);
        }
    }
    escaped
}

/// A name as a part of one line: its own line breaks and tabs are shown as escapes too.
pub fn one_line(name: &str) -> String {
    name.replace('\n', "\\u000a").replace('\t', "\\u0009")
}

/// Whether a terminal would obey a character, or show it as nothing, instead of as itself.
fn is_control(char: char) -> bool {
    match char {
        '\n' | '\t' => false,
        // Marks of direction, joiners, line and paragraph separators, invisible operators and tags.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => char.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_control_the_terminal_is_shown_as_an_escape() {
        assert_eq!(shown("a\tb\n\x1b]0;title\x07"), "a\tb\n\\u001b]0;title\\u0007");
        assert_eq!(
            shown("\u{202e}gpj.exe\u{9b}31m\x7f\r"),
            "\\u202egpj.exe\\u009b31m\\u007f\\u000d"
        );
        assert_eq!(shown("\u{e0041}"), "\\udb40\\udc41");
        assert_eq!(one_line("a\nb\tc"), "a\\u000ab\\u0009c");
        assert_eq!(shown("naïve ± 你好"), "naïve ± 你好");
    }

    #[test]
    fn an_escape_is_the_same_character_to_a_reader_of_json() {
        let name = "\\\u{202e}\u{9b}\u{e0041}\x7f\u{2028}";
        let json = serde_json::to_string(name).unwrap();
        assert_ne!(shown(&json), json);
        assert_eq!(serde_json::from_str::<String>(&shown(&json)).unwrap(), name);
    }

    #[test]
    fn only_colours_of_ours_pass() {
        assert_eq!(shown(&painted("bold \x1b[31m", 1)), "\x1b[1mbold \\u001b[31m\x1b[0m");
        assert_eq!(shown(&trusted("\x1b[1mUsage\x1b[0m")), "\x1b[1mUsage\x1b[0m");
    }
}
