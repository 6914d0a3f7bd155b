//! Numbers as people and programs write them: 1,650, 1.2k, 12.3ms, 87%, 1m3.2s, 1:02.5. What may be two things is refused:
//! 12,5 and 5m are.

use std::borrow::Cow;

/// A number with the unit that its text gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The number, in the unit.
    pub value: f64,
    /// The unit as written; empty if there is none. A time of several units is in s.
    pub unit: String,
}

/// Units of time in ns.
const TIMES: [(&str, f64); 22] = [
    ("ps", 1e-3),
    ("ns", 1.0),
    ("nsec", 1.0),
    ("nsecs", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("usec", 1e3),
    ("usecs", 1e3),
    ("ms", 1e6),
    ("msec", 1e6),
    ("msecs", 1e6),
    ("s", 1e9),
    ("sec", 1e9),
    ("secs", 1e9),
    ("second", 1e9),
    ("seconds", 1e9),
    ("min", 60e9),
    ("minutes", 60e9),
    ("h", 3600e9),
    ("hours", 3600e9),
    ("d", 86_400e9),
];

/// Amounts and rates whose prefixes have one meaning.
const AMOUNTS: [(&str, f64); 18] = [
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("B/s", 1.0),
    ("KiB/s", 1024.0),
    ("MiB/s", 1048576.0),
    ("GiB/s", 1073741824.0),
    ("bits/sec", 1.0),
    ("Kbits/sec", 1e3),
    ("Mbits/sec", 1e6),
    ("Gbits/sec", 1e9),
    ("bps", 1.0),
    ("Kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
];

/// Other words that are units if they follow a number after a blank.
const OTHERS: [&str; 16] = [
    "%", "KB", "MB", "GB", "kB", "KB/s", "MB/s", "GB/s", "kB/s", "MB/sec", "GB/sec", "KB/sec",
    "ops/s", "ops/sec", "op/s", "req/s",
];

/// Prefixes of counts.
pub const COUNTS: [(&str, f64); 5] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];

impl Quantity {
    /// The number that a text begins with. What follows it matters: `1` of `1m3.2s` is no number by itself.
    pub fn at(text: &str) -> Result<Quantity, String> {
        let (number, rest) = text.split_at(number_length(text));
        let shown = || {
            let end = text.find(|c: char| c.is_whitespace() || "\"'()<>".contains(c));
            text[..end.unwrap_or(text.len())].chars().take(40).collect::<String>()
        };
        let refused = |why: &str| Err(format!("found '{}', {why}", shown()));
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let mut letters = rest.chars();
        let (next, after) = (letters.next(), letters.next());
        if next == Some(':') && is_digit(after) {
            return match clock(text) {
                Some(seconds) => Ok(Quantity { value: seconds, unit: "s".to_string() }),
                None => refused("which is neither a number nor a time"),
            };
        }
        let Some(value) = plain(number) else {
            return refused(if number.contains(',') {
                "which may be a decimal comma or more than one number: end the pattern with what follows {}"
            } else {
                "which is not a number"
            });
        };
        let word = unit_word(rest);
        let behind = &rest[word.len()..];
        if word.is_empty() {
            return Ok(Quantity { value, unit: apart(rest).to_string() });
        }
        if behind.starts_with(|c: char| c.is_ascii_digit()) {
            return match composite(text) {
                Some(seconds) => Ok(Quantity { value: seconds, unit: "s".to_string() }),
                None => refused("which is not a number"),
            };
        }
        if word == "m" {
            return refused("which may be minutes or millions: make a CSV with the column value");
        }
        let factor = COUNTS.iter().find(|(prefix, _)| *prefix == word);
        Ok(match factor {
            Some((_, factor)) => Quantity { value: value * factor, unit: String::new() },
            None => Quantity { value, unit: word.to_string() },
        })
    }

    /// The number that a text is, with nothing behind it but its unit.
    pub fn whole(text: &str) -> Result<Quantity, String> {
        let found = Quantity::at(text)?;
        let mut words = text.split_whitespace().skip(1);
        match (words.next(), words.next()) {
            (None, _) => Ok(found),
            (Some(unit), None) if unit == found.unit => Ok(found),
            _ => Err(format!("found '{text}', which is more than a number")),
        }
    }

    /// A number alone.
    pub fn without_unit(value: f64) -> Quantity {
        Quantity { value, unit: String::new() }
    }

    /// The number in another unit, if both are times, or amounts whose prefixes have one meaning.
    pub fn in_unit(&self, unit: &str) -> Option<f64> {
        if self.unit == unit {
            return Some(self.value);
        }
        let factor = |unit: &str| {
            let find = |known: &[(&str, f64)]| {
                known.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
            };
            find(&TIMES).map(|s| ("time", s)).or_else(|| {
                let kind =
                    if unit.contains("it") || unit.ends_with("bps") { "bits" } else { "bytes" };
                find(&AMOUNTS).map(|factor| (kind, factor))
            })
        };
        let is_rate = |unit: &str| unit.contains('/') || unit.ends_with("bps");
        let ((kind, from), (other, to)) = (factor(&self.unit)?, factor(unit)?);
        // Powers of ten above 1 are exact.
        let value = if from < to { self.value / (to / from) } else { self.value * (from / to) };
        (kind == other && is_rate(&self.unit) == is_rate(unit)).then_some(value)
    }

    /// The number in the base unit of its kind: s, B, B/s, bps or 1/s. Others, such as kB, may have two meanings and stay.
    pub fn in_base(self) -> Quantity {
        const RATES: [&str; 6] = ["/s", "/sec", "ops/s", "ops/sec", "op/s", "req/s"];
        if RATES.contains(&&self.unit[..]) {
            return Quantity { unit: "1/s".to_string(), ..self };
        }
        let base = ["s", "B", "B/s", "bps"].into_iter();
        let base = base.filter_map(|unit| Some((unit, self.in_unit(unit)?))).next();
        base.map_or(self, |(unit, value)| Quantity { value, unit: unit.to_string() })
    }

    /// Whether a unit says nothing of what is counted: a number's text may tell it.
    pub fn is_open(unit: &str) -> bool {
        ["1", "1/s"].contains(&unit)
    }

    /// Whether a unit is one of time.
    pub fn is_time(unit: &str) -> bool {
        TIMES.iter().any(|(name, _)| *name == unit)
    }
}

/// Whether the whole number that a text begins with is this.
pub fn is_whole(number: &str, text: &str) -> bool {
    number_length(text) == number.len()
}

/// The length of the digits at a text's start, with sign, separators and exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    at += digits(at);
    while matches!(bytes.get(at), Some(b',' | b'.')) && digits(at + 1) > 0 {
        at += 1 + digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits((at + 1 + sign).min(bytes.len()));
        at += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    // 2026-11-30 is a date, 10-20 a range.
    if matches!(bytes.get(at), Some(b'-')) && digits(at + 1) > 0 {
        at += 1 + digits(at + 1);
    }
    at
}

/// A number with thousands between commas, maybe: 1,650.5.
pub fn plain(text: &str) -> Option<f64> {
    let (whole, _) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.trim_start_matches(['+', '-']).split(',');
    let first = groups.next().unwrap_or_default();
    let mut others = groups.peekable();
    if others.peek().is_some() {
        let are_groups = (1..=3).contains(&first.len()) && others.all(|group| group.len() == 3);
        // 0,125 is a decimal comma.
        if !are_groups || first == "0" {
            return None;
        }
    }
    let text = if whole.contains(',') { Cow::Owned(text.replace(',', "")) } else { text.into() };
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// The letters right behind a number.
fn unit_word(rest: &str) -> &str {
    let is_unit = |c: char| c.is_alphabetic() || c == '%' || c == 'µ';
    let end = rest.find(|c: char| !is_unit(c)).unwrap_or(rest.len());
    let letters = &rest[..end];
    // 5MB/s, but not 5/10.
    let per = rest[end..].strip_prefix('/').map_or(0, |per| {
        let length = per.find(|c: char| !c.is_alphabetic()).unwrap_or(per.len());
        if length > 0 { length + 1 } else { 0 }
    });
    let is_per_second = ["/s", "/sec"].contains(&&rest[end..end + per]);
    if letters.is_empty() && !is_per_second { "" } else { &rest[..end + per] }
}

/// A unit that stands behind a number after a blank.
fn apart(rest: &str) -> &str {
    let Some(after) = rest.strip_prefix([' ', '\t']) else { return "" };
    let word = after.split_whitespace().next().unwrap_or_default();
    let word = word.trim_end_matches([',', ';', '.', ')', ']', ':', '"', '|']);
    let is_known = TIMES.iter().chain(&AMOUNTS).any(|(name, _)| *name == word);
    // A letter alone may be any word's.
    let is_sure = is_known && !["d", "h", "B"].contains(&word);
    if is_sure || OTHERS.contains(&word) { word } else { "" }
}

/// A time of several units, such as 1m3.2s, in s.
fn composite(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != 'µ');
    let mut rest = text[..end.unwrap_or(text.len())].trim_end_matches('.');
    let mut seconds = 0.0;
    let mut before = f64::INFINITY;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let factor = if unit == "m" {
            60e9
        } else {
            TIMES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)?
        };
        if factor >= before {
            return None;
        }
        seconds += number.parse::<f64>().ok()? * (factor / 1e9);
        (before, rest) = (factor, tail);
    }
    Some(seconds)
}

/// A time as a clock shows it, such as 1:02.5 or 1:00:02, in s.
fn clock(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.');
    let text = text[..end.unwrap_or(text.len())].trim_end_matches([':', '.']);
    let parts: Vec<&str> = text.split(':').collect();
    let (first, others) = parts.split_first()?;
    let is_part = |part: &&str| {
        let whole = part.split('.').next().unwrap_or_default();
        whole.len() == 2 && whole < "60"
    };
    if parts.len() > 3 || !others.iter().all(is_part) {
        return None;
    }
    let mut seconds = first.parse::<u32>().ok().map(f64::from)?;
    for part in others {
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, value: f64, unit: &str) {
        let found = Quantity::at(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert!((found.value - value).abs() <= value.abs() * 1e-12, "{text}: {found:?}");
        assert_eq!(found.unit, unit, "{text}");
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        check("1,650,123.5 tps", 1650123.5, "");
        check("-5", -5.0, "");
        check("1.5e-3,", 1.5e-3, "");
        check("1650, 7", 1650.0, "");
        check("12.3ms", 12.3, "ms");
        check("12.3 ms, p99 7", 12.3, "ms");
        check("1.2k", 1200.0, "");
        check("87%", 87.0, "%");
        check("606.5MB/s", 606.5, "MB/s");
        check("9.4 Gbits/sec", 9.4, "Gbits/sec");
        check("5/10", 5.0, "");
        check("35.50/sec (avg", 35.5, "/sec");
        check("7 days", 7.0, "");
    }

    #[test]
    fn times_of_several_units_are_in_seconds() {
        check("1m3.2s", 63.2, "s");
        check("0m1.25s\n", 1.25, "s");
        check("1h2m3s", 3723.0, "s");
        check("0:12.34", 12.34, "s");
        check("1:00:02", 3602.0, "s");
    }

    #[test]
    fn what_may_be_two_things_is_refused() {
        for (text, why) in [
            ("12,5 ms", "decimal comma"),
            ("0,125", "decimal comma"),
            ("5,6,7", "decimal comma"),
            ("5m", "minutes or millions"),
            ("2026-11-30", "'2026-11-30', which is not a number"),
            ("1.2.3", "not a number"),
            ("0x1f", "not a number"),
            ("5a3f9", "not a number"),
            ("1:99", "neither a number nor a time"),
            ("word", "not a number"),
        ] {
            let error = Quantity::at(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn units_of_one_kind_are_converted() {
        let check = |text: &str, unit: &str, expected: Option<f64>| {
            let found = Quantity::at(text).unwrap().in_unit(unit);
            let is_near = found.zip(expected).map(|(a, b)| (a / b - 1.0).abs() < 1e-12);
            assert_eq!((found.is_some(), is_near.unwrap_or(true)), (expected.is_some(), true));
        };
        check("635.91us", "ms", Some(0.63591));
        check("1.2s", "us", Some(1.2e6));
        check("9.4Gbits/sec", "Mbits/sec", Some(9400.0));
        check("5MiB/s", "KiB/s", Some(5120.0));
        // Whether a kB is 1000 or 1024 bytes differs from tool to tool.
        check("5MB/s", "KB/s", None);
        check("5ms", "MB/s", None);
        check("5GiB", "MiB/s", None);
    }
}
