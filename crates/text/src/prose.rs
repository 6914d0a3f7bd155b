//! Lines of words: broken at spaces, with the lines after the first indented.

pub use host::counted;

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
    // Columns are apart by several blanks: a line may have been broken at the second.
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A text of paragraphs in lines of at most `width` columns. Indented lines, which are diagrams and code,
/// and rows of tables stay as they are; an item of a list has its later lines indented.
pub fn reflowed(text: &str, width: usize) -> String {
    let mut reflowed = String::new();
    let mut paragraph = String::new();
    for line in text.lines() {
        let is_item = line.starts_with("- ") || line.starts_with("* ");
        let continues_item = line.starts_with("  ") && is_list_item(&paragraph);
        let is_fixed = (line.starts_with("  ") && !continues_item) || line.starts_with(['|', '#']);
        if line.is_empty() || is_item || is_fixed {
            reflowed += &end_paragraph(&mut paragraph, width);
        }
        if line.is_empty() || is_fixed {
            reflowed += &format!("{line}\n");
        } else {
            let gap = if paragraph.is_empty() { "" } else { " " };
            paragraph += &format!("{gap}{}", line.trim());
        }
    }
    reflowed + &end_paragraph(&mut paragraph, width)
}

fn is_list_item(paragraph: &str) -> bool {
    paragraph.starts_with("- ") || paragraph.starts_with("* ")
}

/// The paragraph in lines, which leaves none.
fn end_paragraph(paragraph: &mut String, width: usize) -> String {
    let text = std::mem::take(paragraph);
    match text.as_str() {
        "" => String::new(),
        item if is_list_item(item) => wrapped(item, width, 2),
        text => wrapped(text, width, 0),
    }
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
    fn paragraphs_are_broken_anew_and_diagrams_stay() {
        let text = "a bb\nccc d\n\n    x ── y ── z\n\n- one\n  two three\n- four\nend\n";
        assert_eq!(
            reflowed(text, 8),
            "a bb ccc\nd\n\n    x ── y ── z\n\n- one\n  two\n  three\n- four\n  end\n"
        );
    }
}
