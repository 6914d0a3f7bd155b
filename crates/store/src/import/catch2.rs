//! Benchmarks of Catch2: what its console reporter prints, and its XML. Source: `catch_reporter_console.cpp` and
//! `catch_reporter_xml.cpp` of Catch2 2.11 to 3.5.

use anyhow::{Context, Result};
use records::Better::{Lower, Neither};
use records::ReplicationUnit;

use crate::import::lines::{Line, Tool};
use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const LACKS: &[&str] = &[
    "each value is an estimate from many samples, which are not in the output: a benchmark counts as one run",
    "CPUs, host and kernel are not recorded",
];

/// The console's table: three lines for each benchmark.
const CONSOLE: Tool = Tool {
    name: "catch2",
    marks: &["benchmark name", "samples", "iterations", "low mean", "low std dev"],
    primary: "catch2.time_ns",
    lacks: LACKS,
    lines: &[
        Line::new("@ # # #ns", &[("", "", Neither), ("", "", Neither), ("", "", Neither)])
            .then("mean"),
        Line::new(
            "#ns #ns #ns",
            &[
                ("catch2.time_ns", "ns", Lower),
                ("catch2.time_low_ns", "ns", Neither),
                ("catch2.time_high_ns", "ns", Neither),
            ],
        )
        .within("mean")
        .then("deviation"),
        Line::new(
            "#ns #ns #ns",
            &[
                ("catch2.stddev_ns", "ns", Lower),
                ("catch2.stddev_low_ns", "ns", Neither),
                ("catch2.stddev_high_ns", "ns", Neither),
            ],
        )
        .within("deviation")
        .then("done"),
    ],
};

pub fn recognise(text: &str) -> bool {
    is_xml(text) || CONSOLE.recognise(text)
}

fn is_xml(text: &str) -> bool {
    text.contains("<BenchmarkResults ") && text.contains("<mean ")
}

pub fn read(file: &File) -> Result<Foreign> {
    if !is_xml(file.text) {
        return CONSOLE.read(file);
    }
    let mut foreign = Foreign::new("catch2.time_ns", ReplicationUnit::Run, LACKS);
    for (line, part) in file.text.split("<BenchmarkResults ").enumerate().skip(1) {
        let (part, rest) = part.split_once("</BenchmarkResults>").unwrap_or((part, ""));
        let run = benchmark(&mut foreign, part);
        foreign.runs.push(run.with_context(|| format!("benchmark {line}"))?);
        foreign.leave("other elements", &rest.replace(['"', '='], " "));
    }
    let above = file.text.split("<BenchmarkResults ").next().unwrap_or_default();
    foreign.leave("other elements", &above.replace(['"', '='], " "));
    Ok(foreign)
}

fn benchmark(foreign: &mut Foreign, part: &str) -> Result<ForeignRun> {
    let name = attribute(part, "name").context("it has no name")?;
    let cell = ForeignCell::new(format!("catch2.{}", unescaped(name)));
    let mut run = ForeignRun { cell, ..ForeignRun::default() };
    let elements = [("<mean ", "time"), ("<standardDeviation ", "stddev")];
    for (element, what) in elements {
        let Some((_, rest)) = part.split_once(element) else { continue };
        let rest = rest.split('>').next().unwrap_or_default();
        let values = [
            ("value", "", Lower),
            ("lowerBound", "_low", Neither),
            ("upperBound", "_high", Neither),
        ];
        for (key, ending, better) in values {
            let value = attribute(rest, key).and_then(|value| value.parse::<f64>().ok());
            let metric = format!("catch2.{what}{ending}_ns");
            if let Some(value) = value.filter(|value| value.is_finite()) {
                foreign.describe(&metric, "ns", better);
                run.values.insert(metric, value);
            }
        }
        *foreign.unread.entry("confidence levels".to_string()).or_default() += 1;
    }
    let head = part.split('>').next().unwrap_or_default();
    let counts = ["samples", "resamples", "iterations", "clockResolution", "estimatedDuration"];
    let settings = counts.iter().filter(|key| attribute(head, key).is_some()).count();
    *foreign.unread.entry("samples and iterations".to_string()).or_default() += settings;
    if let Some((_, outliers)) = part.split_once("<outliers ") {
        foreign.leave("outliers", &outliers.replace(['"', '='], " "));
    }
    if run.values.is_empty() {
        run.failed = Some("the benchmark has no mean: did it fail?".to_string());
    }
    Ok(run)
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let begin = format!("{name}=\"");
    let mut at = element.match_indices(&begin).map(|(at, _)| at);
    let is_whole = |at: &usize| *at == 0 || element[..*at].ends_with(char::is_whitespace);
    let start = at.find(is_whole)? + begin.len();
    element[start..].split('"').next()
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&apos;", "'").replace("&amp;", "&")
}
