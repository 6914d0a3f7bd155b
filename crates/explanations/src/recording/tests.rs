//! Views of a recording made by hand: 40 ms of two CPUs by a clock of 1 ms.

use expect_test::{Expect, expect};
use ledger::{RecordingQuestion, difference, ledgers_from_recordings, recording_from_looks};
use records::recording::{Function, Location, Object, Origin, SampledEvent};
use records::{CpuMode, Profile};
use serde_json::Value;

use crate::ledger::{LedgerNode, LedgerPart};
use crate::recording::*;

const MS: u64 = 1_000_000;

const FUNCTIONS: [(&str, u32); 6] = [
    ("main", 1),
    ("fcntl", 2),
    ("entry_SYSCALL_64", 0),
    ("__x64_sys_fcntl", 0),
    ("native_queued_spin_lock_slowpath", 0),
    ("pv_native_safe_halt", 0),
];

/// CPU 0 works, the last part of it in a lock; CPU 1 is idle.
fn recording(spins: u64) -> Recording {
    let objects = ["[kernel]", "/usr/bin/load", "/usr/lib/libc.so.6"];
    let object = |path: &str| Object { path: path.to_string(), build_id: Vec::new() };
    let mut recording = Recording {
        origin: Origin {
            host: "lab1".to_string(),
            release: "6.12.0".to_string(),
            cpus_online: Some(2),
            ..Origin::default()
        },
        event: SampledEvent { name: "cpu-clock".to_string(), is_clock: true, hertz: Some(1000) },
        all_cpus: true,
        tasks: ["swapper", "load"].map(str::to_string).to_vec(),
        objects: objects.map(object).to_vec(),
        ..Recording::default()
    };
    for (index, (name, object)) in FUNCTIONS.into_iter().enumerate() {
        recording.functions.push(Function { name: name.to_string(), object, known: true });
        let (address, function) = (64 * index as u64, index as u32);
        recording.locations.push(Location { object, address, function, after_system_call: false });
    }
    let chains: [(&[u32], u32); 3] = [(&[0], 0), (&[4, 3, 2, 1, 0], 3), (&[5], 1)];
    for (frames, kernel) in chains {
        recording.chains.push(frames.iter().copied(), kernel).unwrap();
    }
    let all = 20 + spins;
    for ms in 0..=all {
        for cpu in 0..2 {
            let in_lock = (ms * spins) % all < spins;
            let (task, chain, mode) = match (cpu, in_lock) {
                (1, _) => (0, 2, CpuMode::Kernel),
                (_, true) => (1, 1, CpuMode::Kernel),
                (_, false) => (1, 0, CpuMode::User),
            };
            let pid = 100 * task as i32;
            let time_ns = ms * MS;
            recording.samples.push(PerfSample {
                time_ns,
                cpu,
                pid,
                tid: pid,
                task,
                chain,
                period: MS,
                mode,
            });
        }
    }
    recording
}

fn named(recording: &Recording) -> NamedRecording<'_> {
    NamedRecording { name: "perf.data", recording, operations: Some(1000) }
}

/// A part as lines that need no page.
fn lines(part: &LedgerPart) -> String {
    let mut lines = vec![part.title.clone(), part.answer.clone()];
    lines.extend(part.causes.iter().cloned());
    part.tree.iter().for_each(|tree| rows(&tree.root, 0, &mut lines));
    lines.extend(part.tables.iter().map(|(caption, table)| format!("{caption}\n{}", table.text())));
    lines.extend(part.notes.iter().map(|note| format!("- {note}")));
    lines.join("\n") + "\n"
}

fn rows(row: &LedgerNode, depth: usize, lines: &mut Vec<String>) {
    let cells: Vec<&str> = row.values.iter().chain(&row.details).map(String::as_str).collect();
    lines.push(format!("{}{}: {}", "  ".repeat(depth), row.name, cells.join(", ")));
    row.rows.iter().for_each(|part| rows(part, depth + 1, lines));
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(text);
}

#[test]
fn a_ledger_shows_all_time_and_how_sure_it_is() {
    let recording = recording(20);
    let question = RecordingQuestion { operations: Some(1000), tasks: Vec::new() };
    let recorded = ledgers_from_recordings(&[(&recording, &question)]);
    check(
        &lines(&recording_part(&named(&recording), &recorded[0])),
        expect![[r#"
            perf.data
            An operation takes 80 us: 50 % idle (40 us), 25 % system call fcntl (20 us), 25 % user code (20 us)
            perf.data: all time of 2 CPUs, by cpu-clock, 82 samples in 40 ms on lab1, Linux 6.12.0
            all: 80 us, -, 100.00 %, 41
              the workload: 40 us, 0 ns, 50.00 %, 41
                system call fcntl: 20 us, 13.5 us, 25.00 %, 21
                  interrupts off, until native_queued_spin_lock_slowpath in __x64_sys_fcntl: 20 us, 13.5 us, 25.00 %, 21
                user code: 20 us, 13.5 us, 25.00 %, 20
                  main: 20 us, 13.5 us, 25.00 %, 20
              idle: 40 us, 0 ns, 50.00 %, 0
                no task of the workload: 40 us, 0 ns, 50.00 %, -
            - Per operation: --operations gives 1000 operations, taken as spread evenly over the recording.
            - Intervals are 95 %, from 10 parts of this one recording; they do not include differences from run to run.
        "#]],
    );
}

#[test]
fn a_difference_begins_with_its_cause_and_adds_up() {
    let (base, new) = (recording(20), recording(400));
    let question = RecordingQuestion { operations: Some(1000), tasks: Vec::new() };
    let recorded = ledgers_from_recordings(&[(&base, &question), (&new, &question)]);
    let difference = difference(&recorded[0].ledger, &recorded[1].ledger);
    let both = [&named(&base), &named(&new)];
    check(
        &lines(&changes_part(both, [&recorded[0], &recorded[1]], &difference)),
        expect![[r#"
            perf.data → perf.data
            `perf.data` takes 380 us more per operation than `perf.data`, mostly because system call fcntl > interrupts off, until native_queued_spin_lock_slowpath in __x64_sys_fcntl takes 380 us more
            perf.data: all time of 2 CPUs, by cpu-clock, 82 samples in 40 ms on lab1, Linux 6.12.0
            perf.data: all time of 2 CPUs, by cpu-clock, 842 samples in 420 ms on lab1, Linux 6.12.0
            Change of time per operation, by cause
            where                                                                         change       ±  before     now  why
            system call fcntl > interrupts off, until native_queued_spin_lock_slowpa...  +380 us  108 us   20 us  400 us  count unknown
            rows that follow the length of an operation                                  +380 us
            all other rows together: below noise                                           +0 ns
            all                                                                          +760 us           80 us  840 us

            - The rows add up to the total change. All named rows together are significant at 99 %, judged by parts of each recording, and as if runs of one program differed by 12 %: nothing in one recording tells by how much they do.
        "#]],
    );
    check(
        &lines(&functions_part("both".to_string(), both)),
        expect![[r#"
            both

            Functions' own CPU time per operation
            baseline    delta  object    symbol
               21 us  +380 us  [kernel]  native_queued_spin_lock_slowpath
               20 us    +0 ns  load      main

        "#]],
    );
    check(
        &folded_pair(both),
        expect![[r#"
        idle;pv_native_safe_halt 41 421
        load;main 20 20
        load;main;fcntl;entry_SYSCALL_64;__x64_sys_fcntl;native_queued_spin_lock_slowpath 21 401
    "#]],
    );
}

#[test]
fn callers_stand_below_the_function_that_used_the_time() {
    check(
        &callers(&named(&recording(20))),
        expect![[r#"
            # 41 samples of tasks, by function and caller; time per operation; entries below 0.5 % are left out

             51.22%      21 us  native_queued_spin_lock_slowpath  [kernel]
                     __x64_sys_fcntl
                     entry_SYSCALL_64
                     fcntl
                     main

             48.78%      20 us  main  load
        "#]],
    );
}

#[test]
fn folded_stacks_begin_with_the_task() {
    check(
        &folded(&named(&recording(20))),
        expect![[r#"
        idle;pv_native_safe_halt 41
        load;main 20
        load;main;fcntl;entry_SYSCALL_64;__x64_sys_fcntl;native_queued_spin_lock_slowpath 21
    "#]],
    );
}

#[test]
fn tables_for_the_firefox_profiler_refer_only_to_what_they_have() {
    let profile: Value = serde_json::from_str(&firefox(&named(&recording(20)))).unwrap();
    assert_eq!(profile["meta"]["preprocessedProfileVersion"], 48);
    let threads = profile["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    for thread in threads {
        let rows = |table: &str| thread[table]["length"].as_u64().unwrap();
        for table in ["samples", "stackTable", "frameTable", "funcTable", "resourceTable"] {
            for (name, column) in thread[table].as_object().unwrap() {
                let length = column.as_array().map(|column| column.len() as u64);
                assert!(length.is_none_or(|length| length == rows(table)), "{table}.{name}");
            }
        }
        let refers = |table: &str, column: &str, to: u64| {
            let indices = thread[table][column].as_array().unwrap().iter();
            assert!(indices.filter_map(Value::as_u64).all(|index| index < to), "{table}.{column}");
        };
        refers("samples", "stack", rows("stackTable"));
        refers("stackTable", "prefix", rows("stackTable"));
        refers("stackTable", "frame", rows("frameTable"));
        refers("frameTable", "func", rows("funcTable"));
        refers("funcTable", "resource", rows("resourceTable"));
        let strings = thread["stringArray"].as_array().unwrap().len() as u64;
        refers("funcTable", "name", strings);
        refers("resourceTable", "name", strings);
    }
    let names: Vec<&Value> = threads.iter().map(|thread| &thread["name"]).collect();
    assert_eq!(names, ["idle, CPU 1", "load"]);
}

#[test]
fn what_looks_have_sampled_has_the_same_views() {
    let lines = include_str!("../../../ledger/src/build/recorded.ndjson").lines();
    let looks: Vec<Profile> = lines.map(|line| Profile::read(line).unwrap()).collect();
    let all: Vec<&Profile> = looks.iter().collect();
    let (recording, operations) =
        recording_from_looks(&all, "posix_lock_shared", Origin::default()).unwrap();
    let named =
        NamedRecording { name: "looks", recording: &recording, operations: Some(operations) };
    let counts = folded(&named);
    let counts = counts.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>());
    assert_eq!(counts.sum::<Result<u64, _>>(), Ok(recording.samples.len() as u64));
    let profile: Value = serde_json::from_str(&firefox(&named)).unwrap();
    let threads = profile["threads"].as_array().unwrap();
    let samples = threads.iter().map(|thread| thread["samples"]["length"].as_u64().unwrap());
    assert_eq!(samples.sum::<u64>(), recording.samples.len() as u64);
}

#[test]
fn a_flame_graph_has_the_time_per_operation_of_each_stack_on_both_sides() {
    let (base, new) = (recording(20), recording(400));
    let graph = flame(&[named(&base), named(&new)]).unwrap();
    assert_eq!(graph.samples, [82, 842]);
    let mut lines = Vec::new();
    walk(&graph.root, 0, &mut lines);
    check(
        &lines.join("\n"),
        expect![[r#"
        all 82 842 us
          main 41 421 us
            fcntl 21 401 us
              entry_SYSCALL_64 21 401 us
                __x64_sys_fcntl 21 401 us
                  native_queued_spin_lock_slowpath 21 401 us
          pv_native_safe_halt 41 421 us"#]],
    );
    check(
        &graph.functions.text(),
        expect![[r#"
        function                                perf.data         perf.data   change
        native_queued_spin_lock_slowpath  21 us ± 8.98 us  401 us ± 39.2 us  +380 us
        pv_native_safe_halt               41 us ± 12.6 us  421 us ± 40.2 us  +380 us
        main                              20 us ± 8.77 us   20 us ± 8.77 us    +0 ns
    "#]],
    );
}

fn walk(node: &FlameNode, depth: usize, lines: &mut Vec<String>) {
    let ns: Vec<String> = node.ns.iter().map(|ns| format!("{:.0}", ns / 1e3)).collect();
    lines.push(format!("{}{} {} us", "  ".repeat(depth), node.name, ns.join(" ")));
    node.nodes.iter().for_each(|node| walk(node, depth + 1, lines));
}

#[test]
fn without_operations_there_is_no_flame_graph() {
    let recording = recording(20);
    let unknown = NamedRecording { operations: None, ..named(&recording) };
    assert!(flame(&[unknown]).is_none() && flame(&[]).is_none());
}
