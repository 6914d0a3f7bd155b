//! Parsers of small texts in files and on the command line: sizes, percentages, command lines.

use anyhow::{Context, Result, anyhow, ensure};

use crate::quantity::{COUNTS, plain};

/// Parses the size of a file system, a disk or a guest's memory, in bytes; k, M, G and T are powers of
/// 1024. The size must be at least 1 MiB and below 1 PiB.
pub fn bytes(text: &str) -> Result<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => 0,
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.filter(|bytes| (1 << 20..1 << 50).contains(bytes)).with_context(|| {
        format!("'{text}' is not a valid size: must be between 1M and 1024T, such as 8G")
    })
}

/// A number as people write it: 1,650 or 1.5M, also with the word behind it: 1.5 Mops, 12 kops/s. `None` for 10,5 and
/// 0,125, which may have a decimal comma.
pub fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.,eE".contains(c));
    let (digits, word) = text.split_at(end.unwrap_or(text.len()));
    let word = word.trim().trim_end_matches("/s").trim_end_matches("ops");
    let prefix = || COUNTS.iter().find(|(prefix, _)| *prefix == word).map(|(_, factor)| *factor);
    let factor = if word.is_empty() { 1.0 } else { prefix()? };
    plain(digits).map(|number| number * factor).filter(|number| number.is_finite())
}

/// Parses a short time, `200ns`, `2us`, `1.5ms` or `1s`, as whole ns.
pub fn time_ns(text: &str) -> Result<u64> {
    host::whole_ns(text).context("must be a duration such as 200ns, 2us, 1.5ms or 1s")
}

/// Parses "2%" as 0.02. The sign is required: 0.3 could mean 0.3 % or 30 %.
pub fn percent(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0).filter(|share| 0.0 < *share && *share < 1.0);
    share.with_context(|| {
        format!("'{text}' must be a percentage with its sign, above 0% and below 100%, such as 2%")
    })
}

/// A parameter or an axis with its values: `NAME=1,2,4`, a list as [`list`] reads it.
pub fn axis(text: &str) -> Result<(String, Vec<String>)> {
    let (name, values) = text.split_once('=').context("must be NAME=1,2,4")?;
    Ok((name.to_string(), list(values)?))
}

/// The values of a list on the command line: `1,2,4`, with ranges of numbers among them. `1..8` doubles up to its end
/// (1, 2, 4, 8), `1..81*3` multiplies by 3, `0..10:2.5` takes steps, `1-4` is each whole number. Where a `|` separates
/// the values, commas and `1-4` are text: `a,b|c,d` has two values, and `a,b|` one.
pub fn list(text: &str) -> Result<Vec<String>> {
    const USAGE: &str =
        "write 1,2,4 or 1..64 or 1-8, or with | between values that have commas: 'a,b|c,d'";
    ensure!(!text.is_empty(), "no value: {USAGE}");
    let is_literal = text.contains('|');
    let separator = if is_literal { '|' } else { ',' };
    let items: Vec<&str> = text.strip_suffix('|').unwrap_or(text).split(separator).collect();
    ensure!(
        is_literal || items.iter().all(|item| !item.trim().is_empty()),
        "'{text}' has an empty value: {USAGE}"
    );
    let values = items.into_iter().map(|item| match each_number(item) {
        Some(numbers) if !is_literal => numbers.with_context(|| format!("'{item}': {USAGE}")),
        _ => range(item),
    });
    Ok(values.collect::<Result<Vec<_>>>()?.concat())
}

/// More values are a mistake in a range.
const VALUES_MAX: f64 = 1000.0;

/// The whole numbers from the first to the last: `1-4`. `None` if the text is something else.
fn each_number(text: &str) -> Option<Result<Vec<String>>> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    if last < first || (last - first) as f64 >= VALUES_MAX {
        return Some(Err(anyhow!("no range from a number up to a larger one")));
    }
    Some(Ok((first..=last).map(|number| number.to_string()).collect()))
}

/// The values of a range that doubles, multiplies or takes steps. Other texts stand for themselves.
fn range(text: &str) -> Result<Vec<String>> {
    let split = |sign| text.split_once(sign).map(|(range, by)| (range, Some((sign, by))));
    let (range, by) = split(':').or_else(|| split('*')).unwrap_or((text, None));
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let ends = range.split_once("..").and_then(|(a, b)| Some((a, b, number(a)?, number(b)?)));
    let Some((first_text, last_text, first, last)) = ends else {
        return Ok(vec![text.to_string()]);
    };
    ensure!(first <= last, "the range {text} ends before it begins");
    let (step_text, factor) = match by {
        Some((':', step)) => (Some(step), 2.0),
        Some((_, factor)) => {
            let factor = number(factor).filter(|factor| *factor > 1.0);
            (None, factor.with_context(|| format!("the factor of {text} must be above 1"))?)
        }
        None => (None, 2.0),
    };
    let Some(step_text) = step_text else {
        ensure!(
            first > 0.0,
            "the range {text} cannot multiply {first_text}: give a step, {range}:1"
        );
        let multiplied = std::iter::successors(Some(first), |value| Some(factor * value));
        let below = multiplied.take_while(|value| *value < last).take(VALUES_MAX as usize);
        return Ok(below.map(|value| value.to_string()).chain([last_text.to_string()]).collect());
    };
    let step = number(step_text).filter(|step| *step > 0.0);
    let step = step.with_context(|| format!("the step of {text} must be a number above 0"))?;
    let steps = ((last - first) / step + 1e-9).floor();
    ensure!(steps < VALUES_MAX, "the range {text} has more than {VALUES_MAX} values");
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let decimals = decimals(first_text).max(decimals(step_text));
    let value = |number: u32| format!("{:.decimals$}", first + f64::from(number) * step);
    Ok((0..=steps as u32).map(value).collect())
}

/// Splits a command line into words as a shell does.
pub fn words(text: &str) -> Result<Vec<String>> {
    shlex::split(text)
        .with_context(|| format!("'{text}' has an unclosed quote or ends with a backslash"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(bytes("8G").unwrap(), 8 << 30);
        assert_eq!(bytes(" 300M").unwrap(), 300 << 20);
        for wrong in ["", "G", "8GB", "-1G", "0", "1k", "99999999T", "8 G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, expected) in [
            ("850000", 850e3),
            ("1,650", 1650.0),
            ("1.2M", 1.2e6),
            ("1.2M/s", 1.2e6),
            ("12 kops/s", 12e3),
            ("-3e2", -300.0),
        ] {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        for wrong in ["", "M", "10,5", "0,125", "1.2MB/s", "fast", "1kk", "inf", "1e999"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lists_have_commas_and_ranges_and_other_texts_stay() {
        let check = |text: &str, expected: &str| {
            let shown = match list(text) {
                Ok(values) => values.join(" "),
                Err(why) => format!("{why:#}"),
            };
            assert!(shown.starts_with(expected), "{text}: {shown}");
        };
        check("1..8", "1 2 4 8");
        check("1..6", "1 2 4 6");
        check("3..3", "3");
        check("1..4:1", "1 2 3 4");
        check("0..1:0.25", "0.00 0.25 0.50 0.75 1.00");
        check("0.1..0.3:0.1", "0.1 0.2 0.3");
        check("10..35:10", "10 20 30");
        check("1,2,4", "1 2 4");
        check("1-4,8..32", "1 2 3 4 8 16 32");
        check("1..64*4", "1 4 16 64");
        check("a|b", "a b");
        check("1-4|5,6", "1-4 5,6");
        check("a,b|", "a,b");
        check("1,,2", "'1,,2' has an empty value: write 1,2,4 or");
        check("", "no value: write");
        check("8-1", "'8-1': write 1,2,4 or 1..64 or 1-8");
        check("1..8*1", "the factor of 1..8*1 must be above 1");
        for text in ["a..b", "../x", "1..", "a:b", "C.UTF-8", "1:2", "a-b", "-1"] {
            check(text, text);
        }
        check("0..8", "the range 0..8 cannot multiply 0: give a step, 0..8:1");
        check("8..1", "the range 8..1 ends before it begins");
        check("1..8:0", "the step of 1..8:0 must be a number above 0");
        check("1..1e9:1", "the range 1..1e9:1 has more than 1000 values");
    }

    #[test]
    fn percentages_need_their_sign() {
        assert_eq!(percent("2%").unwrap(), 0.02);
        assert_eq!(percent("0.3 %").unwrap(), 0.003);
        for wrong in ["2", "0.3", "0", "0%", "100%", "-1%", "x"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
