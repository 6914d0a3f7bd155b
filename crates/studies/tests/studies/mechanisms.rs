//! Every mechanism on described hosts, in all its designs; and what cannot be asked of one.

use algorithms::mechanisms::MECHANISMS;
use engines::simulated::{NS, Preemption};
use studies::hosts;
use studies::simulations::Place;
use studies::simulations::mechanisms::{Operated, point};

use crate::simulations::place;

/// In all designs, with one task a CPU, more, and on virtual CPUs; each run ends with the
/// checks of the mechanism.
#[test]
fn every_mechanism_keeps_its_promises_in_virtual_time() {
    let host = hosts::find("opteron-32").unwrap();
    for mechanism in MECHANISMS {
        for design in mechanism.designs() {
            let operated = Operated::new(mechanism.name, design).unwrap();
            for (cpus, tasks, preemption, pinned) in [
                (1, 1, Preemption::BetweenOperations, true),
                (12, 12, Preemption::BetweenOperations, true),
                (4, 12, Preemption::BetweenOperations, true),
                (4, 12, Preemption::BetweenOperations, false),
                (4, 8, Preemption::Anywhere, true),
                (4, 8, Preemption::Anywhere, false),
            ] {
                let alone = ["repair", "tlb_shootdown"].contains(&mechanism.name);
                if alone && tasks > cpus && preemption == Preemption::BetweenOperations {
                    continue;
                }
                // Long enough for tasks to change places.
                let crowded = tasks > cpus;
                let length = if crowded { 50_000_000 * NS } else { 300_000 * NS };
                let work_ns = if crowded { 50_000 } else { 500 };
                let operated = Operated { work_ns, ..operated.clone() };
                let place = Place { preemption, pinned, length, ..place(&host) };
                let point = point(&operated, &place, cpus, tasks).unwrap();
                let name = operated.name();
                assert!(point.middle.rate() > 0.0, "{name} with {tasks} tasks on {cpus} CPUs");
            }
        }
    }
}

#[test]
fn what_cannot_be_set_is_refused_in_words() {
    let host = hosts::find("uma-2").unwrap();
    let why =
        |operated: Operated| format!("{:#}", point(&operated, &place(&host), 2, 2).err().unwrap());
    let after = || Operated::new("file_locks", "after").unwrap();
    assert!(why(after().with("fils", 1)).contains("has no setting \"fils\", did you mean"));
    assert!(why(after().with("files", 0)).contains("files=0: a number from 1 to 4096"));
    assert!(why(after().with("kind", "lease")).contains("kind=lease: posix, flock, ofd"));
    let tlb = Operated::new("tlb_shootdown", "after").unwrap();
    let crowded = point(&tlb, &place(&host), 2, 3).err().unwrap();
    assert!(format!("{crowded:#}").contains("each of its tasks stands for a CPU"));
    assert!(Operated::new("file_locks", "later").is_err());
}
