//! Screens of one answer, as text.

use expect_test::{Expect, expect};
use records::live::{
    CpuUse, HolderState, HolderTime, LockPlace, Observation, ObservedLock, ObservedThread,
    ObservedWindow, OtherTask, SampledAt, StateTime, ThreadState, WaitKind,
};

use super::*;

/// In ms of two windows of half a second.
fn ms(first: u64, second: u64) -> Vec<u64> {
    vec![first * 1_000_000, second * 1_000_000]
}

fn worker(task: u32) -> ObservedThread {
    let state = |state, ns, times| StateTime { state, ns, times };
    ObservedThread {
        task,
        process: 4711,
        name: format!("worker-{task}"),
        states: vec![
            state(ThreadState::Running, ms(50, 40), 400),
            state(ThreadState::Lock(0), ms(400, 420), 390),
            state(ThreadState::Sleep, ms(50, 40), 380),
        ],
        samples: vec![SampledAt {
            stack: vec!["checksum".to_string(), "append".to_string()],
            call: String::new(),
            times: 9,
            offset: 0,
        }],
    }
}

fn place(function: &str, callers: &[&str], ms: u64) -> LockPlace {
    let callers = callers.iter().map(ToString::to_string).collect();
    LockPlace { function: function.to_string(), callers, times: 12, ns: ms * 1_000_000 }
}

fn seen() -> Seen {
    let holder = |reason, by: &str, ns| HolderTime { reason, by: by.to_string(), ns };
    let lock = ObservedLock {
        name: "journal_lock".to_string(),
        kind: WaitKind::Mutex,
        process: 4711,
        address: 0x4040,
        locks: 1,
        waits: 1170,
        waits_begun: vec![580, 590],
        wait_ns: ms(1200, 1260),
        contended_ns: ms(490, 495),
        waited_in: vec![place("append", &["serve", "start_thread"], 2460)],
        held_in: vec![place("append", &["serve", "start_thread"], 985)],
        holder: vec![
            holder(HolderState::Sleeping, "clock_nanosleep", ms(400, 410)),
            holder(HolderState::Preempted, "hog", ms(90, 85)),
        ],
    };
    let other = OtherTask { name: "hog".to_string(), ns: 300_000_000 };
    let window = ObservedWindow {
        ns: 500_000_000,
        operations: None,
        cpus: CpuUse {
            subject_ns: 150_000_000,
            idle_ns: 500_000_000,
            others_ns: 350_000_000,
            stolen_ns: 0,
            others: vec![other],
        },
    };
    let observation = Observation {
        subject: "server (pid 4711)".to_string(),
        host: "host".to_string(),
        online_cpus: 2,
        allowed_cpus: 2,
        windows: vec![window.clone(), window],
        threads: (1..=3).map(worker).collect(),
        locks: vec![lock],
        missing: [("samples".to_string(), "refused".to_string())].into(),
        whole_stacks: 1.0,
        own_ns: vec![3_000_000, 5_000_000],
        ..Observation::default()
    };
    let answer = live::answer(&observation);
    Seen { observation, answer }
}

/// The screen at the end of a walk from the overview, with emphasis as letters.
fn check(steps: &[Step], (columns, rows): (usize, usize), expected: &Expect) {
    let seen = seen();
    let mut walk = Walk::from(Place::Overview);
    let footer = footer(&seen.answer);
    let shown = |walk: &Walk| {
        let frame = Frame { columns, rows, footer: &footer, chosen: walk.chosen() };
        let page = page(&seen, walk.place());
        let is_overview = *walk.place() == Place::Overview;
        (if is_overview { page.shortened(&frame) } else { page }, frame)
    };
    for step in steps {
        let (page, _) = shown(&walk);
        walk.step(*step, &page);
    }
    let (page, frame) = shown(&walk);
    let lines = lines(&page, &frame);
    assert_eq!(lines.len(), rows);
    assert!(lines.iter().all(|line| line.text.chars().count() <= columns));
    let line = |line: &ScreenLine| {
        let letter = match line.emphasis {
            Emphasis::Plain => ' ',
            Emphasis::Bold => 'b',
            Emphasis::Chosen => 'c',
            Emphasis::Dim => 'd',
        };
        format!("{}\n", format!("{letter}|{}", line.text).trim_end())
    };
    expected.assert_eq(&lines.iter().map(line).collect::<String>());
}

#[test]
fn the_overview_has_threads_locks_and_cpu_time() {
    check(
        &[],
        (100, 24),
        &expect![[r#"
        b|server (pid 4711), last 1.0 s in 2 windows
         |Threads wait for `journal_lock` 98 ± 6 % of the time, 2.5 threads at a time: waited for in append,
         |held in append. The thread that has it sleeps (clock_nanosleep) 82 % of that time (without that, at
         |most 5.3 times the rate), waits to run behind `hog` 18 % of that time (without that, at most 21 %
         |more). Without it, at most 10.1 times the rate
        b|  threads of  number  busiest   run  could run  for locks  storage  for work  mostly in
        c|> worker-#         3      9 %  0.27       0.00       2.46     0.00      0.27  sleep
         |
        b|  lock          contended  waiting  its thread
         |  journal_lock     98.5 %     2.46  sleeps (clock_nanosleep) 82 %, waits to run behind `hog` 18 %
         |
        b|  CPU time        per second  of all CPUs  samples
         |  user code           300 ms       15.0 %       27
         |  other programs      700 ms       35.0 %
         |  idle                   1 s       50.0 %
         |
         |
         |
         |
         |
         |
         |
         |
        d|knee took 0.40 % of the CPUs, not seen: samples
    "#]],
    );
}

#[test]
fn a_lock_has_its_holder_and_its_places() {
    check(
        &[Step::NextBlock, Step::In],
        (90, 20),
        &expect![[r#"
        b|server (pid 4711), last 1.0 s in 2 windows, journal_lock
         |Threads wait for `journal_lock` 98 ± 6 % of the time, 2.5 threads at a time: waited for in
         |append, held in append. The thread that has it sleeps (clock_nanosleep) 82 % of that time
         |(without that, at most 5.3 times the rate), waits to run behind `hog` 18 % of that time
         |(without that, at most 21 % more). Without it, at most 10.1 times the rate
        b|  the thread that has it      share    time
        c|> sleeps (clock_nanosleep)   82.2 %  810 ms
         |  waits to run behind `hog`  17.8 %  175 ms
         |
        b|  waited for in    share  stacks  called by
         |  append         100.0 %      12  serve ← start_thread
         |
        b|  held in    share  stacks  called by
         |  append   100.0 %      12  serve ← start_thread
         |
         |
         |
         |
         |
        d|knee took 0.40 % of the CPUs, not seen: samples
    "#]],
    );
}

#[test]
fn threads_have_states_and_functions() {
    check(
        &[Step::In],
        (90, 24),
        &expect![[r#"
        b|server (pid 4711), last 1.0 s in 2 windows, threads of worker-#
         |3 threads: 0.27 run at a time, 0.00 could run, 2.46 wait for locks, 0.00 for storage, 0.27
         |for work
        b|  they                   threads  times/s    mean
        c|> wait for journal_lock     2.46    1.17k  2.1 ms
         |  run                       0.27     1.2k  225 us
         |  sleep                     0.27    1.14k  237 us
         |
        b|  function that runs  of samples  samples  called by
         |  checksum               100.0 %       27  append
         |
        b|  thread   runs  for locks  name
         |       1  9.0 %     82.0 %  worker-1
         |       2  9.0 %     82.0 %  worker-2
         |       3  9.0 %     82.0 %  worker-3
         |
         |
         |
         |
         |
         |
         |
         |
        d|knee took 0.40 % of the CPUs, not seen: samples
    "#]],
    );
}

#[test]
fn a_row_of_the_ledger_has_its_functions() {
    check(
        &[Step::NextBlock, Step::NextBlock, Step::In],
        (80, 12),
        &expect![[r#"
        b|server (pid 4711), last 1.0 s in 2 windows, user code
         |user code takes 300 ms, 15.0 % of all CPUs
        b|  function  per second  of all CPUs  samples
        c|> checksum      300 ms       15.0 %       27
         |
         |
         |
         |
         |
         |
         |
        d|knee took 0.40 % of the CPUs, not seen: samples
    "#]],
    );
}

#[test]
fn a_small_screen_scrolls_to_the_chosen_row() {
    check(
        &[Step::NextBlock],
        (40, 10),
        &expect![[r#"
        b|server (pid 4711), last 1.0 s in 2 wind…
         |Threads wait for `journal_lock` 98 ± 6 %
         |of the time, 2.5 threads at a time: …
        b|  threads of  number  busiest   run
         |  worker-#         3      9 %  0.27
        b|  lock          contended  waiting
        c|> journal_lock     98.5 %     2.46
        b|  CPU time   per second  of all CPUs
         |  user code      300 ms       15.0 %
        d|knee took 0.40 % of the CPUs, not seen:…
    "#]],
    );
}

#[test]
fn what_is_gone_says_so() {
    let seen = seen();
    let page = page(&seen, &Place::Lock("other".to_string()));
    assert!(page.said.starts_with("Nobody waited for this lock"), "{}", page.said);
}

#[test]
fn blocks_that_do_not_fit_lead_to_the_whole() {
    let mut seen = seen();
    let lock = seen.observation.locks[0].clone();
    let named = |n: u32| ObservedLock { name: format!("lock {n:02}"), ..lock.clone() };
    seen.observation.locks = (0..30).map(named).collect();
    seen.answer = live::answer(&seen.observation);
    let frame = Frame { columns: 80, rows: 24, footer: "", chosen: 0 };
    let short = page(&seen, &Place::Overview).shortened(&frame);
    let locks = &short.blocks[1];
    let left = 31 - locks.leads_to.len();
    assert_eq!(locks.leads_to.last(), Some(&Some(Place::Block(1))));
    assert_eq!(locks.table.rows().last().unwrap()[0], format!("… {left} more"));
    let whole = page(&seen, &Place::Block(1));
    assert_eq!(whole.blocks[0].leads_to.len(), 30);
    assert!(lines(&short, &frame).iter().any(|line| line.text.contains("more")));
}
