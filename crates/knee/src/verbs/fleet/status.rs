//! `knee fleet status`: how far the chunks are, which hosts stand still and which cannot measure, from the files; why jobs are pending, from Slurm.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use answers::{FleetClaim, FleetStatus};
use anyhow::Result;
use fleet::{ChunkState, Folder, HostCheck, Plan, slurm};
use host::counted;
use host::terminal::hint;
use pages::{Block, Page, PageKind, Section, View, ViewFlags};

/// Claims that are listed one by one.
const CLAIMS_SHOWN: usize = 20;

/// Prints the status of a fleet.
pub fn status(directory: &Path, view: ViewFlags) -> Result<ExitCode> {
    let (folder, plan) = Folder::open(directory)?;
    let survey = folder.survey(plan.chunks.len())?;
    let [done, claimed, free] = survey.counts();
    let left = survey.0.iter().zip(&plan.chunks).filter(|(state, _)| **state != ChunkState::Done);
    let left_s = left.map(|(_, chunk)| chunk.estimated_s).fold(0.0, |sum, s| sum + s);
    // Who may only read the directory sees ages by his own clock.
    let now = folder.shared_time().unwrap_or_else(|_| SystemTime::now());
    let claims = survey.0.iter().enumerate().filter_map(|(chunk, state)| match state {
        ChunkState::Claimed { claim } => Some((chunk, *claim)),
        _ => None,
    });
    let shown = if view.view() == View::Json { usize::MAX } else { CLAIMS_SHOWN };
    let claims =
        claims.take(shown).map(|(chunk, claim)| ShownClaim::new(&folder, chunk, claim, now));
    let claims = claims.collect::<Result<Vec<ShownClaim>>>()?;
    let checks = folder.checks()?;
    // Slurm is asked only what the files cannot tell.
    let jobs = if free > 0 { slurm::jobs(&folder) } else { None };
    let work = match left_s {
        s if s > 0.0 => {
            format!("; about {s:.0} s of one host's work left (estimated when planned)")
        }
        _ => String::new(),
    };
    let chunks = counted(plan.chunks.len(), "chunk");
    let answer = format!("{done} of {chunks} done, {claimed} claimed, {free} free{work}");
    let mut obstacles: Vec<String> = checks.iter().flat_map(lines).collect();
    match &jobs {
        Some(Ok(jobs)) => obstacles.extend(pending_jobs(jobs).chain(failed_jobs(jobs, directory))),
        Some(Err(why)) => hint(format_args!("why jobs are pending is unknown: {why:#}")),
        None => (),
    }
    let page = Page {
        answers: vec![answer],
        sections: claimed_chunks(&claims, claimed, &plan).into_iter().collect(),
        warnings: vec![("What stands in the way".to_string(), obstacles)],
        ..Page::new(&format!("chunks of {}", directory.display()), PageKind::List)
    };
    let value = FleetStatus {
        chunks: plan.chunks.len(),
        done,
        claimed,
        free,
        work_left_s: left_s,
        claims: claims.into_iter().map(ShownClaim::into_answer).collect(),
        hosts: checks,
        pending: jobs.and_then(Result::ok).map(|jobs| jobs.pending),
    };
    view.print(|| Ok(value), || Ok(page))?;
    Ok(ExitCode::SUCCESS)
}

/// The chunks that are claimed; nothing if none is.
fn claimed_chunks(claims: &[ShownClaim], claimed: usize, plan: &Plan) -> Option<Section> {
    let mut lines: Vec<String> = claims.iter().map(|claim| claim.line(plan)).collect();
    if claimed > claims.len() {
        lines.push(format!("and {} more claimed", claimed - claims.len()));
    }
    (!lines.is_empty()).then(|| Section::open("Claimed chunks", vec![Block::Text(lines)]))
}

/// A chunk that is being measured, or whose owner died.
struct ShownClaim {
    chunk: usize,
    claim: u32,
    host: String,
    runs: u64,
    /// Since its last run, or since it was claimed.
    silence: Option<Duration>,
}

impl ShownClaim {
    fn new(folder: &Folder, chunk: usize, claim: u32, now: SystemTime) -> Result<ShownClaim> {
        Ok(ShownClaim {
            chunk,
            claim,
            host: folder.read_claim(chunk, claim)?.owner.host,
            runs: folder.read_beat(chunk, claim).unwrap_or(0),
            silence: folder.silence(chunk, claim, now),
        })
    }

    /// "chunk 7: h1, 12 runs, the last 3 s ago".
    fn line(&self, plan: &Plan) -> String {
        let ShownClaim { chunk, claim, host, runs, silence } = self;
        let before = if *claim > 1 { format!(", claim {claim}") } else { String::new() };
        let silence = silence.map(|silence| match silence.as_secs_f64() {
            s if s > plan.lease_s => format!(
                ", none for {s:.0} s: past its lease of {:.0} s, so any host that runs knee fleet chunk takes it over",
                plan.lease_s
            ),
            s => format!(", last sign of life {s:.0} s ago"),
        });
        let runs = counted(*runs as usize, "run");
        format!("chunk {chunk}: {host}, {runs}{before}{}", silence.unwrap_or_default())
    }

    fn into_answer(self) -> FleetClaim {
        let ShownClaim { chunk, claim, host, runs, silence } = self;
        let silence_s = silence.map(|silence| silence.as_secs_f64());
        FleetClaim { chunk, claim, host, runs, silence_s }
    }
}

/// Why jobs wait.
fn pending_jobs(jobs: &slurm::Jobs) -> impl Iterator<Item = String> {
    let line = |(reason, count): (&String, &usize)| {
        format!("{} of Slurm pending: {reason}", counted(*count, "job"))
    };
    jobs.pending.iter().map(line)
}

/// What jobs failed on which nodes. A job that cannot even start knee leaves nothing else.
fn failed_jobs(jobs: &slurm::Jobs, directory: &Path) -> Vec<String> {
    let line = |((node, reason), count): (&(String, String), &usize)| {
        format!(
            "{node}: {} failed ({reason}): see {dir}/logs; without a log, the node does not have {dir}",
            counted(*count, "job of Slurm"),
            dir = directory.display()
        )
    };
    jobs.failed.iter().map(line).collect()
}

/// What stands in the way of a host; nothing if nothing does.
fn lines(check: &HostCheck) -> Vec<String> {
    let host = &check.host;
    let problems = check.problems.iter().map(|why| format!("{host} cannot measure: {why}"));
    problems.chain(check.warnings.iter().map(|why| format!("{host}: {why}"))).collect()
}
