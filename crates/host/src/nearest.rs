//! Names that nothing has, and the nearest that something has.

/// The error for a name that nothing of a kind has: `no load is called "x"; did you mean "y"? `knee list loads` shows
/// all`. `list` is the command that lists the names.
pub fn unknown<'a>(
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    list: &str,
) -> String {
    let hint = nearest(name, known.into_iter());
    let joined = if hint.is_empty() { "; " } else { " " };
    format!("no {kind} is called \"{name}\"{hint}{joined}`{list}` shows all")
}

/// The error for a name that none of a few things has: `no layout is called "x"; did you mean "y"? There are y and z`.
pub fn unknown_of(kind: &str, name: &str, known: &[&str]) -> String {
    let hint = nearest(name, known.iter().copied());
    let joined = if hint.is_empty() { "; there" } else { " There" };
    let all = match known {
        [] => " are none".to_string(),
        [one] => format!(" is {one}"),
        [first @ .., last] => format!(" are {} and {last}", first.join(", ")),
    };
    format!("no {kind} is called \"{name}\"{hint}{joined}{all}")
}

/// `; did you mean "…"?` for the known names nearest to `name`; empty if none is near.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    // A part of a long name counts as near: `page_fault` is in three of them.
    let distance = |known: &str| {
        // Users omit the prefix of `command:fio`.
        let bare = known.rsplit_once(':').map_or(known, |(_, bare)| bare);
        match strsim::jaro_winkler(name, known).max(strsim::jaro_winkler(name, bare)) {
            _ if name.len() > 2 && known.contains(name) => 0.9,
            // One slip of the fingers: `rnu` for `run`.
            near if name.len() > 2 && strsim::osa_distance(name, known) == 1 => near.max(0.9),
            distance => distance,
        }
    };
    let mut near: Vec<(f64, &str)> =
        known.map(|k| (distance(k), k)).filter(|(d, _)| *d > 0.82).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    // A program may be in several folders.
    near.dedup_by(|a, b| a.1 == b.1);
    near.truncate(3);
    if near.is_empty() {
        return String::new();
    }
    let names: Vec<String> = near.iter().map(|(_, k)| format!("\"{k}\"")).collect();
    format!("; did you mean {}?", names.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_what_is_near_and_where_all_are() {
        let known = ["ticket", "mcs", "queued"];
        let near = "no lock is called \"tiket\"; did you mean \"ticket\"? `knee list` shows all";
        assert_eq!(unknown("lock", "tiket", known, "knee list"), near);
        let far = "no lock is called \"zz\"; `knee list` shows all";
        assert_eq!(unknown("lock", "zz", known, "knee list"), far);
        let few = "no lock is called \"tiket\"; did you mean \"ticket\"? There are ticket, mcs and queued";
        assert_eq!(unknown_of("lock", "tiket", &known), few);
        let none = "no lock is called \"zz\"; there are none";
        assert_eq!(unknown_of("lock", "zz", &[]), none);
    }
}
