//! One number of a host: its value or range, its unit, and its origin.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// A number in the format of a file: `{ found = "109 cycles", source = "sosp13" }`. It is a value
/// or a range with its unit, and its origin.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NumberEntry {
    /// The value, where a publication has it.
    found: Option<String>,
    /// The publication: a name of `[sources]`.
    source: Option<String>,
    /// The value, where it was measured.
    measured: Option<String>,
    /// Where and when it was measured.
    at: Option<String>,
    /// How it was measured.
    how: Option<String>,
    /// A plausible range, where the value is not known.
    assumed: Option<String>,
    /// Why the range is plausible.
    why: Option<String>,
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A publication, by its name in the file.
    Found(String),
    /// A measurement: where and when, and how.
    Measured(String, String),
    /// A guess, with its reason.
    Assumed(String),
}

/// A number in its base unit: picoseconds, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// The lowest plausible value.
    pub low: f64,
    /// The value where none is drawn from the range.
    pub middle: f64,
    /// The highest plausible value.
    pub high: f64,
    /// Where it comes from.
    pub origin: Origin,
    /// The text of the file, with its unit.
    pub text: String,
}

/// How to convert the units of a number to picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// The length of a clock cycle.
    pub cycle_ps: Option<f64>,
    /// Whether the number is the time of a line, so that the file may give a bandwidth instead.
    pub allows_bandwidth: bool,
}

/// The time of a line of 64 bytes at 1 GB/s, in ps.
const LINE_AT_GB_PER_S: f64 = 64_000.0;

/// Which values to take from ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// The middle of each range.
    Middle,
    /// A random value of each range, with this seed.
    Any(u64),
}

/// A value of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InRange {
    /// The lowest.
    Low,
    /// The middle.
    Middle,
    /// The highest.
    High,
}

impl Origin {
    /// `found`, `measured` or `assumed`.
    pub fn name(&self) -> &'static str {
        match self {
            Origin::Found(_) => "found",
            Origin::Measured(..) => "measured",
            Origin::Assumed(_) => "assumed",
        }
    }
}

impl NumberEntry {
    /// A plausible range, with its reason.
    pub fn assumed(range: &str, why: &str) -> NumberEntry {
        let (assumed, why) = (Some(range.to_string()), Some(why.to_string()));
        NumberEntry { assumed, why, ..NumberEntry::default() }
    }

    /// Reads the number, and says where it comes from.
    pub fn number(&self, units: Units, sources: &[String]) -> Result<Number> {
        let (text, origin) = match (&self.found, &self.measured, &self.assumed) {
            (Some(text), None, None) => {
                let source = self.source.clone();
                let source = source.context("`found` needs a `source`: a name of [sources]")?;
                ensure!(sources.contains(&source), "source {source:?} is not in [sources]");
                (text, Origin::Found(source))
            }
            (None, Some(text), None) => {
                let at = self.at.clone().context("`measured` needs `at`: where and when")?;
                let how = self.how.clone().context("`measured` needs `how`")?;
                (text, Origin::Measured(at, how))
            }
            (None, None, Some(text)) => {
                (text, Origin::Assumed(self.why.clone().context("`assumed` needs `why`")?))
            }
            _ => bail!("a number needs exactly one of `found`, `measured` and `assumed`"),
        };
        let [low, middle, high] = parse_range(text, units).with_context(|| format!("{text:?}"))?;
        Ok(Number { low, middle, high, origin, text: text.clone() })
    }
}

/// A second in ps: longer than any cost of a host, and far from overflowing.
const LARGEST_PS: f64 = 1e12;

/// Parses `109 cycles`, `90..140 ns`, `90..110..140 ns`, `25.3 GB/s` or `0.5` into the lowest,
/// middle and highest value. The middle of a range is its geometric mean: between 10 and 1000 it
/// is 100.
fn parse_range(text: &str, units: Units) -> Result<[f64; 3]> {
    let (numbers, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let is_bandwidth = units.allows_bandwidth && unit.trim() == "GB/s";
    let unit = match unit.trim() {
        "" => 1.0,
        "ps" => 1.0,
        "GB/s" if is_bandwidth => 1.0,
        "ns" => 1e3,
        "us" => 1e6,
        "ms" => 1e9,
        "cycles" => units.cycle_ps.context("a number in cycles needs `ghz` of the host")?,
        other => bail!("the unit is {other:?}; it must be ps, ns, us, ms, cycles, or none"),
    };
    let parse =
        |text: &str| text.parse::<f64>().with_context(|| format!("{text:?} is not a number"));
    let numbers: Vec<f64> = numbers.split("..").map(parse).collect::<Result<_>>()?;
    let (low, middle, high) = match numbers[..] {
        [number] => (number, number, number),
        [low, high] => (low, middle(low, high), high),
        [low, middle, high] => (low, middle, high),
        _ => bail!("a range must be lowest..highest, or lowest..middle..highest"),
    };
    let is_valid = |number: &f64| number.is_finite() && *number >= 0.0;
    ensure!(numbers.iter().all(is_valid), "a number must not be negative or infinite");
    ensure!(low <= middle && middle <= high, "the ends of a range must not fall");
    if is_bandwidth {
        ensure!(low > 0.0, "a bandwidth must be above 0");
        return Ok([high, middle, low].map(|gb_per_s| LINE_AT_GB_PER_S / gb_per_s));
    }
    ensure!(high * unit <= LARGEST_PS, "a time must not be longer than a second");
    Ok([low * unit, middle * unit, high * unit])
}

/// The geometric mean, or the arithmetic mean of a range that starts at 0.
fn middle(low: f64, high: f64) -> f64 {
    if low > 0.0 { (low * high).sqrt() } else { high / 2.0 }
}

impl Number {
    /// A range with its geometric mean as the middle.
    pub fn between(low: f64, high: f64, origin: Origin, text: String) -> Number {
        Number { low, middle: middle(low, high), high, origin, text }
    }

    /// Whether it is a range, not a value.
    pub fn is_range(&self) -> bool {
        self.low < self.high
    }

    /// The number as if this value of its range were known.
    pub fn fixed(&self, at: InRange) -> Number {
        let value = match at {
            InRange::Low => self.low,
            InRange::Middle => self.middle,
            InRange::High => self.high,
        };
        Number { low: value, middle: value, high: value, ..self.clone() }
    }

    /// A value of the range: the middle, or one that depends on the seed and `name` only. Half of
    /// the random values are below the middle; on each side equal ratios are equally likely.
    pub fn draw(&self, draw: Draw, name: &str) -> f64 {
        let share = match draw {
            Draw::Middle => return self.middle,
            Draw::Any(seed) => 2.0 * uniform(seed, name),
        };
        let (from, to, share) = if share < 1.0 {
            (self.low, self.middle, share)
        } else {
            (self.middle, self.high, share - 1.0)
        };
        if from > 0.0 { from * (to / from).powf(share) } else { to * share }
    }
}

/// A random number from 0 to 1: FNV-1a (Fowler, Noll, Vo 1991), then the finalizer of MurmurHash3.
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

    const UNITS: Units = Units { cycle_ps: Some(500.0), allows_bandwidth: false };

    #[test]
    fn numbers_have_units_and_ranges() {
        let check = |text, expected| assert_eq!(parse_range(text, UNITS).unwrap(), expected);
        check("109 cycles", [54_500.0; 3]);
        check("10..1000", [10.0, 100.0, 1000.0]);
        check("90..110..140 ns", [90_000.0, 110_000.0, 140_000.0]);
        check("0..1.0", [0.0, 0.5, 1.0]);
        check("2 us", [2e6; 3]);
        let no_clock = Units { cycle_ps: None, allows_bandwidth: false };
        let line = Units { allows_bandwidth: true, ..no_clock };
        // A line is 64 bytes. The higher the bandwidth, the less time it takes.
        assert_eq!(parse_range("16..32..64 GB/s", line).unwrap(), [1000.0, 2000.0, 4000.0]);
        let refused = |text, units, expected: &str| {
            assert_eq!(parse_range(text, units).unwrap_err().to_string(), expected);
        };
        let unit =
            |unit| format!("the unit is {unit:?}; it must be ps, ns, us, ms, cycles, or none");
        refused("16 GB/s", no_clock, &unit("GB/s"));
        refused("0..5 GB/s", line, "a bandwidth must be above 0");
        refused("5 parsecs", no_clock, &unit("parsecs"));
        refused("-5 ns", no_clock, "a number must not be negative or infinite");
        refused("inf ns", no_clock, "a number must not be negative or infinite");
        refused("1e300 ns", no_clock, "a time must not be longer than a second");
        refused("7..5 ns", no_clock, "the ends of a range must not fall");
        refused("5..9..8 ns", no_clock, "the ends of a range must not fall");
        let ends = "a range must be lowest..highest, or lowest..middle..highest";
        refused("5..6..7..8 ns", no_clock, ends);
        refused("5 cycles", no_clock, "a number in cycles needs `ghz` of the host");
        refused("x ns", no_clock, "\"x\" is not a number");
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
