//! Lengths of time as people write them: `200ns`, `2us`, `1.5ms`, `1s`, `10m`, `1h`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

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

/// A long time, as in `90s`, `10m` or `1h`.
pub fn duration(text: &str) -> Result<Duration> {
    let (number, factor) = match text.char_indices().next_back() {
        Some((end, 's')) => (&text[..end], 1.0),
        Some((end, 'm')) => (&text[..end], 60.0),
        Some((end, 'h')) => (&text[..end], 3600.0),
        _ => (text, f64::NAN),
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * factor;
    ensure!(
        (0.01..=1e7).contains(&seconds),
        "must be a number with s, m or h, such as 90s, 10m or 1h"
    );
    Ok(Duration::from_secs_f64(seconds))
}

/// A short duration, `200ns`, `2us`, `1.5ms` or `1s`, as whole ns.
pub fn duration_ns(text: &str) -> Result<u64> {
    whole_ns(text).context("must be a duration such as 200ns, 2us, 1.5ms or 1s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_time_has_a_unit() {
        let lengths =
            [("200ns", 200), ("1.5 us", 1500), (" 2ms", 2_000_000), ("1s", 1_000_000_000)];
        for (text, ns) in lengths {
            assert_eq!(whole_ns(text), Some(ns), "{text}");
        }
        for wrong in ["", "5", "ns", "-1ns", "nanns", "1e9s", "5m", "5k"] {
            assert_eq!(whole_ns(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_long_time_has_a_unit() {
        assert_eq!(duration("90s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("0.5h").unwrap(), Duration::from_secs(1800));
        for wrong in ["", "10", "s", "-1s", "nanm", "1d", "é", "1e99h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
