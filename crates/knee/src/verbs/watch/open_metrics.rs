//! A line as OpenMetrics text, which Prometheus and its like collect: the newest point of each series, and what is open.

use std::fmt::Write;

use bisection::watch::Fate;
use bisector::{WatchAnswer, WatchSeries, WatchValue};

/// Labels of a sample, each a name and a value.
type Labels<'a> = Vec<(&'a str, &'a str)>;

/// A family of samples.
struct Family<'a> {
    name: &'a str,
    /// `gauge` or `info`.
    kind: &'a str,
    /// Names with a unit end with it; `None` for numbers of things.
    unit: Option<&'a str>,
    help: &'a str,
    samples: Vec<(Labels<'a>, f64)>,
}

/// The text, which ends with its end mark.
pub fn text(answer: &WatchAnswer) -> String {
    let mut families = of_line(answer);
    families.extend(of_series(answer));
    let families = families.iter().filter(|family| !family.samples.is_empty());
    families.map(family).collect::<String>() + "# EOF\n"
}

/// Points and changes of the whole line.
fn of_line(answer: &WatchAnswer) -> Vec<Family<'_>> {
    let line = ("line", answer.line.as_str());
    let gauge = |name, help, samples| Family { name, kind: "gauge", unit: None, help, samples };
    let newest = answer.points.last();
    let info = newest.map(|point| {
        let labels = vec![line, ("commit", &*point.commit), ("subject", &*point.subject)];
        ([labels, vec![("date", &*point.date)]].concat(), 1.0)
    });
    let fates = [
        ("open", Fate::Open),
        ("gone_again", Fate::GoneAgain),
        ("moved", Fate::Moved),
        ("accepted", Fate::Accepted),
        ("false", Fate::False),
        ("not_confirmed", Fate::NotConfirmed),
    ];
    let changes = fates.map(|(name, fate)| {
        let number = answer.changes.iter().filter(|change| change.is == fate).count();
        (vec![line, ("is", name)], number as f64)
    });
    vec![
        Family {
            name: "knee_watch_newest_point",
            kind: "info",
            unit: None,
            help: "The newest point of the line",
            samples: info.into_iter().collect(),
        },
        gauge(
            "knee_watch_points",
            "Points of the line",
            vec![(vec![line], answer.points.len() as f64)],
        ),
        gauge(
            "knee_watch_open_for_the_worse",
            "Confirmed changes for the worse that nobody has answered",
            vec![(vec![line], answer.open().count() as f64)],
        ),
        gauge("knee_watch_changes", "Alarms, by what became of them", changes.into()),
    ]
}

/// The newest value of each series, with its interval and its runs.
fn of_series(answer: &WatchAnswer) -> [Family<'_>; 4] {
    let samples = |value: &dyn Fn(&WatchValue) -> Option<f64>| {
        let sample = |series| Some((labels(answer, series), value(newest(series)?)?));
        answer.series.iter().filter_map(sample).collect()
    };
    let ratio =
        |name, help, samples| Family { name, kind: "gauge", unit: Some("ratio"), help, samples };
    [
        ratio(
            "knee_watch_change_ratio",
            "Change of the newest point against the anchor, as a share",
            samples(&|value| Some(value.change)),
        ),
        ratio(
            "knee_watch_change_low_ratio",
            "Lower end of its 95 % interval",
            samples(&|value| value.interval().map(|(low, _)| low)),
        ),
        ratio(
            "knee_watch_change_high_ratio",
            "Upper end of its 95 % interval",
            samples(&|value| value.interval().map(|(_, high)| high)),
        ),
        Family {
            name: "knee_watch_runs",
            kind: "gauge",
            unit: None,
            help: "Runs of its build that count",
            samples: samples(&|value| Some(f64::from(value.runs))),
        },
    ]
}

fn newest(series: &WatchSeries) -> Option<&WatchValue> {
    series.values.iter().rev().find_map(Option::as_ref)
}

fn labels<'a>(answer: &'a WatchAnswer, series: &'a WatchSeries) -> Labels<'a> {
    let series = &series.series;
    let better = ("better", series.better.name());
    let mut labels = vec![("line", &*answer.line), ("metric", &*series.metric), better];
    labels.extend(series.case.as_deref().map(|case| ("case", case)));
    labels
}

fn family(family: &Family) -> String {
    let Family { name, kind, unit, help, samples } = family;
    let mut text = format!("# TYPE {name} {kind}\n");
    if let Some(unit) = unit {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {}", escaped(help));
    let end = if *kind == "info" { "_info" } else { "" };
    for (labels, value) in samples {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(text, "{name}{end}{{{}}} {value}", labels.join(","));
    }
    text
}

/// A text in which nothing ends a value of a label or a line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use bisection::watch::Score;
    use bisector::{LineSeries, WatchPoint};
    use expect_test::expect;
    use records::Better;

    use super::*;

    fn point(commit: &str, subject: &str) -> WatchPoint {
        WatchPoint {
            commit: commit.to_string(),
            subject: subject.to_string(),
            date: "2026-11-29".to_string(),
            measured: String::new(),
            same_build_as: None,
            records: Vec::new(),
        }
    }

    fn series(case: Option<&str>, values: Vec<Option<WatchValue>>) -> WatchSeries {
        let series = LineSeries {
            name: "wall_s".to_string(),
            case: case.map(str::to_string),
            metric: "wall_s".to_string(),
            better: Better::Lower,
            part_of: None,
        };
        WatchSeries { series, values }
    }

    fn answer() -> WatchAnswer {
        let value = WatchValue { change: 0.0625, half_width: Some(0.25), runs: 12 };
        let alone = WatchValue { change: -0.5, half_width: None, runs: 1 };
        WatchAnswer {
            line: "line.toml".to_string(),
            anchor: "a0".to_string(),
            smallest_effect: 0.02,
            points: vec![point("a0", "First"), point("b1", "Say \"no\" to C:\\\nand more")],
            series: vec![
                series(Some("small"), vec![None, Some(value)]),
                series(Some("large"), vec![Some(alone), None]),
                series(Some("new"), vec![None, None]),
            ],
            changes: Vec::new(),
            score: Score::default(),
            one_sided: false,
        }
    }

    #[test]
    fn a_line_is_gauges_of_its_newest_values() {
        expect![[r##"
            # TYPE knee_watch_newest_point info
            # HELP knee_watch_newest_point The newest point of the line
            knee_watch_newest_point_info{line="line.toml",commit="b1",subject="Say \"no\" to C:\\\nand more",date="2026-11-29"} 1
            # TYPE knee_watch_points gauge
            # HELP knee_watch_points Points of the line
            knee_watch_points{line="line.toml"} 2
            # TYPE knee_watch_open_for_the_worse gauge
            # HELP knee_watch_open_for_the_worse Confirmed changes for the worse that nobody has answered
            knee_watch_open_for_the_worse{line="line.toml"} 0
            # TYPE knee_watch_changes gauge
            # HELP knee_watch_changes Alarms, by what became of them
            knee_watch_changes{line="line.toml",is="open"} 0
            knee_watch_changes{line="line.toml",is="gone_again"} 0
            knee_watch_changes{line="line.toml",is="moved"} 0
            knee_watch_changes{line="line.toml",is="accepted"} 0
            knee_watch_changes{line="line.toml",is="false"} 0
            knee_watch_changes{line="line.toml",is="not_confirmed"} 0
            # TYPE knee_watch_change_ratio gauge
            # UNIT knee_watch_change_ratio ratio
            # HELP knee_watch_change_ratio Change of the newest point against the anchor, as a share
            knee_watch_change_ratio{line="line.toml",metric="wall_s",better="lower",case="small"} 0.0625
            knee_watch_change_ratio{line="line.toml",metric="wall_s",better="lower",case="large"} -0.5
            # TYPE knee_watch_change_low_ratio gauge
            # UNIT knee_watch_change_low_ratio ratio
            # HELP knee_watch_change_low_ratio Lower end of its 95 % interval
            knee_watch_change_low_ratio{line="line.toml",metric="wall_s",better="lower",case="small"} -0.1725241679866323
            # TYPE knee_watch_change_high_ratio gauge
            # UNIT knee_watch_change_high_ratio ratio
            # HELP knee_watch_change_high_ratio Upper end of its 95 % interval
            knee_watch_change_high_ratio{line="line.toml",metric="wall_s",better="lower",case="small"} 0.36427700523072537
            # TYPE knee_watch_runs gauge
            # HELP knee_watch_runs Runs of its build that count
            knee_watch_runs{line="line.toml",metric="wall_s",better="lower",case="small"} 12
            knee_watch_runs{line="line.toml",metric="wall_s",better="lower",case="large"} 1
            # EOF
        "##]]
        .assert_eq(&text(&answer()));
    }

    #[test]
    fn the_rules_of_the_format_hold() {
        let text = text(&answer());
        let lines: Vec<&str> = text.lines().collect();
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
        let mut known: Vec<&str> = Vec::new();
        for line in &lines[..lines.len() - 1] {
            assert!(!line.is_empty() && !line.starts_with(' '), "{line}");
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().unwrap();
                assert!(!known.contains(&name), "{name} has two parts");
                known.push(name);
                continue;
            }
            // All that follows is of that family.
            let family = known.last().expect("a type comes first");
            if let Some(rest) = line.strip_prefix("# UNIT ") {
                let (name, unit) = rest.split_once(' ').unwrap();
                assert!(name == *family && name.ends_with(&format!("_{unit}")), "{line}");
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                assert!(rest.starts_with(&format!("{family} ")), "{line}");
            } else {
                let (name, rest) = line.split_once('{').unwrap();
                assert!(name == *family || name == format!("{family}_info"), "{line}");
                let (_, value) = rest.rsplit_once("} ").unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
}
