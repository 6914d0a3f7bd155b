//! `--on slurm`: submits an array of jobs, one for each chunk. Progress is read from files only.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fleet::slurm;
use host::terminal::{hint, print, print_line, talk};
use host::{counted, random, signals};

use super::{Done, Fleet, binary_in, word};
use crate::flags::SlurmFlags;

/// Refuses a host that cannot submit, before anything is made.
pub fn check_is_here(flags: &SlurmFlags) -> Result<()> {
    ensure!(
        flags.print_script || slurm::is_here(),
        "there is no sbatch here: run this on a login node of the cluster, or print the script with \
         --print-script, or plan with knee fleet plan and start knee chunk by other means"
    );
    Ok(())
}

/// Submits what is not done yet, and waits for it if asked.
pub fn run(flags: &SlurmFlags, fleet: &Fleet, done: Done) -> Result<ExitCode> {
    let root = fleet.root();
    let left = fleet.left()?;
    if left.is_empty() {
        return done(fleet);
    }
    copy_binary(&binary_in(root))?;
    let longest_s = left.iter().map(|n| fleet.plan.chunks[*n].estimated_s).fold(0.0, f64::max);
    let name = fleet.plan.name();
    let job = slurm::Job {
        name: &name,
        directory: root,
        chunks: &left,
        longest_s,
        constraint: flags.constraint.as_deref(),
        partition: flags.partition.as_deref(),
        nodes: flags.nodes,
    };
    let script = slurm::script(&job)?;
    fs::create_dir_all(root.join("logs")).context("making a folder for the jobs' output")?;
    let path = root.join("job.sh");
    fs::write(&path, &script).with_context(|| format!("writing {}", path.display()))?;
    if flags.print_script {
        print(&script)?;
        hint(format_args!("submit it with sbatch {}", word(&path)?));
        return Ok(ExitCode::SUCCESS);
    }
    let id = slurm::submit(&fleet.folder, &path)?;
    let place = word(root)?;
    let length =
        if longest_s > 0.0 { format!(" of about {longest_s:.0} s") } else { String::new() };
    let said = [
        format!("job {id}: {}{length}, on whole nodes", counted(left.len(), "chunk")),
        format!("how far it is: knee fleet status {place}"),
        format!("when it is done: knee fleet collect {place}"),
    ];
    // With --wait the result alone goes to standard output.
    if flags.wait {
        said.iter().for_each(talk);
        return wait(fleet, done);
    }
    said.iter().try_for_each(print_line)?;
    Ok(ExitCode::SUCCESS)
}

/// Puts this binary where the nodes find it, so that they need none of their own.
fn copy_binary(path: &Path) -> Result<()> {
    let copy = || -> Result<()> {
        let own = fs::read("/proc/self/exe")?;
        if fs::read(path).is_ok_and(|there| there == own) {
            return Ok(());
        }
        // A job may be executing the old one: a new file takes its name. Another knee may be submitting too.
        let beside = path.with_extension(format!("{:016x}", random()));
        let placed = fs::write(&beside, own)
            .and_then(|()| fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)))
            .and_then(|()| fs::rename(&beside, path));
        if placed.is_err() {
            let _ = fs::remove_file(&beside);
        }
        Ok(placed?)
    };
    copy().with_context(|| format!("copying knee to {}", path.display()))
}

/// Waits until the files say that all chunks are done.
fn wait(fleet: &Fleet, done: Done) -> Result<ExitCode> {
    signals::catch();
    let mut before = usize::MAX;
    loop {
        let left = fleet.left()?.len();
        if left == 0 {
            return done(fleet);
        }
        if left != before {
            hint(format_args!("{} left", counted(left, "chunk")));
        }
        before = left;
        for _ in 0..10 {
            if signals::received().is_some() {
                talk("interrupted: the jobs go on without this command");
                return Ok(ExitCode::from(130));
            }
            sleep(Duration::from_millis(100));
        }
    }
}
