//! `kill -9` at random instants: while measuring, finishing, resuming, recovering. A run
//! that had been printed is never lost, nothing is whole that is not, no process and no
//! scratch stays.
//!
//! KNEE_KILLS=5000 kills more often; KNEE_SEED repeats the choices, though not the instants
//! to the nanosecond.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use records::{Opened, RecordState, Run};

use crate::home::{Home, entries};
use crate::random::{choices, times};
use crate::skip::skip;

const KILLS: u64 = 210;

/// What is measured when knee is killed: short runs, as many in a record as said.
const LOADS: &[(&str, usize)] = &[
    ("create_files --blocks 4", 4),
    ("create_files getppid --blocks 3", 6),
    ("flock_own --as processes,threads --blocks 2", 4),
    ("page_fault_anonymous --set size_bytes=1M --latency --blocks 2", 4),
    ("context_switch create_files --as threads --blocks 2", 4),
];

#[test]
fn no_kill_at_any_instant_loses_a_run_that_was_printed() {
    let mut random = choices("no_kill_at_any_instant_loses");
    let wanted = times("KNEE_KILLS", KILLS);
    let (mut kills, mut runs, mut homes) = (0, 0, 0);
    while kills < wanted {
        let record = Record::kill_until_whole(&mut random);
        kills += record.kills;
        runs += record.printed.len();
        homes += 1;
    }
    println!("{kills} kills, {homes} records, {runs} runs printed, none lost");
}

/// One record, and what is known about it from outside.
struct Record {
    home: Home,
    command: String,
    planned: usize,
    /// Every run that knee has printed, by number.
    printed: BTreeMap<u32, Run>,
    kills: u64,
}

impl Record {
    /// Begins a record, kills knee some times on its way, lets it end in peace.
    fn kill_until_whole(random: &mut Xoshiro256PlusPlus) -> Record {
        let (load, planned) = LOADS[random.random_range(0..LOADS.len())];
        let command = format!("run {load} --cpus 1 --tasks 2 --seconds 0.02 --seed 1 --json");
        let home = Home::new();
        let mut record = Record { home, command, planned, printed: BTreeMap::new(), kills: 0 };
        for _ in 0..random.random_range(1..12) {
            if record.start_and_kill(random) {
                break;
            }
        }
        record.end_in_peace();
        record
    }

    /// Whether the record is whole.
    fn start_and_kill(&mut self, random: &mut Xoshiro256PlusPlus) -> bool {
        let command = self.next_command();
        let missing = self.planned - self.printed.len();
        let mut running = self.home.start(&mut self.home.knee(&command));
        let delay_us = if random.random_bool(0.5) {
            // Anywhere: a run takes some 50 ms.
            random.random_range(0..=20_000 + 60_000 * missing as u64)
        } else {
            // Soon after a run was printed, the last one too: the record is being written.
            running.wait_for_runs(random.random_range(0..=missing));
            2_u64.pow(random.random_range(0..15))
        };
        std::thread::sleep(Duration::from_micros(delay_us));
        let ended = running.has_ended();
        running.signal(libc::SIGKILL);
        let status = running.end().status;
        self.home.wait_for_quiet();
        self.remember_printed();
        if ended {
            self.check_ended(status.code());
        } else {
            self.kills += 1;
        }
        // Else the next start recovers, and may be killed while it does.
        if ended || random.random_bool(0.5) {
            self.recover();
        }
        self.check_seen();
        self.whole()
    }

    /// The command that goes on with what is there.
    fn next_command(&self) -> String {
        let nothing_kept = self.home.records().is_empty() && self.home.growing().is_empty();
        assert!(!nothing_kept || self.printed.is_empty(), "the record is gone");
        if nothing_kept { self.command.clone() } else { format!("{} --resume", self.command) }
    }

    fn remember_printed(&mut self) {
        for run in self.home.printed() {
            let other = self.printed.insert(run.run, run.clone());
            assert!(other.is_none_or(|other| other == run), "two runs have one number");
        }
    }

    /// A knee that was not killed did all it had to; or found nothing to resume, because
    /// what was killed had kept nothing, or everything.
    fn check_ended(&self, status: Option<i32>) {
        let said = self.home.said("stderr");
        let nothing_to_resume = status == Some(2) && said.contains("no partial record");
        assert!(status == Some(0) || nothing_to_resume, "ended with {status:?}: {said}");
    }

    fn recover(&self) {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        self.home.store().recover(host.trim()).expect("recovering");
    }

    /// If the record can be seen, it has all that was printed, and says truly whether it is
    /// whole.
    fn check_seen(&self) {
        let records = self.home.records();
        assert!(records.len() <= 1, "one record was begun");
        let Some(record) = records.first() else {
            assert!(
                self.printed.is_empty() || !self.home.growing().is_empty(),
                "the record is gone"
            );
            return;
        };
        self.check_record(record);
    }

    fn check_record(&self, record: &Opened) {
        let runs = &record.runs;
        let cells: BTreeSet<(u32, u32)> = runs.iter().map(|run| (run.block, run.point)).collect();
        assert_eq!(cells.len(), runs.len(), "a run was done twice");
        for (at, run) in runs.iter().enumerate() {
            assert_eq!(run.run, at as u32, "runs are numbered in order");
        }
        for (number, run) in &self.printed {
            assert_eq!(runs.get(*number as usize), Some(run), "a printed run was lost");
        }
        assert_eq!(record.record.runs_planned(), Some(self.planned as u32));
        let whole = record.record.state == RecordState::Whole;
        assert!(!whole || runs.len() == self.planned, "whole with {} runs", runs.len());
        assert_ne!(record.record.state, RecordState::Growing, "seen while it grows");
        let sealed = record.record.warnings.iter().all(|w| !w.text.contains("has changed since"));
        assert!(sealed, "the seal is broken: {:?}", record.record.warnings);
        let finished = runs.iter().filter(|run| run.finished()).map(|run| run.run);
        let samples = store::samples(record).expect("reading the samples");
        let sampled: BTreeSet<u32> = samples.iter().map(|(run, _)| *run).collect();
        assert_eq!(sampled, finished.collect(), "samples of each finished run");
    }

    fn whole(&self) -> bool {
        self.home.records().first().is_some_and(|r| r.record.state == RecordState::Whole)
    }

    fn end_in_peace(&mut self) {
        self.recover();
        if !self.whole() {
            let ended = self.home.resume(&self.next_command());
            if ended.is_refused() {
                skip("a killed record that is resumed", &ended.stderr);
                return self.check_seen();
            }
            let runs: Vec<u32> = self.printed.keys().copied().collect();
            assert_eq!(ended.status.code(), Some(0), "{} after runs {runs:?}", ended.stderr);
            self.remember_printed();
        } else {
            // Any start tidies up; this one has nothing else to do.
            self.home.run(&format!("{} --resume", self.command));
        }
        self.check_seen();
        assert!(self.whole(), "the end of it is a whole record");
        self.home.check_nothing_is_left();
        let folder = self.home.record().folder;
        let mut files: Vec<String> =
            entries(&folder).iter().map(|f| f.file_name().unwrap().display().to_string()).collect();
        // The plan goes last, when the record can be seen already, and disturbs nobody.
        files.retain(|name| name != "plan.json");
        files.sort();
        assert_eq!(files, ["record.json", "runs.ndjson", "samples.parquet"]);
    }
}
