//! I3: a repair tool slowed by flushes of translations. Workers go over all allocation groups pass
//! after pass, on other nodes each time, and the pages of blocks follow them; each page that moves
//! is interrupts to all CPUs.
//!
//! Times of the report are those of a whole repair, a few passes over all blocks. Here they are
//! those of a pass, the first left out, which reads everything whatever the cache can hold.

use anyhow::{Context, Result};
use engines::simulated::{NS, Options, Preemption, ROWS, Row};
use records::Placement;

use super::{Drawn, Figure, Fitted, Incident, Input, Nulls, Predicted, Reported, Standing, Target};
use crate::simulations::mechanisms::{Operated, Ran, once};

pub const INCIDENT: Incident = Incident {
    name: "I3",
    title: "a repair tool slowed by flushes of translations: its time, after / before",
    sources: &[
        "D. Chinner, [regression v4.0-rc1] mm: IPIs from TLB flushes causing significant performance degradation, 2015-03-02",
        "M. Gorman, mm: numa: group related processes based on VMA flags instead of page table flags, Linux 4.0",
    ],
    hosts: &["guest-16"],
    inputs,
    fitted: Some(Fitted { name: "work on a page in a pass, ns", to: "the fourth row, 2.03" }),
    targets: &[
        target("small cache, groups in parallel", 574.0 / 488.0, Standing::Claimed),
        target("small cache, one after the other", 278.0 / 244.0, Standing::Claimed),
        target("large cache, groups in parallel", 1063.0 / 364.0, Standing::Claimed),
        target("large cache, one after the other", ONE_BY_ONE, Standing::Anchor),
        share("time sending before, as the third", 0.0961),
        share("time sending after, as the third", 0.5607),
    ],
    nulls: || vec![Nulls::default(); 6],
    predict,
    figure: Some(interrupts),
    lacks: &[
        "the report does not name its host; that it is a guest of 16 virtual CPUs is from other reports \
         of its author",
        "workers are on another node in each pass, and a page is used once in one. So before, when a page \
         moved only after two faults in a row from one node, none does",
        "time in which readers wait for nothing is left out of the shares; the tool's threads sleep then",
    ],
};

const fn target(what: &'static str, ratio: f64, standing: Standing) -> Target {
    Target { what, reported: Reported::Ratio(ratio), standing }
}

const fn share(what: &'static str, share: f64) -> Target {
    Target { what, reported: Reported::Share(share), standing: Standing::Claimed }
}

/// With a large cache and groups one after the other.
const ONE_BY_ONE: f64 = 598.0 / 294.0;

const BEFORE: &str = "before+wander";
const AFTER: &str = "after+wander";

/// Groups, and pages of each: all memory that a repair uses, made smaller, and the caches alike.
const GROUPS: u64 = 64;
const GROUP_PAGES: u64 = 24;
const PAGES: u64 = GROUPS * GROUP_PAGES;

/// The options of a row: whether its cache holds everything, and whether groups are repaired in
/// parallel.
#[derive(Clone, Copy)]
struct Setup {
    large: bool,
    parallel: bool,
}

const ROWS_OF_THE_REPORT: [Setup; 4] = [
    Setup { large: false, parallel: true },
    Setup { large: false, parallel: false },
    Setup { large: true, parallel: true },
    Setup { large: true, parallel: false },
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
            "the report; 1 GB with the small one, of which most is not of the cache then",
        ),
        Input::assumed(
            "CPUs",
            10.0,
            16.0,
            "",
            "more than 8, to which interrupts are sent by one command",
        ),
        Input::assumed(
            "part of a pass between two scans",
            0.0125,
            0.75,
            "",
            "all memory is scanned within 1 s of CPU time to 60 (task_scan_min, task_scan_max), of some 80 s a pass",
        ),
        Input::assumed(
            "reading a page",
            5000.0,
            30_000.0,
            "ns",
            "20 to 120 us for a block of four; the report has next to no waiting for its disks",
        ),
        Input::assumed(
            "a hint fault",
            1000.0,
            2000.0,
            "ns",
            "into the kernel and out, and a look at the page",
        ),
        Input::assumed(
            "moving a page",
            2000.0,
            5000.0,
            "ns",
            "its copy, and the way to it (migrate_pages)",
        ),
        Input::assumed("forgetting a page", 100.0, 300.0, "ns", "an invlpg, some hundred cycles"),
    ]
}

fn predict(drawn: &Drawn) -> Result<Predicted> {
    let ratio = |setup, work| {
        let before = pages(&run(drawn, BEFORE, setup, work)?)?;
        anyhow::Ok(before / pages(&run(drawn, AFTER, setup, work)?)?)
    };
    // What is more than 1 falls as work grows.
    let mut work = 30_000.0;
    for _ in 0..FITS {
        let more = ratio(ROWS_OF_THE_REPORT[3], work)? - 1.0;
        work = (work * more / (ONE_BY_ONE - 1.0)).clamp(100.0, 1e6);
    }
    let values = ROWS_OF_THE_REPORT.into_iter().map(|setup| ratio(setup, work));
    let mut values: Vec<f64> = values.collect::<Result<_>>()?;
    for design in [BEFORE, AFTER] {
        values.push(sending(&run(drawn, design, ROWS_OF_THE_REPORT[2], work)?));
    }
    Ok(Predicted { fitted: Some(work), values })
}

/// Steps to the fitted number, each some ten times nearer.
const FITS: usize = 3;

fn run(drawn: &Drawn, design: &str, setup: Setup, work: f64) -> Result<Ran> {
    let cpus = drawn.whole("CPUs") as usize;
    let host = drawn.cpus("guest-16", Placement::Scatter, cpus);
    // Half of them read ahead.
    let workers = if setup.parallel { cpus as u64 / 2 } else { 1 };
    let large = sets(PAGES as f64 * 1.03);
    let cache =
        if setup.large { large } else { sets(large as f64 / drawn.get("large cache / small")) };
    let operated = Operated::new("repair", design)?
        .with("groups", GROUPS)
        .with("group_blocks", GROUP_PAGES)
        .with("parallel_groups", workers)
        .with("kept_one_in", kept_one_in(drawn).round())
        // By number, so that workers wander.
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
    // A pass in which all pages move, at most; then two of them.
    let move_ns = drawn.get("a hint fault") + drawn.get("moving a page") + cpus as f64 * 2e3;
    let pass_ns = (PAGES / workers) as f64 * (work + move_ns + drawn.get("reading a page"));
    let pass = pass_ns as u64 * NS;
    let options = Options {
        seed: drawn.seed,
        warm_up: pass,
        length: 2 * pass,
        preemption: Preemption::BetweenOperations,
        pinned: true,
        trace: None,
    };
    once(&operated, &host, cpus, &options)
}

/// Of so many pages in use with the large cache one is not of the cache: 1 GB is in use with the
/// small one.
fn kept_one_in(drawn: &Drawn) -> f64 {
    let all = drawn.get("memory in use with the large cache, GB");
    let times = drawn.get("large cache / small");
    all * (1.0 - 1.0 / times) / (1.0 - all / times)
}

/// So many blocks, or the next number of them that fills sets of eight.
fn sets(blocks: f64) -> u64 {
    (blocks / 8.0).ceil() as u64 * 8
}

/// An effect of all tasks, a second.
fn each_second(ran: &Ran, name: &str) -> Result<f64> {
    let effect = ran.effects.iter().find(|(known, _)| *known == name);
    Ok(effect.with_context(|| format!("no effect {name}"))?.1 * ran.outcome.rate())
}

fn pages(ran: &Ran) -> Result<f64> {
    each_second(ran, "blocks_repaired")
}

/// Time of these rows.
fn time(ran: &Ran, of: &[Row]) -> f64 {
    let rows = ROWS.iter().zip(ran.outcome.rows).filter(|(row, _)| of.contains(row));
    rows.map(|(_, time)| time as f64).sum()
}

/// The share of the time of CPUs in which interrupts are sent, of that in which they do something.
fn sending(ran: &Ran) -> f64 {
    let busy: Vec<Row> =
        ROWS.iter().copied().filter(|row| row.runs() && *row != Row::Spinning).collect();
    time(ran, &[Row::Sending]) / time(ran, &busy)
}

/// The question of the report: more interrupts, or dearer ones.
fn interrupts(drawn: &Drawn, work: Option<f64>) -> Result<Figure> {
    let work = work.context("the work is fitted")?;
    let row = |(index, setup): (usize, Setup)| {
        let mut row = vec![index as f64 + 1.0];
        let (mut counts, mut costs) = (Vec::new(), Vec::new());
        for design in [BEFORE, AFTER] {
            let ran = run(drawn, design, setup, work)?;
            let sent = each_second(&ran, "interrupts_sent")?;
            counts.push(sent / pages(&ran)?);
            let length_s = ran.outcome.length as f64 / 1e12;
            let ns = time(&ran, &[Row::Sending, Row::Interrupted]) / 1e3;
            costs.push(ns / (sent * length_s).max(1.0) / 1e3);
        }
        row.extend(counts);
        row.extend(costs);
        Ok(row)
    };
    let rows = ROWS_OF_THE_REPORT.into_iter().enumerate().map(row).collect::<Result<_>>()?;
    Ok(Figure {
        title: "interrupts for a page in a pass, and us to send one and to be interrupted, by row above",
        columns: vec!["row", "count before", "count after", "us before", "us after"],
        rows,
    })
}
