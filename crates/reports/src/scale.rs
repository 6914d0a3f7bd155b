//! What a curve says about scaling, in sentences: its knee, its peak, a cliff, and the law that explains it.

use analysis::{Axis, rounded};
use laws::{
    AsPublished, Estimate, FarApart, FittedLaw, Forecast, ForecastPoint, HeldOutPoint, HoldOut,
    Law, PeakPlace, RestsOn, Scaling, Term,
};
use text::quantity::{duration_ns, short, signed};
use text::table::{Align, Table};

use crate::form_part::FormPart;

/// The knee, a cliff and a fall of a curve, a sentence each.
pub fn sentences(found: &Scaling) -> Vec<String> {
    let axis = &found.axis;
    let mut sentences = vec![knee(found)];
    if let Some(cliff) = found.cliff {
        sentences.push(format!(
            "cliff between {}: rates are {} lower after it",
            axis.many(&format!("{} and {}", cliff.before, cliff.after)),
            percent(&cliff.drop)
        ));
    }
    if let Some(fall) = found.retrograde {
        sentences.push(format!(
            "past {} the rate falls, by {} up to {}",
            axis.counted(fall.from),
            percent(&fall.drop),
            axis.counted(fall.to)
        ));
    }
    if !found.left_out.is_empty() {
        let counts: Vec<String> = found.left_out.iter().map(u32::to_string).collect();
        sentences.push(format!(
            "left out: {}, where a run completed nothing; a rate of 0 has no place on a curve",
            axis.many(&counts.join(", "))
        ));
    }
    sentences.extend(found.far_apart.as_ref().map(|apart| far_apart(apart, axis)));
    sentences
}

fn far_apart(found: &FarApart, axis: &Axis) -> String {
    let FarApart { before, after, factor } = found;
    let factor = short(*factor);
    if before == after {
        let cpus = axis.counted(*before);
        return format!("rates at {cpus} differ by a factor of {factor}: are all in one unit?");
    }
    let both = axis.many(&format!("{before} and {after}"));
    format!("rates at {both} differ by a factor of {factor}: are both in one unit?")
}

fn knee(found: &Scaling) -> String {
    let axis = &found.axis;
    let most = found.cpus.last().copied().unwrap_or(0);
    let whole = |cpus: f64| cpus.ceil();
    let Estimate { value, interval } = found.knee;
    if value.is_infinite() {
        let from = interval.map(|(low, _)| low).filter(|low| low.is_finite());
        let from =
            from.map_or(String::new(), |low| format!(" (90 % interval: from {})", whole(low)));
        return format!("no knee up to {}{from}: the rate still grows", axis.counted(most));
    }
    let fewest = f64::from(found.cpus.first().copied().unwrap_or(0));
    if value <= fewest && fewest > 1.0 {
        return format!("knee at or below {}, the fewest measured", axis.counted(fewest));
    }
    let about = axis.counted(whole(value));
    let range = match interval {
        None => " (no interval: each point ran once)".to_string(),
        Some((low, high)) if high.is_infinite() => {
            format!(" ({} or more)", whole(low))
        }
        Some((low, high)) => format!(" ({} to {})", whole(low), whole(high)),
    };
    format!("knee at {about}{range}: the fewest with 90 % of the highest rate")
}

/// What a curve says, as sentences.
pub struct ScalePart {
    /// The knee, a cliff, a fall, and the law.
    pub answers: Vec<String>,
    /// The peak, and what was measured.
    pub sentences: Vec<String>,
    /// Each law with its terms and how well it fits.
    pub laws: Vec<String>,
}

impl ScalePart {
    /// A curve that says nothing, and why.
    pub fn unusable(why: &str) -> ScalePart {
        ScalePart { answers: vec![why.to_string()], sentences: Vec::new(), laws: Vec::new() }
    }
}

/// All that is known of a curve. Laws are of one task a CPU; other curves only have the knee, a cliff and a fall.
pub fn scale_part(found: &Scaling, has_task_per_cpu: bool) -> ScalePart {
    let mut answers = sentences(found);
    if !has_task_per_cpu {
        return ScalePart { answers, sentences: Vec::new(), laws: Vec::new() };
    }
    answers.push(law(found));
    let noise = found.noise_percent.map_or(
        "not known, since each point ran once, so no number has an interval".into(),
        |noise| format!("{} %", rounded(noise, 2)),
    );
    let counts: Vec<String> = found.cpus.iter().map(u32::to_string).collect();
    let measured =
        format!("measured at {}; noise of a run: {noise}", found.axis.many(&counts.join(", ")));
    ScalePart {
        answers,
        sentences: vec![peak(found), measured],
        laws: found.laws.iter().map(described).collect(),
    }
}

/// What a forecast of single runs rests on beside laws.
const SLOPE: &str = "the slope of the last points, about half as steep";
const NO_LAW: &str = "no law comes within 5 % of the curve, so none says where it bends";
const FEW: &str = "fewer than 4 counts were measured, so no law says where the curve bends";

/// Whose intervals they are, and what would make them narrower.
fn intervals_of(why: AsPublished) -> String {
    let (why, way_out) = match why {
        AsPublished::RanOnce => ("each point ran once", "repeat the points (--blocks 5)"),
        AsPublished::FewCounts => ("few counts were measured", "measure 4 or more"),
    };
    format!(
        "{why}: rates are within these intervals for nine of ten published curves; {way_out} for narrower ones"
    )
}

/// A forecast as a table, with what it rests on. The first two sentences are the answer.
pub fn forecast_part(title: &str, found: &Forecast) -> FormPart {
    let has_measured = found.points.iter().any(|point| point.measured.is_some());
    let mut headings = vec![
        (found.axis.name(), Align::Right),
        ("rate", Align::Right),
        ("90 % interval", Align::Left),
    ];
    headings.extend(has_measured.then_some(("measured", Align::Right)));
    let mut table = Table::new(headings);
    for ForecastPoint { cpus, rate, measured } in &found.points {
        let interval =
            rate.interval.map_or("not known: each point ran once".to_string(), |(low, high)| {
                format!("{}/s to {}/s", short(low), short(high))
            });
        let mut row = vec![cpus.to_string(), format!("{}/s", short(rate.value)), interval];
        let measured = measured.map_or("no".to_string(), |rate| format!("{}/s", short(rate)));
        row.extend(has_measured.then_some(measured));
        table.row(row);
    }
    FormPart { title: title.to_string(), table, sentences: forecast_sentences(found) }
}

fn forecast_sentences(found: &Forecast) -> Vec<String> {
    let has_measured = found.points.iter().any(|point| point.measured.is_some());
    let names: Vec<&str> = found.laws.iter().map(|law| name(*law)).collect();
    let covers = match (names.get(1..), found.as_published) {
        (Some([_, ..]), None) => format!("; the interval also covers {}", names[1..].join(", ")),
        _ => String::new(),
    };
    let doses = if found.with_doses { ", with the doses of the record" } else { "" };
    let all_measured = found.points.iter().all(|point| point.measured.is_some());
    let what = match (has_measured, all_measured) {
        (_, true) => "rates by the law beside those measured",
        (true, false) => "a forecast where \"no\" stands under measured",
        (false, _) => "a forecast, not measured",
    };
    let by = if found.as_published.is_some() {
        // "Amdahl's law, one lock and the slope …".
        let laws = names.join(", ");
        if names.is_empty() { SLOPE.to_string() } else { format!("{laws} and {SLOPE}") }
    } else {
        names[0].to_string()
    };
    let knee = match found.as_published {
        Some(AsPublished::FewCounts) => FEW.to_string(),
        _ if names.is_empty() => NO_LAW.to_string(),
        _ => forecast_knee(&found.knee, &found.axis),
    };
    let mut lines = vec![knee, format!("{what}, by {by}{doses}{covers}")];
    if let Some(RestsOn { quantity, share }) = found.rests_on {
        let most = found.points.iter().map(|point| point.cpus).max().unwrap_or(0);
        let percent = 100.0 * share;
        lines.push(format!(
            "{quantity} accounts for {percent:.0} % of the variance at {}",
            found.axis.counted(most)
        ));
    }
    lines.extend(found.as_published.map(intervals_of));
    lines.extend(found.assumed_noise_percent.map(|noise| {
        format!("the knee assumes noise of {} %, which the nearest law leaves", rounded(noise, 2))
    }));
    lines.extend(found.hold_out.as_ref().map(|held_out| hold_out(held_out, &found.axis)));
    let why = found.not_held_out.as_ref();
    lines.extend(why.map(|why| {
        format!("not checked against the upper half of the curve, of which the lower half says too little: {why}")
    }));
    lines
}

/// The rate at the most CPUs of a forecast: "5.71M/s at 32 CPUs (5.6M/s to 5.8M/s)".
pub fn forecast_answer(found: &Forecast) -> Option<String> {
    let ForecastPoint { cpus, rate, .. } = found.points.iter().max_by_key(|point| point.cpus)?;
    let rate = ranged(rate, |rate| format!("{}/s", short(rate)));
    Some(format!("{}: {rate}", found.axis.counted(*cpus)))
}

/// "knee: forecast at 23 CPUs (20 to 27)".
fn forecast_knee(knee: &Estimate, axis: &Axis) -> String {
    let Estimate { value, interval } = knee;
    if value.is_infinite() {
        return "no knee by these laws: the rate grows without end".to_string();
    }
    let range = match interval {
        None => " (no interval: each point ran once)".to_string(),
        Some((low, high)) if high.is_infinite() => format!(" ({} or more)", low.ceil()),
        Some((low, high)) => format!(" ({} to {})", low.ceil(), high.ceil()),
    };
    format!("knee: forecast at {}{range}", axis.counted(value.ceil()))
}

/// How well the lower half of a curve predicts the upper.
fn hold_out(held_out: &HoldOut, axis: &Axis) -> String {
    let point = |HeldOutPoint { cpus, rate, measured }: &HeldOutPoint| {
        let error = 100.0 * (rate.value / measured - 1.0);
        let inside = rate.interval.map_or("", |(low, high)| {
            if (low..=high).contains(measured) {
                " (inside its interval)"
            } else {
                " (outside its interval)"
            }
        });
        format!("{} {}{inside}", axis.counted(*cpus), signed_percent(error))
    };
    let points: Vec<String> = held_out.points.iter().map(point).collect();
    format!(
        "forecast from up to {}, against what was measured: {}",
        axis.counted(held_out.up_to),
        points.join(", ")
    )
}

/// `+1.2 %`.
fn signed_percent(percent: f64) -> String {
    format!("{} %", signed(percent, 1))
}

fn peak(found: &Scaling) -> String {
    let rate = ranged(&found.peak.rate, |rate| format!("{}/s", short(rate)));
    let axis = &found.axis;
    let most = found.cpus.last().copied().unwrap_or(0);
    match found.peak.place {
        PeakPlace::At(cpus) if cpus.value == f64::from(most) => {
            format!("highest rate: {rate}, at {}, the most measured", axis.counted(most))
        }
        PeakPlace::At(cpus) => format!("highest rate: {rate}, at {}", at_cpus(&cpus, axis)),
        PeakPlace::Beyond => {
            format!("highest rate: {rate} by the law, beyond the {} measured", axis.counted(most))
        }
        PeakPlace::Approached => {
            format!("highest rate: {rate} by the law, which the curve approaches")
        }
    }
}

/// `8 CPUs (6 to 10)`, `8 CPUs (7 or more)`.
fn at_cpus(cpus: &Estimate, axis: &Axis) -> String {
    let text = axis.counted(cpus.value.round());
    match cpus.interval {
        None => text,
        Some((low, high)) if high.is_infinite() => format!("{text} ({low:.0} or more)"),
        Some((low, high)) => format!("{text} ({low:.0} to {high:.0})"),
    }
}

fn law(found: &Scaling) -> String {
    let fitted = found.laws.iter().find(|fitted| Some(fitted.law) == found.law);
    match fitted {
        Some(fitted) => format!("explained by {}: {}", name(fitted.law), terms(fitted)),
        None => "no law explains the curve".to_string(),
    }
}

/// One law with its terms and how well it fits.
fn described(fitted: &FittedLaw) -> String {
    let p = fitted.lack_of_fit.map_or(String::new(), |p| match p {
        ..0.001 => ", p < 0.001".to_string(),
        p => format!(", p = {p:.3}"),
    });
    if fitted.is_near {
        let within = rounded(fitted.deviation_percent, 2);
        let (name, terms) = (name(fitted.law), terms(fitted));
        return format!(
            "{name}: fits within {within} %, though the runs can tell the difference{p}; {terms}"
        );
    }
    let verdict = if fitted.fits { "fits" } else { "does not fit" };
    // Beyond this the exact deviation says nothing.
    let off = match fitted.deviation_percent {
        far if far > 100.0 => "far".to_string(),
        near if near < 0.01 => "below 0.01 %".to_string(),
        near => format!("{} %", rounded(near, 2)),
    };
    format!("{}: {verdict} ({off} off{p}); {}", name(fitted.law), terms(fitted))
}

/// A law's name for people.
pub fn name(law: Law) -> &'static str {
    match law {
        Law::Linear => "linear growth",
        Law::Amdahl => "Amdahl's law",
        Law::Queue => "one lock",
        Law::Handover => "one lock, slower to pass on the more tasks wait",
        Law::Universal => "the universal scalability law",
    }
}

fn terms(fitted: &FittedLaw) -> String {
    fitted.terms.iter().map(term).collect::<Vec<_>>().join(", ")
}

fn term(term: &Term) -> String {
    let text = |value: f64| match 1e9 * value {
        _ if !term.is_time => short(value),
        ns if ns < 0.01 => "0 ns".to_string(),
        ns => duration_ns(ns),
    };
    format!("{} {}", term.name, ranged(&term.estimate, text))
}

/// A value and its interval: `12 (9 to 17)`.
fn ranged(estimate: &Estimate, text: impl Fn(f64) -> String) -> String {
    let value = text(estimate.value);
    match estimate.interval {
        None => value,
        Some((low, high)) => {
            let (low, high) = (text(low), text(high));
            if low == high { value } else { format!("{value} ({low} to {high})") }
        }
    }
}

/// A share in percent with its interval: `20 % (19 to 21)`; with a decimal where the interval is narrower than a percent.
fn percent(share: &Estimate) -> String {
    let is_narrow = share.interval.is_some_and(|(low, high)| high - low < 0.01);
    let text = |share: f64| format!("{:.*}", usize::from(is_narrow), 100.0 * share);
    let interval = share.interval.map(|(low, high)| format!(" ({} to {})", text(low), text(high)));
    format!("{} %{}", text(share.value), interval.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use laws::{Sweep, scaling};

    use super::*;

    fn check(rate: impl Fn(f64) -> f64, expected: &[&str]) {
        let counts = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64];
        let runs = counts.map(|cpus: u32| {
            let rate = rate(f64::from(cpus));
            let order = if cpus == 64 { [0.99, 1.01, 1.0] } else { [0.99, 1.0, 1.01] };
            (cpus, order.map(|share| share * rate).to_vec())
        });
        assert_eq!(sentences(&scaling(&Sweep::new(runs).unwrap())), expected);
    }

    #[test]
    fn a_curve_is_told_in_sentences() {
        check(
            |n| 1e6 * n,
            &["no knee up to 64 CPUs (90 % interval: from 58): the rate still grows"],
        );
        check(
            |n| 1e6 * n / (1.0 + 0.1 * (n - 1.0) + 1e-3 * n * (n - 1.0)),
            &[
                "knee at 15 CPUs (15 to 15): the fewest with 90 % of the highest rate",
                "past 32 CPUs the rate falls, by 10 % (9 to 12) up to 64 CPUs",
            ],
        );
        check(
            |n| 1e6 * n / (1.0 + 0.1 * (n - 1.0)) * if n > 24.0 { 0.8 } else { 1.0 },
            &[
                "knee at 18 CPUs (17 or more): the fewest with 90 % of the highest rate",
                "cliff between 24 and 32 CPUs: rates are 20 % (19 to 21) lower after it",
                "past 24 CPUs the rate falls, by 4 % (2 to 5) up to 64 CPUs",
            ],
        );
    }

    /// A lock at these numbers of CPUs: three runs each, 1 % apart.
    fn one_lock(counts: &[u32]) -> Sweep {
        let runs = counts.iter().map(|&cpus| {
            let n = f64::from(cpus);
            (cpus, [0.99, 1.0, 1.01].map(|share| share * 1e6 * n / (1.0 + 0.05 * n)).to_vec())
        });
        Sweep::new(runs).unwrap()
    }

    #[test]
    fn a_forecast_of_single_runs_says_what_it_rests_on() {
        let told = |rates: &[f64], most: u32| {
            let runs = (0..).zip(rates).map(|(log, rate)| (1_u32 << log, vec![*rate]));
            let found = laws::forecast(&Sweep::new(runs).unwrap(), &[], &[most]).unwrap();
            forecast_part("", &found).sentences.join("\n")
        };
        let of_a_law = told(&[100.0, 190.0, 340.0, 560.0], 16);
        assert!(of_a_law.contains(", not measured, by Amdahl's law"), "{of_a_law}");
        assert!(
            of_a_law.contains(&format!(" and {SLOPE}"))
                && of_a_law.contains(&intervals_of(AsPublished::RanOnce)),
            "{of_a_law}"
        );
        let of_none = told(&[100.0, 190.0, 90.0, 200.0], 16);
        assert!(
            of_none.starts_with(&format!("{NO_LAW}\na forecast, not measured, by {SLOPE}")),
            "{of_none}"
        );
        let of_few = told(&[100.0, 190.0, 340.0], 8);
        assert!(
            of_few.starts_with(FEW) && of_few.contains(&intervals_of(AsPublished::FewCounts)),
            "{of_few}"
        );
    }

    #[test]
    fn a_forecast_says_which_of_its_counts_were_measured() {
        let told = |to: &[u32]| {
            let found = laws::forecast(&one_lock(&[1, 2, 4, 8, 16]), &[], to).unwrap();
            let FormPart { table, sentences, .. } = forecast_part("", &found);
            table.text() + &sentences.join("\n")
        };
        let both = told(&[8, 32]);
        assert!(both.contains("a forecast where \"no\" stands under measured"), "{both}");
        assert!(both.contains("5.71M/s"), "{both}");
        assert!(told(&[8]).contains("rates by the law beside those measured, by Amdahl's law"));
        let beyond = told(&[32]);
        assert!(beyond.contains("a forecast, not measured, by") && !beyond.contains("5.71M/s"));
    }

    #[test]
    fn a_law_that_only_many_runs_tell_from_the_curve_is_said_to_be_near() {
        let near = FittedLaw {
            law: Law::Amdahl,
            terms: Vec::new(),
            deviation_percent: 0.153,
            lack_of_fit: Some(0.002),
            fits: false,
            is_near: true,
        };
        assert_eq!(
            described(&near),
            "Amdahl's law: fits within 0.15 %, though the runs can tell the difference, p = 0.002; "
        );
    }
}
