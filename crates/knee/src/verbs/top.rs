//! `knee top`: the live screen of what holds running programs back.

mod programs;
mod session;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use explanations::live::live_part;
use explanations::top::{Emphasis, ScreenLine};
use host::full_screen::FullScreen;
use host::signals;
use host::terminal::{has_color, painted, print, print_line};
use pages::{View, ViewFlags, explanation};

use self::session::Session;
use super::explain::running::Options;

/// Watch what holds running programs back, on a live screen.
///
/// The screen shows what `knee explain --pid` says once, and anew every few seconds: the first cause in a sentence,
/// threads by name, locks with what the thread that has them does, and the CPUs' time. Without a subject it lists the
/// busiest programs; Enter goes into a row, Esc back, ? lists the keys, and q quits and prints the last answer.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Process to watch, with its children; several count as one
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<u32>,
    /// All processes of this name, with their children
    #[arg(long = "name", value_name = "NAME", conflicts_with = "pids")]
    named: Option<String>,
    /// Control group, systemd unit or container
    #[arg(long, value_name = "GROUP", visible_aliases = ["unit", "container"],
          conflicts_with_all = ["pids", "named"])]
    cgroup: Option<String>,
    /// How often the screen is made anew, in s
    #[arg(long, value_name = "PERIOD", default_value_t = 3.0)]
    seconds: f64,
    /// Print so many screens as text, without a terminal
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Print each answer as a line of JSON (`knee schema explain-live`)
    #[arg(long, requires = "count")]
    json: bool,
    /// Look in /proc alone, as without privileges
    #[arg(long, hide_short_help = true)]
    without_bpf: bool,
}

/// The shortest period, in s: a look needs some windows.
const SECONDS_MIN: f64 = 0.4;
/// Columns of screens that are printed as text.
const COLUMNS: usize = 120;

/// Shows the screen, or prints it.
///
/// # Errors
/// There is no terminal; no such process; or the kernel allows no look at it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let seconds = arguments.seconds;
    ensure!(
        (SECONDS_MIN..=3600.0).contains(&seconds),
        "--seconds {seconds}: a screen lasts {SECONDS_MIN} s at least, and an hour at most"
    );
    let given = Options::of(
        &arguments.pids,
        arguments.named.as_deref(),
        arguments.cgroup.as_deref(),
        arguments.without_bpf,
    );
    let period = Duration::from_secs_f64(seconds);
    if let Some(count) = arguments.count {
        ensure!(count > 0, "--count 0: nothing would be printed");
        signals::catch();
        return print_screens(Session::new(given, period), count, arguments.json);
    }
    if !FullScreen::is_possible() {
        bail!(
            "knee top needs a terminal for its screen: --count 1 prints one as text, and `knee explain --pid PID` says more"
        );
    }
    signals::catch();
    show(Session::new(given, period))
}

/// Prints the screens of a look as text, or as JSON.
fn print_screens(mut session: Session, count: u32, json: bool) -> Result<ExitCode> {
    ensure!(
        !json || session.has_subject(),
        "--json is about chosen programs: add --pid, --name or --cgroup"
    );
    session.begin()?;
    for number in 0..count {
        if !session.wait_for_screen() {
            break;
        }
        if number > 0 && !json {
            print_line("")?;
        }
        match session.seen().filter(|_| json) {
            Some(seen) => print_line(serde_json::to_string(&seen.answer)?)?,
            None => print(session.text(COLUMNS))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the screen until the user quits, and prints what it showed last.
fn show(mut session: Session) -> Result<ExitCode> {
    // What is wrong with the command line is said before the terminal is taken.
    session.begin()?;
    let mut screen = FullScreen::begin()?;
    let quits = loop {
        if screen.is_changed() || session.is_changed() {
            let size = screen.size();
            let lines = session.lines(size);
            let drawn = lines.iter().map(|line| shown(line, size.columns));
            screen.draw(&drawn.collect::<Vec<_>>())?;
        }
        let pause = session.advance();
        if let Some(key) = screen.key(pause)?
            && session.press(key)
        {
            break true;
        }
        if let Some(signal) = signals::received() {
            break signal == libc::SIGINT;
        }
    };
    drop(screen);
    if !quits {
        return Ok(ExitCode::from(130));
    }
    match session.seen() {
        Some(seen) => {
            let part = live_part(&seen.answer);
            let page = || Ok(explanation(part.title.clone(), vec![part]));
            ViewFlags::from(View::Terminal).print_page(page)?;
        }
        None => print(session.text(COLUMNS))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A line as the terminal shows it: emphasis only where colours are wanted.
fn shown(line: &ScreenLine, columns: usize) -> String {
    if !has_color() {
        return line.text.clone();
    }
    match line.emphasis {
        Emphasis::Plain => line.text.clone(),
        Emphasis::Bold => painted(&line.text, 1),
        Emphasis::Dim => painted(&line.text, 2),
        Emphasis::Chosen => painted(&format!("{:columns$}", line.text), 7),
    }
}
