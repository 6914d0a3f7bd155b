//! Slurm's client programs. They hang for minutes while the controller is down, so each call has a time
//! limit; what they say decides nothing, since progress is read from the fleet's files.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host::Limit;
use host::children::{self, Streams};
use host::executables::find_program;

use crate::claims::Folder;

/// How long a client program may take: a verb that asks one shall answer within 5 s.
const LIMIT: Duration = Duration::from_secs(4);

/// The file in a fleet's directory with the ids of its jobs, one a line.
const JOBS: &str = "slurm-jobs";
const JOBS_LIMIT: Limit = Limit { bytes: 64 << 10, what: "a list of jobs" };

/// An array of jobs, each of which measures one chunk on a node of its own.
pub struct Job<'a> {
    pub name: &'a str,
    /// The fleet's, with a copy of knee.
    pub directory: &'a Path,
    pub chunks: &'a [usize],
    /// How long the longest chunk takes by estimate; 0 if nothing tells.
    pub longest_s: f64,
    pub constraint: Option<&'a str>,
    pub partition: Option<&'a str>,
    /// How many run at the same time.
    pub nodes: Option<u32>,
}

/// Whether jobs can be submitted from this host.
pub fn is_here() -> bool {
    find_program("sbatch").is_some()
}

/// Refuses a directory whose name a job script would misread.
pub fn check_directory(directory: &Path) -> Result<()> {
    let name = directory.to_str().unwrap_or_default();
    ensure!(
        !name.is_empty() && name.chars().all(is_plain),
        "{name:?} has characters that mean something else in a job script: name another directory with --fleet"
    );
    Ok(())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/._+=:@,-".contains(c)
}

/// The script that sbatch takes.
pub fn script(job: &Job) -> Result<String> {
    check_directory(job.directory)?;
    let directory = job.directory.display();
    let name: String = job.name.chars().filter(|c| is_plain(*c)).take(40).collect();
    // Twice the estimate, and time to start: a node may be slower than the host that planned.
    let minutes = (job.longest_s * 2.0 / 60.0).ceil() as u64 + 10;
    let at_once = job.nodes.map(|nodes| format!("%{nodes}")).unwrap_or_default();
    let mut options = vec![
        format!("--job-name=knee-{name}"),
        format!("--array={}{at_once}", ranges(job.chunks)),
        "--nodes=1".to_string(),
        "--exclusive".to_string(),
        "--requeue".to_string(),
        // Whole blocks are kept and the chunk is freed before the limit kills.
        "--signal=B:TERM@60".to_string(),
        "--open-mode=append".to_string(),
        format!("--output={directory}/logs/%a"),
    ];
    // Without an estimate, the limit of the partition.
    options.extend((job.longest_s > 0.0).then(|| format!("--time={minutes}")));
    options.extend(job.partition.map(|name| format!("--partition={name}")));
    options.extend(job.constraint.map(|features| format!("--constraint={features}")));
    // --yes: whoever submits has just planned, or has seen that the plan there is the same.
    let options: String = options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    Ok(format!(
        "#!/bin/sh\n{options}exec {directory}/knee fleet chunk --yes {directory} \"$SLURM_ARRAY_TASK_ID\"\n"
    ))
}

/// The rest of a chunk, for which Slurm boots a kernel on the node that began it.
pub struct Relay<'a> {
    /// The fleet's, with a copy of knee.
    pub directory: &'a Path,
    pub chunk: usize,
    pub claim: u32,
    pub node: &'a str,
    /// The feature that stands for the kernel.
    pub feature: &'a str,
    pub partition: Option<&'a str>,
}

/// The script of a job that goes on with a chunk.
pub fn relay_script(relay: &Relay) -> Result<String> {
    check_directory(relay.directory)?;
    let Relay { chunk, claim, node, feature, partition, .. } = relay;
    for word in [*node, *feature] {
        ensure!(!word.is_empty() && word.chars().all(is_plain), "{word:?} is no word of Slurm's");
    }
    let directory = relay.directory.display();
    let partition =
        partition.map(|name| format!("#SBATCH --partition={name}\n")).unwrap_or_default();
    Ok(format!(
        "#!/bin/sh\n#SBATCH --job-name=knee-{chunk}-{feature}\n#SBATCH --nodes=1\n\
         #SBATCH --nodelist={node}\n#SBATCH --constraint={feature}\n{partition}#SBATCH --exclusive\n\
         #SBATCH --requeue\n#SBATCH --signal=B:TERM@60\n#SBATCH --open-mode=append\n\
         #SBATCH --output={directory}/logs/{chunk}\n\
         exec {directory}/knee fleet chunk --yes --go-on {claim} {directory} {chunk}\n"
    ))
}

/// Refuses a node on which the feature is not active: another kernel would be measured in its place.
pub fn check_feature(node: &str, feature: &str) -> Result<()> {
    let told = ask(Command::new("scontrol").args(["--oneliner", "show", "node", node]))?;
    let active = told.split_whitespace().find_map(|word| word.strip_prefix("ActiveFeatures="));
    ensure!(
        active.unwrap_or_default().split(',').any(|name| name == feature),
        "{node} has the features {} and not {feature}: Slurm did not boot that kernel; its helper \
         (node_features/helpers) prints the feature of the kernel that runs",
        active.unwrap_or("(none)")
    );
    Ok(())
}

/// Numbers in order, as Slurm writes them: `0-3,7`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let range = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// Submits a script. Returns the id of the job, which the fleet's directory remembers.
pub fn submit(folder: &Folder, script: &Path) -> Result<String> {
    let told = ask(Command::new("sbatch").arg("--parsable").arg(script)).with_context(|| {
        format!(
            "submitting {0}: nothing is lost; submit it later with sbatch {0} (if it was submitted all the \
             same, the second array finds its chunks done)",
            script.display()
        )
    })?;
    // With several clusters, the id is followed by the cluster's name.
    let id = told.trim().split(';').next().unwrap_or_default().to_string();
    ensure!(id.parse::<u64>().is_ok(), "sbatch answered {told:?}, which is no id of a job");
    // Nodes append too. A line that is lost costs a word of the status.
    folder.held().append(JOBS)?.write_all(format!("{id}\n").as_bytes())?;
    Ok(id)
}

/// The jobs of a fleet that Slurm still knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// How many wait, by Slurm's reason.
    pub pending: BTreeMap<String, usize>,
    /// How many run, or are about to.
    pub active: usize,
    /// How many failed within the last minutes, by node and Slurm's reason.
    pub failed: BTreeMap<(String, String), usize>,
}

/// Asks Slurm for a fleet's jobs; `None` if none was submitted. An error if Slurm does not say.
pub fn jobs(folder: &Folder) -> Option<Result<Jobs>> {
    let ids = match folder.held().read_text(JOBS, JOBS_LIMIT) {
        Ok(ids) => ids?,
        Err(why) => return Some(Err(why)),
    };
    // Others may have written other words, which squeue would take for options.
    let ids: Vec<&str> = ids.split_whitespace().filter(|id| id.parse::<u64>().is_ok()).collect();
    let words = ["--noheader", "--array", "--states=all", "--format=%T|%N|%r", "--jobs"];
    match ask(Command::new("squeue").args(words).arg(ids.join(","))) {
        // Slurm forgets jobs minutes after they ended.
        Err(why) if format!("{why:#}").contains("Invalid job id") => Some(Ok(Jobs::default())),
        told => Some(told.map(|told| Jobs::parse(&told))),
    }
}

impl Jobs {
    /// Parses lines of state, nodes and reason.
    fn parse(told: &str) -> Jobs {
        let mut jobs = Jobs::default();
        for line in told.lines() {
            let mut words = line.trim().splitn(3, '|');
            let mut word = || words.next().unwrap_or_default().to_string();
            let (state, node, reason) = (word(), word(), word());
            match state.as_str() {
                "" | "COMPLETED" | "CANCELLED" => (),
                "PENDING" => *jobs.pending.entry(reason).or_insert(0) += 1,
                "FAILED" | "NODE_FAIL" | "BOOT_FAIL" | "TIMEOUT" | "OUT_OF_MEMORY" | "DEADLINE" => {
                    *jobs.failed.entry((node, reason)).or_insert(0) += 1;
                }
                _ => jobs.active += 1,
            }
        }
        jobs
    }

    /// Whether none of them will do anything more.
    pub fn are_over(&self) -> bool {
        self.active == 0 && self.pending.is_empty()
    }
}

/// What a client program prints.
fn ask(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = children::output_within(command, Streams::Apart, LIMIT).with_context(|| {
        format!("asking {program} (is Slurm's controller down? scontrol ping says so)")
    })?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{program} failed: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job<'a>(directory: &'a str, chunks: &'a [usize]) -> Job<'a> {
        Job {
            name: "locks 'n more",
            directory: Path::new(directory),
            chunks,
            longest_s: 600.0,
            constraint: Some("icl&ext4"),
            partition: None,
            nodes: Some(8),
        }
    }

    #[test]
    fn a_script_submits_what_is_left() {
        let text = script(&job("/shared/x", &[0, 1, 2, 7, 9, 10])).unwrap();
        for line in [
            "#SBATCH --array=0-2,7,9-10%8\n",
            "#SBATCH --time=30\n",
            "#SBATCH --constraint=icl&ext4\n",
            "#SBATCH --job-name=knee-locksnmore\n",
            "\nexec /shared/x/knee fleet chunk --yes /shared/x \"$SLURM_ARRAY_TASK_ID\"\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("partition"));
    }

    #[test]
    fn the_rest_of_a_chunk_goes_to_the_same_node_under_the_next_kernel() {
        let relay = Relay {
            directory: Path::new("/shared/x"),
            chunk: 7,
            claim: 2,
            node: "n1",
            feature: "k612",
            partition: Some("long"),
        };
        let text = relay_script(&relay).unwrap();
        for line in [
            "#SBATCH --nodelist=n1\n",
            "#SBATCH --constraint=k612\n",
            "#SBATCH --partition=long\n",
            "\nexec /shared/x/knee fleet chunk --yes --go-on 2 /shared/x 7\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let wrong = Relay { feature: "k612&x\n#SBATCH --x", ..relay };
        assert!(relay_script(&wrong).is_err());
    }

    #[test]
    fn jobs_are_told_apart_by_their_state() {
        let told = "PENDING||Resources\nPENDING||Resources\nRUNNING|n1|None\nCOMPLETED|n1|None\n\
                    FAILED|n2|NonZeroExitCode\nFAILED|n2|NonZeroExitCode\nCOMPLETING|n3|None\n";
        let jobs = Jobs::parse(told);
        assert_eq!(jobs.pending, [("Resources".to_string(), 2)].into());
        assert_eq!((jobs.active, jobs.are_over()), (2, false));
        let failed = ("n2".to_string(), "NonZeroExitCode".to_string());
        assert_eq!(jobs.failed, [(failed, 2)].into());
        assert!(Jobs::parse("COMPLETED|n1|None\nFAILED|n2|x\n").are_over());
    }

    #[test]
    fn directories_that_a_script_would_misread_are_refused() {
        for wrong in ["/a b", "/a\n#SBATCH --x", "/100%", "/a'b", "/$HOME", ""] {
            assert!(script(&job(wrong, &[0])).is_err(), "{wrong}");
        }
    }
}
