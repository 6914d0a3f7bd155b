//! Tools whose output is a table of lines, and the text of perf stat: small texts in the shape of what they print.

use std::path::Path;

use store::import::{Imported, Input, Telling, assemble};

use super::numbers::{numbers, said};
use super::session;

pub fn read(text: &str) -> Imported {
    let input = Input::from_bytes(Path::new("out.txt"), text.as_bytes()).unwrap();
    assemble(&[input], &Telling::default(), session()).unwrap()
}

/// What a text becomes: for each run its cell, and the named metrics.
#[track_caller]
pub fn check(format: &str, text: &str, expected: &[(&str, &[(&str, f64)])]) {
    let imported = read(text);
    assert_eq!(imported.format.name, format);
    let points = &imported.record.points;
    let cells: Vec<String> = imported
        .runs
        .iter()
        .map(|(run, _)| {
            let point = &points[run.point as usize];
            let named = point.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
            let tasks = if point.tasks > 0 { format!(" x {}", point.tasks) } else { String::new() };
            format!("{}{tasks}{}", point.workload, named.collect::<String>())
        })
        .collect();
    let names: Vec<&str> = expected.iter().map(|(cell, _)| *cell).collect();
    assert_eq!(cells, names);
    for ((run, _), (cell, values)) in imported.runs.iter().zip(expected) {
        for (metric, value) in *values {
            assert_eq!(run.value(metric), Some(*value), "{metric} of {cell}");
        }
    }
}

/// What a text becomes, and that none of its numbers is dropped in silence.
#[track_caller]
pub fn check_whole(format: &str, text: &str, expected: &[(&str, &[(&str, f64)])]) {
    check(format, text, expected);
    check_told(&read(text), text);
}

/// No number is dropped in silence: so many as change nothing are told as not read, at least.
#[track_caller]
pub fn check_told(imported: &Imported, text: &str) {
    let before = said("out.txt", text);
    let is_silent = |(start, _): &&(usize, usize)| {
        let first = if text[*start..].starts_with('7') { "8" } else { "7" };
        let changed = format!("{}{first}{}", &text[..*start], &text[start + 1..]);
        said("out.txt", &changed) == before
    };
    let found = numbers(text);
    let silent: Vec<&(usize, usize)> = found.iter().filter(is_silent).collect();
    let warning = unread(imported);
    let words: Vec<&str> = warning.split(['(', ' ']).collect();
    let told = words.windows(2).filter(|pair| pair[1].starts_with("number"));
    let told: usize = told.filter_map(|pair| pair[0].parse::<usize>().ok()).sum();
    assert!(silent.len() <= told, "{} numbers change nothing, but: {warning}", silent.len());
}

/// Unit and direction of a metric.
pub fn described(imported: &Imported, metric: &str) -> String {
    let metric = &imported.record.metrics[metric];
    format!("{}, {}", metric.unit, metric.better.name())
}

pub fn unread(imported: &Imported) -> String {
    let warnings = imported.record.warnings.iter().map(|warning| warning.text.clone());
    warnings.filter(|text| text.starts_with("not read")).collect()
}

#[test]
fn web_servers_are_read_in_units_of_knee() {
    let wrk = "Running 30s test @ http://127.0.0.1:8080/index.html\n  12 threads and 400 connections\n  \
               Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   635.91us    0.89ms  1.20s   93.69%\n    \
               Req/Sec    56.20k     8.07k   62.00k    86.54%\n  Latency Distribution\n     50%  250.00us\n     \
               99.9%  4.50ms\n  22464657 requests in 30.00s, 17.50KB read\n  Socket errors: connect 1, read 2, write 0, \
               timeout 5\nRequests/sec: 748868.53\nTransfer/sec:    606.5MB\n";
    let values = [
        ("operations_per_s", 748868.53),
        ("operations", 22464657.0),
        ("wall_s", 30.0),
        ("wrk.bytes", 17.5 * 1024.0),
        ("wrk.bytes_per_s", 606.5 * 1024.0 * 1024.0),
        ("wrk.latency_mean_ns", 635910.0),
        ("wrk.latency_stddev_ns", 890_000.0),
        ("wrk.latency_max_ns", 1.2e9),
        ("wrk.latency_p50_ns", 250_000.0),
        ("wrk.latency_p999_ns", 4.5e6),
        ("wrk.per_thread_per_s", 56200.0),
        ("wrk.timeouts", 5.0),
    ];
    check_whole("wrk", wrk, &[("wrk connections=400 threads=12", &values)]);
    let imported = read(wrk);
    assert_eq!(described(&imported, "wrk.latency_p50_ns"), "ns, lower");
    assert_eq!(unread(&imported), "not read from out.txt: other numbers (3 numbers)");
    let ab = "This is ApacheBench, Version 2.3\nDocument Length:        600 bytes\nConcurrency Level:      8\n\
              Time taken for tests:   1.5 seconds\nComplete requests:      100\nRequests per second:    66.67 [#/sec] (mean)\n\
              Time per request:       120.5 [ms] (mean)\nTime per request:       15.25 [ms] (mean, across all concurrent \
              requests)\nConnection Times (ms)\nConnect:        0    1   0.5      2       3\nPercentage of the requests \
              served within a certain time (ms)\n  50%     12\n 100%    301 (longest request)\n";
    let values = [
        ("operations_per_s", 66.67),
        ("ab.time_per_request_ms", 120.5),
        ("ab.time_per_request_of_all_ms", 15.25),
        ("ab.connect_mean_ms", 1.0),
        ("ab.p50_ms", 12.0),
        ("ab.p100_ms", 301.0),
    ];
    check_whole("ab", ab, &[("ab concurrency=8 document_bytes=600", &values)]);
}

#[test]
fn benchmarks_of_one_output_are_workloads() {
    let criterion = "get/kvs/8               time:   [2.2198 us 2.2426 us 2.2694 us]\n                        change: \
                     [-3.77% -1.05% +1.57%] (p = 0.47 > 0.05)\na name too long to share its line\n                        \
                     time:   [1.5 ms 1.75 ms 2.5 ms]\n";
    check_whole(
        "criterion",
        criterion,
        &[
            ("criterion.get part_1=kvs part_2=8", &[("criterion.time_ns", 2242.6)]),
            (
                "criterion.a name too long to share its line",
                &[("criterion.time_ns", 1.75e6), ("criterion.time_high_ns", 2.5e6)],
            ),
        ],
    );
    let libtest = "test fib_10 ... bench:         135 ns/iter (+/- 24)\n\
                   test For loop (x) ... bench:      18,149 us/iter (+/- 755)\n";
    check_whole(
        "cargo-bench",
        libtest,
        &[
            ("cargo-bench.fib_10", &[("cargo-bench.time_ns", 135.0)]),
            ("cargo-bench.For loop (x)", &[("cargo-bench.time_ns", 18_149_000.0)]),
        ],
    );
    let db_bench = "Keys:       16 bytes each\nEntries:    1000\nfillseq      :      13.025 micros/op;    8.5 MB/s\n\
                    readrandom   :  2.354 micros/op 424785 ops/sec 2.5 seconds 1000 operations; 47.0 MB/s (9 of 10 found)\n";
    check_whole(
        "db_bench",
        db_bench,
        &[
            (
                "db_bench.fillseq",
                &[("db_bench.time_per_operation_us", 13.025), ("db_bench.mb_per_s", 8.5)],
            ),
            ("db_bench.readrandom", &[("operations_per_s", 424785.0), ("wall_s", 2.5)]),
        ],
    );
    let redis = "====== SET ======\n  100000 requests completed in 0.88 seconds\n  50 parallel clients\n  3 bytes payload\n\
                 99.76% <= 1 milliseconds\n113895.22 requests per second\n\nGET: 120000.5 requests per second, p50=0.25 \
                 msec\n";
    check_whole(
        "redis-benchmark",
        redis,
        &[
            (
                "redis-benchmark.SET clients=50 payload_bytes=3",
                &[("operations_per_s", 113895.22), ("redis.within_9976_percent_ms", 1.0)],
            ),
            (
                "redis-benchmark.GET",
                &[("operations_per_s", 120000.5), ("redis.latency_p50_ms", 0.25)],
            ),
        ],
    );
}

#[test]
fn reports_on_the_way_are_no_runs() {
    let table = |p99: u32, rps: &str| {
        format!(
            "Wakeup Latencies percentiles (usec) runtime 10 (s) (900 total samples)\n\t  50.0th: 6          (500 samples)\n\t* \
             99.0th: {p99}        (90 samples)\n\t  min=1, max=119\nRPS percentiles (requests) runtime 10 (s) (9 total \
             samples)\n\t  20.0th: 900   (2 samples)\n\t  min=800, max=950\n{rps}\n"
        )
    };
    let text = table(8, "current rps: 899.5") + &table(9, "average rps: 905.5");
    let values = [
        ("operations_per_s", 905.5),
        ("schbench.wakeup_latency_p99_us", 9.0),
        ("schbench.wakeup_latency_max_us", 119.0),
        ("schbench.per_s_p20", 900.0),
        ("schbench.per_s_max", 950.0),
    ];
    check("schbench", &text, &[("schbench", &values)]);
    let imported = read(&text);
    assert_eq!(described(&imported, "schbench.per_s_p20"), "1/s, higher");
    assert_eq!(described(&imported, "schbench.wakeup_latency_p99_us"), "us, lower");
    assert!(unread(&imported).contains("interim reports"));
}

#[test]
fn loads_of_files_memory_and_clocks_are_read() {
    let dbench = "dbench version 4.00\n 128  14063777  13565.05 MB/sec  execute 598 sec  latency 11.805 ms\n Operation    \
                  Count    AvgLat    MaxLat\n Flush     181     3.095    53.127\n\nThroughput 13563.9 MB/sec  128 clients  \
                  128 procs  max_latency=53.132 ms\n";
    let values = [
        ("dbench.mb_per_s", 13563.9),
        ("dbench.latency_max_ms", 53.132),
        ("dbench.flush_latency_mean_ms", 3.095),
    ];
    check_whole("dbench", dbench, &[("dbench x 128", &values)]);
    assert_eq!(read(dbench).runs[0].1.len(), 4);
    let ebizzy = "306090 records/s\nreal 10.00 s\nuser 1227.55 s\nsys   0.54 s\n\
                  323547 records/s\nreal 10.00 s user 1262.95 s sys  0.82 s\n";
    let first = [("operations_per_s", 306090.0), ("time.user_time", 1227.55)];
    let second = [("operations_per_s", 323547.0), ("time.system_time", 0.82)];
    check_whole("ebizzy", ebizzy, &[("ebizzy", &first), ("ebizzy", &second)]);
    let cyclictest = "T: 0 ( 1946) P:99 I:1000 C:   21097 Min:      1 Act:    3 Avg:    2 Max:      177\n\
                      T: 1 ( 1947) P:99 I:1500 C:14064 Min:1 Act:3 Avg:3 Max:152\n";
    check_whole(
        "cyclictest",
        cyclictest,
        &[
            (
                "cyclictest interval=1000 priority=99 thread=0",
                &[("cyclictest.latency_max_us", 177.0)],
            ),
            (
                "cyclictest interval=1500 priority=99 thread=1",
                &[("cyclictest.latency_max_us", 152.0)],
            ),
        ],
    );
    let stream = "STREAM version 5.10\nNumber of Threads counted = 4\nFunction    Best Rate MB/s  Avg time     Min time     \
                  Max time\nCopy:           25956.9     0.25     0.125     0.5\nTriad:          28701.1     0.25 0.125 0.5\n";
    let values = [("stream.copy_mb_per_s", 25956.9), ("stream.triad_time_min_s", 0.125)];
    check_whole("stream", stream, &[("stream x 4", &values)]);
    let kernbench = "Average Optimal load -j 8 Run (std deviation):\nElapsed Time 28.094 (0.182565)\nUser Time 184.74 \
                     (0.397052)\n";
    let values = [("time.elapsed_time", 28.094), ("kernbench.elapsed_time_stddev_s", 0.182565)];
    check_whole("kernbench", kernbench, &[("kernbench x 8 load=Optimal", &values)]);
}

#[test]
fn suites_and_servers_are_read() {
    let run = |copies: &str, index: f64| {
        format!(
            "Benchmark Run: Mon Jan 08 2024 07:40:42 - 07:46:52\n16 CPUs in system; running {copies} of tests\n\nPipe \
             Throughput       1500000.5 lps   (10.0 s, 7 samples)\nSystem Benchmarks Index Values   BASELINE   RESULT    \
             INDEX\nPipe Throughput   12440.0  1500000.5   {index}\nSystem Benchmarks Index Score     {index}\n"
        )
    };
    let text = format!(
        "   BYTE UNIX Benchmarks (Version 5.1.3)\n{}{}",
        run("1 parallel copy", 1205.5),
        run("16 parallel copies", 9000.5)
    );
    let one = [("unixbench.pipe_throughput_per_s", 1500000.5), ("unixbench.index", 1205.5)];
    let all = [("unixbench.pipe_throughput_index", 9000.5), ("unixbench.index", 9000.5)];
    check_whole("unixbench", &text, &[("unixbench x 1", &one), ("unixbench x 16", &all)]);
    let ycsb = "[OVERALL], RunTime(ms), 600144.0\n[OVERALL], Throughput(ops/sec), 800.5\n[READ], Operations, 100\n[READ], \
                AverageLatency(us), 654.75\n[READ], 99thPercentileLatency(us), 1907\n[READ], Return=OK, 100\n[READ], 0, 12\n";
    let values = [("operations_per_s", 800.5), ("ycsb.read_latency_p99_us", 1907.0)];
    check_whole("ycsb", ycsb, &[("ycsb", &values)]);
    assert!(unread(&read(ycsb)).contains("other lines (2 numbers)"), "{}", unread(&read(ycsb)));
    let mutilate = "#type       avg     std     min     5th    10th    90th    95th    99th\nread     1275.5  6358.5    49.5   \
                    378.5   418.5   767.5   841.5 53998.5\n\nTotal QPS = 626566.5 (37594133 / 60.0s)\n";
    let values =
        [("operations_per_s", 626566.5), ("mutilate.read_p99_us", 53998.5), ("wall_s", 60.0)];
    check_whole("mutilate", mutilate, &[("mutilate", &values)]);
    let rados = "Total time run:         10.25\nTotal writes made:      229\nWrite size:             4096\nBandwidth \
                 (MB/sec):     22.5\nMax bandwidth (MB/sec): 26\nAverage IOPS:           22\nAverage Latency(s):     0.5\n";
    let values =
        [("rados.mb_per_s", 22.5), ("rados.average_iops", 22.0), ("rados.max_mb_per_s", 26.0)];
    check_whole("rados-bench", rados, &[("rados-bench write_bytes=4096", &values)]);
    let coremark = "CoreMark Size    : 666\nTotal time (secs): 49.5\nIterations/Sec   : 160665.5\nIterations : 8000\n";
    check_whole("coremark", coremark, &[("coremark size=666", &[("operations_per_s", 160665.5)])]);
}

#[test]
fn the_text_of_perf_stat_is_read_by_its_tables() {
    let table = |command: &str, cycles: &str| {
        format!(
            " Performance counter stats for '{command}' (5 runs):\n\n         60,243.87 msec task-clock         #    1.000 CPUs \
             utilized      ( +-  0.25% )\n    {cycles}      cycles         #    1.197 GHz    ( +-  1.50% )  (49.99%)\n   \
             <not supported>      slots\n\n      60.248690210 +- 0.013 seconds time elapsed  ( +-  0.75% )\n\n      \
             59.5 seconds user\n       0.25 seconds sys\n\n5 of 5 passed\n"
        )
    };
    let text = table("./a 1", "72,124,912,284") + &table("./b 1", "5");
    let values = [
        ("perf.task_clock", 60243.87),
        ("perf.cycles", 72124912284.0),
        ("perf.cycles.stddev_percent", 1.5),
        ("time.elapsed_time", 60.24869021),
        ("time.elapsed_time.stddev_percent", 0.75),
        ("time.user_time", 59.5),
    ];
    check_whole(
        "perf-stat-text",
        &text,
        &[("command repeats=5", &values), ("command repeats=5", &[("perf.cycles", 5.0)])],
    );
    let imported = read(&text);
    let names: Vec<&str> = imported.record.variants.iter().map(|one| &one.name[..]).collect();
    assert_eq!(names, ["./a 1", "./b 1"]);
    assert_eq!(described(&imported, "perf.task_clock"), "ms, -");
    assert_eq!(imported.record.experiment.compare.metric, "time.elapsed_time");
    let unread = unread(&imported);
    assert!(
        unread.contains("metrics that perf derives") && unread.contains("other lines"),
        "{unread}"
    );
    let over_time = "#           time             counts unit events\n     1.001087470      8,004.5 msec cpu-clock   #  8.0 \
                     CPUs utilized\n     2.002087470      8,000.5 msec cpu-clock   #  8.0 CPUs utilized\n";
    check_whole("perf-stat-text", over_time, &[("command", &[("perf.cpu_clock", 16005.0)])]);
    assert_eq!(read(over_time).runs[0].1.len(), 4);
}

#[test]
fn numbers_of_another_language_are_refused_with_the_remedy() {
    let text = " Performance counter stats for 'x':\n\n    11.117.524.161      cycles\n";
    let input = Input::from_bytes(Path::new("out.txt"), text.as_bytes()).unwrap();
    let error = assemble(&[input], &Telling::default(), session()).unwrap_err();
    assert!(format!("{error:#}").contains("line 3: perf.cycles is '11.117.524.161'"), "{error:#}");
}

#[test]
fn a_program_s_own_output_goes_before_that_of_perf_stat_below_it() {
    let text = "306090 records/s\nreal 10.00 s\nuser 1227.55 s\nsys   0.54 s\n\n Performance counter stats for './ebizzy':\n\n  \
                5,000      cycles\n\n      10.5 seconds time elapsed\n";
    check_whole("ebizzy", text, &[("ebizzy", &[("operations_per_s", 306090.0)])]);
}
