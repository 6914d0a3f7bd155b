//! Curves over CPUs as inline SVG that fits any width: CPUs on a logarithmic scale, values from 0 or from the lowest
//! below it, a line, a band and marks of its own for each variant and form; below it the idle share.
//!
//! Letters and marks keep their size while lines stretch: the drawing has a scale of its own inside, and
//! everything else stands at a percentage of the width.

use analysis::Axis;
use reports::{CurvePanel, OVER_CPUS, PanelLine, PanelPoint};
use text::plot::round_step;
use text::quantity::short;

use crate::html::Markup;
use crate::html::markup::Attributes;
use crate::html::table::how_to_read;
use crate::reading;

/// Height of the field in pixels, and of the field of idle shares.
const HEIGHT: f64 = 260.0;
const IDLE_HEIGHT: f64 = 48.0;
/// Free above the highest value.
const TOP: f64 = 14.0;
/// Below the axis, for numbers of CPUs.
const BELOW: f64 = 24.0;
/// Free below these, for what the curves run over where that is more than a word.
const NAME_BELOW: f64 = 18.0;
/// Letters that fit left of the numbers of CPUs.
const SHORT: usize = 8;
/// Free at both ends, in percent of the width.
const INSET: f64 = 4.0;
/// Labels on the value axis, at most, beside 0.
const STEPS: f64 = 5.0;
/// Labels on the axis of CPUs, at most: more would touch on a phone.
const LABELS_MAX: usize = 9;
/// Points of a line that get marks, at most.
const MARKS_MAX: usize = 300;
/// How many colours and marks tell lines apart.
pub const COLOURS: usize = 12;
/// Marks of 7 pixels around their middle.
const MARKS: [&str; COLOURS] = [
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "M0 -4.2L4 3.2L-4 3.2z",
    "M-3.3 -3.3H3.3V3.3H-3.3z",
    "M0 -4.6L4.6 0L0 4.6L-4.6 0z",
    "M0 4.2L4 -3.2L-4 -3.2z",
    "M-1.3 -4H1.3V-1.3H4V1.3H1.3V4H-1.3V1.3H-4V-1.3H-1.3z",
    "M-4 -2.2L-2.2 -4L0 -1.8L2.2 -4L4 -2.2L1.8 0L4 2.2L2.2 4L0 1.8L-2.2 4L-4 2.2L-1.8 0z",
    "M-3.8 0a3.8 3.8 0 1 0 7.6 0a3.8 3.8 0 1 0 -7.6 0zM-1.8 0a1.8 1.8 0 1 1 3.6 0a1.8 1.8 0 1 1 -3.6 0z",
    "M-4.6 -1.5H4.6V1.5H-4.6z",
    "M-4.2 0L3.2 -4V4z",
    "M-1.5 -4.6H1.5V4.6H-1.5z",
    "M-3.6 -3.6H3.6V3.6H-3.6zM-1.7 -1.7V1.7H1.7V-1.7z",
];

/// Where values and CPUs lie.
struct Place {
    first: f64,
    last: f64,
    /// The lowest and the highest label, which are multiples of the step.
    bottom: f64,
    top: f64,
    step: f64,
    /// Numbers of CPUs or tasks lie on a logarithmic scale, other quantities on a linear one.
    is_logarithmic: bool,
}

impl Place {
    fn new(panel: &CurvePanel) -> Option<Place> {
        let points = || panel.lines.iter().flat_map(|line| &line.points);
        let counts = points().map(|point| f64::from(point.cpus));
        let (first, last) = counts.fold((f64::INFINITY, 0.0_f64), |(least, most), cpus| {
            (least.min(cpus), most.max(cpus))
        });
        let reach =
            |point: &PanelPoint| point.band.unwrap_or((point.spread.mean, point.spread.mean));
        let (lowest, highest) = points()
            .map(reach)
            .filter(|(low, high)| low.is_finite() && high.is_finite())
            .fold((0.0_f64, 0.0_f64), |(lowest, highest), (low, high)| {
                (lowest.min(low), highest.max(high))
            });
        if lowest >= highest || first >= last {
            return None;
        }
        let step = round_step((highest - lowest) / STEPS);
        let [bottom, top] = [(lowest / step).floor(), (highest / step).ceil()].map(|n| n * step);
        let is_logarithmic = (panel.counts || panel.over == "tasks") && first > 0.0;
        Some(Place { first, last, bottom, top, step, is_logarithmic })
    }

    /// In percent of the width.
    fn x(&self, cpus: f64) -> f64 {
        let share = if self.is_logarithmic {
            (cpus / self.first).ln() / (self.last / self.first).ln()
        } else {
            (cpus - self.first) / (self.last - self.first)
        };
        INSET + (100.0 - 2.0 * INSET) * share
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.bottom) / (self.top - self.bottom);
        TOP + (HEIGHT - TOP) * (1.0 - share.clamp(0.0, 1.0))
    }

    /// The values that have labels, and 0 exactly.
    fn labels(&self) -> impl Iterator<Item = f64> {
        let number = |value: f64| (value / self.step).round() as i64;
        (number(self.bottom)..=number(self.top)).map(|number| number as f64 * self.step)
    }
}

/// The drawing with its caption and legend; nothing where nothing can be drawn.
pub fn chart(markup: &mut Markup, panel: &CurvePanel, id: &str) {
    let Some(place) = Place::new(panel) else { return };
    markup.element("figure", &[("class", "chart"), ("data-chart", id)], |markup| {
        markup.element("figcaption", &[], |markup| {
            markup.text(&caption(panel));
            legend(markup, panel);
        });
        markup.element("div", &[("class", "plot")], |markup| {
            values(markup, &place, &panel.over);
            field(markup, panel, &place);
        });
        if has_idle(panel) {
            markup.element("div", &[("class", "plot idle")], |markup| {
                idle_axis(markup);
                idle(markup, panel, &place);
            });
        }
        let is_over_cpus = panel.over == OVER_CPUS;
        how_to_read(markup, if is_over_cpus { reading::CURVES } else { reading::VALUES });
    });
}

fn caption(panel: &CurvePanel) -> String {
    let title = Some(panel.title.clone()).filter(|title| !title.is_empty());
    let over = format!("over {}", panel.over);
    // The title of a figure may name it already.
    let over = Some(over).filter(|_| panel.counts);
    title.into_iter().chain([panel.quantity()]).chain(over).collect::<Vec<_>>().join(" ")
}

fn legend(markup: &mut Markup, panel: &CurvePanel) {
    markup.element("ul", &[("class", "legend")], |markup| {
        for (index, name) in names(panel).into_iter().enumerate() {
            markup.element("li", &[], |markup| {
                sample(markup, panel, index, &[("aria-hidden", "true")]);
                markup.text(name);
            });
        }
    });
}

/// The lines of a drawing, and the ideal if there is one.
fn names(panel: &CurvePanel) -> Vec<&str> {
    let names = panel.lines.iter().map(|line| line.name.as_str());
    names.chain(panel.ideal.map(|_| "linear ideal")).collect()
}

/// How a line looks, or behind the last of them the ideal.
fn sample(markup: &mut Markup, panel: &CurvePanel, index: usize, at: Attributes) {
    let is_ideal = index == panel.lines.len();
    let class = if is_ideal { "ideal".into() } else { format!("curve {}", style(panel, index)) };
    let size = [&[("width", "30"), ("height", "12")], at].concat();
    markup.element("svg", &size, |markup| {
        markup.empty("polyline", &[("class", &class), ("points", "0,6 30,6")]);
        if !is_ideal {
            mark(markup, index, ("15", "6"), "");
        }
    });
}

/// Room left of the field, for labels of values.
const AXIS: f64 = 60.0;
/// A line of text.
const LINE: f64 = 18.0;

/// The drawing below `top` in an SVG file of this width, with title and legend. Says where it ends.
pub fn picture(
    markup: &mut Markup,
    title: &str,
    panel: &CurvePanel,
    (width, top): (f64, f64),
) -> f64 {
    let Some(place) = Place::new(panel) else { return top };
    let heading = format!("{title}: {}", caption(panel));
    let mut y = top + LINE;
    markup.leaf("text", &[("class", "title"), ("y", &y.to_string())], &heading);
    for (index, name) in names(panel).into_iter().enumerate() {
        y += LINE;
        sample(markup, panel, index, &[("y", &(y - 10.0).to_string())]);
        markup.leaf("text", &[("x", "38"), ("y", &y.to_string())], name);
    }
    let mut beside = |height: f64, left: &dyn Fn(&mut Markup), right: &dyn Fn(&mut Markup)| {
        let fields = [(0.0, AXIS, left), (AXIS, width - AXIS, right)];
        for (x, width, content) in fields {
            let [x, y, width, height] = [x, y + LINE, width, height].map(|n| n.to_string());
            let size = [("x", &*x), ("y", &*y), ("width", &*width), ("height", &*height)];
            markup.element("svg", &[&size[..], &[("overflow", "visible")]].concat(), content);
        }
        y += LINE + height;
    };
    let height = HEIGHT + below(&panel.over);
    beside(height, &|markup| values(markup, &place, &panel.over), &|markup| {
        field(markup, panel, &place);
    });
    if has_idle(panel) {
        beside(IDLE_HEIGHT, &idle_axis, &|markup| idle(markup, panel, &place));
    }
    y + LINE
}

fn has_idle(panel: &CurvePanel) -> bool {
    panel.lines.iter().flat_map(|line| &line.points).any(|point| point.idle.is_some())
}

/// The classes of a line: its colour, and whether it is of threads beside processes.
fn style(panel: &CurvePanel, index: usize) -> String {
    let form = &panel.lines[index].form;
    let is_mixed = panel.lines.iter().any(|line| line.form != *form);
    let dash = if is_mixed && form == "threads" { " dashed" } else { "" };
    format!("s{}{dash}", index % COLOURS)
}

/// The mark of a line. Where colours begin again, marks are shifted, so that no line looks like another.
fn mark_number(index: usize) -> usize {
    (index + index / COLOURS) % COLOURS
}

/// A mark at a place, which a pointer may ask for its numbers.
fn mark(markup: &mut Markup, index: usize, (x, y): (&str, &str), title: &str) {
    let class = format!("mark s{}", index % COLOURS);
    let attributes = [("class", class.as_str()), ("x", x), ("y", y), ("overflow", "visible")];
    markup.element("svg", &attributes, |markup| {
        markup.element("path", &[("d", MARKS[mark_number(index)])], |markup| {
            if !title.is_empty() {
                markup.leaf("title", &[], title);
            }
        });
    });
}

/// Labels left of the field.
fn values(markup: &mut Markup, place: &Place, over: &str) {
    let height = format!("{:.0}", HEIGHT + below(over));
    let attributes =
        [("class", "axis"), ("width", "52"), ("height", height.as_str()), ("aria-hidden", "true")];
    markup.element("svg", &attributes, |markup| {
        for value in place.labels() {
            let y = format!("{:.1}", place.y(value) + 4.0);
            markup.leaf("text", &[("x", "46"), ("y", &y), ("text-anchor", "end")], &short(value));
        }
        if over.len() <= SHORT {
            let y = format!("{:.1}", HEIGHT + 18.0);
            markup.leaf("text", &[("x", "46"), ("y", &y), ("text-anchor", "end")], over);
        }
    });
}

/// What is free below the axis.
fn below(over: &str) -> f64 {
    if over.len() <= SHORT { BELOW } else { BELOW + NAME_BELOW }
}

fn field(markup: &mut Markup, panel: &CurvePanel, place: &Place) {
    let height = format!("{:.0}", HEIGHT + below(&panel.over));
    let told = in_words(panel);
    let attributes = [
        ("class", "field"),
        ("width", "100%"),
        ("height", height.as_str()),
        ("role", "img"),
        ("aria-label", told.as_str()),
    ];
    markup.element("svg", &attributes, |markup| {
        grid(markup, panel, place);
        found(markup, panel, place);
        let inner = format!("0 0 1000 {HEIGHT:.0}");
        let height = format!("{HEIGHT:.0}");
        let stretched = [
            ("viewBox", inner.as_str()),
            ("preserveAspectRatio", "none"),
            ("width", "100%"),
            ("height", height.as_str()),
        ];
        markup.element("svg", &stretched, |markup| lines(markup, panel, place));
        for (index, line) in panel.lines.iter().enumerate() {
            for point in line.points.iter().filter(|_| has_marks(panel)) {
                let x = format!("{:.2}%", place.x(f64::from(point.cpus)));
                let y = format!("{:.1}", place.y(point.spread.mean));
                mark(markup, index, (&x, &y), &point_in_words(panel, &line.name, point));
            }
        }
    });
}

/// Whether points have marks of their own. So many that they would touch hide the line, and each costs a
/// browser more than its part of the line.
fn has_marks(panel: &CurvePanel) -> bool {
    panel.lines.iter().all(|line| line.points.len() <= MARKS_MAX)
}

/// Lines at the values, and the numbers of CPUs below.
fn grid(markup: &mut Markup, panel: &CurvePanel, place: &Place) {
    for value in place.labels() {
        let y = format!("{:.1}", place.y(value));
        let class = if value == 0.0 { "base" } else { "grid" };
        let ends = [("class", class), ("x1", "0"), ("x2", "100%"), ("y1", &y), ("y2", &y)];
        markup.empty("line", &ends);
    }
    for cpus in labelled(panel, place) {
        let x = format!("{:.2}%", place.x(f64::from(cpus)));
        let y = format!("{:.1}", HEIGHT + 18.0);
        let at = [("x", x.as_str()), ("y", &y), ("text-anchor", "middle")];
        markup.leaf("text", &at, &cpus.to_string());
    }
    if panel.over.len() > SHORT {
        let y = format!("{:.1}", HEIGHT + 18.0 + NAME_BELOW);
        let at = [("x", "50%"), ("y", y.as_str()), ("text-anchor", "middle")];
        markup.leaf("text", &at, &panel.over);
    }
}

/// The CPU counts that get a label: the first, the last, and those between that have room.
fn labelled(panel: &CurvePanel, place: &Place) -> Vec<u32> {
    let points = panel.lines.iter().flat_map(|line| &line.points);
    let mut counts: Vec<u32> = points.map(|point| point.cpus).collect();
    counts.sort_unstable();
    counts.dedup();
    let room = 100.0 / LABELS_MAX as f64;
    let x = |cpus: u32| place.x(f64::from(cpus));
    let last = counts[counts.len() - 1];
    let mut kept: Vec<u32> = Vec::new();
    for cpus in counts {
        let after = kept.last().is_none_or(|before| x(cpus) >= x(*before) + room);
        if cpus == last {
            // The last one always stands; one that would touch it goes, but for the first.
            while kept.len() > 1 && kept.last().is_some_and(|before| x(last) < x(*before) + room) {
                kept.pop();
            }
            kept.push(cpus);
        } else if after {
            kept.push(cpus);
        }
    }
    kept
}

/// Bands, the ideal, then curves above them.
fn lines(markup: &mut Markup, panel: &CurvePanel, place: &Place) {
    let at = |cpus: f64, value: f64| format!("{:.1},{:.1}", 10.0 * place.x(cpus), place.y(value));
    for (index, line) in panel.lines.iter().enumerate() {
        let bands = line.points.iter().map(|point| {
            let (low, high) = point.band.unwrap_or((point.spread.mean, point.spread.mean));
            let cpus = f64::from(point.cpus);
            (at(cpus, low), at(cpus, high))
        });
        let (below, above): (Vec<String>, Vec<String>) = bands.unzip();
        let around: Vec<String> = above.into_iter().chain(below.into_iter().rev()).collect();
        let class = format!("band s{}", index % COLOURS);
        markup.empty("polygon", &[("class", &class), ("points", &around.join(" "))]);
    }
    if let Some(per_cpu) = panel.ideal {
        // It leaves at the top, and is no straight line over a logarithmic axis.
        let end = place.last.min(place.top / per_cpu).max(place.first);
        let part = |part: u32| place.first * (end / place.first).powf(f64::from(part) / 24.0);
        let along: Vec<String> = (0..=24).map(part).map(|cpus| at(cpus, per_cpu * cpus)).collect();
        markup.empty("polyline", &[("class", "ideal"), ("points", &along.join(" "))]);
    }
    for (index, line) in panel.lines.iter().enumerate() {
        let points = line.points.iter();
        let along = points.map(|point| at(f64::from(point.cpus), point.spread.mean));
        let attributes = [
            ("class", &*format!("curve {}", style(panel, index))),
            ("data-line", line.name.as_str()),
            ("points", &along.collect::<Vec<_>>().join(" ")),
        ];
        markup.empty("polyline", &attributes);
    }
}

/// Knees and cliffs, as marks over the axis.
fn found(markup: &mut Markup, panel: &CurvePanel, place: &Place) {
    let within = |cpus: f64| cpus.clamp(place.first, place.last);
    let mut number = 0;
    for (index, line) in panel.lines.iter().enumerate() {
        let Some(scaling) = &line.scaling else { continue };
        let knee = scaling.knee;
        if knee.value.is_finite() && knee.value > place.first {
            let (low, high) = knee.interval.unwrap_or((knee.value, knee.value));
            let zone = (within(low), within(high));
            let label = format!("knee {}", knee.value.ceil());
            span(markup, place, ("knee", index), zone, (within(knee.value), &label, number));
            number += 1;
        }
        if let Some(cliff) = scaling.cliff {
            let label = format!("cliff -{:.0} %", 100.0 * cliff.drop.value);
            let (before, after) = (within(cliff.before), within(cliff.after));
            let middle = (before * after).sqrt();
            span(markup, place, ("cliff", index), (before, after), (middle, &label, number));
            number += 1;
        }
    }
}

/// A zone between two numbers of CPUs, with a line and a label.
fn span(
    markup: &mut Markup,
    place: &Place,
    (class, index): (&str, usize),
    (low, high): (f64, f64),
    (at, label, number): (f64, &str, usize),
) {
    let class = format!("{class} s{}", index % COLOURS);
    let x = |cpus: f64| place.x(cpus);
    let [left, width] = [x(low), x(high) - x(low)].map(|share| format!("{share:.2}%"));
    let (top, height) = (format!("{TOP:.0}"), format!("{:.0}", HEIGHT - TOP));
    let zone = [("class", class.as_str()), ("x", &left), ("width", &width)];
    markup.empty("rect", &[&zone[..], &[("y", &*top), ("height", &*height)]].concat());
    let (middle, bottom) = (format!("{:.2}%", x(at)), format!("{HEIGHT:.0}"));
    let line = [("x1", &*middle), ("x2", &*middle), ("y1", &*top), ("y2", &*bottom)];
    markup.empty("line", &[&[("class", &*class)], &line[..]].concat());
    // Labels near the right edge end at their line.
    let anchor = if x(at) > 80.0 { "end" } else { "start" };
    let y = format!("{:.0}", HEIGHT - 8.0 - 14.0 * number as f64);
    let shift = if anchor == "end" { "-4" } else { "4" };
    let text = [("class", &*class), ("x", &*middle), ("y", &*y), ("dx", shift)];
    markup.leaf("text", &[&text[..], &[("text-anchor", anchor)]].concat(), label);
}

/// Where a share in percent lies in the field of idle shares.
fn idle_y(percent: f64) -> f64 {
    4.0 + (IDLE_HEIGHT - 8.0) * (1.0 - (percent / 100.0).clamp(0.0, 1.0))
}

/// The share of time in which CPUs were idle has a scale of its own from 0 to 100 %.
fn idle_axis(markup: &mut Markup) {
    let height = format!("{IDLE_HEIGHT:.0}");
    let axis =
        [("class", "axis"), ("width", "52"), ("height", height.as_str()), ("aria-hidden", "true")];
    markup.element("svg", &axis, |markup| {
        for (percent, text) in [(100.0, "100 %"), (0.0, "idle 0")] {
            let y = format!("{:.1}", idle_y(percent) + 4.0);
            markup.leaf("text", &[("x", "46"), ("y", &y), ("text-anchor", "end")], text);
        }
    });
}

fn idle(markup: &mut Markup, panel: &CurvePanel, place: &Place) {
    let height = format!("{IDLE_HEIGHT:.0}");
    let field = [
        ("class", "field"),
        ("width", "100%"),
        ("height", height.as_str()),
        ("role", "img"),
        ("aria-label", "idle share of the CPUs"),
    ];
    markup.element("svg", &field, |markup| {
        for percent in [0.0, 100.0] {
            let y = format!("{:.1}", idle_y(percent));
            let class = if percent == 0.0 { "base" } else { "grid" };
            let ends = [("class", class), ("x1", "0"), ("x2", "100%"), ("y1", &y), ("y2", &y)];
            markup.empty("line", &ends);
        }
        let inner = format!("0 0 1000 {IDLE_HEIGHT:.0}");
        let stretched = [
            ("viewBox", inner.as_str()),
            ("preserveAspectRatio", "none"),
            ("width", "100%"),
            ("height", height.as_str()),
        ];
        markup.element("svg", &stretched, |markup| {
            for (index, line) in panel.lines.iter().enumerate() {
                let points = line.points.iter().filter_map(|point| {
                    let x = 10.0 * place.x(f64::from(point.cpus));
                    Some(format!("{x:.1},{:.1}", idle_y(point.idle?)))
                });
                let along = points.collect::<Vec<_>>().join(" ");
                let class = format!("curve thin {}", style(panel, index));
                markup.empty("polyline", &[("class", &class), ("points", &along)]);
            }
        });
    });
}

/// The curves for readers who do not see them.
fn in_words(panel: &CurvePanel) -> String {
    let point = |point: &PanelPoint| {
        format!("{} at {}", short(point.spread.mean), place_in_words(panel, point))
    };
    let line = |line: &PanelLine| match &line.points[..] {
        [] => line.name.clone(),
        [one] => format!("{}: {}", line.name, point(one)),
        [first, .., last] => format!("{}: {} to {}", line.name, point(first), point(last)),
    };
    let lines: Vec<String> = panel.lines.iter().map(line).collect();
    format!("Curves of {}. {}", caption(panel), lines.join("; "))
}

fn point_in_words(panel: &CurvePanel, name: &str, point: &PanelPoint) -> String {
    let deviation = point.spread.stddev.map(|stddev| format!(" ± {}", short(stddev)));
    // What was simulated has no runs.
    let runs = (!point.runs.is_empty()).then(|| format!(" (n = {})", point.spread.n));
    let idle = point.idle.map(|idle| format!(", idle {idle:.0} %"));
    format!(
        "{name}, {}: {}{}{}{}",
        place_in_words(panel, point),
        short(point.spread.mean),
        deviation.unwrap_or_default(),
        runs.unwrap_or_default(),
        idle.unwrap_or_default()
    )
}

fn place_in_words(panel: &CurvePanel, point: &PanelPoint) -> String {
    match panel.over.as_str() {
        over if panel.counts => Axis::new(over).counted(point.cpus),
        over => format!("{over}: {}", point.cpus),
    }
}
