//! One number of a host: what it is, in which unit, and where it comes from.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// A number as a file has it: `{ found = "109 cycles", source = "sosp13" }`. A value or a range
/// with its unit, and its origin.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// It stands in a publication.
    found: Option<String>,
    /// Which: a name of `[sources]`.
    source: Option<String>,
    /// It was measured.
    measured: Option<String>,
    /// Where and when.
    at: Option<String>,
    /// In which way.
    how: Option<String>,
    /// Nobody knows; it should be in this range.
    assumed: Option<String>,
    /// Why.
    why: Option<String>,
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A publication says so.
    Found(String),
    /// It was measured, where and when, and how.
    Measured(String, String),
    /// A guess, and why.
    Assumed(String),
}

/// A number in its base unit: picoseconds, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// The lowest that it may be.
    pub low: f64,
    /// What is taken where no range is drawn from.
    pub middle: f64,
    /// The highest that it may be.
    pub high: f64,
    /// Where it comes from.
    pub origin: Origin,
    /// As the file has it.
    pub text: String,
}

/// What a unit of the file is in picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Of one clock cycle.
    pub cycle_ps: Option<f64>,
    /// Whether the number is the time of one line, of which a file may say how many bytes of them
    /// come in a second.
    pub of_line: bool,
}

/// What a line of 64 bytes takes at 1 GB/s, in ps.
const LINE_AT_GB_PER_S: f64 = 64_000.0;

/// Which value of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// The one in the middle of each.
    Middle,
    /// Any of each, by this seed.
    Any(u64),
}

impl Written {
    /// The number.
    pub fn number(&self, units: Units, sources: &[String]) -> Result<Number> {
        let (text, origin) = match (&self.found, &self.measured, &self.assumed) {
            (Some(text), None, None) => {
                let source = self.source.clone().context("what is found has a `source`")?;
                let is_known = sources.contains(&source);
                ensure!(is_known, "source {source:?} is not in [sources]");
                (text, Origin::Found(source))
            }
            (None, Some(text), None) => {
                let at = self.at.clone().context("what is measured says `at`: where and when")?;
                let how = self.how.clone().context("what is measured says `how`")?;
                (text, Origin::Measured(at, how))
            }
            (None, None, Some(text)) => {
                (text, Origin::Assumed(self.why.clone().context("what is assumed says `why`")?))
            }
            _ => bail!("a number is one of found, measured or assumed"),
        };
        let [low, middle, high] = range(text, units).with_context(|| format!("{text:?}"))?;
        Ok(Number { low, middle, high, origin, text: text.clone() })
    }
}

/// A second in ps: longer than anything that a host is priced for, and far from overflowing.
const LARGEST: f64 = 1e12;

/// `109 cycles`, `90..140 ns`, `90..110..140 ns`, `25.3 GB/s`, `0.5`: the lowest value, the middle one, the
/// highest. The middle of a range is that of ratios: between 10 and 1000 it is 100.
fn range(text: &str, units: Units) -> Result<[f64; 3]> {
    let (numbers, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let is_rate = units.of_line && unit.trim() == "GB/s";
    let unit = match unit.trim() {
        "" => 1.0,
        "ps" => 1.0,
        "GB/s" if is_rate => 1.0,
        "ns" => 1e3,
        "us" => 1e6,
        "ms" => 1e9,
        "cycles" => units.cycle_ps.context("cycles of which clock? The host has no `ghz`")?,
        other => bail!("unit {other:?}: ps, ns, us, ms, cycles, or none"),
    };
    let parse = |text: &str| text.parse::<f64>().with_context(|| format!("{text:?} is no number"));
    let numbers: Vec<f64> = numbers.split("..").map(parse).collect::<Result<_>>()?;
    let (low, middle, high) = match numbers[..] {
        [number] => (number, number, number),
        [low, high] => (low, middle(low, high), high),
        [low, middle, high] => (low, middle, high),
        _ => bail!("a range is lowest..highest, or lowest..middle..highest"),
    };
    let is_number = |number: &f64| number.is_finite() && *number >= 0.0;
    ensure!(numbers.iter().all(is_number), "it is negative or not finite");
    ensure!(low <= middle && middle <= high, "a range begins with its smaller end");
    if is_rate {
        ensure!(low > 0.0, "at 0 GB/s nothing ever comes");
        return Ok([high, middle, low].map(|rate| LINE_AT_GB_PER_S / rate));
    }
    ensure!(high * unit <= LARGEST, "it is more than a second");
    Ok([low * unit, middle * unit, high * unit])
}

/// Between 10 and 1000 it is 100.
fn middle(low: f64, high: f64) -> f64 {
    if low > 0.0 { (low * high).sqrt() } else { high / 2.0 }
}

impl Number {
    /// A range, whose middle is that of ratios.
    pub fn between(low: f64, high: f64, origin: Origin, text: String) -> Number {
        Number { low, middle: middle(low, high), high, origin, text }
    }

    /// A value: the middle one, or any, the same for the same seed and name. As many are below the
    /// middle as above, and all ratios are as likely.
    pub fn draw(&self, draw: Draw, name: &str) -> f64 {
        let share = match draw {
            Draw::Middle => return self.middle,
            Draw::Any(seed) => 2.0 * uniform(seed, name),
        };
        let (from, to, share) = match share < 1.0 {
            true => (self.low, self.middle, share),
            false => (self.middle, self.high, share - 1.0),
        };
        match from > 0.0 {
            true => from * (to / from).powf(share),
            false => to * share,
        }
    }
}

/// A number from 0 to 1. FNV-1a (Fowler, Noll, Vo 1991), and the finish of MurmurHash3.
fn uniform(seed: u64, name: &str) -> f64 {
    let hash =
        name.bytes().chain(seed.to_le_bytes()).fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    ((hash ^ (hash >> 33)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units { cycle_ps: Some(500.0), of_line: false };

    #[test]
    fn numbers_have_units_and_ranges() {
        let check = |text, expected| assert_eq!(range(text, UNITS).unwrap(), expected);
        check("109 cycles", [54_500.0; 3]);
        check("10..1000", [10.0, 100.0, 1000.0]);
        check("90..110..140 ns", [90_000.0, 110_000.0, 140_000.0]);
        check("0..1.0", [0.0, 0.5, 1.0]);
        check("2 us", [2e6; 3]);
        let none = Units { cycle_ps: None, of_line: false };
        let line = Units { of_line: true, ..none };
        // A line is 64 bytes; more of them in a second is less time for each.
        assert_eq!(range("16..32..64 GB/s", line).unwrap(), [1000.0, 2000.0, 4000.0]);
        assert_eq!(
            range("16 GB/s", none).unwrap_err().to_string(),
            "unit \"GB/s\": ps, ns, us, ms, cycles, or none"
        );
        assert_eq!(
            range("0..5 GB/s", line).unwrap_err().to_string(),
            "at 0 GB/s nothing ever comes"
        );
        let refused = |text, expected: &str| {
            assert_eq!(range(text, none).unwrap_err().to_string(), expected);
        };
        refused("5 parsecs", "unit \"parsecs\": ps, ns, us, ms, cycles, or none");
        refused("-5 ns", "it is negative or not finite");
        refused("inf ns", "it is negative or not finite");
        refused("1e300 ns", "it is more than a second");
        refused("7..5 ns", "a range begins with its smaller end");
        refused("5..9..8 ns", "a range begins with its smaller end");
        refused("5..6..7..8 ns", "a range is lowest..highest, or lowest..middle..highest");
        refused("5 cycles", "cycles of which clock? The host has no `ghz`");
        refused("x ns", "\"x\" is no number");
    }

    #[test]
    fn draws_are_in_the_range_and_differ_by_name_and_seed() {
        let number = Number {
            low: 10.0,
            middle: 100.0,
            high: 1000.0,
            origin: Origin::Assumed(String::new()),
            text: String::new(),
        };
        assert!((number.draw(Draw::Middle, "a") - 100.0).abs() < 1e-9);
        let draws: Vec<f64> = (0..1000).map(|seed| number.draw(Draw::Any(seed), "a")).collect();
        assert!(draws.iter().all(|draw| (10.0..=1000.0).contains(draw)));
        let below = draws.iter().filter(|draw| **draw < 100.0).count();
        assert!((400..600).contains(&below), "{below}");
        assert_ne!(number.draw(Draw::Any(1), "a"), number.draw(Draw::Any(1), "b"));
    }
}
