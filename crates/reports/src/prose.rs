//! Lines of words: broken at spaces, with the lines after the first indented.

/// `text` in lines of at most `width` columns, each after the first indented by `indent`.
/// A word that is longer gets a line of its own.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let words = text.trim_start();
    let mut lines = vec![text[..text.len() - words.len()].to_string()];
    let mut used = lines[0].len();
    let mut fresh = true;
    for word in unbreakable(words) {
        let length = word.chars().count();
        let line = lines.last_mut().expect("there is a line from the start");
        if fresh {
            line.push_str(word);
            used += length;
        } else if used + 1 + length <= width {
            line.extend([" ", word]);
            used += 1 + length;
        } else {
            lines.push(format!("{:indent$}{word}", ""));
            used = indent + length;
        }
        fresh = false;
    }
    lines.join("\n") + "\n"
}

/// Words between spaces at which a line may break; a percent sign stays with its number.
fn unbreakable(text: &str) -> Vec<&str> {
    let stays = |i: usize| {
        let mut rest = text[i + 1..].chars();
        rest.next() == Some('%') && !rest.next().is_some_and(char::is_alphanumeric)
    };
    let mut words = Vec::new();
    let mut start = 0;
    for (i, _) in text.match_indices(' ').filter(|(i, _)| !stays(*i)) {
        words.push(&text[start..i]);
        start = i + 1;
    }
    words.push(&text[start..]);
    words
}

/// A text from elsewhere without what a terminal would obey: control characters, and those that turn the
/// direction of writing, are shown as escapes. Line breaks and tabs stay.
pub fn visible(text: &str) -> String {
    let is_plain = |c: char| {
        c.is_ascii_graphic() || " \n\t".contains(c) || !c.is_ascii() && c.escape_debug().len() == 1
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) { shown.push(c) } else { shown.extend(c.escape_debug()) }
    }
    shown
}

/// `1 run`, `2 runs`.
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// `2 CPUs`, or `? CPUs` where an imported result has no count and `n` is 0.
pub fn counted_or_unknown(n: u32, what: &str) -> String {
    if n > 0 { counted(n as usize, what) } else { format!("? {what}s") }
}

/// A number of CPUs or tasks in a table; `-` where it is 0, which means unknown.
pub fn number_or_dash(n: u32) -> String {
    if n > 0 { n.to_string() } else { "-".to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("a bb ccc", 4, 2), "a bb\n  ccc\n");
        assert_eq!(wrapped("  - first second", 9, 4), "  - first\n    second\n");
        assert_eq!(wrapped("at 95 %, so", 7, 1), "at\n 95 %,\n so\n");
        assert_eq!(wrapped("unbreakable x", 5, 1), "unbreakable\n x\n");
        assert_eq!(wrapped("", 5, 1), "\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(visible("it's \"é\"\\\n\t"), "it's \"é\"\\\n\t");
        assert_eq!(visible("a\x1b[2Kb\r\u{202e}c"), "a\\u{1b}[2Kb\\r\\u{202e}c");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!((counted(1, "run"), counted(0, "run")), ("1 run".into(), "0 runs".into()));
    }
}
