//! What the repair counts, in schedules that are written down: one thread is all CPUs in turn.

use std::collections::BTreeMap;

use algorithms::locks::ticket::Ticket;
use algorithms::mechanisms::repair::{Design, Repair, Repairer, Workers};
use algorithms::mechanisms::{Mechanism, Scenario};
use machine::{Native, Region};

type Repaired = Repair<Ticket>;

struct Run {
    repair: Repaired,
    tasks: Vec<(Native, Repairer)>,
}

impl Run {
    fn new(design: Design, scenario: Scenario) -> Run {
        let settings = scenario.settings::<Repaired>();
        let region = Region::new(Repaired::bytes(scenario.tasks, &settings)).unwrap();
        let repair = Repaired::new(&region, design, scenario.tasks, &settings);
        let start = |cpu| {
            let m = Native::new(cpu, 0);
            let task = repair.start(&m, cpu);
            (m, task)
        };
        let tasks = (0..scenario.tasks).map(start).collect();
        Run { repair, tasks }
    }

    fn operate(&mut self, task: usize, times: u64) {
        let (m, task) = &mut self.tasks[task];
        (0..times).for_each(|_| self.repair.operate(m, task));
    }

    /// Ends it, and adds up what the tasks have counted.
    fn counts(mut self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (m, task) in &mut self.tasks {
            self.repair.finish(m, task);
            for (name, value) in Repaired::effects(task) {
                *counts.entry(name).or_default() += value;
            }
        }
        self.repair.check(&Native::new(0, 0), 0).unwrap();
        counts
    }
}

/// 32 blocks are read ahead, and then repaired.
fn read_ahead(cache_blocks: &'static [(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    let mut run = Run::new(Design::BEFORE, Scenario::of(2, 0).with(cache_blocks));
    run.operate(1, 32);
    run.operate(0, 32);
    run.counts()
}

#[test]
fn a_cache_too_small_for_what_is_read_ahead_has_blocks_read_twice() {
    let small = read_ahead(&[
        ("group_blocks", 64),
        ("ahead_blocks", 32),
        ("cache_blocks", 8),
        ("scan_uses", 0),
    ]);
    // The eight that were read last are evicted too, by those that come before them.
    assert_eq!((small["blocks_read"], small["blocks_read_twice"]), (64, 32));
    let large = read_ahead(&[
        ("group_blocks", 64),
        ("ahead_blocks", 32),
        ("cache_blocks", 1024),
        ("scan_uses", 0),
    ]);
    assert_eq!((large["blocks_read"], large["blocks_read_twice"]), (32, 0));
}

#[test]
fn pages_follow_workers_that_wander_only_where_they_move_at_once() {
    let moved = |design| {
        let settings = &[("group_blocks", 4), ("cache_blocks", 4), ("block_pages", 3)];
        let mut run = Run::new(design, Scenario::of(1, 0).with(settings));
        run.operate(0, 4 * 5);
        let counts = run.counts();
        assert_eq!(counts["blocks_read"], 4);
        // All but those just read: a scan comes after each.
        assert_eq!(counts["hint_faults"], 4 * 4);
        (counts["pages_moved"], counts["flushes"] - 4 * 5)
    };
    let wander = |design| Design { workers: Workers::Wander, ..design };
    assert_eq!(moved(Design::AFTER), (0, 0));
    assert_eq!(moved(wander(Design::BEFORE)), (0, 0));
    // Of four rounds after the first one, with a flush for each page.
    assert_eq!(moved(wander(Design::AFTER)), (4 * 4 * 3, 4 * 4 * 3));
}
