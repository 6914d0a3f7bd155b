//! Kernel settings that variants change: files below /proc/sys and /sys. Each is written to the
//! journal with its old value before it is changed, and restored after the run. The next start
//! restores what a killed knee left changed, unless somebody else has changed it since.

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

pub fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("setting {} to '{value}'", path.display()))
}

/// Refuses, before anything is measured, settings that do not exist, that this user may not change,
/// or that cannot be restored; tests the last by writing their present value.
pub fn check(variants: &[Variant]) -> Result<()> {
    check_rights(variants)?;
    for variant in variants {
        for name in variant.sysctl.keys() {
            let path = path(name)?;
            let of_variant = || format!("of variant '{}'", variant.name);
            let value = read(&path).with_context(of_variant)?;
            write(&path, &value).with_context(of_variant).with_context(|| {
                format!("{name} rejects its present value, so it could not be put back after a run")
            })?;
            ensure!(
                read(&path)? == value,
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
}
