//! `--on slurm`: submits an array of jobs, one for each chunk. Progress is read from files only.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fleet::slurm;
use host::terminal::{hint, print, print_line, talk};
use host::{HeldFolder, Limit, counted, signals};
use setup::foreign::Foreign;
use setup::own_file;

use super::{Done, Fleet, Target, word};
use crate::flags::SlurmFlags;

const SCRIPT: &str = "job.sh";
const BINARY: &str = "knee";
const BINARY_LIMIT: Limit = Limit { bytes: 1 << 30, what: "a binary" };

/// Refuses a host that cannot submit, before anything is made.
pub fn check_is_here(flags: &SlurmFlags) -> Result<()> {
    ensure!(
        flags.print_script || slurm::is_here(),
        "there is no sbatch here: run this on a login node of the cluster, or print the script with \
         --print-script, or plan with knee fleet plan and start knee fleet chunk by other means"
    );
    Ok(())
}

/// Submits what is not done yet, and waits for it if asked.
pub fn run(target: &Target, fleet: &Fleet, done: Done) -> Result<ExitCode> {
    let (flags, root) = (target.slurm, fleet.root());
    let left = fleet.left()?;
    if left.is_empty() {
        return done(fleet);
    }
    if !flags.print_script {
        ask_about(root, target.yes)?;
    }
    copy_binary(fleet.folder.held())?;
    let longest_s = left.iter().map(|n| fleet.plan.chunks[*n].estimated_s).fold(0.0, f64::max);
    let job = slurm::Job {
        name: &fleet.plan.experiment.name,
        directory: root,
        chunks: &left,
        longest_s,
        constraint: flags.constraint.as_deref(),
        partition: flags.partition.as_deref(),
        nodes: flags.nodes,
    };
    let script = slurm::script(&job)?;
    fleet.folder.held().create_folder("logs").context("making a folder for the jobs' output")?;
    fleet.folder.held().put(SCRIPT, script.as_bytes())?;
    let path = root.join(SCRIPT);
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

/// Asks about a directory in which others can replace the program that the jobs start.
fn ask_about(root: &Path, yes: bool) -> Result<()> {
    let directory = Foreign::typed(root)
        .decided_by(&root.to_string_lossy(), own_file::why_others_can_rename_in(root)?);
    let asked = directory.permitted(yes, |root| {
        let programs = [BINARY, SCRIPT].map(|name| root.join(name).display().to_string());
        Ok(format!("jobs start {} there, with your rights\n", programs.join(" and ")))
    });
    asked.map(drop)
}

/// Puts this binary where the nodes find it, so that they need none of their own.
fn copy_binary(folder: &HeldFolder) -> Result<()> {
    let own = fs::read("/proc/self/exe").context("reading knee's own binary")?;
    if folder.read(BINARY, BINARY_LIMIT).is_ok_and(|there| there.as_ref() == Some(&own)) {
        return Ok(());
    }
    // A job may be executing the old one: a new file takes its name. Another knee may be submitting too.
    folder.replace(BINARY, |mut file| {
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        Ok(file.write_all(&own)?)
    })
}

/// How often Slurm is asked whether jobs are left that could do what is not done.
const ASK_EVERY: Duration = Duration::from_secs(30);

/// Waits until the files say that all chunks are done, or Slurm says that no job is left.
fn wait(fleet: &Fleet, done: Done) -> Result<ExitCode> {
    signals::catch();
    let (mut before, mut asked) = (usize::MAX, Instant::now());
    loop {
        let left = fleet.left()?.len();
        if left == 0 {
            return done(fleet);
        }
        if left != before {
            hint(format_args!("{} left", counted(left, "chunk")));
        }
        before = left;
        if asked.elapsed() > ASK_EVERY {
            asked = Instant::now();
            // What Slurm does not say is no error: the files decide.
            if let Some(Ok(jobs)) = slurm::jobs(&fleet.folder)
                && jobs.are_over()
                && fleet.left()?.len() == left
            {
                bail!(no_job_left(fleet, &jobs, left)?);
            }
        }
        if signals::wait(Duration::from_secs(1)) {
            talk("interrupted: the jobs go on without this command");
            return Ok(ExitCode::from(130));
        }
    }
}

/// Why nothing more will be done.
fn no_job_left(fleet: &Fleet, jobs: &slurm::Jobs, left: usize) -> Result<String> {
    let failed = jobs.failed.iter().map(|((node, reason), count)| {
        format!("{} failed on {node} ({reason})", counted(*count, "job"))
    });
    let refused = fleet.folder.checks()?.into_iter().filter(|check| !check.problems.is_empty());
    let refused = refused.map(|check| format!("{}: {}", check.host, check.problems.join("; ")));
    let whys: Vec<String> = failed.chain(refused).collect();
    let root = fleet.root().display();
    Ok(format!(
        "{} not done, and Slurm has no job left: {}; see {root}/logs (a node without a log there does not have \
         the directory); the same command with --fleet {root} submits what is left",
        counted(left, "chunk"),
        if whys.is_empty() { "no reason is known".to_string() } else { whys.join("; ") }
    ))
}
