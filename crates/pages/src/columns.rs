//! A distribution on a terminal: columns of characters from the first place to the last, as high as the probability
//! that lies there.

use reports::CurvePanel;
use text::Style;

const ROWS: usize = 8;
/// Left of the columns.
const MARGIN: usize = 8;

/// The drawing of the first line of a panel; empty without points.
pub fn columns(panel: &CurvePanel, style: Style) -> String {
    let points = panel.lines.first().map_or(&[][..], |line| &line.points);
    let [first, .., last] = points else { return String::new() };
    let places = (last.cpus - first.cpus + 1) as usize;
    let columns = places.min(style.width.saturating_sub(MARGIN + 4)).max(1);
    let mut heights = vec![0.0_f64; columns];
    for point in points {
        heights[(point.cpus - first.cpus) as usize * columns / places] += point.spread.mean;
    }
    let (full, half) = if style.terminal { ('█', '▄') } else { ('#', '.') };
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let label = match row + 1 {
            ROWS => "100 %",
            n if n * 2 == ROWS => "50 %",
            _ => "",
        };
        let cell = |height: &f64| match height * ROWS as f64 - row as f64 {
            over if over >= 0.75 => full,
            over if over >= 0.02 => half,
            _ => ' ',
        };
        let cells: String = heights.iter().map(cell).collect();
        text += format!("{label:>6} |{cells}").trim_end();
        text.push('\n');
    }
    let [first, last] = [first, last].map(|point| point.cpus.to_string());
    let gap = columns.saturating_sub(first.len() + last.len()).max(1);
    text += &format!("{:>MARGIN$}{}\n", "+", "-".repeat(columns));
    text + &format!("{:MARGIN$}{first}{:gap$}{last}  {}\n", "", "", panel.over)
}
