//! The pages of the sample comparisons, as a terminal, a pipe or a tracker gets them.

use std::path::Path;

use analysis::{Arm, CompareOptions, Comparison, Spread, compare};
use expect_test::{Expect, expect};
use pages::{markdown, terminal};
use text::Style;

use crate::fixtures::{attributes, creation, curve, fleet, locks, oddities, repairs};

#[path = "../../reports/src/compare/tests/fixtures.rs"]
mod fixtures;

const AGAIN: &str = "knee compare last";
const PIPE: Style = Style { width: 100, terminal: false, color: false };
const NARROW_PIPE: Style = Style { width: 72, terminal: false, color: false };
const TERMINAL: Style = Style { width: 100, terminal: true, color: true };
const NARROW: Style = Style { width: 72, terminal: true, color: true };

fn text(sample: &Comparison, style: Style) -> String {
    host::terminal::shown(&terminal(&pages::comparison(sample, &[], AGAIN), style))
}

fn check(sample: &Comparison, style: Style, expected: Expect) {
    expected.assert_eq(&text(sample, style));
}

/// A line without the codes for bold and colours.
fn without_codes(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[test]
fn pages_stay_within_the_width_and_say_how_they_came_about() {
    let samples = [attributes(), creation(), curve(), locks(), oddities(), repairs(), fleet()];
    for (index, sample) in samples.iter().enumerate() {
        for style in [PIPE, NARROW_PIPE, TERMINAL, NARROW] {
            let text = text(sample, style);
            let which = format!("sample {index}, {style:?}");
            for line in text.lines() {
                assert_eq!(line, line.trim_end(), "{which}");
                let plain = without_codes(line);
                assert!(plain.chars().count() <= style.width, "{which}: {plain}");
            }
            assert!(style.terminal || text.is_ascii(), "{which}: {text}");
            assert!(text.contains("rerun       knee compare"), "{which}");
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("95 % interval"), "{which}");
            assert!(words.contains("how: change = "), "{which}");
        }
    }
}

#[test]
fn odd_comparisons_have_a_page() {
    let mut none = curve();
    none.cells.clear();
    none.curves.clear();
    none.discards.discarded.clear();
    let mut odd = oddities();
    let cell = &mut odd.cells[0];
    cell.metrics[0].metric = "µ-operations".repeat(9);
    cell.metrics[0].sides[1] = Spread::from_values(&[-3e15]);
    cell.metrics[1].contrasts[0].interval = Some((0.0, 0.0));
    cell.metrics[2].contrasts[0].change = Some(f64::INFINITY);
    let mut metricless = locks();
    metricless.cells.iter_mut().for_each(|cell| cell.metrics.clear());
    for sample in [none, odd, metricless] {
        for style in [NARROW_PIPE, TERMINAL] {
            let text = terminal(&pages::comparison(&sample, &[], ""), style);
            assert!(text.starts_with("Comparison: ") || style.color, "{text}");
            assert!(!text.contains("rerun  "), "{text}");
        }
    }
}

#[test]
fn the_verdicts_on_a_curve() {
    check(
        &curve(),
        PIPE,
        expect![[r#"
            Comparison: spin -> mutex
            Of 5 places, `mutex` is slower in 2, faster in 1, the same in 1 against `spin`; no verdict in 1;
              most with 16 CPUs: +63%, 95 % interval [+51, +75] t, n = 6

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

            Warnings
            - the frequency governor is 'powersave': knee doctor says how to fix it

            noise floor: equal runs in one block differed by 0.6 % (median of 12 pairs), at most 2.3 %; 1 of 12
              by more than 2 %
            left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the CPUs used), block 5 at 16
              CPUs (run 11: throttled); caused by `spin` 1, `mutex` 1 (chance of so uneven a split: p = 1.0)
            variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38 % (128 units, stddev 0.94 %)
            how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank,
              adjusted for interim looks; Student's t where marked t (few runs), which assumes normality; same =
              the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks with both
              variants, up to the last look

            variants    spin (baseline)
                        mutex: mode=mutex
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until decided
            rerun       knee compare last
        "#]],
    );
}

#[test]
fn the_verdicts_on_a_curve_in_a_narrow_terminal() {
    check(
        &curve(),
        NARROW,
        expect![[r#"
            [1mComparison: spin → mutex[0m
            [1mOf 5 places, `mutex` is slower in 2, faster in 1, the same in 1 against
              `spin`; no verdict in 1; most with 16 CPUs: +63%, 95 % interval [+51,
              +75] t, n = 6[0m

            [1mposix_lock_shared idle_ns=100, processes, 1 s[0m
                       operations/s
                1.5M │       [2m·[0m      [36m──[0m✱[36m─[0m
                     │     [2m··[0m  [36m─────[0m[33m╌[0m  [33m╌[0m[36m───[0m
                     │   [2m·[0m[36m─────[0m[33m╌╌╌[0m         [36m────[0m
                     │  [36m●[0m[36m─[0m[33m╌╌╌╌[0m                [33m╌[0m[36m───[0m
                  1M │  [33m▲[0m[33m╌[0m                        [36m───[0m[33m▲[0m
                     │                               [36m●[0m[36m────[0m
                     │                                    [36m────[0m[33m╌[0m
                     │                                        [36m─────[0m     [33m╌╌╌╌╌╌╌╌╌[0m[33m▲[0m
                     │                                             ✱[36m──────[0m
                500k │                                                    [36m───────[0m
                     │                                                           [36m●[0m
                     │
                     │
                   0 │
                     └──┴─────────────┴──────────────┴─────────────┴─────────────┴──
            CPUs        1             2              4             8             16
            idle % ●    1             1              1             1             1
            idle % ▲    13            13             13            13            13
                       [36m●[0m spin   [33m▲[0m mutex   ✱ both   [2m·[0m linear ideal

            operations_per_s (1/s, higher is better), mean
            CPUs       spin      mutex  change  95 % interval    n  verdict
               1  1 187 000  1 050 000  -11.5%  [-12.4, -10.7]  20  slower, >= 2 %
               2  1 499 000  1 474 000  -1.70%  [-2.90, -0.03]  28  slower
               4    979 000    981 000   +0.2%  [-0.8, +1.1]    14  same
               8    613 000    625 000   +2.0%  [-0.7, +4.6]    60  cannot tell
              16    402 000    655 000    +63%  [+51, +75] t     6  faster, >= 2 %
            (no room for standard deviations; --layout mean-stddev shows them)
            `mutex` diverges from `spin` from 16 CPUs on (simultaneous 95 % band)
            ahead, by that band: `spin` at 1 CPU, no difference shown at 2-8 CPUs,
              `mutex` at 16 CPUs
            cannot tell, 8 CPUs: about 14 more blocks would tell
            failed, and not counted: 1 run of `mutex` (16 CPUs)

            also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 5 tested
              change  95 % interval    n   adj. p  metric        where
            +12.0 pp  [+10.2, +13.9]  60  < 0.001  idle_percent  8 CPUs
            +12.0 pp  [+10.2, +13.9]   6  < 0.001  idle_percent  16 CPUs

            [1mWarnings[0m
            - the frequency governor is 'powersave': knee doctor says how to fix it

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

            variants    spin (baseline)
                        mutex: mode=mutex
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until
                        decided
            rerun       knee compare last
        "#]],
    );
}

#[test]
fn the_verdicts_on_five_variants() {
    check(
        &oddities(),
        PIPE,
        expect![[r#"
            Comparison: base -> a, b, c, d
            Of 5 variants, the best first: `a` (+3.9%, faster), `base` (baseline), `b` (-0.1%, same); no verdict
              about `c` (+7.4%, no verdict), `d`; each is compared with `base`, not with its neighbours:
              create_files, processes, 1 s, /mnt/scratch, 8 CPUs

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

            variants    base (baseline)
                        a: sysctl vm.dirty_ratio=5
                        b: mount -o nobarrier
                        c: mode=try
                        d: mode=try, sysctl kernel.numa_balancing=0
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until decided
            rerun       knee compare last
        "#]],
    );
}

#[test]
fn the_verdicts_on_five_variants_in_a_narrow_pipe() {
    check(
        &oddities(),
        NARROW_PIPE,
        expect![[r#"
            Comparison: base -> a, b, c, d
            Of 5 variants, the best first: `a` (+3.9%, faster), `base` (baseline),
              `b` (-0.1%, same); no verdict about `c` (+7.4%, no verdict), `d`; each
              is compared with `base`, not with its neighbours: create_files,
              processes, 1 s, /mnt/scratch, 8 CPUs

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
            (no room for standard deviations; --layout mean-stddev shows them)
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

            variants    base (baseline)
                        a: sysctl vm.dirty_ratio=5
                        b: mount -o nobarrier
                        c: mode=try
                        d: mode=try, sysctl kernel.numa_balancing=0
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order, until
                        decided
            rerun       knee compare last
        "#]],
    );
}

#[test]
fn long_names_get_letters() {
    check(
        &locks(),
        PIPE,
        expect![[r#"
            Comparison: 3.10.0-rc4-00034-g042dd60 -> 3.10.0-rc4-00049-ge0b71e1
            Of 3 places, `3.10.0-rc4-00049-ge0b71e1` is faster in 3 against `3.10.0-rc4-00034-g042dd60`; most
              with flock_own, 20000 operations per task: -99.371%, 95 % interval [-99.376, -99.366], n = 100

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
            (no room for the other standard deviations; --layout mean-stddev shows them)

            also changed (exploratory, Benjamini-Hochberg q = 0.05): 1 of 1 tested
            change  95 % interval     n   adj. p  metric
            +14.5%  [+12.9, +16.1]  100  < 0.001  latency.stddev_ns

            noise floor: not measured (that needs blocks)
            left out: nothing
            how: change = Hodges-Lehmann estimate of log ratios between boots of the two sides; 95 % interval:
              exact rank-sum; same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or
              more; n = boots of the smaller side

            variants    A = 3.10.0-rc4-00034-g042dd60 (baseline): on opteron, 3.10.0-rc4-00034-g042dd60; record
                        20261120-115530-7f3a9c
                        B = 3.10.0-rc4-00049-ge0b71e1: on opteron, 3.10.0-rc4-00049-ge0b71e1; record
                        20261120-160212-90be11
            design      separate boots of each variant, one value a boot
            rerun       knee compare last
        "#]],
    );
}

#[test]
fn nodes_that_stand_out_are_named_below_the_verdicts() {
    check(
        &fleet(),
        NARROW_PIPE,
        expect![[r#"
            Comparison: a -> b
            No verdict about `b` against `a` (cannot tell; +5%, 95 % interval [-1,
              +9], n = 32): getppid, processes, 1 s, 2 CPUs

            getppid, processes, 1 s
            operations_per_s (1/s, higher is better), mean
            CPUs          a          b  change  95 % interval   n  verdict
               2  1 000 000  1 050 000     +5%  [-1, +9]       32  cannot tell
            (no room for standard deviations; --layout mean-stddev shows them)
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

            variants    a (baseline)
                        b: mode=try
            host        lab1, 6.18.2
            record      20261120-115530-7f3a9c
            design      blocks with one run of each variant in random order
            rerun       knee compare last
        "#]],
    );
}

#[test]
fn a_tracker_gets_markdown_tables() {
    expect![[r#"
        ## Comparison: spin → mutex

        **Of 5 places, `mutex` is slower in 2, faster in 1, the same in 1 against `spin`; no verdict in 1; most with 16 CPUs: +63%, 95 % interval [+51, +75] t, n = 6**

        2 worse · 1 better · 1 same · 1 cannot tell

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

        <details><summary>also changed (exploratory, Benjamini-Hochberg q = 0.05): 2 of 5 tested</summary>

        | change | 95 % interval | n | adj. p | metric | where |
        | ---: | :--- | ---: | ---: | :--- | :--- |
        | +12.0 pp | [+10.2, +13.9] | 60 | < 0.001 | idle_percent | 8 CPUs |
        | +12.0 pp | [+10.2, +13.9] | 6 | < 0.001 | idle_percent | 16 CPUs |

        </details>

        **Warnings**

        - the frequency governor is 'powersave': knee doctor says how to fix it

        <details><summary>Method</summary>

        - noise floor: equal runs in one block differed by 0.6 % (median of 12 pairs), at most 2.3 %; 1 of 12 by more than 2 %
        - left out: 2 of 130 blocks: block 3 at 16 CPUs (run 7: steal 3.1 % of the CPUs used), block 5 at 16 CPUs (run 11: throttled); caused by `spin` 1, `mutex` 1 (chance of so uneven a split: p = 1.0)
        - variance of operations_per_s: boot 62 % (5 units, stddev 1.2 %), run 38 % (128 units, stddev 0.94 %)
        - how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank, adjusted for interim looks; Student's t where marked t (few runs), which assumes normality; same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks with both variants, up to the last look

        </details>

        <details><summary>What was measured, and where</summary>

        - variants: spin (baseline)
          - mutex: mode=mutex
        - host: lab1, 6.18.2
        - record: 20261120-115530-7f3a9c
        - design: blocks with one run of each variant in random order, until decided

        </details>

        <details><summary>Do it again</summary>

            knee compare last

        </details>

    "#]].assert_eq(&markdown(&pages::comparison(&curve(), &[], AGAIN)));
}

#[test]
fn the_verdicts_of_a_record() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store");
    let record = store::open(&records.join("tests/golden/v2/20261120-165542-d10222")).unwrap();
    let arms = ["wait", "try"].map(|name| Arm { name, record: &record, variant: name });
    let compared = compare(&arms, &CompareOptions::default()).unwrap();
    let page = pages::comparison(&compared, &[&record], "knee compare wait try");
    expect![[r#"
        Comparison: wait -> try
        `try` is faster than `wait`: +90%, 95 % interval [+50, +140], n = 10, posix_lock_shared, processes,
          0.1 s, /dev/shm/measured, 2 CPUs

        posix_lock_shared, processes, 0.1 s, /dev/shm/measured
        operations_per_s (1/s, higher is better), mean +- standard deviation of runs
        CPUs               wait                   try  change  95 % interval   n  verdict
           2  860 000 +- 70 000  1 700 000 +- 400 000    +90%  [+50, +140]    10  faster, >= 2 %

        also changed (exploratory, Benjamini-Hochberg q = 0.05): 3 of 23 tested
         change  95 % interval      n  adj. p  metric
          -1900  [-3600, -1100]    10  0.0075  time.voluntary_context_switches
          +100%  [+100, +145]      10  0.0075  time.minor_page_faults
        +10.51%  [+10.51, +10.51]  10  0.0075  time.maximum_resident_set_size

        Warnings about runs
        - others used 55 % of the CPUs used (at most, in 20 of 21 runs): knee doctor names them
        - the last task stopped 9 % of the run after its end (in 1 of 21 runs): run longer (--seconds): the
          tail counts with fewer tasks running
        - tasks started one after the other over 2 % of the run (in 1 of 21 runs): run longer (--seconds)

        noise floor: equal runs in one block differed by 12.8 % (median of 1 pair), at most 12.8 %; 1 of 1
          by more than 2 %
        left out: none of 10 blocks
        how: change = Hodges-Lehmann estimate of within-block log ratios; 95 % interval: exact signed-rank;
          same = the 90 % interval lies within +-2 %; >= 2 % = shown to be that much or more; n = blocks
          with both variants

        variants    wait (baseline)
                    try: mode=try
        design      blocks with one run of each variant in random order
        record      20261120-165542-d10222, whole: 21 runs
        experiment  posix_lock_shared
        started     2026-11-20 16:55:42 UTC, by knee 0.1.0
        host        vm, a guest of KVM
        kernel      6.18.44-fc-v657
        CPUs        2 (2 cores, 1 node), AMD EPYC
        directory   /dev/shm/measured: tmpfs (rw,relatime,size=24684092k)
        runs        10 blocks of 2 points, 0.1 s a run, placement cores, seed 11
        rerun       knee compare wait try
        rerun       knee run posix_lock_shared --cpus 2 --variant wait= --variant try=mode=try --seconds 0.1 --blocks 10 --seed 11 --dir /dev/shm/measured
    "#]].assert_eq(&terminal(&page, PIPE));
}
