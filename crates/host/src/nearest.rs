//! Suggestions for misspelt names.

/// ", did you mean …?" for the known names nearest to `name`; empty if none is near.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    // A part of a long name counts as near: `page_fault` is in three of them.
    let distance = |known: &str| {
        // Users omit the prefix of `command:fio`.
        let bare = known.rsplit_once(':').map_or(known, |(_, bare)| bare);
        match strsim::jaro_winkler(name, known).max(strsim::jaro_winkler(name, bare)) {
            _ if name.len() > 2 && known.contains(name) => 0.9,
            distance => distance,
        }
    };
    let mut near: Vec<(f64, &str)> =
        known.map(|k| (distance(k), k)).filter(|(d, _)| *d > 0.82).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.truncate(3);
    if near.is_empty() {
        return String::new();
    }
    let names: Vec<String> = near.iter().map(|(_, k)| format!("'{k}'")).collect();
    format!(", did you mean {}?", names.join(" or "))
}
