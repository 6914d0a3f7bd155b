//! What else takes CPUs from their tasks.

use engines::simulated::{NS, Noise, Options, Preemption, ROWS, Simulated, Time, TimeRow};
use machine::{IpiTarget, Machine, Ordering, Until};

use super::{OPTIONS, Words, host, run, run_with_handler, within};

/// A fifth of the time of each CPU.
const NOISE: Noise = Noise { mean: 20_000 * NS, interval: 80_000 * NS };
const NOISY: Options =
    Options { warm_up: 0, length: 100_000_000 * NS, noise: Some(NOISE), ..OPTIONS };

#[test]
fn noise_takes_its_share_of_a_cpu_that_works() {
    let works = |m: &Simulated, _: &Words, _| {
        loop {
            m.work(1_000);
            m.operation_done();
        }
    };
    let outcome = run(&host(1, 2), 2, &NOISY, works).unwrap();
    let taken = outcome.rows[TimeRow::Interrupted as usize];
    // 2000 exponential lengths and intervals: the share has a standard error of 3 % of itself.
    within(taken as f64, 0.2 * 2.0 * NOISY.length as f64, 0.12);
    assert_eq!(outcome.rows.iter().sum::<u64>(), 2 * NOISY.length);
    // What is interrupted is done afterwards.
    let worked = outcome.rows[TimeRow::Work as usize];
    let done = outcome.operations.iter().sum::<u64>() * 1_000 * NS;
    assert!(worked.abs_diff(done) <= 2 * 1_000 * NS, "{worked} {done}");
}

#[test]
fn a_task_that_waits_for_one_whose_cpu_is_taken_waits_longer() {
    // Two tasks take turns, so noise on either CPU delays both.
    let alternates = |m: &Simulated, words: &Words, task: usize| {
        loop {
            m.await_until(&words.turn, Until::equals(task as u32), Ordering::Acquire);
            m.work(1_000);
            words.turn.store(m, 1 - task as u32, Ordering::Release);
            m.operation_done();
        }
    };
    let rate = |noise| {
        let options = Options { noise, ..NOISY };
        run(&host(1, 2), 2, &options, alternates).unwrap().rate()
    };
    // One of two CPUs is taken for a fifth of the time, each once in 100 us: both work while neither is taken, and what
    // a CPU misses while it waits anyway costs nothing.
    let ratio = rate(Some(NOISE)) / rate(None);
    assert!((0.58..0.82).contains(&ratio), "{ratio}");
}

#[test]
fn the_same_noise_comes_whatever_the_tasks_do() {
    let taken = |work_ns: u64| {
        let works = |m: &Simulated, _: &Words, _| {
            loop {
                m.work(work_ns);
                m.operation_done();
            }
        };
        let outcome = run(&host(1, 3), 3, &NOISY, works).unwrap();
        outcome.rows[TimeRow::Interrupted as usize]
    };
    assert_eq!(taken(700), taken(900));
}

#[test]
fn interrupts_are_handled_once_noise_has_ended() {
    for preemption in [Preemption::BetweenOperations, Preemption::Anywhere] {
        let options = Options { preemption, length: 10_000_000 * NS, ..NOISY };
        let task = |m: &Simulated, words: &Words, task: usize| {
            if task == 1 {
                return m.work(20_000_000);
            }
            for turn in 1.. {
                words.turn.store(m, turn, Ordering::Release);
                m.send_ipi(IpiTarget::One(1));
                m.await_until(&words.other, Until::equals(turn), Ordering::Acquire);
                m.operation_done();
            }
        };
        let answer = |m: &Simulated, words: &Words, _| {
            let asked = words.turn.load(m, Ordering::Acquire);
            words.other.store(m, asked, Ordering::Release);
        };
        let outcome = run_with_handler(&host(1, 2), 2, &options, task, Some(&answer)).unwrap();
        // A round takes 2120 ns while nothing else has either CPU: about 0.64 of 10 ms.
        let rounds = outcome.operations[0];
        assert!((2_300..4_000).contains(&rounds), "{rounds}");
        let time: Time =
            ROWS.iter().zip(outcome.rows).filter(|(row, _)| row.runs()).map(|(_, t)| t).sum();
        assert_eq!(time + outcome.idle, 2 * options.length);
    }
}
