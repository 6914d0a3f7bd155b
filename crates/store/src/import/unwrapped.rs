//! What people put around the output of a tool when they keep it: quotes of mails, fences and indentation of Markdown, colours,
//! and progress that a terminal overwrote.

/// What lines that a mail quotes begin with.
const QUOTE: &str = ">";

/// The output in a text.
pub fn unwrapped(text: String) -> String {
    let text = if text.contains('\x1b') { without_colours(&text) } else { text };
    let text = if text.contains('\r') { overwritten(&text) } else { text };
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    let has_fences = text.lines().any(is_fence);
    let frame = frame(text.lines().filter(|line| !is_fence(line)));
    if !has_fences && frame.is_empty() {
        return text;
    }
    // Lines keep their numbers, which errors tell.
    let unframed = |line: &str| {
        let line = if is_fence(line) { "" } else { line.strip_prefix(frame).unwrap_or(line) };
        let line = if frame == QUOTE { line.strip_prefix(' ').unwrap_or(line) } else { line };
        line.to_string() + "\n"
    };
    text.lines().map(unframed).collect()
}

/// What all lines with a text begin with: a mark of a quote, an indentation of code, or nothing.
fn frame<'a>(lines: impl Iterator<Item = &'a str>) -> &'static str {
    let mut lines = lines.filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let begins = |frame: &&str| first.starts_with(*frame);
    let frame = [QUOTE, "    ", "\t"].into_iter().find(begins).unwrap_or_default();
    if lines.all(|line| line.starts_with(frame)) { frame } else { "" }
}

/// A text without the sequences that colour it on a terminal.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_string();
    // Parameters, and a letter that ends them.
    let after = |part: &str| {
        part.find(|c: char| ('@'..='~').contains(&c)).map_or("", |end| &part[end + 1..]).to_string()
    };
    parts.map(after).fold(first, |all, part| all + &part)
}

/// The lines of a text as a terminal shows them: what comes after a return replaces what was before it.
fn overwritten(text: &str) -> String {
    if !text.contains('\n') {
        return text.replace('\r', "\n");
    }
    let shown = |line: &str| {
        let line = line.trim_end_matches(['\r', '\n']);
        line.rsplit('\r').next().unwrap_or_default().to_string() + "\n"
    };
    text.split_inclusive('\n').map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_around_an_output_goes() {
        let check = |text: &str, expected: &str| {
            assert_eq!(unwrapped(text.to_string()), expected, "{text:?}");
        };
        check("tps = 1\n  > 2\n", "tps = 1\n  > 2\n");
        check("> tps = 1\n>\n> x = 2\n", "tps = 1\n\nx = 2\n");
        check("    tps = 1\n\n      x = 2\n", "tps = 1\n\n  x = 2\n");
        check("  tps = 1\n    x = 2\n", "  tps = 1\n    x = 2\n");
        check("# Run\n```text\ntps = 1\n```\n", "# Run\n\ntps = 1\n\n");
        check("\x1b[1;32mtps\x1b[0m = 1\n", "tps = 1\n");
        check("10 %\r100 %\rtps = 1\r\nx = 2\r\n", "tps = 1\nx = 2\n");
        check("a = 1\rb = 2\r", "a = 1\nb = 2\n");
        check("", "");
    }
}
