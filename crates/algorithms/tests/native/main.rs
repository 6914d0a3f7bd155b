//! The contracts of all locks and mechanisms on the native machine: real threads, many turns.

mod alone;
mod repair;

use std::thread;

use algorithms::contract::{Guarded, exclusive, shared};
use algorithms::locks::queued::Queued;
use algorithms::locks::{LOCKS, Visitor, visit};
use algorithms::mechanisms::{self, MECHANISMS, Mechanism, Settings, visit_over};
use algorithms::{Lock, Shape, SharedLock};
use machine::{Atom, Machine, Native, Ordering, Patient, Peers, Region, Until};

const THREADS: usize = 4;
const TURNS: u32 = 2000;

struct Contended;

impl Visitor for Contended {
    type Out = ();

    fn lock<L: Lock>(self) {
        let region = Region::new(64 << 10).unwrap();
        let lock = L::new(&region, Shape { cpus: THREADS, locks: 2 });
        let locks = region.array::<L::Mem>("lock", 2);
        let guarded = region.array::<Guarded>("guarded", 1);
        thread::scope(|scope| {
            for cpu in 0..THREADS {
                let (lock, locks, guarded) = (&lock, &locks, &guarded[0]);
                scope.spawn(move || {
                    let m = Patient(Native::new(cpu, cpu % 2));
                    // Both kinds count behind the second lock.
                    exclusive(lock, &m, &locks[1 - cpu % 2..], guarded, TURNS);
                });
            }
        });
        let m = Native::new(0, 0);
        assert_eq!(guarded[0].writes.get(&m), THREADS as u32 * TURNS);
        assert!(locks.iter().all(|at| lock.at_rest(&m, at)));
    }

    fn shared<L: SharedLock>(self) {
        let region = Region::new(64 << 10).unwrap();
        let lock = L::new(&region, Shape { cpus: THREADS, locks: 1 });
        let at = region.array::<L::Mem>("lock", 1);
        let guarded = region.array::<Guarded>("guarded", 1);
        let writes: u32 = thread::scope(|scope| {
            let each = |cpu| {
                let (lock, at, guarded) = (&lock, &at[0], &guarded[0]);
                scope.spawn(move || {
                    let m = Patient(Native::new(cpu, 0));
                    shared(lock, &m, at, guarded, TURNS)
                })
            };
            let threads: Vec<_> = (0..THREADS).map(each).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let m = Native::new(0, 0);
        assert_eq!(guarded[0].writes.get(&m), writes);
        assert!(lock.at_rest(&m, &at[0]));
    }
}

#[test]
fn no_turn_gets_lost() {
    for lock in LOCKS {
        visit(lock.name, Contended).unwrap();
    }
}

#[test]
fn every_file_of_a_lock_is_listed_and_explains_itself() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/locks");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        names.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.retain(|name| !["mod", "nodes"].contains(&name.as_str()));
    names.sort();
    // A file, and the folder of its parts.
    names.dedup();
    assert_eq!(names, LOCKS.iter().map(|lock| lock.name).collect::<Vec<_>>());
    for lock in LOCKS {
        let manual = lock.manual();
        assert!((10..=100).contains(&lock.summary().len()), "{}: {}", lock.name, lock.summary());
        assert!(manual.contains("\n    "), "{} draws no states", lock.name);
        let cited = (1960..2030).any(|year| manual.contains(&year.to_string()));
        assert!(cited, "{} cites nobody", lock.name);
    }
}

/// All designs of a mechanism: small in one run, so that everything happens, and as they are.
struct Operated;

impl mechanisms::Visitor for Operated {
    type Out = &'static str;

    fn mechanism<X: Mechanism>(self) -> &'static str {
        for (_, design) in X::DESIGNS {
            operate::<X>(*design, &Settings::searched::<X>());
            operate::<X>(*design, &Settings::default_of::<X>());
        }
        X::NAME
    }
}

fn operate<X: Mechanism>(design: X::Design, settings: &Settings) {
    const OPERATIONS: u32 = 300;
    let region = Region::new(X::bytes(THREADS, settings) + 4096).unwrap();
    let mechanism = X::new(&region, design, THREADS, settings);
    let peers = Peers::new(&region, THREADS);
    let arrived = &region.array::<Atom<u32>>("arrived", 1)[0];
    thread::scope(|scope| {
        for cpu in 0..THREADS {
            let (mechanism, peers) = (&mechanism, &peers);
            scope.spawn(move || {
                let machine = || Patient(Native::new(cpu, 0).with_peers(peers));
                let (m, inner) = (machine(), machine());
                let attending = peers.attend(cpu, || mechanism.interrupted(&inner));
                let mut task = mechanism.start(&m, cpu);
                for _ in 0..OPERATIONS {
                    mechanism.operate(&m, &mut task);
                }
                // Somebody may be interrupting us still.
                arrived.fetch_add(&m, 1, Ordering::AcqRel);
                m.await_until(arrived, Until::equals(THREADS as u32), Ordering::Acquire);
                mechanism.finish(&m, &mut task);
                drop(attending);
            });
        }
    });
    let m = Patient(Native::new(0, 0).with_peers(&peers));
    let checked = mechanism.check(&m, u64::from(OPERATIONS) * THREADS as u64);
    assert_eq!(checked, Ok(()), "{}", X::NAME);
}

#[test]
fn mechanisms_lose_nothing() {
    for mechanism in MECHANISMS {
        let operated = visit_over::<Queued, _>(mechanism.name, Operated);
        assert_eq!(operated, Some(mechanism.name));
    }
}

#[test]
fn every_file_of_a_mechanism_is_listed_and_explains_itself() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mechanisms");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        names.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.retain(|name| !["mod", "settings"].contains(&name.as_str()));
    names.sort();
    // A file, and the folder of its parts.
    names.dedup();
    assert_eq!(names, MECHANISMS.iter().map(|one| one.name).collect::<Vec<_>>());
    for mechanism in MECHANISMS {
        let (name, manual) = (mechanism.name, mechanism.manual());
        assert!((10..=100).contains(&mechanism.summary().len()), "{name}: {}", mechanism.summary());
        assert!(manual.contains("\n    "), "{name} draws no states");
        assert!(manual.contains("Designs:"), "{name} names no designs");
        assert!(manual.contains("Linux"), "{name} does not say which kernel it follows");
        assert!(mechanism.designs().len() >= 4, "{name} has no designs to choose from");
    }
}
