//! The forms that others made known: of the bot, of patch authors, of fs_mark.

use expect_test::expect;

use crate::compare::tests::fixtures::{creation, curve, locks, oddities, repairs};
use crate::compare::tests::*;

#[test]
fn means_and_deviations_of_locks() {
    check(
        &locks(),
        Layout::MeanStddev,
        MAIL,
        expect![[r#"
            variants    A = 3.10.0-rc4-00034-g042dd60 (baseline): on opteron, 3.10.0-rc4-00034-g042dd60; record
                        20261120-115530-7f3a9c
                        B = 3.10.0-rc4-00049-ge0b71e1: on opteron, 3.10.0-rc4-00049-ge0b71e1; record
                        20261120-160212-90be11
            design      separate boots of each variant, one value a boot
            rerun       knee compare last --layout lkp

            posix_lock_shared, processes, 10000 operations per task, /dev/shm, 32 CPUs, 128 tasks
            task_time_s (s): sum over tasks of the time from first operation to stop (lockperf's figure); not
              with idle_ns; decides
                                                                    after/
            variant                      mean  std. deviation    n  before  95 % interval     verdict
            ------------------------------------------------------------------------------------------------
            3.10.0-rc4-00034-g042dd60  30 890             270  100
            3.10.0-rc4-00049-ge0b71e1  25 500             340  100  0.8257  [0.8231, 0.8282]  faster, >= 2 %

            wall_s (s): from the release to the last task's stop; of a command, from its start to its end;
              exploratory
                                                                   after/
            variant                     mean  std. deviation    n  before  95 % interval     adjusted
            ------------------------------------------------------------------------------------------
            3.10.0-rc4-00034-g042dd60  243.2             2.1  100
            3.10.0-rc4-00049-ge0b71e1  201.1             2.7  100  0.8270  [0.8240, 0.8300]  p < 0.001

            flock_own, processes, 20000 operations per task, /dev/shm, 32 CPUs, 128 tasks
            task_time_s (s): sum over tasks of the time from first operation to stop (lockperf's figure); not
              with idle_ns; decides
                                                                   after/
            variant                    mean  std. deviation    n   before  95 % interval       verdict
            -------------------------------------------------------------------------------------------------
            3.10.0-rc4-00034-g042dd60  1350              40  100
            3.10.0-rc4-00049-ge0b71e1  8.48            0.35  100  0.00629  [0.00624, 0.00634]  faster, >= 2 %

            wall_s (s): from the release to the last task's stop; of a command, from its start to its end;
              exploratory
                                                                     after/
            variant                      mean  std. deviation    n   before  95 % interval       adjusted
            ----------------------------------------------------------------------------------------------
            3.10.0-rc4-00034-g042dd60   10.71            0.31  100
            3.10.0-rc4-00049-ge0b71e1  0.0712          0.0029  100  0.00660  [0.00650, 0.00680]  p < 0.001

            posix_lock_shared, processes, 10000 operations per task, /dev/shm, each operation timed, 32 CPUs,
              128 tasks
            single calls (latency.mean_ns, latency.stddev_ns); decides
                                           mean  std. deviation       after/
            variant                    of calls        of calls    n  before  95 % interval     verdict
            --------------------------------------------------------------------------------------------------
            3.10.0-rc4-00034-g042dd60   24.1 ms         1.93 ms  100
            3.10.0-rc4-00049-ge0b71e1   19.9 ms         2.21 ms  100  0.8260  [0.8230, 0.8290]  faster, >= 2 %

            noise floor: not measured (that needs blocks)
            left out: nothing
            how: change = Hodges-Lehmann estimate of log ratios between boots of the two sides; 95 % interval:
              exact rank-sum; same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or
              more; n = boots of the smaller side
        "#]],
    );
}

#[test]
fn means_and_deviations_of_locks_in_a_narrow_mail() {
    let mut flock = locks();
    flock.cells = vec![flock.cells[1].clone()];
    check(
        &flock,
        Layout::MeanStddev,
        NARROW_MAIL,
        expect![[r#"
            variants    A = 3.10.0-rc4-00034-g042dd60 (baseline): on opteron,
                        3.10.0-rc4-00034-g042dd60; record 20261120-115530-7f3a9c
                        B = 3.10.0-rc4-00049-ge0b71e1: on opteron,
                        3.10.0-rc4-00049-ge0b71e1; record 20261120-160212-90be11
            design      separate boots of each variant, one value a boot
            rerun       knee compare last --layout lkp

            flock_own, processes, 20000 operations per task, /dev/shm, 32 CPUs, 128
              tasks
            task_time_s (s): sum over tasks of the time from first operation to stop
              (lockperf's figure); not with idle_ns; decides
                                std.        after/
            variant  mean  deviation    n   before  95 % interval
            ----------------------------------------------------------
            A        1350         40  100
            B        8.48       0.35  100  0.00629  [0.00624, 0.00634]
            B: faster, >= 2 %

            wall_s (s): from the release to the last task's stop; of a command, from
              its start to its end; exploratory
                                  std.        after/
            variant    mean  deviation    n   before  95 % interval
            ------------------------------------------------------------
            A         10.71       0.31  100
            B        0.0712     0.0029  100  0.00660  [0.00650, 0.00680]
            B: p < 0.001

            noise floor: not measured (that needs blocks)
            left out: nothing
            how: change = Hodges-Lehmann estimate of log ratios between boots of the
              two sides; 95 % interval: exact rank-sum; same = the 90 % interval
              lies within +-2 %; >= 2 % = shown to be that much or more; n = boots
              of the smaller side
        "#]],
    );
}

#[test]
fn the_matrix_of_repairs() {
    check(
        &repairs(),
        Layout::Matrix,
        MAIL,
        expect![[r#"
            variants    3.19 (baseline)
                        4.0-rc1
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order
            rerun       knee compare last --layout lkp

            xfs_repair, to its end, 16 CPUs
            wall_s (s, lower is better), mean; ratio = after/before
            config                        3.19  4.0-rc1  ratio  95 % interval     n  verdict
            defaults                     8m08s    9m34s  1.176  [1.163, 1.189] t  5  slower, >= 2 %
            ag_stride=-1               4m04.0s  4m38.0s  1.139  [1.126, 1.152] t  5  slower, >= 2 %
            bhash=101073               6m04.0s   17m43s  2.920  [2.907, 2.933] t  5  slower, >= 2 %
            ag_stride=-1,bhash=101073  4m54.0s    9m58s  2.034  [2.021, 2.047] t  5  slower, >= 2 %

            noise floor: not measured (no counted block ran one variant twice)
            left out: nothing
            how: change = within-block log ratios; 95 % interval: Student's t where marked t (few runs), which
              assumes normality; same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or
              more; n = blocks with both variants
        "#]],
    );
}

#[test]
fn a_curve_as_a_narrow_matrix() {
    check(
        &curve(),
        Layout::Matrix,
        NARROW_MAIL,
        expect![[r#"
            variants    spin (baseline)
                        mutex: mode=mutex
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until
                        decided
            rerun       knee compare last --layout lkp

            posix_lock_shared idle_ns=100, processes, 1 s
            operations_per_s (1/s, higher is better), mean, below it the ratio to
              the baseline with its interval, n, verdict
            config        spin                    mutex
            1 CPU    1 187 000                1 050 000
                                   0.885 [0.876, 0.893]
                                   n 20, slower, >= 2 %
            2 CPUs   1 499 000                1 474 000
                                0.9830 [0.9710, 0.9997]
                                           n 28, slower
            4 CPUs     979 000                  981 000
                                   1.002 [0.992, 1.011]
                                             n 14, same
            8 CPUs     613 000                  625 000
                                   1.020 [0.993, 1.046]
                                      n 60, cannot tell
            16 CPUs    402 000                  655 000
                                    1.63 [1.51, 1.75] t
                                    n 6, faster, >= 2 %
            `mutex` diverges from `spin` from 16 CPUs on (simultaneous 95 % band)
            ahead, by that band: `spin` at 1 CPU, no difference shown at 2-8 CPUs,
              `mutex` at 16 CPUs
            cannot tell, 8 CPUs: about 14 more blocks would tell
            failed, and not counted: 1 run of `mutex` (16 CPUs)

            noise floor: equal runs in one block differed by 0.6 % (median of 12
              pairs), at most 2.3 %; 1 of 12 by more than 2 %
            left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the
              CPUs used), block 5 at 16 CPUs (run 11: throttled); caused by `spin`
              1, `mutex` 1 (chance of so uneven a split: p = 1.0)
            variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run
              38 % (128 units, stddev 0.94 %)
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 %
              interval: exact signed-rank, adjusted for interim looks; Student's t
              where marked t (few runs), which assumes normality; same = the 90 %
              interval lies within +-2 %; >= 2 % = shown to be that much or more; n
              = blocks with both variants, up to the last look

            Warnings
              - the frequency governor is 'powersave': knee doctor says how to fix
                it
        "#]],
    );
}

#[test]
fn the_matrix_of_five_variants_in_a_narrow_terminal() {
    check(
        &oddities(),
        Layout::Matrix,
        NARROW,
        expect![[r#"
            variants    base (baseline)
                        a: sysctl vm.dirty_ratio=5
                        b: mount -o nobarrier
                        c: mode=try
                        d: mode=try, sysctl kernel.numa_balancing=0
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until
                        decided
            rerun       knee compare last --layout lkp

            [1mcreate_files, processes, 1 s, /mnt/scratch, 8 CPUs[0m
            operations_per_s (1/s, higher is better), mean, below it the ratio to
              the baseline with its interval, n, verdict
            config     base                     a                     b
            all     310 000               322 000               310 000
                             1.039 [1.024, 1.053]  0.999 [0.988, 1.010]
                             n 10, faster, >= 2 %            n 10, same

            config     base                c                d
            all     310 000          333 000                -
                                        1.07                -
                             n 2, no verdict  n 0, no verdict
            no verdict, `c`: 2 of 10 blocks are whole; a verdict needs 4 blocks
            no verdict, `d`: no run finished; a verdict needs 4 blocks
            failed, and not counted: 8 runs of `c`, 10 runs of `d`

            noise floor: not measured (no counted block ran one variant twice)
            left out: none of 10 blocks
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 %
              interval: exact signed-rank, adjusted for interim looks; adjusted for
              the number of variants; same = the 90 % interval lies within +-2 %; >=
              2 % = shown to be that much or more; n = blocks with both variants, up
              to the last look
        "#]],
    );
}

#[test]
fn passes_as_fs_mark_prints_them() {
    check(
        &creation(),
        Layout::Passes,
        TERMINAL,
        expect![[r#"
            variants    ticket (baseline): CONFIG_QUEUED_SPINLOCKS=n
                        qspinlock
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      not interleaved: the variants were measured one after the other, so a difference below a
                        factor of two may be the host's drift and gets no verdict
            rerun       knee compare last --layout lkp

            [1mfs_mark, processes, 50000 operations per task, /mnt/scratch, 120 CPUs, 16 tasks[0m

            ticket does:
            run  block  FSUse%    Count  Size  Files/sec  App Overhead
              0      0       0  6400000     0   310419.6       3343821
              1      1       0  7200000     0   348346.5       4721133
              2      2       0  8000000     0   328098.2       3235753
              3      3       0  8800000     0   316765.3       3238971
            fs_mark.files_per_s mean 326 000 ± 17 000 (stddev 5.1 %), n = 4

            qspinlock does:
            run  block  FSUse%    Count  Size  Files/sec  App Overhead
              4      0       0  6400000     0   286491.9       3500179
              5      1       0  7200000     0   293229.5       3963140
              6      2       0  8000000     0   271182.4       3708212
              7      3       0  8800000     0   300592.0       3595722
            fs_mark.files_per_s mean 288 000 ± 13 000 (stddev 4.4 %), n = 4

            qspinlock against ticket: not interleaved: -12% [-19, -4] t, n=4
            no verdict: not interleaved: host drift not excluded

            noise floor: not measured (that needs blocks)
            host drift: 6 earlier records of this load, host and kernel, with nothing known to have changed,
              differ by 6.2 % (median over pairs); 4 of 15 pairs differ by as much as the variants do here, or
              more
            left out: nothing
            how: change = log ratios between runs of the two sides; 95 % interval: Welch's t where marked t (few
              runs), which assumes normality, of sampling only; n = runs of the smaller side

            [1mWarnings[0m
              - imported: knee did not see how the host was meanwhile
        "#]],
    );
}

#[test]
fn passes_of_our_own_files_have_no_overhead() {
    let mut own = creation();
    own.primary = "operations_per_s".to_string();
    let cell = &mut own.cells[0];
    cell.key.workload = "create_files".to_string();
    cell.key.parameters = [("size_bytes".to_string(), "4096".to_string())].into();
    cell.metrics[0].metric = own.primary.clone();
    for run in cell.passes.iter_mut().flatten() {
        let rate = run.metrics.get("fs_mark.files_per_s").unwrap();
        run.metrics = [("operations_per_s", rate), ("operations", 8e5)].into_iter().collect();
    }
    cell.passes[0].clear();
    check(
        &own,
        Layout::Passes,
        NARROW,
        expect![[r#"
            variants    ticket (baseline): CONFIG_QUEUED_SPINLOCKS=n
                        qspinlock
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      not interleaved: the variants were measured one after the
                        other, so a difference below a factor of two may be the
                        host's drift and gets no verdict
            rerun       knee compare last --layout lkp

            [1mcreate_files size_bytes=4096, processes, 50000 operations per task,
              /mnt/scratch, 120 CPUs, 16 tasks[0m

            ticket: no finished run

            qspinlock does:
            run  block  FSUse%   Count  Size  Files/sec  App Overhead
              4      0       -  800000  4096   286491.9             -
              5      1       -  800000  4096   293229.5             -
              6      2       -  800000  4096   271182.4             -
              7      3       -  800000  4096   300592.0             -
            operations_per_s mean 288 000 ± 13 000 (stddev 4.4 %), n = 4

            qspinlock against ticket: not interleaved: -12% [-19, -4] t, n=4
            no verdict: not interleaved: host drift not excluded

            noise floor: not measured (that needs blocks)
            host drift: 6 earlier records of this load, host and kernel, with
              nothing known to have changed, differ by 6.2 % (median over pairs); 4
              of 15 pairs differ by as much as the variants do here, or more
            left out: nothing
            how: change = log ratios between runs of the two sides; 95 % interval:
              Welch's t where marked t (few runs), which assumes normality, of
              sampling only; n = runs of the smaller side

            [1mWarnings[0m
              - imported: knee did not see how the host was meanwhile
        "#]],
    );
}

#[test]
fn passes_of_another_load_with_blocks_left_out() {
    let mut last = curve();
    last.cells.drain(..4);
    last.curves.clear();
    last.discards.discarded.iter_mut().for_each(|discard| discard.cell = 0);
    check(
        &last,
        Layout::Passes,
        NARROW_MAIL,
        expect![[r#"
            variants    spin (baseline)
                        mutex: mode=mutex
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until
                        decided
            rerun       knee compare last --layout lkp

            posix_lock_shared idle_ns=100, processes, 1 s, 16 CPUs

            spin does:
            run  block  operations_per_s  wall_s  operations
              0      0           402 000  1.0002     402 080
              2      1           406 020  1.0002     402 080
              4      2           410 040  1.0002     402 080
              6      3           402 000  1.0002     402 080  left out
            operations_per_s mean 402 000 +- 6000 (stddev 1.4 %), n = 6

            mutex does:
            run  block  operations_per_s  wall_s  operations
              1      0           655 000  1.0002     655 130
              3      1           661 550  1.0002     655 130
              5      2           668 100  1.0002     655 130
              7      3           655 000  1.0002     655 130  left out
            operations_per_s mean 655 000 +- 9000 (stddev 1.4 %), n = 6

            mutex against spin: faster, >= 2 %: +63% [+51, +75] t, n=6
            failed, and not counted: 1 run of `mutex`

            noise floor: equal runs in one block differed by 0.6 % (median of 12
              pairs), at most 2.3 %; 1 of 12 by more than 2 %
            left out: 2 of 130 blocks: block 3 (run 7: steal 3.1 % of the CPUs
              used), block 5 (run 11: throttled); caused by `spin` 1, `mutex` 1
              (chance of so uneven a split: p = 1.0)
            variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run
              38 % (128 units, stddev 0.94 %)
            how: change = within-block log ratios; 95 % interval: Student's t where
              marked t (few runs), which assumes normality; same = the 90 % interval
              lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks
              with both variants, up to the last look

            Warnings
              - the frequency governor is 'powersave': knee doctor says how to fix
                it
        "#]],
    );
}

#[test]
fn curves_of_all_variants_in_one_plot() {
    check(
        &curve(),
        Layout::Curves,
        MAIL,
        expect![[r#"
            variants    spin (baseline)
                        mutex: mode=mutex
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until decided
            rerun       knee compare last --layout lkp

            posix_lock_shared idle_ns=100, processes, 1 s
                       operations/s
                1.5M |       .      --#-
                     |     ..  -----~  ~---
                     |   .-----~~~         ----
                     |  o-~~~~                ~---
                  1M |  x~                        ---x
                     |                               o----
                     |                                    ----~
                     |                                        -----     ~~~~~~~~~x
                     |                                             #------
                500k |                                                    -------
                     |                                                           o
                     |
                     |
                   0 |
                     +--+-------------+--------------+-------------+-------------+--
            CPUs        1             2              4             8             16
            idle % o    1             1              1             1             1
            idle % x    13            13             13            13            13
                       o spin   x mutex   # both   . linear ideal
            `mutex` diverges from `spin` from 16 CPUs on (simultaneous 95 % band)
            ahead, by that band: `spin` at 1 CPU, no difference shown at 2-8 CPUs, `mutex` at 16 CPUs
            cannot tell, 8 CPUs: about 14 more blocks would tell
            failed, and not counted: 1 run of `mutex` (16 CPUs)

            noise floor: equal runs in one block differed by 0.6 % (median of 12 pairs), at most 2.3 %; 1 of 12
              by more than 2 %
            left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the CPUs used), block 5 at 16
              CPUs (run 11: throttled); caused by `spin` 1, `mutex` 1 (chance of so uneven a split: p = 1.0)
            variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38 % (128 units, stddev 0.94 %)
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank,
              adjusted for interim looks; Student's t where marked t (few runs), which assumes normality; same =
              the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks with both
              variants, up to the last look

            Warnings
              - the frequency governor is 'powersave': knee doctor says how to fix it
        "#]],
    );
}

#[test]
fn one_variant_alone_is_one_table() {
    let mut alone = locks();
    alone.variants.truncate(1);
    for cell in &mut alone.cells {
        for metric in &mut cell.metrics {
            metric.sides.truncate(1);
            metric.contrasts.clear();
        }
    }
    check(
        &alone,
        Layout::MeanStddev,
        MAIL,
        expect![[r#"
            variants    3.10.0-rc4-00034-g042dd60
            host        opteron, 3.10.0-rc4-00034-g042dd60
            record      20261120-115530-7f3a9c
            design      one variant, nothing to compare: give knee compare a second record, of another kernel or
                        host
            rerun       knee compare last --layout lkp

            posix_lock_shared, processes, 10000 operations per task, /dev/shm, 128 tasks
            flock_own, processes, 20000 operations per task, /dev/shm, 128 tasks
                                     sum over  std.  wall,  std.       a call,  a call,
            load               CPUs  tasks, s  dev.      s  dev.    n     mean     dev.
            posix_lock_shared    32    30 890   270  243.2   2.1  100  24.1 ms  1.93 ms
            flock_own            32      1350    40  10.71  0.31  100        -        -
            times run from the first operation to the stop: mean and standard deviation of n runs; single calls
            were timed in separate runs: mean and standard deviation of the calls within a run

            left out: no run
        "#]],
    );
}

#[test]
fn a_matrix_shows_what_was_asked_for_beside_what_decides() {
    let mut shown = repairs();
    shown.shown = vec!["task_time_s".to_string(), "no.such".to_string()];
    for cell in &mut shown.cells {
        let decides = cell.metrics[0].clone();
        let metric = "task_time_s".to_string();
        cell.metrics.push(analysis::MetricComparison { metric, ..decides });
    }
    let text = comparison(&shown, Layout::Matrix, "", MAIL);
    assert_eq!(text.matches("task_time_s (s").count(), 1, "{text}");
    assert!(!text.contains("no.such"));
}
