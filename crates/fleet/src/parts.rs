//! What claims of a chunk left: which of their blocks are whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use host::{HeldFolder, signals};
use plan::schedule;
use records::{Opened, Run};
use store::Store;

use crate::claims::Folder;
use crate::plan_file::Plan;

/// The blocks of a chunk that its first `claims` claims have whole, each with the number of its claim.
/// `None` if a signal came: many records take long to read.
pub fn kept_blocks(
    folder: &Folder,
    plan: &Plan,
    number: usize,
    claims: u32,
) -> Result<Option<BTreeMap<u32, u32>>> {
    let chunk = &plan.chunks[number];
    let mut kept = BTreeMap::new();
    for claim in 1..=claims {
        if signals::received().is_some() {
            return Ok(None);
        }
        for block in measured_by(folder, number, claim)? {
            if chunk.range().contains(&block) || plan.spares(chunk).contains(&block) {
                kept.entry(block).or_insert(claim);
            }
        }
    }
    Ok(Some(kept))
}

/// The blocks that one claim has whole; none if its owner died before its first.
pub fn measured_by(folder: &Folder, chunk: usize, claim: u32) -> Result<BTreeSet<u32>> {
    folder.check_records(chunk, claim)?;
    match open_part(&folder.records_of(chunk, claim))? {
        Some(part) => whole_blocks(&part),
        None => Ok(BTreeSet::new()),
    }
}

/// The record in the store of a claim, finished or still growing.
pub fn open_part(root: &Path) -> Result<Option<Opened>> {
    for folder in Store::at(root.to_path_buf()).folders()? {
        let held = HeldFolder::open(&folder)?;
        let is_there = |name| Ok::<bool, anyhow::Error>(held.look(name)?.is_some());
        let is_begun = is_there("plan.json")? || is_there("record.json")?;
        if is_begun && is_there("runs.ndjson")? {
            return store::open(&folder).map(Some);
        }
    }
    Ok(None)
}

/// The blocks of a record with every run and every profile that the schedule gives them. A block to which it
/// gives none, since all variants were given up, is whole if those before it are.
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
    let begun: BTreeSet<u32> = part.runs.iter().map(|run| run.block).collect();
    let asked: BTreeSet<u32> = record.blocks.iter().flatten().copied().collect();
    let planned = record.experiment.blocks();
    // After a block that lacks runs nothing is known to be given up.
    let mut before_is_whole = true;
    let whole = asked.union(&begun).copied().filter(|block| {
        // A spare that nothing called for is not measured.
        let counts = begun.contains(block) || (before_is_whole && *block < planned);
        let is_whole = counts && is_whole(*block);
        before_is_whole &= is_whole;
        is_whole
    });
    Ok(whole.collect())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use records::Runs;
    use serde_json::json;

    use super::*;

    /// Blocks 10 to 15 of two variants, of which the first `runs` runs were made and failed.
    fn failing(runs: usize) -> Opened {
        let experiment = "blocks = 20\n[[load]]\nworkload = 'getppid'\n\
                          [[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\n";
        let point = |variant: &str| {
            json!({
                "workload": "getppid", "semantics": 1, "parameters": {}, "as": "processes",
                "cpus": 1, "placement": "cores", "cpu_list": [0], "tasks": 1,
                "until": {"seconds": 1.0}, "pass": "rate", "dir": "/tmp", "variant": variant,
                "cell": 0,
            })
        };
        let record = serde_json::from_value(json!({
            "format": 2, "id": "r", "state": "growing", "seed": 1,
            "experiment": records::Experiment::read(experiment).unwrap(),
            "blocks": (10..16).collect::<Vec<u32>>(), "points": [point("a"), point("b")],
            "variants": [{"name": "a"}, {"name": "b"}], "sessions": [], "host": {},
            "topology": {"cpus": []}, "directories": [],
        }))
        .unwrap();
        let mut opened =
            Opened { folder: PathBuf::from("/no/record"), record, runs: Runs::default() };
        for block in 10..16 {
            let before: Vec<&Run> = opened.runs.iter().collect();
            for assignment in schedule::block(&opened.record, &before, block) {
                let run = json!({
                    "run": opened.runs.len(), "point": assignment.point, "block": block,
                    "placebo": assignment.placebo, "started": "2026-11-20T12:00:00Z",
                    "state": "failed", "reason": "it fell over",
                });
                if opened.runs.len() < runs {
                    opened.runs.push(serde_json::from_value(run).unwrap());
                }
            }
        }
        opened
    }

    #[test]
    fn blocks_after_all_variants_were_given_up_are_whole() {
        let blocks = |runs| Vec::from_iter(whole_blocks(&failing(runs)).unwrap());
        let all = failing(100).runs.len();
        assert!(failing(100).runs.iter().all(|run| run.block < 13));
        assert_eq!(blocks(all), [10, 11, 12, 13, 14, 15]);
        assert_eq!(blocks(all - 1), [10, 11]);
        assert!(blocks(0).is_empty());
    }
}
