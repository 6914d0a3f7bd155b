//! Tools that load a server, and benchmarks of scripts, whose output is a table of lines. Sources: what memtier_benchmark 1.2
//! to 2.1, netperf 2.4 to 2.7, hey, vegeta, Benchmark.js 2 and benchmark-ips 2 print.

use records::Better::{Higher, Lower, Neither};

use crate::import::lines::{Line, Metric, Tool};

const RATE: &str = "operations_per_s";

const ONE_RUN: &str =
    "one output is one run: replication needs several, in one log or in files of their own";
const NO_SERVER: &str = "the server, CPUs, host and kernel are not recorded";

/// hey, and rakyll's boom before it.
pub const HEY: Tool = Tool {
    name: "hey",
    marks: &["Summary:", "Slowest:", "Fastest:", "Requests/sec:"],
    primary: RATE,
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::section("Summary:", "summary").begins(),
        Line::new("Total: # secs", &[("wall_s", "s", Neither)]).within("summary"),
        Line::new("Slowest: # secs", &[("hey.latency_max_s", "s", Lower)]).within("summary"),
        Line::new("Fastest: # secs", &[("hey.latency_min_s", "s", Lower)]).within("summary"),
        Line::new("Average: # secs", &[("hey.latency_mean_s", "s", Lower)]).within("summary"),
        Line::new("Requests/sec: #", &[(RATE, "1/s", Higher)]),
        Line::new("Total data: # bytes", &[("hey.bytes", "B", Neither)]),
        Line::new("Size/request: # bytes", &[("hey.bytes_per_request", "B", Neither)]),
        Line::new("~% in # secs", &[("hey.latency_p{}_s", "s", Lower)]),
        Line::section("Details >", "details"),
        Line::new(
            "~ # secs # secs # secs",
            &[
                ("hey.{}_mean_s", "s", Lower),
                ("hey.{}_min_s", "s", Lower),
                ("hey.{}_max_s", "s", Lower),
            ],
        )
        .within("details"),
        Line::section("Status code distribution:", "codes"),
        Line::new("~% # responses", &[("hey.responses_{}", "1", Neither)]).within("codes"),
    ],
};

/// memtier_benchmark.
pub const MEMTIER: Tool = Tool {
    name: "memtier",
    marks: &["ALL STATS", "Ops/sec", "Hits/sec", "Totals"],
    primary: RATE,
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::new("%threads Threads", &[]),
        Line::new("%connections Connections per thread", &[]),
        Line::new("%requests Requests per client", &[]),
        Line::new("%seconds Seconds", &[]),
        // With -x, the best and the worst run stand above the mean.
        Line::new("%table RUN RESULTS", &[]),
        Line::new("%table AVERAGE RESULTS >", &[]),
        Line::section("Type Ops/sec Hits/sec Misses/sec Latency KB/sec", "old"),
        Line::section(
            "Type Ops/sec Hits/sec Misses/sec Avg. Latency p50 Latency p99 Latency p99.9 Latency KB/sec",
            "new",
        ),
        Line::new(
            "Totals # # # # # # # #",
            &[
                (RATE, "1/s", Higher),
                ("memtier.hits_per_s", "1/s", Neither),
                ("memtier.misses_per_s", "1/s", Neither),
                ("memtier.latency_mean_ms", "ms", Lower),
                ("memtier.latency_p50_ms", "ms", Lower),
                ("memtier.latency_p99_ms", "ms", Lower),
                ("memtier.latency_p999_ms", "ms", Lower),
                ("memtier.kb_per_s", "KB/s", Higher),
            ],
        )
        .within("new")
        .then("distribution"),
        Line::new(
            "~ # # # # # # # #",
            &[
                ("memtier.{}_per_s", "1/s", Higher),
                ("memtier.{}_hits_per_s", "1/s", Neither),
                ("memtier.{}_misses_per_s", "1/s", Neither),
                ("memtier.{}_latency_mean_ms", "ms", Lower),
                ("memtier.{}_latency_p50_ms", "ms", Lower),
                ("memtier.{}_latency_p99_ms", "ms", Lower),
                ("memtier.{}_latency_p999_ms", "ms", Lower),
                ("memtier.{}_kb_per_s", "KB/s", Higher),
            ],
        )
        .within("new"),
        Line::new(
            "~ # --- --- # # # # #",
            &[
                ("memtier.{}_per_s", "1/s", Higher),
                ("memtier.{}_latency_mean_ms", "ms", Lower),
                ("memtier.{}_latency_p50_ms", "ms", Lower),
                ("memtier.{}_latency_p99_ms", "ms", Lower),
                ("memtier.{}_latency_p999_ms", "ms", Lower),
                ("memtier.{}_kb_per_s", "KB/s", Higher),
            ],
        )
        .within("new"),
        Line::new("~ # --- --- --- >", &[("memtier.{}_per_s", "1/s", Higher)]),
        Line::new(
            "Totals # # # # #",
            &[
                (RATE, "1/s", Higher),
                ("memtier.hits_per_s", "1/s", Neither),
                ("memtier.misses_per_s", "1/s", Neither),
                ("memtier.latency_mean_ms", "ms", Lower),
                ("memtier.kb_per_s", "KB/s", Higher),
            ],
        )
        .within("old")
        .then("distribution"),
        Line::new(
            "~ # # # # #",
            &[
                ("memtier.{}_per_s", "1/s", Higher),
                ("memtier.{}_hits_per_s", "1/s", Neither),
                ("memtier.{}_misses_per_s", "1/s", Neither),
                ("memtier.{}_latency_mean_ms", "ms", Lower),
                ("memtier.{}_kb_per_s", "KB/s", Higher),
            ],
        )
        .within("old"),
        Line::new(
            "~ # --- --- # #",
            &[
                ("memtier.{}_per_s", "1/s", Higher),
                ("memtier.{}_latency_mean_ms", "ms", Lower),
                ("memtier.{}_kb_per_s", "KB/s", Higher),
            ],
        )
        .within("old"),
    ],
};

/// netperf's classic tables.
pub const NETPERF: Tool = Tool {
    name: "netperf",
    marks: &[" TEST ", "Elapsed"],
    primary: RATE,
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::new("MIGRATED @ TEST from >", &[]).begins(),
        Line::new("@ TEST from >", &[]).begins(),
        Line::new("@ TEST to >", &[]).begins(),
        Line::section("bytes bytes bytes secs. 10^6bits/sec", "stream"),
        Line::section("bytes bytes bytes secs. 10^6bits/s % S % S us/KB us/KB", "stream-cpu"),
        Line::section("bytes Bytes bytes bytes secs. per sec", "requests"),
        Line::section("bytes bytes bytes bytes secs. per sec", "requests"),
        Line::section("bytes bytes bytes bytes secs. per sec % S % S us/Tr us/Tr", "requests-cpu"),
        Line::section("bytes bytes secs * * 10^6bits/sec", "datagrams"),
        Line::section("bytes bytes secs * * 10^6bits/sec % SS us/KB", "datagrams-cpu"),
        Line::sample(
            "Interim result: # 10^6bits/s over # seconds >",
            &[
                ("netperf.sample.mbit_per_s", "Mbit/s", Higher),
                ("netperf.sample.seconds", "s", Neither),
            ],
        ),
        Line::sample(
            "Interim result: # Trans/s over # seconds >",
            &[
                ("netperf.sample.operations_per_s", "1/s", Higher),
                ("netperf.sample.seconds", "s", Neither),
            ],
        ),
        Line::new(
            "%receive_bytes %send_bytes %message_bytes # #",
            &[("wall_s", "s", Neither), ("netperf.mbit_per_s", "Mbit/s", Higher)],
        )
        .within("stream"),
        Line::new(
            "%receive_bytes %send_bytes %message_bytes # # # # # #",
            &[
                ("wall_s", "s", Neither),
                ("netperf.mbit_per_s", "Mbit/s", Higher),
                ("netperf.local_cpu_percent", "%", Neither),
                ("netperf.remote_cpu_percent", "%", Neither),
                ("netperf.local_demand_us_per_kb", "us/KB", Lower),
                ("netperf.remote_demand_us_per_kb", "us/KB", Lower),
            ],
        )
        .within("stream-cpu"),
        Line::new(
            "%send_bytes %receive_bytes %request_bytes %response_bytes # #",
            &[("wall_s", "s", Neither), (RATE, "1/s", Higher)],
        )
        .within("requests"),
        Line::new(
            "%send_bytes %receive_bytes %request_bytes %response_bytes # # # # # #",
            &[
                ("wall_s", "s", Neither),
                (RATE, "1/s", Higher),
                ("netperf.local_cpu_percent", "%", Neither),
                ("netperf.remote_cpu_percent", "%", Neither),
                ("netperf.local_demand_us", "us", Lower),
                ("netperf.remote_demand_us", "us", Lower),
            ],
        )
        .within("requests-cpu"),
        Line::new(
            "%send_bytes %message_bytes # # # #",
            &[
                ("wall_s", "s", Neither),
                ("netperf.sent_messages", "1", Neither),
                ("netperf.errors", "1", Lower),
                ("netperf.sent_mbit_per_s", "Mbit/s", Higher),
            ],
        )
        .within("datagrams"),
        Line::new(
            "%receive_bytes # # #",
            &[
                ("", "", Neither),
                ("netperf.received_messages", "1", Neither),
                ("netperf.mbit_per_s", "Mbit/s", Higher),
            ],
        )
        .within("datagrams"),
        Line::new(
            "%send_bytes %message_bytes # # # # # #",
            &[
                ("wall_s", "s", Neither),
                ("netperf.sent_messages", "1", Neither),
                ("netperf.errors", "1", Lower),
                ("netperf.sent_mbit_per_s", "Mbit/s", Higher),
                ("netperf.local_cpu_percent", "%", Neither),
                ("netperf.local_demand_us_per_kb", "us/KB", Lower),
            ],
        )
        .within("datagrams-cpu"),
        Line::new(
            "%receive_bytes # # # # #",
            &[
                ("", "", Neither),
                ("netperf.received_messages", "1", Neither),
                ("netperf.mbit_per_s", "Mbit/s", Higher),
                ("netperf.remote_cpu_percent", "%", Neither),
                ("netperf.remote_demand_us_per_kb", "us/KB", Lower),
            ],
        )
        .within("datagrams-cpu"),
    ],
};

/// `vegeta report`.
pub const VEGETA: Tool = Tool {
    name: "vegeta",
    marks: &["Requests ", "[total, rate", "Latencies ", "Success "],
    primary: RATE,
    lacks: &[ONE_RUN, NO_SERVER],
    lines: &[
        Line::new(
            "Requests [total, rate, throughput] # # #",
            &[
                ("operations", "1", Neither),
                ("vegeta.sent_per_s", "1/s", Neither),
                (RATE, "1/s", Higher),
            ],
        )
        .begins(),
        Line::new(
            "Requests [total, rate] # #",
            &[("operations", "1", Neither), ("vegeta.sent_per_s", "1/s", Neither)],
        )
        .begins(),
        Line::new(
            "Duration [total, attack, wait] #s #s #s",
            &[
                ("wall_s", "s", Neither),
                ("vegeta.attack_s", "s", Neither),
                ("vegeta.wait_s", "s", Lower),
            ],
        ),
        Line::new(
            "Latencies [min, mean, 50, 90, 95, 99, max] #ns #ns #ns #ns #ns #ns #ns",
            &[
                ("vegeta.latency_min_ns", "ns", Lower),
                ("vegeta.latency_mean_ns", "ns", Lower),
                ("vegeta.latency_p50_ns", "ns", Lower),
                ("vegeta.latency_p90_ns", "ns", Lower),
                ("vegeta.latency_p95_ns", "ns", Lower),
                ("vegeta.latency_p99_ns", "ns", Lower),
                ("vegeta.latency_max_ns", "ns", Lower),
            ],
        ),
        Line::new(
            "Latencies [mean, 50, 95, 99, max] #ns #ns #ns #ns #ns",
            &[
                ("vegeta.latency_mean_ns", "ns", Lower),
                ("vegeta.latency_p50_ns", "ns", Lower),
                ("vegeta.latency_p95_ns", "ns", Lower),
                ("vegeta.latency_p99_ns", "ns", Lower),
                ("vegeta.latency_max_ns", "ns", Lower),
            ],
        ),
        Line::new(
            "Bytes ~ [total, mean] # #",
            &[("vegeta.bytes_{}", "B", Neither), ("vegeta.bytes_{}_mean", "B", Neither)],
        ),
        Line::new("Success [ratio] #", &[("vegeta.success_percent", "%", Higher)]),
    ],
};

const NO_HOST: &str = "CPUs, host and kernel are not recorded";
const OF_SAMPLES: &str =
    "each rate is of many samples, which are not in the output: a benchmark counts as one run";

const BENCHMARK_JS_RATES: &[Metric] = &[
    (RATE, "1/s", Higher),
    ("benchmark-js.error_percent", "%", Lower),
    ("benchmark-js.samples", "1", Neither),
];

/// Benchmark.js, also in lists.
pub const BENCHMARK_JS: Tool = Tool {
    name: "benchmark-js",
    marks: &[" ops/sec ±", "sampled)"],
    primary: RATE,
    lacks: &[OF_SAMPLES, NO_HOST],
    lines: &[
        Line::new("- @ x # ops/sec # # runs sampled", BENCHMARK_JS_RATES),
        Line::new("@ x # ops/sec # # runs sampled", BENCHMARK_JS_RATES),
        Line::new("@ x # ops/sec # # run sampled", BENCHMARK_JS_RATES),
    ],
};

const BENCHMARK_IPS_RATES: &[Metric] =
    &[(RATE, "1/s", Higher), ("benchmark-ips.deviation_percent", "%", Lower)];

/// Ruby's benchmark-ips. Its comparison repeats the rates.
pub const BENCHMARK_IPS: Tool = Tool {
    name: "benchmark-ips",
    marks: &["i/s", "Calculating ---"],
    primary: RATE,
    lacks: &[OF_SAMPLES, NO_HOST],
    lines: &[
        Line::section("Comparison:", "comparison"),
        Line::section("Warming up >", "warm-up"),
        Line::section("Calculating >", "rates"),
        Line::new("@ #k ± # i/s >", BENCHMARK_IPS_RATES).within("rates"),
        Line::new("@ #k # i/s >", BENCHMARK_IPS_RATES).within("rates"),
    ],
};
