//! A plot of changes along a line of points, drawn with characters that any mail survives. A pure function.

use crate::plot::round_step;
use crate::quantity::signed;

/// A point of the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePoint {
    /// Its value as a share, such as 0.05; nothing is drawn without one.
    pub value: Option<f64>,
    /// What stands below it.
    pub mark: Option<char>,
}

const ROWS: usize = 9;
/// Labels and the axis.
const MARGIN: usize = 10;
/// More points than this do not fit: the newest are drawn.
const POINTS_MAX: usize = 60;

/// The plot as text, a point in each column or in every second; empty with fewer than two values. In a longer line, a column
/// has the mean of neighbouring points and their marks.
pub fn line_plot(points: &[LinePoint]) -> String {
    let points = &thinned(points);
    let values: Vec<f64> = points.iter().filter_map(|point| point.value).collect();
    if values.len() < 2 {
        return String::new();
    }
    let low = values.iter().copied().fold(0.0, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let step = round_step(((high - low) / (ROWS - 1) as f64).max(0.001));
    let bottom = (low / step).floor() as i64;
    let top = ((high / step).ceil() as i64).max(bottom + 1);
    let width = if points.len() > POINTS_MAX / 2 { 1 } else { 2 };
    let mut text = String::new();
    for row in (bottom..=top).rev() {
        let label = signed(100.0 * row as f64 * step, decimals(step)) + " %";
        let mut line = format!("{label:>MARGIN$} |");
        for point in points {
            let is_here = point.value.is_some_and(|value| (value / step).round() as i64 == row);
            line += &format!("{:>width$}", if is_here { "o" } else { "" });
        }
        text += &(line.trim_end().to_string() + "\n");
    }
    text += &format!("{:MARGIN$} +{}\n", "", "-".repeat(width * points.len()));
    let marks = points.iter().map(|point| format!("{:>width$}", point.mark.unwrap_or(' ')));
    let marks = format!("{:MARGIN$}  {}", "", marks.collect::<String>());
    if marks.trim().is_empty() { text } else { text + marks.trim_end() + "\n" }
}

/// A point for each column.
fn thinned(points: &[LinePoint]) -> Vec<LinePoint> {
    let together = points.len().div_ceil(POINTS_MAX).max(1);
    let column = |points: &[LinePoint]| {
        let values: Vec<f64> = points.iter().filter_map(|point| point.value).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        // A change is more than a doubt.
        let mark = points.iter().filter_map(|point| point.mark).max();
        LinePoint { value: (!values.is_empty()).then_some(mean), mark }
    };
    points.chunks(together).map(column).collect()
}

/// Decimals of a percentage in steps of this share.
fn decimals(step: f64) -> usize {
    if step < 0.01 { 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::{LinePoint, line_plot};

    #[test]
    fn a_step_is_seen_with_its_mark() {
        let point = |at: usize| LinePoint {
            value: (at != 2).then_some(if at < 4 { 0.0 } else { 0.05 }),
            mark: (at == 4).then_some('^'),
        };
        let points: Vec<LinePoint> = (0..6).map(point).collect();
        let text = line_plot(&points);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "      +5 % |         o o", "{text}");
        assert_eq!(lines[5], "      +0 % | o o   o", "{text}");
        assert_eq!(lines[6], "           +------------", "{text}");
        assert_eq!(lines[7], "                     ^", "{text}");
        assert_eq!(line_plot(&points[..1]), "");
    }

    #[test]
    fn a_long_line_is_drawn_whole() {
        let point = |at: usize| LinePoint {
            value: Some(if at < 500 { 0.0 } else { 0.05 }),
            mark: (at == 500).then_some('^').or((at == 501).then_some('?')),
        };
        let points: Vec<LinePoint> = (0..1000).map(point).collect();
        let text = line_plot(&points);
        assert_eq!(text.matches('o').count(), 59, "{text}");
        assert_eq!(text.matches('^').count(), 1, "{text}");
        assert!(!text.contains('?'), "{text}");
    }
}
