//! Files of other tools become records: for each format what a small file in it becomes, what
//! is refused and in which words, and that what was exported comes back.

#[path = "import/any_tool.rs"]
mod any_tool;
#[path = "import/forms.rs"]
mod forms;
#[path = "import/lines.rs"]
mod lines;
#[path = "import/network.rs"]
mod network;
#[path = "import/numbers.rs"]
mod numbers;
#[path = "import/refused.rs"]
mod refused;
#[path = "import/scans.rs"]
mod scans;
#[path = "import/suites.rs"]
mod suites;
#[path = "import/versions.rs"]
mod versions;

use std::path::Path;

use expect_test::{Expect, expect};
use records::{Outcome, RecordState, Session};
use store::import::{Imported, Input, Telling, assemble};
use store::{Id, Store};

fn session() -> Session {
    let started = "2026-11-20T12:00:00Z".parse().unwrap();
    let command = vec!["knee".to_string(), "import".to_string()];
    let (knee, boot_id) = ("0.1.0".to_string(), String::new());
    Session {
        command,
        knee,
        started,
        finished: None,
        boot_id,
        node: None,
        first_run: 0,
        host_changes: None,
    }
}

fn fixture_text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn fixture(name: &str) -> Input {
    Input::from_bytes(Path::new(name), fixture_text(name).as_bytes()).unwrap()
}

fn import(files: &[&str], names: &[&str]) -> anyhow::Result<Imported> {
    let inputs: Vec<Input> = files.iter().map(|name| fixture(name)).collect();
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    assemble(&inputs, &Telling { names: &names, ..Telling::default() }, session())
}

/// A file alone, in the format that it is recognised as.
fn check(format: &str, file: &str, expected: Expect) {
    let imported = import(&[file], &[]).unwrap();
    assert_eq!(imported.format.name, format);
    expected.assert_eq(&shown(&imported));
}

fn check_many(files: &[&str], names: &[&str], expected: Expect) {
    expected.assert_eq(&shown(&import(files, names).unwrap()));
}

/// What a record holds, but for what it lacks.
fn shown(imported: &Imported) -> String {
    let record = &imported.record;
    let source = record.source.as_ref().unwrap();
    let mut text = format!(
        "{:?}s, blocks {}, about {}, {} blocks planned\n",
        source.unit,
        source.blocks,
        record.experiment.compare.metric,
        record.experiment.blocks()
    );
    for (name, about) in &record.metrics {
        text += &format!("metric {name}: {}, {}\n", about.unit, about.better.name());
    }
    for (number, point) in record.points.iter().enumerate() {
        text += &format!(
            "point {number} cell {} {:?}: {} {} on {} x {} {:?}\n",
            point.cell.unwrap(),
            point.variant,
            point.workload,
            point.form.name(),
            point.cpus,
            point.tasks,
            point.parameters
        );
    }
    for (run, samples) in &imported.runs {
        let placebo = if run.placebo { " placebo" } else { "" };
        text += &format!("run of {} in {}{placebo}: ", run.point, run.block);
        text += &match &run.outcome {
            Outcome::Finished { metrics, .. } => format!("{metrics:?}\n"),
            Outcome::Failed { reason } => format!("failed: {reason}\n"),
        };
        if !samples.is_empty() {
            text += &format!("  {} samples\n", samples.len());
        }
    }
    for warning in &record.warnings {
        text += &format!("warning: {}\n", warning.text);
    }
    text
}

#[test]
fn plain_csv_with_blocks_is_paired_and_what_is_no_number_is_missing() {
    check(
        "plain",
        "plain.csv",
        expect![[r#"
        Runs, blocks true, about operations_per_s, 2 blocks planned
        metric lock_ns: ns, lower
        point 0 cell 0 "old, as shipped": lock processes on 2 x 4 {"mode": "wait"}
        point 1 cell 0 "new": lock processes on 2 x 4 {"mode": "wait"}
        run of 0 in 0: {"lock_ns": 812.5}
        run of 1 in 0: {"lock_ns": 640.0}
        run of 1 in 1: {"lock_ns": 655.0, "operations_per_s": 1500000.0}
        run of 0 in 1: {"operations_per_s": 1200000.0}
        warning: values that are missing or not finite: 1
    "#]],
    );
}

#[test]
fn plain_csv_without_blocks_pairs_nothing() {
    check(
        "plain",
        "no_blocks.csv",
        expect![[r#"
        Runs, blocks false, about score, 1 blocks planned
        metric other: 1, -
        metric score: 1, -
        point 0 cell 0 "a": plain processes on 0 x 0 {}
        point 1 cell 0 "b": plain processes on 0 x 0 {}
        run of 0 in 0: {"other": 1.0, "score": 3.0}
        run of 0 in 1: {"score": -4.0}
        run of 1 in 0: {"score": 5.0}
        warning: some metrics have fewer values than others: which values belong to one run is a guess
    "#]],
    );
}

#[test]
fn what_knee_exported_comes_back_with_blocks_placebo_and_failures() {
    check(
        "plain",
        "exported.csv",
        expect![[r#"
        Runs, blocks true, about operations_per_s, 2 blocks planned
        metric stat.ctxt: 1, -
        point 0 cell 0 "wait": brk processes on 1 x 1 {"size": "4096", "touch": "yes"}
        point 1 cell 0 "try": brk processes on 1 x 1 {"size": "4096", "touch": "yes"}
        run of 0 in 0: {"operations_per_s": 1000.5, "stat.ctxt": 12.0}
        run of 1 in 0: {"operations_per_s": 1100.0}
        run of 1 in 0 placebo: {"operations_per_s": 1101.0}
        run of 1 in 1: failed: it failed where it was run
        run of 0 in 1: {"operations_per_s": 1002.0}
    "#]],
    );
}

#[test]
fn will_it_scale_becomes_a_cell_for_each_form_and_number_of_tasks() {
    check(
        "will-it-scale",
        "page_fault1.csv",
        expect![[r#"
            Samples, blocks false, about operations_per_s, 1 blocks planned
            metric will-it-scale.idle_percent: %, -
            point 0 cell 0 "page_fault1": will-it-scale.page_fault1 processes on 1 x 1 {}
            point 1 cell 1 "page_fault1": will-it-scale.page_fault1 threads on 1 x 1 {}
            point 2 cell 2 "page_fault1": will-it-scale.page_fault1 processes on 2 x 2 {}
            point 3 cell 3 "page_fault1": will-it-scale.page_fault1 threads on 2 x 2 {}
            point 4 cell 4 "page_fault1": will-it-scale.page_fault1 processes on 4 x 4 {}
            point 5 cell 5 "page_fault1": will-it-scale.page_fault1 threads on 4 x 4 {}
            run of 0 in 0: {"operations_per_s": 801234.0, "will-it-scale.idle_percent": 74.85}
            run of 1 in 0: {"operations_per_s": 612345.0, "will-it-scale.idle_percent": 74.9}
            run of 2 in 0: {"operations_per_s": 1590000.0, "will-it-scale.idle_percent": 49.9}
            run of 3 in 0: failed: will-it-scale wrote -1: the run failed
            run of 4 in 0: {"operations_per_s": 3010000.0, "will-it-scale.idle_percent": 0.05}
            run of 5 in 0: {"operations_per_s": 455000.0, "will-it-scale.idle_percent": 31.5}
        "#]],
    );
}

#[test]
fn fs_mark_s_loops_are_samples_of_one_run() {
    check(
        "fs_mark",
        "fs_mark.log",
        expect![[r#"
            Samples, blocks false, about fs_mark.files_per_s, 2 blocks planned
            metric fs_mark.app_overhead_us: us, lower
            metric fs_mark.creat_us: us, lower
            metric fs_mark.file_system_used_percent: %, -
            metric fs_mark.files: 1, -
            metric fs_mark.files_per_s: 1/s, higher
            point 0 cell 0 "fs_mark": fs_mark processes on 0 x 2 {"files_per_task_and_loop": "50000", "loops": "2", "size_bytes": "0", "subdirectories": "10000", "sync": "0", "version": "3.3"}
            run of 0 in 0: {"fs_mark.app_overhead_us": 3500179.0, "fs_mark.creat_us": 53.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 100000.0, "fs_mark.files_per_s": 286491.9}
            run of 0 in 1: {"fs_mark.app_overhead_us": 3963140.0, "fs_mark.creat_us": 55.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 200000.0, "fs_mark.files_per_s": 293229.5}
        "#]],
    );
}

#[test]
fn fs_mark_logs_of_two_kernels_are_two_variants_of_a_cell() {
    check_many(
        &["qspinlock.log", "ticket.log"],
        &[],
        expect![[r#"
        Samples, blocks false, about fs_mark.files_per_s, 4 blocks planned
        metric fs_mark.app_overhead_us: us, lower
        metric fs_mark.file_system_used_percent: %, -
        metric fs_mark.files: 1, -
        metric fs_mark.files_per_s: 1/s, higher
        point 0 cell 0 "qspinlock": fs_mark processes on 0 x 0 {"size_bytes": "0"}
        point 1 cell 0 "ticket": fs_mark processes on 0 x 0 {"size_bytes": "0"}
        run of 0 in 0: {"fs_mark.app_overhead_us": 3500179.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 6400000.0, "fs_mark.files_per_s": 286491.9}
        run of 0 in 1: {"fs_mark.app_overhead_us": 3963140.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 7200000.0, "fs_mark.files_per_s": 293229.5}
        run of 0 in 2: {"fs_mark.app_overhead_us": 3708212.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 8000000.0, "fs_mark.files_per_s": 271182.4}
        run of 0 in 3: {"fs_mark.app_overhead_us": 3595722.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 8800000.0, "fs_mark.files_per_s": 300592.0}
        run of 1 in 0: {"fs_mark.app_overhead_us": 3343821.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 6400000.0, "fs_mark.files_per_s": 310419.6}
        run of 1 in 1: {"fs_mark.app_overhead_us": 4721133.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 7200000.0, "fs_mark.files_per_s": 348346.5}
        run of 1 in 2: {"fs_mark.app_overhead_us": 3235753.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 8000000.0, "fs_mark.files_per_s": 328098.2}
        run of 1 in 3: {"fs_mark.app_overhead_us": 3238971.0, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 8800000.0, "fs_mark.files_per_s": 316765.3}
    "#]],
    );
}

#[test]
fn several_logs_of_one_variant_are_runs() {
    check_many(
        &["qspinlock.log", "ticket.log"],
        &["q", "q"],
        expect![[r#"
        Runs, blocks false, about fs_mark.files_per_s, 2 blocks planned
        metric fs_mark.app_overhead_us: us, lower
        metric fs_mark.file_system_used_percent: %, -
        metric fs_mark.files: 1, -
        metric fs_mark.files_per_s: 1/s, higher
        point 0 cell 0 "q": fs_mark processes on 0 x 0 {"size_bytes": "0"}
        run of 0 in 0: {"fs_mark.app_overhead_us": 3691813.25, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 8800000.0, "fs_mark.files_per_s": 287873.95}
          16 samples
        run of 0 in 1: {"fs_mark.app_overhead_us": 3634919.5, "fs_mark.file_system_used_percent": 0.0, "fs_mark.files": 8800000.0, "fs_mark.files_per_s": 325907.4}
          16 samples
    "#]],
    );
}

#[test]
fn an_lkp_matrix_becomes_a_run_for_each_column() {
    check(
        "lkp",
        "matrix.json",
        expect![[r#"
            Runs, blocks false, about stress-ng.xattr.ops_per_sec, 3 blocks planned
            metric lkp.interrupts.TLB: 1, -
            metric perf-stat.i.ipc: 1, -
            metric stress-ng.time.elapsed_time.max: 1, -
            metric stress-ng.xattr.ops: 1, higher
            metric stress-ng.xattr.ops_per_sec: 1, higher
            point 0 cell 0 "matrix": lkp.stress-ng processes on 0 x 0 {}
            run of 0 in 0: {"lkp.interrupts.TLB": 0.0, "perf-stat.i.ipc": 0.5, "stress-ng.time.elapsed_time.max": 62.07, "stress-ng.xattr.ops": 1544.0, "stress-ng.xattr.ops_per_sec": 24.87, "time.system_time": 512.83, "time.user_time": 10.05}
            run of 0 in 1: {"lkp.interrupts.TLB": 17.0, "stress-ng.time.elapsed_time.max": 62.1, "stress-ng.xattr.ops": 1601.0, "stress-ng.xattr.ops_per_sec": 25.8, "time.system_time": 511.0, "time.user_time": 9.8}
            run of 0 in 2: {"lkp.interrupts.TLB": 0.0, "perf-stat.i.ipc": 0.6, "stress-ng.time.elapsed_time.max": 62.0, "stress-ng.xattr.ops": 1490.0, "stress-ng.xattr.ops_per_sec": 24.0, "time.system_time": 515.5, "time.user_time": 11.2}
            warning: stats left out because their number of values differs from the number of runs (3): 1, such as boot-time.boot
        "#]],
    );
}

#[test]
fn an_lkp_run_alone_is_one_run() {
    check(
        "lkp",
        "stats.json",
        expect![[r#"
        Runs, blocks false, about will-it-scale.per_process_ops, 1 blocks planned
        metric will-it-scale.per_process_ops: 1, higher
        metric will-it-scale.workload: 1, -
        point 0 cell 0 "stats": lkp.will-it-scale processes on 0 x 0 {}
        run of 0 in 0: {"time.elapsed_time": 300.1, "will-it-scale.per_process_ops": 81234.0, "will-it-scale.workload": 649872.0}
    "#]],
    );
}

#[test]
fn the_path_of_an_lkp_result_tells_test_machine_and_commit() {
    let mut input = fixture("matrix.json");
    input.path =
        "/lkp/result/stress-ng/xattr-60s/lab1/debian/x86-64/gcc-12/c0fb4765c508/matrix.json".into();
    let imported = assemble(&[input], &Telling::default(), session()).unwrap();
    let point = &imported.record.points[0];
    assert_eq!((&*point.variant, &*point.workload), ("c0fb4765c508", "lkp.stress-ng"));
    assert_eq!(point.parameters["job"], "xattr-60s");
    assert_eq!(imported.record.host.hostname.as_deref(), Some("lab1"));
}

#[test]
fn stress_ng_s_table_becomes_a_workload_for_each_stressor() {
    check(
        "stress-ng",
        "stress-ng.log",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric stress-ng.cpu_percent_per_instance: %, -
            metric stress-ng.getrandom_bits_per_sec: 1/s, higher
            metric stress-ng.operations_per_cpu_s: 1/s, higher
            metric stress-ng.real_time_s: s, -
            point 0 cell 0 "stress-ng": stress-ng.getrandom processes on 0 x 1 {}
            point 1 cell 1 "stress-ng": stress-ng.close processes on 0 x 2 {}
            run of 0 in 0: {"operations": 12452.0, "operations_per_s": 12405.22, "stress-ng.cpu_percent_per_instance": 23.46, "stress-ng.getrandom_bits_per_sec": 834504558.68, "stress-ng.real_time_s": 1.0, "time.maximum_resident_set_size": 2420.0, "time.system_time": 0.0, "time.user_time": 0.0}
            run of 1 in 0: {"operations": 21729.0, "operations_per_s": 21349.97, "stress-ng.cpu_percent_per_instance": 40.47, "stress-ng.operations_per_cpu_s": 26376.96, "stress-ng.real_time_s": 1.02, "time.maximum_resident_set_size": 3492.0, "time.system_time": 0.73, "time.user_time": 0.1}
            run of 1 in 1: {"operations": 21800.0, "operations_per_s": 21372.55, "stress-ng.operations_per_cpu_s": 25647.06, "stress-ng.real_time_s": 1.02, "time.system_time": 0.74, "time.user_time": 0.11}
            warning: not read from stress-ng.log: other lines (2 numbers)
        "#]],
    );
}

#[test]
fn stress_ng_s_yaml_says_the_same_and_the_host() {
    check(
        "stress-ng",
        "stress-ng.yaml",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric stress-ng.close_calls_per_sec: 1/s, higher
            metric stress-ng.cpu_percent_per_instance: %, -
            metric stress-ng.operations_per_cpu_s: 1/s, higher
            metric stress-ng.real_time_s: s, -
            point 0 cell 0 "stress-ng": stress-ng.close processes on 0 x 0 {"version": "0.15.06"}
            run of 0 in 0: {"operations": 21729.0, "operations_per_s": 21349.971307, "stress-ng.close_calls_per_sec": 1454489.088613, "stress-ng.cpu_percent_per_instance": 40.470866, "stress-ng.operations_per_cpu_s": 26376.963948, "stress-ng.real_time_s": 1.017753, "time.maximum_resident_set_size": 3492.0, "time.system_time": 0.728182, "time.user_time": 0.095605}
        "#]],
    );
    let host = import(&["stress-ng.yaml"], &[]).unwrap().record.host;
    assert_eq!(host.kernel_release.as_deref(), Some("6.12.8"));
}

#[test]
fn a_fio_job_is_a_run_and_what_it_did_not_do_is_missing() {
    check(
        "fio",
        "fio.json",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric fio.context_switches: 1, -
            metric fio.read.bytes: B, -
            metric fio.read.bytes_per_s: B/s, higher
            metric fio.read.completion_max_ns: ns, lower
            metric fio.read.completion_mean_ns: ns, lower
            metric fio.read.completion_min_ns: ns, lower
            metric fio.read.completion_n: 1, -
            metric fio.read.completion_p50_ns: ns, lower
            metric fio.read.completion_p999_ns: ns, lower
            metric fio.read.completion_p99_ns: ns, lower
            metric fio.read.completion_stddev_ns: ns, lower
            metric fio.read.iops: 1/s, higher
            metric fio.read.latency_max_ns: ns, lower
            metric fio.read.latency_mean_ns: ns, lower
            metric fio.read.latency_min_ns: ns, lower
            metric fio.read.latency_n: 1, -
            metric fio.read.latency_stddev_ns: ns, lower
            metric fio.read.runtime_ms: ms, -
            metric fio.read.total_ios: 1, -
            metric fio.system_percent: %, -
            metric fio.user_percent: %, -
            point 0 cell 0 "fio": fio.randread processes on 0 x 2 {"bs": "4k", "ioengine": "psync", "rw": "randread", "version": "fio-3.33"}
            run of 0 in 0: {"fio.context_switches": 983.0, "fio.read.bytes": 4022272.0, "fio.read.bytes_per_s": 54355027.0, "fio.read.completion_max_ns": 7421118.0, "fio.read.completion_mean_ns": 142035.8, "fio.read.completion_min_ns": 45338.0, "fio.read.completion_n": 982.0, "fio.read.completion_p50_ns": 78336.0, "fio.read.completion_p999_ns": 7438336.0, "fio.read.completion_p99_ns": 2310144.0, "fio.read.completion_stddev_ns": 482885.4, "fio.read.iops": 13270.27, "fio.read.latency_max_ns": 7421148.0, "fio.read.latency_mean_ns": 142060.7, "fio.read.latency_min_ns": 45350.0, "fio.read.latency_n": 982.0, "fio.read.latency_stddev_ns": 482888.4, "fio.read.runtime_ms": 74.0, "fio.read.total_ios": 982.0, "fio.system_percent": 18.181818, "fio.user_percent": 0.5, "operations_per_s": 13270.27, "time.major_page_faults": 0.0, "time.minor_page_faults": 27.0}
        "#]],
    );
}

#[test]
fn hyperfine_s_commands_are_variants_and_its_times_are_runs() {
    check(
        "hyperfine",
        "hyperfine.json",
        expect![[r#"
            Runs, blocks false, about time.elapsed_time, 1 blocks planned
            point 0 cell 0 "sleep 0.01": command processes on 0 x 0 {"n": "1"}
            point 1 cell 0 "sleep 0.02": command processes on 0 x 0 {"n": "2"}
            run of 0 in 0: {"time.elapsed_time": 0.0136}
            run of 0 in 1: {"time.elapsed_time": 0.0116}
            run of 1 in 0: failed: the command ended with exit code 1
            warning: not read from hyperfine.json: means and extremes over all runs (7 numbers)
        "#]],
    );
}

#[test]
fn of_several_hyperfine_files_the_files_are_compared() {
    let [before, mut after] = ["hyperfine.json"; 2].map(fixture);
    after.path = "after.json".into();
    after.given = after.path.clone();
    after.seal.sha256.clear();
    let imported = assemble(&[before, after], &Telling::default(), session()).unwrap();
    expect![[r#"
        Runs, blocks false, about time.elapsed_time, 1 blocks planned
        point 0 cell 0 "hyperfine": command processes on 0 x 0 {"n": "1"}
        point 1 cell 1 "hyperfine": command processes on 0 x 0 {"n": "2"}
        point 2 cell 0 "after": command processes on 0 x 0 {"n": "1"}
        point 3 cell 1 "after": command processes on 0 x 0 {"n": "2"}
        run of 0 in 0: {"time.elapsed_time": 0.0136}
        run of 0 in 1: {"time.elapsed_time": 0.0116}
        run of 1 in 0: failed: the command ended with exit code 1
        run of 2 in 0: {"time.elapsed_time": 0.0136}
        run of 2 in 1: {"time.elapsed_time": 0.0116}
        run of 3 in 0: failed: the command ended with exit code 1
        warning: not read from hyperfine.json: means and extremes over all runs (7 numbers)
        warning: not read from after.json: means and extremes over all runs (7 numbers)
    "#]]
    .assert_eq(&shown(&imported));
}

#[test]
fn an_imported_record_is_kept_whole_and_read_back() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::at(place.path().to_path_buf());
    for files in [&["plain.csv"][..], &["page_fault1.csv"], &["qspinlock.log", "ticket.log"]] {
        let imported = import(files, &[]).unwrap();
        let id = Id::new(session().started, files[0].len() as u32);
        let mut growing = store.begin(imported.record.clone(), id).unwrap();
        growing.append_all(imported.runs.clone()).unwrap();
        growing.complete = true;
        let folder = growing.finish(session().started).unwrap().unwrap();
        let opened = store::open(&folder).unwrap();
        assert_eq!(opened.record.state, RecordState::Whole);
        let runs: Vec<_> = imported.runs.iter().map(|(run, _)| run.clone()).collect();
        assert_eq!(*opened.runs, runs);
        assert_eq!(opened.record.source, imported.record.source);
        assert_eq!(opened.record.metrics, imported.record.metrics);
    }
}

#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    for name in ["plain.csv", "page_fault1.csv", "fs_mark.log", "stress-ng.log", "fio.json"] {
        let plain = fixture(name);
        let windows = format!("\u{feff}{}", plain.text.replace('\n', "\r\n"));
        let windows = Input::from_bytes(Path::new(name), windows.as_bytes()).unwrap();
        let read = |input| shown(&assemble(&[input], &Telling::default(), session()).unwrap());
        assert_eq!(read(plain), read(windows), "{name}");
    }
}

#[test]
fn perf_stat_has_a_run_for_each_output_and_no_zero_for_what_was_not_counted() {
    check(
        "perf-stat",
        "perf_stat.csv",
        expect![[r#"
            Runs, blocks false, about perf.task_clock, 2 blocks planned
            metric perf.context_switches: 1, -
            metric perf.page_faults: 1, -
            metric perf.task_clock: ms, lower
            point 0 cell 0 "perf_stat": command processes on 0 x 0 {}
            run of 0 in 0: {"perf.context_switches": 1.0, "perf.page_faults": 50.0, "perf.task_clock": 0.62}
            run of 0 in 1: {"perf.page_faults": 50.0, "perf.task_clock": 0.51}
            warning: not read from perf_stat.csv: how long events were counted (14 numbers), metrics that perf derives (5 numbers)
        "#]],
    );
    check(
        "perf-stat",
        "perf_stat.json",
        expect![[r#"
            Runs, blocks false, about perf.duration_time, 1 blocks planned
            metric perf.duration_time: ns, lower
            metric perf.page_faults: 1, -
            metric perf.task_clock: ms, -
            point 0 cell 0 "perf_stat": command processes on 0 x 0 {}
            run of 0 in 0: {"perf.duration_time": 1064317.0, "perf.page_faults": 50.0, "perf.task_clock": 0.53024}
            warning: not read from perf_stat.json: how long events were counted (8 numbers), metrics that perf derives (4 numbers)
        "#]],
    );
}

#[test]
fn a_log_of_sysbench_has_a_run_for_each_output() {
    check(
        "sysbench",
        "sysbench.log",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric sysbench.cpu_speed.events_per_second: 1/s, higher
            metric sysbench.file_operations.fsyncs_per_s: 1/s, higher
            metric sysbench.file_operations.reads_per_s: 1/s, higher
            metric sysbench.file_operations.writes_per_s: 1/s, higher
            metric sysbench.latency_ms.95th_percentile: ms, lower
            metric sysbench.latency_ms.avg: ms, lower
            metric sysbench.latency_ms.max: ms, lower
            metric sysbench.latency_ms.min: ms, lower
            metric sysbench.latency_ms.sum: ms, lower
            metric sysbench.threads_fairness.events: 1, -
            metric sysbench.threads_fairness.events_stddev: 1, -
            metric sysbench.threads_fairness.execution_time: s, -
            metric sysbench.threads_fairness.execution_time_stddev: s, -
            metric sysbench.throughput.read_mib_per_s: MiB/s, higher
            metric sysbench.throughput.written_mib_per_s: MiB/s, higher
            point 0 cell 0 "sysbench": sysbench.cpu threads on 0 x 2 {"version": "1.0.20"}
            point 1 cell 1 "sysbench": sysbench.fileio threads on 0 x 1 {"version": "1.0.20"}
            run of 0 in 0: {"operations": 2412.0, "operations_per_s": 2394.282310899345, "sysbench.cpu_speed.events_per_second": 2392.74, "sysbench.latency_ms.95th_percentile": 4.33, "sysbench.latency_ms.avg": 0.83, "sysbench.latency_ms.max": 32.32, "sysbench.latency_ms.min": 0.27, "sysbench.latency_ms.sum": 2001.5, "sysbench.threads_fairness.events": 1206.0, "sysbench.threads_fairness.events_stddev": 49.0, "sysbench.threads_fairness.execution_time": 1.0008, "sysbench.threads_fairness.execution_time_stddev": 0.0, "wall_s": 1.0074}
            run of 1 in 0: {"operations": 104348.0, "operations_per_s": 104275.00749475368, "sysbench.file_operations.fsyncs_per_s": 4010.67, "sysbench.file_operations.reads_per_s": 60122.04, "sysbench.file_operations.writes_per_s": 40080.7, "sysbench.latency_ms.95th_percentile": 0.0, "sysbench.latency_ms.avg": 0.01, "sysbench.latency_ms.max": 2.28, "sysbench.latency_ms.min": 0.0, "sysbench.latency_ms.sum": 980.77, "sysbench.threads_fairness.events": 104348.0, "sysbench.threads_fairness.events_stddev": 0.0, "sysbench.threads_fairness.execution_time": 0.9808, "sysbench.threads_fairness.execution_time_stddev": 0.0, "sysbench.throughput.read_mib_per_s": 939.41, "sysbench.throughput.written_mib_per_s": 626.26, "wall_s": 1.0007}
        "#]],
    );
}
