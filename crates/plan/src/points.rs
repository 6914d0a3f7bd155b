//! From an experiment and the CPUs of a host to the points.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::{Placement, Topology, counted, topology};
use records::{
    Adaptive, Axes, Experiment, Form, Load, Many, Pass, Point, Policy, Scalar, Storage, TASKS_MAX,
    Until, Variant,
};
use workloads::{Forms, Values, Workload};

use crate::{names, pitfalls};

mod commands;
mod own_load;

/// The most runs that a record may have. More are a mistake in a list, and would fill the memory.
const RUNS_MAX: usize = 100_000;

/// The key of the mark on points whose file system is made for them.
const MADE: &str = "file_system";

/// What runs may use of the host: CPUs and directories.
#[derive(Clone)]
pub struct Usable {
    /// The CPUs that this process may use.
    pub topology: Topology,
    /// How many CPUs may be used at the same time, if a quota on CPU time sets a limit.
    pub at_once: Option<u32>,
    /// Returns the path of a directory that a record keeps, or refuses the directory.
    pub directory: fn(&Path) -> Result<PathBuf>,
    /// A directory whose file system forgets what was removed from it. Workloads whose rate depends on
    /// that run there unless told otherwise.
    pub without_history: Option<PathBuf>,
}

/// The points of an experiment on these CPUs, in the order in which its loads and axes are written. Each
/// cell has a point for each of the `variants`.
pub fn points(
    experiment: &Experiment,
    variants: &[Variant],
    usable: &Usable,
) -> Result<Vec<Point>> {
    let points_max = RUNS_MAX / experiment.blocks() as usize;
    let mut points: Vec<Point> = Vec::new();
    for load in &experiment.loads {
        let axes = load.axes.over(&experiment.axes);
        let planned = match variants {
            [] => {
                let usable = self::usable(experiment, None, usable)?;
                points_of(load, &axes, experiment, &usable, points_max)
            }
            _ => {
                let first = points.last().and_then(|point| point.cell).map_or(0, |last| last + 1);
                compared(variants, load, &axes, first, |variant, load, axes| {
                    let usable = self::usable(experiment, Some(variant), usable)?;
                    points_of(load, axes, experiment, &usable, points_max)
                })
            }
        };
        let mut planned = planned.with_context(|| format!("planning {}", load.name()))?;
        mark(&mut planned, variants, &experiment.storage);
        points.extend(planned);
        ensure!(points.len() <= points_max, too_many(points_max));
    }
    Ok(points)
}

/// What runs of a variant may use: the CPUs of its guest, if it has one. A guest, or a file system that
/// is made for the variant, takes the place of the host's directories.
pub fn usable<'a>(
    experiment: &Experiment,
    variant: Option<&Variant>,
    host: &'a Usable,
) -> Result<Cow<'a, Usable>> {
    let on_host = Usable { without_history: None, ..host.clone() };
    match experiment.guest(variant) {
        Some(guest) => {
            let topology = guest.shape()?.topology();
            Ok(Cow::Owned(Usable { topology, at_once: None, ..on_host }))
        }
        None if variant.is_some_and(|variant| variant.file_system.is_some()) => {
            Ok(Cow::Owned(on_host))
        }
        None => Ok(Cow::Borrowed(host)),
    }
}

/// Marks points whose file system is made for them. Across records, they must not count as equal to
/// points in the same directory without it.
fn mark(points: &mut [Point], variants: &[Variant], storage: &Storage) {
    for point in points {
        let Some(file_system) = Variant::file_system_of(point, variants) else { continue };
        let Storage { on, size, policy, age } = storage;
        let mut made = format!("{file_system} on {on}, {}, {}", size.0, policy.name());
        if *policy == Policy::Aged {
            made += &format!(" ({age})");
        }
        point.other.insert(MADE.to_string(), made.into());
    }
}

/// The points of one load in all variants, cell by cell. `first` is the number of the first cell.
fn compared(
    variants: &[Variant],
    load: &Load,
    axes: &Axes,
    first: u32,
    points_of: impl Fn(&Variant, &Load, &Axes) -> Result<Vec<Point>>,
) -> Result<Vec<Point>> {
    let mut by_variant = Vec::new();
    for variant in variants {
        let (load, axes) = variant.apply(load, axes);
        let points = points_of(variant, &load, &axes)
            .with_context(|| format!("as variant '{}'", variant.name))?;
        by_variant.push(points);
    }
    let size = |point: &Point| (point.cpus, point.tasks, point.until, point.pass);
    let baseline = &by_variant[0];
    for (variant, points) in variants.iter().zip(&by_variant) {
        ensure!(
            points.iter().map(size).eq(baseline.iter().map(size)),
            "the variant '{}' has other CPU or task counts than '{}', or sets what is also an \
             axis: they cannot be compared point by point; give --cpus as numbers, or make one \
             of them an axis only",
            variant.name,
            variants[0].name
        );
    }
    let cell = |index: usize| {
        by_variant.iter().zip(variants).map(move |(points, variant)| Point {
            variant: variant.name.clone(),
            cell: Some(first + index as u32),
            ..points[index].clone()
        })
    };
    Ok((0..baseline.len()).flat_map(cell).collect())
}

fn too_many(points_max: usize) -> String {
    if points_max == 0 {
        return format!("a record holds at most {RUNS_MAX} runs: use fewer blocks (--blocks)");
    }
    format!(
        "more than {}, and a record holds at most {RUNS_MAX} runs: shorten a list, use fewer blocks, \
         or make several experiments",
        counted(points_max, "point")
    )
}

fn points_of(
    load: &Load,
    axes: &Axes,
    experiment: &Experiment,
    usable: &Usable,
    points_max: usize,
) -> Result<Vec<Point>> {
    if let Some(command) = crate::commands::for_load(load)? {
        let image = experiment.image.is_some();
        return self::commands::points(&command, load, axes, usable, image, points_max);
    }
    let mut points = Vec::new();
    let planned = match load.own() {
        Some(own) => own_load::planned(own, load, axes, experiment, points_max)?,
        None => native(load, axes, points_max)?,
    };
    let PlannedLoad { name, semantics, combinations, forms, other } = planned;
    let placements = values(&axes.placement, Placement::default())
        .into_iter()
        .map(|placement| {
            Ok((
                placement,
                sizes(axes, experiment.adaptive.as_ref(), usable, placement, points_max)?,
            ))
        })
        .collect::<Result<Vec<_>>>()?;
    let own_default = usable.without_history.as_ref();
    let own_default = own_default.filter(|_| pitfalls::depends_on_history(&name));
    let dirs = dirs(axes, own_default, usable)?;
    let passes: &[Pass] =
        if experiment.latency { &[Pass::Rate, Pass::Latency] } else { &[Pass::Rate] };
    let untils = untils(axes);
    let on_cpus = product(&forms, &placements, points_max)?;
    let lengths = product(&untils, passes, points_max)?;
    let kinds = product(&combinations, &on_cpus, points_max)?;
    let places = product(&dirs, &lengths, points_max)?;
    for ((parameters, (form, (placement, sizes))), (dir, (until, pass))) in
        product(&kinds, &places, points_max)?
    {
        for (cpu_list, tasks) in sizes {
            points.push(Point {
                workload: name.clone(),
                semantics,
                parameters: (*parameters).clone(),
                form: **form,
                cpus: cpu_list.len() as u32,
                placement: *placement,
                cpu_list: cpu_list.clone(),
                tasks: *tasks,
                until: **until,
                pass: **pass,
                dir: (*dir).clone(),
                variant: String::new(),
                cell: None,
                command: None,
                other: other.clone(),
            });
            ensure!(points.len() <= points_max, too_many(points_max));
        }
    }
    Ok(points)
}

/// What points of a load have in common, and the values of its own axes.
struct PlannedLoad {
    name: String,
    semantics: u32,
    /// All combinations of its parameters.
    combinations: Vec<BTreeMap<String, String>>,
    forms: Vec<Form>,
    /// More that tells its points from others'.
    other: BTreeMap<String, serde_json::Value>,
}

/// A workload of knee.
fn native(load: &Load, axes: &Axes, points_max: usize) -> Result<PlannedLoad> {
    let workload = names::workload(&load.name())?;
    Ok(PlannedLoad {
        name: workload.name.to_string(),
        semantics: workload.spec.semantics,
        combinations: parameters(workload, load, points_max)?,
        forms: forms(workload, axes)?,
        other: BTreeMap::new(),
    })
}

/// All pairs, the second element varying faster; refused if they alone are too many points.
fn product<'a, A, B>(a: &'a [A], b: &'a [B], points_max: usize) -> Result<Vec<(&'a A, &'a B)>> {
    ensure!(a.len().saturating_mul(b.len()) <= points_max, too_many(points_max));
    Ok(a.iter().flat_map(|a| b.iter().map(move |b| (a, b))).collect())
}

fn values<T: Clone>(axis: &Option<Many<T>>, default: T) -> Vec<T> {
    axis.as_ref().map_or_else(|| vec![default], |many| many.0.clone())
}

/// All combinations of parameter values, each checked and complete.
fn parameters(
    workload: &Workload,
    load: &Load,
    points_max: usize,
) -> Result<Vec<BTreeMap<String, String>>> {
    let checked = |given: &BTreeMap<String, String>| match Values::new(workload, given) {
        Ok(values) => Ok(values.as_map().clone()),
        Err(why) => bail!(why),
    };
    combinations(&load.parameters, points_max)?.iter().map(checked).collect()
}

/// All combinations of one value for each parameter.
fn combinations(
    parameters: &BTreeMap<String, Many<Scalar>>,
    points_max: usize,
) -> Result<Vec<BTreeMap<String, String>>> {
    let lengths = parameters.values().map(|values| values.0.len());
    ensure!(lengths.fold(1, usize::saturating_mul) <= points_max, too_many(points_max));
    let mut combinations = vec![BTreeMap::new()];
    for (name, values) in parameters {
        combinations = combinations
            .iter()
            .flat_map(|given| {
                values.0.iter().map(move |value| {
                    let mut given = given.clone();
                    given.insert(name.clone(), value.0.clone());
                    given
                })
            })
            .collect();
    }
    Ok(combinations)
}

/// The requested forms that the workload has. A form that it lacks is left out if it has another
/// requested one, so that `--as processes,threads` fits many workloads.
fn forms(workload: &Workload, axes: &Axes) -> Result<Vec<Form>> {
    let Forms::Only(only, why) = workload.spec.forms else {
        return Ok(values(&axes.forms, Form::Processes));
    };
    let only = match only {
        workloads::TaskForm::Processes => Form::Processes,
        workloads::TaskForm::Threads => Form::Threads,
    };
    ensure!(
        values(&axes.forms, only).contains(&only),
        "{} runs only as {}: {why}",
        workload.name,
        only.name()
    );
    Ok(vec![only])
}

/// The directories to measure in. The default is that of the workload, if it has one.
fn dirs(axes: &Axes, own_default: Option<&PathBuf>, usable: &Usable) -> Result<Vec<PathBuf>> {
    let dirs = values(&axes.dir, own_default.cloned().unwrap_or_else(host::paths::temporary));
    dirs.iter().map(|dir| (usable.directory)(dir)).collect()
}

fn untils(axes: &Axes) -> Vec<Until> {
    match &axes.operations_per_task {
        Some(counts) => counts.0.iter().map(|n| Until::OperationsPerTask(*n)).collect(),
        None => values(&axes.seconds, 1.0).into_iter().map(Until::Seconds).collect(),
    }
}

/// CPU lists with their numbers of tasks. There are at least as many tasks as CPUs.
fn sizes(
    axes: &Axes,
    search: Option<&Adaptive>,
    usable: &Usable,
    placement: Placement,
    points_max: usize,
) -> Result<Vec<(Vec<u32>, u32)>> {
    let mut order = usable.topology.order(placement);
    order.truncate(usable.at_once.unwrap_or(u32::MAX) as usize);
    let topology = usable.topology.restricted_to(&order);
    let specs = axes.cpus.as_ref().map_or_else(
        || "1..all".to_string(),
        |many| many.0.iter().map(|w| w.0.as_str()).collect::<Vec<_>>().join(","),
    );
    let counts = match search {
        Some(_) => topology::fine_points(&topology, placement),
        None => topology::points(&specs, &topology, placement)?,
    };
    let mut sizes = Vec::new();
    for cpus in counts {
        let per_cpu = || values(&axes.tasks_per_cpu, 1).into_iter().map(|n| n.checked_mul(cpus));
        let tasks: Vec<Option<u32>> = match &axes.tasks {
            Some(counts) => counts.0.iter().map(|n| Some(*n)).collect(),
            None => per_cpu().collect(),
        };
        for tasks in tasks {
            let tasks = tasks.filter(|n| (1..=TASKS_MAX).contains(n)).with_context(|| {
                let asked = tasks.map_or("too many".to_string(), |n| n.to_string());
                let cpus = counted(cpus as usize, "CPU");
                format!("{asked} tasks asked for on {cpus}: a run has 1 to {TASKS_MAX}")
            })?;
            // CPUs without a task would be counted as used.
            if tasks >= cpus {
                sizes.push((order[..cpus as usize].to_vec(), tasks));
            }
            ensure!(sizes.len() <= points_max, too_many(points_max));
        }
    }
    ensure!(!sizes.is_empty(), "fewer tasks than CPUs were asked for: each CPU needs a task");
    Ok(sizes)
}

#[cfg(test)]
pub mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::combined;
    use host::Cpu;

    fn host(cpus: u32, at_once: Option<u32>) -> Usable {
        let cpu = |cpu| Cpu { cpu, core: cpu, llc: 0, node: 0, package: 0 };
        Usable {
            topology: Topology { cpus: (0..cpus).map(cpu).collect() },
            at_once,
            directory: |path| {
                ensure!(path != Path::new("/no/such"), "no directory {}", path.display());
                Ok(path.to_path_buf())
            },
            without_history: Some("/dev/shm".into()),
        }
    }

    fn check(toml: &str, expected: expect_test::Expect) {
        let planned =
            Experiment::read(toml).and_then(|e| points(&e, &combined(&e)?, &host(4, None)));
        let shown = match planned {
            Err(error) => format!("{error:#}\n"),
            Ok(points) => points
                .iter()
                .map(|p| {
                    let (form, cpus, tasks) = (p.form.name(), p.cpus, p.tasks);
                    let until = format!("{:?}", p.until);
                    let idle = &p.parameters["idle_ns"];
                    let cell = p.cell.map(|cell| format!(" cell {cell} {}", p.variant));
                    format!(
                        "{} {form} {cpus} CPUs {tasks} tasks {until} idle {idle} {:?}{}\n",
                        p.workload,
                        p.pass,
                        cell.unwrap_or_default()
                    )
                })
                .collect(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn points_are_the_product_of_the_axes() {
        check(
            "latency = true\n[axes]\ncpus = [1, 'all']\nseconds = 2\n[[load]]\nworkload = 'getppid'\n\
             parameters = { idle_ns = [0, 500] }",
            expect_test::expect![[r#"
                getppid processes 1 CPUs 1 tasks Seconds(2.0) idle 0 Rate
                getppid processes 4 CPUs 4 tasks Seconds(2.0) idle 0 Rate
                getppid processes 1 CPUs 1 tasks Seconds(2.0) idle 0 Latency
                getppid processes 4 CPUs 4 tasks Seconds(2.0) idle 0 Latency
                getppid processes 1 CPUs 1 tasks Seconds(2.0) idle 500 Rate
                getppid processes 4 CPUs 4 tasks Seconds(2.0) idle 500 Rate
                getppid processes 1 CPUs 1 tasks Seconds(2.0) idle 500 Latency
                getppid processes 4 CPUs 4 tasks Seconds(2.0) idle 500 Latency
            "#]],
        );
        check(
            "[axes]\nas = ['threads', 'processes']\ntasks_per_cpu = 2\n[[load]]\nworkload = 'posix01'\n\
             axes = { tasks = 128, operations_per_task = 10 }\n[[load]]\nworkload = 'flock_own'\n\
             axes = { cpus = '1-2', as = 'threads' }",
            expect_test::expect![[r#"
                posix_lock_shared threads 1 CPUs 128 tasks OperationsPerTask(10) idle 0 Rate
                posix_lock_shared threads 2 CPUs 128 tasks OperationsPerTask(10) idle 0 Rate
                posix_lock_shared threads 4 CPUs 128 tasks OperationsPerTask(10) idle 0 Rate
                posix_lock_shared processes 1 CPUs 128 tasks OperationsPerTask(10) idle 0 Rate
                posix_lock_shared processes 2 CPUs 128 tasks OperationsPerTask(10) idle 0 Rate
                posix_lock_shared processes 4 CPUs 128 tasks OperationsPerTask(10) idle 0 Rate
                flock_own threads 1 CPUs 2 tasks Seconds(1.0) idle 0 Rate
                flock_own threads 2 CPUs 4 tasks Seconds(1.0) idle 0 Rate
            "#]],
        );
    }

    #[test]
    fn what_cannot_be_planned_is_named() {
        check(
            "[[load]]\nworkload = 'getpppid'",
            expect_test::expect![[r#"
                planning getpppid: no workload, experiment or command is called "getpppid"; did you mean "getppid" or "getppid1"? `knee list workloads|experiments|commands` shows all
            "#]],
        );
        check(
            "[[load]]\nworkload = 'getppid'\nparameters = { hold = 1 }",
            expect_test::expect![[r#"
            planning getppid: getppid has no parameter 'hold'; it has idle_ns
        "#]],
        );
        check(
            "[axes]\ncpus = 8\n[[load]]\nworkload = 'getppid'",
            expect_test::expect![[r#"
            planning getppid: this host allows 4 CPUs; 8 were asked for: use 1..all
        "#]],
        );
        check(
            "[axes]\ntasks = 5000\n[[load]]\nworkload = 'getppid'",
            expect_test::expect![[r#"
                planning getppid: 5000 tasks asked for on 1 CPU: a run has 1 to 4096
            "#]],
        );
        check(
            "[axes]\ntasks_per_cpu = 4294967295\n[[load]]\nworkload = 'getppid'",
            expect_test::expect![[r#"
                planning getppid: 4294967295 tasks asked for on 1 CPU: a run has 1 to 4096
            "#]],
        );
        check(
            "[axes]\ndir = '/no/such'\n[[load]]\nworkload = 'getppid'",
            expect_test::expect![[r#"
            planning getppid: no directory /no/such
        "#]],
        );
        check(
            "[axes]\nas = 'threads'\n[[load]]\nworkload = 'brk'",
            expect_test::expect![[r#"
            planning brk: brk runs only as processes: all threads share one program break, where malloc's heap ends: threads that move it would take memory from each other
        "#]],
        );
    }

    #[test]
    fn what_depends_on_deleted_files_runs_where_they_are_forgotten_unless_told_otherwise() {
        let elsewhere = "[[variant]]\nname = 'xfs'\nfile_system = { kind = 'xfs' }";
        let of = |name: &str, more: &str| {
            let toml = format!("{more}\n[[load]]\nworkload = '{name}'\naxes = {{ cpus = 1 }}\n");
            let experiment = Experiment::read(&toml).unwrap();
            let variants = combined(&experiment).unwrap();
            points(&experiment, &variants, &host(1, None)).unwrap().remove(0).dir
        };
        for name in ["create_files", "unlink"] {
            assert_eq!(of(name, ""), Path::new("/dev/shm"));
            assert_eq!(of(name, "[axes]\ndir = '/var'"), Path::new("/var"));
            assert_eq!(of(name, elsewhere), std::env::temp_dir());
        }
        assert_eq!(of("stat", ""), std::env::temp_dir());
    }

    #[test]
    fn a_quota_bounds_the_cpus_used_at_once() {
        let experiment = Experiment::read("[[load]]\nworkload = 'getppid'").unwrap();
        let cpus = |at_once| -> Vec<u32> {
            points(&experiment, &[], &host(8, at_once)).unwrap().iter().map(|p| p.cpus).collect()
        };
        assert_eq!(cpus(None), [1, 2, 4, 8]);
        assert_eq!(cpus(Some(3)), [1, 2, 3]);
    }

    #[test]
    fn a_cell_has_a_point_for_each_variant() {
        check(
            "[axes]\ncpus = [1, 2]\n[[load]]\nworkload = 'getppid'\n[[variant]]\nname = 'base'\n\
             [[variant]]\nname = 'idle'\nparameters = { idle_ns = 10 }\n\
             [[variant]]\nname = 'threads'\nas = 'threads'",
            expect_test::expect![[r#"
                getppid processes 1 CPUs 1 tasks Seconds(1.0) idle 0 Rate cell 0 base
                getppid processes 1 CPUs 1 tasks Seconds(1.0) idle 10 Rate cell 0 idle
                getppid threads 1 CPUs 1 tasks Seconds(1.0) idle 0 Rate cell 0 threads
                getppid processes 2 CPUs 2 tasks Seconds(1.0) idle 0 Rate cell 1 base
                getppid processes 2 CPUs 2 tasks Seconds(1.0) idle 10 Rate cell 1 idle
                getppid threads 2 CPUs 2 tasks Seconds(1.0) idle 0 Rate cell 1 threads
            "#]],
        );
        check(
            "[axes]\nas = ['processes', 'threads']\n[[load]]\nworkload = 'getppid'\n\
             [[variant]]\nname = 'base'\n[[variant]]\nname = 'threads'\nas = 'threads'",
            expect_test::expect![[r#"
                planning getppid: the variant 'threads' has other CPU or task counts than 'base', or sets what is also an axis: they cannot be compared point by point; give --cpus as numbers, or make one of them an axis only
            "#]],
        );
        check(
            "[[load]]\nworkload = 'getppid'\n[[variant]]\nname = 'x'\nparameters = { hold = 10 }",
            expect_test::expect![[r#"
                planning getppid: as variant 'x': getppid has no parameter 'hold'; it has idle_ns
            "#]],
        );
    }
}
