//! Sightings as data, and what they amount to.

use records::live::{CpuUse, HolderState, OtherTask, Trace, TracedTask, WaitKind, WaitsOn};
use records::sampled::Round;

use super::*;
use crate::{LiveCauseKind, causes};

const MS: u64 = 1_000_000;

/// One second with a round every 10 ms, in two windows. `doing` says what each task does in a round, with its CPU time
/// and its delay since the round before, in ms.
fn seen(tasks: &[u32], doing: impl Fn(u32, u64) -> (Sighted, u64, u64)) -> Samples {
    let mut counters: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    let round = |number: u64| {
        let sighting = |task: &u32| {
            let (doing, run_ms, delay_ms) = doing(*task, number);
            let known = counters.entry(*task).or_default();
            *known = (known.0 + run_ms * MS, known.1 + delay_ms * MS, known.2 + 1);
            let (run_ns, delay_ns, arrivals) = *known;
            Sighting { task: *task, run_ns, delay_ns, arrivals, doing, stack: None }
        };
        Round { at_ns: number * 10 * MS, sightings: tasks.iter().map(sighting).collect() }
    };
    let named = |task: &u32| {
        let name = format!("worker-{task}");
        (*task, TracedTask { process: 1, name, waited: None, since_ns: 0 })
    };
    let rounds: Vec<Round> = (0..=100).map(round).collect();
    let cpus = CpuUse { idle_ns: 500 * MS, ..CpuUse::default() };
    Samples {
        trace: Trace {
            edges_ns: vec![0, 500 * MS, 1000 * MS],
            tasks: tasks.iter().map(named).collect(),
            cpus: vec![cpus.clone(), cpus],
            online_cpus: 2,
            ..Trace::default()
        },
        rounds,
        cpus_allowed: tasks.iter().map(|task| (*task, 2)).collect(),
        throttled_ns: vec![0, 0],
    }
}

fn mutex(owner: u32) -> Sighted {
    let (arguments, words) = ([0x1000, 128], [2, 0, owner]);
    Sighted::Waits(TracedWait { call: "futex".into(), arguments, words, ..TracedWait::default() })
}

fn sleeps() -> Sighted {
    let call = "clock_nanosleep".into();
    Sighted::Waits(TracedWait { call, ..TracedWait::default() })
}

fn share(observation: &Observation, task: u32, state: &ThreadState) -> f64 {
    let thread = observation.threads.iter().find(|thread| thread.task == task).unwrap();
    let time = thread.states.iter().find(|time| time.state == *state);
    time.map_or(0.0, |time| time.ns.iter().sum::<u64>() as f64 / 1e9)
}

#[test]
fn a_mutex_is_found_with_its_owner_and_what_that_does() {
    let samples = seen(&[1, 2, 3], |task, number| match task {
        1 if number % 4 == 0 => (sleeps(), 0, 0),
        1 => (Sighted::Runnable(0), 10, 0),
        _ => (mutex(1), 0, 0),
    });
    let observation = observe_samples(&samples);
    let [lock] = &observation.locks[..] else { panic!("{:?}", observation.locks) };
    assert_eq!((lock.kind, lock.address), (WaitKind::Mutex, 0x1000));
    assert_eq!(lock.contended_ns, [500 * MS, 500 * MS]);
    assert_eq!(lock.wait_ns, [1000 * MS, 1000 * MS]);
    let of = |reason: HolderState| -> u64 {
        let times = lock.holder.iter().filter(|time| time.reason == reason);
        times.flat_map(|time| &time.ns).sum()
    };
    assert!(of(HolderState::Running) > 700 * MS, "{:?}", lock.holder);
    assert!(of(HolderState::Sleeping) > 200 * MS, "{:?}", lock.holder);
    assert_eq!(causes(&observation)[0].cause, LiveCauseKind::Lock);
}

#[test]
fn cpu_time_is_that_of_the_counters_and_waits_share_the_rest() {
    // Met running in a tenth of the rounds, and it ran for a half.
    let samples = seen(&[1], |_, number| match number % 10 {
        0 => (Sighted::Runnable(0), 5, 0),
        1..=4 => (sleeps(), 5, 0),
        _ => (mutex(9), 5, 0),
    });
    let observation = observe_samples(&samples);
    let check = |state: &ThreadState, expected: f64| {
        let share = share(&observation, 1, state);
        assert!((share - expected).abs() < 0.02, "{state:?}: {share}");
    };
    check(&ThreadState::Running, 0.5);
    check(&ThreadState::Sleep, 0.5 * 4.0 / 9.0);
    check(&ThreadState::Lock(0), 0.5 * 5.0 / 9.0);
}

#[test]
fn a_thread_stands_behind_its_own_threads_or_behind_another_program() {
    let check = |tasks: &[u32], expected: &ThreadState| {
        let mut samples = seen(tasks, |_, _| (Sighted::Runnable(0), 5, 5));
        for cpus in &mut samples.trace.cpus {
            cpus.others = vec![OtherTask { name: "hog".to_string(), ns: 250 * MS }];
        }
        let observation = observe_samples(&samples);
        let share = share(&observation, 1, expected);
        assert!((share - 0.5).abs() < 0.02, "{expected:?}: {share}");
    };
    check(&[1], &ThreadState::BehindOther("hog".to_string()));
    check(&[1, 2], &ThreadState::BehindOwn);
    // Two threads that hardly run wait for the same CPU: neither has it.
    let mut samples = seen(&[1, 2], |_, _| (Sighted::Runnable(0), 1, 9));
    for cpus in &mut samples.trace.cpus {
        cpus.others = vec![OtherTask { name: "hog".to_string(), ns: 400 * MS }];
    }
    let observation = observe_samples(&samples);
    let share = share(&observation, 1, &ThreadState::BehindOther("hog".to_string()));
    assert!((share - 0.8).abs() < 0.02, "{share}");
}

#[test]
fn a_quota_keeps_all_threads_of_its_group() {
    // Four threads on two CPUs, held half of the time.
    let mut samples = seen(&[1, 2, 3, 4], |task, _| (Sighted::Runnable(task % 2), 2, 8));
    samples.throttled_ns = vec![500 * MS, 500 * MS];
    let observation = observe_samples(&samples);
    assert!((share(&observation, 1, &ThreadState::Throttled) - 0.5).abs() < 0.05);
    assert_eq!(causes(&observation)[0].cause, LiveCauseKind::Quota);
}

#[test]
fn short_delays_are_wake_ups_where_cpus_are_idle() {
    let check = |idle_ms: u64, expected: &ThreadState| {
        let mut samples = seen(&[1], |_, number| match number % 10 {
            0 => (Sighted::Runnable(0), 0, 1),
            _ => (sleeps(), 0, 0),
        });
        for round in &mut samples.rounds {
            round.sightings[0].arrivals *= 10;
        }
        for cpus in &mut samples.trace.cpus {
            cpus.idle_ns = idle_ms * MS;
            cpus.others = vec![OtherTask { name: "hog".to_string(), ns: 1000 * MS }];
        }
        let share = share(&observe_samples(&samples), 1, expected);
        assert!((share - 0.01).abs() < 0.002, "{expected:?}: {share}");
    };
    check(1000, &ThreadState::WakeUp);
    check(0, &ThreadState::BehindOther("hog".to_string()));
}

#[test]
fn threads_that_wait_for_clients_are_held_back_by_nothing() {
    let samples = seen(&[1, 2, 3, 4], |_, _| {
        let (call, on) = ("read".to_string(), WaitsOn::Socket);
        (Sighted::Waits(TracedWait { call, on, ..TracedWait::default() }), 0, 0)
    });
    let observation = observe_samples(&samples);
    assert_eq!(causes(&observation), []);
    assert!(share(&observation, 1, &ThreadState::Call("read of a socket".to_string())) > 0.99);
}

#[test]
fn nothing_seen_is_nothing_said() {
    let observation = observe_samples(&Samples::default());
    assert!(observation.threads.is_empty() && observation.locks.is_empty());
}
