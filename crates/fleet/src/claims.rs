//! The files of a fleet. Whatever two hosts may race for appears by one link(2), which succeeds for one of
//! them, also on NFS. Other users may write there too: files are found by descriptor alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use host::durable::Seal;
use host::{HeldFolder, Limit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::owner::Claim;
use crate::plan_file::Plan;

const PLAN: &str = "plan.json";
const FOLDERS: [&str; 5] = ["claims", "beats", "records", "done", "hosts"];
const RELEASED: &str = ".released";
const NEXT: &str = ".next";

/// More claims of one chunk than a host that dies every minute makes in a week.
const CLAIMS_MAX: u32 = 10_000;

const PLAN_LIMIT: Limit = Limit { bytes: 64 << 20, what: "a plan" };
const CLAIM_LIMIT: Limit = Limit { bytes: 64 << 20, what: "a claim" };
const BEAT_LIMIT: Limit = Limit { bytes: 100, what: "a beat" };
const DONE_LIMIT: Limit = Limit { bytes: 64 << 20, what: "a list of measured blocks" };
const PASSED_ON_LIMIT: Limit = Limit { bytes: 1 << 20, what: "what was passed on" };

/// The directory of a fleet.
#[derive(Clone, Debug)]
pub struct Folder {
    root: Arc<HeldFolder>,
    /// Hash of the plan, which each claim repeats.
    plan: String,
}

/// What a chunk waits for. A claim of it is known by its number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkState {
    /// Nobody measures it; `claims` were made and released.
    Free { claims: u32 },
    /// The last claim of it was not released.
    Claimed { claim: u32 },
    /// Every block is measured.
    Done,
}

/// The contents of `done/N`: for each block the claim that measured it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    pub blocks: BTreeMap<u32, u32>,
}

/// The state of every chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey(pub Vec<ChunkState>);

impl Survey {
    /// Numbers of chunks that are done, claimed and free.
    pub fn counts(&self) -> [usize; 3] {
        let count = |wanted: fn(&ChunkState) -> bool| self.0.iter().filter(|s| wanted(s)).count();
        [
            count(|state| matches!(state, ChunkState::Done)),
            count(|state| matches!(state, ChunkState::Claimed { .. })),
            count(|state| matches!(state, ChunkState::Free { .. })),
        ]
    }
}

impl Folder {
    /// Makes the directory of a new fleet.
    pub fn create(path: &Path, plan: &Plan) -> Result<Folder> {
        let root = HeldFolder::create(path)?;
        ensure!(
            root.look(PLAN)?.is_none(),
            "{}/{PLAN} is there already: a plan never changes, so choose another directory",
            path.display()
        );
        for name in FOLDERS {
            root.create_folder(name)?;
        }
        let text = serde_json::to_string_pretty(plan)?;
        let is_first = root.link(PLAN, text.as_bytes())?;
        ensure!(is_first, "{}/{PLAN} was just made by somebody else", path.display());
        Ok(Folder { root: Arc::new(root), plan: Seal::for_bytes(text.as_bytes()).sha256 })
    }

    /// Opens the directory of a fleet.
    pub fn open(path: &Path) -> Result<(Folder, Plan)> {
        let text = read_plan(path).and_then(|text| {
            let none = || format!("{}/{PLAN} is not there", path.display());
            text.with_context(none)
        });
        let text =
            text.context("name a directory that knee fleet plan made and that this host shares")?;
        Folder::with_plan(path, &text)
    }

    /// The directory of a fleet whose plan has this text.
    pub fn with_plan(path: &Path, text: &str) -> Result<(Folder, Plan)> {
        let plan = Plan::read(text).with_context(|| format!("in {}/{PLAN}", path.display()))?;
        let root = Arc::new(HeldFolder::open(path)?);
        Ok((Folder { root, plan: Seal::for_bytes(text.as_bytes()).sha256 }, plan))
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The directory, held.
    pub fn held(&self) -> &HeldFolder {
        &self.root
    }

    /// One of the folders that [`Folder::create`] made.
    pub(crate) fn below(&self, name: &str) -> Result<HeldFolder> {
        let none =
            || format!("{}/{name} is missing: bring it back, or plan anew", self.root().display());
        self.root.folder(name)?.with_context(none)
    }

    /// Hash of the plan.
    pub fn plan_hash(&self) -> &str {
        &self.plan
    }

    /// The state of every chunk, from the names of two directories.
    pub fn survey(&self, chunks: usize) -> Result<Survey> {
        let mut states = vec![ChunkState::Free { claims: 0 }; chunks];
        let mut released = Vec::new();
        for name in self.names("claims")? {
            let Some((chunk, claim, rest)) = parse(&name) else { continue };
            let Some(state) = states.get_mut(chunk) else { continue };
            ensure!(
                (1..=CLAIMS_MAX).contains(&claim),
                "{}/claims/{name} is no claim of knee's: a chunk has 1 to {CLAIMS_MAX} of them; remove it",
                self.root().display()
            );
            if rest == RELEASED {
                released.push((chunk, claim));
            } else if claim > last_claim(*state) {
                *state = ChunkState::Claimed { claim };
            }
        }
        for (chunk, claim) in released {
            if states[chunk] == (ChunkState::Claimed { claim }) {
                states[chunk] = ChunkState::Free { claims: claim };
            }
        }
        for name in self.names("done")? {
            if let Some(state) = name.parse().ok().and_then(|chunk: usize| states.get_mut(chunk)) {
                *state = ChunkState::Done;
            }
        }
        Ok(Survey(states))
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        let entries = self.below(folder)?.list()?;
        Ok(entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect())
    }

    /// Claims a chunk by the number that follows the last claim. `false` if somebody else was first.
    pub fn claim(&self, chunk: usize, number: u32, claim: &Claim) -> Result<bool> {
        ensure!(
            number <= CLAIMS_MAX,
            "chunk {chunk} was claimed {CLAIMS_MAX} times and is not done: plan into a new directory"
        );
        if number > 1 {
            let before = self.read_claim(chunk, number - 1)?;
            ensure!(
                before.plan == self.plan,
                "{}/{PLAN} was changed after chunk {chunk} was claimed: its runs are of another plan, so \
                 plan into a new directory",
                self.root().display()
            );
        }
        let text = serde_json::to_string(claim)?;
        self.below("claims")?.link(name(chunk, number), text.as_bytes())
    }

    /// The claim of a chunk with this number.
    pub fn read_claim(&self, chunk: usize, number: u32) -> Result<Claim> {
        let name = name(chunk, number);
        let claim = read_json(&self.below("claims")?, &name, CLAIM_LIMIT)?;
        claim.with_context(|| {
            format!("the claim {}/claims/{name} is missing", self.root().display())
        })
    }

    /// Shows that the owner of a claim lives: it has so many runs. Called between runs only, since a
    /// writer would disturb a run.
    pub fn beat(&self, chunk: usize, number: u32, runs: u64) -> Result<()> {
        self.below("beats")?.put(name(chunk, number), runs.to_string().as_bytes())
    }

    /// The runs that the owner of a claim has shown. `None` if none could be read.
    pub fn read_beat(&self, chunk: usize, number: u32) -> Option<u64> {
        let beats = self.below("beats").ok()?;
        beats.read_text(name(chunk, number), BEAT_LIMIT).ok()??.parse().ok()
    }

    /// Gives a claim up, so that nobody waits for its lease.
    pub fn release(&self, chunk: usize, number: u32) -> Result<()> {
        self.below("claims")?.replace(name(chunk, number) + RELEASED, |_| Ok(()))
    }

    /// Says how a later process goes on with a claim, on the same host after a boot.
    pub fn pass_on(&self, chunk: usize, number: u32, how: &str) -> Result<()> {
        let write = |mut file: &File| Ok(file.write_all(how.as_bytes())?);
        self.below("claims")?.replace(name(chunk, number) + NEXT, write)
    }

    /// How to go on with a claim that was passed on.
    pub fn read_passed_on(&self, chunk: usize, number: u32) -> Result<String> {
        let name = name(chunk, number) + NEXT;
        let text = self.below("claims")?.read_text(&name, PASSED_ON_LIMIT)?;
        text.with_context(|| {
            format!(
                "{}/claims/{name}, which says how chunk {chunk} goes on after a boot, is missing",
                self.root().display()
            )
        })
    }

    /// Says that every block is measured. `false` if another claim said so first.
    pub fn finish(&self, chunk: usize, done: &Done) -> Result<bool> {
        let text = serde_json::to_string(done)?;
        self.below("done")?.link(format!("{chunk:04}"), text.as_bytes())
    }

    /// Which claim measured which block of a chunk, if it is done.
    pub fn read_done(&self, chunk: usize) -> Result<Option<Done>> {
        read_json(&self.below("done")?, &format!("{chunk:04}"), DONE_LIMIT)
    }

    /// The folder of the store that a claim's record grows in.
    pub fn records_of(&self, chunk: usize, number: u32) -> PathBuf {
        self.root().join("records").join(name(chunk, number))
    }

    /// Refuses a link in the place of the folder that a claim's record grows in.
    pub(crate) fn check_records(&self, chunk: usize, number: u32) -> Result<()> {
        self.below("records")?.folder(name(chunk, number)).map(drop)
    }
}

/// The text of the plan in a directory; `None` if there is none.
fn read_plan(path: &Path) -> Result<Option<String>> {
    let Some(root) = HeldFolder::open_if_there(path)? else { return Ok(None) };
    root.read_text(PLAN, PLAN_LIMIT)
}

/// The name of the files about a claim.
pub(crate) fn name(chunk: usize, number: u32) -> String {
    format!("{chunk:04}.{number}")
}

fn read_json<T: DeserializeOwned>(
    folder: &HeldFolder,
    name: &str,
    limit: Limit,
) -> Result<Option<T>> {
    let Some(text) = folder.read_text(name, limit)? else { return Ok(None) };
    let value = serde_json::from_str(&text);
    value.with_context(|| format!("reading {}", folder.path().join(name).display())).map(Some)
}

/// Chunk, number and ending of a claim's name: `0007.1.released`.
fn parse(name: &str) -> Option<(usize, u32, &str)> {
    let (chunk, rest) = name.split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, ending) = rest.split_at(digits);
    let is_known = ending.is_empty() || ending == RELEASED;
    is_known.then_some((chunk.parse().ok()?, number.parse().ok()?, ending))
}

fn last_claim(state: ChunkState) -> u32 {
    match state {
        ChunkState::Claimed { claim } => claim,
        ChunkState::Free { claims } => claims,
        ChunkState::Done => u32::MAX,
    }
}
