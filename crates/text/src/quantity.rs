//! Numbers as people read them: three digits and a prefix or a unit. Only for the eye;
//! data for programs keeps all digits.

/// Three significant digits with k, M, G or T: `0.25`, `12`, `1.23k`.
pub fn short(value: f64) -> String {
    let prefixes = ["", "k", "M", "G", "T"];
    // Below a thousandth of anything the zeros are harder to count than the exponent.
    if value != 0.0 && value.abs() < 0.000_995 {
        return format!("{value:.1e}");
    }
    // Far beyond the last prefix as well.
    if value.is_finite() && value.abs() >= 1e18 {
        return format!("{value:.2e}");
    }
    // 999.6 would be 1000 in three digits, so it is 1k.
    let mut scaled = value;
    let mut prefix = 0;
    while scaled.abs() >= 999.5 && prefix + 1 < prefixes.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    format!("{}{}", three_digits(scaled), prefixes[prefix])
}

/// A duration in the unit that fits: `312 ns`, `1.5 us`.
pub fn duration_ns(ns: f64) -> String {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let fits = units.iter().rev().find(|(_, size)| ns.abs() >= 0.9995 * size);
    let (unit, size) = fits.unwrap_or(&units[0]);
    format!("{} {unit}", three_digits(ns / size))
}

/// Seconds in a unit of time, by its name in headings and metrics.
pub fn seconds_in(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-9),
        "us" | "µs" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" | "sec" | "second" | "seconds" => Some(1.0),
        "min" | "minute" => Some(60.0),
        "h" | "hour" => Some(3600.0),
        _ => None,
    }
}

/// A number with its sign and this many decimals. What rounds to nothing is `+0.0`: `-0.0` would claim a
/// direction.
pub fn signed(value: f64, decimals: usize) -> String {
    let text = format!("{value:+.decimals$}");
    let is_nothing =
        value.is_finite() && !text.contains(|letter: char| ('1'..='9').contains(&letter));
    if is_nothing { text.replacen('-', "+", 1) } else { text }
}

/// From this factor on a change reads better as one than in percent: a count that was next to nothing has millions of them.
const FACTOR_MIN: f64 = 20.0;

/// A change by its logarithm: `+2.31 %`, or `31.8k times` where it is a multiple.
pub fn log_change(log: f64, decimals: usize) -> String {
    match log.exp() {
        factor if factor >= FACTOR_MIN => format!("{} times", short(factor)),
        _ => format!("{} %", signed(100.0 * log.exp_m1(), decimals)),
    }
}

/// A number with this many decimals, which is never `-0.0`.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = signed(value, decimals);
    text.strip_prefix('+').map_or(text.clone(), str::to_string)
}

/// Three significant digits without trailing zeros after the point.
fn three_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).clamp(0, 6) as usize;
    let text = fixed(value, decimals);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_minus() {
        let all = [-0.004, 0.004, -0.0, -0.006, 1.5, f64::NEG_INFINITY].map(|one| signed(one, 2));
        assert_eq!(all, ["+0.00", "+0.00", "+0.00", "-0.01", "+1.50", "-inf"]);
        assert_eq!([-0.04, -0.06, 12.0].map(|one| fixed(one, 1)), ["0.0", "-0.1", "12.0"]);
        assert_eq!([-0.4, 0.4].map(|one| fixed(one, 0)), ["0", "0"]);
    }

    #[test]
    fn large_changes_are_factors() {
        let change = |factor: f64| log_change(factor.ln(), 2);
        assert_eq!(change(1.0231), "+2.31 %");
        assert_eq!(change(0.5), "-50.00 %");
        assert_eq!(change(19.0), "+1800.00 %");
        assert_eq!(change(31_787.0), "31.8k times");
    }

    #[test]
    fn a_time_too_short_to_tell_has_no_minus() {
        assert_eq!(duration_ns(-1e-9), "0 ns");
        assert_eq!(duration_ns(-12.0), "-12 ns");
    }

    #[test]
    fn three_digits_and_a_prefix() {
        let check = |value, expected: &str| assert_eq!(short(value), expected);
        check(0.0, "0");
        check(0.25, "0.25");
        check(12.0, "12");
        check(12.345, "12.3");
        check(999.4, "999");
        check(999.6, "1k");
        check(1234.0, "1.23k");
        check(-45_600_000.0, "-45.6M");
        check(2e16, "20000T");
        check(0.000_001_23, "1.2e-6");
    }

    #[test]
    fn a_duration_has_the_unit_that_fits() {
        let check = |ns, expected: &str| assert_eq!(duration_ns(ns), expected);
        check(0.0, "0 ns");
        check(0.5, "0.5 ns");
        check(312.0, "312 ns");
        check(999.7, "1 us");
        check(1_500.0, "1.5 us");
        check(20_100_000.0, "20.1 ms");
        check(3_600e9, "3600 s");
    }
}
