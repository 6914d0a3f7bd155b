//! A traced ceiling beside a curve: a level in its drawing, and a sentence.

use answers::{Ceiling, CeilingMet, CurveCeiling};
use laws::Forecast;
use text::quantity::{fixed, short};

use crate::CurvePanel;
use crate::curve_panel::{Reaching, for_values};

/// A level this many times above the curve would press it to the axis.
const HIGHEST: f64 = 4.0;

/// Draws the highest rates of ceilings as levels over the whole curve, each reaching down to its lowest. Those far above
/// the curve are left to their sentences.
pub fn draw_ceilings(panel: &mut CurvePanel, ceilings: &[CurveCeiling]) {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let top = points().map(|point| point.spread.mean).fold(0.0, f64::max);
    let mut counts: Vec<u32> = points().map(|point| point.cpus).collect();
    counts.sort_unstable();
    counts.dedup();
    let drawn = ceilings.iter().filter(|one| one.ceiling.operations_per_s[1] <= HIGHEST * top);
    let lines = drawn.map(|CurveCeiling { ceiling, .. }| {
        let [low, high] = ceiling.operations_per_s;
        let level: Vec<Reaching> =
            counts.iter().map(|cpus| (*cpus, high, Some((low, high)))).collect();
        (format!("ceiling, {}", ceiling.host), level)
    });
    let levels = for_values(&panel.metric, &panel.over, lines.collect()).lines;
    panel.lines.extend(levels);
}

/// "ceiling: 144k to 9.26M operations/s, by files_struct.file_lock at 36 to 158 ns a transfer (icelake-2s), traced on
/// 6.12.117; one CPU's 1.2M/s (its runs), times the CPUs, meet it at 1 to 7.7 CPUs".
pub fn ceiling_sentence(found: &CurveCeiling) -> String {
    let CurveCeiling { operation, on, ceiling } = found;
    let [low, high] = ceiling.operations_per_s.map(short);
    let [near, far] = ceiling.transfer_ns.map(|ns| fixed(ns, 0));
    let met =
        ceiling.meets.as_ref().map_or(String::new(), |met| format!("; {}", met_sentence(met)));
    format!(
        "ceiling of {operation}: {low} to {high} operations/s, by {} at {near} to {far} ns a transfer ({}), traced on {on}{met}",
        ceiling.member, ceiling.host
    )
}

/// "one CPU's 1.2M/s (--rate), times the CPUs, meet it at 1 to 7.7 CPUs".
pub fn met_sentence(met: &CeilingMet) -> String {
    let CeilingMet { one_cpu_per_s, from, cpus: [low, high] } = met;
    let rate = short(*one_cpu_per_s);
    let (low, high) = (cpus(*low), cpus(*high));
    format!("one CPU's {rate}/s ({from}), times the CPUs, meets it at {low} to {high} CPUs")
}

/// A number of CPUs that need not be whole, with a digit behind the point below 10.
fn cpus(number: f64) -> String {
    fixed(number, usize::from(number < 10.0)).trim_end_matches(".0").to_string()
}

/// What ceilings say of a forecast, and which of its rates pass them.
pub fn forecast_ceilings(found: &Forecast, ceilings: &[CurveCeiling]) -> Vec<String> {
    let rates = || found.points.iter().map(|point| (point.cpus, point.rate.value));
    let passed = ceilings.iter().filter_map(|one| passes(&one.ceiling, rates()));
    ceilings.iter().map(ceiling_sentence).chain(passed).collect()
}

/// "the forecast of 64 CPUs passes the ceiling (icelake-2s)", of rates at numbers of CPUs.
fn passes(ceiling: &Ceiling, rates: impl Iterator<Item = (u32, f64)>) -> Option<String> {
    let [_, highest] = ceiling.operations_per_s;
    let above: Vec<String> =
        rates.filter(|(_, rate)| *rate > highest).map(|(cpus, _)| cpus.to_string()).collect();
    let host = &ceiling.host;
    (!above.is_empty())
        .then(|| format!("the forecast of {} CPUs passes the ceiling ({host})", above.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(highest: f64) -> CurveCeiling {
        let ceiling = Ceiling {
            host: "icelake-2s".into(),
            member: "dentry.d_lockref".into(),
            transfers: [2.0, 2.0],
            transfer_ns: [36.0, 158.0],
            held_instructions: 0.0,
            slowest_member: "dentry.d_lockref".into(),
            operations_per_s: [highest / 4.0, highest],
            meets: None,
        };
        CurveCeiling { operation: "stat".into(), on: "6.12".into(), ceiling }
    }

    fn panel() -> CurvePanel {
        let curve = [1, 2, 4].map(|cpus| (cpus, 1e6 * f64::from(cpus), None)).to_vec();
        for_values("operations_per_s", crate::OVER_CPUS, vec![("measured".to_string(), curve)])
    }

    #[test]
    fn a_ceiling_is_a_level_over_the_whole_curve_unless_it_is_far_above() {
        let mut drawn = panel();
        draw_ceilings(&mut drawn, &[traced(14e6), traced(80e6)]);
        assert_eq!(drawn.lines.len(), 2);
        let level: Vec<(u32, f64)> =
            drawn.lines[1].points.iter().map(|point| (point.cpus, point.spread.mean)).collect();
        assert_eq!(level, [(1, 14e6), (2, 14e6), (4, 14e6)]);
        assert_eq!(drawn.lines[1].points[0].band, Some((3.5e6, 14e6)));
    }

    #[test]
    fn a_sentence_says_whose_transfers_were_assumed_and_where_one_cpu_meets_it() {
        let mut found = traced(14e6);
        found.ceiling.met_from(1.25e6, "--rate");
        assert_eq!(
            ceiling_sentence(&found),
            "ceiling of stat: 3.5M to 14M operations/s, by dentry.d_lockref at 36 to 158 ns a transfer (icelake-2s), \
             traced on 6.12; one CPU's 1.25M/s (--rate), times the CPUs, meets it at 2.8 to 11 CPUs"
        );
    }

    #[test]
    fn forecasts_above_a_ceiling_are_named() {
        let ceiling = traced(14e6).ceiling;
        let rates = [(8, 9e6), (32, 15e6), (64, 20e6)];
        assert_eq!(
            passes(&ceiling, rates.into_iter()).unwrap(),
            "the forecast of 32, 64 CPUs passes the ceiling (icelake-2s)"
        );
        assert_eq!(passes(&ceiling, rates[..1].iter().copied()), None);
    }
}
