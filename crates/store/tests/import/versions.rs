//! Other versions and further tools: what fio 2, sysbench 0.5, stress-ng since 2023, pgbench, the benchmarks of languages
//! and of the kernel print.

use expect_test::expect;

use store::import::{Telling, assemble};

use super::{check, fixture, session};

#[test]
fn fio_2_has_microseconds_and_kibibytes() {
    check(
        "fio",
        "fio-2.2.json",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric fio.context_switches: 1, -
            metric fio.read.bytes: B, -
            metric fio.read.bytes_per_s: B/s, higher
            metric fio.read.completion_max_ns: ns, lower
            metric fio.read.completion_mean_ns: ns, lower
            metric fio.read.completion_min_ns: ns, lower
            metric fio.read.completion_p50_ns: ns, lower
            metric fio.read.completion_p999_ns: ns, lower
            metric fio.read.completion_p99_ns: ns, lower
            metric fio.read.completion_stddev_ns: ns, lower
            metric fio.read.drop_ios: 1, -
            metric fio.read.iops: 1/s, higher
            metric fio.read.latency_max_ns: ns, lower
            metric fio.read.latency_mean_ns: ns, lower
            metric fio.read.latency_min_ns: ns, lower
            metric fio.read.latency_stddev_ns: ns, lower
            metric fio.read.runtime_ms: ms, -
            metric fio.read.short_ios: 1, -
            metric fio.read.total_ios: 1, -
            metric fio.system_percent: %, -
            metric fio.user_percent: %, -
            point 0 cell 0 "fio-2.2": fio.random-read processes on 0 x 1 {"version": "fio-2.2.10"}
            run of 0 in 0: {"fio.context_switches": 1780.0, "fio.read.bytes": 7286784.0, "fio.read.bytes_per_s": 281600.0, "fio.read.completion_max_ns": 90000000.0, "fio.read.completion_mean_ns": 14490000.0, "fio.read.completion_min_ns": 120000.0, "fio.read.completion_p50_ns": 14016000.0, "fio.read.completion_p999_ns": 80000000.0, "fio.read.completion_p99_ns": 40000000.0, "fio.read.completion_stddev_ns": 2000000.0, "fio.read.drop_ios": 0.0, "fio.read.iops": 68.99, "fio.read.latency_max_ns": 90001000.0, "fio.read.latency_mean_ns": 14490700.0, "fio.read.latency_min_ns": 121000.0, "fio.read.latency_stddev_ns": 2000000.0, "fio.read.runtime_ms": 25788.0, "fio.read.short_ios": 0.0, "fio.read.total_ios": 1779.0, "fio.system_percent": 0.5, "fio.user_percent": 0.1, "operations_per_s": 68.99, "time.major_page_faults": 0.0, "time.minor_page_faults": 9.0}
        "#]],
    );
    check(
        "fio",
        "fio-2.6-mixed.json",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric fio.context_switches: 1, -
            metric fio.mixed.bw_agg_percent: %, -
            metric fio.mixed.bytes: B, -
            metric fio.mixed.bytes_per_s: B/s, higher
            metric fio.mixed.bytes_per_s_dev: B/s, -
            metric fio.mixed.bytes_per_s_max: B/s, -
            metric fio.mixed.bytes_per_s_mean: B/s, -
            metric fio.mixed.bytes_per_s_min: B/s, -
            metric fio.mixed.drop_ios: 1, -
            metric fio.mixed.iops: 1/s, higher
            metric fio.mixed.latency_max_ns: ns, lower
            metric fio.mixed.latency_mean_ns: ns, lower
            metric fio.mixed.latency_min_ns: ns, lower
            metric fio.mixed.latency_stddev_ns: ns, lower
            metric fio.mixed.runtime_ms: ms, -
            metric fio.mixed.short_ios: 1, -
            metric fio.mixed.total_ios: 1, -
            metric fio.system_percent: %, -
            metric fio.user_percent: %, -
            point 0 cell 0 "fio-2.6-mixed": fio.mix processes on 0 x 1 {"unified_rw_reporting": "1", "version": "fio-2.6"}
            run of 0 in 0: {"fio.context_switches": 5000.0, "fio.mixed.bw_agg_percent": 6.98, "fio.mixed.bytes": 2048000000.0, "fio.mixed.bytes_per_s": 16998400.0, "fio.mixed.bytes_per_s_dev": 855572.48, "fio.mixed.bytes_per_s_max": 5283840.0, "fio.mixed.bytes_per_s_mean": 2391797.76, "fio.mixed.bytes_per_s_min": 2048.0, "fio.mixed.drop_ios": 0.0, "fio.mixed.iops": 2200.5, "fio.mixed.latency_max_ns": 3781314000.0, "fio.mixed.latency_mean_ns": 1782920.0, "fio.mixed.latency_min_ns": 431000.0, "fio.mixed.latency_stddev_ns": 19405440.0, "fio.mixed.runtime_ms": 121363.0, "fio.mixed.short_ios": 0.0, "fio.mixed.total_ios": 270000.0, "fio.system_percent": 1.2, "fio.user_percent": 0.5, "operations_per_s": 2200.5, "time.major_page_faults": 0.0, "time.minor_page_faults": 11.0}
        "#]],
    );
}

#[test]
fn what_fio_s_fdatasync_took_is_read() {
    check(
        "fio",
        "fio-sync.json",
        expect![[r#"
        Runs, blocks false, about operations_per_s, 1 blocks planned
        metric fio.context_switches: 1, -
        metric fio.job_runtime_ms: ms, -
        metric fio.latency_depth: 1, -
        metric fio.sync.latency_max_ns: ns, lower
        metric fio.sync.latency_mean_ns: ns, lower
        metric fio.sync.latency_min_ns: ns, lower
        metric fio.sync.latency_n: 1, -
        metric fio.sync.latency_p99_ns: ns, lower
        metric fio.sync.latency_stddev_ns: ns, lower
        metric fio.sync.total_ios: 1, -
        metric fio.system_percent: %, -
        metric fio.user_percent: %, -
        metric fio.write.bw_agg_percent: %, -
        metric fio.write.bw_samples: 1, -
        metric fio.write.bytes: B, -
        metric fio.write.bytes_per_s: B/s, higher
        metric fio.write.bytes_per_s_dev: B/s, -
        metric fio.write.bytes_per_s_max: B/s, -
        metric fio.write.bytes_per_s_mean: B/s, -
        metric fio.write.bytes_per_s_min: B/s, -
        metric fio.write.completion_max_ns: ns, lower
        metric fio.write.completion_mean_ns: ns, lower
        metric fio.write.completion_min_ns: ns, lower
        metric fio.write.completion_n: 1, -
        metric fio.write.completion_p50_ns: ns, lower
        metric fio.write.completion_p9995_ns: ns, lower
        metric fio.write.completion_stddev_ns: ns, lower
        metric fio.write.drop_ios: 1, -
        metric fio.write.iops: 1/s, higher
        metric fio.write.iops_max: 1, -
        metric fio.write.iops_mean: 1, -
        metric fio.write.iops_min: 1, -
        metric fio.write.iops_samples: 1, -
        metric fio.write.iops_stddev: 1, -
        metric fio.write.latency_max_ns: ns, lower
        metric fio.write.latency_mean_ns: ns, lower
        metric fio.write.latency_min_ns: ns, lower
        metric fio.write.latency_n: 1, -
        metric fio.write.latency_stddev_ns: ns, lower
        metric fio.write.runtime_ms: ms, -
        metric fio.write.short_ios: 1, -
        metric fio.write.total_ios: 1, -
        point 0 cell 0 "fio-sync": fio.log processes on 0 x 1 {"bs": "4k", "fdatasync": "1", "rw": "write", "version": "fio-3.36"}
        run of 0 in 0: {"fio.context_switches": 20010.0, "fio.job_runtime_ms": 9999.0, "fio.latency_depth": 1.0, "fio.sync.latency_max_ns": 9100000.0, "fio.sync.latency_mean_ns": 910000.5, "fio.sync.latency_min_ns": 310000.0, "fio.sync.latency_n": 9999.0, "fio.sync.latency_p99_ns": 1500000.0, "fio.sync.latency_stddev_ns": 45000.5, "fio.sync.total_ios": 9999.0, "fio.system_percent": 3.5, "fio.user_percent": 1.5, "fio.write.bw_agg_percent": 99.5, "fio.write.bw_samples": 20.0, "fio.write.bytes": 40960000.0, "fio.write.bytes_per_s": 4096000.0, "fio.write.bytes_per_s_dev": 12800.0, "fio.write.bytes_per_s_max": 4198400.0, "fio.write.bytes_per_s_mean": 4097536.0, "fio.write.bytes_per_s_min": 3993600.0, "fio.write.completion_max_ns": 91000.0, "fio.write.completion_mean_ns": 5200.5, "fio.write.completion_min_ns": 2100.0, "fio.write.completion_n": 10000.0, "fio.write.completion_p50_ns": 5000.0, "fio.write.completion_p9995_ns": 21000.0, "fio.write.completion_stddev_ns": 810.25, "fio.write.drop_ios": 0.0, "fio.write.iops": 1000.5, "fio.write.iops_max": 1025.0, "fio.write.iops_mean": 1000.25, "fio.write.iops_min": 975.0, "fio.write.iops_samples": 20.0, "fio.write.iops_stddev": 3.5, "fio.write.latency_max_ns": 92000.0, "fio.write.latency_mean_ns": 5300.5, "fio.write.latency_min_ns": 2200.0, "fio.write.latency_n": 10000.0, "fio.write.latency_stddev_ns": 811.25, "fio.write.runtime_ms": 10000.0, "fio.write.short_ios": 0.0, "fio.write.total_ios": 10000.0, "operations_per_s": 1000.5, "time.major_page_faults": 0.0, "time.minor_page_faults": 13.0}
        warning: not read from fio-sync.json: bins of latencies (2 numbers), disk_util (3 numbers), distribution of depths (2 numbers), distribution of latencies (2 numbers)
    "#]],
    );
}

#[test]
fn stress_ng_s_summary_since_2023_is_no_part_of_its_table() {
    check(
        "stress-ng",
        "stress-ng-2023.log",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric stress-ng.nanosecs_per_futex_wake: ns, lower
            metric stress-ng.operations_per_cpu_s: 1/s, higher
            metric stress-ng.real_time_s: s, -
            point 0 cell 0 "stress-ng-2023": stress-ng.futex processes on 0 x 4 {}
            run of 0 in 0: {"operations": 1000000.0, "operations_per_s": 16666.67, "stress-ng.nanosecs_per_futex_wake": 1500.0, "stress-ng.operations_per_cpu_s": 8333.33, "stress-ng.real_time_s": 60.0, "time.system_time": 100.0, "time.user_time": 20.0}
            warning: not read from stress-ng-2023.log: other lines (4 numbers)
        "#]],
    );
}

#[test]
fn sysbench_0_5_has_response_times_and_lines_of_intervals_are_samples() {
    check(
        "sysbench",
        "sysbench-0.5.log",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric sysbench.general_statistics.total_time_taken_by_event_execution: s, -
            metric sysbench.latency_ms.99_percentile: ms, lower
            metric sysbench.latency_ms.avg: ms, lower
            metric sysbench.latency_ms.max: ms, lower
            metric sysbench.latency_ms.min: ms, lower
            metric sysbench.queries_performed.deadlocks: 1, -
            metric sysbench.queries_performed.deadlocks_per_s: 1/s, higher
            metric sysbench.queries_performed.other: 1, -
            metric sysbench.queries_performed.other_operations: 1, -
            metric sysbench.queries_performed.other_operations_per_s: 1/s, higher
            metric sysbench.queries_performed.read: 1, -
            metric sysbench.queries_performed.read_write_requests: 1, -
            metric sysbench.queries_performed.read_write_requests_per_s: 1/s, higher
            metric sysbench.queries_performed.total: 1, -
            metric sysbench.queries_performed.transactions: 1, -
            metric sysbench.queries_performed.transactions_per_s: 1/s, higher
            metric sysbench.queries_performed.write: 1, -
            metric sysbench.threads_fairness.events: 1, -
            metric sysbench.threads_fairness.events_stddev: 1, -
            metric sysbench.threads_fairness.execution_time: s, -
            metric sysbench.threads_fairness.execution_time_stddev: s, -
            point 0 cell 0 "sysbench-0.5": sysbench.oltp threads on 0 x 8 {"version": "0.5"}
            run of 0 in 0: {"operations": 10000.0, "operations_per_s": 499.7501249375312, "sysbench.general_statistics.total_time_taken_by_event_execution": 159.98, "sysbench.latency_ms.99_percentile": 21.9, "sysbench.latency_ms.avg": 16.0, "sysbench.latency_ms.max": 412.3, "sysbench.latency_ms.min": 4.1, "sysbench.queries_performed.deadlocks": 0.0, "sysbench.queries_performed.deadlocks_per_s": 0.0, "sysbench.queries_performed.other": 20000.0, "sysbench.queries_performed.other_operations": 20000.0, "sysbench.queries_performed.other_operations_per_s": 999.5, "sysbench.queries_performed.read": 140000.0, "sysbench.queries_performed.read_write_requests": 180000.0, "sysbench.queries_performed.read_write_requests_per_s": 8995.5, "sysbench.queries_performed.total": 200000.0, "sysbench.queries_performed.transactions": 10000.0, "sysbench.queries_performed.transactions_per_s": 499.75, "sysbench.queries_performed.write": 40000.0, "sysbench.threads_fairness.events": 1250.0, "sysbench.threads_fairness.events_stddev": 9.2, "sysbench.threads_fairness.execution_time": 19.9975, "sysbench.threads_fairness.execution_time_stddev": 0.0, "wall_s": 20.01}
              12 samples
        "#]],
    );
    check(
        "sysbench",
        "sysbench-intervals.log",
        expect![[r#"
        Runs, blocks false, about operations_per_s, 1 blocks planned
        metric sysbench.latency_ms.95th_percentile: ms, lower
        metric sysbench.latency_ms.avg: ms, lower
        metric sysbench.latency_ms.max: ms, lower
        metric sysbench.latency_ms.min: ms, lower
        metric sysbench.latency_ms.sum: ms, lower
        metric sysbench.queries_performed.ignored_errors: 1, -
        metric sysbench.queries_performed.ignored_errors_per_s: 1/s, higher
        metric sysbench.queries_performed.other: 1, -
        metric sysbench.queries_performed.queries: 1, -
        metric sysbench.queries_performed.queries_per_s: 1/s, higher
        metric sysbench.queries_performed.read: 1, -
        metric sysbench.queries_performed.reconnects: 1, -
        metric sysbench.queries_performed.reconnects_per_s: 1/s, higher
        metric sysbench.queries_performed.total: 1, -
        metric sysbench.queries_performed.transactions: 1, -
        metric sysbench.queries_performed.transactions_per_s: 1/s, higher
        metric sysbench.queries_performed.write: 1, -
        metric sysbench.threads_fairness.events: 1, -
        metric sysbench.threads_fairness.events_stddev: 1, -
        metric sysbench.threads_fairness.execution_time: s, -
        metric sysbench.threads_fairness.execution_time_stddev: s, -
        point 0 cell 0 "sysbench-intervals": sysbench.oltp threads on 0 x 4 {"version": "1.0.20"}
        run of 0 in 0: {"operations": 3400.0, "operations_per_s": 850.0, "sysbench.latency_ms.95th_percentile": 7.0, "sysbench.latency_ms.avg": 4.7, "sysbench.latency_ms.max": 90.0, "sysbench.latency_ms.min": 1.1, "sysbench.latency_ms.sum": 15980.0, "sysbench.queries_performed.ignored_errors": 0.0, "sysbench.queries_performed.ignored_errors_per_s": 0.0, "sysbench.queries_performed.other": 6800.0, "sysbench.queries_performed.queries": 54400.0, "sysbench.queries_performed.queries_per_s": 13600.0, "sysbench.queries_performed.read": 47600.0, "sysbench.queries_performed.reconnects": 0.0, "sysbench.queries_performed.reconnects_per_s": 0.0, "sysbench.queries_performed.total": 54400.0, "sysbench.queries_performed.transactions": 3400.0, "sysbench.queries_performed.transactions_per_s": 850.0, "sysbench.queries_performed.write": 0.0, "sysbench.threads_fairness.events": 850.0, "sysbench.threads_fairness.events_stddev": 2.1, "sysbench.threads_fairness.execution_time": 3.995, "sysbench.threads_fairness.execution_time_stddev": 0.0, "wall_s": 4.0}
          40 samples
    "#]],
    );
}

#[test]
fn intervals_of_perf_stat_add_up_and_are_samples() {
    check(
        "perf-stat",
        "perf_stat_interval.csv",
        expect![[r#"
            Runs, blocks false, about perf.cpu_clock, 1 blocks planned
            metric perf.context_switches: 1, -
            metric perf.cpu_clock: ms, -
            point 0 cell 0 "perf_stat_interval": command processes on 0 x 0 {}
            run of 0 in 0: {"perf.context_switches": 10100.0, "perf.cpu_clock": 4002.4}
              6 samples
            warning: not read from perf_stat_interval.csv: how long events were counted (8 numbers), metrics that perf derives (4 numbers)
        "#]],
    );
}

#[test]
fn a_form_that_will_it_scale_did_not_run_is_missing() {
    check(
        "will-it-scale",
        "processes_only.csv",
        expect![[r#"
        Samples, blocks false, about operations_per_s, 1 blocks planned
        metric will-it-scale.idle_percent: %, -
        point 0 cell 0 "processes_only": will-it-scale.processes_only processes on 1 x 1 {}
        point 1 cell 1 "processes_only": will-it-scale.processes_only processes on 2 x 2 {}
        point 2 cell 2 "processes_only": will-it-scale.processes_only processes on 4 x 4 {}
        point 3 cell 3 "processes_only": will-it-scale.processes_only processes on 8 x 8 {}
        point 4 cell 4 "processes_only": will-it-scale.processes_only processes on 16 x 16 {}
        point 5 cell 5 "processes_only": will-it-scale.processes_only processes on 32 x 32 {}
        point 6 cell 6 "processes_only": will-it-scale.processes_only processes on 64 x 64 {}
        run of 0 in 0: {"operations_per_s": 512345.0, "will-it-scale.idle_percent": 98.9}
        run of 1 in 0: {"operations_per_s": 1011234.0, "will-it-scale.idle_percent": 97.8}
        run of 2 in 0: {"operations_per_s": 1991234.0, "will-it-scale.idle_percent": 95.7}
        run of 3 in 0: {"operations_per_s": 3851234.0, "will-it-scale.idle_percent": 91.3}
        run of 4 in 0: {"operations_per_s": 6901234.0, "will-it-scale.idle_percent": 82.6}
        run of 5 in 0: {"operations_per_s": 9101234.0, "will-it-scale.idle_percent": 65.2}
        run of 6 in 0: {"operations_per_s": 8601234.0, "will-it-scale.idle_percent": 30.4}
    "#]],
    );
}

#[test]
fn pgbench_s_outputs_are_runs_and_its_progress_is_samples() {
    check(
        "pgbench",
        "pgbench.txt",
        expect![[r#"
        Runs, blocks false, about operations_per_s, 1 blocks planned
        metric pgbench.failed_transactions: 1, lower
        metric pgbench.initial_connection_ms: ms, -
        metric pgbench.latency_average_ms: ms, lower
        metric pgbench.latency_stddev_ms: ms, lower
        point 0 cell 0 "pgbench": pgbench.select only threads on 0 x 16 {"duration": "60 s", "maximum_number_of_tries": "1", "query_mode": "prepared", "scaling_factor": "100", "threads": "8"}
        point 1 cell 1 "pgbench": pgbench.load.sql threads on 0 x 1 {"duration": "10 s", "query_mode": "simple", "scaling_factor": "10", "threads": "1"}
        run of 0 in 0: {"operations": 4812345.0, "operations_per_s": 80211.123456, "pgbench.failed_transactions": 0.0, "pgbench.initial_connection_ms": 12.345, "pgbench.latency_average_ms": 0.199}
        run of 1 in 0: {"operations": 12175.0, "operations_per_s": 1217.6, "pgbench.failed_transactions": 1.0, "pgbench.initial_connection_ms": 1.5, "pgbench.latency_average_ms": 0.82, "pgbench.latency_stddev_ms": 0.11}
          10 samples
        warning: not read from pgbench.txt: statistics of single scripts or statements (2 numbers)
    "#]],
    );
}

#[test]
fn benchmarks_of_go_are_curves_over_its_cpus() {
    check(
        "go-bench",
        "go_bench.txt",
        expect![[r#"
        Runs, blocks false, about operations_per_s, 1 blocks planned
        metric go.ns_per_op: ns, lower
        point 0 cell 0 "go_bench": go.RLock threads on 1 x 1 {"package": "example.org/lockbench"}
        point 1 cell 1 "go_bench": go.RLock threads on 2 x 2 {"package": "example.org/lockbench"}
        point 2 cell 2 "go_bench": go.RLock threads on 4 x 4 {"package": "example.org/lockbench"}
        point 3 cell 3 "go_bench": go.RLock threads on 8 x 8 {"package": "example.org/lockbench"}
        run of 0 in 0: {"go.ns_per_op": 15.1, "operations": 100000000.0, "operations_per_s": 66225165.56291391}
        run of 1 in 0: {"go.ns_per_op": 31.0, "operations": 40000000.0, "operations_per_s": 32258064.51612903}
        run of 2 in 0: {"go.ns_per_op": 58.9, "operations": 20000000.0, "operations_per_s": 16977928.692699492}
        run of 3 in 0: {"go.ns_per_op": 61.0, "operations": 20000000.0, "operations_per_s": 16393442.62295082}
    "#]],
    );
}

#[test]
fn benchmarks_of_cpp_and_java_are_runs_by_repetition_and_fork() {
    check(
        "google-benchmark",
        "google_benchmark.json",
        expect![[r#"
        Runs, blocks false, about google.real_time_ns, 2 blocks planned
        metric google.cpu_time_ns: ns, lower
        metric google.iterations: 1, -
        metric google.real_time_ns: ns, lower
        point 0 cell 0 "google_benchmark": google.BM_Lock threads on 0 x 4 {"argument_1": "64"}
        run of 0 in 0: {"google.cpu_time_ns": 480.25, "google.iterations": 1000000.0, "google.real_time_ns": 120.5, "operations_per_s": 8298755.0}
        run of 0 in 1: {"google.cpu_time_ns": 481.5, "google.iterations": 1000000.0, "google.real_time_ns": 121.5, "operations_per_s": 8230452.5}
        warning: not read from google_benchmark.json: aggregates over repetitions (5 numbers)
    "#]],
    );
    check(
        "jmh",
        "jmh.json",
        expect![[r#"
        Runs, blocks false, about operations_per_s, 2 blocks planned
        metric jmh.gc_alloc_rate_norm: B, -
        point 0 cell 0 "jmh": jmh.LockBench.reentrant threads on 0 x 4 {"fair": "false", "mode": "thrpt"}
        run of 0 in 0: {"jmh.gc_alloc_rate_norm": 24.5, "operations_per_s": 2495000.0}
          4 samples
        run of 0 in 1: {"jmh.gc_alloc_rate_norm": 24.5, "operations_per_s": 2505500.0}
          4 samples
        warning: not read from jmh.json: errors and percentiles that JMH derives (9 numbers)
    "#]],
    );
}

#[test]
fn perf_bench_and_hackbench_print_rates_or_times() {
    check(
        "perf-bench",
        "perf_bench.txt",
        expect![[r#"
            Runs, blocks false, about operations_per_s, 1 blocks planned
            metric perf-bench.operations_per_s_and_thread: 1/s, higher
            metric perf-bench.stddev_percent: %, lower
            metric perf-bench.time_per_operation_us: us, lower
            point 0 cell 0 "perf_bench": perf-bench.sched/messaging processes on 0 x 400 {"groups": "10", "senders_per_group": "20"}
            point 1 cell 1 "perf_bench": perf-bench.sched/pipe processes on 0 x 0 {}
            point 2 cell 2 "perf_bench": perf-bench.futex/hash threads on 0 x 8 {}
            run of 0 in 0: {"wall_s": 0.308}
            run of 1 in 0: {"operations": 1000000.0, "operations_per_s": 195180.0, "perf-bench.time_per_operation_us": 5.123456, "wall_s": 5.123}
            run of 2 in 0: {"operations_per_s": 4080000.0, "perf-bench.operations_per_s_and_thread": 510000.0, "perf-bench.stddev_percent": 0.12, "wall_s": 10.0}
            warning: not read from perf_bench.txt: other lines (8 numbers)
        "#]],
    );
    check(
        "perf-bench",
        "hackbench.txt",
        expect![[r#"
        Runs, blocks false, about wall_s, 2 blocks planned
        point 0 cell 0 "hackbench": hackbench processes on 0 x 400 {"bytes": "100", "groups": "10", "messages": "100"}
        run of 0 in 0: {"wall_s": 0.123}
        run of 0 in 1: {"wall_s": 0.131}
    "#]],
    );
}

#[test]
fn a_mail_of_the_kernel_test_robot_has_a_mean_for_each_commit() {
    check(
        "kernel-test-robot",
        "kernel_test_robot.txt",
        expect![[r#"
        Runs, blocks false, about will-it-scale.per_thread_ops, 1 blocks planned
        metric perf-profile.calltrace.cycles-pp.down_read: 1, -
        metric perf-profile.calltrace.cycles-pp.down_read.stddev_percent: %, -
        metric will-it-scale.52.threads: 1, -
        metric will-it-scale.per_thread_ops: 1, higher
        point 0 cell 0 "aaaaaaaaaa11": lkp.will-it-scale processes on 0 x 0 {"compiler": "gcc-12", "cpufreq_governor": "performance", "kconfig": "x86_64-rhel-9.4", "mode": "thread", "nr_task": "50%", "rootfs": "debian-12", "tbox_group": "lkp-xyz-2sp1", "test": "page_fault1"}
        point 1 cell 0 "bbbbbbbbbb22": lkp.will-it-scale processes on 0 x 0 {"compiler": "gcc-12", "cpufreq_governor": "performance", "kconfig": "x86_64-rhel-9.4", "mode": "thread", "nr_task": "50%", "rootfs": "debian-12", "tbox_group": "lkp-xyz-2sp1", "test": "page_fault1"}
        run of 0 in 0: {"perf-profile.calltrace.cycles-pp.down_read": 38.21, "perf-profile.calltrace.cycles-pp.down_read.stddev_percent": 2.0, "will-it-scale.52.threads": 3412345.0, "will-it-scale.per_thread_ops": 65622.0}
        run of 1 in 0: {"perf-profile.calltrace.cycles-pp.down_read": 45.24, "will-it-scale.52.threads": 2992626.0, "will-it-scale.per_thread_ops": 57550.0}
    "#]],
    );
}

#[test]
fn the_baseline_that_is_named_is_the_first_variant() {
    let baseline = |name| {
        let telling = Telling { baseline: Some(name), ..Telling::default() };
        let imported = assemble(&[fixture("plain.csv")], &telling, session())?;
        let variants = imported.record.variants.into_iter();
        anyhow::Ok(variants.map(|variant| variant.name).collect::<Vec<_>>())
    };
    assert_eq!(baseline("new").unwrap(), ["new", "old, as shipped"]);
    let error = baseline("nwe").unwrap_err().to_string();
    assert_eq!(
        error,
        "--baseline: no variant is called \"nwe\"; did you mean \"new\"? There are new and old, as shipped"
    );
}
