//! The table that the LKP bot sends to the kernel's lists: a column of values for each
//! variant with the change before it, metrics right-most. What the bot leaves out stands
//! below: the intervals, how many units, and verdicts.

use analysis::{CellComparison, CellKey, Comparison, Contrast, MetricComparison, Scale, Spread};
use text::Style;
use text::prose::wrapped;
use text::quantity::{fixed, signed};
use text::table::{Align, Table};

use crate::compare::change::{interval, percent, primary, verdict, whole};
use crate::compare::head::{head_without_variants, names, variants};
use crate::compare::notes::{below, indexes, of_cells};
use crate::compare::places::{Places, setting};
use crate::loads::not_default;

/// A standard deviation below this share of the value is not printed, as the bot does.
const DEVIATION_SHOWN: f64 = 0.02;

/// Room for `` ± 12%``.
const DEVIATION: usize = 6;

/// How wide the numbers are.
#[derive(Clone, Copy)]
struct Widths {
    value: usize,
    change: usize,
    name: usize,
}

/// The whole report.
pub fn lkp(comparison: &Comparison, again: &str, style: Style) -> String {
    let mut text = head_without_variants(comparison, again, style);
    let places = Places::new(comparison);
    for (i, cell) in comparison.cells.iter().enumerate() {
        text += &format!("\n{}\n{}", "=".repeat(style.width), axes(&cell.key, style));
        text += "\nvariant:\n";
        for variant in variants(comparison) {
            text += &wrapped(&format!("  {variant}"), style.width, 6);
        }
        let metrics = shown(cell);
        text += &tables(comparison, &metrics, style);
        text += &judged(comparison, cell, style);
        for line in of_cells(comparison, &places, &indexes(&[(i, cell)])) {
            text += &wrapped(&line, style.width, 2);
        }
    }
    text += &rules(style);
    text + below(comparison, style).trim_start_matches('\n')
}

/// "workload/as/cpus:" and below it their values, as the bot writes common axes.
fn axes(place: &CellKey, style: Style) -> String {
    let mut axes = vec![("workload".to_string(), place.workload.clone())];
    for parameter in not_default(&place.workload, &place.parameters) {
        let (name, value) = parameter.split_once('=').expect("it is written name=value");
        axes.push((name.to_string(), value.to_string()));
    }
    let number = |n: u32| if n > 0 { n.to_string() } else { String::new() };
    let known = [("cpus", number(place.cpus)), ("tasks", number(place.tasks))];
    let known = known.map(|(name, value)| (name.to_string(), value));
    axes.extend(known.into_iter().filter(|(_, value)| !value.is_empty()));
    let names: Vec<String> = axes.iter().map(|(name, _)| name.clone()).collect();
    let values: Vec<String> = axes.into_iter().map(|(_, value)| value).collect();
    let rest = setting(place).join(", ");
    let rest = if rest.is_empty() { rest } else { wrapped(&format!("  {rest}"), style.width, 2) };
    format!("{}:\n  {}\n{rest}", names.join("/"), values.join("/"))
}

/// The primary metric, all metrics of time(1), and others that changed.
fn shown(cell: &CellComparison) -> Vec<&MetricComparison> {
    let primary = primary(cell);
    let changed = |metric: &MetricComparison| {
        metric.contrasts.iter().any(|contrast| contrast.p.is_some_and(|p| p < 0.05))
    };
    let of_time = |metric: &MetricComparison| {
        metric.metric.starts_with("time.") || metric.metric.contains(".time.")
    };
    let others = cell.metrics.iter().skip(1);
    let (time, rest): (Vec<_>, Vec<_>) = others.partition(|metric| of_time(metric));
    let rest = rest.into_iter().filter(|metric| changed(metric));
    primary.into_iter().chain(time).chain(rest).collect()
}

/// As many variants in a table as the width allows; the baseline begins each.
fn tables(comparison: &Comparison, metrics: &[&MetricComparison], style: Style) -> String {
    let longest =
        metrics.iter().map(|metric| metric.metric.chars().count()).max().unwrap_or_default();
    let full = Widths { value: 10, change: 10, name: longest };
    let narrow = Widths { value: 8, change: 6, name: longest };
    let fits = |widths: &Widths| width(*widths, 1) <= style.width;
    let mut widths = [full, narrow].into_iter().find(fits).unwrap_or(narrow);
    widths.name = widths.name.min(style.width - width(Widths { name: 0, ..widths }, 1));
    let variants: Vec<usize> = (1..comparison.variants.len()).collect();
    let most = (1..=variants.len()).take_while(|n| width(widths, *n) <= style.width).last();
    let chunks = variants.chunks(most.unwrap_or(1));
    let one = |chunk| {
        let table = table(comparison, metrics, chunk, widths, style);
        format!("\n{table}\n{}", intervals(comparison, metrics, chunk, widths))
    };
    chunks.map(one).collect()
}

/// The width of a table with so many variants beside the baseline.
fn width(widths: Widths, variants: usize) -> usize {
    let Widths { value, change, name } = widths;
    value + DEVIATION + variants * (1 + change + 1 + value + DEVIATION) + 2 + name
}

fn table(
    comparison: &Comparison,
    metrics: &[&MetricComparison],
    variants: &[usize],
    widths: Widths,
    style: Style,
) -> String {
    let column = widths.value + DEVIATION;
    let group = widths.change + 1 + column;
    let names: Vec<&str> = comparison.variants.iter().map(|v| v.name.as_str()).collect();
    let mut lines = vec![
        head_line(names[0], column, variants.iter().map(|v| names[*v]), group),
        head_line(&"-".repeat(column), column, variants.iter().map(|_| ""), 0)
            + &format!(" {}", "-".repeat(group)).repeat(variants.len()),
    ];
    let pair =
        format!(" {:>1$}", "%change", widths.change + 1) + &format!("{:>column$}", "%stddev");
    lines.push(format!("{:>column$}", "%stddev") + &pair.repeat(variants.len()));
    // The pointers stand where a value's deviation begins, and where a change ends.
    let at_value = format!("{:>1$}", "\\", column - 2) + "  ";
    let pointer = format!("{:>1$}", "|", widths.change - 1) + "   ";
    lines.push(at_value.clone() + &format!("{pointer}{at_value}").repeat(variants.len()));
    lines.extend(metrics.iter().map(|metric| row(metric, variants, widths, style)));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Names over their columns, cut to them as the bot cuts commits.
fn head_line<'a>(
    first: &str,
    column: usize,
    others: impl Iterator<Item = &'a str>,
    group: usize,
) -> String {
    let cut = |name: &str, room: usize| name.chars().take(room).collect::<String>();
    let others = others.map(|name| match group {
        0 => String::new(),
        _ => format!(" {:<group$}", cut(name, group)),
    });
    format!("{:<column$}{}", cut(first, column), others.collect::<String>())
}

fn row(metric: &MetricComparison, variants: &[usize], widths: Widths, style: Style) -> String {
    let side = |variant: usize| metric.sides.get(variant).and_then(Option::as_ref);
    let mut line = value(side(0), widths, style);
    for variant in variants {
        let contrast = metric.contrasts.get(variant - 1);
        line += &format!(" {}", change(contrast, side(0), side(*variant), widths));
        line += &value(side(*variant), widths, style);
    }
    format!("{line}  {}", cut(&metric.metric, widths.name))
}

/// `` 1544 ± 4%``: the deviation only where it is 2 % or more.
fn value(spread: Option<&Spread>, widths: Widths, style: Style) -> String {
    let room = widths.value;
    let Some(spread) = spread else {
        return format!("{:>room$}{:DEVIATION$}", "-", "");
    };
    let relative = spread.stddev.map(|stddev| 100.0 * stddev / spread.mean.abs());
    let shown = relative.filter(|p| p.is_finite() && *p >= 100.0 * DEVIATION_SHOWN);
    let sign = if style.terminal { "± " } else { "+-" };
    let deviation = match shown {
        Some(percent) if percent < 99.5 => format!(" {sign}{percent:2.0}%"),
        Some(percent) => format!(" {}{percent:.0}%", sign.trim_end()),
        None => String::new(),
    };
    format!("{:>room$}{deviation:<DEVIATION$}", number(spread.mean))
}

/// Two decimals below 1000, whole above, four digits and an exponent beyond 1e8.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e8 => format!("{value:.3e}"),
        size if size < 999.995 => fixed(value, 2),
        _ => format!("{value:.0}"),
    }
}

/// `+54.4%`; of percentages, and against zero, the difference without a sign. Means are
/// compared where there are too few runs for an estimate.
fn change(
    contrast: Option<&Contrast>,
    before: Option<&Spread>,
    after: Option<&Spread>,
    widths: Widths,
) -> String {
    let room = widths.change;
    let of_means = before.zip(after).map(|(before, after)| (before.mean, after.mean));
    let scale = contrast.map_or(Scale::Relative, |contrast| contrast.scale);
    let of_means = of_means.and_then(|(before, after)| match scale {
        Scale::Absolute => Some(after - before),
        Scale::Relative => (before != 0.0).then(|| after / before - 1.0),
    });
    match (scale, contrast.and_then(|contrast| contrast.change).or(of_means)) {
        (_, None) => format!("{:>room$} ", "-"),
        (Scale::Relative, Some(change)) => format!("{:>room$}%", signed(100.0 * change, 1)),
        (Scale::Absolute, Some(change)) => format!("{:>room$} ", signed(change, 1)),
    }
}

/// The interval of each change above, in the order of the rows.
fn intervals(
    comparison: &Comparison,
    metrics: &[&MetricComparison],
    variants: &[usize],
    widths: Widths,
) -> String {
    let names = names(comparison);
    let heading = format!("{} interval", percent(comparison.confidence));
    let columns = variants.iter().flat_map(|variant| {
        [(format!("{}\n{heading}", names[*variant]), Align::Left), ("n".into(), Align::Right)]
    });
    let mut table = Table::new(columns.chain([(String::new(), Align::Left)]));
    for metric in metrics {
        let cells = variants.iter().flat_map(|variant| match metric.contrasts.get(variant - 1) {
            Some(contrast) => [bounds(contrast), contrast.n.to_string()],
            None => ["-".to_string(), "-".to_string()],
        });
        table.row(cells.chain([cut(&metric.metric, widths.name)]).collect());
    }
    table.text()
}

/// `[+50.1, +58.9]% *`.
fn bounds(contrast: &Contrast) -> String {
    let unit = match (contrast.scale, contrast.interval) {
        (Scale::Relative, Some(_)) => "%",
        _ => "",
    };
    let changed = if contrast.p.is_some_and(|p| p < 0.05) { " *" } else { "" };
    format!("{}{unit}{changed}", interval(contrast))
}

/// The end of a name tells more than its beginning.
fn cut(name: &str, room: usize) -> String {
    match name.chars().count().saturating_sub(room) {
        0 => name.to_string(),
        excess => format!("..{}", name.chars().skip(excess + 2).collect::<String>()),
    }
}

/// The verdicts on the primary metric, a line a variant.
fn judged(comparison: &Comparison, cell: &CellComparison, style: Style) -> String {
    let Some(metric) = primary(cell) else {
        return format!("\nno run has {}\n", comparison.primary);
    };
    let one = |(contrast, name): (&Contrast, &String)| {
        let said = verdict(metric, contrast, comparison.smallest_effect);
        let line = format!(
            "{name}: {said}: {} {}, n={}",
            metric.metric,
            whole(contrast, &metric.unit),
            contrast.n
        );
        wrapped(&line, style.width, 2)
    };
    let names = names(comparison);
    let lines: String = metric.contrasts.iter().zip(&names[1..]).map(one).collect();
    format!("\n{lines}")
}

/// What the bot's readers know, and what differs here.
fn rules(style: Style) -> String {
    let text = format!(
        "%stddev: sample standard deviation of runs, shown at {} of the value or more. %change: \
         from differences within blocks (\"how\", below), so it may differ from the change of the means; \
         without a % sign it is a difference, as for percentages and where some run has zero. *: adjusted p < 0.05.",
        percent(DEVIATION_SHOWN)
    );
    format!("\n{}", wrapped(&text, style.width, 2))
}
