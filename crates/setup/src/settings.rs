//! Kernel settings that variants change: files below /proc/sys and /sys. Each is written to the
//! journal with its old value before it is changed, and put back after the run; what a killed
//! knee left changed is put back by the next start, if nobody else has changed it since.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use records::Variant;

/// The file of a setting, named as sysctl(8) does (`vm.swappiness`), or by its path below
/// /proc/sys or /sys.
pub fn path(name: &str) -> Result<PathBuf> {
    let path = match name.starts_with('/') {
        true => PathBuf::from(name),
        false => Path::new("/proc/sys").join(name.replace('.', "/")),
    };
    let plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let below = path.starts_with("/proc/sys") || path.starts_with("/sys");
    ensure!(
        plain && below,
        "'{name}' is no kernel setting: name it as sysctl does (vm.swappiness), or by its path \
         below /sys"
    );
    Ok(path)
}

/// The value of a setting, in a form that can be written back: of a list with one choice in
/// brackets, the choice.
pub fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("reading the setting {}", path.display()))?;
    let choice = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    let value = choice.unwrap_or(&text);
    // Tabs between the numbers of one setting read as blanks in what a user writes.
    Ok(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Writes a setting.
pub fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("setting {} to '{value}'", path.display()))
}

/// Refuses, before anything is measured, settings that are not there, not ours to change, or
/// cannot be put back: their present value is written as it is.
pub fn check(variants: &[Variant]) -> Result<()> {
    for variant in variants {
        for name in variant.sysctl.keys() {
            let path = path(name)?;
            let of = || format!("of variant '{}'", variant.name);
            let value = read(&path).with_context(of)?;
            fs::OpenOptions::new().write(true).open(&path).with_context(|| {
                format!("variant '{}' changes {}: run as root", variant.name, path.display())
            })?;
            write(&path, &value).with_context(of).with_context(|| {
                format!("{name} does not take back the value it has, so it could not be put back")
            })?;
            ensure!(
                read(&path)? == value,
                "{name} reads otherwise than it is written, so it could not be put back"
            );
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
        check("/etc/passwd", "'/etc/passwd' is no kernel setting");
        check("/sys/../etc/passwd", "'/sys/../etc/passwd' is no kernel setting");
        check("", "/proc/sys");
    }

    #[test]
    fn the_choice_of_a_list_is_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("enabled");
        fs::write(&file, "always [madvise] never\n").unwrap();
        assert_eq!(read(&file).unwrap(), "madvise");
        fs::write(&file, "4\t4\t1\t7\n").unwrap();
        assert_eq!(read(&file).unwrap(), "4 4 1 7");
    }
}
