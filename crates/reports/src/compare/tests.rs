//! Every layout of the sample comparisons, as a mail or a terminal gets it.

use analysis::{Comparison, Spread};
use clap::ValueEnum;
use expect_test::Expect;
use host::terminal::shown;
use text::Style;

use crate::compare::tests::fixtures::{
    attributes, creation, curve, fleet, locks, oddities, repairs,
};
use crate::compare::{Layout, comparison};

mod answers;
mod fixtures;
mod lkp;
mod recorded;
mod tables;

const AGAIN: &str = "knee compare last --layout lkp";
const MAIL: Style = Style { width: 100, terminal: false, color: false };
const NARROW_MAIL: Style = Style { width: 72, terminal: false, color: false };
const TERMINAL: Style = Style { width: 100, terminal: true, color: true };
const NARROW: Style = Style { width: 72, terminal: true, color: true };

fn check(sample: &Comparison, layout: Layout, style: Style, expected: Expect) {
    let text = shown(&comparison(sample, layout, AGAIN, style));
    expected.assert_eq(&text);
}

/// A line without the codes for bold and colours.
fn without_codes(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[test]
fn what_all_layouts_promise() {
    let samples = [attributes(), creation(), curve(), fleet(), locks(), oddities(), repairs()];
    let styles = [MAIL, NARROW_MAIL, TERMINAL, NARROW];
    for (i, sample) in samples.iter().enumerate() {
        for layout in Layout::value_variants() {
            for style in styles {
                let text = shown(&comparison(sample, *layout, AGAIN, style));
                let which = format!("sample {i}, {layout:?}, {style:?}");
                for line in text.lines() {
                    assert_eq!(line, line.trim_end(), "{which}");
                    let plain = without_codes(line);
                    assert!(plain.chars().count() <= style.width, "{which}: {plain}");
                }
                assert!(style.terminal || text.is_ascii(), "{which}");
                assert!(text.contains("rerun       knee compare"), "{which}");
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words.contains("95 % interval"), "{which}");
                assert!(words.contains("how: change = "), "{which}");
            }
        }
    }
}

#[test]
fn nothing_in_common_is_said_and_no_panic() {
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
        for layout in Layout::value_variants() {
            for style in [NARROW_MAIL, TERMINAL] {
                let text = comparison(&sample, *layout, "", style);
                assert!(!text.contains("rerun  ") && !text.contains("- rerun"));
            }
        }
    }
}
