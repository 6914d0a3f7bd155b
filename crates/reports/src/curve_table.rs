//! Tables of curves, one row a cell: CPUs down, numbers across.

use std::collections::BTreeSet;

use analysis::{Axis, Curve, CurveCell, Spread, rounded, with_uncertainty};
use records::{Point, Record, WALL};
use text::prose::number_or_dash;
use text::quantity::{duration_ns, short};
use text::table::{Align, Table};

/// The metric that tables show by default.
pub use answers::RATE;

/// One column: its heading, and the text for a cell.
type Column<'a> = (String, Box<dyn Fn(&Curve, &CurveCell) -> String + 'a>);

/// Rates, their spread and CPU costs, for the curves of one load and form. Another metric that decides stands first.
pub fn rates(curves: &[&Curve], deciding: &str) -> Table {
    let mut columns = place(curves);
    if deciding != RATE {
        columns.push(column(&format!("\n{deciding}"), |_, cell| value(cell, deciding)));
        columns.push(column("\nstddev", |_, cell| deviation(cell, deciding)));
    }
    columns.extend([
        column("\noperations/s", |_, cell| value(cell, RATE)),
        column("\nstddev", |_, cell| deviation(cell, RATE)),
        column(&per_unit(curves), |curve, cell| efficiency(curve, cell, RATE)),
        column("fair-\nness", |_, cell| mean(cell, "fairness", |x| format!("{x:.3}"))),
        column("idle\n%", |_, cell| mean(cell, "idle_percent", |x| format!("{x:.0}"))),
    ]);
    columns.extend(costs());
    table(curves, &columns)
}

/// The heading of rates over the place on the axis.
fn per_unit(curves: &[&Curve]) -> String {
    let axis = curves.first().map_or(Axis::default(), |curve| curve.axis.clone());
    format!("per\n{}", axis.counted(1).trim_start_matches("1 ").trim_end_matches("=1"))
}

/// One metric and its spread over runs.
pub fn metric(curves: &[&Curve], metric: &str) -> Table {
    let text = |cell: &CurveCell, value: fn(&Spread) -> f64| {
        cell.spread(metric).map_or("-".to_string(), |s| to_its_digits(value(&s), &s).0)
    };
    let mut columns = place(curves);
    columns.extend([
        column(metric, |_, cell| text(cell, |s| s.mean)),
        column("stddev", |_, cell| deviation(cell, metric)),
        column("min", |_, cell| text(cell, |s| s.min)),
        column("median", |_, cell| text(cell, |s| s.median)),
        column("max", |_, cell| text(cell, |s| s.max)),
    ]);
    table(curves, &columns)
}

/// Durations of single operations: means over runs, and the slowest of all.
pub fn latencies(curves: &[&Curve]) -> Table {
    let mut columns = place(curves);
    let latency = |heading: &str, metric: &'static str| {
        column(heading, |_, cell| mean(cell, metric, duration_ns))
    };
    columns.extend([
        latency("mean", "latency.mean_ns"),
        latency("stddev", "latency.stddev_ns"),
        latency("p50", "latency.p50_ns"),
        latency("p99", "latency.p99_ns"),
        latency("p99.9", "latency.p999_ns"),
        column("max", |_, cell| {
            let slowest = cell.spread("latency.max_ns").map(|spread| duration_ns(spread.max));
            slowest.unwrap_or("-".to_string())
        }),
        column("operations/s", |_, cell| value(cell, RATE)),
    ]);
    table(curves, &columns)
}

/// How long a command took, its own metrics and its CPU costs, for all its points: one row
/// each, with the parameters and settings in which they differ.
pub fn commands(curves: &[&Curve], record: &Record) -> Table {
    let mut columns = apart(curves);
    columns.extend(place(curves));
    let primary = record.deciding(curves[0].point);
    let mut metrics = vec![primary.clone()];
    metrics.extend([WALL.to_string()].into_iter().filter(|name| *name != primary));
    let own = record.commands.get(&curves[0].point.workload).into_iter();
    let own = own.flat_map(|command| &command.metrics).map(|metric| metric.name.clone());
    metrics.extend(own.filter(|name| *name != primary));
    for metric in metrics {
        let name = metric.clone();
        columns.push(column(&heading(&metric, record), move |_, cell| value(cell, &name)));
        columns.push(column("\nstddev", move |_, cell| deviation(cell, &metric)));
    }
    columns.extend(costs());
    columns.push(column("max RSS\nMiB", |_, cell| {
        mean(cell, "time.maximum_resident_set_size", |kib| short(kib / 1024.0))
    }));
    table(curves, &columns)
}

/// "files_per_s", with its unit below where the name does not say it.
fn heading(metric: &str, record: &Record) -> String {
    let unit = record.metrics.get(metric).map_or("", |described| described.unit.as_str());
    let is_said = metric.ends_with("_s") || metric.contains("time");
    match unit {
        "" | "1" | "1/s" => format!("\n{metric}"),
        "s" if is_said => format!("\n{metric}"),
        unit => format!("{metric}\n{unit}"),
    }
}

/// Reads one setting of a point as text.
type Setting = fn(&Point) -> String;

/// Columns of what differs between the points beside CPUs and tasks.
fn apart<'a>(curves: &[&Curve]) -> Vec<Column<'a>> {
    let mut columns: Vec<Column> = Vec::new();
    let differs = |of: &dyn Fn(&Point) -> String| {
        curves.iter().any(|curve| of(curve.point) != of(curves[0].point))
    };
    let settings: [(&str, Setting); 3] = [
        ("variant", |point| point.variant.clone()),
        ("dir", |point| point.dir.display().to_string()),
        ("placement", |point| point.placement.to_string()),
    ];
    for (heading, of) in settings.into_iter().filter(|(_, of)| differs(of)) {
        columns.push(column(heading, move |_, cell| of(cell.point)));
    }
    for name in varying(curves) {
        let heading = name.clone();
        let parameter =
            move |point: &Point| point.parameters.get(&name).cloned().unwrap_or_default();
        columns.push(column(&heading, move |_, cell| parameter(cell.point)));
    }
    columns
}

/// The parameters in which the points of a command differ.
pub fn varying(curves: &[&Curve]) -> Vec<String> {
    let first = curves[0].point;
    let names = curves.iter().flat_map(|curve| curve.point.parameters.keys());
    let names: BTreeSet<&String> = names.collect();
    // What a curve runs over has a column of its own.
    let is_axis = |name: &String| curves.iter().all(|curve| curve.parameter.as_ref() == Some(name));
    let differs = |name: &&String| {
        let cells = || curves.iter().flat_map(|curve| &curve.cells);
        !is_axis(name)
            && cells().any(|c| c.point.parameters.get(*name) != first.parameters.get(*name))
    };
    names.into_iter().filter(differs).cloned().collect()
}

/// The columns of time(1).
fn costs() -> Vec<Column<'static>> {
    vec![
        column("user\ns", |_, cell| mean(cell, "time.user_time", short)),
        column("sys\ns", |_, cell| mean(cell, "time.system_time", short)),
        column("CPU\n%", |_, cell| {
            mean(cell, "time.percent_of_cpu_this_job_got", |x| format!("{x:.0}"))
        }),
        column("vol.\nctxsw", |_, cell| mean(cell, "time.voluntary_context_switches", short)),
        column("inv.\nctxsw", |_, cell| mean(cell, "time.involuntary_context_switches", short)),
        column("minor\nfaults", |_, cell| mean(cell, "time.minor_page_faults", short)),
    ]
}

fn column<'a>(heading: &str, cell: impl Fn(&Curve, &CurveCell) -> String + 'a) -> Column<'a> {
    (heading.to_string(), Box::new(cell))
}

/// The columns that say which cell it is. Tasks only where they are not one a CPU.
fn place(curves: &[&Curve]) -> Vec<Column<'static>> {
    let mut columns = Vec::new();
    let axes: BTreeSet<&Axis> = curves.iter().map(|curve| &curve.axis).collect();
    for axis in axes.iter().filter(|axis| !axis.is_cpus()) {
        let axis = (*axis).clone();
        let heading = axis.name().to_string();
        columns.push(column(&heading, move |curve, cell| {
            if curve.axis == axis { number_or_dash(cell.at) } else { "-".to_string() }
        }));
    }
    let cells = || curves.iter().flat_map(|curve| &curve.cells);
    if axes.iter().any(|axis| axis.is_cpus()) || cells().any(|cell| cell.point.cpus > 0) {
        columns.push(column("CPUs", |_, cell| number_or_dash(cell.point.cpus)));
    }
    let are_axis = |curve: &&Curve| curve.axis.name() == curve.point.form.name();
    let has_tasks =
        curves.iter().any(|curve| curve.axis.is_cpus()) || cells().any(|cell| cell.point.tasks > 0);
    let are_apart = |curve: &&Curve| curve.tasks_per_cpu != Some(1.0) && !are_axis(curve);
    if has_tasks && curves.iter().any(are_apart) {
        columns.push(column("tasks", |_, cell| number_or_dash(cell.point.tasks)));
    }
    columns.push(column("n", |_, cell| cell.runs.len().to_string()));
    columns
}

fn table(curves: &[&Curve], columns: &[Column]) -> Table {
    let headings = columns.iter().map(|(heading, _)| (heading.trim_start(), Align::Right));
    let mut table = Table::new(headings);
    for curve in curves {
        for cell in &curve.cells {
            table.row(columns.iter().map(|(_, text)| text(curve, cell)).collect());
        }
    }
    table
}

/// A mean to the digits that its spread allows.
fn value(cell: &CurveCell, metric: &str) -> String {
    cell.spread(metric).map_or("-".to_string(), |s| to_its_digits(s.mean, &s).0)
}

/// The sample standard deviation over runs; a single run has none.
fn deviation(cell: &CurveCell, metric: &str) -> String {
    let spread = cell.spread(metric).filter(|s| s.stddev.is_some());
    spread.map_or("-".to_string(), |s| to_its_digits(s.mean, &s).1)
}

/// A value and the deviation, to the digits that the deviation allows.
fn to_its_digits(value: f64, spread: &Spread) -> (String, String) {
    match spread.stddev {
        Some(stddev) => with_uncertainty(value, stddev),
        None => (rounded(value, 4), "-".to_string()),
    }
}

fn mean(cell: &CurveCell, metric: &str, format: fn(f64) -> String) -> String {
    cell.spread(metric).map_or("-".to_string(), |s| format(s.mean))
}

/// Rate per CPU relative to the first cell; `-` if the curve has only one cell.
fn efficiency(curve: &Curve, cell: &CurveCell, metric: &str) -> String {
    let efficiency = curve.efficiency(cell, metric).filter(|_| curve.cells.len() > 1);
    match efficiency.map(|share| 100.0 * share) {
        Some(percent) if percent < 9.95 => format!("{percent:.1}%"),
        Some(percent) => format!("{percent:.0}%"),
        None => "-".to_string(),
    }
}
