//! Parsers of small texts in files and on the command line: sizes, shares, command lines.

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

/// Parses "2%" or "0.02" as a share between 0 and 1.
pub fn share(text: &str) -> Result<f64> {
    let number = |text: &str| text.trim().parse::<f64>().context("must be such as 2% or 0.02");
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    // A 2 without its sign might mean percent.
    ensure!(share > 0.0 && share < 1.0, "must be such as 2% or 0.02");
    Ok(share)
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
    fn shares_are_percent_or_fractions() {
        assert_eq!(share("2%").unwrap(), 0.02);
        assert_eq!(share("0.5").unwrap(), 0.5);
        for wrong in ["2", "0", "100%", "-1%", "x"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
