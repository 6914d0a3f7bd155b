//! Locks of small traces: who had them, and what these threads did.

use records::live::{
    Arriving, Leaving, Left, Observation, StackTaken, Switch, ThreadState, TracedTask,
};

use super::*;
use crate::observe;

const LOCK: u64 = 0x1000;

fn task(name: &str) -> TracedTask {
    TracedTask { process: 1, name: name.to_string(), waited: None, since_ns: 0 }
}

fn mutex() -> TracedWait {
    let call = "futex".to_string();
    TracedWait { call, arguments: [LOCK, 128], words: [2, 0, 3, 1, 0], ..TracedWait::default() }
}

/// A CPU's switch: who leaves and why, who arrives and who woke it when; by what name another task runs.
fn switch(at_ns: u64, from: Option<(u32, Left)>, to: Option<(u32, Option<Woken>)>) -> Switch {
    Switch {
        at_ns,
        cpu: 0,
        from: from.map(|(task, why)| Leaving {
            task,
            cpus_allowed: 2,
            unseen: None,
            ran_ns: 0,
            why,
        }),
        to: to.map(|(task, woken)| Arriving { task, woken }),
        other: String::new(),
    }
}

fn function(name: &str) -> TracedFunction {
    TracedFunction { name: name.to_string(), object: String::new(), is_named: true }
}

fn woken(at_ns: u64, waker: u32) -> Option<Woken> {
    Some(Woken { at_ns, waker, futex: Some(LOCK), by_signal: false })
}

/// What the threads with the lock did, in ns.
fn check(switches: Vec<Switch>, expected: &[(HolderState, &str, u64)]) -> ObservedLock {
    let tasks = [(1, task("a")), (2, task("b")), (3, task("c"))].into();
    let variables = [((1, LOCK), "table_lock".to_string())].into();
    let trace = Trace { edges_ns: vec![0, 100], tasks, switches, variables, ..Trace::default() };
    let observation = observe(&trace);
    let lock = observation.locks.into_iter().next().expect("there is a lock");
    assert_eq!(lock.name, "table_lock");
    let mut did: Vec<(HolderState, &str, u64)> =
        lock.holder.iter().map(|time| (time.reason, time.by.as_str(), time.ns[0])).collect();
    did.sort();
    assert_eq!(did, expected);
    let whole: u64 = did.iter().map(|(.., ns)| ns).sum();
    assert_eq!(vec![whole], lock.contended_ns);
    lock
}

#[test]
fn the_thread_that_wakes_had_the_lock_and_what_it_did_counts() {
    let hog = |switch: Switch| Switch { other: "hog".to_string(), ..switch };
    let switches = vec![
        // Thread 1 waits from 10 to 60, thread 3 has the lock: it runs until 20, and again from 50.
        switch(10, Some((1, Left::Waits(mutex()))), Some((3, None))),
        hog(switch(20, Some((3, Left::Preempted)), None)),
        hog(switch(50, None, Some((3, None)))),
        switch(70, Some((3, Left::Preempted)), Some((1, woken(60, 3)))),
    ];
    let expected = [(HolderState::Running, "", 20), (HolderState::Preempted, "hog", 30)];
    let lock = check(switches, &expected);
    assert_eq!((lock.waits, lock.wait_ns), (1, vec![50]));
}

#[test]
fn waiters_at_the_same_time_are_counted_once_by_the_clock() {
    let switches = vec![
        switch(10, Some((1, Left::Waits(mutex()))), Some((3, None))),
        // On another CPU.
        switch(20, Some((2, Left::Waits(mutex()))), None),
        switch(40, None, Some((2, woken(40, 3)))),
        switch(80, Some((2, Left::Ends)), Some((1, woken(80, 2)))),
    ];
    // Thread 3 has it until 40, thread 2 until 80.
    let lock = check(switches, &[(HolderState::Running, "", 70)]);
    assert_eq!((lock.waits, lock.wait_ns, lock.contended_ns), (2, vec![90], vec![70]));
}

#[test]
fn storage_under_a_lock_is_what_its_thread_waits_for() {
    let sync = TracedWait { call: "fdatasync".to_string(), ..TracedWait::default() };
    let by_disk = Woken { at_ns: 60, waker: 0, futex: None, by_signal: false };
    let switches = vec![
        switch(10, Some((1, Left::Waits(mutex()))), Some((3, None))),
        switch(20, Some((3, Left::Waits(sync))), None),
        switch(60, None, Some((3, Some(by_disk)))),
        switch(80, Some((3, Left::Ends)), Some((1, woken(70, 3)))),
    ];
    let expected = [(HolderState::Running, "", 20), (HolderState::InputOutput, "fdatasync", 40)];
    check(switches, &expected);
}

#[test]
fn a_wait_that_does_not_end_is_for_the_owner_that_the_mutex_names() {
    let switches = vec![switch(10, Some((1, Left::Waits(mutex()))), Some((3, None)))];
    check(switches, &[(HolderState::Running, "", 90)]);
}

#[test]
fn a_kernel_lock_is_overtaken_while_its_woken_thread_waits_for_a_cpu() {
    let wait = || Left::Waits(TracedWait { lock: LOCK, ..TracedWait::default() });
    let switches = vec![
        switch(10, Some((1, wait())), Some((3, None))),
        // On another CPU.
        switch(20, Some((2, wait())), None),
        // Thread 3 wakes the first at 30, and goes on: it has the lock again before that one runs at 50.
        switch(50, Some((3, Left::Preempted)), Some((1, woken(30, 3)))),
        switch(80, Some((1, Left::Ends)), Some((2, woken(70, 1)))),
    ];
    let tasks = [(1, task("a")), (2, task("b")), (3, task("c"))].into();
    let trace = Trace { edges_ns: vec![0, 100], tasks, switches, ..Trace::default() };
    let locks = observe(&trace).locks;
    let did: Vec<(HolderState, u64)> =
        locks[0].holder.iter().map(|time| (time.reason, time.ns[0])).collect();
    assert_eq!(did, [(HolderState::Running, 60)]);
}

#[test]
fn a_semaphore_is_a_lock_if_threads_that_wait_for_it_also_give_it_back() {
    let check = |waker: Option<u32>, ends: bool, expected: Option<WaitKind>| {
        let wait = || Left::Waits(mutex());
        let mut switches = vec![
            switch(10, Some((1, wait())), Some((3, None))),
            switch(20, Some((2, wait())), None),
        ];
        let by = |at_ns| waker.and_then(|waker| woken(at_ns, waker));
        if ends {
            switches.push(switch(50, Some((3, Left::Preempted)), Some((1, by(50)))));
            switches.push(switch(60, Some((1, wait())), Some((2, by(60)))));
        }
        let stack = |task, at_ns| TracedStack {
            at_ns,
            task,
            why: StackTaken::Waits,
            frames: vec![0, 1],
            ..TracedStack::default()
        };
        let trace = Trace {
            edges_ns: vec![0, 100],
            tasks: [(1, task("a")), (2, task("b")), (3, task("c"))].into(),
            switches,
            stacks: vec![stack(1, 10), stack(2, 20)],
            functions: vec![function("sem_wait"), function("take")],
            ..Trace::default()
        };
        let kinds: Vec<WaitKind> = observe(&trace).locks.iter().map(|lock| lock.kind).collect();
        assert_eq!(kinds, expected.into_iter().collect::<Vec<_>>(), "woken by {waker:?}");
    };
    check(Some(2), true, Some(WaitKind::Semaphore));
    check(Some(3), true, None);
    check(None, true, None);
    check(None, false, None);
}

#[test]
fn a_thread_that_is_woken_for_a_lock_is_overtaken_by_those_that_run_with_it() {
    let check = |at: u32, expected: &[(HolderState, u64)]| {
        let switches = vec![
            // Thread 1 waits from 10 to 30, thread 2 from 20 on; thread 3 wakes the first, and goes on until 70.
            switch(10, Some((1, Left::Waits(mutex()))), Some((3, None))),
            switch(20, Some((2, Left::Waits(mutex()))), None),
            switch(70, Some((3, Left::Preempted)), Some((1, woken(30, 3)))),
            switch(90, Some((1, Left::Ends)), Some((2, woken(90, 1)))),
        ];
        let stack = |task, at_ns, why, functions: &[u32]| TracedStack {
            at_ns,
            task,
            why,
            frames: functions.to_vec(),
            ..TracedStack::default()
        };
        let stacks = vec![
            stack(1, 10, StackTaken::Waits, &[0, 1, 2]),
            stack(3, 50, StackTaken::Sampled, &[at, 2]),
        ];
        let trace = Trace {
            edges_ns: vec![0, 100],
            tasks: [(1, task("a")), (2, task("b")), (3, task("c"))].into(),
            switches,
            stacks,
            functions: ["__lll_lock_wait", "update", "serve", "parse"].map(function).to_vec(),
            ..Trace::default()
        };
        let locks = observe(&trace).locks;
        let did = locks[0].holder.iter().filter(|time| time.ns[0] > 0);
        let did: Vec<(HolderState, u64)> = did.map(|time| (time.reason, time.ns[0])).collect();
        assert_eq!(did, expected, "in function {at}");
    };
    check(1, &[(HolderState::Running, 80)]);
    check(3, &[(HolderState::Running, 40), (HolderState::Preempted, 40)]);
}

#[test]
fn a_thread_that_an_idle_cpu_wakes_for_a_lock_still_waits_for_it() {
    // Thread 1 is woken at 20, and its CPU takes until 80 to run it. Thread 3 runs on another CPU meanwhile.
    let switches = vec![
        switch(5, None, Some((3, None))),
        switch(10, Some((1, Left::Waits(mutex()))), None),
        switch(80, None, Some((1, woken(20, 3)))),
    ];
    let expected = [(HolderState::Running, "", 10), (HolderState::WakeUp, "", 60)];
    let lock = check(switches.clone(), &expected);
    assert_eq!((lock.waits, &lock.wait_ns), (1, &vec![70]));
    // Samples of thread 3 show that it takes the lock again in two thirds of that time.
    let tasks = [(1, task("a")), (3, task("c"))].into();
    let stack = |task, at_ns, why, frames: &[u32]| TracedStack {
        at_ns,
        task,
        why,
        frames: frames.to_vec(),
        ..TracedStack::default()
    };
    let observe_with = |last: TracedStack| {
        let stacks = vec![
            stack(1, 10, StackTaken::Waits, &[0, 1]),
            stack(3, 30, StackTaken::Sampled, &[1]),
            stack(3, 50, StackTaken::Sampled, &[2]),
            last,
        ];
        let names = ["__lll_lock_wait", "settle", "serve", "exc_page_fault"];
        observe(&Trace {
            edges_ns: vec![0, 100],
            tasks: Clone::clone(&tasks),
            switches: switches.clone(),
            stacks,
            functions: names.map(function).to_vec(),
            ..Trace::default()
        })
    };
    let did = |observation: &Observation| -> Vec<(HolderState, u64)> {
        observation.locks[0].holder.iter().map(|time| (time.reason, time.ns[0])).collect()
    };
    let observation = observe_with(stack(3, 70, StackTaken::Sampled, &[1]));
    assert_eq!(did(&observation), [(HolderState::Running, 50), (HolderState::WakeUp, 20)]);
    // The last one is in a page fault there.
    let in_fault = TracedStack { kernel: 1, ..stack(3, 70, StackTaken::Sampled, &[3, 1]) };
    let expected =
        [(HolderState::Running, 30), (HolderState::WakeUp, 20), (HolderState::PageFault, 20)];
    assert_eq!(did(&observe_with(in_fault)), expected);
    let thread = &observation.threads[0];
    let of = |state: &ThreadState| {
        thread.states.iter().find(|time| time.state == *state).map_or(0, |time| time.ns[0])
    };
    assert_eq!((of(&ThreadState::Lock(0)), of(&ThreadState::WakeUp)), (70, 0));
}

#[test]
fn a_wait_for_the_interpreter_that_times_out_is_for_the_thread_that_gives_it_back() {
    // Thread 1 waits twice, and thread 3 gives it the lock at the end of the second wait.
    let waits = || Some((1, Left::Waits(TracedWait { words: [0; 5], ..mutex() })));
    let switches = vec![
        switch(5, None, Some((3, None))),
        switch(10, waits(), None),
        switch(
            30,
            None,
            Some((1, Some(Woken { at_ns: 25, waker: 0, futex: None, by_signal: false }))),
        ),
        switch(32, waits(), None),
        switch(60, None, Some((1, woken(50, 3)))),
    ];
    let stack = |at_ns| TracedStack {
        at_ns,
        task: 1,
        why: StackTaken::Waits,
        frames: vec![0, 1],
        ..TracedStack::default()
    };
    let trace = Trace {
        edges_ns: vec![0, 100],
        tasks: [(1, task("a")), (3, task("c"))].into(),
        switches,
        stacks: vec![stack(10), stack(32)],
        functions: ["take_gil", "serve"].map(function).to_vec(),
        ..Trace::default()
    };
    let observation = observe(&trace);
    let lock = &observation.locks[0];
    let did: Vec<(HolderState, u64)> =
        lock.holder.iter().map(|time| (time.reason, time.ns[0])).collect();
    assert_eq!(did, [(HolderState::Running, 38), (HolderState::WakeUp, 10)]);
    assert_eq!(lock.contended_ns, [48]);
}
