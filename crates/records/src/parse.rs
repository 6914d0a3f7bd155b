//! Parsers of small texts in files and on the command line: sizes, percentages, command lines.

use anyhow::{Context, Result, ensure};

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

/// The values of a parameter on the command line. A range of numbers stands for its values: `1..8` doubles
/// up to its end (1, 2, 4, 8), `0..10:2.5` takes steps. Other texts stand for themselves.
pub fn values(text: &str) -> Result<Vec<String>> {
    const VALUES_MAX: f64 = 1000.0;
    let (range, step) =
        text.split_once(':').map_or((text, None), |(range, step)| (range, Some(step)));
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let ends = range.split_once("..").and_then(|(a, b)| Some((a, b, number(a)?, number(b)?)));
    let Some((first_text, last_text, first, last)) = ends else {
        return Ok(vec![text.to_string()]);
    };
    ensure!(first <= last, "the range {text} ends before it begins");
    let Some(step_text) = step else {
        ensure!(
            first > 0.0,
            "the range {text} cannot double from {first_text}: give a step, {text}:1"
        );
        let doubled = std::iter::successors(Some(first), |value| Some(2.0 * value));
        let values = doubled.take_while(|value| *value < last).map(|value| value.to_string());
        return Ok(values.chain([last_text.to_string()]).collect());
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
    fn ranges_double_or_take_steps_and_other_texts_stay() {
        let check = |text: &str, expected: &str| {
            let shown = match values(text) {
                Ok(values) => values.join(" "),
                Err(why) => why.to_string(),
            };
            assert_eq!(shown, expected);
        };
        check("1..8", "1 2 4 8");
        check("1..6", "1 2 4 6");
        check("3..3", "3");
        check("1..4:1", "1 2 3 4");
        check("0..1:0.25", "0.00 0.25 0.50 0.75 1.00");
        check("0.1..0.3:0.1", "0.1 0.2 0.3");
        check("10..35:10", "10 20 30");
        for text in ["", "a..b", "1-8", "../x", "1..", "a:b", "C.UTF-8", "1:2"] {
            check(text, text);
        }
        check("0..8", "the range 0..8 cannot double from 0: give a step, 0..8:1");
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
