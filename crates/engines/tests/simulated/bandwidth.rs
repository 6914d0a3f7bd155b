//! Links and memories of limited bandwidth, against what a closed queue can serve.

use engines::simulated::{Host, NS, Options, Setup, Simulated, SimulatedRun, simulate};
use machine::{Array, Atom, Line, Machine, Ordering, Region, Until, image};

use super::{OPTIONS, TRANSFER, host, within};

image! {
    /// One of many lines.
    struct OwnLine {
        word: Line<Atom<u32>>,
    }
}

/// Operations per ns of tasks, one on each CPU, with `lines` lines in the first node's memory.
fn rate(
    host: &Host,
    tasks: usize,
    lines: usize,
    task: impl Fn(&Simulated, &[OwnLine], usize),
) -> f64 {
    let region = Region::new(lines * 64 + 4096).unwrap();
    let own: Array<OwnLine> = region.array("own", lines);
    let task = |m: &Simulated, i: usize| task(m, &own, i);
    let setup = Setup {
        region: &region,
        host,
        tasks,
        cpus: &(0..host.cpus.len()).collect::<Vec<_>>(),
        task: &task,
        ipi_handler: None,
        exclusive: false,
        fifo: false,
    };
    let options = Options { warm_up: 0, length: 100_000 * NS, ..OPTIONS };
    let outcome: SimulatedRun = simulate(&setup, &options).unwrap();
    outcome.rate() / 1e9
}

/// Each task reads lines that no CPU has, one after the other.
fn stream(host: &Host, tasks: usize) -> f64 {
    const LINES: usize = 1300;
    rate(host, tasks, tasks * LINES, |m, own, i| {
        for line in &own[i * LINES..][..LINES] {
            line.word.load(m, Ordering::Relaxed);
            m.operation_done();
        }
    })
}

#[test]
fn reading_memory_scales_up_to_its_bandwidth() {
    let mut host = host(1, 12);
    let latency = 2 * TRANSFER;
    for memory in [0, 10 * NS, 20 * NS, latency] {
        host.costs.memory = memory;
        for tasks in 1..=12 {
            let unlimited = tasks as f64 / (latency / NS) as f64;
            let limit = if memory == 0 { f64::INFINITY } else { NS as f64 / memory as f64 };
            within(stream(&host, tasks), unlimited.min(limit), 0.03);
        }
    }
}

#[test]
fn reading_another_nodes_memory_also_waits_for_the_link() {
    // Four CPUs on the node of the memory, and four on the other node: 80 and 160 ns a line.
    let mut host = host(2, 4);
    let check = |host: &Host, expected: f64| within(stream(host, 8), expected, 0.03);
    check(&host, 4.0 / 80.0 + 4.0 / 160.0);
    // The other node gets a line every 50 ns, and slows down no CPU of the memory's node.
    host.costs.link = 50 * NS;
    check(&host, 4.0 / 80.0 + 1.0 / 50.0);
    // All CPUs share the memory.
    host.costs.memory = 20 * NS;
    check(&host, 1.0 / 20.0);
}

/// Hand-overs per ns of pairs of tasks on two nodes, each with a line that goes to and fro.
fn hand_over(host: &Host, pairs: usize) -> f64 {
    let cpus = host.cpus.len() / 2;
    rate(host, host.cpus.len(), pairs, |m, own, i| {
        let Some(line) = own.get(i % cpus) else { return };
        let mine = u32::try_from(i / cpus).unwrap();
        for turn in (mine..).step_by(2) {
            m.await_until(&line.word, Until::equals(turn), Ordering::Acquire);
            line.word.store(m, turn + 1, Ordering::Release);
            m.operation_done();
        }
    })
}

#[test]
fn lines_of_several_pairs_share_a_link() {
    let mut host = host(2, 16);
    let alone = hand_over(&host, 1);
    for link in [0, 4 * NS, 16 * NS, 32 * NS] {
        host.costs.link = link;
        // A line is read before it is written, so it comes twice. Each direction has its own link.
        let limit = if link == 0 { f64::INFINITY } else { NS as f64 / link as f64 };
        for pairs in [1, 2, 12, 16] {
            within(hand_over(&host, pairs), (pairs as f64 * alone).min(limit), 0.02);
        }
    }
}
