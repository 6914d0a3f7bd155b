//! A plot of rates over CPUs, drawn with characters: CPUs on a logarithmic scale, rates
//! from 0, the linear ideal as dots that leave at the top. A pure function from series to
//! text; equal series give equal text.

use host::terminal::painted;

use crate::Style;
use crate::quantity::short;

/// One line of the plot.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// CPUs and the value there, by CPUs ascending.
    pub points: Vec<(u32, f64)>,
    /// CPUs and the idle share there, in percent; shown below the axis.
    pub idle: Vec<(u32, f64)>,
}

/// What to draw.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What the values are.
    pub title: String,
    /// The lines; beyond four, symbols are used again.
    pub series: Vec<Series>,
    /// Value for each CPU that follows the linear ideal; absent where it has no meaning.
    pub ideal: Option<f64>,
    /// What the lines run over: "CPUs", "clients".
    pub over: String,
}

const ROWS: usize = 14;
const COLUMNS: usize = 72;
/// Left of the axis: labels and one blank.
const MARGIN: usize = 9;
/// Free columns at both ends of the axis, so that labels fit below the outermost points.
const INSET: usize = 2;
/// Labels on the value axis, at most, beside 0.
const STEPS: f64 = 5.0;

/// What one place of the drawing shows, and which series it belongs to.
#[derive(Clone, Copy, PartialEq)]
enum PlotMark {
    Nothing,
    Ideal,
    Between(usize),
    Point(usize),
    Points,
}

/// Number of lines that symbols can distinguish.
pub const SYMBOLS: usize = 4;

/// The symbols of one style.
struct Symbols {
    points: [char; SYMBOLS],
    between: [char; SYMBOLS],
    coincide: char,
    ideal: char,
    axis: [char; 4],
}

const PLAIN: Symbols = Symbols {
    points: ['o', 'x', '*', '@'],
    between: ['-', '~', '-', '~'],
    coincide: '#',
    ideal: '.',
    axis: ['|', '+', '-', '+'],
};

const TERMINAL: Symbols = Symbols {
    points: ['●', '▲', '■', '◆'],
    between: ['─', '╌', '─', '╌'],
    coincide: '✱',
    ideal: '·',
    axis: ['│', '└', '─', '┴'],
};

/// ANSI colours of the series: cyan, yellow, magenta, green.
const COLOURS: [u8; 4] = [36, 33, 35, 32];
const DIM: u8 = 2;

/// The plot as text; empty with fewer than two CPU counts or nothing above 0.
pub fn plot(plot: &Plot, style: Style) -> String {
    let Some(scale) = Scale::of(plot, style) else {
        return String::new();
    };
    let pen = Pen { style, symbols: if style.terminal { &TERMINAL } else { &PLAIN } };
    let mut text = format!("{:>MARGIN$}  {}\n", "", plot.title);
    for (row, marks) in draw(plot, &scale).iter().enumerate() {
        text += &pen.row(&scale.label(row), marks);
    }
    text += &pen.axis(&scale);
    // A longer name would touch the first label.
    let over: String = plot.over.chars().take(MARGIN).collect();
    text += &scale.below(&over, |cpus| Some(cpus.to_string()));
    for (index, series) in plot.series.iter().enumerate().filter(|(_, s)| !s.idle.is_empty()) {
        let idle = |cpus| {
            let (_, idle) = series.idle.iter().find(|(c, _)| *c == cpus)?;
            Some(format!("{idle:.0}"))
        };
        text += &scale.below(&format!("idle % {}", pen.symbols.points[index % SYMBOLS]), idle);
    }
    text + &pen.legend(plot)
}

/// Where values and CPU counts lie.
struct Scale {
    columns: usize,
    top: f64,
    step: f64,
    /// The CPU counts with measured points, ascending.
    cpus: Vec<u32>,
}

impl Scale {
    fn of(plot: &Plot, style: Style) -> Option<Scale> {
        let points = || plot.series.iter().flat_map(|s| &s.points);
        let mut cpus: Vec<u32> = points().map(|(cpus, _)| *cpus).collect();
        cpus.sort();
        cpus.dedup();
        let highest = points().map(|(_, value)| *value).fold(0.0, f64::max);
        let columns = style.width.min(COLUMNS).saturating_sub(MARGIN + 1);
        if cpus.len() < 2 || highest <= 0.0 || !highest.is_finite() || columns < 20 {
            return None;
        }
        let step = round_step(highest / STEPS);
        Some(Scale { columns, top: (highest / step).ceil() * step, step, cpus })
    }

    /// Column of a CPU count.
    fn column(&self, cpus: u32) -> usize {
        let (first, last) = (self.cpus[0] as f64, self.cpus[self.cpus.len() - 1] as f64);
        let share = (cpus as f64 / first).log2() / (last / first).log2();
        INSET + (share * (self.columns - 1 - 2 * INSET) as f64).round() as usize
    }

    /// CPU count at a column, a fraction between the measured ones.
    fn cpus_at(&self, column: usize) -> f64 {
        let (first, last) = (self.cpus[0] as f64, self.cpus[self.cpus.len() - 1] as f64);
        let share = (column - INSET) as f64 / (self.columns - 1 - 2 * INSET) as f64;
        first * (last / first).powf(share)
    }

    /// Row of a value, 0 at the top; nothing above the top.
    fn row(&self, value: f64) -> Option<usize> {
        let from_bottom = (value / self.top * (ROWS - 1) as f64).round();
        (0.0..ROWS as f64).contains(&from_bottom).then(|| ROWS - 1 - from_bottom as usize)
    }

    /// What stands left of a row.
    fn label(&self, row: usize) -> String {
        let ticks = (self.top / self.step).round() as usize;
        let mut values = (0..=ticks).map(|i| i as f64 * self.step);
        values.find(|value| self.row(*value) == Some(row)).map(short).unwrap_or_default()
    }

    /// A line below the axis with texts centred under the CPU counts. Where two would
    /// touch, only one stands; the first and the last always do.
    fn below(&self, label: &str, text: impl Fn(u32) -> Option<String>) -> String {
        let mut line = vec![' '; MARGIN + 1 + self.columns + INSET];
        let mut write = |at: usize, text: &str| {
            text.chars().enumerate().for_each(|(i, c)| line[at + i] = c);
        };
        write(0, label);
        for cpus in self.labelled() {
            let text = text(cpus).unwrap_or("-".to_string());
            write(MARGIN + 1 + self.column(cpus) - (text.chars().count() - 1) / 2, &text);
        }
        format!("{}\n", line.iter().collect::<String>().trim_end())
    }

    /// The CPU counts that have room for a label of three or more digits.
    fn labelled(&self) -> Vec<u32> {
        let room = self.cpus[self.cpus.len() - 1].to_string().len().max(3) + 1;
        let last = self.cpus[self.cpus.len() - 1];
        let mut kept = vec![self.cpus[0]];
        for &cpus in &self.cpus[1..] {
            let before = self.column(kept[kept.len() - 1]);
            let fits_before = self.column(cpus) >= before + room;
            let fits_last = cpus == last || self.column(last) >= self.column(cpus) + room;
            if cpus == last || fits_before && fits_last {
                kept.push(cpus);
            }
        }
        kept
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `least`.
pub fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    nice.into_iter().find(|step| *step >= least * 0.999_999).unwrap_or(10.0 * power)
}

/// The drawing itself: what is measured covers what is not.
fn draw(plot: &Plot, scale: &Scale) -> Vec<Vec<PlotMark>> {
    let mut marks = vec![vec![PlotMark::Nothing; scale.columns]; ROWS];
    let per_cpu = plot.ideal.unwrap_or(f64::INFINITY);
    for column in INSET..scale.columns - INSET {
        if let Some(place) = at(&mut marks, scale, column, per_cpu * scale.cpus_at(column)) {
            *place = PlotMark::Ideal;
        }
    }
    for (index, series) in plot.series.iter().enumerate() {
        for pair in series.points.windows(2) {
            join(&mut marks, scale, pair[0], pair[1], PlotMark::Between(index));
        }
    }
    for (index, series) in plot.series.iter().enumerate() {
        for &(cpus, value) in &series.points {
            let Some(place) = at(&mut marks, scale, scale.column(cpus), value) else { continue };
            *place = match *place {
                PlotMark::Point(other) if other != index => PlotMark::Points,
                PlotMark::Points => PlotMark::Points,
                _ => PlotMark::Point(index),
            };
        }
    }
    marks
}

/// The place of a value in a column; none above the top.
fn at<'a>(
    marks: &'a mut [Vec<PlotMark>],
    scale: &Scale,
    column: usize,
    value: f64,
) -> Option<&'a mut PlotMark> {
    scale.row(value).map(|row| &mut marks[row][column])
}

/// Marks on the straight line between two points.
fn join(
    marks: &mut [Vec<PlotMark>],
    scale: &Scale,
    from: (u32, f64),
    to: (u32, f64),
    mark: PlotMark,
) {
    let (start, end) = (scale.column(from.0), scale.column(to.0));
    for column in start + 1..end {
        let share = (column - start) as f64 / (end - start) as f64;
        let value = from.1 + share * (to.1 - from.1);
        if let Some(place @ (PlotMark::Nothing | PlotMark::Ideal)) = at(marks, scale, column, value)
        {
            *place = mark;
        }
    }
}

/// Puts marks on paper.
struct Pen {
    style: Style,
    symbols: &'static Symbols,
}

impl Pen {
    fn row(&self, label: &str, marks: &[PlotMark]) -> String {
        let end = marks.iter().rposition(|m| *m != PlotMark::Nothing).map_or(0, |last| last + 1);
        let equal = marks[..end].chunk_by(|a, b| a == b);
        let drawn: String = equal.map(|run| self.marks(run[0], run.len())).collect();
        format!("{label:>0$} {1}{drawn}\n", MARGIN - 1, self.symbols.axis[0])
    }

    /// A mark so many times, in its colour.
    fn marks(&self, mark: PlotMark, times: usize) -> String {
        let (symbol, colour) = match mark {
            PlotMark::Nothing => (' ', None),
            PlotMark::Ideal => (self.symbols.ideal, Some(DIM)),
            PlotMark::Between(series) => {
                (self.symbols.between[series % 4], Some(COLOURS[series % 4]))
            }
            PlotMark::Point(series) => (self.symbols.points[series % 4], Some(COLOURS[series % 4])),
            PlotMark::Points => (self.symbols.coincide, None),
        };
        let symbols = symbol.to_string().repeat(times);
        match colour.filter(|_| self.style.color) {
            Some(colour) => painted(&symbols, colour),
            None => symbols,
        }
    }

    /// The axis, with a tick at each measured CPU count.
    fn axis(&self, scale: &Scale) -> String {
        let [_, corner, line, tick] = self.symbols.axis;
        let mut axis = vec![line; scale.columns];
        scale.cpus.iter().for_each(|cpus| axis[scale.column(*cpus)] = tick);
        format!("{:>MARGIN$}{corner}{}\n", "", axis.iter().collect::<String>())
    }

    fn legend(&self, plot: &Plot) -> String {
        let series = plot.series.iter().enumerate();
        let mut entries: Vec<String> = series
            .map(|(i, s)| format!("{} {}", self.marks(PlotMark::Point(i), 1), s.name))
            .collect();
        if entries.len() > 1 {
            entries.push(format!("{} both", self.symbols.coincide));
        }
        if plot.ideal.is_some() {
            entries.push(format!("{} linear ideal", self.marks(PlotMark::Ideal, 1)));
        }
        format!("{:>MARGIN$}  {}\n", "", entries.join("   "))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(drawing: &Plot, style: Style, expected: Expect) {
        let text = host::terminal::shown(&plot(drawing, style));
        assert!(text.lines().all(|line| line == line.trim_end()));
        expected.assert_eq(&text);
    }

    fn two_forms() -> Plot {
        let series = |name: &str, points: &[(u32, f64)], idle: &[(u32, f64)]| Series {
            name: name.to_string(),
            points: points.into(),
            idle: idle.into(),
        };
        let processes = [(1, 410e3), (2, 790e3), (4, 1.21e6), (8, 0.95e6), (16, 0.4e6)];
        let threads = [(1, 400e3), (2, 300e3), (4, 200e3), (8, 180e3), (16, 170e3)];
        Plot {
            title: "operations/s".to_string(),
            series: vec![
                series("processes", &processes, &[(1, 0.0), (2, 0.2), (4, 3.4), (8, 51.0)]),
                series("threads", &threads, &[]),
            ],
            ideal: Some(410e3),
            over: "CPUs".to_string(),
        }
    }

    const TERMINAL: Style = Style { width: 60, terminal: true, color: true };

    #[test]
    fn two_forms_in_plain_ascii() {
        check(
            &two_forms(),
            Style::PLAIN,
            expect![[r#"
                       operations/s
                1.5M |                            ..
                     |                           .
                     |                         ..
                     |                       ..  ----o------
                  1M |                    ...----           ------
                     |                  .----                     -o--
                     |               -o--                             ---
                     |           ----                                    ---
                     |       ----                                           --
                500k |  o----                                                 ---
                     |  x~~~~~~~~~~~~~x~                                         o
                     |                  ~~~~~~~~~~~~~x~~~~~~~~~~~~~x~~~~~~~~~
                     |                                                       ~~~~x
                   0 |
                     +--+-------------+--------------+-------------+-------------+--
            CPUs        1             2              4             8             16
            idle % o    0             0              3             51            -
                       o processes   x threads   # both   . linear ideal
        "#]],
        );
    }

    #[test]
    fn two_forms_on_a_terminal() {
        check(
            &two_forms(),
            TERMINAL,
            expect![[r#"
                       operations/s
                1.5M │                       [2m·[0m
                     │                      [2m·[0m
                     │                    [2m··[0m
                     │                  [2m··[0m  [36m───[0m[36m●[0m[36m────[0m
                  1M │                 [2m·[0m [36m───[0m        [36m─────[0m
                     │               [2m·[0m[36m───[0m                [36m─[0m[36m●[0m[36m─[0m
                     │            [36m─[0m[36m●[0m[36m──[0m                      [36m───[0m
                     │         [36m───[0m                             [36m──[0m
                     │      [36m───[0m[2m·[0m                                 [36m──[0m
                500k │  [36m●[0m[36m───[0m                                       [36m──[0m
                     │  [33m▲[0m[33m╌╌╌╌╌╌╌╌╌╌[0m[33m▲[0m[33m╌[0m                                [36m●[0m
                     │               [33m╌╌╌╌╌╌╌╌╌╌[0m[33m▲[0m[33m╌╌╌╌╌╌╌╌╌╌[0m[33m▲[0m[33m╌╌╌╌╌╌╌[0m
                     │                                            [33m╌╌╌[0m[33m▲[0m
                   0 │
                     └──┴──────────┴───────────┴──────────┴──────────┴──
            CPUs        1          2           4          8          16
            idle % ●    0          0           3          51         -
                       [36m●[0m processes   [33m▲[0m threads   ✱ both   [2m·[0m linear ideal
        "#]],
        );
    }

    #[test]
    fn many_cpu_counts_label_only_where_there_is_room() {
        let points: Vec<(u32, f64)> = (1..=96).map(|cpus| (cpus, 1000.0)).collect();
        let series = vec![Series { name: "processes".to_string(), points, idle: Vec::new() }];
        let dense = Plot {
            title: "operations/s".to_string(),
            series,
            ideal: None,
            over: "CPUs".to_string(),
        };
        check(
            &dense,
            Style::PLAIN,
            expect![[r#"
                       operations/s
                  1k |  o--------o----o--o--o-o-o-oo-ooooooooooooooooooooooooooooo
                     |
                     |
                 800 |
                     |
                 600 |
                     |
                     |
                 400 |
                     |
                 200 |
                     |
                     |
                   0 |
                     +--+--------+----+--+--+-+-+-++-+++++++++++++++++++++++++++++--
            CPUs        1        2    3     5   7    10  14  19  26  36  49  67  96
                       o processes
        "#]],
        );
    }

    #[test]
    fn one_cpu_count_or_only_zeros_give_no_plot() {
        let mut one = two_forms();
        one.series.iter_mut().for_each(|series| series.points.truncate(1));
        check(&one, Style::PLAIN, expect![""]);
        let mut none = two_forms();
        none.series.iter_mut().flat_map(|s| &mut s.points).for_each(|point| point.1 = 0.0);
        check(&none, Style::PLAIN, expect![""]);
    }
}
