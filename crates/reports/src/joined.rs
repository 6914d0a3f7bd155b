//! A simulated curve joined to a measured one: a line in its drawing, and sentences.

use answers::{JoinedCurve, OperationPoint};
use text::prose::counted;
use text::quantity::{fixed, short};

use crate::CurvePanel;
use crate::curve_panel::{Reaching, for_values};

/// Draws a joined curve from its joint on.
pub fn draw_joined(panel: &mut CurvePanel, joined: &JoinedCurve) {
    let reaching = |point: &OperationPoint| -> Reaching {
        let range = (point.operations_per_s_lowest, point.operations_per_s_highest);
        (point.cpus as u32, point.operations_per_s, Some(range))
    };
    let first: Reaching = (joined.joint, joined.measured, None);
    let points = [first].into_iter().chain(joined.points.iter().map(reaching)).collect();
    let line = (format!("simulated, {}", joined.host), points);
    panel.lines.extend(for_values(&panel.metric, &panel.over, vec![line]).lines);
}

/// "simulated on modern-8n, joined at 8 CPUs (measured 6.1M, simulated 5.2M: 1.17 times): 4.1M (2.2M to 6.0M) on 64 CPUs, …".
pub fn joined_sentences(joined: &JoinedCurve) -> Vec<String> {
    let JoinedCurve { host, on, joint, measured, simulated, points, stopped_by } = joined;
    let rate = |point: &OperationPoint| {
        format!(
            "{} ({} to {}) on {}",
            short(point.operations_per_s),
            short(point.operations_per_s_lowest),
            short(point.operations_per_s_highest),
            counted(point.cpus, "CPU")
        )
    };
    let rates: Vec<String> = points.iter().map(rate).collect();
    let joint = counted(*joint as usize, "CPU");
    let curve = format!(
        "simulated on {host} from the accesses on {on}, joined at {joint} (measured {}, simulated {}: times {}): {}",
        short(*measured),
        short(*simulated),
        fixed(measured / simulated, 2),
        if rates.is_empty() { "no more CPUs were simulated".to_string() } else { rates.join(", ") }
    );
    let stop = stopped_by.as_ref().map(|line| {
        format!(
            "there it waits for {}: without it {} times as fast",
            line.member,
            fixed(line.faster, 1)
        )
    });
    [Some(curve), stop].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use answers::SimulatedOperation;

    use super::*;

    #[test]
    fn simulated_rates_are_joined_where_both_are_known() {
        let point = |cpus: usize, rate: f64| OperationPoint {
            cpus,
            operations_per_s: rate,
            operations_per_s_lowest: 0.5 * rate,
            operations_per_s_highest: 2.0 * rate,
        };
        let simulated = SimulatedOperation {
            operation: "stat".to_string(),
            on: "6.12".to_string(),
            recorded: vec![8, 8],
            instructions: 3000.0,
            one_cpu: None,
            instruction_ns: 0.3,
            length_us: 1000.0,
            points: vec![point(1, 1e6), point(4, 3e6), point(64, 2e6)],
            stops: Vec::new(),
            waits: None,
            model_error: None,
            warnings: Vec::new(),
        };
        let joined = simulated.joined_to("modern-8n", &[(1, 1.1e6), (4, 6e6), (8, 7e6)]).unwrap();
        assert_eq!(
            joined_sentences(&joined),
            [
                "simulated on modern-8n from the accesses on 6.12, joined at 4 CPUs (measured 6M, simulated 3M: times 2.00): \
                 4M (2M to 8M) on 64 CPUs"
            ]
        );
        assert_eq!(simulated.joined_to("modern-8n", &[(3, 1e6)]), None);
    }
}
