//! Outputs that knee knows and does not read: why, and what to import instead. A user who meets one must not guess whether
//! knee failed to see what it is.

/// Why a file is not read.
pub struct Refusal {
    /// What it is, and what to import instead, if there is something.
    pub why: String,
    /// Whether there is.
    pub has_remedy: bool,
}

const SAMPLES: &str = "is of a tool that samples a host, which has no rate of operations: import what the benchmark printed";

/// Outputs with a remedy of their own: parts of their texts, all of which they have, and what they are.
const KNOWN: &[(&[&str], &str)] = &[
    (
        &["lock_stat version"],
        "is /proc/lock_stat, which has no rate of operations: knee explain finds locks itself",
    ),
    (
        &["contended", "total wait", "max wait"],
        "is a table of perf lock, which has no rate of operations: knee explain finds locks itself",
    ),
    (
        &["Trace Event Information", "Locked Load/Store Operations"],
        "is a report of perf c2c, which has no rate of operations: knee explain finds contended lines itself",
    ),
    (
        &["# Samples: ", "# Event count (approx.)"],
        "is a report of perf, which has shares of samples and no rate of operations: knee explain reads perf.data \
         itself",
    ),
    (
        &["\"point_estimate\"", "\"confidence_interval\""],
        "is the estimates.json of criterion, which has no single values: import what cargo bench prints, or make a CSV \
         of its sample.json, with the columns variant,metric,value",
    ),
    (
        &["\"sampling_mode\"", "\"iters\"", "\"times\""],
        "is the sample.json of criterion, which does not name the benchmark: import what cargo bench prints",
    ),
    (
        &["%stddev", "fail:runs"],
        "is a part of a mail of the kernel test robot without its table: import the whole mail",
    ),
    (&["Run status group", " IOPS="], "is the text of fio: import that of --output-format=json"),
    (&["groupid=", ": err= 0: pid="], "is the text of fio: import that of --output-format=json"),
    (
        &["progress: ", " tps, lat "],
        "is the progress of pgbench without its results: import the whole output, with standard error",
    ),
    (&["\"sysstat\"", "\"hosts\""], SAMPLES),
    (&["procs ---", "-----memory"], SAMPLES),
    (&["%user", "%iowait", "%idle"], SAMPLES),
    (&["Avg_MHz", "Bzy_MHz"], SAMPLES),
    (&["YCSB Client"], "is the output of YCSB without its results: was it interrupted?"),
    (
        &["Running the test with following options", "Initializing worker threads"],
        "is the output of sysbench without its results: was it interrupted?",
    ),
];

/// Outputs of tools that knee does not read: parts of their texts, and the tool.
const TOOLS: &[(&[&str], &str)] = &[
    (&["AIM Independent Resource Benchmark"], "AIM9"),
    (&["\"BenchmarkDotNetCaption\""], "BenchmarkDotNet"),
    (&["\"BenchmarkDotNetVersion\""], "BenchmarkDotNet"),
    (&["benchmark name", "samples", "iterations", "Catch"], "Catch2"),
    (&["\"timing_type\"", "\"functions\""], "glibc's benchtests"),
    (&["# ncpu secs works works/sec"], "fxmark"),
    (&["TEST RESULT : System achieved", "NOPM"], "HammerDB"),
    (&["HammerDB"], "HammerDB"),
    (&["\"sum_sent\"", "\"bits_per_second\""], "iperf3"),
    (&["[ ID] Interval", "Bandwidth"], "iperf"),
    (&["[ ID] Interval", "Bitrate"], "iperf3"),
    (&["IO Summary:", "ops/s"], "Filebench"),
    (&["REQUEST/RESPONSE TEST from"], "netperf"),
    (&["STREAM TEST from"], "netperf"),
    (&["MIGRATED", " TEST from"], "netperf"),
    (&["openssl", "speed"], "openssl speed"),
    (&["Phoronix Test Suite"], "the Phoronix Test Suite"),
    (&["phoronix-test-suite"], "the Phoronix Test Suite"),
    (&["QueueTimes", "SojournTimes"], "TailBench"),
    (&["threads running profile:", "op/s"], "uperf"),
    (&["Throughput: ", "KB / s", " in "], "vm-scalability"),
    (&["vm-scalability"], "vm-scalability"),
    (&["# OSU ", " Test"], "the OSU benchmarks"),
    (&["DARPA/DOE HPC Challenge"], "HPC Challenge"),
    (&["rcu-scale:"], "rcuscale"),
    (&["-torture:--- "], "locktorture"),
    (&["\"BenchmarkTools\"", "\"Julia\""], "BenchmarkTools"),
    (&["\"start\"", "\"connected\"", "\"intervals\""], "iperf3"),
    (&["NPtcp"], "NetPIPE"),
    (&["tinymembench"], "tinymembench"),
    (&["icmp_seq=", " time="], "ping"),
    (&[" bytes / ", " usecs = ", " KB/s"], "vm-scalability"),
    (&["HOSTCC  scripts/basic/fixdep"], "a kernel's build"),
    (&["  CC      ", "  LD      "], "a kernel's build"),
];

/// Why a text is not read although its tool is known, and what to import instead.
pub fn refusal(text: &str) -> Option<Refusal> {
    let has_all = |parts: &[&str]| parts.iter().all(|part| text.contains(part));
    let is_terse =
        |line: &str| line.split(';').nth(1).is_some_and(|field| field.starts_with("fio-"));
    let remedy = |why: String| Refusal { why, has_remedy: true };
    if let Some(why) = by_first_line(text) {
        return Some(remedy(why));
    }
    if let Some((_, why)) = KNOWN.iter().find(|(parts, _)| has_all(parts)) {
        return Some(remedy(why.to_string()));
    }
    if text.lines().any(is_terse) {
        let why = "is the terse output of fio: import that of --output-format=json";
        return Some(remedy(why.to_string()));
    }
    let tool = TOOLS.iter().find(|(parts, _)| has_all(parts)).map(|(_, tool)| *tool);
    let tool = tool.or_else(|| tool_of_first_line(text))?;
    Some(Refusal { why: format!("is of {tool}, of which knee has no reader"), has_remedy: false })
}

/// A tool that only its first line tells.
fn tool_of_first_line(text: &str) -> Option<&'static str> {
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    let fields: Vec<&str> = first.split(',').collect();
    let is_number = fields[0].parse::<f64>().is_ok();
    (fields.len() > 40 && is_number && first.contains("+++++")).then_some("bonnie++")
}

/// Why a CSV or a list of samples is not read, which only its first line tells.
fn by_first_line(text: &str) -> Option<String> {
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    let numbers = first.split_whitespace().map(str::parse::<u64>);
    let is_sample = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_time =
            |word: &str| word.ends_with(':') && word.trim_end_matches(':').parse::<f64>().is_ok();
        words.iter().skip(1).take(4).any(|word| is_time(word))
            && words.get(1).is_some_and(|pid| pid.parse::<u32>().is_ok())
    };
    if first.starts_with("command,mean,stddev,") {
        Some(
            "is the CSV of hyperfine, which has means only: import the file of --export-json"
                .into(),
        )
    } else if first.starts_with("Percentage served,Time in ms") {
        Some("is the CSV of ab -e, which has percentiles only: import what ab prints".into())
    } else if (6..=15).contains(&numbers.clone().count())
        && first.starts_with("1")
        && numbers.clone().all(|number| number.is_ok())
    {
        Some(
            "is like a log of pgbench --log, but not each line of it is: --format pgbench-log says which is not"
                .into(),
        )
    } else if is_sample(first) {
        Some("is the output of perf script, which has samples and no rate: knee explain reads perf.data itself".into())
    } else {
        None
    }
}
