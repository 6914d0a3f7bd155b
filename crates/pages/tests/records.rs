//! The page of the golden record, as a terminal or a pipe gets it.

use std::path::Path;

use expect_test::{Expect, expect};
use host::terminal::shown;
use pages::{record, terminal};
use records::Opened;
use reports::Detail;
use text::Style;

fn golden() -> Opened {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store");
    store::open(&records.join("tests/golden/v1/20261120-115530-7f3a9c")).unwrap()
}

fn check(detail: &Detail, expected: Expect) {
    let text = shown(&terminal(&record(&golden(), detail, ""), Style::PLAIN));
    assert!(text.lines().all(|line| line == line.trim_end()));
    assert!(text.is_ascii());
    assert!(text.lines().all(|line| line.len() <= Style::PLAIN.width));
    expected.assert_eq(&text);
}

#[test]
fn the_page_of_the_golden_record() {
    check(
        &Detail::default(),
        expect![[r#"
            Measurement: golden
            posix_lock_shared idle_ns=100, processes: best at 2 CPUs: 1.3 times that of 1 CPU (ideal 2); 8 CPUs
              reach 0.52 times (ideal 8)
            posix_lock_shared idle_ns=100, threads: best at 8 CPUs, the most tried: 2.6 times that of 1 CPU
              (ideal 8)
            20261120-115530-7f3a9c ended early: it has 31 of 32 planned runs; its command with --resume does the
              rest

            posix_lock_shared idle_ns=100
                       operations/s
                  3M |                           ..                        ~~~~~~x
                     |                         ..             x~~~~~~~~~~~~
                     |                      ...         ~~~~~~
                     |                   ...       ~~~~~
                  2M |                ...    ~~~~~~
                     |             ... ~~~~x~
                     |         ..~~~~~~
                     |    .~~~-------------o--------
                     |  #-----                      --------
                  1M |                                      --o--------
                     |                                                 ----------o
                     |
                     |
                   0 |
                     +--+------------------+------------------+------------------+--
            CPUs        1                  2                  4                  8
            idle % o    0                  7                  21                 -
            idle % x    0                  0                  0                  -
                       o processes   x threads   # both   . linear ideal

            processes: one fcntl write lock and one unlock of the whole file
                                            per  fair-  idle   user   sys  CPU   vol.   inv.   minor
            CPUs  n  operations/s  stddev   CPU   ness     %      s     s    %  ctxsw  ctxsw  faults
               1  2     1 187 000  15 000  100%  1.000     0   0.25  0.75  100      0    0.5     121
               2  2     1 499 000  24 000   63%  0.990     7  0.464  1.39  186  26.8k    1.5     122
               4  2       979 000  16 000   21%  0.970    21  0.786  2.36  314  52.4k    2.5     124
               8  2       613 000  10 000  6.5%  0.930     -      1     3  400  76.6k    1.5     128
            best at 2 CPUs: 1.3 times that of 1 CPU (ideal 2); 8 CPUs reach 0.52 times (ideal 8)
            knee at 2 CPUs (2 to 2): the fewest with 90 % of the highest rate
            past 2 CPUs the rate falls, by 59 % (58 to 60) up to 8 CPUs
            warm-up in 3 of 8 runs, typically 120 ms; the rate after it is 3.0 % higher than over the whole run

            threads: one fcntl write lock and one unlock of the whole file
                                            per  fair-  idle  user   sys  CPU   vol.   inv.   minor
            CPUs  n  operations/s  stddev   CPU   ness     %     s     s    %  ctxsw  ctxsw  faults
               1  2     1 159 000  15 000  100%  1.000     0  0.25  0.75  100      0    0.5     121
               2  2     1 888 000  30 000   81%  0.990     0   0.5   1.5  200      0    1.5     122
               4  2     2 693 000  34 000   58%  0.970     0     1     3  400      0    2.5     124
               8  1     2 985 000       -   32%  0.930     -     2     6  800      0      3     128
            best at 8 CPUs, the most tried: 2.6 times that of 1 CPU (ideal 8)
            knee at 5 CPUs (4 to 5): the fewest with 90 % of the highest rate
            n = 1: no spread is known; --blocks 5 repeats each point
            1 run on 8 CPUs failed and does not count

            posix_lock_shared idle_ns=100, each operation timed
            processes: one fcntl write lock and one unlock of the whole file
            CPUs  n     mean   stddev      p50      p99  p99.9     max  operations/s
               1  2   918 ns  1.84 us   642 ns  8.26 us      -  300 us     1 090 000
               2  2  1.48 us  1.48 us  1.04 us  6.67 us      -  600 us     1 349 000
               4  2  4.54 us  2.27 us  3.18 us  10.2 us      -  1.2 ms       881 000
               8  2  14.5 us  3.64 us  10.2 us  16.4 us      -  2.4 ms       550 000
            reading the clock costs 41.5 ns for each operation, included above
            closed loop: coordinated omission applies (a task that waits does not issue the operations that
              would have waited too)

            threads: one fcntl write lock and one unlock of the whole file
            CPUs  n     mean   stddev      p50      p99  p99.9     max  operations/s
               1  2   959 ns  1.92 us   671 ns  8.63 us      -  300 us     1 043 000
               2  2  1.18 us  1.18 us   824 ns   5.3 us      -  600 us     1 699 000
               4  1  1.63 us   816 ns  1.14 us  3.67 us      -  1.2 ms     2 450 000
               8  2     3 us   751 ns   2.1 us  3.38 us      -  2.4 ms     2 660 000
            reading the clock costs 41.5 ns for each operation, included above
            closed loop: coordinated omission applies (a task that waits does not issue the operations that
              would have waited too)

            Warnings
            - tasks started over 31.0 ms, 3 % of the run (in 2 of 31 runs): run longer (--seconds)
            - the weather was strange (in 1 of 31 runs)
            - the frequency governor is 'powersave': knee doctor says how to fix it

            Failed runs
            - 1 run of posix_lock_shared as threads on 8 CPUs: task 3: fcntl F_SETLKW: No locks available

            Not measured
            - stat.cpus: /proc/stat has 4 of 8 lines

            how: the rate is the operations of all tasks over the wall time from one release to the last task's
              stop; each run has fresh tasks, and means and deviations are over runs

            record      20261120-115530-7f3a9c, partial: 31 of 32 runs, 1 failed
            experiment  golden: one POSIX lock, all tasks
            started     2026-11-20 11:55:30 UTC, by knee 0.1.0, resumed 1 time
            host        lab1, a guest of KVM
            kernel      6.12.8
            CPUs        8 (4 cores, 2 nodes), AMD EPYC 7763 64-Core Processor
            directory   /mnt/a b: ext4 (rw,noatime,data=ordered) on /dev/vdb
            runs        2 blocks of 16 points, 1 s a run, placement cores, seed 42
            rerun       knee run golden.toml --dir '/mnt/a b' --seed 42
        "#]],
    );
}

#[test]
fn one_metric_instead_with_time_and_counters() {
    let metrics = vec!["stat.ctxt/op".to_string()];
    check(
        &Detail { metrics, time: true, counters: true },
        expect![[r#"
            Measurement: golden
            posix_lock_shared idle_ns=100, processes: 0.000843 stat.ctxt/op on 1 CPU, 0.251633 on 8 CPUs
            posix_lock_shared idle_ns=100, each operation timed, processes: 0.000918 stat.ctxt/op on 1 CPU,
              0.251819 on 8 CPUs
            20261120-115530-7f3a9c ended early: it has 31 of 32 planned runs; its command with --resume does the
              rest

            posix_lock_shared idle_ns=100
                       stat.ctxt/op
                 0.3 |
                     |
                     |                                                          -o
                     |                                                       ---
                 0.2 |                                                    ---
                     |                                                 ---
                     |                                              ---
                     |                                           ---
                     |                                       -o--
                 0.1 |                                 ------
                     |                           ------
                     |                     o-----
                     |        -------------
                   0 |  #-----~~~~~~~~~~~~~x~~~~~~~~~~~~~~~~~~x~~~~~~~~~~~~~~~~~~x
                     +--+------------------+------------------+------------------+--
            CPUs        1                  2                  4                  8
                       o processes   x threads   # both

            processes: one fcntl write lock and one unlock of the whole file
            CPUs  n  stat.ctxt/op    stddev       min    median       max
               1  2      0.000843  0.000011  0.000835  0.000843  0.000850
               2  2      0.036382  0.000011  0.036374  0.036382  0.036389
               4  2      0.108165  0.000017  0.108153  0.108165  0.108177
               8  2      0.251633  0.000027  0.251614  0.251633  0.251652

            threads: one fcntl write lock and one unlock of the whole file
            CPUs  n  stat.ctxt/op    stddev        min     median        max
               1  2      0.000863  0.000011   0.000855   0.000863   0.000871
               2  2      0.000530  0.000008   0.000524   0.000530   0.000536
               4  2      0.000371  0.000005   0.000368   0.000371   0.000375
               8  1     0.0003350         -  0.0003350  0.0003350  0.0003350
            n = 1: no spread is known; --blocks 5 repeats each point
            1 run on 8 CPUs failed and does not count

            processes: resource usage of a run
            metric                                      1 CPU       2 CPUs       4 CPUs        8 CPUs
            time.user_time (s)                    0.25         0.464        0.786            1
            time.system_time (s)                  0.75          1.39         2.36            3
            time.elapsed_time (s)                    1             1            1            1
            time.percent_of_cpu_this_job_got (%)   100           186          314          400
            time.voluntary_context_switches          0         26.8k        52.4k        76.6k
            time.involuntary_context_switches      0.5 +-141%    1.5 +-47%    2.5 +-28%    1.5 +-141%
            time.minor_page_faults                 121           122          124          128

            processes: counters of the kernel
            metric              1 CPU  2 CPUs   4 CPUs   8 CPUs
            steal_percent (%)       0       0        0        0
            stat.ctxt/op       8.4e-4  0.0364    0.108    0.252
            interrupts.LOC/op  2.1e-4  3.3e-4  0.00102  0.00327
            interrupts.RES/op       0  0.0143   0.0429      0.1
            softirqs.RCU/op    6.5e-5  1.0e-4   3.1e-4  0.00101

            threads: resource usage of a run
            metric                                      1 CPU     2 CPUs     4 CPUs  8 CPUs
            time.user_time (s)                    0.25         0.5          1             2
            time.system_time (s)                  0.75         1.5          3             6
            time.elapsed_time (s)                    1           1          1             1
            time.percent_of_cpu_this_job_got (%)   100         200        400           800
            time.voluntary_context_switches          0           0          0             0
            time.involuntary_context_switches      0.5 +-141%  1.5 +-47%  2.5 +-28%       3
            time.minor_page_faults                 121         122        124           128

            threads: counters of the kernel
            metric              1 CPU  2 CPUs  4 CPUs  8 CPUs
            steal_percent (%)       0       0       0       0
            stat.ctxt/op       8.6e-4  5.3e-4  3.7e-4  3.3e-4
            interrupts.LOC/op  2.2e-4  2.6e-4  3.7e-4  6.7e-4
            interrupts.RES/op       0       0       0       0
            softirqs.RCU/op    6.6e-5  8.2e-5  1.1e-4  2.1e-4

            posix_lock_shared idle_ns=100, each operation timed
                       stat.ctxt/op
                 0.3 |
                     |
                     |                                                          -o
                     |                                                       ---
                 0.2 |                                                    ---
                     |                                                 ---
                     |                                              ---
                     |                                           ---
                     |                                       -o--
                 0.1 |                                 ------
                     |                           ------
                     |                     o-----
                     |        -------------
                   0 |  #-----~~~~~~~~~~~~~x~~~~~~~~~~~~~~~~~~x~~~~~~~~~~~~~~~~~~x
                     +--+------------------+------------------+------------------+--
            CPUs        1                  2                  4                  8
                       o processes   x threads   # both

            processes: one fcntl write lock and one unlock of the whole file
            CPUs  n  stat.ctxt/op    stddev       min    median       max
               1  2      0.000918  0.000011  0.000910  0.000918  0.000926
               2  2      0.036456  0.000009  0.036449  0.036456  0.036462
               4  2      0.108278  0.000014  0.108268  0.108278  0.108288
               8  2      0.251819  0.000029  0.251798  0.251819  0.251839

            threads: one fcntl write lock and one unlock of the whole file
            CPUs  n  stat.ctxt/op    stddev        min     median        max
               1  2      0.000959  0.000015   0.000948   0.000959   0.000969
               2  2      0.000589  0.000007   0.000583   0.000589   0.000594
               4  1     0.0004081         -  0.0004081  0.0004081  0.0004081
               8  2      0.000375  0.000006   0.000371   0.000375   0.000380
            n = 1: no spread is known; --blocks 5 repeats each point

            processes: resource usage of a run
            metric                                      1 CPU       2 CPUs       4 CPUs        8 CPUs
            time.user_time (s)                    0.25         0.464        0.786            1
            time.system_time (s)                  0.75          1.39         2.36            3
            time.elapsed_time (s)                    1             1            1            1
            time.percent_of_cpu_this_job_got (%)   100           186          314          400
            time.voluntary_context_switches          0         24.1k        47.2k        68.8k
            time.involuntary_context_switches      0.5 +-141%    1.5 +-47%    2.5 +-28%    1.5 +-141%
            time.minor_page_faults                 121           122          124          128

            processes: counters of the kernel
            metric              1 CPU  2 CPUs   4 CPUs   8 CPUs
            steal_percent (%)       0       0        0        0
            stat.ctxt/op       9.2e-4  0.0365    0.108    0.252
            interrupts.LOC/op  2.3e-4  3.7e-4  0.00114  0.00364
            interrupts.RES/op       0  0.0143   0.0429      0.1
            softirqs.RCU/op    7.1e-5  1.1e-4   3.5e-4  0.00112

            threads: resource usage of a run
            metric                                      1 CPU     2 CPUs  4 CPUs      8 CPUs
            time.user_time (s)                    0.25         0.5             1    2
            time.system_time (s)                  0.75         1.5             3    6
            time.elapsed_time (s)                    1           1             1    1
            time.percent_of_cpu_this_job_got (%)   100         200           400  800
            time.voluntary_context_switches          0           0             0    0
            time.involuntary_context_switches      0.5 +-141%  1.5 +-47%       2  1.5 +-141%
            time.minor_page_faults                 121         122           124  128

            threads: counters of the kernel
            metric              1 CPU  2 CPUs  4 CPUs  8 CPUs
            steal_percent (%)       0       0       0       0
            stat.ctxt/op       9.6e-4  5.9e-4  4.1e-4  3.8e-4
            interrupts.LOC/op  2.4e-4  2.9e-4  4.1e-4  7.5e-4
            interrupts.RES/op       0       0       0       0
            softirqs.RCU/op    7.4e-5  9.1e-5  1.3e-4  2.3e-4

            Warnings
            - tasks started over 31.0 ms, 3 % of the run (in 2 of 31 runs): run longer (--seconds)
            - the weather was strange (in 1 of 31 runs)
            - the frequency governor is 'powersave': knee doctor says how to fix it

            Failed runs
            - 1 run of posix_lock_shared as threads on 8 CPUs: task 3: fcntl F_SETLKW: No locks available

            Not measured
            - stat.cpus: /proc/stat has 4 of 8 lines

            how: the rate is the operations of all tasks over the wall time from one release to the last task's
              stop; each run has fresh tasks, and means and deviations are over runs

            record      20261120-115530-7f3a9c, partial: 31 of 32 runs, 1 failed
            experiment  golden: one POSIX lock, all tasks
            started     2026-11-20 11:55:30 UTC, by knee 0.1.0, resumed 1 time
            host        lab1, a guest of KVM
            kernel      6.12.8
            CPUs        8 (4 cores, 2 nodes), AMD EPYC 7763 64-Core Processor
            directory   /mnt/a b: ext4 (rw,noatime,data=ordered) on /dev/vdb
            runs        2 blocks of 16 points, 1 s a run, placement cores, seed 42
            rerun       knee run golden.toml --dir '/mnt/a b' --seed 42
        "#]],
    );
}

#[test]
fn a_narrow_terminal_gets_fewer_columns_and_symbols() {
    let mut golden = golden();
    // Its first curve is enough.
    golden.record.points.truncate(4);
    golden.runs.retain(|run| run.point < 4);
    let style = Style { width: 60, terminal: true, color: true };
    let text = shown(&terminal(&record(&golden, &Detail::default(), ""), style));
    expect![[r#"
        [1mMeasurement: golden[0m
        [1mbest at 2 CPUs: 1.3 times that of 1 CPU (ideal 2); 8 CPUs
          reach 0.52 times (ideal 8)[0m
        20261120-115530-7f3a9c ended early: it has 8 of 8 planned
          runs; its command with --resume does the rest

        [1mposix_lock_shared idle_ns=100[0m
                   operations/s
            1.5M │       [2m·[0m       [36m──[0m[36m●[0m[36m─[0m
                 │     [2m··[0m  [36m──────[0m    [36m───[0m
                 │   [2m·[0m[36m─────[0m             [36m────[0m
                 │  [36m●[0m[36m─[0m                      [36m───[0m
              1M │                             [36m───[0m
                 │                                [36m●[0m[36m────[0m
                 │                                     [36m─────[0m
                 │                                          [36m─────[0m
                 │                                               [36m●[0m
            500k │
                 │
                 │
                 │
               0 │
                 └──┴──────────────┴──────────────┴──────────────┴──
        CPUs        1              2              4              8
        idle % ●    0              7              21             -
                   [36m●[0m processes   [2m·[0m linear ideal

        processes: one fcntl write lock and one unlock of the whole
          file
                                        per  fair-  idle   user
        CPUs  n  operations/s  stddev   CPU   ness     %      s
           1  2     1 187 000  15 000  100%  1.000     0   0.25
           2  2     1 499 000  24 000   63%  0.990     7  0.464
           4  2       979 000  16 000   21%  0.970    21  0.786
           8  2       613 000  10 000  6.5%  0.930     -      1
        (not shown here: sys s, CPU %, vol. ctxsw, inv. ctxsw, minor
         faults)
        knee at 2 CPUs (2 to 2): the fewest with 90 % of the highest
          rate
        past 2 CPUs the rate falls, by 59 % (58 to 60) up to 8 CPUs
        warm-up in 3 of 8 runs, typically 120 ms; the rate after it
          is 3.0 % higher than over the whole run

        [1mWarnings[0m
        - the frequency governor is 'powersave': knee doctor says
          how to fix it

        [1mNot measured[0m
        - stat.cpus: /proc/stat has 4 of 8 lines

        how: the rate is the operations of all tasks over the wall
          time from one release to the last task's stop; each run
          has fresh tasks, and means and deviations are over runs

        record      20261120-115530-7f3a9c, partial: 8 of 8 runs
        experiment  golden: one POSIX lock, all tasks
        started     2026-11-20 11:55:30 UTC, by knee 0.1.0, resumed
                    1 time
        host        lab1, a guest of KVM
        kernel      6.12.8
        CPUs        8 (4 cores, 2 nodes), AMD EPYC 7763 64-Core
                    Processor
        directory   /mnt/a b: ext4 (rw,noatime,data=ordered) on
                    /dev/vdb
        runs        2 blocks of 4 points, 1 s a run, placement
                    cores, seed 42
        rerun       knee run golden.toml --dir '/mnt/a b' --seed 42
    "#]]
    .assert_eq(&text);
}
