//! Text for trackers, in which names come from files of others: nothing in a name is markup, a link, an image, a
//! mention or HTML.

use host::terminal::one_line;

/// A sentence or a name outside of tables. Code between our backquotes stays code.
pub fn escaped(text: &str) -> String {
    escape(&one_line(text), Place::Text)
}

/// What stands in a cell of a table: a bar would end it even in code.
pub fn cell(text: &str) -> String {
    escape(&text.trim_end().replace(['\n', '\r', '\t'], " "), Place::Cell)
}

/// A command or another text as code, whatever backquotes are in it.
pub fn code(text: &str) -> String {
    let text = one_line(text).replace('\r', " ");
    let runs = text.split(|letter| letter != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0) + 1);
    // One space at each end belongs to the marks.
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Text,
    Cell,
}

fn escape(text: &str, place: Place) -> String {
    let mut escaped = String::new();
    // Backquotes of a name would end the code that ours begin, and two together are another mark.
    let is_code = text.matches('`').count().is_multiple_of(2) && !text.contains("``");
    let mut in_code = false;
    let mut last = ' ';
    let mut letters = text.chars().peekable();
    if text.starts_with('>') || text.starts_with("- ") || text.starts_with("+ ") {
        // A quotation, or an item of a list.
        escaped.push('\\');
    }
    while let Some(letter) = letters.next() {
        in_code ^= letter == '`' && is_code;
        let next = letters.peek().copied().unwrap_or(' ');
        let within_word = last.is_alphanumeric() && next.is_alphanumeric();
        match letter {
            '`' if !is_code => escaped.push_str("\\`"),
            '|' if place == Place::Cell => escaped.push_str("\\|"),
            _ if in_code => escaped.push(letter),
            '\r' => escaped.push(' '),
            // Before a space it begins no tag.
            '<' if next != ' ' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            // A person or another issue would be told.
            '@' | '#' => escaped.extend([letter].into_iter().chain(NOTHING.chars())),
            // An address would become a link.
            ':' if next == '/' => escaped.extend([letter].into_iter().chain(NOTHING.chars())),
            '.' if "wW".contains(last) => {
                escaped.extend([letter].into_iter().chain(NOTHING.chars()))
            }
            // A link, what one refers to, and an image.
            ']' if ['(', '[', ':'].contains(&next) => escaped.push_str("\\]"),
            '!' if next == '[' => escaped.push_str("\\!"),
            '_' if within_word => escaped.push('_'),
            '~' if next != '~' && last != '~' => escaped.push('~'),
            '*' | '_' | '~' | '|' | '\\' => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
        last = letter;
    }
    escaped
}

/// Shows nothing, and no tracker sees an address or a mention across it.
const NOTHING: &str = "<!-- -->";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        let check = |text: &str, expected: &str| assert_eq!(escaped(text), expected, "{text}");
        check("time.user_time", "time.user_time");
        check("_a_ *b* ~~c~~ a|b", "\\_a\\_ \\*b\\* \\~\\~c\\~\\~ a\\|b");
        check("<img src=x> &lt;", "&lt;img src=x> &amp;lt;");
        check("[a](http://x)", "[a\\](http:<!-- -->//x)");
        check("[a][b] [a]: x ![i](y)", "[a\\][b] [a\\]: x \\![i\\](y)");
        check("p < 0.001", "p < 0.001");
        check("www.x.example", "www.<!-- -->x.example");
        check("@a fixes #1", "@<!-- -->a fixes #<!-- -->1");
        check("+4.0 % [+3.1, +4.9]", "+4.0 % [+3.1, +4.9]");
        check("a\nb\rc", "a\\\\u000ab c");
        check("> a", "\\> a");
        check("- a", "\\- a");
    }

    #[test]
    fn code_stays_code_and_begins_nowhere_else() {
        let check = |text: &str, expected: &str| assert_eq!(escaped(text), expected, "{text}");
        check("run `a_b <c> *d*` now", "run `a_b <c> *d*` now");
        check("run `a`b` now <i>", "run \\`a\\`b\\` now &lt;i>");
        check("a ``b`` <i>", "a \\`\\`b\\`\\` &lt;i>");
        // An escaped backquote begins no code, so that what follows is none.
        check("\\`<img src=x>`", "\\\\`<img src=x>`");
        check("`a|b`", "`a|b`");
        assert_eq!(cell("`a|b` c|d\ne"), "`a\\|b` c\\|d e");
        assert_eq!(code("echo `id` ``x`` y"), "```echo `id` ``x`` y```");
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("`"), "`` ` ``");
    }
}
