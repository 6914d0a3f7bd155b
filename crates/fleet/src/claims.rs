//! The files of a fleet. Whatever two hosts may race for appears by one link(2), which succeeds for one of
//! them, also on NFS.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::durable::{Seal, sync_folder, write_durably};
use serde::{Deserialize, Serialize};

use crate::owner::Claim;
use crate::plan_file::Plan;

const PLAN: &str = "plan.json";
const FOLDERS: [&str; 5] = ["claims", "beats", "records", "done", "hosts"];
const RELEASED: &str = ".released";
const NEXT: &str = ".next";

/// The directory of a fleet.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
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
    pub fn create(root: &Path, plan: &Plan) -> Result<Folder> {
        let path = root.join(PLAN);
        ensure!(
            !path.exists(),
            "{} is there already: a plan never changes, so choose another directory",
            path.display()
        );
        for name in FOLDERS {
            let folder = root.join(name);
            fs::create_dir_all(&folder)
                .with_context(|| format!("creating {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(plan)?;
        let folder =
            Folder { root: root.to_path_buf(), plan: Seal::for_bytes(text.as_bytes()).sha256 };
        let is_first = folder.link(&path, text.as_bytes())?;
        ensure!(is_first, "{} was just made by somebody else", path.display());
        Ok(folder)
    }

    /// Opens the directory of a fleet.
    pub fn open(root: &Path) -> Result<(Folder, Plan)> {
        let path = root.join(PLAN);
        let text = fs::read_to_string(&path).with_context(|| {
            format!(
                "reading {}: name a directory that knee fleet plan made and that this host shares",
                path.display()
            )
        })?;
        Folder::with_plan(root, &text)
    }

    /// The directory of a fleet whose plan has this text.
    pub fn with_plan(root: &Path, text: &str) -> Result<(Folder, Plan)> {
        let plan = Plan::read(text).with_context(|| format!("in {}/{PLAN}", root.display()))?;
        let hash = Seal::for_bytes(text.as_bytes()).sha256;
        Ok((Folder { root: root.to_path_buf(), plan: hash }, plan))
    }

    pub fn root(&self) -> &Path {
        &self.root
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
        let path = self.root.join(folder);
        let read = || -> std::io::Result<Vec<String>> {
            let entries = fs::read_dir(&path)?.collect::<Result<Vec<_>, _>>()?;
            Ok(entries.iter().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
        };
        read().with_context(|| format!("listing {}", path.display()))
    }

    /// Claims a chunk by the number that follows the last claim. `false` if somebody else was first.
    pub fn claim(&self, chunk: usize, number: u32, claim: &Claim) -> Result<bool> {
        if number > 1 {
            let before = self.read_claim(chunk, number - 1)?;
            ensure!(
                before.plan == self.plan,
                "{}/{PLAN} was changed after chunk {chunk} was claimed: its runs are of another plan, so \
                 plan into a new directory",
                self.root.display()
            );
        }
        self.link(&self.path("claims", chunk, number), serde_json::to_string(claim)?.as_bytes())
    }

    /// The claim of a chunk with this number.
    pub fn read_claim(&self, chunk: usize, number: u32) -> Result<Claim> {
        let path = self.path("claims", chunk, number);
        let read = || Ok::<_, anyhow::Error>(serde_json::from_str(&fs::read_to_string(&path)?)?);
        read().with_context(|| format!("reading the claim {}", path.display()))
    }

    /// Shows that the owner of a claim lives: it has so many runs. Called between runs only, since a
    /// writer would disturb a run.
    pub fn beat(&self, chunk: usize, number: u32, runs: u64) -> Result<()> {
        let path = self.path("beats", chunk, number);
        // A torn number is another number: it shows life all the same.
        fs::write(&path, runs.to_string()).with_context(|| format!("writing {}", path.display()))
    }

    /// The runs that the owner of a claim has shown. `None` if none could be read.
    pub fn read_beat(&self, chunk: usize, number: u32) -> Option<u64> {
        fs::read_to_string(self.path("beats", chunk, number)).ok()?.parse().ok()
    }

    /// Gives a claim up, so that nobody waits for its lease.
    pub fn release(&self, chunk: usize, number: u32) -> Result<()> {
        let path = self.path("claims", chunk, number);
        let path = path.with_file_name(format!("{}{RELEASED}", name_of(&path)));
        write_durably(&path, |_| Ok(()))
    }

    /// Says how a later process goes on with a claim, on the same host after a boot.
    pub fn pass_on(&self, chunk: usize, number: u32, how: &str) -> Result<()> {
        let path = self.path("claims", chunk, number);
        let path = path.with_file_name(format!("{}{NEXT}", name_of(&path)));
        write_durably(&path, |mut file| Ok(file.write_all(how.as_bytes())?))
    }

    /// How to go on with a claim that was passed on.
    pub fn read_passed_on(&self, chunk: usize, number: u32) -> Result<String> {
        let path = self.path("claims", chunk, number);
        let path = path.with_file_name(format!("{}{NEXT}", name_of(&path)));
        fs::read_to_string(&path).with_context(|| {
            format!("reading {}, which says how chunk {chunk} goes on after a boot", path.display())
        })
    }

    /// Says that every block is measured. `false` if another claim said so first.
    pub fn finish(&self, chunk: usize, done: &Done) -> Result<bool> {
        let path = self.root.join("done").join(format!("{chunk:04}"));
        self.link(&path, serde_json::to_string(done)?.as_bytes())
    }

    /// Which claim measured which block of a chunk, if it is done.
    pub fn read_done(&self, chunk: usize) -> Result<Option<Done>> {
        let path = self.root.join("done").join(format!("{chunk:04}"));
        match fs::read_to_string(&path) {
            Ok(text) => {
                let done = serde_json::from_str(&text);
                Ok(Some(done.with_context(|| format!("reading {}", path.display()))?))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// The folder of the store that a claim's record grows in.
    pub fn records_of(&self, chunk: usize, number: u32) -> PathBuf {
        self.path("records", chunk, number)
    }

    fn path(&self, folder: &str, chunk: usize, number: u32) -> PathBuf {
        self.root.join(folder).join(format!("{chunk:04}.{number}"))
    }

    /// Makes a file appear whole under a name that nothing has. `false` if something has it.
    fn link(&self, path: &Path, text: &[u8]) -> Result<bool> {
        let folder = path.parent().context("a file of a fleet lies in a folder")?;
        let beside = folder.join(format!(".new-{:016x}", host::random()));
        let appear = || -> Result<bool> {
            let mut file = File::options().write(true).create_new(true).open(&beside)?;
            file.write_all(text)?;
            file.sync_all()?;
            let linked = fs::hard_link(&beside, path);
            // The answer of an NFS server may have been lost: the number of links tells.
            let is_ours = linked.is_ok() || fs::metadata(&beside)?.nlink() == 2;
            match linked {
                Err(e) if !is_ours && e.kind() != ErrorKind::AlreadyExists => bail!(
                    "{e}: the directory must be on a file system with hard links that all hosts share"
                ),
                _ => Ok(is_ours),
            }
        };
        let appeared = appear().with_context(|| format!("making {}", path.display()));
        let _ = fs::remove_file(&beside);
        sync_folder(folder)?;
        appeared
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
