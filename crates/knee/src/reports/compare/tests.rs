//! Every layout of the sample comparisons, as a mail or a terminal gets it.

use analysis::Comparison;
use expect_test::Expect;

use super::super::Style;
use super::sample::{attributes, creation, curve, locks, oddities, repairs};
use super::{Layout, comparison};

mod tables;
mod verdicts;

const AGAIN: &str = "knee compare last --layout verdicts";
const MAIL: Style = Style { width: 100, terminal: false };
const NARROW_MAIL: Style = Style { width: 72, terminal: false };
const TERMINAL: Style = Style { width: 100, terminal: true };
const NARROW: Style = Style { width: 72, terminal: true };

fn check(sample: &Comparison, layout: Layout, style: Style, expected: Expect) {
    let text = comparison(sample, layout, AGAIN, style);
    expected.assert_eq(&text);
}

#[test]
fn what_all_layouts_promise() {
    let samples = [attributes(), creation(), curve(), locks(), oddities(), repairs()];
    let layouts =
        [Layout::Verdicts, Layout::Lkp, Layout::MeanStddev, Layout::Matrix, Layout::Passes];
    let styles = [MAIL, NARROW_MAIL, TERMINAL, NARROW];
    for (i, sample) in samples.iter().enumerate() {
        for layout in layouts {
            for style in styles {
                let text = comparison(sample, layout, AGAIN, style);
                let which = format!("sample {i}, {layout:?}, {style:?}");
                for line in text.lines() {
                    assert_eq!(line, line.trim_end(), "{which}");
                    let bold = ["\x1b[1m", "\x1b[0m"];
                    let plain = bold.iter().fold(line.to_string(), |l, code| l.replace(code, ""));
                    assert!(plain.chars().count() <= style.width, "{which}: {plain}");
                }
                assert!(style.terminal || text.is_ascii(), "{which}");
                assert!(text.contains("again       knee compare"), "{which}");
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words.contains("95 % interval"), "{which}");
                assert!(words.contains("how: change = "), "{which}");
            }
        }
    }
}

#[test]
fn programs_get_everything() {
    let text = comparison(&creation(), Layout::Json, AGAIN, MAIL);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["cells"][0]["metrics"][0]["contrasts"][0]["method"], "welch");
    assert_eq!(value["cells"][0]["passes"][1][3]["metrics"]["fs_mark.files_per_s"], 300592.0);
}
