//! The kernel's way of writing a set of CPUs: `0-3,8`.

/// Parses a list of CPUs; `None` if it is malformed. An empty list has no CPUs.
pub fn parse(list: &str) -> Option<Vec<u32>> {
    let list = list.trim();
    let mut cpus = Vec::new();
    for range in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // No kernel supports more CPUs; a damaged file must not exhaust memory.
        (last < 1 << 16).then(|| cpus.extend(first..=last))?;
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_ranges_and_single_cpus() {
        assert_eq!(parse("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse("5"), Some(vec![5]));
        assert_eq!(parse("\n"), Some(vec![]));
        assert_eq!(parse("0-4000000000"), None);
        assert_eq!(parse("0-,x"), None);
    }
}
