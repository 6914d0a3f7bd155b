//! A member of a fleet: claims chunk after chunk, has their blocks measured, and says what is done.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use host::terminal::{hint, talk};
use host::{counted, signals};

use crate::claims::{ChunkState, Done, Folder};
use crate::owner::{Claim, Owner, started_ticks};
use crate::parts::{kept_blocks, measured_by};
use crate::plan_file::Plan;
use crate::watch::Watch;

/// Where the blocks of a claimed chunk are measured: on this host, or on one that this process reaches.
pub trait Measurer {
    /// Refuses a host that the plan is not for. Called before anything is claimed.
    fn check_fit(&mut self, plan: &Plan) -> Result<()>;

    /// Measures blocks into [`Folder::records_of`] the claim. Calls [`Folder::beat`] after each run.
    fn measure(&mut self, plan: &Plan, folder: &Folder, share: &Share) -> Result<Outcome>;
}

/// What one claim has to measure.
#[derive(Clone, Debug)]
pub struct Share {
    pub chunk: usize,
    pub claim: u32,
    pub blocks: Vec<u32>,
}

/// How measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether a signal ended it before all blocks were measured.
    pub is_interrupted: bool,
    /// Whether runs failed; the record says why.
    pub any_failed: bool,
    /// Whether another process goes on with the claim after a boot: [`Folder::pass_on`] says how.
    pub passed_on: bool,
}

/// How the work on one claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// All blocks are measured, here or by another member.
    Settled,
    Interrupted,
    PassedOn,
}

/// How a member's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The chunks it was to measure are done, by this member or another.
    Done,
    /// They are done, but runs of this member failed.
    SomeFailed,
    /// Another process is measuring the one chunk that it was to measure.
    Busy,
    /// A signal ended it.
    Interrupted,
    /// The rest is measured after a boot of this host, by another process.
    PassedOn,
}

/// One that measures chunks.
pub struct Member<M> {
    folder: Folder,
    plan: Plan,
    owner: Owner,
    measurer: M,
    began: Instant,
    /// Claims of others, by chunk and number.
    watches: BTreeMap<(usize, u32), (Owner, Watch)>,
    is_fit: bool,
    any_failed: bool,
}

impl<M: Measurer> Member<M> {
    /// A member that claims as this owner.
    pub fn new(folder: Folder, plan: Plan, owner: Owner, measurer: M) -> Member<M> {
        Member {
            folder,
            plan,
            owner,
            measurer,
            began: Instant::now(),
            watches: BTreeMap::new(),
            is_fit: false,
            any_failed: false,
        }
    }

    /// Measures one chunk, or chunk after chunk until all are done.
    pub fn work(&mut self, only: Option<usize>) -> Result<Work> {
        loop {
            if signals::received().is_some() {
                return Ok(Work::Interrupted);
            }
            let survey = self.folder.survey(self.plan.chunks.len())?;
            let wanted = |chunk: &usize| only.is_none_or(|only| only == *chunk);
            let left: Vec<(usize, ChunkState)> = survey.0.into_iter().enumerate().collect();
            let left = left.into_iter().filter(|(chunk, _)| wanted(chunk));
            let left: Vec<_> = left.filter(|(_, state)| *state != ChunkState::Done).collect();
            if left.is_empty() {
                return Ok(if self.any_failed { Work::SomeFailed } else { Work::Done });
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
                match self.measure(chunk, claims)? {
                    Ended::Settled => continue,
                    Ended::Interrupted => return Ok(Work::Interrupted),
                    Ended::PassedOn => return Ok(Work::PassedOn),
                }
            }
            if let (Some(chunk), [(_, ChunkState::Claimed { claim })]) = (only, &left[..])
                && let Some((owner, watch)) = self.watches.get(&(chunk, *claim))
                && watch.has_changed()
            {
                let host = &owner.host;
                talk(format_args!("chunk {chunk} is being measured by {host}: nothing to do"));
                return Ok(Work::Busy);
            }
            // How often claims of other hosts are looked at.
            signals::wait(Duration::from_secs_f64((self.plan.lease_s / 100.0).clamp(0.25, 5.0)));
        }
    }

    /// Goes on with a claim that an earlier process on this host passed on, unless somebody took its chunk over.
    pub fn go_on(&mut self, number: usize, claim: u32) -> Result<Work> {
        let survey = self.folder.survey(self.plan.chunks.len())?;
        if survey.0[number] != (ChunkState::Claimed { claim }) {
            talk(format_args!("chunk {number} is done or another's by now: nothing to do"));
            return Ok(Work::Done);
        }
        let theirs = self.folder.read_claim(number, claim)?;
        ensure!(
            theirs.owner.host == self.owner.host,
            "chunk {number} was begun on {}, and a block stays on one host: this is {}",
            theirs.owner.host,
            self.owner.host
        );
        self.measurer.check_fit(&self.plan)?;
        Ok(match self.measure_claimed(number, claim, theirs.keeps)? {
            Ended::Interrupted => Work::Interrupted,
            Ended::PassedOn => Work::PassedOn,
            Ended::Settled if self.any_failed => Work::SomeFailed,
            Ended::Settled => Work::Done,
        })
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
            let is_gone = owner.is_gone(&self.owner, started_ticks);
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

    /// Claims a chunk after so many claims, and measures what these left of it, unless another process
    /// claims it first.
    fn measure(&mut self, number: usize, claims: u32) -> Result<Ended> {
        if !self.is_fit {
            self.measurer.check_fit(&self.plan)?;
            self.is_fit = true;
        }
        let Some(keeps) = kept_blocks(&self.folder, &self.plan, number, claims)? else {
            return Ok(Ended::Interrupted);
        };
        let claim = Claim {
            owner: self.owner.clone(),
            plan: self.folder.plan_hash().to_string(),
            keeps: keeps.clone(),
        };
        let mine = claims + 1;
        if !self.folder.claim(number, mine, &claim)? {
            return Ok(Ended::Settled);
        }
        self.measure_claimed(number, mine, keeps)
    }

    /// Measures what a claim of this host has to measure.
    fn measure_claimed(
        &mut self,
        number: usize,
        mine: u32,
        keeps: BTreeMap<u32, u32>,
    ) -> Result<Ended> {
        let chunk = self.plan.chunks[number];
        let own: Vec<u32> = chunk.range().filter(|block| !keeps.contains_key(block)).collect();
        let spares =
            self.plan.spares(&chunk).filter(|block| !own.is_empty() && !keeps.contains_key(block));
        let left: Vec<u32> = own.iter().copied().chain(spares).collect();
        let kept = if keeps.is_empty() { String::new() } else { format!(", {} kept", keeps.len()) };
        hint(format_args!(
            "chunk {number}: {} to do on {}{kept}",
            counted(own.len(), "block"),
            self.owner.host
        ));
        let measured = self.measure_blocks(Share { chunk: number, claim: mine, blocks: left });
        let finished = measured.and_then(|ended| {
            if ended == Ended::PassedOn {
                return Ok(ended);
            }
            let is_whole = self.settle(number, mine, keeps)?;
            ensure!(
                is_whole || ended == Ended::Interrupted,
                "chunk {number} is not whole although its runs ended: see {}",
                self.folder.records_of(number, mine).display()
            );
            Ok(ended)
        });
        let released = match &finished {
            Ok(Ended::Settled | Ended::PassedOn) => Ok(()),
            // Whatever went wrong, others need not wait for the lease.
            _ => self.folder.release(number, mine),
        };
        let ended = finished?;
        released.map(|()| ended)
    }

    fn measure_blocks(&mut self, share: Share) -> Result<Ended> {
        if share.blocks.is_empty() {
            return Ok(Ended::Settled);
        }
        if self.folder.read_beat(share.chunk, share.claim).is_none() {
            self.folder.beat(share.chunk, share.claim, 0)?;
        }
        self.folder.check_records(share.chunk, share.claim)?;
        let outcome = self.measurer.measure(&self.plan, &self.folder, &share)?;
        self.any_failed |= outcome.any_failed;
        Ok(match outcome {
            Outcome { is_interrupted: true, .. } => Ended::Interrupted,
            Outcome { passed_on: true, .. } => Ended::PassedOn,
            _ => Ended::Settled,
        })
    }

    /// Says that the chunk is done, if every block is measured. Returns whether it is.
    fn settle(&self, number: usize, mine: u32, keeps: BTreeMap<u32, u32>) -> Result<bool> {
        let mut blocks = keeps;
        for block in measured_by(&self.folder, number, mine)? {
            blocks.entry(block).or_insert(mine);
        }
        if !self.plan.chunks[number].is_whole(blocks.keys(), self.plan.blocks()) {
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
}
