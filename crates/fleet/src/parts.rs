//! The records that claims of a chunk left: which of their blocks are whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plan::schedule;
use records::{Opened, Run};
use store::{Id, Store};

use crate::claims::Folder;
use crate::plan_file::Chunk;

/// The blocks of a chunk that its first `claims` claims measured whole, each with the number of its claim.
pub fn kept_blocks(
    folder: &Folder,
    number: usize,
    chunk: &Chunk,
    claims: u32,
) -> Result<BTreeMap<u32, u32>> {
    let mut kept = BTreeMap::new();
    for claim in 1..=claims {
        for block in measured_by(folder, number, claim)? {
            if chunk.range().contains(&block) {
                kept.entry(block).or_insert(claim);
            }
        }
    }
    Ok(kept)
}

/// The blocks that one claim measured whole; none if its owner died before its first run.
pub fn measured_by(folder: &Folder, chunk: usize, claim: u32) -> Result<BTreeSet<u32>> {
    match open_part(&folder.records_of(chunk, claim))? {
        Some(part) => whole_blocks(&part),
        None => Ok(BTreeSet::new()),
    }
}

/// The record in the store of a claim, finished or still growing.
pub fn open_part(root: &Path) -> Result<Option<Opened>> {
    if !root.exists() {
        return Ok(None);
    }
    for shard in Store::at(root.to_path_buf()).shards()? {
        for entry in fs::read_dir(&shard).with_context(|| format!("listing {}", shard.display()))? {
            let path: PathBuf = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_record = Id::read(name.strip_prefix(".part-").unwrap_or(&name)).is_some();
            let is_begun = ["plan.json", "record.json"].iter().any(|file| path.join(file).exists());
            if is_record && is_begun && path.join("runs.ndjson").exists() {
                return store::open(&path).map(Some);
            }
        }
    }
    Ok(None)
}

/// The blocks of a record with every run and every profile that the schedule gives them.
fn whole_blocks(part: &Opened) -> Result<BTreeSet<u32>> {
    let record = &part.record;
    let profiles = store::profiles(part)?;
    let is_run = |wanted: &schedule::Assignment| {
        part.runs.iter().any(|run| {
            let is = (run.block, run.point as usize, run.placebo, run.repeat);
            is == (wanted.block, wanted.point, wanted.placebo, wanted.repeat)
        })
    };
    let is_whole = |block: u32| {
        let before: Vec<&Run> = part.runs.iter().filter(|run| run.block < block).collect();
        let planned = schedule::block(record, &before, block);
        planned.iter().all(|assignment| {
            schedule::steps(record, *assignment).into_iter().all(|step| match step {
                None => is_run(assignment),
                Some(kind) => profiles.iter().any(|profile| {
                    profile.kind == kind
                        && (profile.block, profile.point as usize)
                            == (assignment.block, assignment.point)
                }),
            })
        })
    };
    // The last block that was begun may lack runs; those that were not begun lack all.
    let begun: BTreeSet<u32> = part.runs.iter().map(|run| run.block).collect();
    Ok(begun.into_iter().filter(|block| is_whole(*block)).collect())
}
