//! Lengths of time on the command line.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A length of time: a number with s, m or h.
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
    host::whole_ns(text).context("must be a duration such as 200ns, 2us, 1.5ms or 1s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_has_a_unit() {
        assert_eq!(duration("90s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("0.5h").unwrap(), Duration::from_secs(1800));
        for wrong in ["", "10", "s", "-1s", "nanm", "1d", "é", "1e99h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
