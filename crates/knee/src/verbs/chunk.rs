//! `knee chunk`: measures chunks of a fleet on this host.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use fleet::{ChunkState, Claim, Done, Folder, Owner, Plan, Watch, kept_blocks, measured_by};
use host::terminal::{hint, talk};
use host::{counted, signals};
use runner::{End, Options, measure, planned_record};
use store::Store;

use crate::experiment_file::{self, ExperimentText};

/// Measure chunks of a fleet that `knee fleet plan` made, until all are done:
///
///     knee chunk /shared/exp          # whatever is free; takes over what dead hosts left
///     knee chunk /shared/exp 7        # chunk 7 alone, for schedulers; does nothing if it is done
///
/// The runs of whole blocks are kept when a host dies or a signal ends this. Run one at a time on a host.
///
/// Exit status: 0 done; 1 some runs failed, or another host is measuring the chunk; 2 this host cannot
/// measure it; 130 interrupted, whole blocks are kept.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Directory of the fleet
    directory: PathBuf,
    /// Number of the chunk, from 0 [default: all that are not done]
    number: Option<usize>,
    /// Run a plan that is not yours without asking (see docs/safety.md)
    #[arg(long)]
    yes: bool,
}

/// Measures one chunk, or chunk after chunk.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (folder, plan) = open(arguments)?;
    if let Some(number) = arguments.number {
        ensure!(
            number < plan.chunks.len(),
            "there is no chunk {number}: the plan has 0 to {}",
            plan.chunks.len() - 1
        );
    }
    let mut member = Member {
        folder,
        plan,
        owner: Owner::new(),
        began: Instant::now(),
        watches: BTreeMap::new(),
        is_fit: false,
        any_failed: false,
    };
    // Between chunks nothing else would notice a signal.
    signals::catch();
    member.work(arguments.number)
}

/// The directory and its plan. Asks first if the plan is not the user's own.
fn open(arguments: &Arguments) -> Result<(Folder, Plan)> {
    let path = arguments.directory.join("plan.json");
    if !path.exists() {
        // Says what a directory of a fleet is.
        return Folder::open(&arguments.directory);
    }
    let ExperimentText { text, stranger } = experiment_file::read(&path.to_string_lossy())?;
    let (folder, plan) = Folder::with_plan(&arguments.directory, &text)?;
    if let Some(stranger) = stranger.filter(|_| !arguments.yes) {
        experiment_file::ask(&path.to_string_lossy(), &stranger, &plan.experiment)?;
    }
    Ok((folder, plan))
}

/// This process, as one of those that measure the chunks.
struct Member {
    folder: Folder,
    plan: Plan,
    owner: Owner,
    began: Instant,
    /// Claims of others, by chunk and number.
    watches: BTreeMap<(usize, u32), (Owner, Watch)>,
    is_fit: bool,
    any_failed: bool,
}

impl Member {
    fn work(&mut self, only: Option<usize>) -> Result<ExitCode> {
        loop {
            if signals::received().is_some() {
                return Ok(ExitCode::from(130));
            }
            let survey = self.folder.survey(self.plan.chunks.len())?;
            let wanted = |chunk: &usize| only.is_none_or(|only| only == *chunk);
            let left: Vec<(usize, ChunkState)> = survey.0.into_iter().enumerate().collect();
            let left = left.into_iter().filter(|(chunk, _)| wanted(chunk));
            let left: Vec<_> = left.filter(|(_, state)| *state != ChunkState::Done).collect();
            if left.is_empty() {
                return Ok(if self.any_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
            }
            let free = left.iter().find_map(|(chunk, state)| match state {
                ChunkState::Free { claims } => Some((*chunk, *claims)),
                _ => None,
            });
            let claimable = match free {
                Some(free) => Some(free),
                None => self.lapsed(&left)?,
            };
            if let Some((chunk, claims)) = claimable {
                if self.measure(chunk, claims)? == Some(End::Interrupted) {
                    talk("interrupted: whole blocks are kept; knee chunk goes on with the rest");
                    return Ok(ExitCode::from(130));
                }
                continue;
            }
            if let (Some(chunk), [(_, ChunkState::Claimed { claim })]) = (only, &left[..])
                && let Some((owner, watch)) = self.watches.get(&(chunk, *claim))
                && watch.has_changed()
            {
                let host = &owner.host;
                talk(format_args!("chunk {chunk} is being measured by {host}: nothing to do"));
                return Ok(ExitCode::FAILURE);
            }
            // How often claims of other hosts are looked at.
            sleep(Duration::from_secs_f64((self.plan.lease_s / 100.0).clamp(0.25, 5.0)));
        }
    }

    /// A chunk whose owner is gone or has let its lease lapse, and the number of its claims.
    fn lapsed(&mut self, left: &[(usize, ChunkState)]) -> Result<Option<(usize, u32)>> {
        let (now, lease) = (self.began.elapsed(), Duration::from_secs_f64(self.plan.lease_s));
        for (chunk, state) in left {
            let ChunkState::Claimed { claim } = *state else { continue };
            let beat = self.folder.read_beat(*chunk, claim);
            let is_new = !self.watches.contains_key(&(*chunk, claim));
            // A claim never changes: its owner is read once.
            let (owner, watch) = match self.watches.entry((*chunk, claim)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let owner = self.folder.read_claim(*chunk, claim)?.owner;
                    new.insert((owner, Watch::new(beat, now)))
                }
            };
            watch.look(beat, now);
            let host = &owner.host;
            let is_gone = owner.is_gone(&self.owner, fleet::started_ticks);
            if is_gone || watch.has_lapsed(lease, now) {
                let why = if is_gone { "ended" } else { "shows no sign of life" };
                talk(format_args!("chunk {chunk} is taken over: its owner on {host} {why}"));
                return Ok(Some((*chunk, claim)));
            }
            if is_new {
                hint(format_args!(
                    "chunk {chunk} is claimed by {host}: waiting for it or its lease"
                ));
            }
        }
        Ok(None)
    }

    /// Claims a chunk after so many claims, and measures what these left of it. `None` if another
    /// process was first.
    fn measure(&mut self, number: usize, claims: u32) -> Result<Option<End>> {
        self.check_fit()?;
        let chunk = self.plan.chunks[number];
        let keeps = kept_blocks(&self.folder, number, &chunk, claims)?;
        let left: Vec<u32> = chunk.range().filter(|block| !keeps.contains_key(block)).collect();
        let claim = Claim {
            owner: self.owner.clone(),
            plan: self.folder.plan_hash().to_string(),
            keeps: keeps.clone(),
        };
        let mine = claims + 1;
        if !self.folder.claim(number, mine, &claim)? {
            return Ok(None);
        }
        let kept = if keeps.is_empty() { String::new() } else { format!(", {} kept", keeps.len()) };
        hint(format_args!("chunk {number}: {} to measure{kept}", counted(left.len(), "block")));
        let measured = if left.is_empty() {
            Ok(End::Complete)
        } else {
            self.measure_blocks(number, mine, &left)
        };
        let finished = measured.and_then(|end| {
            let is_whole = self.settle(number, mine, keeps)?;
            ensure!(
                is_whole || end == End::Interrupted,
                "chunk {number} is not whole although its runs ended: see {}",
                self.folder.records_of(number, mine).display()
            );
            Ok(end)
        });
        let released = match &finished {
            Ok(End::Complete) => Ok(()),
            // Whatever went wrong, others need not wait for the lease.
            _ => self.folder.release(number, mine),
        };
        let end = finished?;
        released.map(|()| Some(end))
    }

    fn measure_blocks(&mut self, number: usize, mine: u32, left: &[u32]) -> Result<End> {
        let folder = &self.folder;
        folder.beat(number, mine, 0)?;
        let store = Store::at(folder.records_of(number, mine));
        let options = Options { blocks: Some(left.to_vec()), ..Options::default() };
        let (mut runs, mut any_failed, mut unwritten) = (0, false, Ok(()));
        let measured = measure(self.plan.experiment.clone(), options, &store, |run| {
            runs += 1;
            any_failed |= !run.finished();
            unwritten = folder.beat(number, mine, runs);
        })?;
        self.any_failed |= any_failed;
        // Without beats the chunk is measured all the same; another host may have begun it too.
        if let Err(why) = unwritten {
            talk(format_args!("{why:#}"));
        }
        Ok(measured.end)
    }

    /// Says that the chunk is done, if every block is measured. Returns whether it is.
    fn settle(&self, number: usize, mine: u32, keeps: BTreeMap<u32, u32>) -> Result<bool> {
        let mut blocks = keeps;
        for block in measured_by(&self.folder, number, mine)? {
            blocks.entry(block).or_insert(mine);
        }
        if !blocks.keys().copied().eq(self.plan.chunks[number].range()) {
            return Ok(false);
        }
        if !self.folder.finish(number, &Done { blocks })? {
            talk(format_args!(
                "chunk {number} was finished by another process first: its runs count, those of this one \
                 are kept in {} but not collected",
                self.folder.records_of(number, mine).display()
            ));
        }
        Ok(true)
    }

    /// Refuses a host that the plan is not for, before anything is claimed.
    fn check_fit(&mut self) -> Result<()> {
        if self.is_fit {
            return Ok(());
        }
        let record = planned_record(self.plan.experiment.clone())?;
        let refusal = self.plan.refusal(env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, &record);
        if let Some(why) = refusal {
            bail!("{} cannot measure this plan: {why}", self.owner.host);
        }
        self.is_fit = true;
        Ok(())
    }
}
