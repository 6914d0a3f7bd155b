//! Kernel settings that variants change: files below /proc/sys and /sys, debugfs among them. Each is
//! written to the journal with its old value before it is changed, and restored after the run. The next
//! start restores what a killed knee left changed, unless somebody else has changed it since.
//!
//! A file holds a value, a list with the chosen word in brackets (`always [madvise] never`), or switches
//! (`WAKEUP_PREEMPTION NO_HRTICK` in /sys/kernel/debug/sched/features), of which one word is written at a time.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use records::Variant;

/// The file of a setting, named as sysctl(8) does (`vm.swappiness`), or by its path below
/// /proc/sys or /sys.
pub fn path(name: &str) -> Result<PathBuf> {
    let path = if name.starts_with('/') {
        PathBuf::from(name)
    } else {
        Path::new("/proc/sys").join(name.replace('.', "/"))
    };
    let is_plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let is_below = path.starts_with("/proc/sys") || path.starts_with("/sys");
    ensure!(
        is_plain && is_below,
        "'{name}' is not a kernel setting: name it as sysctl does (vm.swappiness), or by its path \
         below /sys"
    );
    Ok(path)
}

/// Reads a setting in a form that can be written back: of a list with the current choice in
/// brackets, only that choice.
pub fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("reading the setting {}", path.display()))?;
    let choice = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    let value = choice.unwrap_or(&text);
    // The kernel separates the numbers of one setting by tabs, users by blanks.
    Ok(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Reads what a setting has in the place of `value`: of switches, the same ones; of other settings, the whole value.
pub fn read_beside(path: &Path, value: &str) -> Result<String> {
    let whole = read(path)?;
    if !is_of_switches(&whole) {
        return Ok(whole);
    }
    let present = |word: &str| {
        let same = |other: &&str| switch(other) == switch(word);
        whole.split(' ').find(same).map(str::to_string).with_context(|| {
            format!("{} has no switch {}: there are {whole}", path.display(), switch(word))
        })
    };
    let words: Vec<String> = value.split_whitespace().map(present).collect::<Result<_>>()?;
    Ok(words.join(" "))
}

/// Whether two values set the same: any values of one file, or, of switches, the same ones.
pub fn are_alike(path: &Path, a: &str, b: &str) -> Result<bool> {
    let switches =
        |value: &str| value.split_whitespace().map(switch).eq(b.split_whitespace().map(switch));
    Ok(!is_of_switches(&read(path)?) || switches(a))
}

/// Whether a value is a list of switches, each on (`NAME`) or off (`NO_NAME`).
fn is_of_switches(value: &str) -> bool {
    let is_switch = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    value.contains(' ') && value.split(' ').all(is_switch)
}

/// The name of a switch, on or off.
fn switch(word: &str) -> &str {
    word.strip_prefix("NO_").unwrap_or(word)
}

/// Writes a value; several switches one after the other.
pub fn write(path: &Path, value: &str) -> Result<()> {
    let words = if is_of_switches(&read(path)?) { value.split(' ').collect() } else { vec![value] };
    words.into_iter().try_for_each(|word| {
        fs::write(path, word).with_context(|| format!("setting {} to '{word}'", path.display()))
    })
}

/// Refuses, before anything is measured, settings that do not exist, that this user may not change,
/// or that cannot be restored; tests the last by writing their present value.
pub fn check(variants: &[Variant]) -> Result<()> {
    check_rights(variants)?;
    for variant in variants {
        for (name, wanted) in &variant.sysctl {
            let path = path(name)?;
            let of_variant = || format!("of variant '{}'", variant.name);
            let value = read_beside(&path, &wanted.0).with_context(of_variant)?;
            write(&path, &value).with_context(of_variant).with_context(|| {
                format!("{name} rejects its present value, so it could not be put back after a run")
            })?;
            ensure!(
                read_beside(&path, &value)? == value,
                "{name} does not read as it was written, so it could not be put back after a run"
            );
        }
    }
    Ok(())
}

/// Refuses settings that this user may not change. Writes nothing.
pub fn check_rights(variants: &[Variant]) -> Result<()> {
    for variant in variants {
        for name in variant.sysctl.keys() {
            let path = path(name)?;
            read(&path).with_context(|| format!("of variant '{}'", variant.name))?;
            fs::OpenOptions::new().write(true).open(&path).with_context(|| {
                format!("variant '{}' changes {}: run as root", variant.name, path.display())
            })?;
        }
    }
    Ok(())
}

/// Whether any variant changes a setting.
pub fn any(variants: &[Variant]) -> bool {
    variants.iter().any(|variant| !variant.sysctl.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &str) {
        let shown = match path(name) {
            Ok(path) => path.display().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(shown.starts_with(expected), "{shown}");
    }

    #[test]
    fn settings_are_named_as_sysctl_does_or_by_path() {
        check("vm.swappiness", "/proc/sys/vm/swappiness");
        check("net.ipv4.tcp_congestion_control", "/proc/sys/net/ipv4/tcp_congestion_control");
        check("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/");
        check("/etc/passwd", "'/etc/passwd' is not a kernel setting");
        check("/sys/../etc/passwd", "'/sys/../etc/passwd' is not a kernel setting");
        check("", "/proc/sys");
    }

    #[test]
    fn the_value_of_a_list_is_its_current_choice() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("enabled");
        fs::write(&file, "always [madvise] never\n").unwrap();
        assert_eq!(read(&file).unwrap(), "madvise");
        fs::write(&file, "4\t4\t1\t7\n").unwrap();
        assert_eq!(read(&file).unwrap(), "4 4 1 7");
    }

    #[test]
    fn of_switches_only_those_that_are_set_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("features");
        let check = |text: &str, value: &str, expected: Result<&str, &str>| {
            fs::write(&file, text).unwrap();
            match (read_beside(&file, value), expected) {
                (Ok(beside), Ok(expected)) => assert_eq!(beside, expected, "{text}: {value}"),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{why}"),
                (beside, _) => panic!("{text}: {value}: {beside:?}"),
            }
        };
        let features = "PLACE_LAG NO_HRTICK WAKEUP_PREEMPTION \n";
        check(features, "NO_WAKEUP_PREEMPTION", Ok("WAKEUP_PREEMPTION"));
        check(features, "HRTICK NO_PLACE_LAG", Ok("NO_HRTICK PLACE_LAG"));
        check(features, "NO_WAKEUP", Err("has no switch WAKEUP: there are PLACE_LAG NO_HRTICK"));
        // Words, but no switches: their list is the value.
        check("reno cubic\n", "reno", Ok("reno cubic"));
        check("1\n", "0", Ok("1"));
    }

    #[test]
    fn values_of_one_file_are_alike_unless_they_are_of_other_switches() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("features");
        let check = |text: &str, a: &str, b: &str, expected: bool| {
            fs::write(&file, text).unwrap();
            assert_eq!(are_alike(&file, a, b).unwrap(), expected, "{text}: {a}, {b}");
        };
        check("A NO_B", "A", "NO_A", true);
        check("A NO_B", "A", "B", false);
        check("A NO_B", "A NO_B", "A", false);
        check("1", "1", "0", true);
    }
}
