//! What a repair counts, in fixed schedules: a single thread plays all CPUs.

use std::collections::BTreeMap;

use algorithms::locks::ticket::Ticket;
use algorithms::mechanisms::repair::{Design, Repair, Repairer, Workers};
use algorithms::mechanisms::{ListedMechanism, Mechanism, Scenario};
use machine::{Native, Region};

type Repaired = Repair<Ticket>;

struct Run {
    repair: Repaired,
    tasks: Vec<(Native, Repairer)>,
}

impl Run {
    fn new(design: Design, scenario: Scenario) -> Run {
        let settings = scenario.settings(ListedMechanism::named(Repaired::NAME).unwrap());
        let region = Region::new(Repaired::bytes(&design, scenario.tasks, &settings)).unwrap();
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

    /// Ends the run, and sums the counts of the tasks.
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

/// Reads 32 blocks ahead, and then repairs them.
fn read_ahead(cache_blocks: &'static [(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    let mut run = Run::new(Design::BEFORE, Scenario::new(2, 0).with_settings(cache_blocks));
    run.operate(1, 32);
    run.operate(0, 32);
    run.counts()
}

#[test]
fn with_a_cache_too_small_for_the_read_ahead_blocks_are_read_twice() {
    let small = read_ahead(&[
        ("group_blocks", 64),
        ("ahead_blocks", 32),
        ("cache_blocks", 8),
        ("scan_uses", 0),
    ]);
    // Even the eight blocks that were read last are evicted, by the earlier blocks.
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
fn pages_follow_wandering_workers_only_if_they_move_at_once() {
    let moved = |design| {
        let settings = &[("group_blocks", 4), ("cache_blocks", 4), ("block_pages", 3)];
        let mut run = Run::new(design, Scenario::new(1, 0).with_settings(settings));
        run.operate(0, 4 * 5);
        let counts = run.counts();
        assert_eq!(counts["blocks_read"], 4);
        // All uses but those of blocks just read: a scan comes after each use.
        assert_eq!(counts["hint_faults"], 4 * 4);
        (counts["pages_moved"], counts["flushes"] - 4 * 5)
    };
    let wander = |design| Design { workers: Workers::Wander, ..design };
    assert_eq!(moved(Design::AFTER), (0, 0));
    assert_eq!(moved(wander(Design::BEFORE)), (0, 0));
    // In the four rounds after the first, with one flush per page.
    assert_eq!(moved(wander(Design::AFTER)), (4 * 4 * 3, 4 * 4 * 3));
}
