//! Suites of small benchmarks, and logs of single transactions: small texts in the shape of what they print.

use super::lines::{check, check_whole, described, read, unread};

const LMBENCH: &str = "[lmbench3.0 results for Linux host 6.1]
[MHZ: 3034 MHz, 0.3296 nanosec clock]
Simple syscall: 0.2345 microseconds
Select on 10 fd's: 0.4464 microseconds
Process fork+/bin/sh -c: 800.2 microseconds
File /var/tmp/file write bandwidth: 84049 KB/sec
Pagefaults on /var/tmp/file: 0.1639 microseconds

\"mappings
0.524288 9.645
1.048576 16

\"File system latency
0k\t18774\t171147\t234949

Cannot register service: RPC: Unable to receive
Socket bandwidth using localhost
0.000001 1.71 MB/sec
10.485760 4676.97 MB/sec

Pipe bandwidth: 2648.95 MB/sec

\"read bandwidth
0.000512 477.72
1.05 10015.77

Memory partial read/write bandwidth
0.000512 48338.75

Memory load latency
\"stride=64
0.00049 1.318
8.00000 61.5

\"size=16k ovr=1.25
2 3.5
96 7.25
";

#[test]
fn lmbench_is_read_by_its_headings() {
    let single = [
        ("lmbench.simple_syscall_us", 0.2345),
        ("lmbench.select_on_10_fd_s_us", 0.4464),
        ("lmbench.process_fork_bin_sh_c_us", 800.2),
        ("lmbench.file_write_bandwidth_kb_per_s", 84049.0),
        ("lmbench.pagefaults_on_us", 0.1639),
        ("lmbench.pipe_bandwidth_mb_per_s", 2648.95),
    ];
    let files = [
        ("lmbench.files", 18774.0),
        ("lmbench.files_created_per_s", 171147.0),
        ("lmbench.files_deleted_per_s", 234949.0),
    ];
    let at = |value| [("lmbench.mb_per_s", value)];
    let expected: [(&str, &[(&str, f64)]); 14] = [
        ("lmbench.mappings size_mb=0.524288", &[("lmbench.mmap_us", 9.645)]),
        ("lmbench.mappings size_mb=1.048576", &[("lmbench.mmap_us", 16.0)]),
        ("lmbench.file_system size=0k", &files),
        ("lmbench.socket_bandwidth_using_localhost size_mb=0.000001", &at(1.71)),
        ("lmbench.socket_bandwidth_using_localhost size_mb=10.485760", &at(4676.97)),
        ("lmbench.read_bandwidth size_mb=0.000512", &at(477.72)),
        ("lmbench.read_bandwidth size_mb=1.05", &at(10015.77)),
        ("lmbench.memory_partial_read_write_bandwidth size_mb=0.000512", &at(48338.75)),
        (
            "lmbench.memory_load_latency size_mb=0.00049 stride=64",
            &[("lmbench.load_latency_ns", 1.318)],
        ),
        (
            "lmbench.memory_load_latency size_mb=8.00000 stride=64",
            &[("lmbench.load_latency_ns", 61.5)],
        ),
        (
            "lmbench.context_switch processes=0 size=16k",
            &[("lmbench.context_switch_overhead_us", 1.25)],
        ),
        ("lmbench.context_switch processes=2 size=16k", &[("lmbench.context_switch_us", 3.5)]),
        ("lmbench.context_switch processes=96 size=16k", &[("lmbench.context_switch_us", 7.25)]),
        ("lmbench", &single),
    ];
    check_whole("lmbench", LMBENCH, &expected);
    assert_eq!(described(&read(LMBENCH), "lmbench.simple_syscall_us"), "us, lower");
    // Numbers below a line that is no heading of lmbench are nobody's.
    let alone = "Simple read: 8.5 microseconds\nBandwidth measurements\n0.524288 315.08\n";
    check("lmbench", alone, &[("lmbench", &[("lmbench.simple_read_us", 8.5)])]);
    assert!(unread(&read(alone)).contains("other lines (2 numbers)"), "{}", unread(&read(alone)));
}

#[test]
fn iozone_s_columns_are_found_where_they_stand() {
    let text = "\tIozone: Performance Test of File I/O\n\t        Version $Revision: 3.489 $\n\tRun began: Wed Apr 17 20:03:30 \
                2024\n\tFile size set to 102400 kB\n\tRecord Size 4 kB\n\tOutput is in kBytes/sec\n\tTime Resolution = 0.000001 \
                seconds.\n                                                              random    random     bkwd    record    \
                stride\n              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      \
                read   fwrite frewrite    fread  freread\n          102400       4    30870    31450                      97610    \
                57440\n          204800      16    30871    31451   103370   103760\n\niozone test complete.\n";
    let one = [
        ("iozone.write_kb_per_s", 30870.0),
        ("iozone.rewrite_kb_per_s", 31450.0),
        ("iozone.random_read_kb_per_s", 97610.0),
        ("iozone.random_write_kb_per_s", 57440.0),
    ];
    let other = [("iozone.read_kb_per_s", 103370.0), ("iozone.reread_kb_per_s", 103760.0)];
    let expected: [(&str, &[(&str, f64)]); 2] = [
        ("iozone file_kb=102400 record_kb=4", &one),
        ("iozone file_kb=204800 record_kb=16", &other),
    ];
    check_whole("iozone", text, &expected);
    assert_eq!(described(&read(text), "iozone.write_kb_per_s"), "KB/s, higher");
    let throughput = "\tIozone: Performance Test of File I/O\n\tRecord Size 1024 KB\n\tFile size set to 8388608 KB\n\tOutput is in \
                      Kbytes/sec\n\tThroughput test with 2 processes\n\n\tChildren see throughput for  2 initial writers  =  \
                      363782.66 KB/sec\n\tParent sees throughput for  2 initial writers   =  363772.88 KB/sec\n\tMin throughput per \
                      process          =  181000.50 KB/sec \n\tMax throughput per process          =  182000.50 KB/sec\n\tAvg \
                      throughput per process          =  181500.50 KB/sec\n\tMin xfer                    = 8388600.00 KB\n\n\t\
                      Children see throughput for  2 readers    =  405812.44 KB/sec\n";
    let values = [
        ("iozone.initial_writers_kb_per_s", 363782.66),
        ("iozone.initial_writers_parent_kb_per_s", 363772.88),
        ("iozone.initial_writers_process_min_kb_per_s", 181000.5),
        ("iozone.initial_writers_process_mean_kb_per_s", 181500.5),
        ("iozone.initial_writers_least_moved_kb", 8388600.0),
        ("iozone.readers_kb_per_s", 405812.44),
    ];
    let cell = "iozone x 2 file=8388608KB record=1024KB";
    check("iozone", throughput, &[(cell, &values)]);
}

#[test]
fn the_logs_of_pgbench_are_read_as_its_totals_are() {
    let aggregate = "1650260550 5000 25000000 130000000000 1136 44462\n1650260560 6000 24000000 100000000000 1171 \
                     62083\n1650260570 70 350000 1800000000 1200 9000\n";
    let values = [
        ("operations_per_s", 550.0),
        ("pgbench.transactions", 11070.0),
        ("pgbench.latency_average_ms", 49350000.0 / 11070.0 / 1e3),
        ("pgbench.latency_min_ms", 1.136),
        ("pgbench.latency_max_ms", 62.083),
    ];
    check_whole("pgbench-log", aggregate, &[("pgbench", &values)]);
    let lagging = "1650260550 10 100000 1200000000 9000 11000 300 10000 20 40 1 2 3 4 5\n1650260560 10 100000 1200000000 9000 11000 \
                   300 10000 10 50 1 2 3 4 5\n";
    let values = [
        ("operations_per_s", 1.0),
        ("pgbench.schedule_lag_average_ms", 0.03),
        ("pgbench.schedule_lag_max_ms", 0.05),
        ("pgbench.skipped_transactions", 2.0),
        ("pgbench.deadlock_failures", 10.0),
    ];
    check("pgbench-log", lagging, &[("pgbench", &values)]);
    let transactions = "0 199 2000 0 1412881037 912000\n1 77 4000 0 1412881038 1000\n0 200 3000 1 1412881038 912000\n1 78 skipped 0 \
                        1412881039 0\n";
    let values = [
        ("operations_per_s", 3.0 / 1.002),
        ("pgbench.transactions", 3.0),
        ("pgbench.latency_average_ms", 3.0),
        ("pgbench.latency_p50_ms", 3.0),
        ("pgbench.script_1_latency_average_ms", 3.0),
        ("pgbench.skipped_transactions", 1.0),
    ];
    check_whole("pgbench-log", transactions, &[("pgbench x 2", &values)]);
}

#[test]
fn lines_of_comma_separated_values_are_read_without_a_table() {
    let redis = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\
                 \"max_latency_ms\"\n\"PING_INLINE\",\"19186.49\",\"0.048\",\"0.008\",\"0.047\",\"0.063\",\"0.071\",\"0.823\"\n\
                 \"LRANGE_100 (first 100 elements)\",\"17467.25\",\"0.053\",\"0.024\",\"0.055\",\"0.064\",\"0.079\",\"0.911\"\n";
    let ping = [("operations_per_s", 19186.49), ("redis.latency_p99_ms", 0.071)];
    let range = [("redis.latency_mean_ms", 0.053), ("redis.latency_max_ms", 0.911)];
    let expected: [(&str, &[(&str, f64)]); 2] = [
        ("redis-benchmark.PING_INLINE", &ping),
        ("redis-benchmark.LRANGE_100 (first 100 elements)", &range),
    ];
    check_whole("redis-benchmark", redis, &expected);
    let old = "\"SET\",\"265252.00\"\n\"GET\",\"276701.72\"\n";
    let expected: [(&str, &[(&str, f64)]); 2] = [
        ("redis-benchmark.SET", &[("operations_per_s", 265252.0)]),
        ("redis-benchmark.GET", &[("operations_per_s", 276701.72)]),
    ];
    check_whole("redis-benchmark", old, &expected);
    let bonnie = "Version  1.97       ------Sequential Output------\n1.97,1.97,host,1,1421800799,7423M,,,,72853,15,47358,5,,,156821,\
                  7,537.7,10,100,,,,,49223,58,+++++,+++,54405,53,2898,97,+++++,+++,59089,60,,512ms,670ms,,44660us,200ms,3747us,\
                  1759us,1643us,33518us,192us,839us\n";
    let values = [
        ("bonnie.put_block_kb_per_s", 72853.0),
        ("bonnie.put_block_cpu_percent", 15.0),
        ("bonnie.put_block_latency_us", 512e3),
        ("bonnie.seeks_per_s", 537.7),
        ("bonnie.seeks_latency_us", 200e3),
        ("bonnie.random_create_per_s", 2898.0),
        ("bonnie.random_delete_latency_us", 839.0),
    ];
    let cell = "bonnie concurrency=1 file_size=7423M files=100";
    check("bonnie++", bonnie, &[(cell, &values)]);
    assert_eq!(read(bonnie).runs[0].0.value("bonnie.seq_stat_per_s"), None);
}

#[test]
fn perf_bench_all_is_a_run_of_each_benchmark() {
    let text = "# Running sched/messaging benchmark...\n# 20 sender and receiver processes per group\n# 10 groups == 400 processes \
                run\n\n     Total time: 0.125 [sec]\n\n# Running sched/pipe benchmark...\n# Executed 1000000 pipe operations \
                between two processes\n\n     Total time: 4.500 [sec]\n\n       4.500000 usecs/op\n         222222 ops/sec\n\n";
    let expected: [(&str, &[(&str, f64)]); 2] = [
        ("perf-bench.sched/messaging x 400 groups=10 senders_per_group=20", &[("wall_s", 0.125)]),
        ("perf-bench.sched/pipe", &[("wall_s", 4.5), ("operations_per_s", 222222.0)]),
    ];
    check_whole("perf-bench", text, &expected);
}

#[test]
fn netperf_s_own_csv_is_read_by_its_headings() {
    let requests = "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to host () port 0\nThroughput,Throughput \
                    Units,50th Percentile Latency Microseconds,Maximum Latency Microseconds,Confidence Iterations Run\n2217.06,Trans/s,\
                    442,9688,1\n";
    let values = [
        ("operations_per_s", 2217.06),
        ("netperf.50th_percentile_latency_microseconds", 442.0),
        ("netperf.maximum_latency_microseconds", 9688.0),
        ("netperf.confidence_iterations_run", 1.0),
    ];
    check("netperf-omni", requests, &[("netperf.tcp_request_response", &values)]);
    let stream = "OMNI Send TEST from 0.0.0.0 () port 0 AF_INET to host () port 0\nThroughput,Throughput Units,Elapsed Time \
                  (sec),Protocol\n23446.5,10^6bits/s,10.00,TCP\n";
    let values = [("netperf.throughput", 23446.5), ("netperf.elapsed_time_sec", 10.0)];
    check("netperf-omni", stream, &[("netperf.omni_send protocol=TCP", &values)]);
    assert_eq!(described(&read(stream), "netperf.throughput"), "10^6bits/s, higher");
}
