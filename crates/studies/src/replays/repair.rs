//! I3: a repair tool slowed down by TLB flushes. Workers go over all allocation groups in several
//! passes, each time on other nodes, and the pages of blocks migrate after them. Each page that
//! moves sends interrupts to all CPUs.
//!
//! The times of the report are those of a whole repair: a few passes over all blocks. The times
//! here are those of a pass, without the first one, which reads everything whatever the cache holds.

use anyhow::{Context, Result};
use engines::simulated::{NS, Options, Preemption, ROWS, TimeRow};
use host::Placement;

use super::{
    DrawnInputs, Figure, FittedInput, Incident, Input, MechanismModel, Model, NullPredictions,
    PredictedValue, Prediction, Reported, Standing, Target, texts,
};
use crate::simulations::mechanisms::{MechanismRun, run_mechanism};
use crate::subject::{MechanismDesign, Subject};

pub fn incident() -> Incident {
    Incident {
        name: "I3".to_string(),
        title: "a repair tool slowed down by TLB flushes: its time, after / before".to_string(),
        sources: texts(&[
            "D. Chinner, [regression v4.0-rc1] mm: IPIs from TLB flushes causing significant performance degradation, 2015-03-02",
            "M. Gorman, mm: numa: group related processes based on VMA flags instead of page table flags, Linux 4.0",
        ]),
        hosts: texts(&["guest-16"]),
        fitted: Some(FittedInput {
            name: "work on a page in a pass, ns".to_string(),
            to: "the fourth row, 2.03".to_string(),
        }),
        targets: vec![
            target("small cache, groups in parallel", 574.0 / 488.0, Standing::Claimed).in_a_test(),
            target("small cache, one after the other", 278.0 / 244.0, Standing::Claimed)
                .in_a_test(),
            target("large cache, groups in parallel", 1063.0 / 364.0, Standing::Claimed)
                .in_a_test(),
            target("large cache, one after the other", ONE_BY_ONE, Standing::Anchor),
            share("time sending before, as the third", 0.0961),
            share("time sending after, as the third", 0.5607),
        ],
        model: Model::Mechanism(MechanismModel {
            inputs,
            nulls: || vec![NullPredictions::default(); 6],
            predict,
            figure: Some(interrupts),
        }),
        limitations: texts(&[
            "the report does not name its host; a guest of 16 virtual CPUs is what other reports of its author \
         say",
            "workers are on another node in each pass and use each page once. So before the change, when a page \
         moved only after two faults in a row from one node, no page moves",
            "the shares leave out the time in which readers have nothing to do; the tool's threads sleep then",
        ]),
    }
}

fn target(what: &str, ratio: f64, standing: Standing) -> Target {
    Target::new(what, Reported::Ratio(ratio), standing)
}

fn share(what: &str, share: f64) -> Target {
    Target::new(what, Reported::Share(share), Standing::Claimed)
}

/// The reported ratio with a large cache, and groups one after the other.
const ONE_BY_ONE: f64 = 598.0 / 294.0;

const BEFORE: &str = "before+wander";
const AFTER: &str = "after+wander";

/// Allocation groups, and pages of each: all memory that a repair uses, scaled down like the caches.
const GROUPS: u64 = 64;
const GROUP_PAGES: u64 = 24;
const PAGES: u64 = GROUPS * GROUP_PAGES;

/// The options of a row of the report.
#[derive(Clone, Copy)]
struct RepairOptions {
    /// Whether the cache holds everything.
    large_cache: bool,
    /// Whether groups are repaired in parallel.
    parallel: bool,
}

const REPORTED_ROWS: [RepairOptions; 4] = [
    RepairOptions { large_cache: false, parallel: true },
    RepairOptions { large_cache: false, parallel: false },
    RepairOptions { large_cache: true, parallel: true },
    RepairOptions { large_cache: true, parallel: false },
];

fn inputs() -> Vec<Input> {
    vec![
        Input::found(
            "large cache / small",
            101_073.0 / 4096.0,
            "the report: bhash=101073, 4096 by default",
        ),
        Input::assumed(
            "memory in use with the large cache, GB",
            7.0,
            10.0,
            "",
            "the report; 1 GB with the small one, most of it outside of the cache",
        )
        .chosen_late(
            "2026-11-21, minutes after the first replay, in which the cache was all memory in use",
        ),
        Input::assumed(
            "CPUs",
            10.0,
            16.0,
            "",
            "more than 8, so that one command sends an interrupt to all",
        ),
        Input::assumed(
            "part of a pass between two scans",
            0.0125,
            0.75,
            "",
            "a scan of all memory takes 1 to 60 s of CPU time (task_scan_min, task_scan_max), a pass some 80 s",
        ),
        Input::assumed(
            "reading a page",
            5000.0,
            30_000.0,
            "ns",
            "20 to 120 us for a block of four pages; the report shows almost no waiting for disks",
        ),
        Input::assumed(
            "a hint fault",
            1000.0,
            2000.0,
            "ns",
            "into the kernel and back, and a check of the page",
        ),
        Input::assumed(
            "moving a page",
            2000.0,
            5000.0,
            "ns",
            "its copy, and the code around it (migrate_pages)",
        ),
        Input::assumed("forgetting a page", 100.0, 300.0, "ns", "an invlpg, a few hundred cycles"),
    ]
}

fn predict(drawn: &DrawnInputs) -> Result<Prediction> {
    let before_and_after = |options, work| {
        anyhow::Ok([run(drawn, BEFORE, options, work)?, run(drawn, AFTER, options, work)?])
    };
    // The excess of the ratio over 1 falls as work grows, about in proportion.
    let mut work = 30_000.0;
    for _ in 0..FIT_STEPS {
        let excess = ratio(&before_and_after(REPORTED_ROWS[3], work)?)? - 1.0;
        work = (work * excess / (ONE_BY_ONE - 1.0)).clamp(100.0, 1e6);
    }
    let runs = REPORTED_ROWS.into_iter().map(|options| before_and_after(options, work));
    let runs: Vec<_> = runs.collect::<Result<_>>()?;
    let mut values: Vec<f64> = runs.iter().map(ratio).collect::<Result<_>>()?;
    values.extend(runs[2].iter().map(sending_share));
    let values = values.into_iter().map(PredictedValue::plain).collect();
    Ok(Prediction { fitted: Some(work), values })
}

/// The throughput of the first run over that of the second.
fn ratio([before, after]: &[MechanismRun; 2]) -> Result<f64> {
    Ok(pages_per_s(before)? / pages_per_s(after)?)
}

/// Steps to fit the work; each comes some ten times nearer.
const FIT_STEPS: usize = 3;

fn run(
    drawn: &DrawnInputs,
    design: &str,
    repair: RepairOptions,
    work: f64,
) -> Result<MechanismRun> {
    let cpus = drawn.whole("CPUs") as usize;
    let host = drawn.cpus("guest-16", Placement::Scatter, cpus);
    // The other half of the tasks read ahead.
    let workers = if repair.parallel { cpus as u64 / 2 } else { 1 };
    let large = whole_sets(PAGES as f64 * 1.03);
    let small = whole_sets(large as f64 / drawn.get("large cache / small"));
    let cache = if repair.large_cache { large } else { small };
    let design = MechanismDesign::new("repair", design)?
        .with("groups", GROUPS)
        .with("group_blocks", GROUP_PAGES)
        .with("parallel_groups", workers)
        .with("kept_one_in", kept_one_in(drawn).round())
        // A task's node follows from its number, so that workers wander.
        .with("nodes", 4)
        .with("cache_blocks", cache)
        // As the tool's max_queue does.
        .with("ahead_blocks", (cache / workers / 8).max(1))
        .with("scan_uses", (PAGES as f64 * drawn.get("part of a pass between two scans")).ceil())
        .with("read_ns", drawn.whole("reading a page"))
        .with("repair_ns", work.round())
        .with("fault_ns", drawn.whole("a hint fault"))
        .with("copy_ns", drawn.whole("moving a page"))
        .with("flush_page_ns", drawn.whole("forgetting a page"))
        .with("flush_all_ns", drawn.whole("forgetting a page"));
    // An upper bound for a pass, in which all pages move. Two passes count.
    let move_ns = drawn.get("a hint fault") + drawn.get("moving a page") + cpus as f64 * 2e3;
    let pass_ns = (PAGES / workers) as f64 * (work + move_ns + drawn.get("reading a page"));
    let pass = pass_ns as u64 * NS;
    let options = Options {
        seed: drawn.seed,
        warm_up: pass,
        length: 2 * pass,
        preemption: Preemption::BetweenOperations,
        pinned: true,
        noise: None,
        trace: None,
    };
    run_mechanism(&Subject::Mechanism(design), 0, &host, cpus, &options)
}

/// One in this many pages in use is outside of the cache, with the large cache. With the small
/// one, 1 GB is in use.
fn kept_one_in(drawn: &DrawnInputs) -> f64 {
    let in_use = drawn.get("memory in use with the large cache, GB");
    let factor = drawn.get("large cache / small");
    in_use * (1.0 - 1.0 / factor) / (1.0 - in_use / factor)
}

/// The number of blocks, rounded up to whole sets of eight.
fn whole_sets(blocks: f64) -> u64 {
    (blocks / 8.0).ceil() as u64 * 8
}

/// An effect of all tasks per second.
fn per_second(run: &MechanismRun, name: &str) -> Result<f64> {
    let effect = run.effects.iter().find(|(effect, _)| *effect == name);
    Ok(effect.with_context(|| format!("no effect is called {name}"))?.1 * run.simulated.rate())
}

fn pages_per_s(run: &MechanismRun) -> Result<f64> {
    per_second(run, "blocks_repaired")
}

/// The time of these rows.
fn time(run: &MechanismRun, rows: &[TimeRow]) -> f64 {
    let times = ROWS.iter().zip(run.simulated.rows).filter(|(row, _)| rows.contains(row));
    times.map(|(_, time)| time as f64).sum()
}

/// The share of the CPUs' busy time in which they send interrupts.
fn sending_share(run: &MechanismRun) -> f64 {
    let busy: Vec<TimeRow> =
        ROWS.iter().copied().filter(|row| row.runs() && *row != TimeRow::Spinning).collect();
    time(run, &[TimeRow::Sending]) / time(run, &busy)
}

/// Answers the question of the report: are there more interrupts, or does each cost more?
fn interrupts(drawn: &DrawnInputs, work: Option<f64>) -> Result<Figure> {
    let work = work.context("the work is fitted")?;
    let row = |(index, options): (usize, RepairOptions)| {
        let mut row = vec![index as f64 + 1.0];
        let (mut counts, mut costs) = (Vec::new(), Vec::new());
        for design in [BEFORE, AFTER] {
            let run = run(drawn, design, options, work)?;
            let sent = per_second(&run, "interrupts_sent")?;
            counts.push(sent / pages_per_s(&run)?);
            let length_s = run.simulated.length as f64 / 1e12;
            let ns = time(&run, &[TimeRow::Sending, TimeRow::Interrupted]) / 1e3;
            costs.push(ns / (sent * length_s).max(1.0) / 1e3);
        }
        row.extend(counts);
        row.extend(costs);
        Ok(row)
    };
    let rows = REPORTED_ROWS.into_iter().enumerate().map(row).collect::<Result<_>>()?;
    Ok(Figure {
        title: "interrupts per page and pass, and us for sending and handling one, by row above"
            .to_string(),
        columns: ["row", "count before", "count after", "us before", "us after"]
            .map(str::to_string)
            .to_vec(),
        rows,
    })
}
