//! The metrics of a line: as they are chosen when it begins, and as its file has them.

use std::path::Path;

use anyhow::{Result, ensure};
use bisector::{LineFile, LineMetric, MetricFile, WatchedLine, direction};
use records::{Better, Extract, MetricKind, known_metric};

use super::InitArguments;
use crate::flags::judged_by;

/// The file of a new line with the metrics that its user chose.
pub fn chosen(arguments: &InitArguments, file: LineFile) -> Result<LineFile> {
    let InitArguments { metric, value, higher_is_better, count, .. } = arguments;
    let of_value = |pattern: &String| MetricFile {
        name: name_in(pattern),
        value: Some(pattern.clone()),
        higher_is_better: *higher_is_better,
        count: *count,
        part: false,
    };
    let of_metric = |name: &String| MetricFile {
        name: name.clone(),
        value: None,
        higher_is_better: false,
        count: false,
        part: false,
    };
    let mut all: Vec<MetricFile> =
        value.iter().map(of_value).chain(metric.iter().map(of_metric)).collect();
    if all.is_empty() {
        return Ok(file);
    }
    let first = all.remove(0);
    let metric = first.value.is_none().then_some(first.name);
    let (value, higher_is_better) = (first.value, first.higher_is_better);
    Ok(LineFile { metric, value, higher_is_better, metrics: all, ..file })
}

/// A name for a number in the output: the words before it.
fn name_in(pattern: &str) -> String {
    let before = pattern.split("{}").next().unwrap_or_default();
    let name: String = before.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let name = name.split_whitespace().collect::<Vec<_>>().join("_");
    let is_taken = known_metric(&name).is_some();
    if name.is_empty() || is_taken { "value".to_string() } else { name }
}

/// A line with the metrics of its runs.
pub fn line(path: &Path, file: LineFile) -> Result<WatchedLine> {
    let mut metrics: Vec<LineMetric> = Vec::new();
    let mut extracts: Vec<Extract> = Vec::new();
    let first = MetricFile {
        name: match (&file.value, &file.metric) {
            (Some(pattern), _) => name_in(pattern),
            (None, Some(metric)) => metric.clone(),
            (None, None) => records::WALL.to_string(),
        },
        value: file.value.clone(),
        higher_is_better: file.higher_is_better,
        count: file.count,
        part: false,
    };
    for metric in std::iter::once(&first).chain(&file.metrics) {
        let extract = match &metric.value {
            Some(pattern) => {
                let better = if metric.higher_is_better { Better::Higher } else { Better::Lower };
                let kind = metric.count.then_some(MetricKind::Count);
                let (_, extract) = judged_by(Some(pattern), better, kind, &metric.name)?;
                extract.map(|extract| Extract { name: metric.name.clone(), ..extract })
            }
            None => None,
        };
        ensure!(
            extract.is_some() || known_metric(&metric.name).is_some(),
            "{} is no metric of knee, and has no `value` that says how it is read from the output (`knee list metrics`)",
            metric.name
        );
        let better = direction(&metric.name, extract.as_ref());
        extracts.extend(extract);
        metrics.push(LineMetric { name: metric.name.clone(), better, part: metric.part });
    }
    ensure!(
        file.smallest_effect > 0.0 && file.smallest_effect < 1.0,
        "smallest_effect is {}: it must be a share above 0 and below 1, as 0.02",
        file.smallest_effect
    );
    check_cases(&file)?;
    let line = WatchedLine { path: path.to_path_buf(), file, metrics, extracts };
    check_names(&line)?;
    Ok(line)
}

fn check_cases(file: &LineFile) -> Result<()> {
    let has_place = file.command.contains("{case}");
    ensure!(
        has_place || (file.case.is_empty() && file.cases.is_none()),
        "there are cases, but the command has no {{case}} that they stand for: {}",
        file.command
    );
    ensure!(
        !has_place || !file.case.is_empty() || file.cases.is_some(),
        "the command has {{case}}: name cases, with --case or `case = […]`, or list them with --cases"
    );
    ensure!(
        file.case.is_empty() || file.cases.is_none(),
        "the line has both `case` and `cases`: name the cases, or have them listed"
    );
    Ok(())
}

fn check_names(line: &WatchedLine) -> Result<()> {
    let series = line.file.series(&line.file.case, &line.metrics);
    for (at, one) in series.iter().enumerate() {
        ensure!(
            series[..at].iter().all(|other| other.name != one.name),
            "two series of the line are called '{}': give a metric or a case another name",
            one.name
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::name_in;

    #[test]
    fn a_number_is_called_by_the_words_before_it() {
        let check = |pattern: &str, expected: &str| assert_eq!(name_in(pattern), expected);
        check("ops/s: {}", "ops_s");
        check("p99 latency = {} us", "p99_latency");
        check("{}", "value");
    }
}
