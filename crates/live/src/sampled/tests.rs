//! Sightings as data, and what they amount to.

use records::live::{
    CpuUse, HolderState, OtherTask, StackTaken, Trace, TracedFunction, TracedStack, TracedTask,
    WaitKind, WaitsOn,
};
use records::sampled::{Round, SightedGoroutine};

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
        let sightings = tasks.iter().map(sighting).collect();
        Round { at_ns: number * 10 * MS, sightings, ..Round::default() }
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
        ..Samples::default()
    }
}

fn mutex(owner: u32) -> Sighted {
    futex([2, 0, owner, 1, 0])
}

fn futex(words: [u32; 5]) -> Sighted {
    futex_at(0x1000, words)
}

fn futex_at(address: u64, words: [u32; 5]) -> Sighted {
    let (call, arguments) = ("futex".into(), [address, 128]);
    Sighted::Waits(TracedWait { call, arguments, words, ..TracedWait::default() })
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

/// Gives all that wait a stack of these functions, innermost first, and a sample of it to each of `sampled` at that time.
fn with_stacks(samples: &mut Samples, functions: &[&str], sampled: &[(u32, u64)]) {
    let function = |name: &&str| TracedFunction {
        name: (*name).to_string(),
        object: String::new(),
        is_named: true,
    };
    samples.trace.functions = functions.iter().map(function).collect();
    let frames: Vec<u32> = (0..functions.len() as u32).collect();
    let stack = |task: u32, at_ns: u64, why: StackTaken| TracedStack {
        at_ns,
        task,
        why,
        frames: frames.clone(),
        ..TracedStack::default()
    };
    samples.trace.stacks = vec![stack(0, 0, StackTaken::Waits)];
    let clock = sampled.iter().map(|(task, at_ns)| stack(*task, *at_ns, StackTaken::Sampled));
    samples.trace.stacks.extend(clock);
    for sighting in samples.rounds.iter_mut().flat_map(|round| &mut round.sightings) {
        sighting.stack = matches!(sighting.doing, Sighted::Waits(_)).then_some(0);
    }
}

#[test]
fn threads_that_often_all_wait_at_a_semaphore_wait_for_work() {
    let check = |works: fn(u32, u64) -> bool, expected: usize| {
        let mut samples = seen(&[1, 2, 3], |task, number| {
            if works(task, number) {
                (Sighted::Runnable(0), 10, 0)
            } else {
                (futex([0, 3, 0, 0, 0]), 0, 0)
            }
        });
        with_stacks(&mut samples, &["__new_sem_wait_slow64", "serve"], &[]);
        assert_eq!(observe_samples(&samples).locks.len(), expected);
    };
    // One after the other works for a round in five, or for one of three rounds.
    check(|task, number| number % 5 == 0 && number / 5 % 3 == u64::from(task) - 1, 0);
    check(|task, number| number % 3 == u64::from(task) - 1, 1);
}

/// What the thread does most that has a lock whose word names nobody.
fn holder(samples: &Samples) -> (HolderState, String) {
    let observation = observe_samples(samples);
    let [lock] = &observation.locks[..] else { panic!("{:?}", observation.locks) };
    let held = lock.held_in.first().map(|place| place.function.clone());
    (lock.holder[0].reason, held.unwrap_or_default())
}

#[test]
fn a_thread_that_has_no_cpu_is_where_it_was_sampled() {
    // Thread 1 runs for a moment, and has no CPU after that.
    let mut samples = seen(&[1, 2, 3], |task, number| match task {
        1 if number == 1 => (Sighted::Runnable(0), 5, 0),
        1 => (Sighted::Runnable(0), 0, 10),
        _ => (futex([2, 0, 77, 0, 0]), 0, 0),
    });
    for cpus in &mut samples.trace.cpus {
        cpus.others = vec![OtherTask { name: "hog".to_string(), ns: 490 * MS }];
    }
    let lock = ["std::sys::sync::mutex::futex::Mutex::lock_contended", "settle"];
    with_stacks(&mut samples, &lock, &[]);
    assert_eq!(holder(&samples), (HolderState::Unknown, String::new()));
    with_stacks(&mut samples, &lock, &[(1, 9 * MS)]);
    assert_eq!(holder(&samples), (HolderState::Preempted, "settle".to_string()));
}

#[test]
fn of_two_threads_in_a_function_the_one_sampled_last_has_the_lock() {
    // Threads 1 and 2 run, only thread 2 was there lately.
    let mut samples = seen(&[1, 2, 3], |task, _| match task {
        1 | 2 => (Sighted::Runnable(task - 1), 10, 0),
        _ => (futex([2, 0, 0, 0, 0]), 0, 0),
    });
    let sampled: Vec<(u32, u64)> =
        (0..100).flat_map(|n| [(1, n * 10 * MS + 4 * MS), (2, n * 10 * MS + MS)]).collect();
    with_stacks(&mut samples, &["Mutex::lock_contended", "settle"], &sampled);
    let observation = observe_samples(&samples);
    assert_eq!(observation.locks[0].holder[0].reason, HolderState::Running);
    assert_eq!(observation.locks[0].held_in[0].function, "settle");
}

#[test]
fn who_writes_has_a_read_write_lock() {
    let check = |words: [u32; 5]| {
        let mut samples = seen(&[8, 9, 10], |task, _| match task {
            8 => (sleeps(), 0, 0),
            _ => (futex(words), 0, 0),
        });
        with_stacks(&mut samples, &["__pthread_rwlock_rdlock_full64", "settle"], &[]);
        assert_eq!(holder(&samples).0, HolderState::Sleeping, "{words:?}");
    };
    // At the futex of the phases, and at that of the writers.
    check([3, 0, 0, 0, 8]);
    check([1, 0, 0, 8, 0]);
}

/// What thread 1 does most that has a lock whose word names nobody, in `settle`, as these frames of its waits show or samples.
fn reason(
    frames: &[u32],
    doing: impl Fn() -> (Sighted, u64, u64),
    change: impl Fn(&mut Samples),
) -> HolderState {
    let mut samples = seen(&[1, 2, 3], |task, _| match task {
        1 => doing(),
        _ => (futex([2, 0, 0, 0, 0]), 0, 0),
    });
    let sampled: Vec<(u32, u64)> = (0..100).map(|round| (1, round * 10 * MS + MS)).collect();
    with_stacks(&mut samples, &["Mutex::lock_contended", "settle", "save"], &sampled);
    let own = samples.trace.stacks.len();
    let (why, frames) = (StackTaken::Waits, frames.to_vec());
    samples.trace.stacks.push(TracedStack { task: 1, why, frames, ..TracedStack::default() });
    let sightings = samples.rounds.iter_mut().flat_map(|round| &mut round.sightings);
    for sighting in sightings.filter(|sighting| sighting.task == 1) {
        sighting.stack = sighting.stack.map(|_| own);
    }
    change(&mut samples);
    let observation = observe_samples(&samples);
    let lock = observation.locks.iter().find(|lock| lock.address == 0x1000).unwrap();
    assert!(lock.held_in.iter().any(|place| place.function == "settle"), "{:?}", lock.held_in);
    lock.holder[0].reason
}

#[test]
fn each_reason_of_a_holder_is_told_where_the_lock_names_nobody() {
    let nothing = |_: &mut Samples| ();
    let runs = |run_ms: u64| move || (Sighted::Runnable(0), run_ms, 10 - run_ms);
    let waits = |call: &str, on: WaitsOn| {
        let wait = TracedWait { call: call.to_string(), on, ..TracedWait::default() };
        move || (Sighted::Waits(wait.clone()), 0, 0)
    };
    let other_lock = || {
        let (call, arguments, words) = ("futex".to_string(), [0x2000, 128], [2, 0, 0, 0, 0]);
        (Sighted::Waits(TracedWait { call, arguments, words, ..TracedWait::default() }), 0, 0)
    };
    let behind_hog = |samples: &mut Samples| {
        for cpus in &mut samples.trace.cpus {
            cpus.others = vec![OtherTask { name: "hog".to_string(), ns: 450 * MS }];
        }
    };
    assert_eq!(reason(&[2, 1], runs(10), nothing), HolderState::Running);
    assert_eq!(reason(&[2, 1], runs(1), behind_hog), HolderState::Preempted);
    let throttled = |samples: &mut Samples| samples.throttled_ns = vec![400 * MS; 2];
    assert_eq!(reason(&[2, 1], runs(2), throttled), HolderState::Quota);
    let faulting = |samples: &mut Samples| samples.faulting = [(1, 0.8)].into();
    assert_eq!(reason(&[2, 1], runs(10), faulting), HolderState::PageFault);
    assert_eq!(reason(&[2, 1], waits("", WaitsOn::Disk), nothing), HolderState::PageFault);
    let saves = waits("fdatasync", WaitsOn::Disk);
    assert_eq!(reason(&[2, 1], saves, nothing), HolderState::InputOutput);
    let sleep = waits("clock_nanosleep", WaitsOn::Call);
    assert_eq!(reason(&[2, 1], sleep, nothing), HolderState::Sleeping);
    assert_eq!(reason(&[0, 2, 1], other_lock, nothing), HolderState::Lock);
}

#[test]
fn a_caller_of_a_lock_of_the_programs_own_making_has_it() {
    // All wait in `take`, which `settle` calls; thread 1 sleeps in `settle`.
    let mut samples = seen(&[1, 2, 3], |task, _| match task {
        1 => (sleeps(), 0, 0),
        _ => (futex([2, 0, 0, 0, 0]), 0, 0),
    });
    with_stacks(&mut samples, &["futex_wait", "take", "settle", "usleep"], &[]);
    samples.trace.stacks[0].frames = vec![0, 1, 2];
    let (why, frames) = (StackTaken::Waits, vec![3, 2]);
    samples.trace.stacks.push(TracedStack { task: 1, why, frames, ..TracedStack::default() });
    for round in &mut samples.rounds {
        round.sightings[0].stack = Some(1);
    }
    assert_eq!(holder(&samples).0, HolderState::Sleeping);
}

#[test]
fn goroutines_wait_for_a_lock_that_a_running_thread_has() {
    let mut samples = seen(&[1], |_, _| (Sighted::Runnable(0), 10, 0));
    let sampled: Vec<(u32, u64)> = (0..100).map(|round| (1, round * 10 * MS + MS)).collect();
    let functions = ["runtime.gopark", "sync.(*Mutex).lockSlow", "main.settle"];
    with_stacks(&mut samples, &functions, &sampled);
    // Goroutine 3 was handed the lock while its stack was read.
    let (why, frames) = (StackTaken::Waits, vec![0, 2]);
    samples.trace.stacks.push(TracedStack { why, frames, ..TracedStack::default() });
    let handed = samples.trace.stacks.len() - 1;
    for round in &mut samples.rounds {
        let waits = |(number, stack): (u32, usize)| SightedGoroutine {
            process: 1,
            number: 1 << 31 | number,
            semaphore: 0x1004,
            stack: Some(stack),
        };
        round.goroutines = [(1, 0), (2, 0), (3, handed)].map(waits).to_vec();
    }
    let observation = observe_samples(&samples);
    let [lock] = &observation.locks[..] else { panic!("{:?}", observation.locks) };
    assert_eq!(
        (lock.kind, lock.waits, lock.holder[0].reason),
        (WaitKind::Mutex, 2, HolderState::Running)
    );
    assert_eq!(lock.wait_ns, [1000 * MS, 1000 * MS]);
    assert_eq!(lock.held_in[0].function, "main.settle");
    // They are no threads.
    assert_eq!(observation.threads.len(), 1);
    assert_eq!(causes(&observation)[0].cause, LiveCauseKind::Lock);
}

/// Gives each thread the stack of its waits, and these threads a sample in each round, innermost functions first.
fn with_own_stacks(samples: &mut Samples, waits: &[(u32, &[&str])], sampled: &[(u32, &[&str])]) {
    let trace = &mut samples.trace;
    let mut frames = |names: &[&str]| -> Vec<u32> {
        let function = |name: &&str| {
            let name = (*name).to_string();
            trace.functions.push(TracedFunction { name, is_named: true, ..Default::default() });
            trace.functions.len() as u32 - 1
        };
        names.iter().map(function).collect()
    };
    let mut stack = |task: u32, names: &[&str], at_ns: u64, why: StackTaken| TracedStack {
        at_ns,
        task,
        why,
        frames: frames(names),
        ..TracedStack::default()
    };
    let waited = waits.iter().map(|(task, names)| stack(*task, names, 0, StackTaken::Waits));
    trace.stacks = waited.collect();
    for (task, names) in sampled {
        let at_ns = |round: u64| (round * 10 + u64::from(*task)) * MS;
        let sample = |round: u64| stack(*task, names, at_ns(round), StackTaken::Sampled);
        trace.stacks.extend((0..100).map(sample));
    }
    for sighting in samples.rounds.iter_mut().flat_map(|round| &mut round.sightings) {
        let is_waiting = matches!(sighting.doing, Sighted::Waits(_));
        let own = waits.iter().position(|(task, _)| *task == sighting.task);
        sighting.stack = own.filter(|_| is_waiting);
    }
}

/// What the one lock of samples is: the number of threads in line, its first holder, and what that does.
fn one_lock(samples: &Samples) -> (u64, String, HolderState) {
    let observation = observe_samples(samples);
    let [lock] = &observation.locks[..] else { panic!("{:?}", observation.locks) };
    let in_line = lock.wait_ns.iter().sum::<u64>() / (1000 * MS);
    let held = lock.held_in.first().map(|place| place.function.clone());
    (in_line, held.unwrap_or_default(), lock.holder[0].reason)
}

#[test]
fn readers_and_writers_of_one_lock_wait_for_one_lock() {
    // In Rust, writers wait at a second word; in Java all are parked at places of their own, and methods tell.
    let mut samples = seen(&[1, 2, 3], |task, _| match task {
        1 => (Sighted::Runnable(0), 10, 0),
        2 => (futex([0, 0, 0, 0, 0]), 0, 0),
        _ => (futex_at(0x1004, [0, 0, 0, 0, 0]), 0, 0),
    });
    let reads: &[&str] = &["std::sys::sync::rwlock::futex::RwLock::read_contended", "get"];
    let writes: &[&str] = &["std::sys::sync::rwlock::futex::RwLock::write_contended", "put"];
    with_own_stacks(&mut samples, &[(2, reads), (3, writes)], &[(1, &["put"])]);
    assert_eq!(one_lock(&samples), (2, "put".to_string(), HolderState::Running));
    let mut samples = seen(&[1, 2, 3], |task, _| match task {
        1 => (Sighted::Runnable(0), 10, 0),
        _ => (futex_at(0x1000 * u64::from(task), [0, 0, 0, 0, 0]), 0, 0),
    });
    let park = ["pthread_cond_wait", "java.util.concurrent.locks.LockSupport.park"];
    let acquire = "java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire";
    let of_class =
        |inner: &str| format!("java.util.concurrent.locks.ReentrantReadWriteLock${inner}");
    let (read, write) = (of_class("ReadLock.lock"), of_class("WriteLock.lock"));
    let reads: &[&str] = &[park[0], park[1], acquire, &read, "Table.get", "Table.serve"];
    let writes: &[&str] = &[park[0], park[1], acquire, &write, "Table.put", "Table.serve"];
    let runs: &[&str] = &["Table.put", "Table.serve"];
    with_own_stacks(&mut samples, &[(2, reads), (3, writes)], &[(1, runs)]);
    assert_eq!(one_lock(&samples), (2, "Table.put".to_string(), HolderState::Running));
    // A thread of Java sleeps at a condition, and keeps the lock.
    for sighting in samples.rounds.iter_mut().map(|round| &mut round.sightings[0]) {
        sighting.doing = futex_at(0x1000, [0, 0, 0, 0, 0]);
        (sighting.run_ns, sighting.delay_ns) = (0, 0);
    }
    let sleeps: &[&str] = &[park[0], "java.lang.Thread.sleep", "Table.put", "Table.serve"];
    with_own_stacks(&mut samples, &[(1, sleeps), (2, reads), (3, writes)], &[]);
    assert_eq!(one_lock(&samples), (2, "Table.put".to_string(), HolderState::Sleeping));
}

#[test]
fn threads_that_could_run_keep_no_lock_that_one_of_them_uses() {
    // Threads 1 to 3 share a CPU; those that write never wait.
    let mut samples = seen(&[1, 2, 3, 4, 5], |task, _| match task {
        1..=3 => (Sighted::Runnable(0), 3, 7),
        _ => (futex([0, 0, 0, 0, 0]), 0, 0),
    });
    samples.trace.cpus.iter_mut().for_each(|cpus| cpus.idle_ns = 0);
    let reads: &[&str] = &["std::sys::sync::rwlock::futex::RwLock::read_contended", "get", "serve"];
    let runs: &[&str] = &["put", "serve"];
    let sampled = [(1, runs), (2, runs), (3, runs)];
    with_own_stacks(&mut samples, &[(4, reads), (5, reads)], &sampled);
    assert_eq!(one_lock(&samples), (2, "put".to_string(), HolderState::Running));
}
