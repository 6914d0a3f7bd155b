//! Comparisons to look at: numbers of well-known reports, and cases that are hard to show.

use std::collections::BTreeMap;

use analysis::*;
use records::{Better, Pass};

/// Variants on one host in one record, in blocks, without cells.
pub fn variants(names: &[(&str, &str)]) -> Comparison {
    let compared = |(name, about): &(&str, &str)| ComparedVariant {
        name: name.to_string(),
        about: about.to_string(),
        record: "20261120-115530-7f3a9c".to_string(),
        host: "lab1, 6.18.2".to_string(),
    };
    Comparison {
        variants: names.iter().map(compared).collect(),
        design: Design::Blocks { sequential: true },
        primary: "operations_per_s".to_string(),
        shown: Vec::new(),
        smallest_effect: 0.02,
        confidence: 0.95,
        cells: Vec::new(),
        curves: Vec::new(),
        noise_floor: None,
        discards: Discards::default(),
        variance: Vec::new(),
        nodes: None,
        warnings: Vec::new(),
    }
}

/// A cell of processes, one a CPU, with these metrics.
pub fn cell(workload: &str, cpus: u32, metrics: Vec<MetricComparison>) -> CellComparison {
    let variants = metrics.first().map_or(0, |metric| metric.sides.len());
    let place = CellKey {
        workload: workload.to_string(),
        parameters: BTreeMap::new(),
        form: "processes".to_string(),
        cpus,
        tasks: cpus,
        placement: "cores".to_string(),
        pass: Pass::Rate,
        dir: String::new(),
        length: "1 s".to_string(),
    };
    CellComparison {
        key: place,
        metrics,
        passes: vec![Vec::new(); variants],
        failed: vec![0; variants],
    }
}

/// n, mean and sample standard deviation.
pub fn spread(n: usize, mean: f64, stddev: f64) -> Option<Spread> {
    let (min, max) = (mean - stddev, mean + stddev);
    Some(Spread { n, mean, stddev: (n > 1).then_some(stddev), min, median: mean, max })
}

pub fn metric(
    name: &str,
    unit: &str,
    better: Better,
    sides: Vec<Option<Spread>>,
    contrasts: Vec<Contrast>,
) -> MetricComparison {
    MetricComparison { metric: name.to_string(), unit: unit.to_string(), better, sides, contrasts }
}

/// A relative change in percent with its interval, by sequential signed ranks.
pub fn changed(n: usize, [change, low, high]: [f64; 3], verdict: Verdict) -> Contrast {
    Contrast {
        n,
        scale: Scale::Relative,
        change: Some(change / 100.0),
        interval: Some((low / 100.0, high / 100.0)),
        method: Method::SignedRankSequential,
        p: Some(if verdict == Verdict::Same { 0.9 } else { 0.0002 }),
        verdict,
        harmless: false,
        modes: None,
        drift: None,
    }
}

pub fn absolute(n: usize, [change, low, high]: [f64; 3], verdict: Verdict) -> Contrast {
    Contrast {
        scale: Scale::Absolute,
        change: Some(change),
        interval: Some((low, high)),
        ..changed(n, [0.0; 3], verdict)
    }
}

pub fn unknown(why: &str, needs: u32) -> Contrast {
    Contrast {
        n: 0,
        scale: Scale::Relative,
        change: None,
        interval: None,
        method: Method::None,
        p: None,
        verdict: Verdict::Unjudged { needs, why: why.to_string() },
        harmless: false,
        modes: None,
        drift: None,
    }
}

pub const BETTER: Verdict = Verdict::Better { at_least: true };
pub const WORSE: Verdict = Verdict::Worse { at_least: true };

pub fn cannot_tell(more: Option<u32>, why: &str) -> Verdict {
    Verdict::CannotTell { more, why: why.to_string() }
}

/// Three commits under an attribute load, with all that time(1) tells.
pub fn attributes() -> Comparison {
    let mut all = variants(&[
        ("busy-extents", "xfs: convert CIL busy extents to per-cpu"),
        ("order-ids", "xfs: Add order IDs to log items in CIL"),
        ("per-cpu-lists", "xfs: convert CIL to unordered per cpu lists"),
    ]);
    all.primary = "stress-ng.xattr.ops".to_string();
    let rows: [(&str, &str, [f64; 3], [f64; 3]); 13] = [
        ("stress-ng.xattr.ops", "1", [1544., 2385., 2531.], [62., 30., 31.]),
        ("stress-ng.time.elapsed_time", "s", [62.07, 62.09, 62.06], [0.02, 0.02, 0.02]),
        ("stress-ng.time.elapsed_time.max", "s", [62.07, 62.09, 62.06], [0.02, 0.02, 0.02]),
        ("stress-ng.time.file_system_inputs", "512 B", [2237., 2237., 2237.], [3., 3., 3.]),
        (
            "stress-ng.time.involuntary_context_switches",
            "1",
            [1842., 2152., 2166.],
            [74., 65., 30.],
        ),
        ("stress-ng.time.major_page_faults", "1", [551., 549.1, 549.4], [2., 2., 2.]),
        (
            "stress-ng.time.maximum_resident_set_size",
            "KiB",
            [6376., 6305., 6416.],
            [60., 130., 60.],
        ),
        ("stress-ng.time.minor_page_faults", "1", [9704., 9676., 9691.], [30., 30., 30.]),
        ("stress-ng.time.page_size", "1", [4096., 4096., 4096.], [0., 0., 0.]),
        ("stress-ng.time.percent_of_cpu_this_job_got", "%", [841.9, 821.7, 821.9], [5., 4., 4.]),
        ("stress-ng.time.system_time", "s", [512.83, 495.24, 494.18], [4., 3., 3.]),
        ("stress-ng.time.user_time", "s", [10.05, 15.3, 16.19], [0.8, 0.46, 0.32]),
        (
            "stress-ng.time.voluntary_context_switches",
            "1",
            [2325., 3873., 3962.],
            [372., 271., 238.],
        ),
    ];
    let row = |(name, unit, means, deviations): (&str, &str, [f64; 3], [f64; 3])| {
        let sides = (0..3).map(|i| spread(10, means[i], deviations[i])).collect();
        let contrast = |i: usize| {
            let ratio = 100.0 * (means[i] / means[0] - 1.0);
            let half = 100.0 * (deviations[0] + deviations[i]) / means[0] / 2.5;
            let p = if ratio.abs() > half { 0.0003 } else { 0.6 };
            let relative = changed(10, [ratio, ratio - half, ratio + half], BETTER);
            let difference = means[i] - means[0];
            let points = absolute(10, [difference, difference - 4., difference + 4.], BETTER);
            Contrast { p: Some(p), ..if unit == "%" { points } else { relative } }
        };
        let better = if name.ends_with("ops") { Better::Higher } else { Better::Neither };
        metric(name, unit, better, sides, vec![contrast(1), contrast(2)])
    };
    let mut attributes = cell("stress-ng xattr", 0, rows.map(row).into());
    attributes.key.tasks = 16;
    attributes.key.form = String::new();
    attributes.key.length = "60 s".to_string();
    all.cells = vec![attributes];
    all.noise_floor = Some(NoiseFloor { pairs: 6, median: 0.011, largest: 0.043, beyond: 2 });
    all.discards.blocks = 10;
    all
}

/// Two kernels with long names under lock loads, a hundred boots of each.
pub fn locks() -> Comparison {
    let mut all = variants(&[("3.10.0-rc4-00034-g042dd60", ""), ("3.10.0-rc4-00049-ge0b71e1", "")]);
    all.variants[0].host = "opteron, 3.10.0-rc4-00034-g042dd60".to_string();
    all.variants[1].host = "opteron, 3.10.0-rc4-00049-ge0b71e1".to_string();
    all.variants[1].record = "20261120-160212-90be11".to_string();
    all.design = Design::Boots;
    all.primary = "task_time_s".to_string();
    let one =
        |name: &str, unit: &str, sides: [(f64, f64); 2], change: [f64; 3], verdict: Verdict| {
            let contrast = Contrast { method: Method::RankSum, ..changed(100, change, verdict) };
            let sides = sides.map(|(mean, stddev)| spread(100, mean, stddev));
            metric(name, unit, Better::Lower, sides.into(), vec![contrast])
        };
    let at = |name: &str, operations: &str, metrics: Vec<MetricComparison>| {
        let mut cell = cell(name, 32, metrics);
        cell.key.tasks = 128;
        cell.key.length = format!("{operations} operations per task");
        cell.key.dir = "/dev/shm".to_string();
        cell
    };
    let posix = [
        one(
            "task_time_s",
            "s",
            [(30889.1603525361, 267.767), (25504.7748, 336.233)],
            [-17.43, -17.69, -17.18],
            BETTER,
        ),
        one("wall_s", "s", [(243.21, 2.1), (201.12, 2.7)], [-17.3, -17.6, -17.0], BETTER),
    ];
    let flock = [
        one(
            "task_time_s",
            "s",
            [(1348.64594, 39.5186), (8.4762987, 0.34712)],
            [-99.371, -99.376, -99.366],
            BETTER,
        ),
        one("wall_s", "s", [(10.71, 0.31), (0.0712, 0.0029)], [-99.34, -99.35, -99.32], BETTER),
    ];
    let calls = [
        one(
            "latency.mean_ns",
            "ns",
            [(24_130_000., 210_000.), (19_920_000., 260_000.)],
            [-17.4, -17.7, -17.1],
            BETTER,
        ),
        one(
            "latency.stddev_ns",
            "ns",
            [(1_930_000., 80_000.), (2_210_000., 90_000.)],
            [14.5, 12.9, 16.1],
            WORSE,
        ),
    ];
    let mut timed = at("posix_lock_shared", "10000", calls.into());
    timed.key.pass = Pass::Latency;
    all.cells = vec![
        at("posix_lock_shared", "10000", posix.into()),
        at("flock_own", "20000", flock.into()),
        timed,
    ];
    all
}

/// A repair tool with four sets of options on two kernels, in minutes.
pub fn repairs() -> Comparison {
    let mut all = variants(&[("3.19", ""), ("4.0-rc1", "")]);
    all.primary = "wall_s".to_string();
    all.design = Design::Blocks { sequential: false };
    let row = |options: &[(&str, &str)], before: f64, after: f64| {
        let change = 100.0 * (after / before - 1.0);
        let contrast = Contrast {
            method: Method::Student,
            ..changed(5, [change, change - 1.3, change + 1.3], WORSE)
        };
        let sides = vec![spread(5, before, before / 400.0), spread(5, after, after / 300.0)];
        let wall = metric("wall_s", "s", Better::Lower, sides, vec![contrast]);
        let mut cell = cell("xfs_repair", 16, vec![wall]);
        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        cell.key.parameters = options.collect();
        cell.key.form = String::new();
        cell.key.length = "to its end".to_string();
        cell
    };
    all.cells = vec![
        row(&[], 488., 574.),
        row(&[("ag_stride", "-1")], 244., 278.),
        row(&[("bhash", "101073")], 364., 1063.),
        row(&[("ag_stride", "-1"), ("bhash", "101073")], 294., 598.),
    ];
    all
}

/// Four passes of fs_mark with each of two locks, not interleaved.
pub fn creation() -> Comparison {
    let mut all = variants(&[("ticket", "CONFIG_QUEUED_SPINLOCKS=n"), ("qspinlock", "")]);
    all.primary = "fs_mark.files_per_s".to_string();
    all.design = Design::Separate;
    let rates =
        [[310419.6, 348346.5, 328098.2, 316765.3], [286491.9, 293229.5, 271182.4, 300592.0]];
    let overheads =
        [[3343821., 4721133., 3235753., 3238971.], [3500179., 3963140., 3708212., 3595722.]];
    let pass = |side: usize, i: usize| RunValues {
        run: (side * 4 + i) as u32,
        block: i as u32,
        discarded: false,
        metrics: [
            ("fs_mark.file_system_used_percent", 0.0),
            ("fs_mark.files", 6_400_000.0 + 800_000.0 * i as f64),
            ("fs_mark.size", 0.0),
            ("fs_mark.files_per_s", rates[side][i]),
            ("fs_mark.app_overhead_us", overheads[side][i]),
        ]
        .into_iter()
        .collect(),
    };
    let contrast = Contrast {
        method: Method::Welch,
        p: None,
        drift: Some(HostDrift { records: 6, pairs: 15, as_far: 4, median: 0.062 }),
        ..changed(4, [-11.7, -19.2, -4.1], Verdict::NotInterleaved)
    };
    let sides = rates.map(|side| Spread::from_values(&side)).into();
    let files = metric("fs_mark.files_per_s", "1/s", Better::Higher, sides, vec![contrast]);
    let mut cell = cell("fs_mark", 120, vec![files]);
    cell.passes = (0..2).map(|side| (0..4).map(|i| pass(side, i)).collect()).collect();
    cell.key.tasks = 16;
    cell.key.length = "50000 operations per task".to_string();
    cell.key.dir = "/mnt/scratch".to_string();
    all.cells = vec![cell];
    all.warnings = vec!["imported: knee did not see how the host was meanwhile".to_string()];
    all
}

/// CPUs, rates before and after, and how they differ.
fn curve_rows() -> [(u32, f64, f64, Contrast); 5] {
    [
        (1, 1_187_000., 1_050_000., changed(20, [-11.5, -12.4, -10.7], WORSE)),
        (
            2,
            1_499_000.,
            1_474_000.,
            changed(28, [-1.7, -2.9, -0.03], Verdict::Worse { at_least: false }),
        ),
        (4, 979_000., 981_000., changed(14, [0.2, -0.8, 1.1], Verdict::Same)),
        (8, 613_000., 625_000., changed(60, [2.0, -0.7, 4.6], cannot_tell(Some(14), ""))),
        (
            16,
            402_000.,
            655_000.,
            Contrast { method: Method::Student, ..changed(6, [62.9, 51., 75.], BETTER) },
        ),
    ]
}

/// A point of the curve: its rate, its idle time, and its runs.
fn curve_cell((cpus, before, after, contrast): (u32, f64, f64, Contrast)) -> CellComparison {
    let n = contrast.n;
    let of = |mean: f64| spread(n, mean, mean / 70.0);
    let rate = metric(
        "operations_per_s",
        "1/s",
        Better::Higher,
        vec![of(before), of(after)],
        vec![contrast],
    );
    let p = if cpus > 4 { 0.0004 } else { 0.3 };
    let idle = Contrast {
        p: Some(p),
        ..absolute(n, [12.0, 10.2, 13.9], Verdict::More { at_least: true })
    };
    let idle = metric(
        "idle_percent",
        "%",
        Better::Neither,
        vec![spread(n, 1.2, 0.4), spread(n, 13.2, 2.0)],
        vec![idle],
    );
    let runs = |side: u32, mean: f64| {
        let run = |block: u32| RunValues {
            run: 2 * block + side,
            block,
            discarded: cpus == 16 && block == 3,
            metrics: [
                ("operations_per_s", mean * (1.0 + 0.01 * f64::from(block % 3))),
                ("wall_s", 1.0002),
                ("operations", mean * 1.0002),
            ]
            .into_iter()
            .collect(),
        };
        (0..4).map(run).collect::<Vec<_>>()
    };
    let mut cell = cell("posix_lock_shared", cpus, vec![rate, idle]);
    cell.key.parameters = BTreeMap::from([("idle_ns".to_string(), "100".to_string())]);
    cell.passes = vec![runs(0, before), runs(1, after)];
    cell
}

/// Two forms of a lock on 1 to 16 CPUs, with every verdict and everything below the tables.
pub fn curve() -> Comparison {
    let mut all = variants(&[("spin", ""), ("mutex", "mode=mutex")]);
    all.cells = curve_rows().map(curve_cell).into();
    all.cells[4].failed = vec![0, 1];
    let bands = [(-13., -10.), (-3.4, 0.3), (-1.3, 1.8), (-1.4, 5.3), (44., 83.)];
    let ahead = vec![(1, 1, Some(false)), (2, 8, None), (16, 16, Some(true))];
    let band = Band { intervals: bands.map(Some).into(), parts_from: Some(16), ahead };
    all.curves = vec![CurveComparison { cells: (0..5).collect(), bands: vec![band] }];
    all.noise_floor = Some(NoiseFloor { pairs: 12, median: 0.006, largest: 0.023, beyond: 1 });
    let discard = |block, run, reason: &str| DiscardedBlock {
        cell: 4,
        block,
        run,
        reason: reason.to_string(),
    };
    all.discards = Discards {
        blocks: 130,
        discarded: vec![discard(3, 7, "steal 3.1 % of the CPUs used"), discard(5, 11, "throttled")],
        by_variant: vec![1, 1],
        imbalance_p: Some(1.0),
    };
    let share = |level: &str, units, deviation, share| VarianceShare {
        level: level.to_string(),
        units,
        deviation,
        share,
    };
    all.variance = vec![share("boot", 5, 0.012, 0.62), share("run", 128, 0.0094, 0.38)];
    all.warnings =
        vec!["the frequency governor is 'powersave': knee doctor says how to fix it".to_string()];
    all
}

/// Five variants: missing values, zeros, percentages, too few runs.
pub fn oddities() -> Comparison {
    let mut all = variants(&[
        ("base", ""),
        ("a", "sysctl vm.dirty_ratio=5"),
        ("b", "mount -o nobarrier"),
        ("c", "mode=try"),
        ("d", "mode=try, sysctl kernel.numa_balancing=0"),
    ]);
    let of = |mean: f64| spread(10, mean, mean / 50.0);
    let rates = metric(
        "operations_per_s",
        "1/s",
        Better::Higher,
        vec![of(310_000.), of(322_000.), of(309_500.), spread(2, 333_000., 4000.), None],
        vec![
            changed(10, [3.9, 2.4, 5.3], BETTER),
            changed(10, [-0.1, -1.2, 1.0], Verdict::Same),
            Contrast { n: 2, change: Some(0.074), ..unknown("2 of 10 blocks are whole", 4) },
            unknown("no run finished", 4),
        ],
    );
    let faults = metric(
        "time.major_page_faults",
        "1",
        Better::Neither,
        vec![spread(10, 0., 0.), spread(10, 12., 3.), spread(10, 0., 0.), spread(2, 0., 0.), None],
        vec![
            absolute(10, [12., 9.5, 14.], Verdict::More { at_least: true }),
            Contrast { p: Some(1.0), ..absolute(10, [0., 0., 0.], Verdict::Same) },
            unknown("", 4),
            unknown("", 4),
        ],
    );
    let steal = metric(
        "steal_percent",
        "%",
        Better::Lower,
        vec![spread(10, 0.4, 0.1), spread(10, 3.6, 0.6), spread(10, 0.4, 0.1), None, None],
        vec![
            absolute(10, [3.2, 2.8, 3.6], WORSE),
            Contrast { p: Some(0.7), ..absolute(10, [0.01, -0.1, 0.1], Verdict::Same) },
            unknown("", 4),
            unknown("", 4),
        ],
    );
    let mut cell = cell("create_files", 8, vec![rates, faults, steal]);
    cell.failed = vec![0, 0, 0, 8, 10];
    cell.key.dir = "/mnt/scratch".to_string();
    all.cells = vec![cell];
    all.discards.blocks = 10;
    all
}

/// Two variants on eight nodes, one of them odd, and one on which the variant does something else.
pub fn fleet() -> Comparison {
    let mut all = variants(&[("a", ""), ("b", "mode=try")]);
    all.design = Design::Blocks { sequential: false };
    let sides = [spread(32, 1e6, 1e4), spread(32, 1.05e6, 1e4)];
    let told = cannot_tell(None, "the variant does not do the same on all nodes");
    let contrasts = vec![changed(32, [5.0, -1.0, 9.0], told)];
    let rates = metric("operations_per_s", "1/s", Better::Higher, sides.to_vec(), contrasts);
    all.cells = vec![cell("getppid", 2, vec![rates])];
    let node = |name: &str, level, equal_runs| ComparedNode {
        name: name.to_string(),
        blocks: 4,
        level,
        equal_runs,
    };
    let equal = |median, change, interval| {
        Some(EqualRuns { pairs: 4, median, change, interval: Some(interval) })
    };
    let effect = |node: &str, nodes, change, interval| NodeEffect {
        node: node.to_string(),
        nodes,
        blocks: 4 * nodes,
        change,
        interval: Some(interval),
    };
    all.nodes = Some(NodeSurvey {
        nodes: [
            node("n1", 0.021, equal(0.004, 0.001, (-0.003, 0.005))),
            node("n2", -0.152, equal(0.031, 0.04, (0.02, 0.06))),
        ]
        .into_iter()
        .chain((3..9).map(|number| node(&format!("n{number}"), 0.02, None)))
        .collect(),
        odd: vec![OddNode {
            cell: 0,
            node: "n2".to_string(),
            change: -0.171,
            interval: (-0.183, -0.159),
            normal: 0.041,
            p: 0.0004,
        }],
        disagreements: vec![NodeDisagreement {
            cell: 0,
            variant: 1,
            nodes: vec![effect("n2", 1, 0.081, (0.07, 0.092))],
            others: vec![effect("", 7, -0.05, (-0.053, -0.047))],
            p: 0.003,
            withdrawn: true,
        }],
    });
    all
}
