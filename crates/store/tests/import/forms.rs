//! Other forms of formats: what the same tool prints in an older version, for another test, or as CSV.

use super::lines::{check, check_told, check_whole, described, read, unread};

#[test]
fn perf_bench_averages_over_threads_and_measures_functions_apart() {
    let futex = "# Running 'futex/hash' benchmark:\nRun summary [PID 3042]: 8 threads, each operating on 1024 [shared] \
                 futexes for 300 secs.\n\nAveraged 491926 operations/sec (+- 0.25%), total secs = 300\n\n# Running \
                 'futex/wake-parallel' benchmark:\nRun summary [PID 3042]: blocking on 4 threads (at [shared] futex \
                 0x56), 4 threads waking up 1 at a time.\n\n[Run 1]: Avg per-thread latency (waking 1/4 threads) in 0.0054 \
                 ms (+-16.5%)\nAvg per-thread latency (waking 1/4 threads) in 0.0112 ms (+-21.5%)\n";
    let hash = [
        ("operations_per_s", 8.0 * 491926.0),
        ("perf-bench.operations_per_s_and_thread", 491926.0),
        ("perf-bench.stddev_percent", 0.25),
    ];
    let wake = [("perf-bench.time_ms", 0.0112), ("perf-bench.stddev_percent", 21.5)];
    check(
        "perf-bench",
        futex,
        &[("perf-bench.futex/hash x 8", &hash), ("perf-bench.futex/wake-parallel x 4", &wake)],
    );
    let memory = "# Running 'mem/memcpy' benchmark:\n# function 'default' (Default memcpy() provided by glibc)\n# Copying \
                  1MB bytes ...\n\n       8.5 GB/sec\n\n# function 'x86-64-movsq' (movsq-based memcpy())\n# Copying 1MB bytes \
                  ...\n\n      512.5 MB/sec\n";
    check(
        "perf-bench",
        memory,
        &[
            (
                "perf-bench.mem/memcpy function=default size=1MB",
                &[("perf-bench.bytes_per_s", 8.5 * 1024.0 * 1024.0 * 1024.0)],
            ),
            (
                "perf-bench.mem/memcpy function=x86-64-movsq size=1MB",
                &[("perf-bench.bytes_per_s", 512.5 * 1024.0 * 1024.0)],
            ),
        ],
    );
    assert_eq!(described(&read(memory), "perf-bench.bytes_per_s"), "B/s, higher");
    let numa = "# Running 'numa/mem' benchmark:\n\n main,     6.801, secs,           runtime-max/thread\n main,    31.463, \
                GB/sec,         total-speed\n";
    let values = [("perf-bench.runtime_max_thread", 6.801), ("perf-bench.total_speed", 31.463)];
    check("perf-bench", numa, &[("perf-bench.numa/mem", &values)]);
    assert_eq!(described(&read(numa), "perf-bench.total_speed"), "GB/s, higher");
    let calls = "# Executed 10000000 getppid() calls\n     Total time: 1.25 [sec]\n\n       0.125 usecs/op\n     8000000 \
                 ops/sec\n\n# Executed 10000 fork() calls\n     Total time: 0.75 [sec]\n\n      75.0 usecs/op\n       13333 \
                 ops/sec\n";
    check(
        "perf-bench",
        calls,
        &[
            ("perf-bench.syscall call=getppid", &[("operations_per_s", 8e6), ("wall_s", 1.25)]),
            ("perf-bench.syscall call=fork", &[("operations", 10000.0), ("wall_s", 0.75)]),
        ],
    );
}

#[test]
fn a_stressor_s_own_metrics_may_stand_below_its_row() {
    let log = "stress-ng: info:  [7] dispatching hogs: 2 memrate\nstress-ng: info:  [7] stressor       bogo ops real time  \
               usr time  sys time   bogo ops/s     bogo ops/s\nstress-ng: info:  [7]                           (secs)    (secs)    \
               (secs)   (real time) (usr+sys time)\nstress-ng: info:  [7] memrate             218      5.00    116.28      1.78   \
               43.5           1.75\nstress-ng: info:  [7] memrate         4640.5 write128 MB/sec (average per \
               stressor)\nstress-ng: info:  [7] for a 5.00s run time:\n";
    let values = [("operations_per_s", 43.5), ("stress-ng.write128_mb_per_sec", 4640.5)];
    check("stress-ng", log, &[("stress-ng.memrate x 2", &values)]);
    assert_eq!(described(&read(log), "stress-ng.write128_mb_per_sec"), "MB/s, higher");
    assert_eq!(unread(&read(log)), "not read from out.txt: other lines (1 number)");
}

#[test]
fn tables_of_jmh_and_google_benchmark_are_read() {
    let jmh = "\"Benchmark\",\"Mode\",\"Threads\",\"Samples\",\"Score\",\"Score Error (99,9%)\",\"Unit\",\"Param: size\"\n\
               \"org.a.B.lock\",\"avgt\",2,5,\"0,044706\",\"0,25\",\"ms/op\",64\n\"org.a.B.lock\",\"thrpt\",16,1,0.5,NaN,\"ops/ns\",8\n";
    check(
        "jmh",
        jmh,
        &[
            (
                "jmh.B.lock x 2 mode=avgt size=64",
                &[
                    ("jmh.time_per_operation_ns", 44706.0),
                    ("jmh.time_per_operation_ns.error", 250000.0),
                ],
            ),
            ("jmh.B.lock x 16 mode=thrpt size=8", &[("operations_per_s", 5e8)]),
        ],
    );
    let google = "Run on (8 X 2700 MHz CPU s)\nname,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,\
                  label,error_occurred,error_message\n\"lock/64/threads:4\",510,1.5,1.25,us,,2500,,,\n\
                  \"lock/64/threads:4_mean\",2,1.5,1.25,us,,2500,,,\n";
    let values = [("google.real_time_ns", 1500.0), ("operations_per_s", 2500.0)];
    check("google-benchmark", google, &[("google.lock x 4 argument_1=64", &values)]);
    assert!(unread(&read(google)).contains("aggregates over repetitions"));
}

#[test]
fn the_table_of_google_benchmark_is_read() {
    let table = "Run on (20 X 3609.6 MHz CPU s)\nLoad Average: 0.00, 0.02, 0.00\n\
                 ------------------------------------------------------------------------\n\
                 Benchmark              Time             CPU   Iterations UserCounters...\n\
                 ------------------------------------------------------------------------\n\
                 BM_Copy<int, 8>/64/threads:4      28.9 us         29.3 us        23853 bytes_per_second=133.5Mi/s \
                 items_per_second=33.25k/s warm\n\
                 BM_Sort_BigO           0.95 NlgN        0.96 NlgN\nBM_Bad               ERROR OCCURRED: 'no file'\n";
    let copied = [
        ("google.real_time_ns", 28900.0),
        ("google.cpu_time_ns", 29300.0),
        ("google.bytes_per_s", 133.5 * 1048576.0),
        ("operations_per_s", 33250.0),
    ];
    let expected =
        [("google.BM_Copy<int, 8> x 4 argument_1=64", &copied[..]), ("google.BM_Bad x 1", &[])];
    check("google-benchmark", table, &expected);
    check_told(&read(table), table);
    let columns = "Benchmark    Time    CPU   Iterations   hits   rate\nBM_Look   15.6 ns   15.5 ns   40633319   12.5k   3.5M/s\n";
    let values = [("google.real_time_ns", 15.6), ("google.hits", 12500.0), ("google.rate", 3.5e6)];
    check("google-benchmark", columns, &[("google.BM_Look x 1", &values)]);
    check_told(&read(columns), columns);
}

#[test]
fn benchmarks_of_scripts_are_read() {
    let js = "Benchmark run with Node v16.13.2\n\n- Hyperapp x 13,592 ops/sec ±0.39% (95 runs sampled)\n\
              object spread x 65,008 ops/sec ±10.61% (96 runs sampled)\nFastest is object spread\n";
    let spread = [("operations_per_s", 65008.0), ("benchmark-js.error_percent", 10.61)];
    let hyper = [("operations_per_s", 13592.0), ("benchmark-js.samples", 95.0)];
    check_whole(
        "benchmark-js",
        js,
        &[("benchmark-js.Hyperapp", &hyper), ("benchmark-js.object spread", &spread)],
    );
    let ips = "Warming up --------------------------------------\n               metka    99.000  i/100ms\n\
               Calculating -------------------------------------\n               metka    985.9 (± 2.3%) i/s -  4.950k in   5.02s\n\
               tag columns     1.299k (±10.5%) i/s    (769.69 μs/i) -      6.500k in   5.016s\n\nComparison:\n\
               metka:      985.9 i/s\n";
    let metka = [("operations_per_s", 985.9), ("benchmark-ips.deviation_percent", 2.3)];
    let tags = [("operations_per_s", 1299.0), ("benchmark-ips.deviation_percent", 10.5)];
    check_whole(
        "benchmark-ips",
        ips,
        &[("benchmark-ips.metka", &metka), ("benchmark-ips.tag columns", &tags)],
    );
}

#[test]
fn rounds_of_pytest_are_samples() {
    let text = r#"{"machine_info": {"node": "host"}, "commit_info": {}, "benchmarks": [{"name": "test_lock[8]",
        "params": {"n": 8}, "stats": {"mean": 0.25, "ops": 4.0, "rounds": 2, "iterations": 1, "q1": 0.2,
        "data": [0.2, 0.3]}}]}"#;
    let values = [("pytest.time_s", 0.25), ("operations_per_s", 4.0), ("pytest.rounds", 2.0)];
    check("pytest-benchmark", text, &[("pytest.test_lock n=8", &values)]);
    let imported = read(text);
    assert_eq!(imported.runs[0].1.len(), 2);
    assert_eq!(described(&imported, "pytest.time_s"), "s, lower");
    assert_eq!(unread(&imported), "not read from out.txt: further statistics (1 number)");
}

#[test]
fn outputs_of_sysbench_are_found_by_their_version_or_without_it() {
    let old = "# sysbench --test=fileio prepare\nsysbench 0.4.12:  multi-threaded system evaluation benchmark\n\n128 files, 8192Kb \
               each\n\n# sysbench --test=fileio run\nsysbench 0.4.12:  multi-threaded\n\nNumber of threads: 1\n\nThreads \
               started!\nDone.\n\nOperations performed:  195 Read, 130 Write = 325 Total\n\nTest execution summary:\n    \
               total time:                          300.5s\n    total number of events:              601\n    total time \
               taken by event execution: 185.25\n    per-request statistics:\n         min:                                  \
               0.25ms\n         approx.  95 percentile:              15.25ms\n";
    let values = [
        ("operations_per_s", 2.0),
        ("sysbench.latency_ms.95_percentile", 15.25),
        ("sysbench.general_statistics.total_time_taken_by_event_execution", 185.25),
    ];
    check("sysbench", old, &[("sysbench.fileio x 1 version=0.4.12", &values)]);
    let metric = "sysbench.general_statistics.total_time_taken_by_event_execution";
    assert_eq!(described(&read(old), metric), "s, -");
    let pasted = "CPU 0 sysbench 1.0.11 (using system LuaJIT)\n\nNumber of threads: 2\nThreads started!\n\nGeneral statistics:\n    \
                  total time:                          2.0s\n    total number of events:              50\n";
    check("sysbench", pasted, &[("sysbench x 2 version=1.0.11", &[("operations_per_s", 25.0)])]);
    let tail = &pasted[pasted.find("General").unwrap()..];
    check("sysbench", tail, &[("sysbench", &[("operations_per_s", 25.0)])]);
}

#[test]
fn lines_of_scripts_above_a_table_are_skipped_and_counted() {
    let table = "2020-01-31 08:12:43 ./runtest.py mmap2 295 process 104\ntasks,processes,processes_idle,threads,threads_idle,linear\n\
                 0,0,100,0,100,0\n104,1200363,0.5,0,0.00,0\n";
    check(
        "will-it-scale",
        table,
        &[("will-it-scale.out x 104", &[("operations_per_s", 1200363.0)])],
    );
    assert!(unread(&read(table)).contains("lines above the table"), "{}", unread(&read(table)));
    let perf = "perf version 5.13\nperf stat -a -I 1000 -x ,\n     1.000659830,41,,cycles,16139216640,16.66,0.042,GHz\n     \
                2.000659830,2,,cycles,16139216640,16.66,,\n";
    check("perf-stat", perf, &[("command", &[("perf.cycles", 43.0)])]);
    let blanks = "1.000659830 41  cycles 16139216640 16.66 0.042 GHz\n1.000659830 22065603430  cpu-clock 22065611881 100.00 22.1 \
                  CPUs utilized\n";
    let values = [("perf.cycles", 41.0), ("perf.cpu_clock", 22065.60343)];
    check("perf-stat", blanks, &[("command", &values)]);
    assert_eq!(described(&read(blanks), "perf.cpu_clock"), "ms, -");
    let json = "{\"counter-value\" : \"5.5\", \"unit\" : \"\", \"event\" : \"slots\", \"event-runtime\" : 55, \"pcnt-running\" : \
                100.00, \"metric-value\" : \"4.5\", \"metric-unit\" : \"%\"}\n{\"metric-value\" : \"29.25\", \"metric-unit\" : \"%  \
                tma_frontend_bound\"}\n";
    check("perf-stat", json, &[("command", &[("perf.slots", 5.5)])]);
    assert_eq!(
        unread(&read(json)),
        "not read from out.txt: how long events were counted (2 numbers), metrics that perf derives (2 numbers)"
    );
}

#[test]
fn benchmarks_of_one_name_in_two_packages_are_two() {
    let package = |name: &str, ns: &str| {
        format!(
            "goos: linux\npkg: example.org/{name}\nBenchmarkLock-4   21228057   {ns} ns/op\nPASS\n"
        )
    };
    let text = package("a", "55.5") + &package("b", "0.25");
    check(
        "go-bench",
        &text,
        &[
            ("go.Lock x 4 package=example.org/a", &[("go.ns_per_op", 55.5)]),
            ("go.Lock x 4 package=example.org/b", &[("go.ns_per_op", 0.25)]),
        ],
    );
}

#[test]
fn lines_of_tools_have_other_forms() {
    let one =
        "Average Optimal load -j 144 Run (std deviation):\nElapsed Time 7.75\nPercent CPU 3054.5\n";
    let values = [("time.elapsed_time", 7.75), ("kernbench.cpu_percent", 3054.5)];
    check("kernbench", one, &[("kernbench x 144 load=Optimal", &values)]);
    let cycles = "test cmov ... bench:        2835 cycles/iter (+/- 14)\n";
    check("cargo-bench", cycles, &[("cargo-bench.cmov", &[("cargo-bench.cycles_iter", 2835.0)])]);
    let graphics = "Benchmark Run: Tue Feb 20 2024 03:49:06 - 03:53:47\n36 CPUs in system; running 1 parallel copy of tests\n\n3D \
                    graphics: gears        3207.5 fps   (20.0 s, 7 samples)\n3D Graphics Benchmarks Index Values  BASELINE  \
                    RESULT  INDEX\n3D graphics: gears   33.4   3207.5   960.25\n3D Graphics Benchmarks Index Score   960.25\n";
    let values = [
        ("unixbench.3d_graphics_gears_frames_per_s", 3207.5),
        ("unixbench.3d_graphics_benchmarks_index", 960.25),
    ];
    check("unixbench", graphics, &[("unixbench x 1", &values)]);
}
