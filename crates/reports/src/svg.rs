//! Curves of a record as one SVG file that needs nothing else: a panel for each load, CPUs on a logarithmic
//! scale, values from 0, a line for each variant and form with the standard deviation of its runs. Names
//! come from experiments and other tools, so all texts are escaped.

use std::fmt::Write;

use analysis::{Curve, curves};
use records::Opened;

use host::terminal::shown;
use text::plot::round_step;
use text::prose::counted;
use text::quantity::short;

use crate::known_metric;
use crate::loads::{grouped, lanes, loads, parameters};

const WIDTH: f64 = 720.0;
const PANEL_HEIGHT: f64 = 360.0;
/// Room of the head above all panels.
const HEAD: f64 = 56.0;
/// The drawing within a panel: what lies left of it, above, right and below.
const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 190.0;
const BOTTOM: f64 = 46.0;
/// Labels on the value axis, at most, beside 0.
const STEPS: f64 = 5.0;
/// Colours that people with any colour vision tell apart (Okabe and Ito, 2008).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// A point of a line: CPUs, mean of the runs, and their standard deviation.
type Value = (u32, f64, f64);

/// A drawing with its lines.
struct Panel {
    title: String,
    lines: Vec<(String, Vec<Value>)>,
    /// Value for each CPU of linear scaling, for rates.
    ideal: Option<f64>,
}

/// The curves of a record as SVG: of these metrics, or of what decides about each load. `None` if no load
/// has values at two CPU counts.
pub fn svg(record: &Opened, metrics: &[String]) -> Option<String> {
    let curves = curves(record);
    let panels = panels(record, &curves, metrics);
    if panels.is_empty() {
        return None;
    }
    let height = HEAD + panels.len() as f64 * PANEL_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let [name, place] = head(record);
    svg += &format!("<title>{}</title>\n", escaped(&name));
    svg += &text(16.0, 24.0, "font-size=\"15\" font-weight=\"bold\"", &name);
    svg += &text(16.0, 42.0, "fill=\"#555\"", &place);
    for (index, panel) in panels.iter().enumerate() {
        let y = HEAD + index as f64 * PANEL_HEIGHT;
        svg += &format!("<g transform=\"translate(0 {y})\">\n{}</g>\n", panel.draw());
    }
    Some(svg + "</svg>\n")
}

/// What was measured, and where.
fn head(record: &Opened) -> [String; 2] {
    let record = &record.record;
    let label = Some(&record.label).filter(|label| !label.is_empty());
    let label = label.map(|label| format!("{label}: ")).unwrap_or_default();
    let known = |text: &Option<String>| text.clone().unwrap_or("?".to_string());
    let host =
        format!("{}, Linux {}", known(&record.host.hostname), known(&record.host.kernel_release));
    let when = record.started().map(|started| started.strftime("%Y-%m-%d").to_string());
    let bars = "bars: standard deviation of runs";
    [
        format!("{label}{}", record.experiment.name),
        format!("{}, {host}, {}; {bars}", record.id, when.unwrap_or_default()),
    ]
}

/// The panels: one for each load with the same tasks, or where variants are compared for each cell's curve.
fn panels(record: &Opened, curves: &[Curve], metrics: &[String]) -> Vec<Panel> {
    let groups = if record.record.variants.len() > 1 {
        grouped(curves.iter(), |a, b| a.point.cell == b.point.cell)
    } else {
        loads(curves).iter().flat_map(|load| lanes(load)).collect()
    };
    let of_group = |group: &Vec<&Curve>| -> Vec<Panel> {
        let deciding = [record.record.deciding(group[0].point)];
        let metrics = if metrics.is_empty() { &deciding[..] } else { metrics };
        metrics.iter().filter_map(|metric| panel(record, group, metric)).collect()
    };
    groups.iter().flat_map(of_group).collect()
}

fn panel(record: &Opened, curves: &[&Curve], metric: &str) -> Option<Panel> {
    let values = |curve: &Curve| -> Vec<Value> {
        let cells = curve.cells.iter().filter(|cell| cell.point.cpus > 0);
        let value = cells.filter_map(|cell| {
            let spread = cell.spread(metric)?;
            Some((cell.point.cpus, spread.mean, spread.stddev.unwrap_or(0.0)))
        });
        value.collect()
    };
    let name = |curve: &Curve| match curve.point.variant.as_str() {
        "" => curve.point.form.name().to_string(),
        variant => variant.to_string(),
    };
    let lines: Vec<(String, Vec<Value>)> =
        curves.iter().map(|curve| (name(curve), values(curve))).collect();
    let point = curves[0].point;
    let tasks = match curves[0].tasks_per_cpu {
        Some(1.0) => None,
        Some(ratio) => Some(format!("{ratio} tasks a CPU")),
        None => Some(counted(point.tasks as usize, "task")),
    };
    let load = [vec![point.workload.clone()], parameters(point)].concat().join(" ");
    // Names of variants do not say the form.
    let form = Some(point.form.name().to_string()).filter(|_| !point.variant.is_empty());
    let title = [Some(load), form, tasks, Some(with_unit(record, metric))].into_iter().flatten();
    let is_rate = known_metric(metric).is_some_and(|metric| metric.unit == "1/s");
    let fewest = lines.iter().flat_map(|(_, values)| values).map(|(cpus, ..)| *cpus).min();
    let firsts = lines.iter().filter_map(|(_, values)| values.first());
    let firsts = firsts.filter(|(cpus, ..)| Some(*cpus) == fewest);
    let per_cpu = firsts.map(|(cpus, mean, _)| mean / f64::from(*cpus)).fold(0.0, f64::max);
    let ideal = Some(per_cpu).filter(|rate| is_rate && *rate > 0.0);
    let panel = Panel { title: title.collect::<Vec<_>>().join(", "), lines, ideal };
    (panel.cpus().len() > 1 && panel.highest() > 0.0).then_some(panel)
}

/// A metric with its unit, which the names of knee's own metrics end with.
fn with_unit(record: &Opened, metric: &str) -> String {
    match record.record.metrics.get(metric).map(|described| described.unit.as_str()) {
        None | Some("" | "1") => metric.to_string(),
        Some(unit) => format!("{metric} ({unit})"),
    }
}

impl Panel {
    /// The CPU counts with values, ascending.
    fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = self.values().map(|(cpus, ..)| *cpus).collect();
        cpus.sort();
        cpus.dedup();
        cpus
    }

    fn values(&self) -> impl Iterator<Item = &Value> {
        self.lines.iter().flat_map(|(_, values)| values)
    }

    fn highest(&self) -> f64 {
        let tops = self.values().map(|(_, mean, stddev)| mean + stddev);
        tops.filter(|top| top.is_finite()).fold(0.0, f64::max)
    }

    fn draw(&self) -> String {
        let (cpus, step) = (self.cpus(), round_step(self.highest() / STEPS));
        let steps = (self.highest() / step).ceil().max(1.0);
        let (width, height) = (WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM);
        let (first, last) = (f64::from(cpus[0]), f64::from(cpus[cpus.len() - 1]));
        let x = |cpus: f64| LEFT + width * (cpus / first).ln() / (last / first).ln();
        let y = |value: f64| TOP + height * (1.0 - (value / (steps * step)).clamp(0.0, 1.0));
        let mut drawn = text(16.0, 22.0, "font-weight=\"bold\"", &self.title);
        for number in 0..=steps as u32 {
            let value = f64::from(number) * step;
            drawn += &line((LEFT, y(value)), (LEFT + width, y(value)), "stroke=\"#ddd\"");
            drawn += &text(LEFT - 6.0, y(value) + 4.0, "text-anchor=\"end\"", &short(value));
        }
        for cpus in &cpus {
            let at = x(f64::from(*cpus));
            drawn += &line((at, TOP + height), (at, TOP + height + 4.0), "stroke=\"#555\"");
            let below = TOP + height + 18.0;
            drawn += &text(at, below, "text-anchor=\"middle\"", &cpus.to_string());
        }
        drawn += &text(LEFT + width / 2.0, PANEL_HEIGHT - 10.0, "text-anchor=\"middle\"", "CPUs");
        let mut legend: Vec<(&str, String)> = Vec::new();
        if let Some(per_cpu) = self.ideal {
            // It leaves at the top, and is no straight line over a logarithmic axis.
            let end = last.min(steps * step / per_cpu);
            let along = (0..=24).map(|part| first * (end / first).powf(f64::from(part) / 24.0));
            let places = along.map(|cpus| format!("{:.1},{:.1}", x(cpus), y(per_cpu * cpus)));
            let dashed = "stroke=\"#999\" stroke-dasharray=\"4 4\"";
            drawn += &polyline(&places.collect::<Vec<_>>(), dashed);
        }
        for (index, (name, values)) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            drawn += &curve(values, colour, |cpus| x(f64::from(cpus)), y);
            legend.push((colour, name.clone()));
        }
        legend.extend(self.ideal.map(|_| ("#999", "linear ideal".to_string())));
        drawn + &self::legend(&legend)
    }
}

/// A line through the means, with a bar and a dot at each.
fn curve(values: &[Value], colour: &str, x: impl Fn(u32) -> f64, y: impl Fn(f64) -> f64) -> String {
    let place = |(cpus, mean, _): &Value| format!("{:.1},{:.1}", x(*cpus), y(*mean));
    let places: Vec<String> = values.iter().map(place).collect();
    let mut drawn = polyline(&places, &format!("stroke=\"{colour}\" stroke-width=\"2\""));
    for (cpus, mean, stddev) in values {
        let (at, stroke) = (x(*cpus), format!("stroke=\"{colour}\""));
        if *stddev > 0.0 {
            drawn += &line((at, y(mean - stddev)), (at, y(mean + stddev)), &stroke);
        }
        let center = format!("cx=\"{at:.1}\" cy=\"{:.1}\"", y(*mean));
        let _ = writeln!(
            drawn,
            "<circle {center} r=\"3\" fill=\"{colour}\"><title>{}</title></circle>",
            escaped(&format!(
                "{}: {} +- {}",
                counted(*cpus as usize, "CPU"),
                short(*mean),
                short(*stddev)
            ))
        );
    }
    drawn
}

fn legend(entries: &[(&str, String)]) -> String {
    let at = WIDTH - RIGHT + 16.0;
    let entry = |(index, (colour, name)): (usize, &(&str, String))| {
        let y = TOP + 8.0 + 18.0 * index as f64;
        let stroke = format!("stroke=\"{colour}\" stroke-width=\"2\"");
        line((at, y), (at + 16.0, y), &stroke) + &text(at + 22.0, y + 4.0, "", &shortened(name))
    };
    entries.iter().enumerate().map(entry).collect()
}

/// A name that fits beside the drawing.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 22;
    if name.chars().count() <= LONGEST {
        return name.to_string();
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

fn polyline(places: &[String], style: &str) -> String {
    format!("<polyline points=\"{}\" fill=\"none\" {style}/>\n", places.join(" "))
}

fn line(from: (f64, f64), to: (f64, f64), style: &str) -> String {
    let ((x1, y1), (x2, y2)) = (from, to);
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>\n")
}

fn text(x: f64, y: f64, style: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>\n", escaped(text))
}

/// A text as XML; control characters, which XML cannot hold, are shown as escapes.
fn escaped(text: &str) -> String {
    let text = shown(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::golden;

    #[test]
    fn a_record_becomes_one_file_with_a_panel_for_each_load() {
        let drawn = svg(&golden(), &[]).unwrap();
        expect_test::expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/src/svg/golden.svg")]
            .assert_eq(&drawn);
        for outside in ["href", "<script", "<style", "url(", "@import"] {
            assert!(!drawn.contains(outside), "{outside}");
        }
    }

    #[test]
    fn names_from_elsewhere_cannot_leave_their_text() {
        let mut record = golden();
        record.record.label = "</text><script>alert(1)</script>\"&\u{1b}]".to_string();
        let drawn = svg(&record, &[]).unwrap();
        assert!(!drawn.contains("<script") && !drawn.contains('\u{1b}'));
        assert!(
            drawn.contains("&lt;/text&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&amp;\\u001b]")
        );
    }

    #[test]
    fn a_metric_that_is_at_one_cpu_count_only_has_no_curve() {
        let mut record = golden();
        record.runs.retain(|run| run.point == 0);
        assert_eq!(svg(&record, &[]), None);
    }
}
