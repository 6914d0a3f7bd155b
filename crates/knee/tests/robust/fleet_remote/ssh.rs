//! Hosts by ssh.

use std::fs;
use std::path::PathBuf;

use records::Opened;

use super::{EXPERIMENT, essence};
use crate::home::Home;
use crate::process::{Process, wait_for};
use crate::ssh_server::Server;

impl Server {
    /// The knees on the hosts that were reached, and the directory of each.
    fn remotes(&self) -> Vec<(Process, PathBuf)> {
        let processes = self.home.processes().into_iter();
        let remote = processes.filter_map(|process| {
            let line = fs::read_to_string(format!("/proc/{}/cmdline", process.pid)).ok()?;
            let words: Vec<&str> = line.split('\0').collect();
            let place = words.iter().position(|word| *word == "remote")?;
            // The shell that started it has the word in its script.
            words[0].ends_with("/knee").then(|| (process, PathBuf::from(words[place + 1])))
        });
        remote.collect()
    }

    /// Waits until two hosts measure.
    fn wait_for_two(&self, fleet: &str) -> Vec<(Process, PathBuf)> {
        let claims = self.home.path(fleet).join("beats");
        wait_for("two hosts that measure", || {
            let measured = fs::read_dir(&claims).ok()?.flatten();
            let begun =
                measured.filter(|beat| fs::read_to_string(beat.path()).is_ok_and(|n| n != "0"));
            // Looking at all processes again and again would take more time than the runs.
            (begun.count() >= 2).then(|| self.remotes()).filter(|remotes| remotes.len() == 2)
        })
    }

    fn check_nothing_is_left(&self, remotes: &[(Process, PathBuf)]) {
        wait_for("the hosts to be clean", || {
            let is_clean = remotes.iter().all(|(process, path)| !process.lives() && !path.exists());
            is_clean.then_some(())
        });
        self.home.check_nothing_is_left();
    }
}

/// Runs without those of spares, in which blocks are measured again that the host disturbed.
fn runs_of_planned_blocks(record: &Opened) -> u32 {
    let blocks = record.record.experiment.blocks();
    record.runs.iter().filter(|run| run.block < blocks).count() as u32
}

/// The experiment with runs long enough to be killed.
fn longer() -> String {
    EXPERIMENT.replace("0.01", "0.3").replace("--blocks 8", "--blocks 6")
}

#[test]
fn hosts_without_knee_give_the_record_that_this_host_gives() {
    let Some(server) = Server::start("fleet_remote::ssh: equal records") else { return };
    let knee = |line: String| server.home.start(&mut server.knee(&line)).end();
    let unfit = knee(format!("run {EXPERIMENT} --on ssh:a,stranger --fleet fleet"));
    assert_eq!(unfit.status.code(), Some(2), "{}", unfit.stderr);
    assert!(unfit.stderr.contains("so nothing was started"), "{}", unfit.stderr);
    assert!(unfit.stdout.is_empty(), "{}", unfit.stdout);
    let run = knee(format!("run {EXPERIMENT} --on ssh:a,b"));
    assert!(run.status.success(), "{}", run.stderr);
    let alone = Home::new();
    let experiment = EXPERIMENT.split(" --chunk").next().expect("it is cut");
    assert!(alone.run(&format!("run {experiment}")).status.success());
    assert_eq!(essence(&server.home.record()), essence(&alone.record()));
    let sessions = server.home.record().record.sessions;
    assert!(sessions.iter().all(|session| session.command.contains(&"ssh:a,b".to_string())));
    assert!(run.stdout.contains("verdict"), "shown as by knee run: {}", run.stdout);
    server.check_nothing_is_left(&[]);
}

#[test]
fn a_host_that_dies_is_named_and_another_measures_its_chunk() {
    let Some(server) = Server::start("fleet_remote::ssh: a host dies") else { return };
    let mut command = server.knee(&format!("run {} --on ssh:a,b --fleet fleet", longer()));
    let running = server.home.start(&mut command);
    let remotes = server.wait_for_two("fleet");
    remotes[0].0.kill(libc::SIGKILL);
    let run = running.end();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(run.stderr.contains("other hosts take its chunk over"), "{}", run.stderr);
    let record = server.home.record();
    assert_eq!(
        runs_of_planned_blocks(&record),
        record.record.runs_planned().expect("it is planned")
    );
    server.check_nothing_is_left(&remotes);
}

/// The process that started another.
fn parent(process: &Process) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).expect("it lives");
    let after_name = stat.rsplit(") ").next().expect("a state");
    after_name.split(' ').nth(1).expect("a parent").parse().expect("a number")
}

#[test]
fn what_a_killed_host_left_is_removed_by_the_next_contact() {
    let Some(server) = Server::start("fleet_remote::ssh: a host is killed") else { return };
    let line = format!("run {} --on ssh:a,b --fleet fleet", longer());
    let running = server.home.start(&mut server.knee(&line));
    let remotes = server.wait_for_two("fleet");
    for (process, _) in &remotes {
        // The shell would remove the directory.
        // SAFETY: a plain call.
        unsafe { libc::kill(parent(process), libc::SIGKILL) };
        process.kill(libc::SIGKILL);
    }
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(remotes.iter().all(|(_, path)| path.exists()), "nobody could remove them");
    let run = server.home.start(&mut server.knee(&line)).end();
    assert!(run.status.success(), "{}", run.stderr);
    server.check_nothing_is_left(&remotes);
}

#[test]
fn nothing_stays_on_hosts_when_knee_is_killed_and_the_rest_is_measured_later() {
    let Some(server) = Server::start("fleet_remote::ssh: knee is killed") else { return };
    let line = format!("run {} --on ssh:a,b --fleet fleet", longer());
    for signal in [libc::SIGKILL, libc::SIGHUP] {
        let running = server.home.start(&mut server.knee(&line));
        let remotes = server.wait_for_two("fleet");
        running.signal(signal);
        let ended = running.end();
        assert!(!ended.status.success(), "{}", ended.stderr);
        server.check_nothing_is_left(&remotes);
        let advice = signal == libc::SIGKILL || ended.stderr.contains("--fleet");
        assert!(advice, "{}", ended.stderr);
        fs::remove_dir_all(server.home.path("fleet/beats")).expect("forgetting beats");
        fs::create_dir(server.home.path("fleet/beats")).expect("making a folder");
    }
    let run = server.home.start(&mut server.knee(&line)).end();
    assert!(run.status.success(), "{}", run.stderr);
    let record = server.home.record();
    assert_eq!(
        runs_of_planned_blocks(&record),
        record.record.runs_planned().expect("it is planned")
    );
}

#[test]
fn hosts_that_cannot_measure_are_named_before_any_begins() {
    let Some(server) = Server::start("fleet_remote::ssh: unfit hosts") else { return };
    let line = format!("run {EXPERIMENT} --on ssh:a,stranger,gone --fleet fleet");
    let run = server.home.start(&mut server.knee(&line)).end();
    assert_eq!(run.status.code(), Some(2));
    for said in
        ["stranger: ", "Permission denied", "ssh-copy-id", "gone: ", "refused", "2 of 3 hosts"]
    {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    assert!(!run.stderr.contains("\na: "), "{}", run.stderr);
    server.check_nothing_is_left(&[]);
    let plan = server.home.path("fleet/plan.json");
    let text = fs::read_to_string(&plan).expect("reading the plan");
    let needs_newer = text.replacen("\"kernel\": \"", "\"kernel\": \"99.", 1);
    fs::write(&plan, needs_newer).expect("changing the plan");
    let line = format!("run {EXPERIMENT} --on ssh:a --fleet fleet");
    let run = server.home.start(&mut server.knee(&line)).end();
    assert!(run.stderr.contains("a: its kernel"), "{}", run.stderr);
    let refused = |arguments: &str, advice: &str| {
        let ended = server.home.start(&mut server.knee(arguments)).end();
        assert_eq!(ended.status.code(), Some(2), "{arguments}");
        assert!(ended.stderr.contains(advice), "{arguments}: {}", ended.stderr);
    };
    refused("run getppid --on ssh:a,a", "named twice");
    refused("run getppid --on ssh:a --json", "--json is for runs on this host");
    refused("run getppid --cpus 1 --on ssh:a --wait", "is for --on slurm");
    refused("run getppid --cpus 1 --nodes 3", "name them with --on");
    refused("run getppid --cpus 1 --lease 3s", "name them with --on");
    refused("run getppid --cpus all --on ssh:a", "name counts");
    refused("fleet plan getppid --cpus 1 --on ssh:a dir", "is a flag of knee run");
}
