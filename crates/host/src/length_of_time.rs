//! Lengths of time as people write them: `200ns`, `2us`, `1.5ms`, `1s`.

/// The longest length, in ns: 1000 s.
const LONGEST_NS: f64 = 1e12;

/// A length of time with its unit, in whole ns. `None` if the text is something else, or the time is longer than 1000 s.
pub fn whole_ns(text: &str) -> Option<u64> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    units.iter().find_map(|(unit, size)| {
        let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        (0.0..=LONGEST_NS).contains(&(number * size)).then_some((number * size).round() as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_has_a_unit() {
        let lengths =
            [("200ns", 200), ("1.5 us", 1500), (" 2ms", 2_000_000), ("1s", 1_000_000_000)];
        for (text, ns) in lengths {
            assert_eq!(whole_ns(text), Some(ns), "{text}");
        }
        for wrong in ["", "5", "ns", "-1ns", "nanns", "1e9s", "5m", "5k"] {
            assert_eq!(whole_ns(wrong), None, "{wrong}");
        }
    }
}
