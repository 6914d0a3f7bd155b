//! Digits: a printed number carries as many as its uncertainty allows, and no more.

/// `value` and its uncertainty, rounded by the rule of the Particle Data Group: of the
/// three leading digits of the uncertainty, 100 to 354 keep two digits, 355 to 949 one, and
/// 950 to 999 become 1000 and keep two. The value ends at the same decimal place.
///
/// Source: Particle Data Group, Review of Particle Physics, Introduction, section 5.3.
pub fn with_uncertainty(value: f64, uncertainty: f64) -> (String, String) {
    if !(uncertainty > 0.0 && uncertainty.is_finite() && value.is_finite()) {
        return (rounded(value, 4), "0".to_string());
    }
    let magnitude = uncertainty.log10().floor() as i32;
    let leading = (uncertainty / 10_f64.powi(magnitude - 2)).round();
    let place = if leading < 355.0 { magnitude - 1 } else { magnitude };
    (at_place(value, place), at_place(uncertainty, place))
}

/// `value` with `digits` significant digits.
pub fn rounded(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    at_place(value, magnitude + 1 - digits)
}

/// `value` rounded to a multiple of 10^`place`, with thousands separated.
fn at_place(value: f64, place: i32) -> String {
    if place < 0 {
        return grouped(&format!("{value:.*}", place.unsigned_abs() as usize));
    }
    let unit = 10_f64.powi(place);
    grouped(&format!("{:.0}", (value / unit).round() * unit))
}

/// Separates thousands by a space: 1 234 567.8.
fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        // Numbers of four digits stay together: 1234.
        if i > 0 && (whole.len() - i).is_multiple_of(3) && whole.len() > 4 {
            out.push(' ');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: f64, uncertainty: f64, expected: &str) {
        let (value, uncertainty) = with_uncertainty(value, uncertainty);
        assert_eq!(format!("{value} ± {uncertainty}"), expected);
    }

    #[test]
    fn digits_follow_the_uncertainty() {
        check(0.827, 0.119, "0.83 ± 0.12");
        check(0.827, 0.367, "0.8 ± 0.4");
        check(325_907.3, 16_600.0, "326 000 ± 17 000");
        check(325_907.3, 4.2, "325 907 ± 4");
        check(1234.5, 96.4, "1230 ± 100");
        check(780.505, 20.077, "781 ± 20");
        check(12.0, 0.0, "12.00 ± 0");
        check(-1_234_567.0, 2000.0, "-1 234 600 ± 2000");
        check(f64::NAN, 1.0, "0 ± 0");
    }

    #[test]
    fn rounded_keeps_significant_digits() {
        assert_eq!(rounded(12_345_678.0, 3), "12 300 000");
        assert_eq!(rounded(0.001_234_5, 3), "0.00123");
        assert_eq!(rounded(0.0, 3), "0");
    }
}
