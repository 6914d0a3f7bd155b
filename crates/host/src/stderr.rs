//! Output for people: results on standard output, messages on standard error. `println!` and
//! `eprintln!` panic when the reader is gone; a measurement must not end for that reason.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// The context of errors about a result that cannot be written.
pub const WRITING: &str = "writing the result";

/// Prints a line on standard error, and ignores failures: there is nowhere to report them.
pub fn talk(line: impl Display) {
    say(format_args!("{line}\n"));
}

/// Prints a text on standard error, and ignores failures.
pub fn say(text: impl Display) {
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Prints a result, or a part of one. A reader that closes the pipe early is no error.
pub fn print(text: impl Display) -> Result<()> {
    match write(&mut io::stdout(), &text.to_string()) {
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

/// The width of the terminal in columns, if standard output is one.
pub fn stdout_columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call fills one live winsize.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col > 0).then_some(size.ws_col as usize)
}
