//! The tools whose output is a table of lines. Sources: what they print, in logs and mails of 2012 to 2026.

use records::Better::{Higher, Lower, Neither};

use crate::import::lines::{Line, Tool};

const RATE: &str = "operations_per_s";

const ONE_RUN: &str =
    "one output is one run: replication needs several, in one log or in files of their own";
const NO_HOST: &str = "CPUs, host and kernel are not recorded";
const NO_SERVER: &str = "the server, CPUs, host and kernel are not recorded";
const ESTIMATES: &str = "each value is an estimate from many samples, which are not in the text: a benchmark counts as one run";

/// ApacheBench.
pub const AB: Tool = Tool {
    name: "ab",
    marks: &["Time taken for tests:", "Requests per second:"],
    primary: RATE,
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::begin("This is ApacheBench >"),
        Line::new("Document Length: %document_bytes bytes", &[]),
        Line::new("Concurrency Level: %concurrency", &[]),
        Line::new("Time taken for tests: # seconds", &[("wall_s", "s", Lower)]),
        Line::new("Complete requests: #", &[("operations", "1", Neither)]),
        Line::new("Failed requests: #", &[("ab.failed_requests", "1", Lower)]),
        Line::new("Write errors: #", &[("ab.write_errors", "1", Lower)]),
        Line::new("Non-2xx responses: #", &[("ab.non_2xx_responses", "1", Lower)]),
        Line::new("Keep-Alive requests: #", &[("ab.keep_alive_requests", "1", Neither)]),
        Line::new("Total transferred: # bytes", &[("ab.bytes", "B", Neither)]),
        Line::new("HTML transferred: # bytes", &[("ab.html_bytes", "B", Neither)]),
        Line::new("Requests per second: # [>", &[(RATE, "1/s", Higher)]),
        Line::new("Time per request: # [ms] (mean)", &[("ab.time_per_request_ms", "ms", Lower)]),
        Line::new(
            "Time per request: # [ms] (mean, across all concurrent requests)",
            &[("ab.time_per_request_of_all_ms", "ms", Lower)],
        ),
        Line::new("Transfer rate: # [Kbytes/sec] received", &[("ab.kib_per_s", "KiB/s", Higher)]),
        Line::section("Connection Times (ms)", "times"),
        Line::section(
            "Percentage of the requests served within a certain time (ms)",
            "percentiles",
        ),
        Line::new(
            "~ # # # # #",
            &[
                ("ab.{}_min_ms", "ms", Lower),
                ("ab.{}_mean_ms", "ms", Lower),
                ("ab.{}_stddev_ms", "ms", Lower),
                ("ab.{}_median_ms", "ms", Lower),
                ("ab.{}_max_ms", "ms", Lower),
            ],
        )
        .within("times"),
        Line::new("~% # (longest request)", &[("ab.p{}_ms", "ms", Lower)]).within("percentiles"),
        Line::new("~% #", &[("ab.p{}_ms", "ms", Lower)]).within("percentiles"),
    ],
};

/// Tests of `cargo bench`, in the form of libtest, which criterion has, too.
pub const CARGO_BENCH: Tool = Tool {
    name: "cargo-bench",
    marks: &["... bench:", "/iter (+/-"],
    primary: "cargo-bench.time_ns",
    lacks: &[ESTIMATES, NO_HOST],
    lines: &[
        Line::new(
            "test @ ... bench: #ns (+/- #) >",
            &[("cargo-bench.time_ns", "ns", Lower), ("", "", Neither)],
        ),
        // A measure of one's own may be cycles, or a rate.
        Line::new(
            "test @ ... bench: # ~ (+/- #) >",
            &[("cargo-bench.{}", "1", Neither), ("", "", Neither)],
        ),
    ],
};

/// CoreMark.
pub const COREMARK: Tool = Tool {
    name: "coremark",
    marks: &["CoreMark Size", "Iterations/Sec"],
    primary: RATE,
    lacks: &[ONE_RUN, NO_HOST],
    lines: &[
        Line::begin("2K performance run parameters for coremark."),
        Line::new("CoreMark Size : %size", &[]),
        Line::new("Total ticks : #", &[("coremark.ticks", "1", Neither)]),
        Line::new("Total time (secs): #", &[("wall_s", "s", Lower)]),
        Line::new("Iterations/Sec : #", &[(RATE, "1/s", Higher)]),
        Line::new("Iterations : #", &[("operations", "1", Neither)]),
    ],
};

/// What criterion prints about its benchmarks.
pub const CRITERION: Tool = Tool {
    name: "criterion",
    marks: &["time:   ["],
    primary: "criterion.time_ns",
    lacks: &[ESTIMATES, NO_HOST],
    lines: &[Line::new(
        "@ time: [#ns #ns #ns]",
        &[
            ("criterion.time_low_ns", "ns", Neither),
            ("criterion.time_ns", "ns", Lower),
            ("criterion.time_high_ns", "ns", Neither),
        ],
    )],
};

/// cyclictest.
pub const CYCLICTEST: Tool = Tool {
    name: "cyclictest",
    marks: &["T: 0 (", " Min:", " Avg:", " Max:"],
    primary: "cyclictest.latency_max_us",
    lacks: &[
        "whether times are us or ns (-N) is not recorded: they are taken as us",
        ONE_RUN,
        NO_HOST,
    ],
    lines: &[
        Line::begin("# /dev/cpu_dma_latency >"),
        Line::new(
            "T: %thread (*) P: %priority I: %interval C: # Min: # Act: # Avg: # Max: #",
            &[
                ("cyclictest.cycles", "1", Neither),
                ("cyclictest.latency_min_us", "us", Lower),
                ("cyclictest.latency_last_us", "us", Neither),
                ("cyclictest.latency_mean_us", "us", Lower),
                ("cyclictest.latency_max_us", "us", Lower),
            ],
        ),
    ],
};

/// db_bench of LevelDB and RocksDB.
pub const DB_BENCH: Tool = Tool {
    name: "db_bench",
    marks: &["micros/op", "Entries:"],
    primary: "db_bench.time_per_operation_us",
    lacks: &[ONE_RUN, NO_HOST],
    lines: &[
        Line::begin("Keys: >"),
        Line::new(
            "@ : # micros/op # ops/sec # seconds # operations >",
            &[
                ("db_bench.time_per_operation_us", "us", Lower),
                (RATE, "1/s", Higher),
                ("wall_s", "s", Lower),
                ("operations", "1", Neither),
            ],
        ),
        Line::new(
            "@ : # micros/op # ops/sec >",
            &[("db_bench.time_per_operation_us", "us", Lower), (RATE, "1/s", Higher)],
        ),
        Line::new(
            "@ : # micros/op # MB/s >",
            &[
                ("db_bench.time_per_operation_us", "us", Lower),
                ("db_bench.mb_per_s", "MB/s", Higher),
            ],
        ),
        Line::new("@ : # micros/op >", &[("db_bench.time_per_operation_us", "us", Lower)]),
    ],
};

/// dbench, and tbench, which is dbench over TCP.
pub const DBENCH: Tool = Tool {
    name: "dbench",
    marks: &["Throughput ", " MB/sec", " procs"],
    primary: "dbench.mb_per_s",
    lacks: &[
        "whether it was dbench or tbench, the files and options are not recorded",
        ONE_RUN,
        NO_HOST,
    ],
    lines: &[
        Line::begin("dbench version >"),
        Line::sample(
            "* # # MB/sec execute # sec latency # ms",
            &[
                ("dbench.sample.operations", "1", Neither),
                ("dbench.sample.mb_per_s", "MB/s", Higher),
                ("dbench.sample.time_s", "s", Neither),
                ("dbench.sample.latency_ms", "ms", Lower),
            ],
        ),
        Line::section("Operation Count AvgLat MaxLat", "operations"),
        Line::new(
            "~ # # #",
            &[
                ("dbench.{}_operations", "1", Neither),
                ("dbench.{}_latency_mean_ms", "ms", Lower),
                ("dbench.{}_latency_max_ms", "ms", Lower),
            ],
        )
        .within("operations"),
        Line::new(
            "Throughput # MB/sec %tasks clients * procs max_latency=# ms",
            &[("dbench.mb_per_s", "MB/s", Higher), ("dbench.latency_max_ms", "ms", Lower)],
        ),
        Line::new("Throughput # MB/sec %tasks procs", &[("dbench.mb_per_s", "MB/s", Higher)]),
        Line::new(
            "Throughput # MB/sec (sync open) %tasks clients * procs max_latency=# ms",
            &[("dbench.mb_per_s", "MB/s", Higher), ("dbench.latency_max_ms", "ms", Lower)],
        ),
    ],
};

/// ebizzy.
pub const EBIZZY: Tool = Tool {
    name: "ebizzy",
    marks: &["records/s", "real ", "user ", "sys "],
    primary: RATE,
    lacks: &["an operation is a record; options and threads are not recorded", NO_HOST],
    lines: &[
        Line::new("# records/s", &[(RATE, "1/s", Higher)]),
        Line::new(
            "real # s user # s sys # s",
            &[
                ("wall_s", "s", Neither),
                ("time.user_time", "s", Neither),
                ("time.system_time", "s", Neither),
            ],
        ),
        Line::new("real # s", &[("wall_s", "s", Neither)]),
        Line::new("user # s", &[("time.user_time", "s", Neither)]),
        Line::new("sys # s", &[("time.system_time", "s", Neither)]),
    ],
};

/// kernbench.
pub const KERNBENCH: Tool = Tool {
    name: "kernbench",
    marks: &["Run (std deviation):", "Elapsed Time "],
    primary: "time.elapsed_time",
    lacks: &[
        "each value is a mean over runs, of which the single values are not in the text",
        NO_HOST,
    ],
    lines: &[
        Line::new("Average %load load -j %tasks Run (std deviation)", &[]),
        Line::new("Average %load load -j Run (std deviation)", &[]),
        Line::new(
            "Elapsed Time # (#)",
            &[("time.elapsed_time", "s", Lower), ("kernbench.elapsed_time_stddev_s", "s", Lower)],
        ),
        Line::new(
            "User Time # (#)",
            &[("time.user_time", "s", Lower), ("kernbench.user_time_stddev_s", "s", Lower)],
        ),
        Line::new(
            "System Time # (#)",
            &[("time.system_time", "s", Lower), ("kernbench.system_time_stddev_s", "s", Lower)],
        ),
        Line::new(
            "Percent CPU # (#)",
            &[
                ("kernbench.cpu_percent", "%", Neither),
                ("kernbench.cpu_percent_stddev", "%", Lower),
            ],
        ),
        Line::new(
            "Context Switches # (#)",
            &[
                ("kernbench.context_switches", "1", Neither),
                ("kernbench.context_switches_stddev", "1", Lower),
            ],
        ),
        Line::new(
            "Sleeps # (#)",
            &[("kernbench.sleeps", "1", Neither), ("kernbench.sleeps_stddev", "1", Lower)],
        ),
        // Of one run there is no deviation.
        Line::new("Elapsed Time #", &[("time.elapsed_time", "s", Lower)]),
        Line::new("User Time #", &[("time.user_time", "s", Lower)]),
        Line::new("System Time #", &[("time.system_time", "s", Lower)]),
        Line::new("Percent CPU #", &[("kernbench.cpu_percent", "%", Neither)]),
        Line::new("Context Switches #", &[("kernbench.context_switches", "1", Neither)]),
        Line::new("Sleeps #", &[("kernbench.sleeps", "1", Neither)]),
    ],
};

/// mutilate.
pub const MUTILATE: Tool = Tool {
    name: "mutilate",
    marks: &["#type ", "Total QPS = "],
    primary: RATE,
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::section("#type avg std min 5th 10th 90th 95th 99th", "eight"),
        Line::section("#type avg std min 5th 10th 50th 90th 95th 99th", "nine"),
        Line::new(
            "~ # # # # # # # #",
            &[
                ("mutilate.{}_mean_us", "us", Lower),
                ("mutilate.{}_stddev_us", "us", Lower),
                ("mutilate.{}_min_us", "us", Lower),
                ("mutilate.{}_p5_us", "us", Lower),
                ("mutilate.{}_p10_us", "us", Lower),
                ("mutilate.{}_p90_us", "us", Lower),
                ("mutilate.{}_p95_us", "us", Lower),
                ("mutilate.{}_p99_us", "us", Lower),
            ],
        )
        .within("eight"),
        Line::new(
            "~ # # # # # # # # #",
            &[
                ("mutilate.{}_mean_us", "us", Lower),
                ("mutilate.{}_stddev_us", "us", Lower),
                ("mutilate.{}_min_us", "us", Lower),
                ("mutilate.{}_p5_us", "us", Lower),
                ("mutilate.{}_p10_us", "us", Lower),
                ("mutilate.{}_p50_us", "us", Lower),
                ("mutilate.{}_p90_us", "us", Lower),
                ("mutilate.{}_p95_us", "us", Lower),
                ("mutilate.{}_p99_us", "us", Lower),
            ],
        )
        .within("nine"),
        Line::new(
            "Total QPS = # (# / #s)",
            &[(RATE, "1/s", Higher), ("operations", "1", Neither), ("wall_s", "s", Neither)],
        ),
        Line::new("Peak QPS = #", &[("mutilate.peak_per_s", "1/s", Higher)]),
        Line::new("Misses = # (>", &[("mutilate.misses", "1", Neither)]),
        Line::new("Skipped TXs = # (>", &[("mutilate.skipped", "1", Lower)]),
        Line::new(
            "RX # bytes : # MB/s",
            &[
                ("mutilate.received_bytes", "B", Neither),
                ("mutilate.received_mb_per_s", "MB/s", Higher),
            ],
        ),
        Line::new(
            "TX # bytes : # MB/s",
            &[("mutilate.sent_bytes", "B", Neither), ("mutilate.sent_mb_per_s", "MB/s", Higher)],
        ),
    ],
};

/// `rados bench`.
pub const RADOS_BENCH: Tool = Tool {
    name: "rados-bench",
    marks: &["Total time run:", "Bandwidth (MB/sec):"],
    primary: "rados.mb_per_s",
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::new("Total time run: #", &[("wall_s", "s", Neither)]),
        Line::new("Total writes made: #", &[("rados.writes", "1", Neither)]),
        Line::new("Total reads made: #", &[("rados.reads", "1", Neither)]),
        Line::new("Write size: %write_bytes", &[]),
        Line::new("Read size: %read_bytes", &[]),
        Line::new("Object size: %object_bytes", &[]),
        Line::new("Bandwidth (MB/sec): #", &[("rados.mb_per_s", "MB/s", Higher)]),
        Line::new("~ bandwidth (MB/sec): #", &[("rados.{}_mb_per_s", "MB/s", Neither)]),
        Line::new("Stddev Bandwidth: #", &[("rados.stddev_mb_per_s", "MB/s", Lower)]),
        Line::new("Stddev IOPS: #", &[("rados.stddev_iops", "1/s", Lower)]),
        Line::new("~ IOPS: #", &[("rados.{}_iops", "1/s", Higher)]),
        Line::new("~ Latency(s): #", &[("rados.{}_latency_s", "s", Lower)]),
        Line::new("~ latency(s): #", &[("rados.{}_latency_s", "s", Lower)]),
        Line::new("~ Latency: #", &[("rados.{}_latency_s", "s", Lower)]),
        Line::new("~ latency: #", &[("rados.{}_latency_s", "s", Lower)]),
    ],
};

/// redis-benchmark, in full and with -q.
pub const REDIS_BENCHMARK: Tool = Tool {
    name: "redis-benchmark",
    marks: &[" requests per second"],
    primary: RATE,
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::new("====== @ ======", &[]),
        Line::new("throughput summary: # requests per second", &[(RATE, "1/s", Higher)]),
        Line::new("# requests per second", &[(RATE, "1/s", Higher)]),
        Line::new(
            "@ # requests per second, p50=# msec",
            &[(RATE, "1/s", Higher), ("redis.latency_p50_ms", "ms", Lower)],
        ),
        Line::new("@ # requests per second", &[(RATE, "1/s", Higher)]),
        Line::new(
            "# requests completed in # seconds",
            &[("operations", "1", Neither), ("wall_s", "s", Lower)],
        ),
        Line::new("requests completed in # seconds", &[("wall_s", "s", Lower)]),
        Line::new("%clients parallel clients", &[]),
        Line::new("%payload_bytes bytes payload", &[]),
        Line::new("~% <= # milliseconds >", &[("redis.within_{}_percent_ms", "ms", Lower)]),
        Line::section("avg min p50 p95 p99 max", "latencies"),
        Line::new(
            "# # # # # #",
            &[
                ("redis.latency_mean_ms", "ms", Lower),
                ("redis.latency_min_ms", "ms", Lower),
                ("redis.latency_p50_ms", "ms", Lower),
                ("redis.latency_p95_ms", "ms", Lower),
                ("redis.latency_p99_ms", "ms", Lower),
                ("redis.latency_max_ms", "ms", Lower),
            ],
        )
        .within("latencies"),
    ],
};

/// schbench since 2021. The older one prints one table of latencies.
pub const SCHBENCH: Tool = Tool {
    name: "schbench",
    marks: &["Wakeup Latencies percentiles (usec)"],
    primary: "schbench.wakeup_latency_p99_us",
    lacks: &["the options, and so the numbers of threads, are not recorded", ONE_RUN, NO_HOST],
    lines: &[
        Line::section("Wakeup Latencies percentiles (usec) >", "wakeup"),
        Line::section("Request Latencies percentiles (usec) >", "request"),
        Line::section("RPS percentiles (requests) >", "requests"),
        Line::interim("current rps: >"),
        Line::new("average rps: #", &[(RATE, "1/s", Higher)]),
        Line::new("~% # (# samples)", &[("schbench.per_s_p{}", "1/s", Higher), ("", "", Neither)])
            .within("requests"),
        Line::new(
            "* ~% # (# samples)",
            &[("schbench.per_s_p{}", "1/s", Higher), ("", "", Neither)],
        )
        .within("requests"),
        Line::new(
            "min=# max=#",
            &[("schbench.per_s_min", "1/s", Higher), ("schbench.per_s_max", "1/s", Higher)],
        )
        .within("requests"),
        Line::new(
            "~% # (# samples)",
            &[("schbench.{s}_latency_p{}_us", "us", Lower), ("", "", Neither)],
        ),
        Line::new(
            "* ~% # (# samples)",
            &[("schbench.{s}_latency_p{}_us", "us", Lower), ("", "", Neither)],
        ),
        Line::new(
            "min=# max=#",
            &[
                ("schbench.{s}_latency_min_us", "us", Lower),
                ("schbench.{s}_latency_max_us", "us", Lower),
            ],
        ),
    ],
};

/// STREAM.
pub const STREAM: Tool = Tool {
    name: "stream",
    marks: &["Best Rate MB/s", "Triad:"],
    primary: "stream.triad_mb_per_s",
    lacks: &[ONE_RUN, NO_HOST],
    lines: &[
        Line::begin("STREAM version >"),
        Line::new("Number of Threads counted = %tasks", &[]),
        Line::section("Function Best Rate MB/s Avg time Min time Max time", "rates"),
        Line::new(
            "~ # # # #",
            &[
                ("stream.{}_mb_per_s", "MB/s", Higher),
                ("stream.{}_time_mean_s", "s", Lower),
                ("stream.{}_time_min_s", "s", Lower),
                ("stream.{}_time_max_s", "s", Lower),
            ],
        )
        .within("rates"),
    ],
};

/// UnixBench.
pub const UNIXBENCH: Tool = Tool {
    name: "unixbench",
    marks: &["Benchmark Run: ", " of tests"],
    primary: "unixbench.index",
    lacks: &[ONE_RUN, NO_HOST],
    lines: &[
        Line::section("Benchmark Run: >", "rates"),
        Line::new("* CPU in system; running %tasks parallel copy of tests", &[]),
        Line::new("* CPU in system; running %tasks parallel copies of tests", &[]),
        Line::new("* CPUs in system; running %tasks parallel copy of tests", &[]),
        Line::new("* CPUs in system; running %tasks parallel copies of tests", &[]),
        Line::new("~ # lps >", &[("unixbench.{}_per_s", "1/s", Higher)]).within("rates"),
        Line::new("~ # lpm >", &[("unixbench.{}_per_min", "1/min", Higher)]).within("rates"),
        Line::new("~ # KBps >", &[("unixbench.{}_kb_per_s", "KB/s", Higher)]).within("rates"),
        Line::new("~ # MWIPS >", &[("unixbench.{}_mwips", "1", Higher)]).within("rates"),
        Line::new("~ # fps >", &[("unixbench.{}_frames_per_s", "1/s", Higher)]).within("rates"),
        Line::section("~ Index Values BASELINE RESULT INDEX", "index"),
        Line::section("~ Partial Index BASELINE RESULT INDEX", "index"),
        Line::new("System Benchmarks Index Score #", &[("unixbench.index", "1", Higher)]),
        Line::new("~ Index Score #", &[("unixbench.{}_index", "1", Higher)]),
        Line::new(
            "System Benchmarks Index Score (Partial Only) #",
            &[("unixbench.partial_index", "1", Higher)],
        ),
        Line::new(
            "~ # # #",
            &[("", "", Neither), ("", "", Neither), ("unixbench.{}_index", "1", Higher)],
        )
        .within("index"),
    ],
};

/// wrk, and wrk2.
pub const WRK: Tool = Tool {
    name: "wrk",
    marks: &["Thread Stats", "Requests/sec:"],
    primary: RATE,
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::begin("Running * test >"),
        Line::new("%threads threads and %connections connections", &[]),
        Line::new(
            "Latency #ns #ns #ns #",
            &[
                ("wrk.latency_mean_ns", "ns", Lower),
                ("wrk.latency_stddev_ns", "ns", Lower),
                ("wrk.latency_max_ns", "ns", Lower),
                ("wrk.latency_within_stddev_percent", "%", Neither),
            ],
        ),
        Line::new(
            "Req/Sec #k #k #k #",
            &[
                ("wrk.per_thread_per_s", "1/s", Higher),
                ("wrk.per_thread_stddev_per_s", "1/s", Lower),
                ("wrk.per_thread_max_per_s", "1/s", Higher),
                ("wrk.per_thread_within_stddev_percent", "%", Neither),
            ],
        ),
        Line::section("Latency Distribution >", "latencies"),
        Line::new("~% #ns", &[("wrk.latency_p{}_ns", "ns", Lower)]).within("latencies"),
        Line::new(
            "# requests in #s, #B read",
            &[("operations", "1", Neither), ("wall_s", "s", Neither), ("wrk.bytes", "B", Neither)],
        ),
        Line::new(
            "Socket errors: connect #, read #, write #, timeout #",
            &[
                ("wrk.connect_errors", "1", Lower),
                ("wrk.read_errors", "1", Lower),
                ("wrk.write_errors", "1", Lower),
                ("wrk.timeouts", "1", Lower),
            ],
        ),
        Line::new("Non-2xx or 3xx responses: #", &[("wrk.other_responses", "1", Lower)]),
        Line::new("Requests/sec: #", &[(RATE, "1/s", Higher)]),
        Line::new("Transfer/sec: #B", &[("wrk.bytes_per_s", "B/s", Higher)]),
    ],
};

/// YCSB, with histograms or time series, which are not read.
pub const YCSB: Tool = Tool {
    name: "ycsb",
    marks: &["[OVERALL], Throughput(ops/sec)"],
    primary: RATE,
    lacks: &[
        "the workload and its options are in the name of the file at best",
        ONE_RUN,
        NO_SERVER,
    ],
    lines: &[
        Line::new("[OVERALL], RunTime(ms), #", &[("ycsb.run_time_ms", "ms", Neither)]).begins(),
        Line::new("[OVERALL], Throughput(ops/sec), #", &[(RATE, "1/s", Higher)]),
        Line::new("[~], Operations, #", &[("ycsb.{}_operations", "1", Neither)]),
        Line::new("[~], AverageLatency(us), #", &[("ycsb.{}_latency_mean_us", "us", Lower)]),
        Line::new("[~], AverageLatency(ms), #", &[("ycsb.{}_latency_mean_ms", "ms", Lower)]),
        Line::new("[~], MinLatency(us), #", &[("ycsb.{}_latency_min_us", "us", Lower)]),
        Line::new("[~], MaxLatency(us), #", &[("ycsb.{}_latency_max_us", "us", Lower)]),
        Line::new("[~], 95thPercentileLatency(us), #", &[("ycsb.{}_latency_p95_us", "us", Lower)]),
        Line::new("[~], 99thPercentileLatency(us), #", &[("ycsb.{}_latency_p99_us", "us", Lower)]),
        Line::new("[~], 95thPercentileLatency(ms), #", &[("ycsb.{}_latency_p95_ms", "ms", Lower)]),
        Line::new("[~], 99thPercentileLatency(ms), #", &[("ycsb.{}_latency_p99_ms", "ms", Lower)]),
        Line::new("[~], Return=OK, #", &[("ycsb.{}_ok", "1", Neither)]),
        Line::new("[~], Return=0, #", &[("ycsb.{}_ok", "1", Neither)]),
        Line::new("[~], Return=*, #", &[("ycsb.{}_other_returns", "1", Lower)]),
    ],
};
