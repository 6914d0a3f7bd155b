//! Every mechanism on described hosts, in all its designs; and what is refused.

use algorithms::mechanisms::MECHANISMS;
use engines::simulated::{NS, Preemption};
use studies::simulations::{Conditions, LockLoad, SimulatedPoint, point};
use studies::{MechanismDesign, Subject};

use crate::simulations::{NOISE, conditions};

fn simulated(
    design: &MechanismDesign,
    work_ns: u64,
    conditions: &Conditions,
    cpus: usize,
    tasks: usize,
) -> anyhow::Result<SimulatedPoint> {
    let (subject, load) = (Subject::Mechanism(design.clone()), LockLoad::steady(work_ns, 0, 0));
    point(&subject, load, conditions, cpus, tasks)
}

/// In all designs, with one task a CPU, with more, and on virtual CPUs. Each run ends with the
/// checks of the mechanism itself.
#[test]
fn every_mechanism_passes_its_checks_in_virtual_time() {
    let host = described_hosts::find("opteron-32").unwrap();
    for mechanism in MECHANISMS {
        for design in mechanism.designs() {
            let design = MechanismDesign::new(mechanism.name, design).unwrap();
            for (cpus, tasks, preemption, pinned, noise) in [
                (1, 1, Preemption::BetweenOperations, true, None),
                (12, 12, Preemption::BetweenOperations, true, None),
                (4, 12, Preemption::BetweenOperations, true, None),
                (4, 12, Preemption::BetweenOperations, false, None),
                (4, 8, Preemption::Anywhere, true, None),
                (4, 8, Preemption::Anywhere, false, None),
                (12, 12, Preemption::BetweenOperations, true, Some(NOISE)),
                (4, 8, Preemption::Anywhere, true, Some(NOISE)),
            ] {
                let owns_cpus = ["repair", "tlb_shootdown"].contains(&mechanism.name);
                if owns_cpus && tasks > cpus && preemption == Preemption::BetweenOperations {
                    continue;
                }
                // Long enough for tasks to be preempted.
                let crowded = tasks > cpus;
                let length = if crowded { 50_000_000 * NS } else { 300_000 * NS };
                let work_ns = if crowded { 50_000 } else { 500 };
                let conditions =
                    Conditions { preemption, pinned, noise, length, ..conditions(&host) };
                let point = simulated(&design, work_ns, &conditions, cpus, tasks).unwrap();
                let name = Subject::Mechanism(design.clone()).name();
                assert!(point.middle.rate() > 0.0, "{name} with {tasks} tasks on {cpus} CPUs");
            }
        }
    }
}

#[test]
fn impossible_settings_are_refused_with_a_reason() {
    let host = described_hosts::find("uma-2").unwrap();
    let why = |design: MechanismDesign| {
        format!("{:#}", simulated(&design, 0, &conditions(&host), 2, 2).err().unwrap())
    };
    let after = || MechanismDesign::new("file_locks", "after").unwrap();
    assert!(why(after().with("fils", 1)).contains("is called \"fils\"; did you mean"));
    assert!(
        why(after().with("files", 0))
            .contains("files=0: the value must be a number from 1 to 4096")
    );
    assert!(
        why(after().with("kind", "lease"))
            .contains("kind=lease: the value must be one of posix, flock, ofd")
    );
    let tlb = MechanismDesign::new("tlb_shootdown", "after").unwrap();
    let crowded = simulated(&tlb, 0, &conditions(&host), 2, 3).err().unwrap();
    assert!(format!("{crowded:#}").contains("each of its tasks stands for a CPU"));
    assert!(MechanismDesign::new("file_locks", "later").is_err());
}

/// With enough work between transactions, a push is over before the next one is due, and few items change twice
/// between two pushes: so nearly all changes are pushed.
#[test]
fn a_transaction_changes_as_many_items_as_set() {
    let host = described_hosts::find("opteron-32").unwrap();
    let pushed_per_transaction = |items: u64| {
        let design = MechanismDesign::new("log_commit_list", "after").unwrap();
        let design = design.with("items", items).with("shared_one_in", 1_000_000);
        let design = design.with("own_items", 1024).with("limit_items", 64);
        let conditions = Conditions { length: 3_000_000 * NS, ..conditions(&host) };
        let point = simulated(&design, 50_000, &conditions, 4, 4).unwrap();
        let pushed = point.effects.iter().find(|(effect, _)| *effect == "pushed_items");
        pushed.unwrap().1
    };
    let [one, ten] = [1, 10].map(pushed_per_transaction);
    assert!((0.8..1.2).contains(&one) && (9.0..11.0).contains(&ten), "{one} and {ten}");
}
