//! The plan of a fleet: the experiment, how it is cut into chunks, and which hosts may work on them.

use anyhow::{Context, Result, bail, ensure};
use records::{Experiment, Point, Record};
use serde::{Deserialize, Serialize};

/// Version of the files of a fleet.
pub const FORMAT: u32 = 3;

/// Schedulers refuse larger arrays of jobs: Slurm's default is 1001.
pub const CHUNKS_MAX: usize = 1000;

/// The contents of `plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`FORMAT`] at the time of writing.
    pub format: u32,
    /// Version of knee that every host must have.
    pub knee: String,
    /// The command that planned, by its words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Architecture that every host must have.
    pub architecture: String,
    /// Release of the kernel that hosts must have, or a newer one; empty if it does not matter.
    pub kernel: String,
    /// The experiment, with its seed.
    pub experiment: Experiment,
    /// The points as the planning host resolved them; CPU lists and directories are each host's own.
    pub points: Vec<Point>,
    /// How long an owner may show no sign of life, in seconds.
    pub lease_s: f64,
    pub chunks: Vec<Chunk>,
}

/// What of a plan of any format tells whether this knee can read it.
#[derive(Deserialize)]
struct Version {
    format: u32,
    #[serde(default)]
    knee: String,
    #[serde(default)]
    contents: OldContents,
}

/// The contents of a plan up to format 2.
#[derive(Default, Deserialize)]
struct OldContents {
    sweep: Option<OldSweep>,
}

#[derive(Deserialize)]
struct OldSweep {
    words: Vec<String>,
}

/// Some blocks in a row, which one host takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Number of the first block.
    pub first_block: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// How long it takes, by earlier records or by the length of its runs; 0 if nothing tells.
    pub estimated_s: f64,
}

impl Chunk {
    /// Its blocks.
    pub fn range(&self) -> std::ops::Range<u32> {
        self.first_block..self.first_block + self.blocks
    }

    /// Blocks that stand in for those of its own that the host disturbs, at most a third as many. `planned` is
    /// the number of blocks of the experiment; no two chunks share a spare.
    pub fn spares(&self, planned: u32) -> std::ops::Range<u32> {
        let first = planned.saturating_add(self.first_block);
        first..first.saturating_add(self.blocks.div_ceil(3))
    }

    /// Whether these blocks, in ascending order, are all of its own and none of another chunk.
    pub fn is_whole<'a>(&self, blocks: impl IntoIterator<Item = &'a u32>, planned: u32) -> bool {
        let (own, others): (Vec<u32>, Vec<u32>) =
            blocks.into_iter().partition(|block| self.range().contains(*block));
        own.into_iter().eq(self.range()) && others.iter().all(|b| self.spares(planned).contains(b))
    }
}

/// Cuts blocks of this length into chunks of about `chunk_s` and about equal size, at least `chunks_min` and at most
/// [`CHUNKS_MAX`] of them.
pub fn cut(blocks: u32, block_s: f64, chunk_s: f64, chunks_min: u32) -> Vec<Chunk> {
    let size = (chunk_s / block_s.max(1e-3)).round().clamp(1.0, blocks.max(1) as f64) as u32;
    let chunks = blocks.div_ceil(size).max(chunks_min).min(CHUNKS_MAX as u32).min(blocks);
    let mut first_block = 0;
    let chunk = |number: u32| {
        let blocks = blocks / chunks + u32::from(number < blocks % chunks);
        let chunk = Chunk { first_block, blocks, estimated_s: blocks as f64 * block_s };
        first_block += blocks;
        chunk
    };
    (0..chunks).map(chunk).collect()
}

impl Plan {
    /// Parses `plan.json`.
    pub fn read(text: &str) -> Result<Plan> {
        let reading = "reading the plan of a fleet";
        let Version { format, knee, contents } = serde_json::from_str(text).context(reading)?;
        if let Some(sweep) = contents.sweep {
            bail!(
                "the plan is of a sweep, which knee computes on one host only: run `knee {}` there",
                sweep.words.join(" ")
            );
        }
        ensure!(
            format == FORMAT,
            "the plan has format {format}, but this knee reads {FORMAT}: use the knee that planned it ({knee}), or \
             plan again"
        );
        let plan: Plan = serde_json::from_str(text).context(reading)?;
        plan.check().context("the plan was changed by hand: plan into a new directory")?;
        Ok(plan)
    }

    /// Number of blocks of the experiment, spares not counted.
    pub fn blocks(&self) -> u32 {
        self.experiment.blocks()
    }

    /// Blocks that stand in for disturbed ones of a chunk.
    pub fn spares(&self, chunk: &Chunk) -> std::ops::Range<u32> {
        chunk.spares(self.blocks())
    }

    fn check(&self) -> Result<()> {
        let lease_s = self.lease_s;
        ensure!((0.01..=1e9).contains(&lease_s), "a lease of {lease_s} s is not in 0.01 to 1e9 s");
        ensure!(!self.chunks.is_empty(), "it has no chunks");
        for (number, chunk) in self.chunks.iter().enumerate() {
            let has_blocks = chunk.blocks > 0;
            let end = chunk.first_block.checked_add(chunk.blocks);
            ensure!(has_blocks && end.is_some(), "chunk {number} has no blocks, or too many");
        }
        Ok(())
    }

    /// Why a host with this version of knee cannot take chunks, and what to do; `None` if it can.
    pub fn refusal_of_knee(&self, knee: &str) -> Option<String> {
        (self.knee != knee).then(|| {
            format!(
                "its knee is {knee}, the plan needs {}: install that one, or plan again",
                self.knee
            )
        })
    }

    /// Why a host with this planned record cannot measure chunks, and what to do; `None` if it can.
    pub fn refusal(&self, knee: &str, architecture: &str, record: &Record) -> Option<String> {
        let kernel = record.host.kernel_release.clone().unwrap_or_default();
        let why = self.refusal_of_knee(knee);
        if let Some(why) = why.or_else(|| self.refusal_of_host(architecture, &kernel)) {
            return Some(why);
        }
        let portable = |points: &[Point]| points.iter().map(portable_part).collect::<Vec<_>>();
        if portable(&self.points) != portable(&record.points) {
            return Some(
                "the experiment has other points there, since counts such as 'all' differ between hosts: \
                 name CPU counts that every host has"
                    .to_string(),
            );
        }
        None
    }

    /// Why no knee on a host of this kind can measure chunks; `None` if one may.
    pub fn refusal_of_host(&self, architecture: &str, kernel: &str) -> Option<String> {
        if self.architecture != architecture {
            return Some(format!(
                "it is {architecture}, the plan is for {}: plan those hosts in a directory of their own",
                self.architecture
            ));
        }
        if release_numbers(kernel) < release_numbers(&self.kernel) {
            return Some(format!(
                "its kernel {kernel} is older than {}: leave it out, or plan on the host with the oldest kernel",
                self.kernel
            ));
        }
        None
    }
}

/// What of a point is equal on all hosts.
fn portable_part(point: &Point) -> Point {
    Point { cpu_list: Vec::new(), dir: Default::default(), ..point.clone() }
}

/// The leading numbers of a kernel's release: 6.12.3 of `6.12.3-amd64`.
fn release_numbers(release: &str) -> Vec<u32> {
    let numbers = release.split(['.', '-', '+']).map_while(|part| part.parse().ok());
    numbers.take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_every_block_once() {
        for (blocks, block_s, chunk_s, hosts, expected) in [
            (60, 30.0, 600.0, 1, 3),
            (7, 400.0, 600.0, 1, 4),
            (3, 5000.0, 600.0, 1, 3),
            (5000, 1.0, 1.0, 1, 1000),
            (12, 1.0, 600.0, 3, 3),
            (12, 1.0, 600.0, 5, 5),
            (2, 1.0, 600.0, 3, 2),
        ] {
            let chunks = cut(blocks, block_s, chunk_s, hosts);
            let (most, fewest) = (chunks[0].blocks, chunks[chunks.len() - 1].blocks);
            assert!(most - fewest <= 1, "{blocks} blocks on {hosts} hosts: {most} and {fewest}");
            assert_eq!(chunks.len(), expected, "{blocks} blocks of {block_s} s");
            let all: Vec<u32> = chunks.iter().flat_map(Chunk::range).collect();
            assert_eq!(all, (0..blocks).collect::<Vec<_>>());
            let spares: Vec<u32> = chunks.iter().flat_map(|chunk| chunk.spares(blocks)).collect();
            assert!(spares.windows(2).all(|two| two[0] < two[1]) && spares[0] >= blocks);
            let [chunk, ..] = chunks[..] else { panic!("a chunk") };
            let (own, spare) = (Vec::from_iter(chunk.range()), chunk.spares(blocks).start);
            assert!(chunk.is_whole(&own, blocks) && !chunk.is_whole(&own[1..], blocks));
            assert!(chunk.is_whole(own.iter().chain([&spare]), blocks));
            assert!(chunks.len() == 1 || !chunks[1].is_whole(own.iter().chain([&spare]), blocks));
        }
        assert!(cut(0, 1.0, 1.0, 1).is_empty());
    }

    #[test]
    fn a_plan_with_impossible_numbers_is_refused() {
        let plan = |lease_s: f64, chunks: Vec<Chunk>| {
            let experiment = Experiment::read("[[load]]\nworkload = 'getppid'\n").unwrap();
            let plan = Plan {
                format: FORMAT,
                knee: String::new(),
                command: Vec::new(),
                architecture: String::new(),
                kernel: String::new(),
                experiment,
                points: Vec::new(),
                lease_s,
                chunks,
            };
            Plan::read(&serde_json::to_string(&plan).unwrap())
        };
        let chunk = |first_block, blocks| vec![Chunk { first_block, blocks, estimated_s: 1.0 }];
        assert!(plan(120.0, chunk(0, 3)).is_ok());
        for (lease_s, chunks, why) in [
            (-1.0, chunk(0, 3), "a lease of -1 s"),
            (1e300, chunk(0, 3), "a lease of"),
            (120.0, Vec::new(), "no chunks"),
            (120.0, chunk(0, 0), "chunk 0 has no blocks"),
            (120.0, chunk(u32::MAX, 2), "or too many"),
        ] {
            let said = format!("{:#}", plan(lease_s, chunks).unwrap_err());
            assert!(said.contains(why) && said.contains("plan into a new directory"), "{said}");
        }
    }

    #[test]
    fn a_plan_of_another_format_is_refused_and_a_sweep_is_named() {
        let check = |contents: &str, why: &str| {
            let text = format!(r#"{{"format": 2, "knee": "0.0.9", "contents": {contents}}}"#);
            let said = Plan::read(&text).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        };
        check(r#"{"experiment": {}}"#, "has format 2, but this knee reads 3");
        check(
            r#"{"sweep": {"words": ["replay", "I5"], "pieces": 3}}"#,
            "run `knee replay I5` there",
        );
    }

    #[test]
    fn releases_are_compared_by_number() {
        assert!(release_numbers("6.9.1-2-amd64") < release_numbers("6.12.0"));
        assert_eq!(release_numbers("6.12.3+deb12"), [6, 12, 3]);
    }
}
