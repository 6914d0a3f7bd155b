//! Causes of small observations, and their gains.

use records::live::{HolderTime, ObservedWindow, SampledAt, StateTime};

use super::*;

/// One second on four CPUs, in which `runs` threads run and the others wait for these locks.
fn observation(runs: usize, locks: Vec<ObservedLock>) -> Observation {
    let thread = |state: ThreadState| ObservedThread {
        states: vec![StateTime { state, ns: vec![1_000], times: 1 }],
        ..ObservedThread::default()
    };
    Observation {
        online_cpus: 4,
        allowed_cpus: 4,
        windows: vec![ObservedWindow { ns: 1_000, ..ObservedWindow::default() }],
        threads: (0..runs).map(|_| thread(ThreadState::Running)).collect(),
        locks,
        ..Observation::default()
    }
}

/// A lock for which so many threads wait all the time, and what its holder does in thousandths of it.
fn lock(name: &str, waits: u64, holder: &[(HolderState, &str, u64)]) -> ObservedLock {
    let time = |(reason, by, ns): &(HolderState, &str, u64)| HolderTime {
        reason: *reason,
        by: by.to_string(),
        ns: vec![*ns],
    };
    ObservedLock {
        name: name.to_string(),
        wait_ns: vec![1_000 * waits],
        contended_ns: vec![1_000],
        holder: holder.iter().map(time).collect(),
        ..ObservedLock::default()
    }
}

/// Names of locks with their gains.
fn gains(observation: &Observation) -> Vec<(String, f64)> {
    let gain = |cause: &LiveCause| (cause.gain.unwrap() * 10.0).round() / 10.0;
    causes(observation).iter().map(|cause| (cause.name.clone(), gain(cause))).collect()
}

#[test]
fn a_lock_gains_its_waiters_or_the_cpus_that_are_left() {
    let check = |waits, gain| {
        let table = lock("table", waits, &[(HolderState::Running, "", 1_000)]);
        assert_eq!(gains(&observation(1, vec![table])), [("table".to_string(), gain)]);
    };
    check(2, 3.0);
    check(9, 4.0);
}

#[test]
fn a_page_fault_that_waits_needs_no_cpu() {
    let check = |state: ThreadState, gain: f64| {
        let mut observation =
            observation(1, vec![lock("table", 9, &[(HolderState::PageFault, "", 1_000)])]);
        observation.threads[0].states[0].state = state;
        assert_eq!(gains(&observation)[0], ("table".to_string(), gain));
    };
    check(ThreadState::Running, 4.0);
    check(ThreadState::PageFault, 10.0);
}

#[test]
fn a_reason_gains_its_part_of_the_turns() {
    let holder = [(HolderState::PageFault, "", 600), (HolderState::Running, "", 400)];
    let causes = causes(&observation(1, vec![lock("table", 9, &holder)]));
    let gains: Vec<f64> = causes[0].holder.iter().filter_map(|holder| holder.gain).collect();
    assert!((gains[0] - 2.5).abs() < 1e-9 && (gains[1] - 1.0 / 0.6).abs() < 1e-9, "{gains:?}");
    // Never more than without the lock.
    let all = lock("table", 2, &[(HolderState::PageFault, "", 1_000)]);
    assert_eq!(super::causes(&observation(1, vec![all]))[0].holder[0].gain, Some(3.0));
}

#[test]
fn while_others_spin_for_a_lock_of_the_kernel_its_holder_runs() {
    let place =
        |function: &str| LockPlace { function: function.to_string(), ..LockPlace::default() };
    let check =
        |spinning: u64, holder: &[(HolderState, &str, u64)], expected: &[(HolderState, f64)]| {
            let inode = ObservedLock {
                kind: WaitKind::Kernel,
                waited_in: vec![place("shmem_fallocate")],
                contended_ns: vec![250],
                ..lock("inode", 1, holder)
            };
            let sample = |functions: [&str; 2], times| SampledAt {
                stack: functions.map(|name| format!("{name}_[k]")).to_vec(),
                times,
                ..SampledAt::default()
            };
            let mut observation = observation(1, vec![inode]);
            observation.threads[0].samples = vec![
                sample(["rwsem_spin_on_owner", "shmem_fallocate"], spinning),
                sample(["clear_page", "shmem_fallocate"], 1_000 - spinning),
            ];
            let causes = causes(&observation);
            let of_lock = causes.iter().find(|cause| cause.cause == LiveCauseKind::KernelLock);
            let shares: Vec<(HolderState, f64)> = of_lock
                .unwrap_or_else(|| panic!("{causes:?}"))
                .holder
                .iter()
                .map(|one| (one.reason, (one.share * 100.0).round() / 100.0))
                .collect();
            assert_eq!(shares, expected, "{spinning} of 1000 spin");
        };
    let slept = [(HolderState::WakeUp, "", 150), (HolderState::Running, "", 100)];
    check(0, &slept, &[(HolderState::WakeUp, 0.6), (HolderState::Running, 0.4)]);
    // A quarter of the time asleep, half of it spinning.
    check(500, &slept, &[(HolderState::Running, 0.8), (HolderState::WakeUp, 0.2)]);
    let handed_on = [(HolderState::WakeUp, "", 250)];
    check(500, &handed_on, &[(HolderState::Running, 0.67), (HolderState::WakeUp, 0.33)]);
}

#[test]
fn a_lock_whose_holder_waits_for_another_comes_after_that() {
    let outer =
        lock("outer", 2, &[(HolderState::Lock, "inner", 900), (HolderState::Running, "", 100)]);
    let inner = lock("inner", 1, &[(HolderState::Running, "", 1_000)]);
    // Two of the waiters of the outer lock wait for the inner one, nine tenths of the time.
    let expected = [("inner".to_string(), 3.8), ("outer".to_string(), 1.2)];
    assert_eq!(gains(&observation(1, vec![outer, inner])), expected);
}

#[test]
fn a_lock_whose_holder_waits_for_work_limits_nothing() {
    let check = |by: &str, expected: &[&str]| {
        let table = lock("table", 2, &[(HolderState::Sleeping, by, 1_000)]);
        let names: Vec<String> =
            gains(&observation(2, vec![table])).into_iter().map(|g| g.0).collect();
        assert_eq!(names, expected, "{by}");
    };
    check(WORK_QUEUE, &[]);
    check("accept4", &[]);
    check("recvfrom", &["table"]);
}

#[test]
fn one_busy_thread_limits_unless_most_of_the_time_is_waited_for_a_lock() {
    let check = |contended: u64, expected: &[&str]| {
        let mut queue = lock("queue", 1, &[(HolderState::Running, "", contended)]);
        (queue.wait_ns, queue.contended_ns) = (vec![contended], vec![contended]);
        let mut seen = observation(1, vec![queue]);
        seen.threads[0].name = "log".to_string();
        let names: Vec<String> = gains(&seen).into_iter().map(|g| g.0).collect();
        assert_eq!(names, expected, "{contended}");
    };
    check(340, &["log", "queue"]);
    check(900, &["queue"]);
}
