//! Completions in real shells: a person types a word's beginning and TAB in a terminal, and the word goes on.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

use crate::home::Home;
use crate::process::wait_for;
use crate::pty::Pty;
use crate::skip::skip;
use crate::terminal::home_with_a_record;

/// What a person types, and what the line is after TAB.
const LINES: [(&str, &str); 8] = [
    ("knee wat", "knee watch "),
    ("knee show las", "knee show last "),
    ("knee show 2026", "knee show 20261120-115530-7f3a9c "),
    ("knee run command:red", "knee run command:redis "),
    ("knee run posix01 --set mod", "knee run posix01 --set mode="),
    ("knee run posix01 --set mode=tr", "knee run posix01 --set mode=try "),
    ("knee run --metric=wal", "knee run --metric=wall_s "),
    ("knee simulate ticket,clh --host uma", "knee simulate ticket,clh --host uma-2 "),
];

/// A shell in a terminal.
struct Shell {
    process: Child,
    person: File,
    output: Receiver<Vec<u8>>,
    shown: String,
}

impl Shell {
    fn start(home: &Home, words: &[&str]) -> Shell {
        let pty = Pty::open((120, 40));
        let mut command = in_home(home, words);
        command.env("TERM", "dumb").env("PS1", "ready> ");
        pty.give_to(&mut command);
        let process = command.spawn().expect("starting a shell");
        Shell { process, output: pty.output(), person: pty.person, shown: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).expect("typing");
    }

    /// Waits until a text is shown, and forgets what was shown up to it.
    fn wait_for(&mut self, text: &str) {
        let (output, shown) = (&self.output, &mut self.shown);
        let end = wait_for(&format!("{text:?} in a shell"), || {
            while let Ok(bytes) = output.try_recv() {
                *shown += &String::from_utf8_lossy(&bytes);
            }
            shown.find(text).map(|at| at + text.len())
        });
        self.shown.drain(..end);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command in a home, where `knee` is the binary of this build.
fn in_home(home: &Home, words: &[&str]) -> Command {
    let bin = home.path("bin");
    fs::create_dir_all(&bin).expect("making a folder");
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_knee"), bin.join("knee"));
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    home.move_in(&mut command);
    command.env("PATH", format!("{}:{path}", bin.display()));
    command
}

/// Whether a shell is here that completes as ours asks it to.
fn has(shell: &str, test: &str) -> bool {
    let found = Command::new(shell).args(["-c", "exit 0"]).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        skip(test, &format!("there is no {shell}"));
    }
    is_there
}

/// Types each line and TAB in a shell of its own (bash at times swallows the Ctrl-C that would make room for the next
/// line), after a line that loads the script.
fn check(words: &[&str], load: &str) {
    let home = home_with_a_record();
    for (typed, expected) in LINES {
        let mut shell = Shell::start(&home, words);
        // What is typed before a shell reads lines may be lost.
        shell.wait_for("ready> ");
        // The prompt is no part of the echo of the line that sets it.
        shell.press(&format!("{load}; PS1='lo''aded> '\r"));
        shell.wait_for("loaded> ");
        shell.press(&format!("{typed}\t"));
        shell.wait_for(expected);
    }
}

#[test]
fn bash_completes_names() {
    if has("bash", "completions in bash") {
        check(&["bash", "--norc", "--noprofile", "-i"], "source <(knee completions bash)");
    }
}

#[test]
fn zsh_completes_names() {
    if has("zsh", "completions in zsh") {
        let load = "autoload -U compinit; compinit -u -D; source <(knee completions zsh)";
        check(&["zsh", "-f", "-i"], load);
    }
}

#[test]
fn fish_completes_names() {
    if !has("fish", "completions in fish") {
        return;
    }
    let home = home_with_a_record();
    for (typed, expected) in LINES {
        let script = format!("knee completions fish | source; complete -C '{typed}'");
        let mut fish = in_home(&home, &["fish", "--no-config", "-c", &script]);
        let output = fish.stdout(Stdio::piped()).output().expect("starting fish");
        let offered = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = expected.trim_end().rsplit(' ').next().expect("there is a word");
        let mut words = offered.lines().map(|line| line.split('\t').next().unwrap_or_default());
        assert!(words.any(|word| word == expected), "{typed}: {offered}");
    }
}

#[test]
fn records_are_offered_from_the_store_that_is_asked_for() {
    let home = home_with_a_record();
    let check = |arguments: &str, status: i32, words: &[&str], none: &[&str]| {
        let ended = home.run(&format!("complete -- {arguments}"));
        let offered: Vec<&str> =
            ended.stdout.lines().filter_map(|line| line.split('\t').next()).collect();
        let missing: Vec<_> = words.iter().filter(|word| !offered.contains(word)).collect();
        assert!(missing.is_empty(), "{arguments}: {missing:?} {offered:?}");
        assert!(none.iter().all(|word| !offered.contains(word)), "{arguments}: {offered:?}");
        assert_eq!(ended.status.code(), Some(status), "{arguments}: {}", ended.stderr);
    };
    let id = "20261120-115530-7f3a9c";
    check("show 2", 0, &[id], &["last"]);
    check("record rm l", 0, &["last"], &[id]);
    check("record export a", 0, &["all"], &[]);
    check("show --records measured 2", 0, &[], &[id]);
    check("run --dir m", 1, &[], &["measured/"]);
    check("scale m", 0, &["measured/"], &[]);
}
