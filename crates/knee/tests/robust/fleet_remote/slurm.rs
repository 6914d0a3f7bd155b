//! Nodes of a Slurm whose daemons all run here. Without authentication, and on the loopback only: for tests.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{EXPERIMENT, essence};
use crate::beside::{Daemon, free_port, program};
use crate::home::Home;
use crate::process::wait_for;
use crate::skip::{is_root, skip};

/// Three nodes and their controller.
struct Cluster {
    home: Home,
    controller: Daemon,
    _nodes: Vec<Daemon>,
}

impl Cluster {
    /// Three nodes. `None`, and says why, where none can be started.
    fn start(test: &str) -> Option<Cluster> {
        Cluster::with_nodes(test, &["n1", "n2", "n3"], |_| String::new())
    }

    /// Nodes, with more lines of slurm.conf.
    fn with_nodes(test: &str, names: &[&str], more: impl Fn(&Home) -> String) -> Option<Cluster> {
        let programs = ["slurmctld", "slurmd", "sbatch"].map(program);
        let [Some(slurmctld), Some(slurmd), Some(_)] = programs else {
            skip(test, "no Slurm (apt-get install slurm-wlm)");
            return None;
        };
        if !is_root() {
            skip(test, "needs root, since slurmd starts jobs as users");
            return None;
        }
        let home = Home::new();
        let config = home.path("slurm.conf");
        let text = configuration(&home, names) + &more(&home);
        fs::write(&config, text).expect("writing slurm.conf");
        for name in names.iter().chain(&["controller"]) {
            fs::create_dir(home.path(name)).expect("making a folder");
        }
        let start = |command: &mut Command, name: &str| {
            command.env("SLURM_CONF", &config);
            Daemon::start(command, &home.path(&format!("{name}.log")))
        };
        let controller = start(Command::new(slurmctld).arg("-D"), "controller");
        // A node that Slurm reboots comes back, and -b has it say so.
        let again = format!("{0} -D -N $0; while :; do {0} -D -b -N $0; done", slurmd.display());
        let nodes =
            names.iter().map(|node| start(Command::new("sh").args(["-c", &again, node]), node));
        let nodes = nodes.collect();
        let cluster = Cluster { home, controller, _nodes: nodes };
        wait_for("idle nodes", || {
            let mut sinfo = Command::new("sinfo");
            sinfo.args(["--noheader", "--format=%T %D"]).env("SLURM_CONF", &config);
            let told = sinfo.output().expect("starting sinfo").stdout;
            (String::from_utf8_lossy(&told).trim() == format!("idle {}", names.len())).then_some(())
        });
        Some(cluster)
    }

    fn knee(&self, arguments: &str) -> Command {
        let mut command = self.home.knee(arguments);
        command.env("SLURM_CONF", self.home.path("slurm.conf"));
        command
    }
}

fn configuration(home: &Home, names: &[&str]) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("reading the host's name");
    let host = host.trim().split('.').next().unwrap_or_default().to_string();
    let at = |name: &str| home.path(name).display().to_string();
    let nodes: String = names
        .iter()
        .map(|node| {
            let port = free_port();
            format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 Features=k61,k612\n")
        })
        .collect();
    format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={port}\n\
         AuthType=auth/none\nCredType=cred/none\n\
         CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\nSlurmUser=root\nSlurmdUser=root\n\
         StateSaveLocation={state}\nSlurmdSpoolDir={spool}/%n\nSlurmctldPidFile={state}/pid\n\
         SlurmdPidFile={spool}/%n/pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         SwitchType=switch/none\nMpiDefault=none\nJobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\nReturnToService=2\nSlurmdTimeout=300\nKillWait=5\n\
         SchedulerParameters=sched_interval=1,bf_interval=1\n{nodes}\
         PartitionName=main Nodes=ALL Default=YES State=UP\n",
        port = free_port(),
        state = at("controller"),
        spool = at("").trim_end_matches('/'),
    )
}

#[test]
fn an_array_of_jobs_gives_the_record_that_this_host_gives() {
    let Some(cluster) = Cluster::start("fleet_remote::slurm: equal records") else { return };
    let home = &cluster.home;
    // Shared directories lie below no folder of the user's.
    let shared = tempfile::tempdir().expect("making a folder");
    let fleet = shared.path().join("fleet");
    let line = format!("run {EXPERIMENT} --on slurm --nodes 2 --fleet {}", fleet.display());
    let submitted = home.start(&mut cluster.knee(&line)).end();
    assert!(submitted.status.success(), "{}", submitted.stderr);
    assert!(submitted.stdout.contains("knee fleet status"), "{}", submitted.stdout);
    let waited = home.start(&mut cluster.knee(&format!("{line} --wait"))).end();
    assert!(waited.status.success(), "{}", waited.stderr);
    let alone = Home::new();
    let experiment = EXPERIMENT.split(" --chunk").next().expect("it is cut");
    assert!(alone.run(&format!("run {experiment}")).status.success());
    assert_eq!(essence(&home.record()), essence(&alone.record()));
    failed_jobs_are_named(&cluster, &shared.path().join("unseen"));
    home.wait_for_quiet();
}

/// Slurm boots a kernel by a helper, which notes the feature, and a program that ends slurmd, as a reboot does. The
/// kernel that runs stays the same.
fn with_features(home: &Home) -> String {
    use std::os::unix::fs::PermissionsExt;
    let at = |name: &str| home.path(name).display().to_string();
    let script = |name: &str, text: String| {
        fs::write(home.path(name), format!("#!/bin/sh\n{text}\n")).expect("writing a script");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(home.path(name), executable).expect("making a script executable");
    };
    fs::write(home.path("feature"), "k61\n").expect("writing a file");
    let (feature, reboots) = (at("feature"), at("reboots"));
    script("helper", format!("if [ -n \"$1\" ]; then echo $1 > {feature}; else cat {feature}; fi"));
    let slurmd = at("n1/pid");
    script("reboot", format!("cat {feature} >> {reboots}; sleep 1; kill -9 $(cat {slurmd})"));
    let helper = at("helper");
    let helpers = format!(
        "Feature=k61 Helper={helper}\nFeature=k612 Helper={helper}\nMutuallyExclusive=k61,k612\n"
    );
    fs::write(home.path("helpers.conf"), helpers).expect("writing helpers.conf");
    format!(
        "NodeFeaturesPlugins=node_features/helpers\nRebootProgram={}\nResumeTimeout=120\n",
        at("reboot")
    )
}

#[test]
fn a_chunk_goes_from_job_to_job_under_the_kernels_that_slurm_boots() {
    const TEST: &str = "fleet_remote::slurm: kernels as features";
    let Some(cluster) = Cluster::with_nodes(TEST, &["n1"], with_features) else { return };
    let home = &cluster.home;
    let line = "run getppid --cpus 1 --seconds 0.01 --kernel old=feature:k61 --kernel new=feature:k612 --blocks 1 \
                --seed 7 --on slurm --fleet fleet --wait";
    // A block that the host disturbed is measured again, and Slurm takes ten seconds for each reboot, and many more on a busy host.
    let done = home.start(&mut cluster.knee(line)).end_within(Duration::from_secs(900));
    assert!(done.status.success(), "{}", done.stderr);
    let record = home.record();
    let boots = store::boots(&record).expect("reading boots");
    let mut expected: Vec<String> = vec!["k61".to_string()];
    for run in &record.runs {
        assert!(run.finished(), "{run:?}");
        let boot = boots.iter().find(|boot| Some(boot.boot) == run.boot).expect("it has a boot");
        let feature = boot.guest.feature.clone().expect("Slurm booted it");
        let variant = record.record.points[run.point as usize].variant.as_str();
        assert_eq!(feature, if variant == "old" { "k61" } else { "k612" });
        if expected.last() != Some(&feature) {
            expected.push(feature);
        }
    }
    let reboots = fs::read_to_string(home.path("reboots")).expect("reading reboots");
    assert_eq!(reboots.lines().collect::<Vec<_>>(), expected[1..]);
    let refused = home.run(&line.replace("--on slurm --fleet fleet --wait", ""));
    assert!(refused.stderr.contains("add --on slurm"), "{}", refused.stderr);
    home.wait_for_quiet();
}

/// Jobs on nodes that do not have the directory, and so no knee: only Slurm knows of them.
fn failed_jobs_are_named(cluster: &Cluster, fleet: &Path) {
    let home = &cluster.home;
    let line = format!("run {EXPERIMENT} --on slurm --print-script --fleet {}", fleet.display());
    assert!(home.start(&mut cluster.knee(&line)).end().status.success());
    let script = fleet.join("job.sh");
    let text = fs::read_to_string(&script).expect("reading a job script");
    let elsewhere = text.replace(&format!("exec {}", fleet.display()), "exec /nowhere");
    fs::write(&script, elsewhere).expect("changing a job script");
    let mut sbatch = Command::new("sbatch");
    sbatch.arg("--parsable").arg(&script).env("SLURM_CONF", home.path("slurm.conf"));
    let id = sbatch.output().expect("starting sbatch").stdout;
    fs::write(fleet.join("slurm-jobs"), id).expect("noting a job");
    let status = format!("fleet status {}", fleet.display());
    let told = wait_for("failed jobs", || {
        let told = home.start(&mut cluster.knee(&status)).end().stdout;
        // Lines are broken where the terminal ends.
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        told.contains("failed (").then_some(told)
    });
    assert!(told.contains("the node does not have"), "{told}");
}

#[test]
fn a_controller_that_is_down_stops_no_verb() {
    let Some(cluster) = Cluster::start("fleet_remote::slurm: controller down") else { return };
    let home = &cluster.home;
    let knee = |arguments: &str| home.start(&mut cluster.knee(arguments)).end();
    let line = format!("run {EXPERIMENT} --on slurm --fleet fleet --constraint nowhere");
    let refused = knee(&line);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("Invalid feature"), "{}", refused.stderr);
    let printed = knee(&format!("{line} --print-script"));
    assert!(printed.stdout.contains("#SBATCH --constraint=nowhere\n"), "{}", printed.stderr);
    cluster.controller.signal(libc::SIGSTOP);
    let line = format!("run {EXPERIMENT} --on slurm --fleet fleet");
    let late = knee(&line);
    assert!(late.stderr.contains("submit it later with sbatch"), "{}", late.stderr);
    assert!(knee("fleet status fleet").stdout.contains("4 free"));
    cluster.controller.signal(libc::SIGCONT);
    let done = knee(&format!("{line} --wait"));
    assert!(done.status.success(), "{}", done.stderr);
    home.wait_for_quiet();
}

#[test]
fn without_slurm_nothing_is_made() {
    let home = Home::new();
    let mut command = home.knee("run getppid --cpus 1 --on slurm --fleet fleet");
    let ended = home.start(command.env("PATH", "/nowhere")).end();
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("no sbatch here"), "{}", ended.stderr);
    assert!(!home.path("fleet").exists());
    let mut command = home.knee("run getppid --cpus 1 --on slurm --print-script --fleet a%b");
    let ended = home.start(&mut command).end();
    assert!(ended.stderr.contains("name another directory"), "{}", ended.stderr);
    assert!(!home.path("a%b").exists());
}
