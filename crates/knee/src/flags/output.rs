//! How knee writes: width, colours, progress, the pager. Every verb has these options.

use clap::ArgAction;
use host::terminal::{ColorChoice, Settings, configure};

/// The options of all verbs, as one group of the help.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of all commands")]
pub struct OutputFlags {
    /// Print help; -h is shorter
    #[arg(long, short, global = true, action = ArgAction::Help)]
    help: Option<bool>,
    /// Columns to stay within, from 40 on
    ///
    /// By default those of the terminal, at most 100.
    #[arg(long, global = true, value_name = "COLUMNS", value_parser = columns)]
    width: Option<usize>,
    /// When to use colours; NO_COLOR is heeded
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_short_help = true
    )]
    color: ColorFlag,
    /// Print no progress and no hints
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Never start a pager ($KNEE_PAGER, $PAGER or less)
    #[arg(long, global = true, hide_short_help = true)]
    no_pager: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ColorFlag {
    Auto,
    Always,
    Never,
}

/// Too narrow for any table, and wider than any terminal.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=1000;

fn columns(text: &str) -> Result<usize, String> {
    let columns = text.parse().map_err(|e| format!("{e}"))?;
    if COLUMNS.contains(&columns) {
        Ok(columns)
    } else {
        Err(format!("must be {} to {}", COLUMNS.start(), COLUMNS.end()))
    }
}

impl OutputFlags {
    /// Applies the options to all that follows.
    pub fn apply(&self) {
        let color = match self.color {
            ColorFlag::Auto => ColorChoice::Auto,
            ColorFlag::Always => ColorChoice::Always,
            ColorFlag::Never => ColorChoice::Never,
        };
        let (width, quiet, pager) = (self.width, self.quiet, !self.no_pager);
        configure(Settings { width, color, quiet, pager });
    }
}

/// The output flags of a command line that is not parsed yet: help pages and errors heed them too.
pub fn scan(arguments: impl Iterator<Item = String>) -> OutputFlags {
    let mut flags = OutputFlags {
        help: None,
        width: None,
        color: ColorFlag::Auto,
        quiet: false,
        no_pager: false,
    };
    let mut arguments = arguments.take_while(|argument| argument != "--");
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (argument.as_str(), None),
        };
        match name {
            "--no-pager" => flags.no_pager = true,
            "--quiet" | "-q" => flags.quiet = true,
            "--width" => {
                let value = value.or_else(|| arguments.next());
                flags.width = value.and_then(|value| columns(&value).ok());
            }
            "--color" => match value.or_else(|| arguments.next()).as_deref() {
                Some("always") => flags.color = ColorFlag::Always,
                Some("never") => flags.color = ColorFlag::Never,
                _ => (),
            },
            _ => (),
        }
    }
    flags
}
