//! Times and ages on the command line.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

const USAGE: &str = "must be a date (2026-11-20), a local time (2026-11-20T12:00), a time with its zone \
                     (2026-11-20T12:00:00Z), or an age (7d, 12h, 2w)";

/// Parses the time from which on something counts. A date means its start.
pub fn since(text: &str) -> Result<Timestamp> {
    time(text, 0)
}

/// Parses the time before which something counts. A date means its end.
pub fn until(text: &str) -> Result<Timestamp> {
    time(text, 1)
}

/// Parses a time; a date is the local midnight that many days later.
fn time(text: &str, days: i64) -> Result<Timestamp> {
    if let Ok(age) = age(text) {
        return Timestamp::now().checked_sub(age).context(USAGE);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let zone = TimeZone::system();
    let local = match (text.len() > 10, text.parse::<Date>(), text.parse::<DateTime>()) {
        (false, Ok(date), _) => date.checked_add(days.days())?.to_zoned(zone)?,
        (true, _, Ok(time)) => time.to_zoned(zone)?,
        _ => bail!("'{text}' {USAGE}"),
    };
    Ok(local.timestamp())
}

/// Parses an age: `30d`, `12h`, `2w`.
pub fn age(text: &str) -> Result<SignedDuration> {
    let hours = match text.chars().last() {
        Some('h') => 1,
        Some('d') => 24,
        Some('w') => 24 * 7,
        _ => 0,
    };
    let number =
        text.get(..text.len().saturating_sub(1)).and_then(|digits| digits.parse::<u32>().ok());
    let hours = number.filter(|_| hours > 0).map(|number| i64::from(number) * hours);
    let hours = hours.with_context(|| format!("'{text}' must be an age such as 30d, 12h or 2w"))?;
    Ok(SignedDuration::from_hours(hours))
}

/// The length of a run in seconds: a number, or one with ms, s, m or h.
pub fn seconds(text: &str) -> Result<f64> {
    let number = |text: &str| text.parse::<f64>().ok();
    let seconds = number(text).or_else(|| Some(number(text.strip_suffix("ms")?)? / 1000.0));
    match seconds {
        Some(seconds) => Ok(seconds),
        None => duration(text).map(|length| length.as_secs_f64()).ok().with_context(|| {
            format!("'{text}' must be a number of seconds, or a time such as 500ms, 2s or 1m")
        }),
    }
}

/// A length of time: a number with s, m or h.
pub fn duration(text: &str) -> Result<Duration> {
    let (number, factor) = match text.char_indices().next_back() {
        Some((end, 's')) => (&text[..end], 1.0),
        Some((end, 'm')) => (&text[..end], 60.0),
        Some((end, 'h')) => (&text[..end], 3600.0),
        _ => (text, f64::NAN),
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * factor;
    ensure!((0.01..=1e7).contains(&seconds), "must be a time such as 90s, 10m or 1h");
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_has_a_unit() {
        assert_eq!(duration("90s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("0.5h").unwrap(), Duration::from_secs(1800));
        for wrong in
            ["", "10", "s", "0s", "-1s", "-1m", "nanm", "NaNs", "1d", "é", "1e99h", "1e300h"]
        {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn runs_last_seconds_or_a_time_with_a_unit() {
        for (text, expected) in
            [("1", 1.0), ("0.5", 0.5), ("1s", 1.0), ("500ms", 0.5), ("2m", 120.0)]
        {
            assert_eq!(seconds(text).unwrap(), expected, "{text}");
        }
        for wrong in ["", "s", "ms", "1d", "é"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(age("2w").unwrap(), SignedDuration::from_hours(336));
        for wrong in ["", "d", "1", "-1d", "1.5d", "1m", "99999999999d", "é"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_date_is_its_start_or_its_end() {
        let day = until("2026-11-20").unwrap().duration_since(since("2026-11-20").unwrap());
        assert!((23..=25).contains(&day.as_hours()));
        let time = "2026-11-20T12:00:00Z";
        assert_eq!(since(time).unwrap(), until(time).unwrap());
        assert!(since("2026-11-20T12:00").is_ok());
        assert!(since("4294967295w").is_err());
        for wrong in ["", "yesterday", "2026-13-01", "2026-11-20T25:00"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
