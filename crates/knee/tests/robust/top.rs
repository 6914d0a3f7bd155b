//! The live screen on a pseudo-terminal: what it shows, that keys lead into it, and that the terminal is as it was afterwards.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::Value;

use crate::explain_running::server;
use crate::home::Home;
use crate::process::wait_for;
use crate::pty::Pty;
use crate::skip::skip;

/// What begins each frame, and what gives the terminal back.
const FRAME: &str = "\x1b[H";
const GIVEN_BACK: &str = "\x1b[?1049l";

/// knee on a terminal of its own.
struct Screen {
    knee: Child,
    person: File,
    /// The other end, to see its settings.
    terminal: File,
    settings: Settings,
    output: Receiver<Vec<u8>>,
    shown: String,
}

type Settings = (libc::tcflag_t, libc::tcflag_t, libc::tcflag_t, libc::tcflag_t, [u8; 32]);

fn settings(terminal: &File) -> Settings {
    // SAFETY: the call fills live plain data.
    let settings = unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &raw mut settings), 0);
        settings
    };
    (settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag, settings.c_cc)
}

impl Screen {
    fn new(home: &Home, arguments: &str, size: (u16, u16)) -> Screen {
        let pty = Pty::open(size);
        let mut command = home.knee(arguments);
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        pty.give_to(&mut command);
        let settings = settings(&pty.terminal);
        let knee = command.spawn().expect("starting knee");
        let output = pty.output();
        let Pty { person, terminal } = pty;
        Screen { knee, person, terminal, settings, output, shown: String::new() }
    }

    fn take_in(&mut self) {
        while let Ok(bytes) = self.output.try_recv() {
            self.shown += &String::from_utf8_lossy(&bytes);
        }
    }

    /// The last frame without its controls.
    fn frame(&mut self) -> String {
        self.take_in();
        let frame = self.shown.rsplit(FRAME).next().unwrap_or_default();
        frame.replace("\x1b[2K", "").replace("\x1b[0m", "").replace("\x1b[7m", "").replace('\r', "")
    }

    /// Waits for a frame with all of these texts.
    fn wait_for(&mut self, texts: &[&str]) -> String {
        let what = format!("{texts:?} on the screen");
        wait_for(&what, || {
            let frame = self.frame();
            texts.iter().all(|text| frame.contains(text)).then_some(frame)
        })
    }

    fn press(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).expect("typing");
    }

    /// Whether knee sees the process; if this host lets nobody look, it has ended.
    fn has_begun(&mut self, what: &str) -> bool {
        let begun = wait_for("the screen", || {
            let is_taken = self.frame().contains("Looking at") || self.shown.contains(FRAME);
            let ended = self.knee.try_wait().expect("asking for knee").is_some();
            (is_taken || ended).then_some(is_taken)
        });
        if !begun {
            skip(what, self.shown.trim());
        }
        begun
    }

    /// Waits for the end. What was printed after the terminal was given back, and the status.
    fn end(mut self) -> (String, ExitStatus) {
        let status = wait_for("knee's end", || self.knee.try_wait().expect("asking for knee"));
        std::thread::sleep(Duration::from_millis(200));
        self.take_in();
        assert_eq!(settings(&self.terminal), self.settings, "the terminal is as before");
        let after = self.shown.rsplit_once(GIVEN_BACK).expect("the terminal was given back").1;
        (after.to_string(), status)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.knee.kill();
        let _ = self.knee.wait();
    }
}

#[test]
fn keys_lead_to_the_holder_of_a_lock_and_q_prints_the_answer() {
    let home = Home::new();
    let server = server(&home);
    let arguments = format!("top --pid {} --seconds 1", server.0.id());
    let mut screen = Screen::new(&home, &arguments, (120, 30));
    if !screen.has_begun("knee top") {
        return;
    }
    assert_ne!(settings(&screen.terminal), screen.settings, "keys come one by one");
    screen.wait_for(&["journal_lock", "append", "threads of", "CPU time"]);
    screen.press("s");
    screen.wait_for(&["> journal_lock"]);
    screen.press("\r");
    let page = screen.wait_for(&["the thread that has it", "sleeps", "waited for in", "append"]);
    assert!(page.lines().count() <= 30, "{page}");
    screen.press("\x1b");
    screen.wait_for(&["> journal_lock", "threads of"]);
    screen.press("?");
    screen.wait_for(&["quit, and print", "knee itself took"]);
    screen.press("\x7fp");
    screen.wait_for(&["PAUSED"]);
    screen.press("p");
    screen.press("q");
    let (printed, status) = screen.end();
    assert_eq!(status.code(), Some(0), "{printed}");
    assert!(printed.contains("Threads wait for `journal_lock`"), "{printed}");
    assert!(printed.contains("waited for in append"), "{printed}");
}

#[test]
fn signals_and_small_terminals_leave_the_terminal_as_it_was() {
    let home = Home::new();
    let server = server(&home);
    let arguments = format!("top --pid {} --seconds 1", server.0.id());
    for (signal, code) in [(libc::SIGTERM, 130), (libc::SIGINT, 0)] {
        let mut screen = Screen::new(&home, &arguments, (40, 10));
        if !screen.has_begun("knee top and signals") {
            return;
        }
        let frame = screen.wait_for(&["? keys", "threads of"]);
        assert_eq!(frame.lines().count(), 10, "{frame}");
        assert!(frame.lines().all(|line| line.chars().count() <= 50), "{frame}");
        // SAFETY: a plain call, on a child that has not been waited for.
        unsafe { libc::kill(screen.knee.id() as i32, signal) };
        let (printed, status) = screen.end();
        assert_eq!(status.code(), Some(code), "{printed}");
    }
}

#[test]
fn screens_are_printed_as_text_and_as_json_without_a_terminal() {
    let home = Home::new();
    let server = server(&home);
    let look = format!("top --pid {} --seconds 1 --count 2", server.0.id());
    let ended = home.run(&look);
    if ended.status.code() != Some(0) && ended.stderr.contains("BPF") {
        return skip("knee top --count", ended.stderr.lines().last().unwrap_or_default());
    }
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let screens = home.said("stdout");
    assert_eq!(screens.matches("journal_lock  ").count(), 2, "{screens}");
    let ended = home.run(&format!("{look} --json"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let lines = home.said("stdout");
    let answers: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 2);
    for answer in &answers {
        let causes = answer["causes"].as_array().unwrap();
        assert!(causes.iter().any(|cause| cause["name"] == "journal_lock"), "{answer:#}");
    }
    assert!(answers[0]["at"].as_str() < answers[1]["at"].as_str());
}

#[test]
fn programs_are_listed_without_a_subject() {
    let home = Home::new();
    let _server = server(&home);
    let ended = home.run("top --seconds 1 --count 1");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let listed = home.said("stdout");
    assert!(listed.contains("server") && listed.contains("CPUs"), "{listed}");
}

#[test]
fn what_cannot_be_shown_is_refused_with_what_to_do() {
    let home = Home::new();
    let check = |words: &str, expected: &str| {
        let ended = home.run(words);
        assert_ne!(ended.status.code(), Some(0), "{words}");
        assert!(ended.stderr.contains(expected), "{words}: {}", ended.stderr);
    };
    check("top --pid 1", "needs a terminal for its screen: --count 1 prints one as text");
    check("top --pid 4194305 --count 1", "no process has the number 4194305");
    check("top --count 1 --json", "add --pid, --name or --cgroup");
    check("top --count 0", "nothing would be printed");
    check("top --count 1 --seconds 0.1", "a screen lasts 0.4 s at least");
}
