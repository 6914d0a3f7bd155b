//! A change and its interval as a small drawing, on a scale that all rows of a table share.

use analysis::{Contrast, Scale};

use crate::html::Markup;
use crate::page::RowMark;

const WIDTH: f64 = 132.0;
const HEIGHT: f64 = 18.0;
/// Free on both sides, for dots and marks.
const INSET: f64 = 6.0;

/// The scale of a table's changes: the largest of their bounds, as a share. `None` where no row has a
/// relative change.
pub fn reach(marks: &[RowMark]) -> Option<f64> {
    let bounds = marks.iter().filter_map(|mark| relative(mark.contrast.as_ref()?));
    let bounds = bounds.flat_map(|(change, (low, high))| [change, low, high]);
    let farthest = bounds.map(f64::abs).filter(|bound| bound.is_finite()).reduce(f64::max)?;
    let effect = marks.iter().map(|mark| mark.smallest_effect).fold(0.0, f64::max);
    Some(farthest.max(1.5 * effect))
}

fn relative(contrast: &Contrast) -> Option<(f64, (f64, f64))> {
    let change = contrast.change.filter(|_| contrast.scale == Scale::Relative)?;
    Some((change, contrast.interval.unwrap_or((change, change))))
}

/// The drawing of a row; nothing where its change is not relative.
pub fn interval(markup: &mut Markup, mark: &RowMark, reach: f64) {
    let Some((change, (low, high))) = mark.contrast.as_ref().and_then(relative) else { return };
    let x = |share: f64| {
        let half = WIDTH / 2.0 - INSET;
        WIDTH / 2.0 + half * (share / reach).clamp(-1.0, 1.0)
    };
    let number = |value: f64| format!("{value:.1}");
    let [width, height] = [WIDTH, HEIGHT].map(|size| format!("{size:.0}"));
    let class = format!("interval {}", mark.tone.name());
    let attributes = [
        ("class", class.as_str()),
        ("width", width.as_str()),
        ("height", height.as_str()),
        ("aria-hidden", "true"),
    ];
    let (middle, effect) = (HEIGHT / 2.0, mark.smallest_effect);
    markup.element("svg", &attributes, |markup| {
        let zone = [
            ("class", "zone"),
            ("x", &number(x(-effect))),
            ("y", "0"),
            ("width", &number(x(effect) - x(-effect))),
            ("height", height.as_str()),
        ];
        markup.empty("rect", &zone);
        let mut line = |class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)| {
            let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
            markup.empty(
                "line",
                &[("class", class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)],
            );
        };
        line("zero", (x(0.0), 0.0), (x(0.0), HEIGHT));
        line("bar", (x(low), middle), (x(high), middle));
        for bound in [low, high] {
            line("bar", (x(bound), middle - 4.0), (x(bound), middle + 4.0));
        }
        let (cx, cy) = (number(x(change)), number(middle));
        markup.empty("circle", &[("class", "dot"), ("cx", &cx), ("cy", &cy), ("r", "3.5")]);
    });
}
