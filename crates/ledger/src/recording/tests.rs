//! Ledgers of handmade recordings.

use records::recording::{Location, Loss, Origin, SampledEvent};

use super::*;

const MS: u64 = 1_000_000;

/// Two CPUs for 100 ms, sampled each ms: CPU 0 works, CPU 1 is idle.
fn recording() -> Recording {
    let mut recording = Recording {
        origin: Origin { cpus_online: Some(2), ..Origin::default() },
        event: SampledEvent { name: "cpu-clock".to_string(), is_clock: true, hertz: Some(1000) },
        all_cpus: true,
        tasks: ["swapper", "load", "perf"].map(str::to_string).to_vec(),
        objects: vec![Default::default()],
        ..Recording::default()
    };
    for (index, name) in
        ["spin", "do_syscall_64", "__x64_sys_fcntl", "halt"].into_iter().enumerate()
    {
        recording.functions.push(Function { name: name.to_string(), object: 0, known: true });
        let location = Location {
            object: 0,
            address: index as u64,
            function: index as u32,
            after_system_call: false,
        };
        recording.locations.push(location);
    }
    recording.chains.push([0, 2, 1].into_iter(), 3).unwrap();
    recording.chains.push([3].into_iter(), 1).unwrap();
    for ms in 1..=100 {
        for cpu in 0..2 {
            let task = if cpu == 0 { 1 } else { 0 };
            recording.samples.push(PerfSample {
                time_ns: ms * MS,
                cpu,
                pid: task as i32 * 10,
                tid: task as i32 * 10,
                task,
                chain: cpu,
                period: MS,
                mode: CpuMode::Kernel,
            });
        }
    }
    recording
}

fn ledger(recording: &Recording, question: &RecordingQuestion) -> RecordedLedger {
    let recorded = ledgers_from_recordings(&[(recording, question)]).remove(0);
    assert_eq!(recorded.ledger.broken(), None);
    recorded
}

#[test]
fn samples_tile_the_time_of_all_cpus() {
    let recorded = ledger(&recording(), &RecordingQuestion::default());
    assert_eq!(recorded.whole, Whole::CpusTime { cpus: 2 });
    assert_eq!(recorded.ledger.units.len(), 10);
    assert_eq!(recorded.ledger.root.total_ns(), 2 * 99 * MS);
    let row = |path: &[&str]| recorded.ledger.find(path).map_or(0, LedgerRow::total_ns);
    assert_eq!(row(&[IDLE]), 99 * MS);
    assert_eq!(row(&[WORK, "system call fcntl"]), 99 * MS);
    assert_eq!(row(&[UNSEEN]), 0);
}

#[test]
fn a_cpu_without_a_task_is_unused_and_one_whose_task_waits_is_not() {
    let check = |busy_ms: fn(u64, u32) -> bool, unused_ms: u64| {
        let mut recording = recording();
        for sample in &mut recording.samples {
            let task = u32::from(busy_ms(sample.time_ns / MS, sample.cpu));
            (sample.task, sample.pid, sample.tid) = (task, 10 * task as i32, 10 * task as i32);
        }
        let recorded = ledger(&recording, &RecordingQuestion::default());
        let row = recorded.ledger.find(&[IDLE, NO_TASK]).map_or(0, LedgerRow::total_ns);
        assert_eq!(row, unused_ms * MS);
    };
    // One task, which moves to the other CPU.
    check(|ms, cpu| (ms < 50) == (cpu == 0), 99);
    // Two tasks, of which one waits for half of the time.
    check(|ms, cpu| cpu == 0 || ms < 50, 0);
}

#[test]
fn gaps_and_cpus_without_samples_are_rows() {
    let mut recording = recording();
    recording.samples.retain(|s| s.cpu == 1 || !(30 * MS..60 * MS).contains(&s.time_ns));
    recording.origin.cpus_online = Some(3);
    recording.losses.push(Loss { time_ns: 60 * MS, samples: 10 });
    let recorded = ledger(&recording, &RecordingQuestion::default());
    let row = |path: &[&str]| recorded.ledger.find(path).map_or(0, LedgerRow::total_ns);
    assert_eq!(recorded.ledger.root.total_ns(), 3 * 99 * MS);
    assert_eq!(row(&[LOST]), 10 * MS);
    assert_eq!(row(&[UNSEEN]), (30 - 10) * MS);
    // The idle CPU, and the one that was never sampled: one task needs one CPU.
    assert_eq!(row(&[IDLE, NO_TASK]), 2 * 99 * MS);
}

#[test]
fn samples_of_tasks_or_of_other_events_add_up_to_their_periods() {
    let mut recording = recording();
    recording.all_cpus = false;
    recording.event.is_clock = false;
    recording.event.name = "cycles".to_string();
    recording.samples.retain(|sample| sample.cpu == 0);
    let question = RecordingQuestion { operations: Some(1000), tasks: Vec::new() };
    let recorded = ledger(&recording, &question);
    assert_eq!(recorded.whole, Whole::Samples);
    assert_eq!(recorded.measure, Measure::Events("cycles".to_string()));
    assert_eq!(recorded.ledger.root.total_ns(), 100 * MS);
    assert_eq!(recorded.ledger.units.iter().map(|unit| unit.operations).sum::<u64>(), 1000);
}

#[test]
fn tasks_that_the_user_did_not_name_are_others() {
    let question = RecordingQuestion { operations: None, tasks: vec!["else".to_string()] };
    let recorded = ledger(&recording(), &question);
    assert_eq!(recorded.ledger.find(&[OTHERS, "load"]).unwrap().total_ns(), 99 * MS);
    assert!(recorded.ledger.find(&[WORK]).is_none());
}

#[test]
fn impossible_times_do_no_harm() {
    let mut recording = recording();
    recording.samples[0].time_ns = 0;
    recording.samples.last_mut().unwrap().time_ns = u64::MAX;
    assert_eq!(ledger(&recording, &RecordingQuestion::default()).whole, Whole::Samples);
    recording.samples.truncate(1);
    ledger(&recording, &RecordingQuestion::default());
}
