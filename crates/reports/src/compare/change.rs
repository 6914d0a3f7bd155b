//! One change as text: the estimate, its interval, the ratio, the verdict. All end at the
//! decimal place that the interval allows.

use analysis::{
    CellComparison, Comparison, Contrast, Method, MetricComparison, Scale, Spread, Verdict,
    rounded, with_uncertainty,
};
use text::Style;
use text::prose::counted;

/// A mean and, where it is known, the sample standard deviation.
pub fn value(spread: Option<&Spread>) -> (String, String) {
    let Some(spread) = spread else {
        return ("-".to_string(), String::new());
    };
    match spread.stddev {
        Some(stddev) if stddev > 0.0 => with_uncertainty(spread.mean, stddev),
        Some(_) => (rounded(spread.mean, 4), "0".to_string()),
        None => (rounded(spread.mean, 4), String::new()),
    }
}

/// Means with their deviations, padded so that both end evenly.
pub fn aligned(values: &[(String, String)], style: Style) -> Vec<String> {
    let widest = values.iter().map(|(_, deviation)| deviation.len()).max().unwrap_or_default();
    let sign = style.plus_minus();
    let room = if widest > 0 { widest + sign.chars().count() + 2 } else { 0 };
    let one = |(mean, deviation): &(String, String)| {
        if deviation.is_empty() {
            format!("{mean}{:room$}", "")
        } else {
            format!("{mean} {sign} {deviation:>widest$}")
        }
    };
    values.iter().map(one).collect()
}

/// `+5.1%`, `+3.2 pp`, `-12`; a hyphen where nothing is known.
pub fn change(contrast: &Contrast, unit: &str) -> String {
    let Some(change) = contrast.change else {
        return "-".to_string();
    };
    format!("{}{}", signed(&scaled(contrast, change)), suffix(contrast, unit))
}

/// `[+3.9, +6.2]`, and ` t` where it assumes normality; a hyphen where there is none.
pub fn interval(contrast: &Contrast) -> String {
    let Some((low, high)) = contrast.interval else {
        return "-".to_string();
    };
    let [low, high] = [low, high].map(|bound| signed(&scaled(contrast, bound)));
    format!("[{low}, {high}]{}", mark(contrast))
}

/// Change and interval in one: `+5.1% [+3.9, +6.2]`.
pub fn whole(contrast: &Contrast, unit: &str) -> String {
    match contrast.interval {
        Some(_) => format!("{} {}", change(contrast, unit), interval(contrast)),
        None => change(contrast, unit),
    }
}

/// After over before, `1.051`; of a difference, the difference.
pub fn ratio(contrast: &Contrast, unit: &str) -> String {
    match (contrast.scale, contrast.change) {
        (Scale::Relative, Some(change)) => share(contrast, change),
        _ => change(contrast, unit),
    }
}

/// The interval of the ratio, `[1.039, 1.062]`.
pub fn ratio_interval(contrast: &Contrast) -> String {
    match (contrast.scale, contrast.interval) {
        (Scale::Relative, Some((low, high))) => {
            let [low, high] = [low, high].map(|bound| share(contrast, bound));
            format!("[{low}, {high}]{}", mark(contrast))
        }
        _ => interval(contrast),
    }
}

/// "faster, >= 2 %", "cannot tell".
pub fn verdict(metric: &MetricComparison, contrast: &Contrast, smallest: f64) -> String {
    let word = contrast.verdict.word(metric.timed());
    match contrast.verdict {
        Verdict::Better { at_least: true }
        | Verdict::Worse { at_least: true }
        | Verdict::More { at_least: true }
        | Verdict::Less { at_least: true } => format!("{word}, >= {}", percent(smallest)),
        _ => word.to_string(),
    }
}

/// A share in words: `2 %`, `0.6 %`.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = if percent.abs() < 10.0 { 2 } else { 3 };
    let text = rounded(percent, digits);
    let plain = text.contains('.').then(|| text.trim_end_matches('0').trim_end_matches('.'));
    format!("{} %", plain.unwrap_or(&text))
}

/// A change in percent with its sign: `+12%`.
pub fn signed_percent(share: f64) -> String {
    format!("{}%", signed(&rounded(100.0 * share, 2)))
}

/// A probability: `0.003`, `< 0.001`.
pub fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_string() } else { rounded(p, 2) }
}

/// Which other than rank methods the primary metric rests on.
pub fn assumed<'a>(contrasts: impl IntoIterator<Item = &'a Contrast>) -> Option<&'static str> {
    let mut found = (false, false);
    let mut is_beside_drift = false;
    for contrast in contrasts {
        is_beside_drift |= contrast.method == Method::Drift;
        found.0 |= contrast.method == Method::Student;
        found.1 |= contrast.method == Method::Welch;
    }
    match found {
        _ if is_beside_drift => Some("least squares beside a trend and a random walk of the host"),
        (false, false) => None,
        (true, false) => Some("Student's t"),
        (false, true) => Some("Welch's t"),
        (true, true) => Some("Student's or Welch's t"),
    }
}

/// All contrasts of the primary metric.
pub fn of_primary(comparison: &Comparison) -> impl Iterator<Item = &Contrast> {
    let metrics = comparison.cells.iter().filter_map(|cell| cell.metrics.first());
    metrics.flat_map(|metric| &metric.contrasts)
}

/// Whether a metric is the one that decides in its cell: where single operations were timed
/// that is another one than where they were counted.
pub fn decides(comparison: &Comparison, metric: &MetricComparison) -> bool {
    let firsts = comparison.cells.iter().filter_map(|cell| cell.metrics.first());
    firsts.into_iter().any(|first| std::ptr::eq(first, metric))
}

/// The metric that decides, in a cell where it has values.
pub fn primary(cell: &CellComparison) -> Option<&MetricComparison> {
    cell.metrics.first().filter(|metric| metric.sides.iter().any(Option::is_some))
}

/// Why a load has no value of the metric that decides.
pub fn without_values(comparison: &Comparison, load: &[(usize, &CellComparison)]) -> String {
    let deciding = load.iter().find_map(|(_, cell)| cell.metrics.first());
    let name = deciding.map_or(&comparison.primary, |metric| &metric.metric);
    let passes = load.iter().flat_map(|(_, cell)| cell.passes.iter().flatten());
    match passes.filter(|run| run.metrics.contains_key(name)).count() {
        0 => format!("no run has the deciding metric, {name}"),
        runs => format!("none of the {} with {name} counts", counted(runs, "run")),
    }
}

fn mark(contrast: &Contrast) -> &'static str {
    match contrast.method {
        Method::Student | Method::Welch | Method::Drift => " t",
        _ => "",
    }
}

/// "%", "pp" or the unit; mere counts have none.
fn suffix(contrast: &Contrast, unit: &str) -> String {
    match (contrast.scale, unit) {
        (Scale::Relative, _) => "%".to_string(),
        (Scale::Absolute, "%") => " pp".to_string(),
        (Scale::Absolute, "1" | "") => String::new(),
        (Scale::Absolute, unit) => format!(" {unit}"),
    }
}

/// A number on a contrast's scale, in percent where it is relative.
fn scaled(contrast: &Contrast, number: f64) -> String {
    let factor = if contrast.scale == Scale::Relative { 100.0 } else { 1.0 };
    to_its_place(contrast, factor * number, factor)
}

/// 1.051 for 0.051.
fn share(contrast: &Contrast, number: f64) -> String {
    to_its_place(contrast, 1.0 + number, 1.0)
}

/// Rounded to the place that half the interval allows. One place more where a bound that is
/// not zero would look like zero, because the verdict hangs on its sign.
fn to_its_place(contrast: &Contrast, number: f64, factor: f64) -> String {
    let Some((low, high)) = contrast.interval else {
        return rounded(number, if number.abs() < 1.0 || factor > 1.0 { 2 } else { 3 });
    };
    let half = factor * (high - low).abs() / 2.0;
    let hidden = |uncertainty: f64| {
        let zero = |bound: f64| is_zero(&with_uncertainty(factor * bound, uncertainty).0);
        [low, high].into_iter().any(|bound| bound != 0.0 && zero(bound))
    };
    let uncertainty = if hidden(half) { half / 10.0 } else { half };
    with_uncertainty(number, uncertainty).0
}

fn is_zero(text: &str) -> bool {
    !text.chars().any(|c| c.is_ascii_digit() && c != '0')
}

fn signed(text: &str) -> String {
    if is_zero(text) {
        return text.trim_start_matches('-').to_string();
    }
    if text.starts_with('-') { text.to_string() } else { format!("+{text}") }
}
