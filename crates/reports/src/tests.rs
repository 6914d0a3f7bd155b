//! Reports of the golden record, as people and programs get them.

use std::path::Path;

use expect_test::{Expect, expect};
use host::terminal::shown;
use records::Opened;
use store::import::{Input, Telling, assemble};
use text::Style;

use crate::*;

pub fn golden() -> Opened {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store");
    store::open(&records.join("tests/golden/v1/20261120-115530-7f3a9c")).unwrap()
}

fn check(detail: &Detail, style: Style, expected: Expect) {
    let text = shown(&detailed(&golden(), detail, &style));
    assert!(text.lines().all(|line| line == line.trim_end()));
    if !style.terminal {
        assert!(text.is_ascii());
        assert!(text.lines().all(|line| line.len() <= style.width));
    }
    expected.assert_eq(&text);
}

#[test]
fn the_scaling_report_of_the_golden_record() {
    check(
        &Detail::default(),
        Style::PLAIN,
        expect![[r#"
            record      20261120-115530-7f3a9c, partial: 31 of 32 runs, 1 failed
            experiment  golden: one POSIX lock, all tasks
            started     2026-11-20 11:55:30 UTC, by knee 0.1.0, resumed 1 time
            host        lab1, a guest of KVM
            kernel      6.12.8
            CPUs        8 (4 cores, 2 nodes), AMD EPYC 7763 64-Core Processor
            directory   /mnt/a b: ext4 (rw,noatime,data=ordered) on /dev/vdb
            runs        2 blocks of 16 points, 1 s a run, placement cores, seed 42
            rerun       knee run golden.toml --dir '/mnt/a b' --seed 42

            posix_lock_shared idle_ns=100, processes: one fcntl write lock and one unlock of the whole file
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

            posix_lock_shared idle_ns=100, threads: one fcntl write lock and one unlock of the whole file
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

            posix_lock_shared idle_ns=100, processes, each operation timed: one fcntl write lock and one unlock
              of the whole file
            CPUs  n     mean   stddev      p50      p99  p99.9     max  operations/s
               1  2   918 ns  1.84 us   642 ns  8.26 us      -  300 us     1 090 000
               2  2  1.48 us  1.48 us  1.04 us  6.67 us      -  600 us     1 349 000
               4  2  4.54 us  2.27 us  3.18 us  10.2 us      -  1.2 ms       881 000
               8  2  14.5 us  3.64 us  10.2 us  16.4 us      -  2.4 ms       550 000
            reading the clock costs 41.5 ns for each operation, included above
            closed loop: coordinated omission applies (a task that waits does not issue the operations that
              would have waited too)

            posix_lock_shared idle_ns=100, threads, each operation timed: one fcntl write lock and one unlock of
              the whole file
            CPUs  n     mean   stddev      p50      p99  p99.9     max  operations/s
               1  2   959 ns  1.92 us   671 ns  8.63 us      -  300 us     1 043 000
               2  2  1.18 us  1.18 us   824 ns   5.3 us      -  600 us     1 699 000
               4  1  1.63 us   816 ns  1.14 us  3.67 us      -  1.2 ms     2 450 000
               8  2     3 us   751 ns   2.1 us  3.38 us      -  2.4 ms     2 660 000
            reading the clock costs 41.5 ns for each operation, included above
            closed loop: coordinated omission applies (a task that waits does not issue the operations that
              would have waited too)

            Doubts
              - tasks started over 31.0 ms, 3 % of the run (in 2 of 31 runs): run longer (--seconds)
              - the weather was strange (in 1 of 31 runs)
              - the frequency governor is 'powersave': knee doctor says how to fix it

            Failed runs
              - 1 run of posix_lock_shared as threads on 8 CPUs: task 3: fcntl F_SETLKW: No locks available

            Not measured
              - stat.cpus: /proc/stat has 4 of 8 lines
        "#]],
    );
}

#[test]
fn a_title_says_what_an_operation_was_for_the_knee_that_measured_it() {
    let mut golden = golden();
    golden.record.operations.insert("posix_lock_shared".into(), "what it was then".into());
    let text = scaling(&golden, &Style { width: 100, terminal: false, color: false });
    assert!(text.contains("processes: what it was then"), "{text}");
    assert!(will_it_scale(&golden).iter().all(|file| file.title == "what it was then"));
}

#[test]
fn a_narrow_terminal_gets_fewer_columns_and_symbols() {
    let mut golden = golden();
    // Its first curve is enough.
    golden.record.points.truncate(4);
    golden.runs.retain(|run| run.point < 4);
    let text = shown(&scaling(&golden, &Style { width: 60, terminal: true, color: true }));
    expect![[r#"
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

        [1mposix_lock_shared idle_ns=100, processes: one fcntl write
          lock and one unlock of the whole file[0m
                                        per  fair-  idle   user
        CPUs  n  operations/s  stddev   CPU   ness     %      s
           1  2     1 187 000  15 000  100%  1.000     0   0.25
           2  2     1 499 000  24 000   63%  0.990     7  0.464
           4  2       979 000  16 000   21%  0.970    21  0.786
           8  2       613 000  10 000  6.5%  0.930     -      1
        (columns that do not fit: sys s, CPU %, vol. ctxsw, inv.
        ctxsw, minor faults; --json has all)
        best at 2 CPUs: 1.3 times that of 1 CPU (ideal 2); 8 CPUs
          reach 0.52 times (ideal 8)
        knee at 2 CPUs (2 to 2): the fewest with 90 % of the highest
          rate
        past 2 CPUs the rate falls, by 59 % (58 to 60) up to 8 CPUs
        warm-up in 3 of 8 runs, typically 120 ms; the rate after it
          is 3.0 % higher than over the whole run

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

        [1mDoubts[0m
          - the frequency governor is 'powersave': knee doctor says
            how to fix it

        [1mNot measured[0m
          - stat.cpus: /proc/stat has 4 of 8 lines
    "#]]
    .assert_eq(&text);
}

#[test]
fn one_metric_instead_with_time_and_counters() {
    let detail = Detail { metrics: vec!["stat.ctxt/op".to_string()], time: true, counters: true };
    check(
        &detail,
        Style::PLAIN,
        expect![[r#"
            record      20261120-115530-7f3a9c, partial: 31 of 32 runs, 1 failed
            experiment  golden: one POSIX lock, all tasks
            started     2026-11-20 11:55:30 UTC, by knee 0.1.0, resumed 1 time
            host        lab1, a guest of KVM
            kernel      6.12.8
            CPUs        8 (4 cores, 2 nodes), AMD EPYC 7763 64-Core Processor
            directory   /mnt/a b: ext4 (rw,noatime,data=ordered) on /dev/vdb
            runs        2 blocks of 16 points, 1 s a run, placement cores, seed 42
            rerun       knee run golden.toml --dir '/mnt/a b' --seed 42

            posix_lock_shared idle_ns=100, processes: one fcntl write lock and one unlock of the whole file
            CPUs  n  stat.ctxt/op    stddev       min    median       max
               1  2      0.000843  0.000011  0.000835  0.000843  0.000850
               2  2      0.036382  0.000011  0.036374  0.036382  0.036389
               4  2      0.108165  0.000017  0.108153  0.108165  0.108177
               8  2      0.251633  0.000027  0.251614  0.251633  0.251652

            posix_lock_shared idle_ns=100, threads: one fcntl write lock and one unlock of the whole file
            CPUs  n  stat.ctxt/op    stddev        min     median        max
               1  2      0.000863  0.000011   0.000855   0.000863   0.000871
               2  2      0.000530  0.000008   0.000524   0.000530   0.000536
               4  2      0.000371  0.000005   0.000368   0.000371   0.000375
               8  1     0.0003350         -  0.0003350  0.0003350  0.0003350
            n = 1: no spread is known; --blocks 5 repeats each point
            1 run on 8 CPUs failed and does not count

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

            posix_lock_shared idle_ns=100, processes: one fcntl write lock and one unlock of the whole file
                  1 CPU       2 CPUs       4 CPUs        8 CPUs
            0.25         0.464        0.786            1         time.user_time (s)
            0.75          1.39         2.36            3         time.system_time (s)
               1             1            1            1         time.elapsed_time (s)
             100           186          314          400         time.percent_of_cpu_this_job_got (%)
               0         26.8k        52.4k        76.6k         time.voluntary_context_switches
             0.5 +-141%    1.5 +-47%    2.5 +-28%    1.5 +-141%  time.involuntary_context_switches
             121           122          124          128         time.minor_page_faults

             1 CPU  2 CPUs   4 CPUs   8 CPUs
                 0       0        0        0  steal_percent (%)
            8.4e-4  0.0364    0.108    0.252  stat.ctxt/op
            2.1e-4  3.3e-4  0.00102  0.00327  interrupts.LOC/op
                 0  0.0143   0.0429      0.1  interrupts.RES/op
            6.5e-5  1.0e-4   3.1e-4  0.00101  softirqs.RCU/op

            posix_lock_shared idle_ns=100, threads: one fcntl write lock and one unlock of the whole file
                  1 CPU     2 CPUs     4 CPUs  8 CPUs
            0.25         0.5          1             2  time.user_time (s)
            0.75         1.5          3             6  time.system_time (s)
               1           1          1             1  time.elapsed_time (s)
             100         200        400           800  time.percent_of_cpu_this_job_got (%)
               0           0          0             0  time.voluntary_context_switches
             0.5 +-141%  1.5 +-47%  2.5 +-28%       3  time.involuntary_context_switches
             121         122        124           128  time.minor_page_faults

             1 CPU  2 CPUs  4 CPUs  8 CPUs
                 0       0       0       0  steal_percent (%)
            8.6e-4  5.3e-4  3.7e-4  3.3e-4  stat.ctxt/op
            2.2e-4  2.6e-4  3.7e-4  6.7e-4  interrupts.LOC/op
                 0       0       0       0  interrupts.RES/op
            6.6e-5  8.2e-5  1.1e-4  2.1e-4  softirqs.RCU/op

            posix_lock_shared idle_ns=100, processes, each operation timed: one fcntl write lock and one unlock
              of the whole file
            CPUs  n  stat.ctxt/op    stddev       min    median       max
               1  2      0.000918  0.000011  0.000910  0.000918  0.000926
               2  2      0.036456  0.000009  0.036449  0.036456  0.036462
               4  2      0.108278  0.000014  0.108268  0.108278  0.108288
               8  2      0.251819  0.000029  0.251798  0.251819  0.251839

            posix_lock_shared idle_ns=100, threads, each operation timed: one fcntl write lock and one unlock of
              the whole file
            CPUs  n  stat.ctxt/op    stddev        min     median        max
               1  2      0.000959  0.000015   0.000948   0.000959   0.000969
               2  2      0.000589  0.000007   0.000583   0.000589   0.000594
               4  1     0.0004081         -  0.0004081  0.0004081  0.0004081
               8  2      0.000375  0.000006   0.000371   0.000375   0.000380
            n = 1: no spread is known; --blocks 5 repeats each point

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

            posix_lock_shared idle_ns=100, processes, each operation timed: one fcntl write lock and one unlock
              of the whole file
                  1 CPU       2 CPUs       4 CPUs        8 CPUs
            0.25         0.464        0.786            1         time.user_time (s)
            0.75          1.39         2.36            3         time.system_time (s)
               1             1            1            1         time.elapsed_time (s)
             100           186          314          400         time.percent_of_cpu_this_job_got (%)
               0         24.1k        47.2k        68.8k         time.voluntary_context_switches
             0.5 +-141%    1.5 +-47%    2.5 +-28%    1.5 +-141%  time.involuntary_context_switches
             121           122          124          128         time.minor_page_faults

             1 CPU  2 CPUs   4 CPUs   8 CPUs
                 0       0        0        0  steal_percent (%)
            9.2e-4  0.0365    0.108    0.252  stat.ctxt/op
            2.3e-4  3.7e-4  0.00114  0.00364  interrupts.LOC/op
                 0  0.0143   0.0429      0.1  interrupts.RES/op
            7.1e-5  1.1e-4   3.5e-4  0.00112  softirqs.RCU/op

            posix_lock_shared idle_ns=100, threads, each operation timed: one fcntl write lock and one unlock of
              the whole file
                  1 CPU     2 CPUs  4 CPUs      8 CPUs
            0.25         0.5             1    2         time.user_time (s)
            0.75         1.5             3    6         time.system_time (s)
               1           1             1    1         time.elapsed_time (s)
             100         200           400  800         time.percent_of_cpu_this_job_got (%)
               0           0             0    0         time.voluntary_context_switches
             0.5 +-141%  1.5 +-47%       2  1.5 +-141%  time.involuntary_context_switches
             121         122           124  128         time.minor_page_faults

             1 CPU  2 CPUs  4 CPUs  8 CPUs
                 0       0       0       0  steal_percent (%)
            9.6e-4  5.9e-4  4.1e-4  3.8e-4  stat.ctxt/op
            2.4e-4  2.9e-4  4.1e-4  7.5e-4  interrupts.LOC/op
                 0       0       0       0  interrupts.RES/op
            7.4e-5  9.1e-5  1.3e-4  2.3e-4  softirqs.RCU/op

            Doubts
              - tasks started over 31.0 ms, 3 % of the run (in 2 of 31 runs): run longer (--seconds)
              - the weather was strange (in 1 of 31 runs)
              - the frequency governor is 'powersave': knee doctor says how to fix it

            Failed runs
              - 1 run of posix_lock_shared as threads on 8 CPUs: task 3: fcntl F_SETLKW: No locks available

            Not measured
              - stat.cpus: /proc/stat has 4 of 8 lines
        "#]],
    );
}

#[test]
fn a_record_of_single_runs_says_that_spread_is_unknown() {
    let mut golden = golden();
    golden.runs.truncate(5);
    golden.record.points.truncate(4);
    golden.runs.retain(|run| run.point < 4);
    let text = scaling(&golden, &Style::PLAIN);
    assert!(text.contains("n = 1: no spread is known"), "{text}");
}

#[test]
fn csv_has_a_line_for_each_metric_of_each_run() {
    let mut text = Vec::new();
    csv_header(&mut text).unwrap();
    csv(&golden(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let of_run = |number: &str| {
        let start = format!("\",rate,/mnt/a b,,{number},0,");
        text.lines()
            .filter(|line| line.contains(&start))
            .map(|l| format!("{l}\n"))
            .collect::<String>()
    };
    let head: String = text.lines().take(1).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        record,workload,semantics,as,cpus,tasks,placement,parameters,pass,dir,variant,block,run,placebo,left_out,started,metric,value
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,fairness,1
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,idle_percent,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,interrupts.LOC,250
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,interrupts.RES,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,operations,1176000
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,operations_per_s,1176000
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,softirqs.RCU,77
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.idle_ticks,700
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.iowait_ticks,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.irq_ticks,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.nice_ticks,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.softirq_ticks,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.steal_ticks,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.system_ticks,1
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.all.user_ticks,99
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,stat.ctxt,1000
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,steal_percent,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.elapsed_time,1
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.involuntary_context_switches,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.minor_page_faults,121
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.percent_of_cpu_this_job_got,100
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.system_time,0.75
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.user_time,0.25
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,time.voluntary_context_switches,0
        20261120-115530-7f3a9c,posix_lock_shared,1,processes,1,1,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,0,0,0,,2026-11-20T11:55:31Z,wall_s,1
        20261120-115530-7f3a9c,posix_lock_shared,1,threads,8,8,cores,"{""hold_ns"":""0"",""idle_ns"":""100"",""mode"":""wait""}",rate,/mnt/a b,,1,20,0,,2026-11-20T11:55:51Z,failed,1
    "#]]
    .assert_eq(&format!("{head}{}{}", of_run("0,0"), of_run("1,20")));
}

#[test]
fn json_summarises_each_cell() {
    let golden = golden();
    let summary =
        serde_json::to_value(answers::summary(&golden, &["stat.ctxt/op".to_string()])).unwrap();
    let shown = serde_json::json!({
        "record": summary["record"]["id"],
        "state": summary["record"]["state"],
        "curves": summary["curves"].as_array().map(Vec::len),
        "as": summary["curves"][1]["as"],
        "parameters": summary["curves"][1]["parameters"],
        "cpus": summary["curves"][1]["cells"][3]["cpus"],
        "efficiency": summary["curves"][1]["cells"][3]["efficiency"],
        "rate": summary["curves"][1]["cells"][3]["metrics"]["operations_per_s"],
        "switches": summary["curves"][1]["cells"][0]["metrics"]["stat.ctxt/op"]["n"],
        "idle": summary["curves"][1]["cells"][3]["metrics"]["idle_percent"],
        "warnings": summary["warnings"],
    });
    expect![[r#"
        {
          "as": "threads",
          "cpus": 8,
          "curves": 4,
          "efficiency": 0.32194959926150235,
          "idle": null,
          "parameters": {
            "hold_ns": "0",
            "idle_ns": "100",
            "mode": "wait"
          },
          "rate": {
            "max": 2985400.0,
            "mean": 2985400.0,
            "median": 2985400.0,
            "min": 2985400.0,
            "n": 1,
            "stddev": null
          },
          "record": "20261120-115530-7f3a9c",
          "state": "partial",
          "switches": 2,
          "warnings": [
            {
              "advice": "run longer (--seconds)",
              "run": 3,
              "text": "tasks started over 31.0 ms, 3 % of the run"
            },
            {
              "advice": "run longer (--seconds)",
              "run": 9,
              "text": "tasks started over 40.2 ms, 4 % of the run"
            },
            {
              "run": 11,
              "text": "the weather was strange"
            },
            {
              "advice": "knee doctor says how to fix it",
              "run": null,
              "text": "the frequency governor is 'powersave'"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
}

#[test]
fn the_golden_record_comes_back_from_csv_with_every_value() {
    let golden = golden();
    let mut text = Vec::new();
    csv_header(&mut text).unwrap();
    csv(&golden, &mut text).unwrap();
    let input = Input::from_bytes(Path::new("golden.csv"), &text).unwrap();
    let session = golden.record.sessions[0].clone();
    let imported = assemble(&[input], &Telling::default(), session).unwrap();
    assert_eq!(imported.runs.len(), golden.runs.len());
    for (run, (back, _)) in golden.runs.iter().zip(&imported.runs) {
        assert_eq!((run.block, run.started), (back.block, back.started));
        assert_eq!(run.finished(), back.finished());
        let [old, new] = [(&golden.record, run), (&imported.record, back)]
            .map(|(record, run)| &record.points[run.point as usize]);
        assert_eq!((&old.workload, &old.parameters), (&new.workload, &new.parameters));
        assert_eq!((old.form, old.cpus, old.tasks), (new.form, new.cpus, new.tasks));
        let records::Outcome::Finished { metrics, counters, .. } = &run.outcome else { continue };
        for name in metrics.keys().chain(counters.keys()) {
            assert_eq!(run.value(name), back.value(name), "{name}");
        }
    }
}

#[test]
fn the_whole_record_comes_back_from_json() {
    let golden = golden();
    let text = serde_json::to_string(&answers::whole(&golden)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let runs: Vec<records::Run> = serde_json::from_value(value["runs"].clone()).unwrap();
    assert_eq!(runs, *golden.runs);
    assert_eq!(records::Record::read(&value["record"].to_string()).unwrap(), golden.record);
}

#[test]
fn will_it_scale_s_csv_with_missing_values() {
    let mut golden = golden();
    let first = &will_it_scale(&golden)[0];
    assert_eq!(first.name, "posix_lock_shared-idle_ns=100");
    expect![[r#"
        tasks,processes,processes_idle,threads,threads_idle,linear
        0,0,100,0,100,0
        1,1186824,87.50,1159110,87.50,1186824
        2,1498749,76.75,1888078,75.00,2373647
        4,978540,60.75,2692800,50.00,4747294
        8,612632,-1.00,2985400,-1.00,9494588
    "#]]
    .assert_eq(&first.csv);
    // Without the threads' points.
    golden.runs.retain(|run| !(4..8).contains(&run.point));
    expect![[r#"
        tasks,processes,processes_idle,threads,threads_idle,linear
        0,0,100,0,100,0
        1,1186824,87.50,-1,-1.00,1186824
        2,1498749,76.75,-1,-1.00,2373647
        4,978540,60.75,-1,-1.00,4747294
        8,612632,-1.00,-1,-1.00,9494588
    "#]]
    .assert_eq(&will_it_scale(&golden)[0].csv);
}

/// The golden record, its first two points made points of a command.
fn of_command() -> Opened {
    let mut opened = golden();
    let command: records::Command = serde_json::from_value(serde_json::json!({
        "name": "xfs_repair", "run": "xfs_repair -n -o {options} {image}",
        "parameters": {"image": "/big.img"},
        "metric": [{"name": "read_rate", "unit": "MiB/s", "regex": "(.*)"}],
    }))
    .unwrap();
    let record = &mut opened.record;
    record.metrics =
        ::plan::commands::described(&[(String::new(), command.clone())].into()).unwrap();
    record.points.truncate(2);
    for (point, options) in record.points.iter_mut().zip(["ag_stride=-1", "bhash=101073"]) {
        let parameters = [("options", options), ("image", "/big.img")];
        point.parameters = parameters.map(|(k, v)| (k.to_string(), v.to_string())).into();
        point.workload = command.name.clone();
        point.semantics = 0;
        point.until = records::Until::End;
        (point.cpus, point.tasks) = (2, 2);
        point.command = Some(command.run.text());
    }
    record.commands = [(command.name.clone(), command)].into();
    opened.runs.retain(|run| run.point < 2);
    for run in &mut opened.runs {
        if let records::Outcome::Finished { metrics, .. } = &mut run.outcome {
            let of_command = |name: &str| name == "wall_s" || name.starts_with("time.");
            *metrics = metrics.iter().filter(|(name, _)| of_command(name)).collect();
            metrics.insert("read_rate", 100.0 + run.run as f64);
        }
    }
    opened
}

#[test]
fn what_decides_about_a_command_is_its_time_or_what_its_definition_names() {
    let mut record = of_command().record;
    assert_eq!(record.deciding(&record.points[0]), "wall_s");
    let command = record.commands.get_mut("xfs_repair").unwrap();
    command.primary = Some("read_rate".to_string());
    assert_eq!(record.deciding(&record.points[0]), "read_rate");
    assert_eq!(record.deciding_or(&record.points[0], "exit_status"), "exit_status");
    record.points[0].command = None;
    assert_eq!(record.deciding(&record.points[0]), "operations_per_s");
}

#[test]
fn a_command_is_a_table_of_its_parameters() {
    let text = detailed(&of_command(), &Detail::default(), &Style::PLAIN);
    let table: String = text.split_inclusive('\n').skip_while(|line| *line != "\n").collect();
    expect![[r#"

        xfs_repair: xfs_repair -n -o {options} {image}
                                               read_rate           user   sys  CPU   vol.   inv.   minor
             options  CPUs  n  wall_s  stddev      MiB/s  stddev      s     s    %  ctxsw  ctxsw  faults
        ag_stride=-1     2  2   1.000       0        113      18   0.25  0.75  100      0    0.5     121
        bhash=101073     2  2   1.000       0        118       6  0.464  1.39  186  26.8k    1.5     122
        (columns that do not fit: max RSS MiB; --json has all)

        Doubts
          - the frequency governor is 'powersave': knee doctor says how to fix it
    "#]].assert_eq(&table);
}
