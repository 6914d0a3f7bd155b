//! The contracts of all locks and mechanisms on the native machine, with real threads.

mod repair;
mod single_task_model;

use std::thread;

use algorithms::contract::{Guarded, exclusive, shared};
use algorithms::locks::queued::Queued;
use algorithms::locks::{LOCKS, PARTS};
use algorithms::mechanisms::{self, ListedMechanism, MECHANISMS, Mechanism, Settings, visit_over};
use algorithms::{Locks, LocksVisitor, Shape, place};
use machine::{Atom, Machine, Native, Ordering, Peers, Region, Until};

const THREADS: usize = 4;
const TURNS: u32 = 2000;

struct Contended;

impl LocksVisitor for Contended {
    type Out = ();

    fn locks<L: Locks>(self, locks: &L) {
        let guarded = locks.region().array::<Guarded>("guarded", 1);
        let is_shared = locks.properties().shared;
        let writes: u32 = thread::scope(|scope| {
            let spawn = |cpu| {
                let guarded = &guarded[0];
                scope.spawn(move || {
                    let m = Native::new(cpu, cpu % 2).yielding();
                    if is_shared {
                        return shared(locks, &m, guarded, TURNS);
                    }
                    // Half of the threads may also take the first lock; all count under the second.
                    exclusive(locks, &m, 1 - cpu % 2..2, guarded, TURNS);
                    TURNS
                })
            };
            let threads: Vec<_> = (0..THREADS).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let m = Native::new(0, 0);
        assert_eq!(guarded[0].writes.get(&m), writes);
        assert!(locks.at_rest(&m));
    }
}

#[test]
fn locks_lose_no_counts() {
    for lock in LOCKS {
        place(lock.name, Shape::new(THREADS, 2), 64 << 10, Contended).unwrap().unwrap();
    }
}

#[test]
fn every_lock_file_is_listed_and_has_a_manual_page() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/locks");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        names.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let is_part = |name: &str| name == "mod" || PARTS.iter().any(|(part, _)| *part == name);
    names.retain(|name| !is_part(name));
    names.sort();
    // A mechanism can have a file and a folder.
    names.dedup();
    assert_eq!(names, LOCKS.iter().map(|lock| lock.name).collect::<Vec<_>>());
    for lock in LOCKS {
        let manual = lock.manual();
        assert!((10..=100).contains(&lock.summary().len()), "{}: {}", lock.name, lock.summary());
        assert!(manual.contains("\n    "), "{} has no state diagram", lock.name);
        let cited = (1960..2030).any(|year| manual.contains(&year.to_string()));
        assert!(cited, "{} has no citation", lock.name);
    }
}

/// Runs all designs of a mechanism: with the small sizes of the checker, so that everything
/// happens, and with the defaults.
struct Operated;

impl mechanisms::Visitor for Operated {
    type Out = &'static str;

    fn mechanism<X: Mechanism>(self) -> &'static str {
        let listed = ListedMechanism::named(X::NAME).unwrap();
        for (_, design) in X::DESIGNS {
            operate::<X>(design, &Settings::searched(listed));
            operate::<X>(design, &Settings::defaults(listed));
        }
        X::NAME
    }
}

fn operate<X: Mechanism>(design: &X::Design, settings: &Settings) {
    const OPERATIONS: u32 = 300;
    let region = Region::new(X::bytes(design, THREADS, settings) + 4096).unwrap();
    let mechanism = X::new(&region, design.clone(), THREADS, settings);
    let peers = Peers::new(&region, THREADS);
    let arrived = &region.array::<Atom<u32>>("arrived", 1)[0];
    thread::scope(|scope| {
        for cpu in 0..THREADS {
            let (mechanism, peers) = (&mechanism, &peers);
            scope.spawn(move || {
                let machine = || Native::new(cpu, 0).with_peers(peers).yielding();
                let (m, inner) = (machine(), machine());
                let handler = peers.handle_ipis(cpu, || mechanism.handle_ipi(&inner));
                let mut task = mechanism.start(&m, cpu);
                for _ in 0..OPERATIONS {
                    mechanism.operate(&m, &mut task);
                }
                // Another thread may still interrupt this one.
                arrived.fetch_add(&m, 1, Ordering::AcqRel);
                m.await_until(arrived, Until::equals(THREADS as u32), Ordering::Acquire);
                mechanism.finish(&m, &mut task);
                drop(handler);
            });
        }
    });
    let m = Native::new(0, 0).with_peers(&peers).yielding();
    let result = mechanism.check(&m, u64::from(OPERATIONS) * THREADS as u64);
    assert_eq!(result, Ok(()), "{}", X::NAME);
}

#[test]
fn mechanisms_keep_their_invariants() {
    for mechanism in MECHANISMS {
        let operated = visit_over::<Queued, _>(mechanism.name, Operated);
        assert_eq!(operated, Some(mechanism.name));
    }
}

#[test]
fn every_mechanism_file_is_listed_and_has_a_manual_page() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mechanisms");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        names.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.retain(|name| !["mod", "settings"].contains(&name.as_str()));
    names.sort();
    // A mechanism can have a file and a folder.
    names.dedup();
    assert_eq!(names, MECHANISMS.iter().map(|mechanism| mechanism.name).collect::<Vec<_>>());
    for mechanism in MECHANISMS {
        let (name, manual) = (mechanism.name, mechanism.manual());
        assert!((10..=100).contains(&mechanism.summary().len()), "{name}: {}", mechanism.summary());
        assert!(manual.contains("\n    "), "{name} has no state diagram");
        assert!(manual.contains("Designs:"), "{name} does not list its designs");
        assert!(manual.contains("Linux"), "{name} names no kernel version");
        assert!(mechanism.designs().len() >= 4, "{name} has fewer than four designs");
    }
}
