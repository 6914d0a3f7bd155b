//! Tools that load a server, a network or a disk, and benchmarks of libraries: small texts in the shape of what they print.

use super::lines::{check, check_whole, described, read, unread};

#[test]
fn clients_of_web_servers_are_read() {
    let hey = "\nSummary:\n  Total:\t1.5 secs\n  Slowest:\t0.0330 secs\n  Fastest:\t0.0001 secs\n  Average:\t0.0030 secs\n  \
               Requests/sec:\t16000.12\n\nResponse time histogram:\n  0.000 [1]\t|\n\nLatency distribution:\n  50% in 0.0020 \
               secs\n  99% in 0.0090 secs\n\nDetails (average, fastest, slowest):\n  DNS+dialup:\t0.0001 secs, 0.0000 secs, 0.0100 \
               secs\n\nStatus code distribution:\n  [200]\t24000 responses\n";
    let values = [
        ("operations_per_s", 16000.12),
        ("wall_s", 1.5),
        ("hey.latency_p99_s", 0.009),
        ("hey.dns_dialup_max_s", 0.01),
        ("hey.responses_200", 24000.0),
    ];
    check_whole("hey", hey, &[("hey", &values)]);
    let vegeta = "Requests      [total, rate, throughput]         500, 100.20, 99.10\nDuration      [total, attack, wait]       \
                  4.995s, 4.99s, 5.5ms\nLatencies     [min, mean, 50, 90, 95, 99, max]  1.5ms, 2ms, 1.9ms, 3ms, 4ms, 5ms, \
                  6.5ms\nBytes In      [total, mean]                     5000, 10.00\nSuccess       [ratio]                  \
                  98.50%\nStatus Codes  [code:count]                      200:490  500:10  \n";
    let values = [
        ("operations_per_s", 99.1),
        ("vegeta.sent_per_s", 100.2),
        ("wall_s", 4.995),
        ("vegeta.wait_s", 0.0055),
        ("vegeta.latency_p99_ns", 5e6),
        ("vegeta.success_percent", 98.5),
    ];
    check_whole("vegeta", vegeta, &[("vegeta", &values)]);
}

#[test]
fn k6_is_read_as_text_and_as_json() {
    let text = "     checks.........................: 100.00% ✓ 300       ✗ 0\n     http_req_duration..............: avg=1.5ms    min=900µs \
                med=1.25ms max=1.5s p(90)=2ms p(95)=3.5ms\n       { expected_response:true }...: avg=1.5ms min=900µs\n     \
                http_reqs......................: 300     59.5/s\n     iterations.....................: 300 59.5/s\n     \
                vus............................: 10      min=10     max=10\n";
    let values = [
        ("operations_per_s", 59.5),
        ("operations", 300.0),
        ("k6.http_req_duration_mean_ms", 1.5),
        ("k6.http_req_duration_min_ms", 0.9),
        ("k6.http_req_duration_max_ms", 1500.0),
        ("k6.http_req_duration_p95_ms", 3.5),
        ("k6.checks_percent", 100.0),
    ];
    check_whole("k6", text, &[("k6", &values)]);
    let json = "{\"metrics\": {\"http_reqs\": {\"count\": 300, \"rate\": 59.5}, \"iterations\": {\"count\": 300, \"rate\": 59.5},\n\
                \"iteration_duration\": {\"avg\": 1.5, \"p(95)\": 3.5}}}";
    let values = [("operations_per_s", 59.5), ("k6.iteration_duration_p95_ms", 3.5)];
    check_whole("k6", json, &[("k6", &values)]);
}

#[test]
fn clients_of_stores_are_read() {
    let memtier = "4         Threads\n50        Connections per thread\n10000     Requests per client\n\n\nALL STATS\n=====\nType         \
                   Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency   p99.9 Latency       KB/sec \n----\n\
                   Sets        21659.56          ---          ---         1.72237         1.68700         2.99100         4.28700     \
                   22716.77 \nGets        86638.24     13005.02     73633.22         1.72807         1.69500         3.00700         \
                   4.31900     16523.21 \nWaits           0.00          ---          ---             ---             ---             \
                   ---             ---          --- \nTotals     108297.80     13005.02     73633.22         1.72693         1.69500 \
                   3.00700         4.31900     39239.98 \n\nRequest Latency Distribution\nSET       0.279         5.00\n";
    let values = [
        ("operations_per_s", 108297.8),
        ("memtier.latency_p999_ms", 4.319),
        ("memtier.sets_per_s", 21659.56),
        ("memtier.sets_latency_p99_ms", 2.991),
        ("memtier.gets_hits_per_s", 13005.02),
    ];
    check_whole(
        "memtier",
        memtier,
        &[("memtier connections=50 requests=10000 threads=4", &values)],
    );
    let old = "ALL STATS\nType         Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec \nSets        1659.5          ---     \
               ---      1.72200       22716.77 \nTotals     8297.5     13005.02     73633.22      1.75      39239.98 \n";
    let values = [("operations_per_s", 8297.5), ("memtier.sets_latency_mean_ms", 1.722)];
    let json = "{\"configuration\": {\"pipeline\": 64, \"ratio\": \"1:9\"}, \"run information\": {\"Threads\": 4, \"Connections per thread\": \
                8},\n\"ALL STATS\": {\"Runtime\": {\"Total duration\": 799002},\n\"Sets\": {\"Ops/sec\": 9001.5, \"Latency\": 0.5, \"Average \
                Latency\": 0.5, \"Time-Serie\": {\"0\": {\"Count\": 5}}, \"Percentile Latencies\": {\"p50.00\": 0.25, \"p99.90\": \
                2.5}},\n\"Totals\": {\"Count\": 71924, \"Ops/sec\": 90018.5, \"Max Latency\": 23.5, \"Time-Serie\": {\"10\": {\"Count\": 7}, \
                \"2\": {\"Count\": 6, \"p99.00\": 3.5}}},\n\"SET\": [{\"<=msec\": 0.5, \"percent\": 5}]}}\n";
    let json_values = [
        ("operations_per_s", 90018.5),
        ("operations", 71924.0),
        ("memtier.latency_max_ms", 23.5),
        ("memtier.sets_per_s", 9001.5),
        ("memtier.sets_latency_mean_ms", 0.5),
        ("memtier.sets_latency_p999_ms", 2.5),
    ];
    check_whole(
        "memtier",
        json,
        &[("memtier connections=8 pipeline=64 ratio=1:9 threads=4", &json_values)],
    );
    assert_eq!(read(json).runs[0].1.len(), 3);
    check_whole("memtier", old, &[("memtier", &values)]);
}

#[test]
fn networks_are_read() {
    let netperf = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to localhost () port 0 AF_INET\nRecv   Send    Send    \n\
                   Socket Socket  Message  Elapsed              \nSize   Size    Size     Time     Throughput  \nbytes  bytes   bytes    \
                   secs.    10^6bits/sec  \n\n131072  16384  16000    10.01    23446.51   \nMIGRATED TCP REQUEST/RESPONSE TEST from \
                   0.0.0.0 (0.0.0.0) port 0 AF_INET to localhost () port 0 AF_INET : first burst 0\nLocal /Remote\nSocket Size   \
                   Request  Resp.   Elapsed  Trans.\nSend   Recv   Size     Size    Time     Rate         \nbytes  Bytes  bytes    \
                   bytes   secs.    per sec   \n\n16384  131072 1        1       10.00    13446.51   \n16384  131072 \n";
    let stream = [("netperf.mbit_per_s", 23446.51), ("wall_s", 10.01)];
    check_whole(
        "netperf",
        netperf,
        &[
            (
                "netperf.TCP STREAM message_bytes=16000 receive_bytes=131072 send_bytes=16384",
                &stream,
            ),
            (
                "netperf.TCP REQUEST part_1=RESPONSE receive_bytes=131072 request_bytes=1 response_bytes=1 send_bytes=16384",
                &[("operations_per_s", 13446.51)],
            ),
        ],
    );
    let iperf = "Connecting to host 10.0.0.2, port 5201\n[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n[  5]   \
                 0.00-1.00   sec  1.05 GBytes  9.02 Gbits/sec    3   1.50 MBytes       \n[  5]   1.00-2.00   sec  1.25 GBytes  9.50 \
                 Gbits/sec    0   1.50 MBytes       \n- - - - - -\n[ ID] Interval           Transfer     Bitrate         Retr\n[  5]   \
                 0.00-2.00  sec  2.30 GBytes  9.25 Gbits/sec    3             sender\n[  5]   0.00-2.04  sec  2.25 GBytes  9.05 \
                 Gbits/sec                  receiver\n";
    let values = [
        ("iperf.bits_per_s", 9.05e9),
        ("iperf.sent_bits_per_s", 9.25e9),
        ("iperf.retransmits", 3.0),
        ("iperf.seconds", 2.04),
    ];
    check_whole("iperf", iperf, &[("iperf streams=1", &values)]);
    assert_eq!(read(iperf).runs[0].1.len(), 4);
    assert_eq!(described(&read(iperf), "iperf.bits_per_s"), "bit/s, higher");
    let two = "[ ID] Interval       Transfer     Bandwidth\n[  3]  0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec\n[  4]  0.0-10.0 sec  \
               2.25 MBytes  1.95 Mbits/sec\n[SUM]  0.0-10.0 sec  3.50 MBytes  3.00 Mbits/sec\n";
    check_whole("iperf", two, &[("iperf streams=2", &[("iperf.bits_per_s", 3e6)])]);
    let json = "{\"start\": {\"test_start\": {\"protocol\": \"UDP\", \"num_streams\": 2, \"blksize\": 8192}},\n\"intervals\": [{\"streams\": \
                [{\"bytes\": 5}], \"sum\": {\"bytes\": 5, \"bits_per_second\": 40.5}}],\n\"end\": {\"streams\": [{\"bytes\": 6}], \"sum\": \
                {\"bytes\": 6, \"bits_per_second\": 48.5, \"jitter_ms\": 0.015, \"lost_packets\": 2, \"lost_percent\": 0.5}}}\n";
    let values =
        [("iperf.bits_per_s", 48.5), ("iperf.jitter_ms", 0.015), ("iperf.lost_percent", 0.5)];
    check_whole("iperf", json, &[("iperf block_bytes=8192 protocol=UDP streams=2", &values)]);
}

#[test]
fn the_text_of_fio_is_read_as_its_json_is() {
    let three = "seq: (g=0): rw=write, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=8\nfio-3.28\nStarting 1 \
                 process\n\nseq: (groupid=0, jobs=2): err= 0: pid=7460: Wed Jul 31 11:39:11 2024\n  write: IOPS=14.5k, BW=71.1MiB/s \
                 (74.6MB/s)(1024MiB/14399msec); 0 zone resets\n    slat (usec): min=36, max=52642, avg=140.5, stdev=28.5\n    clat (msec): \
                 min=16, max=155, avg=97.5, stdev=14.5\n     lat (msec): min=30, max=172, avg=111.5, stdev=15.5\n    clat percentiles \
                 (msec):\n     |  1.00th=[   85], 99.00th=[  138],\n     | 99.90th=[  153]\n   bw (  KiB/s): min=50592, max=84136, \
                 per=99.77%, avg=72652.5, stdev=10028.5, samples=28\n   iops        : min=   49, max=   82, avg=70.5, stdev= 9.5, \
                 samples=28\n  lat (msec)   : 20=0.10%, 50=0.20%\n  cpu          : usr=0.75%, sys=1.25%, ctx=1033, majf=0, minf=11\n  IO \
                 depths    : 1=0.1%, 8=99.3%\n\nRun status group 0 (all jobs):\n  WRITE: bw=71.1MiB/s (74.6MB/s), 71.1MiB/s-71.1MiB/s\n";
    let values = [
        ("operations_per_s", 14500.0),
        ("fio.write.iops", 14500.0),
        ("fio.write.bytes_per_s", 71.1 * 1024.0 * 1024.0),
        ("fio.write.runtime_ms", 14399.0),
        ("fio.write.completion_mean_ns", 97.5e6),
        ("fio.write.submission_mean_ns", 140500.0),
        ("fio.write.latency_max_ns", 172e6),
        ("fio.write.completion_p999_ns", 153e6),
        ("fio.write.bytes_per_s_mean", 72652.5 * 1024.0),
        ("fio.write.iops_dev", 9.5),
        ("fio.context_switches", 1033.0),
    ];
    let cell = "fio.seq x 2 bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B iodepth=8 ioengine=libaio rw=write";
    check_whole("fio-text", three, &[(cell, &values)]);
    assert!(unread(&read(three)).contains("totals of groups and disks"));
    let two = "a: (groupid=1, jobs=4): err= 0: pid=12906: Thu Sep  8 14:03:14 2016\n  read : io=1752.5MB, bw=59809KB/s, iops=14952, runt= \
               30012msec\n     lat (msec): min=756553K, max=756583K, avg=756568215.25, stdev=8664.25\n    bw (KB  /s): min= 4151, \
               max=17652, per=24.80%, avg=14829.75, stdev=1437.75\na: (groupid=1, jobs=4): err= 5: pid=12907: Thu Sep  8 14:03:14 2016\n  \
               read : io=0B, bw=0B/s, iops=0, runt=     1msec\n";
    let values = [
        ("operations_per_s", 14952.0),
        ("fio.read.bytes_per_s", 59809.0 * 1024.0),
        ("fio.read.latency_min_ns", 756553000e6),
    ];
    check("fio-text", two, &[("fio.a x 4 job_number=0", &values), ("fio.a x 4 job_number=1", &[])]);
    assert!(!read(two).runs[1].0.finished());
}

#[test]
fn benchmarks_of_libraries_are_read() {
    let openssl = "version: 3.0.1\noptions: bn 64\ncompiler: gcc\nThe 'numbers' are in 1000s of bytes per second processed.\ntype         \
                   16 bytes     64 bytes\nsha256          771620.25k  2473074.5k\n                  sign    verify    sign/s verify/s\nrsa \
                   4096 bits 0.000510s 0.000008s   1959.5 129694.5\n";
    check_whole(
        "openssl-speed",
        openssl,
        &[
            ("openssl.sha256 block_bytes=16", &[("openssl.bytes_per_s", 771620250.0)]),
            ("openssl.sha256 block_bytes=64", &[("openssl.bytes_per_s", 2473074500.0)]),
            (
                "openssl.rsa 4096 bits",
                &[("openssl.sign_per_s", 1959.5), ("openssl.verify_time_s", 0.000008)],
            ),
        ],
    );
    let jmh = "Benchmark        (size)   Mode  Cnt      Score     Error  Units\nA.withClass          8   avgt   25   1553.5 ±   8.5  \
               us/op\nA.withClass:gc      8   avgt   25   12.5 ±   0.5  B/op\nB.run               16  thrpt        11332.75          ops/s\n";
    check_whole(
        "jmh",
        jmh,
        &[
            (
                "jmh.A.withClass mode=avgt size=8",
                &[("jmh.time_per_operation_ns", 1553500.0), ("jmh.gc", 12.5)],
            ),
            ("jmh.B.run mode=thrpt size=16", &[("operations_per_s", 11332.75)]),
        ],
    );
}

#[test]
fn benchmarks_of_catch2_are_read_as_text_and_as_xml() {
    let text = "Catch2_bench is a Catch v2.11.0 host application.\n\nbenchmark name                                  samples       \
                iterations    estimated\n                                                mean          low mean      high mean\n      \
                std dev       low std dev   high std dev\n-----\nFibonacci 10                                              100           \
                208     7.1968 ms \n                                                       344 ns        341 ns        349 ns \n        \
                19 ns         11 ns         1.5 us \n \n";
    let values = [
        ("catch2.time_ns", 344.0),
        ("catch2.time_high_ns", 349.0),
        ("catch2.stddev_ns", 19.0),
        ("catch2.stddev_high_ns", 1500.0),
    ];
    check_whole("catch2", text, &[("catch2.Fibonacci 10", &values)]);
    let xml = "<?xml version=\"1.0\"?>\n<Catch name=\"b\">\n<BenchmarkResults name=\"a &lt;b&gt;\" samples=\"100\" resamples=\"100000\" \
               iterations=\"208\" clockResolution=\"15.5\" estimatedDuration=\"7196800\">\n<!--All values in nano seconds-->\n<mean \
               value=\"344.5\" lowerBound=\"341.5\" upperBound=\"349.5\" ci=\"0.95\"/>\n<standardDeviation value=\"19.5\" \
               lowerBound=\"11.5\" upperBound=\"29.5\" ci=\"0.95\"/>\n<outliers variance=\"0.5\" lowMild=\"0\" lowSevere=\"0\" \
               highMild=\"1\" highSevere=\"2\"/>\n</BenchmarkResults>\n</Catch>\n";
    let values = [("catch2.time_ns", 344.5), ("catch2.stddev_ns", 19.5)];
    check_whole("catch2", xml, &[("catch2.a <b>", &values)]);
}
