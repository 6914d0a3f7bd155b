//! Numbers of things, in words.

/// `1 run`, `2 runs`, `2 processes`.
pub fn counted(n: usize, what: &str) -> String {
    let plural = if what.ends_with('s') { "es" } else { "s" };
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}{plural}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let said = [(1, "run"), (0, "run"), (1, "process"), (3, "process")];
        let said = said.map(|(n, what)| counted(n, what));
        assert_eq!(said, ["1 run", "0 runs", "1 process", "3 processes"]);
    }
}
