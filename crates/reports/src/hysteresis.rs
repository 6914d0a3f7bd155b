//! Hysteresis of a record whose blocks sweep up and down in turn.

use std::collections::BTreeMap;

use analysis::Curve;
use laws::{Hysteresis, UpAndDown};
use records::{PointOrder, Record};
use text::prose::counted;
use text::quantity::signed;

/// The hysteresis of a curve. `None` unless its record sweeps up and down, at least twice each way.
pub fn hysteresis(record: &Record, curve: &Curve, metric: &str) -> Option<Hysteresis> {
    if record.experiment.compare.order != PointOrder::UpDown {
        return None;
    }
    let mut sweeps: BTreeMap<u32, Vec<(u32, f64)>> = BTreeMap::new();
    for cell in &curve.cells {
        for run in &cell.runs {
            let Some(rate) = run.value(metric) else { continue };
            sweeps.entry(run.block).or_default().push((cell.point.cpus, rate));
        }
    }
    let pair = |(block, up): (&u32, &Vec<(u32, f64)>)| {
        let down = sweeps.get(&(block + 1)).filter(|_| block.is_multiple_of(2))?;
        Some(UpAndDown { up: up.clone(), down: down.clone() })
    };
    laws::hysteresis(&sweeps.iter().filter_map(pair).collect::<Vec<_>>())
}

/// "no hysteresis: rates of sweeps down are +0.1 % (-0.4 to +0.6) of those up, over 5 pairs of sweeps".
pub fn hysteresis_sentence(found: &Hysteresis) -> String {
    /// The probability of hysteresis where there is none.
    const SURE: f64 = 0.05;
    let signed = |share: f64| signed(100.0 * share, 1);
    let range = found
        .loop_area
        .interval
        .map_or(String::new(), |(low, high)| format!(" ({} to {})", signed(low), signed(high)));
    let pairs = counted(found.pairs, "pair");
    let word = if found.p < SURE { "hysteresis" } else { "no hysteresis found" };
    format!(
        "{word}: rates on the way down differ by {} %{range} from those on the way up, over {pairs} of sweeps",
        signed(found.loop_area.value)
    )
}
