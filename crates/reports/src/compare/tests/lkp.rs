//! The layout of the bot.

use expect_test::expect;

use crate::compare::tests::fixtures::attributes;
use crate::compare::tests::*;

#[test]
fn the_bot_s_table_of_three_commits() {
    check(
        &attributes(),
        Layout::Lkp,
        MAIL,
        expect![[r#"
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until decided
            rerun       knee compare last --layout lkp

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
                 62.07             +0.0%     62.06        stress-ng.time.elapsed_time
                 62.07             +0.0%     62.06        stress-ng.time.elapsed_time.max
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

            order-ids: better, >= 2 %: stress-ng.xattr.ops +54.5% [+52.1, +56.9], n=10
            per-cpu-lists: better, >= 2 %: stress-ng.xattr.ops +63.9% [+61.5, +66.3], n=10

            %stddev: sample standard deviation of runs, shown at 2 % of the value or more. %change: from
              differences within blocks ("how", below), so it may differ from the change of the means; without
              a % sign it is a difference, as for percentages and where some run has zero. *: adjusted p < 0.05.
            noise floor: equal runs in one block differed by 1.1 % (median of 6 pairs), at most 4.3 %; 2 of 6 by
              more than 2 %
            left out: none of 10 blocks
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank,
              adjusted for interim looks; adjusted for the number of variants; same = the 90 % interval lies
              within +-2 %; >= 2 % = shown to be that much or more; n = blocks with both variants, up to the
              last look
        "#]],
    );
}

#[test]
fn the_bot_s_table_in_a_narrow_terminal() {
    check(
        &oddities(),
        Layout::Lkp,
        NARROW,
        expect![[r#"
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until
                        decided
            rerun       knee compare last --layout lkp

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
            95 % interval    n
            [-1.2, +1.0]%   10  operations_per_s
            [0, 0]          10  time.major_page_faults
            [-0.10, +0.10]  10  steal_percent

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

            a: faster, >= 2 %: operations_per_s +3.9% [+2.4, +5.3], n=10
            b: same: operations_per_s -0.1% [-1.2, +1.0], n=10
            c: no verdict: operations_per_s +7.4%, n=2
            d: no verdict: operations_per_s -, n=0
            no verdict, `c`: 2 of 10 blocks are whole; a verdict needs 4 blocks
            no verdict, `d`: no run finished; a verdict needs 4 blocks
            failed, and not counted: 8 runs of `c`, 10 runs of `d`

            %stddev: sample standard deviation of runs, shown at 2 % of the value or
              more. %change: from differences within blocks ("how", below), so it
              may differ from the change of the means; without a % sign it is a
              difference, as for percentages and where some run has zero. *:
              adjusted p < 0.05.
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
fn the_bot_s_table_of_three_commits_in_a_narrow_mail() {
    let mut short = attributes();
    short.cells[0].metrics.truncate(6);
    check(
        &short,
        Layout::Lkp,
        NARROW_MAIL,
        expect![[r#"
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until
                        decided
            rerun       knee compare last --layout lkp

            ========================================================================
            workload/tasks:
              stress-ng xattr/16
              60 s

            variant:
              busy-extents (baseline): xfs: convert CIL busy extents to per-cpu
              order-ids: xfs: Add order IDs to log items in CIL
              per-cpu-lists: xfs: convert CIL to unordered per cpu lists

            busy-extents   order-ids
            -------------- ---------------------
                   %stddev %change       %stddev
                       \      |              \
                1544 +- 4%  +54.5%    2385        stress-ng.xattr.ops
               62.07         +0.0%   62.09        stress-ng.time.elapsed_time
               62.07         +0.0%   62.09        stress-ng.time.elapsed_time.max
                2237         +0.0%    2237        stress-ng.time.file_system_inputs
                1842 +- 4%  +16.8%    2152 +- 3%  ..ime.involuntary_context_switches
              551.00         -0.3%  549.10        stress-ng.time.major_page_faults

            order-ids
            95 % interval         n
            [+52.1, +56.9]% *    10  stress-ng.xattr.ops
            [+0.006, +0.058]% *  10  stress-ng.time.elapsed_time
            [+0.006, +0.058]% *  10  stress-ng.time.elapsed_time.max
            [-0.11, +0.11]%      10  stress-ng.time.file_system_inputs
            [+13.8, +19.8]% *    10  ..ime.involuntary_context_switches
            [-0.64, -0.05]% *    10  stress-ng.time.major_page_faults

            busy-extents   per-cpu-lists
            -------------- ---------------------
                   %stddev %change       %stddev
                       \      |              \
                1544 +- 4%  +63.9%    2531        stress-ng.xattr.ops
               62.07         +0.0%   62.06        stress-ng.time.elapsed_time
               62.07         +0.0%   62.06        stress-ng.time.elapsed_time.max
                2237         +0.0%    2237        stress-ng.time.file_system_inputs
                1842 +- 4%  +17.6%    2166        ..ime.involuntary_context_switches
              551.00         -0.3%  549.40        stress-ng.time.major_page_faults

            per-cpu-lists
            95 % interval        n
            [+61.5, +66.3]% *   10  stress-ng.xattr.ops
            [-0.042, +0.010]%   10  stress-ng.time.elapsed_time
            [-0.042, +0.010]%   10  stress-ng.time.elapsed_time.max
            [-0.11, +0.11]%     10  stress-ng.time.file_system_inputs
            [+15.3, +19.8]% *   10  ..ime.involuntary_context_switches
            [-0.581, 0.000]% *  10  stress-ng.time.major_page_faults

            order-ids: better, >= 2 %: stress-ng.xattr.ops +54.5% [+52.1, +56.9],
              n=10
            per-cpu-lists: better, >= 2 %: stress-ng.xattr.ops +63.9% [+61.5,
              +66.3], n=10

            %stddev: sample standard deviation of runs, shown at 2 % of the value or
              more. %change: from differences within blocks ("how", below), so it
              may differ from the change of the means; without a % sign it is a
              difference, as for percentages and where some run has zero. *:
              adjusted p < 0.05.
            noise floor: equal runs in one block differed by 1.1 % (median of 6
              pairs), at most 4.3 %; 2 of 6 by more than 2 %
            left out: none of 10 blocks
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 %
              interval: exact signed-rank, adjusted for interim looks; adjusted for
              the number of variants; same = the 90 % interval lies within +-2 %; >=
              2 % = shown to be that much or more; n = blocks with both variants, up
              to the last look
        "#]],
    );
}
