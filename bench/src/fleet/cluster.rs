//! Slurm with all its daemons on the loopback, without authentication: for measurements only.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::output;

/// A controller and its nodes.
pub struct Cluster {
    home: PathBuf,
    controller: Child,
    nodes: Vec<Child>,
}

impl Cluster {
    /// Starts them, with all their files in `home`.
    pub fn start(home: &Path, nodes: usize) -> Result<Cluster> {
        fs::write(home.join("slurm.conf"), configuration(home, nodes)?)?;
        fs::create_dir(home.join("controller"))?;
        let controller = daemon(home, "slurmctld", &["-D"], "controller")?;
        let mut cluster = Cluster { home: home.to_path_buf(), controller, nodes: Vec::new() };
        for node in 0..nodes {
            fs::create_dir(home.join(name(node)))?;
            cluster.nodes.push(cluster.node(node)?);
        }
        cluster.wait_until_idle()?;
        Ok(cluster)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// What clients need to find the controller.
    pub fn environment(&self) -> [(&'static str, PathBuf); 1] {
        [("SLURM_CONF", self.home.join("slurm.conf"))]
    }

    /// The controller answers no more.
    pub fn stop(&self) {
        signal(self.controller.id(), libc::SIGSTOP);
    }

    /// The controller answers again.
    pub fn go_on(&self) {
        signal(self.controller.id(), libc::SIGCONT);
    }

    pub fn wait_until_idle(&self) -> Result<()> {
        let since = Instant::now();
        loop {
            let mut sinfo = Command::new("sinfo");
            sinfo.args(["--noheader", "--format=%T %D"]).envs(self.environment());
            let told = sinfo.output().context("starting sinfo")?.stdout;
            if String::from_utf8_lossy(&told).trim() == format!("idle {}", self.nodes.len()) {
                return Ok(());
            }
            ensure!(since.elapsed() < Duration::from_secs(120), "the nodes do not become idle");
            sleep(Duration::from_millis(100));
        }
    }

    /// Kills a node's daemon, its job's daemon and its job, as a loss of power would, if the job measures a chunk
    /// of this fleet just now. Returns whether it did.
    pub fn kill(&mut self, node: usize, fleet: &Path) -> Result<bool> {
        let job = processes_of(&name(node))?;
        let measures = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("chunk\0") && line.contains(&fleet.display().to_string())
        };
        if !job.iter().any(measures) {
            return Ok(false);
        }
        let daemons: Vec<u32> = job.iter().filter_map(|pid| parent(*pid)).collect();
        let is_step = |pid: &&u32| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.starts_with("slurmstepd"))
        };
        // First those that would tell the controller.
        signal(self.nodes[node].id(), libc::SIGKILL);
        daemons.iter().filter(is_step).for_each(|pid| signal(*pid, libc::SIGKILL));
        job.iter().for_each(|pid| signal(*pid, libc::SIGKILL));
        self.nodes[node].wait().context("waiting for slurmd")?;
        Ok(true)
    }

    /// Says that the node was lost, as a site's health check does, and brings it back: by itself Slurm
    /// notices in 45 s.
    pub fn start_again(&mut self, node: usize) -> Result<()> {
        self.update(node, &["State=DOWN", "Reason=killed"])?;
        self.nodes[node] = self.node(node)?;
        self.update(node, &["State=RESUME"])
    }

    fn update(&self, node: usize, words: &[&str]) -> Result<()> {
        let mut scontrol = Command::new("scontrol");
        scontrol.args(["update", &format!("NodeName={}", name(node))]).args(words);
        output(scontrol.envs(self.environment())).map(|_| ())
    }

    fn node(&self, node: usize) -> Result<Child> {
        daemon(&self.home, "slurmd", &["-D", "-b", "-N", &name(node)], &name(node))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.go_on();
        for child in self.nodes.iter_mut().chain([&mut self.controller]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

fn daemon(home: &Path, program: &str, words: &[&str], log: &str) -> Result<Child> {
    let log = File::options().create(true).append(true).open(home.join(format!("{log}.log")))?;
    let mut command = Command::new(Path::new("/usr/sbin").join(program));
    command.args(words).env("SLURM_CONF", home.join("slurm.conf"));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("starting {program} (apt-get install slurm-wlm)"))
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a plain call.
    unsafe { libc::kill(pid as i32, signal) };
}

/// The processes that Slurm started on a node.
fn processes_of(node: &str) -> Result<Vec<u32>> {
    let wanted = format!("SLURMD_NODENAME={node}");
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").context("listing /proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if environment.split(|b| *b == 0).any(|variable| variable == wanted.as_bytes()) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn configuration(home: &Path, nodes: usize) -> Result<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let host = host.trim().split('.').next().unwrap_or_default().to_string();
    let mut lines = String::new();
    for node in 0..nodes {
        let (name, port) = (name(node), free_port()?);
        lines +=
            &format!("NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2\n");
    }
    let (port, home) = (free_port()?, home.display());
    Ok(format!(
        "ClusterName=bench\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={port}\n\
         AuthType=auth/none\nCredType=cred/none\nAuthInfo=cred_expire=5\n\
         CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\nSlurmUser=root\nSlurmdUser=root\n\
         StateSaveLocation={home}/controller\nSlurmdSpoolDir={home}/%n\n\
         SlurmctldPidFile={home}/controller/pid\nSlurmdPidFile={home}/%n/pid\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
         JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\nSlurmdTimeout=300\n\
         KillWait=5\nSchedulerParameters=sched_interval=1,bf_interval=1\n{lines}\
         PartitionName=main Nodes=ALL Default=YES State=UP\n"
    ))
}
