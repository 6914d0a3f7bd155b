//! The text of a manual, as in doc comments: paragraphs, lists, and diagrams, whose lines stay as they are.

use text::markdown::escaped;
use text::prose::reflowed;

use crate::html::Markup;

/// What stands between two empty lines, or is of one kind.
enum Part {
    Paragraph(String),
    Items(Vec<String>),
    Diagram(Vec<String>),
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut is_new = true;
    for line in reflowed(text, usize::MAX).lines() {
        let is_fixed = line.starts_with("  ") || line.starts_with(['|', '#']);
        let item = line.strip_prefix("- ").or(line.strip_prefix("* "));
        match (parts.last_mut(), item) {
            _ if line.is_empty() => {}
            (Some(Part::Diagram(lines)), None) if is_fixed => {
                lines.extend(is_new.then(String::new));
                lines.push(line.to_string());
            }
            _ if is_fixed => parts.push(Part::Diagram(vec![line.to_string()])),
            (Some(Part::Items(items)), Some(item)) => items.push(item.to_string()),
            (_, Some(item)) => parts.push(Part::Items(vec![item.to_string()])),
            (_, None) => parts.push(Part::Paragraph(line.to_string())),
        }
        is_new = line.is_empty();
    }
    parts
}

/// The manual in Markdown, in which nothing but lists and diagrams is markup.
pub fn markdown(text: &str) -> String {
    let part = |part: &Part| match part {
        Part::Paragraph(text) => format!("{}\n\n", escaped(text)),
        Part::Items(items) => {
            items.iter().map(|item| format!("- {}\n", escaped(item))).collect::<String>() + "\n"
        }
        Part::Diagram(lines) => {
            lines.iter().map(|line| format!("    {line}\n")).collect::<String>() + "\n"
        }
    };
    parts(text).iter().map(part).collect()
}

/// The manual in HTML.
pub fn html(markup: &mut Markup, text: &str) {
    for part in parts(text) {
        match part {
            Part::Paragraph(text) => markup.element("p", &[], |markup| markup.sentence(&text)),
            Part::Items(items) => markup.element("ul", &[("class", "notes")], |markup| {
                for item in &items {
                    markup.element("li", &[], |markup| markup.sentence(item));
                }
            }),
            Part::Diagram(lines) => {
                let region = [("class", "scroll"), ("tabindex", "0")];
                let lines = lines.join("\n");
                markup.element("div", &region, |markup| markup.leaf("pre", &[], &lines));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagrams_keep_their_lines_and_lists_their_items() {
        let text = "one\ntwo\n\n    a -> b\n\n    c\n\n- first\n  more\n- second\n";
        let expected = "one two\n\n        a -> b\n    \n        c\n\n- first more\n- second\n\n";
        assert_eq!(markdown(text), expected);
    }
}
