//! Parsers of small texts in files and on the command line: sizes, percentages, command lines.

use anyhow::{Context, Result};

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

/// Parses "2%" as 0.02. The sign is required: 0.3 could mean 0.3 % or 30 %.
pub fn percent(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0).filter(|share| 0.0 < *share && *share < 1.0);
    share.with_context(|| {
        format!("'{text}' must be a percentage with its sign, above 0% and below 100%, such as 2%")
    })
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
    fn percentages_need_their_sign() {
        assert_eq!(percent("2%").unwrap(), 0.02);
        assert_eq!(percent("0.3 %").unwrap(), 0.003);
        for wrong in ["2", "0.3", "0", "0%", "100%", "-1%", "x"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
