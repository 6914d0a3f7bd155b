//! knee in a terminal: a shell stops it with Ctrl-Z at random instants and continues it. The shell
//! gets the terminal back each time, nothing of knee goes on while it is stopped, and the record says
//! which runs were repeated for that reason.
//!
//! KNEE_STOPS=5000 stops more often; KNEE_SEED repeats the choices, though not the instants to the
//! nanosecond.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command};
use std::sync::PoisonError;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use records::RecordState;

use crate::guests;
use crate::home::Home;
use crate::process::{Process, wait_for, wait_within};
use crate::pty::Pty;
use crate::random::{choices, times};

const STOPS: u64 = 240;

/// What is measured when knee is stopped, and the number of its runs.
const LOADS: &[(&str, usize)] = &[
    ("getppid --tasks 2 --blocks 12", 12),
    ("create_files --as threads --tasks 2 --blocks 12", 12),
    ("--command sleep$IFS.02 --blocks 12", 12),
];

/// What the shell prints when it waits for a command.
const PROMPT: &str = "<ready>";

/// An interactive shell on a pseudo-terminal.
struct Shell {
    shell: Child,
    terminal: File,
    output: Receiver<Vec<u8>>,
    /// What the terminal shows that [`Shell::wait_for_prompt`] has not looked at.
    shown: String,
}

impl Shell {
    fn new(home: &Home) -> Shell {
        let pty = Pty::open((80, 24));
        let mut command = Command::new("sh");
        home.move_in(&mut command);
        command.arg("-i").env("PS1", PROMPT).env("ENV", "").env("TERM", "dumb");
        pty.give_to(&mut command);
        let shell = command.spawn().expect("starting a shell");
        let output = pty.output();
        let mut shell = Shell { shell, terminal: pty.person, output, shown: String::new() };
        shell.wait_for_prompt();
        shell
    }

    fn type_line(&mut self, line: &str) {
        self.terminal.write_all(format!("{line}\n").as_bytes()).expect("typing");
    }

    fn type_ctrl_z(&mut self) {
        self.terminal.write_all(b"\x1a").expect("typing");
    }

    /// Waits until the shell has the terminal again.
    fn wait_for_prompt(&mut self) {
        self.wait_for_text(PROMPT, Duration::from_secs(100));
    }

    /// Waits until the shell has the terminal again after Ctrl-Z, which makes the terminal forget what it has not
    /// shown yet: the prompt, too, if knee has just ended. Then an empty line brings another.
    fn wait_for_prompt_of(&mut self, home: &Home) {
        while !self.shown.contains(PROMPT) {
            match self.output.recv_timeout(Duration::from_secs(5)) {
                Ok(bytes) => self.shown += &String::from_utf8_lossy(&bytes),
                Err(_) if home.processes().iter().any(is_knee) => break,
                Err(_) => self.type_line(""),
            }
        }
        self.wait_for_prompt();
    }

    /// Waits until the terminal shows a text, for at most `time` without anything new.
    fn wait_for_text(&mut self, text: &str, time: Duration) {
        while !self.shown.contains(text) {
            match self.output.recv_timeout(time) {
                Ok(bytes) => self.shown += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("the terminal did not show {text}, only: {}", self.shown),
            }
        }
        let end = self.shown.find(text).expect("it is there") + text.len();
        self.shown.drain(..end);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn ctrl_z_at_any_instant_gives_the_terminal_back_and_fg_goes_on() {
    let mut random = choices("ctrl_z_at_any_instant");
    let wanted = times("KNEE_STOPS", STOPS);
    let (mut stops, mut marked, mut records) = (0, 0, 0);
    while stops < wanted {
        let record = measure_with_stops(&mut random, wanted - stops);
        stops += record.0;
        marked += record.1;
        records += 1;
    }
    println!("{stops} stops, {records} records, {marked} runs repeated");
    assert!(
        marked > 0 && marked as u64 <= stops,
        "{marked} runs were repeated after {stops} stops"
    );
}

/// Measures one record and stops knee some times. Returns how often, and how many runs were repeated.
fn measure_with_stops(random: &mut Xoshiro256PlusPlus, stops_max: u64) -> (u64, usize) {
    let home = Home::new();
    let mut shell = Shell::new(&home);
    let (load, planned) = LOADS[random.random_range(0..LOADS.len())];
    let seconds = if load.starts_with("--command") { "" } else { "--seconds 0.03" };
    let knee = env!("CARGO_BIN_EXE_knee");
    let load = load.replace("sleep$IFS.02", "'sleep 0.02'");
    shell.type_line(&format!("{knee} run {load} --cpus 1 {seconds} --seed 1"));
    // Ctrl-Z also discards what the shell has not read yet.
    wait_for("knee", || home.processes().iter().any(is_knee).then_some(()));
    let mut stops = 0;
    let most = random.random_range(20..60).min(stops_max);
    while stops < most {
        let longest_us = [3_000, 30_000, 150_000][random.random_range(0..3)];
        std::thread::sleep(Duration::from_micros(random.random_range(0..longest_us)));
        shell.type_ctrl_z();
        shell.wait_for_prompt_of(&home);
        if !home.processes().iter().any(is_knee) {
            break;
        }
        wait_for("all of knee to be stopped", || all_stopped(&home, &shell).then_some(()));
        stops += 1;
        shell.type_line("fg");
        wait_for("knee to go on or end", || {
            let ended = !home.processes().iter().any(is_knee);
            (ended || !all_stopped(&home, &shell)).then_some(())
        });
    }
    if home.processes().iter().any(is_knee) {
        shell.wait_for_prompt();
    }
    wait_for("knee to end", || (!home.processes().iter().any(is_knee)).then_some(()));
    if stops == 0 && home.records().is_empty() {
        return (0, 0);
    }
    let record = home.record();
    assert_eq!(record.record.state, RecordState::Whole);
    assert_eq!(record.runs.len(), planned);
    let failed: Vec<_> = record.runs.iter().filter(|run| !run.finished()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let repeated = |warning: &records::Warning| warning.text.contains("was stopped (Ctrl-Z)");
    let marked = record.runs.iter().filter(|run| run.warnings.iter().any(repeated)).count();
    (stops, marked)
}

#[test]
fn ctrl_z_stops_a_guest_and_its_run_is_repeated_in_a_new_boot() {
    let Some(kernel) = guests::kernel("Ctrl-Z while a guest runs") else { return };
    let _alone = guests::ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let mut shell = Shell::new(&home);
    let knee = env!("CARGO_BIN_EXE_knee");
    let kernel = kernel.display();
    shell.type_line(&format!(
        "{knee} run getppid --kernel {kernel} --cpus 1 --seconds 5 --blocks 1"
    ));
    // The guest that was tried out does the run, which takes five seconds from here.
    shell.wait_for_text("booted in", guests::PATIENCE);
    std::thread::sleep(Duration::from_secs(1));
    shell.type_ctrl_z();
    shell.wait_for_prompt();
    wait_for("the guest to be stopped", || all_stopped(&home, &shell).then_some(()));
    shell.type_line("fg");
    wait_within(guests::PATIENCE, "the record", || (!home.records().is_empty()).then_some(()));
    let record = home.record();
    let [run] = &record.runs[..] else { panic!("one run: {:?}", record.runs) };
    assert!(run.finished(), "{run:?}");
    assert!(run.warnings.iter().any(|warning| warning.text.contains("was stopped (Ctrl-Z)")));
    assert_eq!(run.boot, Some(1), "the boot that was stopped does no other run");
}

fn is_knee(process: &Process) -> bool {
    process.program.ends_with("knee")
}

/// Whether every process of knee is stopped; the shell is not one.
fn all_stopped(home: &Home, shell: &Shell) -> bool {
    let stopped = |process: &Process| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z']))
    };
    let is_shell = |process: &Process| process.pid == shell.shell.id() as i32;
    home.processes().iter().filter(|process| !is_shell(process)).all(stopped)
}
