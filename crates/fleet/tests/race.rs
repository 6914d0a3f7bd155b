//! Members racing for chunks, one step at a time in random order: they are killed at any step, come back as
//! other processes, stand still until they are taken for dead and then go on, and clocks of theirs are an
//! hour apart. Every block of every chunk counts exactly once, and what counts was measured.
//!
//! KNEE_FLEET_RACES=200 races more often.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use fleet::{ChunkState, Claim, Done, FORMAT, Folder, Owner, Plan, Watch, collect, cut};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use records::Experiment;
use store::Store;

const CHUNKS: usize = 100;
const BLOCKS: u32 = 300;
const LEASE: Duration = Duration::from_secs(10);

fn plan() -> Plan {
    Plan {
        format: FORMAT,
        knee: "1".to_string(),
        command: Vec::new(),
        architecture: "any".to_string(),
        kernel: "6.1".to_string(),
        experiment: Experiment::read("[[load]]\nworkload = 'getppid'\n").unwrap(),
        points: Vec::new(),
        lease_s: LEASE.as_secs_f64(),
        chunks: cut(BLOCKS, 1.0, 3.0, 1),
    }
}

/// Blocks that were measured, by chunk and claim: what records hold on disk.
type Measured = BTreeMap<(usize, u32), BTreeSet<u32>>;

/// What a member does next.
enum Work {
    Look,
    Claim { chunk: usize, claims: u32, keeps: BTreeMap<u32, u32> },
    Measure { chunk: usize, claim: u32, keeps: BTreeMap<u32, u32> },
}

struct Member {
    folder: Folder,
    owner: Owner,
    work: Work,
    watches: BTreeMap<(usize, u32), Watch>,
    /// How far its clock is from others'.
    skew: Duration,
    stands_still: u32,
}

impl Member {
    fn new(root: &Path, pid: u32, random: &mut Xoshiro256PlusPlus) -> Member {
        // Hosts of their own: nobody sees the other's process end.
        let owner =
            Owner { host: format!("h{pid}"), boot_id: format!("{pid}"), pid, ..Owner::new() };
        let skew = Duration::from_secs(random.random_range(0..2) * 3600);
        let folder = Folder::open(root).unwrap().0;
        Member { folder, owner, work: Work::Look, watches: BTreeMap::new(), skew, stands_still: 0 }
    }

    /// Takes one step. `true` if there is nothing left to do.
    fn step(&mut self, plan: &Plan, measured: &mut Measured, time: Duration) -> bool {
        let work = std::mem::replace(&mut self.work, Work::Look);
        match work {
            Work::Look => return self.look(plan, measured, time + self.skew),
            Work::Claim { chunk, claims, keeps } => {
                let plan = self.folder.plan_hash().to_string();
                let claim = Claim { owner: self.owner.clone(), plan, keeps: keeps.clone() };
                if self.folder.claim(chunk, claims + 1, &claim).unwrap() {
                    self.work = Work::Measure { chunk, claim: claims + 1, keeps };
                }
            }
            Work::Measure { chunk, claim, keeps } => {
                let mine = measured.entry((chunk, claim)).or_default();
                let next = plan.chunks[chunk]
                    .range()
                    .find(|block| !keeps.contains_key(block) && !mine.contains(block));
                let Some(block) = next else {
                    let mut blocks = keeps;
                    blocks.extend(mine.iter().map(|block| (*block, claim)));
                    self.folder.finish(chunk, &Done { blocks }).unwrap();
                    return false;
                };
                mine.insert(block);
                self.folder.beat(chunk, claim, mine.len() as u64).unwrap();
                self.work = Work::Measure { chunk, claim, keeps };
            }
        }
        false
    }

    fn look(&mut self, plan: &Plan, measured: &Measured, now: Duration) -> bool {
        let survey = self.folder.survey(CHUNKS).unwrap();
        let left = survey.0.iter().enumerate().filter(|(_, state)| **state != ChunkState::Done);
        let left: Vec<(usize, ChunkState)> = left.map(|(chunk, state)| (chunk, *state)).collect();
        let free = left.iter().find_map(|(chunk, state)| match state {
            ChunkState::Free { claims } => Some((*chunk, *claims)),
            _ => None,
        });
        let lapsed = || {
            left.iter().find_map(|(chunk, state)| {
                let ChunkState::Claimed { claim } = *state else { return None };
                let beat = self.folder.read_beat(*chunk, claim);
                let watch =
                    self.watches.entry((*chunk, claim)).or_insert_with(|| Watch::new(beat, now));
                watch.look(beat, now);
                watch.has_lapsed(LEASE, now).then_some((*chunk, claim))
            })
        };
        if let Some((chunk, claims)) = free.or_else(lapsed) {
            let mut keeps = BTreeMap::new();
            for claim in 1..=claims {
                for block in measured.get(&(chunk, claim)).into_iter().flatten() {
                    keeps.entry(*block).or_insert(claim);
                }
            }
            self.work = Work::Claim { chunk, claims, keeps };
        }
        assert_eq!(plan.chunks.len(), CHUNKS);
        left.is_empty()
    }
}

/// Lets two members race to the end. Returns how often one was killed and a chunk was taken over.
fn race(seed: u64) -> (u32, usize) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let root = tempfile::tempdir().unwrap();
    let plan = plan();
    let folder = Folder::create(root.path(), &plan).unwrap();
    let mut measured = Measured::new();
    let (mut pid, mut kills) = (2, 0);
    let mut members: Vec<Member> =
        (0..2).map(|pid| Member::new(root.path(), pid, &mut random)).collect();
    for tick in 0.. {
        assert!(tick < 1_000_000, "seed {seed}: the chunks are never done");
        let time = Duration::from_millis(tick * 500);
        let which = random.random_range(0..members.len());
        if random.random_range(0..40) == 0 {
            members[which] = Member::new(root.path(), pid, &mut random);
            (pid, kills) = (pid + 1, kills + 1);
        } else if random.random_range(0..60) == 0 {
            members[which].stands_still = 60;
        }
        if members[which].stands_still > 0 {
            members[which].stands_still -= 1;
        } else if members[which].step(&plan, &mut measured, time) {
            break;
        }
    }
    let mut taken_over = 0;
    for (number, chunk) in plan.chunks.iter().enumerate() {
        let done = folder.read_done(number).unwrap().expect("every chunk is done");
        let blocks: Vec<u32> = done.blocks.keys().copied().collect();
        assert_eq!(blocks, chunk.range().collect::<Vec<_>>(), "seed {seed}, chunk {number}");
        for (block, claim) in &done.blocks {
            assert!(measured[&(number, *claim)].contains(block), "seed {seed}: {number} {block}");
        }
        taken_over += usize::from(measured.contains_key(&(number, 2)));
    }
    (kills, taken_over)
}

#[test]
fn no_block_is_lost_or_counted_twice_whoever_dies_or_stalls() {
    let races = std::env::var("KNEE_FLEET_RACES").map_or(2, |text| text.parse().unwrap());
    let (mut kills, mut taken_over) = (0, 0);
    for seed in 0..races {
        let race = race(seed);
        (kills, taken_over) = (kills + race.0, taken_over + race.1);
    }
    println!(
        "{races} races of {CHUNKS} chunks: {kills} kills, {taken_over} chunks taken over, exact"
    );
    assert!(kills > 0 && taken_over > 0);
}

#[test]
fn a_claim_is_one_processs_and_a_released_one_is_free() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::create(root.path(), &plan()).unwrap();
    let claim =
        Claim { owner: Owner::new(), plan: folder.plan_hash().to_string(), keeps: BTreeMap::new() };
    assert!(folder.claim(5, 1, &claim).unwrap());
    assert!(!folder.claim(5, 1, &claim).unwrap());
    assert_eq!(folder.survey(CHUNKS).unwrap().0[5], ChunkState::Claimed { claim: 1 });
    folder.release(5, 1).unwrap();
    assert_eq!(folder.survey(CHUNKS).unwrap().0[5], ChunkState::Free { claims: 1 });
    assert!(folder.claim(5, 2, &claim).unwrap());
    assert_eq!(folder.survey(CHUNKS).unwrap().0[5], ChunkState::Claimed { claim: 2 });
    assert!(Folder::create(root.path(), &plan()).is_err(), "a plan never changes");
}

#[test]
fn a_changed_plan_is_refused_where_chunks_of_the_old_one_exist() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::create(root.path(), &plan()).unwrap();
    let old = Claim { owner: Owner::new(), plan: "another".to_string(), keeps: BTreeMap::new() };
    assert!(folder.claim(0, 1, &old).unwrap());
    let refused = folder.claim(0, 2, &old).unwrap_err().to_string();
    assert!(refused.contains("plan into a new directory"), "{refused}");
    let blocks = plan().chunks[0].range().map(|block| (block, 1)).collect();
    assert!(folder.finish(0, &Done { blocks }).unwrap());
    let store = Store::at(root.path().join("store"));
    let refused = collect(&folder, &plan(), &store, "", true, None).unwrap_err().to_string();
    assert!(refused.contains("chunk 0 was measured by another plan"), "{refused}");
}

#[test]
fn a_survey_of_ten_thousand_chunks_reads_names_alone() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::create(root.path(), &plan()).unwrap();
    for chunk in 0..10_000 {
        std::fs::write(root.path().join(format!("done/{chunk:04}")), "").unwrap();
    }
    assert_eq!(folder.survey(10_001).unwrap().counts(), [10_000, 0, 1]);
}
