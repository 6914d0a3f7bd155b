//! Texts that users type and files hold: sizes, shares, command lines.

use anyhow::{Context, Result, ensure};

/// Reads a size of a file system, a disk or a guest's memory, in bytes; k, M, G and T are powers of
/// 1024. At least 1 MiB, below 1 PiB.
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
    number
        .filter(|bytes| (1 << 20..1 << 50).contains(bytes))
        .with_context(|| format!("'{text}' is no size of a file system: must be such as 8G"))
}

/// Reads "2%" or "0.02" as a share between 0 and 1.
pub fn share(text: &str) -> Result<f64> {
    let number = |text: &str| text.trim().parse::<f64>().context("must be such as 2% or 0.02");
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    // Without its sign, 2 might be meant as percent.
    ensure!(share > 0.0 && share < 1.0, "must be such as 2% or 0.02");
    Ok(share)
}

/// Splits a command line into words, as a shell does.
pub fn words(text: &str) -> Result<Vec<String>> {
    shlex::split(text).with_context(|| {
        format!("'{text}': a quote is not closed, or a backslash stands at the end")
    })
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
