//! The verdicts, in mails, terminals and pages.

use expect_test::expect;

use crate::compare::tests::fixtures::{curve, fleet, locks, oddities};
use crate::compare::tests::*;

#[test]
fn the_verdicts_on_a_curve() {
    check(
        &curve(),
        Layout::Verdicts,
        MAIL,
        expect![[r#"
            variants    spin (baseline)
                        mutex: mode=mutex
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until decided
            rerun       knee compare last --layout verdicts

            posix_lock_shared idle_ns=100, processes, 1 s
            operations_per_s (1/s, higher is better), mean +- standard deviation of runs
            CPUs                 spin                mutex  change  95 % interval    n  verdict
               1  1 187 000 +- 17 000  1 050 000 +- 15 000  -11.5%  [-12.4, -10.7]  20  slower, >= 2 %
               2  1 499 000 +- 21 000  1 474 000 +- 21 000  -1.70%  [-2.90, -0.03]  28  slower
               4    979 000 +- 14 000    981 000 +- 14 000   +0.2%  [-0.8, +1.1]    14  same
               8    613 000 +-   9000    625 000 +-   9000   +2.0%  [-0.7, +4.6]    60  cannot tell
              16    402 000 +-   6000    655 000 +-   9000    +63%  [+51, +75] t     6  faster, >= 2 %
            `mutex` diverges from `spin` from 16 CPUs on (simultaneous 95 % band)
            ahead, by that band: `spin` at 1 CPU, no difference shown at 2-8 CPUs, `mutex` at 16 CPUs
            cannot tell, 8 CPUs: about 14 more blocks would tell
            failed, and not counted: 1 run of `mutex` (16 CPUs)
            also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 5 tested
              change  95 % interval    n   adj. p  metric        where
            +12.0 pp  [+10.2, +13.9]  60  < 0.001  idle_percent  8 CPUs
            +12.0 pp  [+10.2, +13.9]   6  < 0.001  idle_percent  16 CPUs

            noise floor: equal runs in one block differed by 0.6 % (median of 12 pairs), at most 2.3 %; 1 of 12
              by more than 2 %
            left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the CPUs used), block 5 at 16
              CPUs (run 11: throttled); caused by `spin` 1, `mutex` 1 (chance of so uneven a split: p = 1.0)
            variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38 % (128 units, stddev 0.94 %)
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank,
              adjusted for interim looks; Student's t where marked t (few runs), which assumes normality; same =
              the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks with both
              variants, up to the last look

            Doubts
              - the frequency governor is 'powersave': knee doctor says how to fix it
        "#]],
    );
}

#[test]
fn the_verdicts_on_a_curve_in_a_narrow_terminal() {
    check(
        &curve(),
        Layout::Verdicts,
        NARROW,
        expect![[r#"
            variants    spin (baseline)
                        mutex: mode=mutex
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until
                        decided
            rerun       knee compare last --layout verdicts

            [1mposix_lock_shared idle_ns=100, processes, 1 s[0m
            operations_per_s (1/s, higher is better), mean
            CPUs       spin      mutex  change  95 % interval    n  verdict
               1  1 187 000  1 050 000  -11.5%  [-12.4, -10.7]  20  slower, >= 2 %
               2  1 499 000  1 474 000  -1.70%  [-2.90, -0.03]  28  slower
               4    979 000    981 000   +0.2%  [-0.8, +1.1]    14  same
               8    613 000    625 000   +2.0%  [-0.7, +4.6]    60  cannot tell
              16    402 000    655 000    +63%  [+51, +75] t     6  faster, >= 2 %
            (no room for standard deviations; layout mean-stddev shows them)
            `mutex` diverges from `spin` from 16 CPUs on (simultaneous 95 % band)
            ahead, by that band: `spin` at 1 CPU, no difference shown at 2-8 CPUs,
              `mutex` at 16 CPUs
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
              1, `mutex` 1 (chance of so uneven a split: p = 1.0)
            variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run
              38 % (128 units, stddev 0.94 %)
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 %
              interval: exact signed-rank, adjusted for interim looks; Student's t
              where marked t (few runs), which assumes normality; same = the 90 %
              interval lies within +-2 %; >= 2 % = shown to be that much or more; n
              = blocks with both variants, up to the last look

            [1mDoubts[0m
              - the frequency governor is 'powersave': knee doctor says how to fix
                it
        "#]],
    );
}

#[test]
fn the_verdicts_on_five_variants() {
    check(
        &oddities(),
        Layout::Verdicts,
        MAIL,
        expect![[r#"
            variants    base (baseline)
                        a: sysctl vm.dirty_ratio=5
                        b: mount -o nobarrier
                        c: mode=try
                        d: mode=try, sysctl kernel.numa_balancing=0
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until decided
            rerun       knee compare last --layout verdicts

            create_files, processes, 1 s, /mnt/scratch
            operations_per_s (1/s, higher is better), mean +- standard deviation of runs
            CPUs  variant             base            value  change  95 % interval   n  verdict
               8  a        310 000 +- 6000  322 000 +- 6000   +3.9%  [+2.4, +5.3]   10  faster, >= 2 %
               8  b        310 000 +- 6000  310 000 +- 6000   -0.1%  [-1.2, +1.0]   10  same
               8  c        310 000 +- 6000  333 000 +- 4000   +7.4%  -               2  no verdict
               8  d        310 000 +- 6000        -               -  -               0  no verdict
            no verdict, `c`: 2 of 10 blocks are whole; a verdict needs 4 blocks
            no verdict, `d`: no run finished; a verdict needs 4 blocks
            failed, and not counted: 8 runs of `c`, 10 runs of `d`
            also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 4 tested
             change  95 % interval   n   adj. p  metric                  where
              +12.0  [+9.5, +14.0]  10  < 0.001  time.major_page_faults  a
            +3.2 pp  [+2.8, +3.6]   10  < 0.001  steal_percent           a

            noise floor: not measured (no counted block ran one variant twice)
            left out: none of 10 blocks
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank,
              adjusted for interim looks; adjusted for the number of variants; same = the 90 % interval lies
              within +-2 %; >= 2 % = shown to be that much or more; n = blocks with both variants, up to the
              last look
        "#]],
    );
}

#[test]
fn the_verdicts_on_five_variants_in_a_narrow_mail() {
    check(
        &oddities(),
        Layout::Verdicts,
        NARROW_MAIL,
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
            rerun       knee compare last --layout verdicts

            create_files, processes, 1 s, /mnt/scratch
            operations_per_s (1/s, higher is better), mean
            CPUs     base        a  change  95 % interval   n  verdict
               8  310 000  322 000   +3.9%  [+2.4, +5.3]   10  faster, >= 2 %

            CPUs     base        b  change  95 % interval   n  verdict
               8  310 000  310 000   -0.1%  [-1.2, +1.0]   10  same

            CPUs     base        c  change  95 % interval  n  verdict
               8  310 000  333 000   +7.4%  -              2  no verdict

            CPUs     base  d  change  95 % interval  n  verdict
               8  310 000  -       -  -              0  no verdict
            (no room for standard deviations; layout mean-stddev shows them)
            no verdict, `c`: 2 of 10 blocks are whole; a verdict needs 4 blocks
            no verdict, `d`: no run finished; a verdict needs 4 blocks
            failed, and not counted: 8 runs of `c`, 10 runs of `d`
            also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 4 tested
             change  95 % interval   n   adj. p  metric                  where
              +12.0  [+9.5, +14.0]  10  < 0.001  time.major_page_faults  a
            +3.2 pp  [+2.8, +3.6]   10  < 0.001  steal_percent           a

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
fn long_names_get_letters() {
    check(
        &locks(),
        Layout::Verdicts,
        MAIL,
        expect![[r#"
            variants    A = 3.10.0-rc4-00034-g042dd60 (baseline): on opteron, 3.10.0-rc4-00034-g042dd60; record
                        20261120-115530-7f3a9c
                        B = 3.10.0-rc4-00049-ge0b71e1: on opteron, 3.10.0-rc4-00049-ge0b71e1; record
                        20261120-160212-90be11
            design      separate boots of each variant, one value a boot
            rerun       knee compare last --layout verdicts

            posix_lock_shared, processes, 10000 operations per task, /dev/shm
            task_time_s (s, lower is better), mean +- standard deviation of runs
            CPUs  tasks              A              B   change  95 % interval       n  verdict
              32    128  30 890 +- 270  25 500 +- 340  -17.43%  [-17.69, -17.18]  100  faster, >= 2 %
            also changed (exploratory, Benjamini-Hochberg q = 0.05): 1 of 1 tested
             change  95 % interval       n   adj. p  metric
            -17.30%  [-17.60, -17.00]  100  < 0.001  wall_s

            flock_own, processes, 20000 operations per task, /dev/shm
            task_time_s (s, lower is better), mean +- standard deviation of runs
            CPUs  tasks           A             B    change  95 % interval         n  verdict
              32    128  1350 +- 40  8.48 +- 0.35  -99.371%  [-99.376, -99.366]  100  faster, >= 2 %
            also changed (exploratory, Benjamini-Hochberg q = 0.05): 1 of 1 tested
              change  95 % interval         n   adj. p  metric
            -99.340%  [-99.350, -99.320]  100  < 0.001  wall_s

            posix_lock_shared, processes, 10000 operations per task, /dev/shm, each operation timed
            latency.mean_ns (ns, lower is better), mean +- standard deviation of runs
            CPUs  tasks                      A           B   change  95 % interval       n  verdict
              32    128  24 130 000 +- 210 000  19 920 000  -17.40%  [-17.70, -17.10]  100  faster, >= 2 %
            (no room for the other standard deviations; layout mean-stddev shows them)
            also changed (exploratory, Benjamini-Hochberg q = 0.05): 1 of 1 tested
            change  95 % interval     n   adj. p  metric
            +14.5%  [+12.9, +16.1]  100  < 0.001  latency.stddev_ns

            noise floor: not measured (that needs blocks)
            left out: nothing
            how: change = Hodges-Lehmann estimate of log ratios between boots of the two sides; 95 % interval:
              exact rank-sum; same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or
              more; n = boots of the smaller side
        "#]],
    );
}

#[test]
fn a_page_gets_github_tables() {
    check(
        &curve(),
        Layout::Markdown,
        MAIL,
        expect![[r#"
            - variants
              - spin (baseline)
              - mutex: mode=mutex
            - host: lab1, 6.18.2
            - record: 20261120-115530-7f3a9c
            - design: blocks with one run of each variant in random order, until decided
            - rerun: `knee compare last --layout verdicts`

            ### posix_lock_shared idle_ns=100, processes, 1 s

            operations_per_s (1/s, higher is better), mean ± standard deviation of runs

            | CPUs | spin | mutex | change | 95 % interval | n | verdict |
            | ---: | ---: | ---: | ---: | :--- | ---: | :--- |
            | 1 | 1 187 000 ± 17 000 | 1 050 000 ± 15 000 | -11.5% | [-12.4, -10.7] | 20 | slower, >= 2 % |
            | 2 | 1 499 000 ± 21 000 | 1 474 000 ± 21 000 | -1.70% | [-2.90, -0.03] | 28 | slower |
            | 4 | 979 000 ± 14 000 | 981 000 ± 14 000 | +0.2% | [-0.8, +1.1] | 14 | same |
            | 8 | 613 000 ±   9000 | 625 000 ±   9000 | +2.0% | [-0.7, +4.6] | 60 | cannot tell |
            | 16 | 402 000 ±   6000 | 655 000 ±   9000 | +63% | [+51, +75] t | 6 | faster, >= 2 % |

            - `mutex` diverges from `spin` from 16 CPUs on (simultaneous 95 % band)
            - ahead, by that band: `spin` at 1 CPU, no difference shown at 2-8 CPUs, `mutex` at 16 CPUs
            - cannot tell, 8 CPUs: about 14 more blocks would tell
            - failed, and not counted: 1 run of `mutex` (16 CPUs)

            also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 5 tested

            | change | 95 % interval | n | adj. p | metric | where |
            | ---: | :--- | ---: | ---: | :--- | :--- |
            | +12.0 pp | [+10.2, +13.9] | 60 | < 0.001 | idle_percent | 8 CPUs |
            | +12.0 pp | [+10.2, +13.9] | 6 | < 0.001 | idle_percent | 16 CPUs |

            - noise floor: equal runs in one block differed by 0.6 % (median of 12 pairs), at most 2.3 %; 1 of 12 by more than 2 %
            - left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the CPUs used), block 5 at 16 CPUs (run 11: throttled); caused by `spin` 1, `mutex` 1 (chance of so uneven a split: p = 1.0)
            - variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38 % (128 units, stddev 0.94 %)
            - how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank, adjusted for interim looks; Student's t where marked t (few runs), which assumes normality; same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks with both variants, up to the last look

            **Doubts**

            - the frequency governor is 'powersave': knee doctor says how to fix it
        "#]],
    );
}

#[test]
fn nodes_that_stand_out_are_named_below_the_verdicts() {
    check(
        &fleet(),
        Layout::Verdicts,
        NARROW_MAIL,
        expect![[r#"
            variants    a (baseline)
                        b: mode=try
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order
            rerun       knee compare last --layout verdicts

            getppid, processes, 1 s
            operations_per_s (1/s, higher is better), mean
            CPUs          a          b  change  95 % interval   n  verdict
               2  1 000 000  1 050 000     +5%  [-1, +9]       32  cannot tell
            (no room for standard deviations; layout mean-stddev shows them)
            cannot tell: the variant does not do the same on all nodes

            noise floor: not measured (no counted block ran one variant twice)
            left out: nothing
            levels of 8 nodes: -15.2 % (`n2`) to +2.1 % (`n1`) of their mean
            odd node: `n2` is at -17.1 % [-18.3 %, -15.9 %] of the level of the
              other 7; a node like them would lie within +-4.1 % (p = <0.001); its
              blocks count, since variants are compared within a node
            nodes disagree: `b` against `a`: +8.1 % [+7 %, +9.2 %] on `n2` (4
              blocks), -5 % [-5.3 %, -4.7 %] on the other 7 (28 blocks) (p =
              0.0030): so there is no verdict
            equal runs in one block by node: `n2` 3.1 % apart, mean +4 % [+2 %,
              +6 %] (4 pairs): the second run of a block differs there; `n1` 0.4 %
              apart, mean +0.1 % [-0.3 %, +0.5 %] (4 pairs)
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 %
              interval: exact signed-rank; same = the 90 % interval lies within
              +-2 %; >= 2 % = shown to be that much or more; n = blocks with both
              variants
        "#]],
    );
}
