//! Every layout of the sample comparisons, as a mail or a terminal gets it.

use analysis::Comparison;
use expect_test::{Expect, expect};

use super::super::Style;
use super::sample::{attributes, creation, curve, locks, oddities, repairs};
use super::{Layout, comparison};

const AGAIN: &str = "knee compare last --layout verdicts";
const MAIL: Style = Style { width: 100, terminal: false };
const NARROW_MAIL: Style = Style { width: 72, terminal: false };
const TERMINAL: Style = Style { width: 100, terminal: true };
const NARROW: Style = Style { width: 72, terminal: true };

fn check(sample: &Comparison, layout: Layout, style: Style, expected: Expect) {
    let text = comparison(sample, layout, AGAIN, style);
    expected.assert_eq(&text);
}

#[test]
fn what_all_layouts_promise() {
    let samples = [attributes(), creation(), curve(), locks(), oddities(), repairs()];
    let layouts =
        [Layout::Verdicts, Layout::Lkp, Layout::MeanStddev, Layout::Matrix, Layout::Passes];
    let styles = [MAIL, NARROW_MAIL, TERMINAL, NARROW];
    for (i, sample) in samples.iter().enumerate() {
        for layout in layouts {
            for style in styles {
                let text = comparison(sample, layout, AGAIN, style);
                let which = format!("sample {i}, {layout:?}, {style:?}");
                for line in text.lines() {
                    assert_eq!(line, line.trim_end(), "{which}");
                    let bold = ["\x1b[1m", "\x1b[0m"];
                    let plain = bold.iter().fold(line.to_string(), |l, code| l.replace(code, ""));
                    assert!(plain.chars().count() <= style.width, "{which}: {plain}");
                }
                assert!(style.terminal || text.is_ascii(), "{which}");
                assert!(text.contains("again       knee compare"), "{which}");
                assert!(text.contains("95 % interval"), "{which}");
                assert!(text.contains("how: change = "), "{which}");
            }
        }
    }
}

#[test]
fn the_verdicts_on_a_curve() {
    check(&curve(), Layout::Verdicts, MAIL, expect![[r#"
        variants    spin (baseline)
                    mutex: mode=mutex
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order, until decided
        again       knee compare last --layout verdicts

        posix_lock_shared idle_ns=100, processes, 1 s
        operations_per_s (1/s, higher is better), mean +- standard deviation of runs
        CPUs                 spin                mutex  change  95 % interval    n  verdict
           1  1 187 000 +- 17 000  1 050 000 +- 15 000  -11.5%  [-12.4, -10.7]  20  slower, >= 2 %
           2  1 499 000 +- 21 000  1 474 000 +- 21 000  -1.70%  [-2.90, -0.03]  28  slower
           4    979 000 +- 14 000    981 000 +- 14 000   +0.2%  [-0.8, +1.1]    14  same
           8    613 000 +-   9000    625 000 +-   9000   +2.0%  [-0.7, +4.6]    60  cannot tell
          16    402 000 +-   6000    655 000 +-   9000    +63%  [+51, +75] t     6  faster, >= 2 %
        `mutex` parts from `spin` from 16 CPUs on (simultaneous 95 % band)
        ahead: `spin` at 1 CPU, no difference shown at 2-8 CPUs, `mutex` at 16 CPUs
        cannot tell, 8 CPUs: about 14 more blocks would tell
        failed, and not counted: 1 run of `mutex` (16 CPUs)

        also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 5 tested
          change  95 % interval    n   adj. p  metric        where
        +12.0 pp  [+10.2, +13.9]  60  < 0.001  idle_percent  8 CPUs
        +12.0 pp  [+10.2, +13.9]   6  < 0.001  idle_percent  16 CPUs

        noise floor: equal runs in one block differed by 0.6 % (median of 12 pairs), at most 2.3 %; 1 of 12
          by more than 2 %
        left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the CPUs used), block 5 at 16
          CPUs (run 11: throttled); caused by `spin` 1, `mutex` 1 (so uneven by chance: p = 1.0)
        variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38 % (128 units, stddev 0.94 %)
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact signed-rank 95 % intervals,
          allowing for a look after each stage; t: Student's t, which assumes normality; same = shown to lie
          within +-2 %; n = blocks with both variants

        Doubts
          - the frequency governor is 'powersave': knee doctor says how to fix it
    "#]]);
}

#[test]
fn the_verdicts_on_a_curve_in_a_narrow_terminal() {
    check(&curve(), Layout::Verdicts, NARROW, expect![[r#"
        variants    spin (baseline)
                    mutex: mode=mutex
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order, until
                    decided
        again       knee compare last --layout verdicts

        [1mposix_lock_shared idle_ns=100, processes, 1 s[0m
        operations_per_s (1/s, higher is better), mean ± standard deviation of
          runs
        CPUs       spin      mutex  change  95 % interval    n  verdict
           1  1 187 000  1 050 000  -11.5%  [-12.4, -10.7]  20  slower, >= 2 %
           2  1 499 000  1 474 000  -1.70%  [-2.90, -0.03]  28  slower
           4    979 000    981 000   +0.2%  [-0.8, +1.1]    14  same
           8    613 000    625 000   +2.0%  [-0.7, +4.6]    60  cannot tell
          16    402 000    655 000    +63%  [+51, +75] t     6  faster, >= 2 %
        (too narrow for standard deviations; the layout mean-stddev has them)
        `mutex` parts from `spin` from 16 CPUs on (simultaneous 95 % band)
        ahead: `spin` at 1 CPU, no difference shown at 2-8 CPUs, `mutex` at 16
          CPUs
        cannot tell, 8 CPUs: about 14 more blocks would tell
        failed, and not counted: 1 run of `mutex` (16 CPUs)

        also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 5 tested
          change  95 % interval    n   adj. p  metric        where
        +12.0 pp  [+10.2, +13.9]  60  < 0.001  idle_percent  8 CPUs
        +12.0 pp  [+10.2, +13.9]   6  < 0.001  idle_percent  16 CPUs

        noise floor: equal runs in one block differed by 0.6 % (median of 12
          pairs), at most 2.3 %; 1 of 12 by more than 2 %
        left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the
          CPUs used), block 5 at 16 CPUs (run 11: throttled); caused by `spin`
          1, `mutex` 1 (so uneven by chance: p = 1.0)
        variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38
          % (128 units, stddev 0.94 %)
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact
          signed-rank 95 % intervals, allowing for a look after each stage; t:
          Student's t, which assumes normality; same = shown to lie within +-2
          %; n = blocks with both variants

        [1mDoubts[0m
          - the frequency governor is 'powersave': knee doctor says how to fix
            it
    "#]]);
}

#[test]
fn the_verdicts_on_five_variants() {
    check(&oddities(), Layout::Verdicts, MAIL, expect![[r#"
        variants    base (baseline)
                    a: sysctl vm.dirty_ratio=5
                    b: mount -o nobarrier
                    c: mode=try
                    d: mode=try, sysctl kernel.numa_balancing=0
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order, until decided
        again       knee compare last --layout verdicts

        create_files, processes, 1 s, /mnt/scratch
        operations_per_s (1/s, higher is better), mean +- standard deviation of runs
        CPUs  variant             base        its value  change  95 % interval   n  verdict
           8  a        310 000 +- 6000  322 000 +- 6000   +3.9%  [+2.4, +5.3]   10  faster, >= 2 %
           8  b        310 000 +- 6000  310 000 +- 6000   -0.1%  [-1.2, +1.0]   10  same
           8  c        310 000 +- 6000  333 000 +- 4000  +7.40%  -               2  no verdict
           8  d        310 000 +- 6000        -               -  -               0  no verdict
        no verdict, `c`: 2 of 10 blocks are whole; a verdict needs 4 blocks
        no verdict, `d`: no run finished; a verdict needs 4 blocks
        failed, and not counted: 8 runs of `c`, 10 runs of `d`

        also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 4 tested
         change  95 % interval   n   adj. p  metric                  where
          +12.0  [+9.5, +14.0]  10  < 0.001  time.major_page_faults  a
        +3.2 pp  [+2.8, +3.6]   10  < 0.001  steal_percent           a

        noise floor: not measured (no block ran one variant twice)
        left out: none of 10 blocks
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact signed-rank 95 % intervals,
          allowing for a look after each stage; adjusted for the number of variants; same = shown to lie
          within +-2 %; n = blocks with both variants
    "#]]);
}

#[test]
fn the_verdicts_on_five_variants_in_a_narrow_mail() {
    check(&oddities(), Layout::Verdicts, NARROW_MAIL, expect![[r#"
        variants    base (baseline)
                    a: sysctl vm.dirty_ratio=5
                    b: mount -o nobarrier
                    c: mode=try
                    d: mode=try, sysctl kernel.numa_balancing=0
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order, until
                    decided
        again       knee compare last --layout verdicts

        create_files, processes, 1 s, /mnt/scratch
        operations_per_s (1/s, higher is better), mean +- standard deviation of
          runs
        CPUs     base        a  change  95 % interval   n  verdict
           8  310 000  322 000   +3.9%  [+2.4, +5.3]   10  faster, >= 2 %

        CPUs     base        b  change  95 % interval   n  verdict
           8  310 000  310 000   -0.1%  [-1.2, +1.0]   10  same

        CPUs     base        c  change  95 % interval  n  verdict
           8  310 000  333 000  +7.40%  -              2  no verdict

        CPUs     base  d  change  95 % interval  n  verdict
           8  310 000  -       -  -              0  no verdict
        (too narrow for standard deviations; the layout mean-stddev has them)
        no verdict, `c`: 2 of 10 blocks are whole; a verdict needs 4 blocks
        no verdict, `d`: no run finished; a verdict needs 4 blocks
        failed, and not counted: 8 runs of `c`, 10 runs of `d`

        also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 4 tested
         change  95 % interval   n   adj. p  metric                  where
          +12.0  [+9.5, +14.0]  10  < 0.001  time.major_page_faults  a
        +3.2 pp  [+2.8, +3.6]   10  < 0.001  steal_percent           a

        noise floor: not measured (no block ran one variant twice)
        left out: none of 10 blocks
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact
          signed-rank 95 % intervals, allowing for a look after each stage;
          adjusted for the number of variants; same = shown to lie within +-2 %;
          n = blocks with both variants
    "#]]);
}

#[test]
fn long_names_get_letters() {
    check(&locks(), Layout::Verdicts, MAIL, expect![[r#"
        variants    A = 3.10.0-rc4-00034-g042dd60 (baseline): on opteron, 3.10.0-rc4-00034-g042dd60; record
                    20261120-115530-7f3a9c
                    B = 3.10.0-rc4-00049-ge0b71e1: on opteron, 3.10.0-rc4-00049-ge0b71e1; record
                    20261120-160212-90be11
        design      the variants were measured apart: whatever else changed between their runs counts as a
                    difference
        again       knee compare last --layout verdicts

        posix_lock_shared, processes, 10000 operations per task, /dev/shm
        task_time_s (s, lower is better), mean +- standard deviation of runs
        CPUs  tasks              A              B   change  95 % interval       n  verdict
          32    128  30 890 +- 270  25 500 +- 340  -17.43%  [-17.69, -17.18]  100  faster, >= 2 %

        flock_own, processes, 20000 operations per task, /dev/shm
        task_time_s (s, lower is better), mean +- standard deviation of runs
        CPUs  tasks           A             B    change  95 % interval         n  verdict
          32    128  1350 +- 40  8.48 +- 0.35  -99.371%  [-99.376, -99.366]  100  faster, >= 2 %

        posix_lock_shared, processes, 10000 operations per task, /dev/shm, each operation timed
        no run has task_time_s, which decides

        also changed (exploratory, Benjamini-Hochberg q = 0.05): 4 of 4 tested
          change  95 % interval         n   adj. p  metric
         -17.30%  [-17.60, -17.00]    100  < 0.001  wall_s
        -99.340%  [-99.350, -99.320]  100  < 0.001  wall_s
         -17.40%  [-17.70, -17.10]    100  < 0.001  latency.mean_ns
          +14.5%  [+12.9, +16.1]      100  < 0.001  latency.stddev_ns

        noise floor: not measured (no block ran one variant twice)
        left out: none of 0 blocks
        how: change = Hodges-Lehmann estimate of log ratios between runs of the two sides; exact rank-sum 95
          % intervals; same = shown to lie within +-2 %; n = runs of the smaller side
    "#]]);
}

#[test]
fn the_bot_s_table_of_three_commits() {
    check(&attributes(), Layout::Lkp, MAIL, expect![[r#"
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order, until decided
        again       knee compare last --layout verdicts

        ====================================================================================================
        workload/tasks:
          stress-ng xattr/16
          60 s

        variant:
          busy-extents (baseline): xfs: convert CIL busy extents to per-cpu
          order-ids: xfs: Add order IDs to log items in CIL
          per-cpu-lists: xfs: convert CIL to unordered per cpu lists

        busy-extents     order-ids
        ---------------- ---------------------------
                 %stddev     %change         %stddev
                     \          |                \
              1544 +- 4%      +54.5%      2385        stress-ng.xattr.ops
             62.07             +0.0%     62.09        stress-ng.time.elapsed_time
             62.07             +0.0%     62.09        stress-ng.time.elapsed_time.max
              2237             +0.0%      2237        stress-ng.time.file_system_inputs
              1842 +- 4%      +16.8%      2152 +- 3%  stress-ng.time.involuntary_context_switches
            551.00             -0.3%    549.10        stress-ng.time.major_page_faults
              6376             -1.1%      6305 +- 2%  stress-ng.time.maximum_resident_set_size
              9704             -0.3%      9676        stress-ng.time.minor_page_faults
              4096             +0.0%      4096        stress-ng.time.page_size
            841.90            -20.2     821.70        stress-ng.time.percent_of_cpu_this_job_got
            512.83             -3.4%    495.24        stress-ng.time.system_time
             10.05 +- 8%      +52.2%     15.30 +- 3%  stress-ng.time.user_time
              2325 +-16%      +66.6%      3873 +- 7%  stress-ng.time.voluntary_context_switches

        order-ids
        95 % interval         n
        [+52.1, +56.9]% *    10  stress-ng.xattr.ops
        [+0.006, +0.058]% *  10  stress-ng.time.elapsed_time
        [+0.006, +0.058]% *  10  stress-ng.time.elapsed_time.max
        [-0.11, +0.11]%      10  stress-ng.time.file_system_inputs
        [+13.8, +19.8]% *    10  stress-ng.time.involuntary_context_switches
        [-0.64, -0.05]% *    10  stress-ng.time.major_page_faults
        [-2.3, +0.1]%        10  stress-ng.time.maximum_resident_set_size
        [-0.54, -0.04]% *    10  stress-ng.time.minor_page_faults
        [0, 0]%              10  stress-ng.time.page_size
        [-24, -16] *         10  stress-ng.time.percent_of_cpu_this_job_got
        [-4.0, -2.9]% *      10  stress-ng.time.system_time
        [+47, +57]% *        10  stress-ng.time.user_time
        [+56, +78]% *        10  stress-ng.time.voluntary_context_switches

        busy-extents     per-cpu-lists
        ---------------- ---------------------------
                 %stddev     %change         %stddev
                     \          |                \
              1544 +- 4%      +63.9%      2531        stress-ng.xattr.ops
             62.07             -0.0%     62.06        stress-ng.time.elapsed_time
             62.07             -0.0%     62.06        stress-ng.time.elapsed_time.max
              2237             +0.0%      2237        stress-ng.time.file_system_inputs
              1842 +- 4%      +17.6%      2166        stress-ng.time.involuntary_context_switches
            551.00             -0.3%    549.40        stress-ng.time.major_page_faults
              6376             +0.6%      6416        stress-ng.time.maximum_resident_set_size
              9704             -0.1%      9691        stress-ng.time.minor_page_faults
              4096             +0.0%      4096        stress-ng.time.page_size
            841.90            -20.0     821.90        stress-ng.time.percent_of_cpu_this_job_got
            512.83             -3.6%    494.18        stress-ng.time.system_time
             10.05 +- 8%      +61.1%     16.19        stress-ng.time.user_time
              2325 +-16%      +70.4%      3962 +- 6%  stress-ng.time.voluntary_context_switches

        per-cpu-lists
        95 % interval        n
        [+61.5, +66.3]% *   10  stress-ng.xattr.ops
        [-0.042, +0.010]%   10  stress-ng.time.elapsed_time
        [-0.042, +0.010]%   10  stress-ng.time.elapsed_time.max
        [-0.11, +0.11]%     10  stress-ng.time.file_system_inputs
        [+15.3, +19.8]% *   10  stress-ng.time.involuntary_context_switches
        [-0.581, 0.000]% *  10  stress-ng.time.major_page_faults
        [-0.1, +1.4]%       10  stress-ng.time.maximum_resident_set_size
        [-0.38, +0.11]%     10  stress-ng.time.minor_page_faults
        [0, 0]%             10  stress-ng.time.page_size
        [-24, -16] *        10  stress-ng.time.percent_of_cpu_this_job_got
        [-4.2, -3.1]% *     10  stress-ng.time.system_time
        [+57, +66]% *       10  stress-ng.time.user_time
        [+60, +81]% *       10  stress-ng.time.voluntary_context_switches

        order-ids: better, >= 2 %: stress-ng.xattr.ops +54.5% [+52.1, +56.9], n = 10
        per-cpu-lists: better, >= 2 %: stress-ng.xattr.ops +63.9% [+61.5, +66.3], n = 10

        %stddev: sample standard deviation of runs, shown at 2 % of the value or more. %change: estimate as
          told below, else of the means; without a % sign it is the difference, as for percentages and
          against zero. *: adjusted p < 0.05.
        noise floor: equal runs in one block differed by 1.1 % (median of 6 pairs), at most 4.3 %; 2 of 6 by
          more than 2 %
        left out: none of 10 blocks
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact signed-rank 95 % intervals,
          allowing for a look after each stage; adjusted for the number of variants; same = shown to lie
          within +-2 %; n = blocks with both variants
    "#]]);
}

#[test]
fn the_bot_s_table_in_a_narrow_terminal() {
    check(&oddities(), Layout::Lkp, NARROW, expect![[r#"
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order, until
                    decided
        again       knee compare last --layout verdicts

        ========================================================================
        workload/cpus/tasks:
          create_files/8/8
          processes, 1 s, /mnt/scratch

        variant:
          base (baseline)
          a: sysctl vm.dirty_ratio=5
          b: mount -o nobarrier
          c: mode=try
          d: mode=try, sysctl kernel.numa_balancing=0

        base             a
        ---------------- ---------------------------
                 %stddev     %change         %stddev
                     \          |                \
            310000 ±  2%       +3.9%    322000 ±  2%  operations_per_s
              0.00            +12.0      12.00 ± 25%  time.major_page_faults
              0.40 ± 25%       +3.2       3.60 ± 17%  steal_percent

        a
        95 % interval     n
        [+2.4, +5.3]% *  10  operations_per_s
        [+9.5, +14.0] *  10  time.major_page_faults
        [+2.8, +3.6] *   10  steal_percent

        base             b
        ---------------- ---------------------------
                 %stddev     %change         %stddev
                     \          |                \
            310000 ±  2%       -0.1%    309500 ±  2%  operations_per_s
              0.00             +0.0       0.00        time.major_page_faults
              0.40 ± 25%       +0.0       0.40 ± 25%  steal_percent

        b
        95 % interval     n
        [-1.2, +1.0]% *  10  operations_per_s
        [0, 0]           10  time.major_page_faults
        [-0.10, +0.10]   10  steal_percent

        base             c
        ---------------- ---------------------------
                 %stddev     %change         %stddev
                     \          |                \
            310000 ±  2%       +7.4%    333000        operations_per_s
              0.00                -       0.00        time.major_page_faults
              0.40 ± 25%          -          -        steal_percent

        c
        95 % interval  n
        -              2  operations_per_s
        -              0  time.major_page_faults
        -              0  steal_percent

        base             d
        ---------------- ---------------------------
                 %stddev     %change         %stddev
                     \          |                \
            310000 ±  2%          -          -        operations_per_s
              0.00                -          -        time.major_page_faults
              0.40 ± 25%          -          -        steal_percent

        d
        95 % interval  n
        -              0  operations_per_s
        -              0  time.major_page_faults
        -              0  steal_percent

        a: faster, >= 2 %: operations_per_s +3.9% [+2.4, +5.3], n = 10
        b: same: operations_per_s -0.1% [-1.2, +1.0], n = 10
        c: no verdict: operations_per_s +7.40%, n = 2
        d: no verdict: operations_per_s -, n = 0
        no verdict, `c`: 2 of 10 blocks are whole; a verdict needs 4 blocks
        no verdict, `d`: no run finished; a verdict needs 4 blocks
        failed, and not counted: 8 runs of `c`, 10 runs of `d`

        %stddev: sample standard deviation of runs, shown at 2 % of the value or
          more. %change: estimate as told below, else of the means; without a %
          sign it is the difference, as for percentages and against zero. *:
          adjusted p < 0.05.
        noise floor: not measured (no block ran one variant twice)
        left out: none of 10 blocks
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact
          signed-rank 95 % intervals, allowing for a look after each stage;
          adjusted for the number of variants; same = shown to lie within +-2 %;
          n = blocks with both variants
    "#]]);
}

#[test]
fn means_and_deviations_of_locks() {
    check(&locks(), Layout::MeanStddev, MAIL, expect![[r#"
        variants    A = 3.10.0-rc4-00034-g042dd60 (baseline): on opteron, 3.10.0-rc4-00034-g042dd60; record
                    20261120-115530-7f3a9c
                    B = 3.10.0-rc4-00049-ge0b71e1: on opteron, 3.10.0-rc4-00049-ge0b71e1; record
                    20261120-160212-90be11
        design      the variants were measured apart: whatever else changed between their runs counts as a
                    difference
        again       knee compare last --layout verdicts

        posix_lock_shared, processes, 10000 operations per task, /dev/shm, 32 CPUs, 128 tasks
        task_time_s (s): sum over tasks of the time from first operation to stop (lockperf's figure); not
          with idle_ns; decides
                                                                after/
        variant                      mean  std. deviation    n  before  95 % interval     verdict
        ------------------------------------------------------------------------------------------------
        3.10.0-rc4-00034-g042dd60  30 890             270  100
        3.10.0-rc4-00049-ge0b71e1  25 500             340  100  0.8257  [0.8231, 0.8282]  faster, >= 2 %

        wall_s (s): from the release to the last task's stop; exploratory
                                                               after/
        variant                     mean  std. deviation    n  before  95 % interval     adj. p
        ----------------------------------------------------------------------------------------
        3.10.0-rc4-00034-g042dd60  243.2             2.1  100
        3.10.0-rc4-00049-ge0b71e1  201.1             2.7  100  0.8270  [0.8240, 0.8300]  < 0.001

        flock_own, processes, 20000 operations per task, /dev/shm, 32 CPUs, 128 tasks
        task_time_s (s): sum over tasks of the time from first operation to stop (lockperf's figure); not
          with idle_ns; decides
                                                               after/
        variant                    mean  std. deviation    n   before  95 % interval       verdict
        -------------------------------------------------------------------------------------------------
        3.10.0-rc4-00034-g042dd60  1350              40  100
        3.10.0-rc4-00049-ge0b71e1  8.48            0.35  100  0.00629  [0.00624, 0.00634]  faster, >= 2 %

        wall_s (s): from the release to the last task's stop; exploratory
                                                                 after/
        variant                      mean  std. deviation    n   before  95 % interval       adj. p
        --------------------------------------------------------------------------------------------
        3.10.0-rc4-00034-g042dd60   10.71            0.31  100
        3.10.0-rc4-00049-ge0b71e1  0.0712          0.0029  100  0.00660  [0.00650, 0.00680]  < 0.001

        posix_lock_shared, processes, 10000 operations per task, /dev/shm, each operation timed, 32 CPUs,
          128 tasks
        single calls (latency.mean_ns, latency.stddev_ns); exploratory
                                                                 after/
        variant                       mean  std. deviation    n  before  95 % interval     adj. p
        ------------------------------------------------------------------------------------------
        3.10.0-rc4-00034-g042dd60  24.1 ms         1.93 ms  100
        3.10.0-rc4-00049-ge0b71e1  19.9 ms         2.21 ms  100  0.8260  [0.8230, 0.8290]  < 0.001

        noise floor: not measured (no block ran one variant twice)
        left out: none of 0 blocks
        how: change = Hodges-Lehmann estimate of log ratios between runs of the two sides; exact rank-sum 95
          % intervals; same = shown to lie within +-2 %; n = runs of the smaller side
    "#]]);
}

#[test]
fn the_matrix_of_repairs() {
    check(&repairs(), Layout::Matrix, MAIL, expect![[r#"
        variants    3.19 (baseline)
                    4.0-rc1
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order
        again       knee compare last --layout verdicts

        xfs_repair, to its end, 16 CPUs
        wall_s (s, lower is better), mean; after/before
        config                        3.19  4.0-rc1  ratio  95 % interval     n  verdict
        defaults                     8m08s    9m34s  1.176  [1.163, 1.189] t  5  slower, >= 2 %
        ag_stride=-1               4m04.0s  4m38.0s  1.139  [1.126, 1.152] t  5  slower, >= 2 %
        bhash=101073               6m04.0s   17m43s  2.920  [2.907, 2.933] t  5  slower, >= 2 %
        ag_stride=-1,bhash=101073  4m54.0s    9m58s  2.034  [2.021, 2.047] t  5  slower, >= 2 %

        noise floor: not measured (no block ran one variant twice)
        left out: none of 0 blocks
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact signed-rank 95 % intervals;
          t: Student's t, which assumes normality; same = shown to lie within +-2 %; n = blocks with both
          variants
    "#]]);
}

#[test]
fn the_matrix_of_five_variants_in_a_narrow_terminal() {
    check(&oddities(), Layout::Matrix, NARROW, expect![[r#"
        variants    base (baseline)
                    a: sysctl vm.dirty_ratio=5
                    b: mount -o nobarrier
                    c: mode=try
                    d: mode=try, sysctl kernel.numa_balancing=0
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order, until
                    decided
        again       knee compare last --layout verdicts

        [1mcreate_files, processes, 1 s, /mnt/scratch, 8 CPUs[0m
        operations_per_s (1/s, higher is better), mean, and below it: ratio to
          the baseline, its interval, n, verdict
        config     base                     a                     b
        all     310 000               322 000               310 000
                         1.039 [1.024, 1.053]  0.999 [0.988, 1.010]
                         n 10, faster, >= 2 %            n 10, same

        config     base                c                d
        all     310 000          333 000                -
                                  1.07 -              - -
                         n 2, no verdict  n 0, no verdict
        no verdict, `c`: 2 of 10 blocks are whole; a verdict needs 4 blocks
        no verdict, `d`: no run finished; a verdict needs 4 blocks
        failed, and not counted: 8 runs of `c`, 10 runs of `d`

        noise floor: not measured (no block ran one variant twice)
        left out: none of 10 blocks
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact
          signed-rank 95 % intervals, allowing for a look after each stage;
          adjusted for the number of variants; same = shown to lie within +-2 %;
          n = blocks with both variants
    "#]]);
}

#[test]
fn passes_as_fs_mark_prints_them() {
    check(&creation(), Layout::Passes, TERMINAL, expect![[r#"
        variants    ticket (baseline): CONFIG_QUEUED_SPINLOCKS=n
                    qspinlock
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      the variants were measured apart: whatever else changed between their runs counts as a
                    difference
        again       knee compare last --layout verdicts

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

        qspinlock against ticket: slower, >= 2 %: -12% [-19, -4] t, n = 4

        noise floor: not measured (no block ran one variant twice)
        left out: none of 0 blocks
        how: change = Hodges-Lehmann estimate of log ratios between runs of the two sides; exact rank-sum 95
          % intervals; t: Welch's t, which assumes normality; same = shown to lie within +-2 %; n = runs of
          the smaller side

        [1mDoubts[0m
          - imported: knee did not see how the host was meanwhile
    "#]]);
}

#[test]
fn passes_of_another_load_with_blocks_left_out() {
    let mut last = curve();
    last.cells.drain(..4);
    last.curves.clear();
    last.discards.discarded.iter_mut().for_each(|discard| discard.cell = 0);
    check(&last, Layout::Passes, NARROW_MAIL, expect![[r#"
        variants    spin (baseline)
                    mutex: mode=mutex
        host        lab1, 6.18.2
        record      20261120-115530-7f3a9c
        design      blocks with one run of each variant in random order, until
                    decided
        again       knee compare last --layout verdicts

        posix_lock_shared idle_ns=100, processes, 1 s, 16 CPUs

        spin does:
        run  block  operations_per_s  wall_s  operations
          0      0           402 000       1        402k
          2      1           406 020       1        402k
          4      2           410 040       1        402k
          6      3           402 000       1        402k  left out
        operations_per_s mean 402 000 +- 6000 (stddev 1.4 %), n = 6

        mutex does:
        run  block  operations_per_s  wall_s  operations
          1      0           655 000       1        655k
          3      1           661 550       1        655k
          5      2           668 100       1        655k
          7      3           655 000       1        655k  left out
        operations_per_s mean 655 000 +- 9000 (stddev 1.4 %), n = 6

        mutex against spin: faster, >= 2 %: +63% [+51, +75] t, n = 6
        failed, and not counted: 1 run of `mutex`

        noise floor: equal runs in one block differed by 0.6 % (median of 12
          pairs), at most 2.3 %; 1 of 12 by more than 2 %
        left out: 2 of 130 blocks: block 3 (run 7: steal 3.1 % of the CPUs
          used), block 5 (run 11: throttled); caused by `spin` 1, `mutex` 1 (so
          uneven by chance: p = 1.0)
        variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38
          % (128 units, stddev 0.94 %)
        how: change = Hodges-Lehmann estimate of within-block log ratios; exact
          signed-rank 95 % intervals, allowing for a look after each stage; t:
          Student's t, which assumes normality; same = shown to lie within +-2
          %; n = blocks with both variants

        Doubts
          - the frequency governor is 'powersave': knee doctor says how to fix
            it
    "#]]);
}

#[test]
fn a_page_gets_github_tables() {
    check(&curve(), Layout::Markdown, MAIL, expect![[r#"
        - variants
          - spin (baseline)
          - mutex: mode=mutex
        - host: lab1, 6.18.2
        - record: 20261120-115530-7f3a9c
        - design: blocks with one run of each variant in random order, until decided
        - again: `knee compare last --layout verdicts`

        ### posix_lock_shared idle_ns=100, processes, 1 s

        operations_per_s (1/s, higher is better), mean ± standard deviation of runs

        | CPUs | spin | mutex | change | 95 % interval | n | verdict |
        | ---: | ---: | ---: | ---: | :--- | ---: | :--- |
        | 1 | 1 187 000 ± 17 000 | 1 050 000 ± 15 000 | -11.5% | [-12.4, -10.7] | 20 | slower, >= 2 % |
        | 2 | 1 499 000 ± 21 000 | 1 474 000 ± 21 000 | -1.70% | [-2.90, -0.03] | 28 | slower |
        | 4 | 979 000 ± 14 000 | 981 000 ± 14 000 | +0.2% | [-0.8, +1.1] | 14 | same |
        | 8 | 613 000 ±   9000 | 625 000 ±   9000 | +2.0% | [-0.7, +4.6] | 60 | cannot tell |
        | 16 | 402 000 ±   6000 | 655 000 ±   9000 | +63% | [+51, +75] t | 6 | faster, >= 2 % |

        - `mutex` parts from `spin` from 16 CPUs on (simultaneous 95 % band)
        - ahead: `spin` at 1 CPU, no difference shown at 2-8 CPUs, `mutex` at 16 CPUs
        - cannot tell, 8 CPUs: about 14 more blocks would tell
        - failed, and not counted: 1 run of `mutex` (16 CPUs)

        also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 5 tested

        | change | 95 % interval | n | adj. p | metric | where |
        | ---: | :--- | ---: | ---: | :--- | :--- |
        | +12.0 pp | [+10.2, +13.9] | 60 | < 0.001 | idle_percent | 8 CPUs |
        | +12.0 pp | [+10.2, +13.9] | 6 | < 0.001 | idle_percent | 16 CPUs |

        - noise floor: equal runs in one block differed by 0.6 % (median of 12 pairs), at most 2.3 %; 1 of 12 by more than 2 %
        - left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the CPUs used), block 5 at 16 CPUs (run 11: throttled); caused by `spin` 1, `mutex` 1 (so uneven by chance: p = 1.0)
        - variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38 % (128 units, stddev 0.94 %)
        - how: change = Hodges-Lehmann estimate of within-block log ratios; exact signed-rank 95 % intervals, allowing for a look after each stage; t: Student's t, which assumes normality; same = shown to lie within +-2 %; n = blocks with both variants

        **Doubts**

        - the frequency governor is 'powersave': knee doctor says how to fix it
    "#]]);
}

#[test]
fn programs_get_everything() {
    let text = comparison(&creation(), Layout::Json, AGAIN, MAIL);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["cells"][0]["metrics"][0]["contrasts"][0]["method"], "welch");
    assert_eq!(value["cells"][0]["passes"][1][3]["metrics"]["fs_mark.files_per_s"], 300592.0);
}
