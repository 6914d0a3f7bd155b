//! Every layout of a comparison that was measured: the golden record of format 2.

use std::path::Path;

use analysis::{Arm, CompareOptions, compare};
use expect_test::{Expect, expect};

use crate::compare::tests::*;

fn check(layout: Layout, expected: Expect) {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store");
    let record = store::open(&records.join("tests/golden/v2/20261120-165542-d10222")).unwrap();
    let arms = ["wait", "try"].map(|name| Arm { name, record: &record, variant: name });
    let said = compare(&arms, &CompareOptions::default()).unwrap();
    let text = comparison(&said, layout, "knee compare wait try", MAIL);
    expected.assert_eq(&text);
}

#[test]
fn the_bot_s_table_of_what_was_measured() {
    check(
        Layout::Lkp,
        expect![[r#"
            host        vm, 6.18.44-fc-v657
            record      20261120-165542-d10222
            design      blocks with one run of each variant in random order
            rerun       knee compare wait try

            ====================================================================================================
            workload/cpus/tasks:
              posix_lock_shared/2/2
              processes, 0.1 s, /dev/shm/measured

            variant:
              wait (baseline)
              try: mode=try

            wait             try
            ---------------- ---------------------------
                     %stddev     %change         %stddev
                         \          |                \
                858968 +- 9%      +90.0%   1692009 +-21%  operations_per_s
                  0.01 +-107%       +0.0       0.01 +-61%  time.user_time
                  0.10 +-18%      +12.4%      0.11 +-20%  time.system_time
                  0.10             +1.0%      0.10 +- 3%  time.elapsed_time
                110.23 +-11%       +5.9     121.14 +-20%  time.percent_of_cpu_this_job_got
                  2143 +-84%    -1943.0       0.20 +-211%  time.voluntary_context_switches
                 46.00 +-69%      +64.2%     80.60 +-104%  time.involuntary_context_switches
                  2.00           +100.0%      4.30 +-16%  time.minor_page_faults
                  0.00             +0.0       0.00        time.major_page_faults
                  1256            +10.5%      1388        time.maximum_resident_set_size
                  0.00             +0.0       0.00        time.file_system_inputs
                  0.00             +0.0       0.00        time.file_system_outputs
                 86644 +- 9%      +93.6%    172730 +-19%  operations
                 21568 +-70%     +244.4%     59848 +-40%  task_operations_min
                 65076 +-27%      +72.6%    112882 +-25%  task_operations_max

            try
            95 % interval         n
            [+50, +140]% *       10  operations_per_s
            [-0.014, +0.010]     10  time.user_time
            [-1, +32]%           10  time.system_time
            [-0.1, +4.4]%        10  time.elapsed_time
            [-2, +34]            10  time.percent_of_cpu_this_job_got
            [-3600, -1100] *     10  time.voluntary_context_switches
            [+10, +140]%         10  time.involuntary_context_switches
            [+100, +145]% *      10  time.minor_page_faults
            [0, 0]               10  time.major_page_faults
            [+10.51, +10.51]% *  10  time.maximum_resident_set_size
            [0, 0]               10  time.file_system_inputs
            [0, 0]               10  time.file_system_outputs
            [+60, +140]% *       10  operations
            [+130, +410]% *      10  task_operations_min
            [+40, +110]% *       10  task_operations_max

            try: faster, >= 2 %: operations_per_s +90% [+50, +140], n=10

            %stddev: sample standard deviation of runs, shown at 2 % of the value or more. %change: from
              differences within blocks ("how", below), so it may differ from the change of the means; without
              a % sign it is a difference, as for percentages and where some run has zero. *: adjusted p < 0.05.
            noise floor: equal runs in one block differed by 12.8 % (median of 1 pair), at most 12.8 %; 1 of 1
              by more than 2 %
            left out: none of 10 blocks
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank;
              same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks
              with both variants
        "#]],
    );
}

#[test]
fn means_and_deviations_of_what_was_measured() {
    check(
        Layout::MeanStddev,
        expect![[r#"
            variants    wait (baseline)
                        try: mode=try
            host        vm, 6.18.44-fc-v657
            record      20261120-165542-d10222
            design      blocks with one run of each variant in random order
            rerun       knee compare wait try

            posix_lock_shared, processes, 0.1 s, /dev/shm/measured, 2 CPUs
            operations_per_s (1/s): operations of all tasks over wall time from the release to the last stop;
              decides
                                                    after/
            variant       mean  std. deviation   n  before  95 % interval  verdict
            -----------------------------------------------------------------------------
            wait       860 000          70 000  10
            try      1 700 000         400 000  10     1.9  [1.5, 2.4]     faster, >= 2 %

            task_time_s (s): sum over tasks of the time from first operation to stop (lockperf's figure); not
              with idle_ns; exploratory
                                                 after/
            variant    mean  std. deviation   n  before  95 % interval   adjusted
            ---------------------------------------------------------------------
            wait     0.2010          0.0010  10
            try       0.202           0.004  10   1.004  [0.995, 1.022]  p = 0.40

            wall_s (s): from the release to the last task's stop; of a command, from its start to its end;
              exploratory
                                                 after/
            variant    mean  std. deviation   n  before  95 % interval   adjusted
            ---------------------------------------------------------------------
            wait     0.1008          0.0008  10
            try      0.1025          0.0031  10   1.010  [0.999, 1.044]  p = 0.19

            noise floor: equal runs in one block differed by 12.8 % (median of 1 pair), at most 12.8 %; 1 of 1
              by more than 2 %
            left out: none of 10 blocks
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank;
              same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks
              with both variants
        "#]],
    );
}

#[test]
fn a_matrix_of_what_was_measured() {
    check(
        Layout::Matrix,
        expect![[r#"
            variants    wait (baseline)
                        try: mode=try
            host        vm, 6.18.44-fc-v657
            record      20261120-165542-d10222
            design      blocks with one run of each variant in random order
            rerun       knee compare wait try

            posix_lock_shared, processes, 0.1 s, /dev/shm/measured, 2 CPUs
            operations_per_s (1/s, higher is better), mean; ratio = after/before
            config     wait        try  ratio  95 % interval   n  verdict
            all     860 000  1 700 000    1.9  [1.5, 2.4]     10  faster, >= 2 %

            noise floor: equal runs in one block differed by 12.8 % (median of 1 pair), at most 12.8 %; 1 of 1
              by more than 2 %
            left out: none of 10 blocks
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank;
              same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks
              with both variants
        "#]],
    );
}

#[test]
fn passes_of_what_was_measured() {
    check(
        Layout::Passes,
        expect![[r#"
            variants    wait (baseline)
                        try: mode=try
            host        vm, 6.18.44-fc-v657
            record      20261120-165542-d10222
            design      blocks with one run of each variant in random order
            rerun       knee compare wait try

            posix_lock_shared, processes, 0.1 s, /dev/shm/measured, 2 CPUs

            wait does:
            run  block  operations_per_s   wall_s  operations  task_time_s  system_time
              0      0           911 070  0.10012      91 217      0.20011     0.098704
              3      1           827 850  0.10004      82 818      0.19988      0.11674
              4      2           898 780  0.10202      91 691      0.20197     0.073527
              6      3           924 090  0.10228      94 520      0.20219     0.080333
              9      4           804 340  0.10013      80 537      0.20017      0.11291
             12      5           935 450  0.10111      94 588      0.20106      0.11762
             14      6           735 000  0.10025      73 686      0.20030      0.11214
             16      7           892 670  0.10111      90 255      0.20206     0.081188
             17      8           914 080  0.10115      92 462      0.20217     0.076038
             19      9           746 360  0.10004      74 663      0.19998     0.097422
            operations_per_s mean 860 000 +- 70 000 (stddev 8.7 %), n = 10

            try does:
            run  block  operations_per_s   wall_s  operations  task_time_s  system_time
              1      0         1 330 400  0.10941     145 560      0.20936     0.095137
              2      1         1 776 000  0.10116     179 660      0.20116      0.12675
              5      2         1 354 700  0.10513     142 420      0.20709     0.098460
              7      3         1 709 800  0.10242     175 120      0.20235      0.10531
              8      4         2 221 600  0.10006     222 310      0.20000      0.12928
             11      5         1 761 700  0.10187     179 470      0.20181      0.10244
             13      6         1 759 900  0.10003     176 040      0.19773      0.10848
             15      7         1 415 000  0.10008     141 610      0.20000     0.087631
             18      8         1 299 000  0.10442     135 650      0.20470     0.086414
             20      9         2 292 000  0.10012     229 470      0.20016      0.15780
            operations_per_s mean 1 700 000 +- 400 000 (stddev 21 %), n = 10

            try against wait: faster, >= 2 %: +90% [+50, +140], n=10

            noise floor: equal runs in one block differed by 12.8 % (median of 1 pair), at most 12.8 %; 1 of 1
              by more than 2 %
            left out: none of 10 blocks
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank;
              same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks
              with both variants
        "#]],
    );
}
