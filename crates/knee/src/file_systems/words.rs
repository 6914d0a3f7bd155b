//! How file systems are written on the command line: `xfs`, `ext4,xfs`, `xfs:mkfs=…;mount=…`,
//! `NAME=xfs:…`; and sizes, `8G`.

use anyhow::{Context, Result, bail, ensure};
use records::{Age, FileSystem};

use super::kinds::kind;

const USAGE: &str = "must be a kind of file system (xfs), several (ext4,xfs), or one with options, \
                     KIND:'mkfs=ARGUMENTS;mount=OPTIONS', each perhaps with a name before it, NAME=KIND";

/// Reads one `--fs`: file systems with the names of their variants. Options belong to the last.
pub fn list(text: &str) -> Result<Vec<(String, FileSystem)>> {
    let mut read = Vec::new();
    let mut rest = text;
    loop {
        let comma = rest.find(',').filter(|comma| !rest[..*comma].contains(':'));
        let Some(comma) = comma else { break };
        read.push(named(&rest[..comma])?);
        rest = &rest[comma + 1..];
    }
    read.push(named(rest)?);
    Ok(read)
}

fn named(text: &str) -> Result<(String, FileSystem)> {
    let (head, options) = text.split_once(':').unwrap_or((text, ""));
    let (name, kind) = head.split_once('=').unwrap_or((head, head));
    let (name, kind) = (name.trim().to_string(), kind.trim());
    if name.is_empty() || kind.is_empty() {
        bail!("{USAGE}");
    }
    Ok((name, with_options(kind, options)?))
}

/// Reads `KIND` or `KIND:mkfs=…;mount=…`.
pub fn one(text: &str) -> Result<FileSystem> {
    let (kind, options) = text.split_once(':').unwrap_or((text, ""));
    with_options(kind.trim(), options)
}

fn with_options(name: &str, options: &str) -> Result<FileSystem> {
    kind(name)?;
    let mut read = FileSystem { kind: name.to_string(), ..FileSystem::default() };
    for option in options.split(';').map(str::trim).filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("mkfs", value)) => read.mkfs = value.trim().to_string(),
            Some(("mount", value)) => read.mount = value.trim().to_string(),
            _ => bail!("'{option}' of {name} is neither mkfs=… nor mount=…: it {USAGE}"),
        }
    }
    Ok(read)
}

/// Reads `filled=50%,rounds=4`; what is not said is as usual.
pub fn age(text: &str) -> Result<Age> {
    const USAGE: &str = "must be such as filled=50%,rounds=4";
    let mut read = Age::default();
    for part in text.split(',') {
        match part.trim().split_once('=') {
            Some(("filled", share)) => {
                read.filled = crate::verbs::run::share(share).context(USAGE)?
            }
            Some(("rounds", rounds)) => read.rounds = rounds.parse().context(USAGE)?,
            _ => bail!("'{part}': {USAGE}"),
        }
    }
    check_age(&read)?;
    Ok(read)
}

/// Refuses what cannot be done, or takes for ever.
pub fn check_age(age: &Age) -> Result<()> {
    ensure!(
        (0.01..=0.9).contains(&age.filled),
        "file systems can be filled to 1 % to 90 % to age them, not {:.1} %",
        age.filled * 100.0
    );
    ensure!(age.rounds <= 1000, "{} rounds of ageing are too many: at most 1000", age.rounds);
    Ok(())
}

/// Reads a size in bytes; k, M, G and T are powers of 1024.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: expect_test::Expect) {
        let shown = match list(text) {
            Err(error) => format!("{error:#}\n"),
            Ok(read) => read.iter().map(|(name, made)| format!("{name}: {made}\n")).collect(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn kinds_are_a_list_and_options_belong_to_the_last() {
        check(
            "ext4,xfs",
            expect_test::expect![[r#"
                ext4: ext4
                xfs: xfs
            "#]],
        );
        check(
            "ext4,wide=xfs:mkfs=-m crc=1,finobt=1 -d agcount=32;mount=logbsize=262144",
            expect_test::expect![[r#"
                ext4: ext4
                wide: xfs mkfs '-m crc=1,finobt=1 -d agcount=32' mount 'logbsize=262144'
            "#]],
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        check(
            "xfss",
            expect_test::expect![[r#"
                knee makes no file system of kind 'xfss', did you mean 'xfs'?; it makes btrfs, ext2, ext3, ext4, tmpfs, xfs
            "#]],
        );
        check(
            "xfs:-m crc=1",
            expect_test::expect![[r#"
                '-m crc=1' of xfs is neither mkfs=… nor mount=…: it must be a kind of file system (xfs), several (ext4,xfs), or one with options, KIND:'mkfs=ARGUMENTS;mount=OPTIONS', each perhaps with a name before it, NAME=KIND
            "#]],
        );
        check(
            "ext4,,xfs",
            expect_test::expect![[r#"
                must be a kind of file system (xfs), several (ext4,xfs), or one with options, KIND:'mkfs=ARGUMENTS;mount=OPTIONS', each perhaps with a name before it, NAME=KIND
            "#]],
        );
    }

    #[test]
    fn how_to_age_is_a_share_and_a_number_of_rounds() {
        let read = |text: &str| age(text).map(|age| (age.filled, age.rounds)).ok();
        assert_eq!(read("filled=80%,rounds=2"), Some((0.8, 2)));
        assert_eq!(read("rounds=0"), Some((0.5, 0)));
        for wrong in ["", "filled", "filled=95%", "filled=x", "rounds=-1", "rounds=9999", "a=1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(bytes("8G").unwrap(), 8 << 30);
        assert_eq!(bytes(" 300M").unwrap(), 300 << 20);
        for wrong in ["", "G", "8GB", "-1G", "0", "1k", "99999999T", "8 G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
