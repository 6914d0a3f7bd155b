//! Hysteresis of a record whose blocks sweep up and down in turn, in a sentence.

use laws::Hysteresis;
use text::prose::counted;
use text::quantity::signed;

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
