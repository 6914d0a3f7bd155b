//! A writer of HTML and SVG in which names of records cannot become markup: elements and attributes have
//! names that stand in this program, and every text and every attribute's value is escaped.

use host::terminal::shown;

/// An element's attributes: names of ours, values from anywhere.
pub type Attributes<'a> = &'a [(&'static str, &'a str)];

/// Elements that have no content.
const EMPTY: [&str; 3] = ["br", "input", "meta"];

/// HTML that is being written.
#[derive(Default)]
pub struct Markup {
    html: String,
    /// Explanations that stand in the page already: tables below refer to them.
    explained: Vec<&'static str>,
}

impl Markup {
    /// A document of ours begins so.
    pub fn document() -> Markup {
        Markup { html: "<!doctype html>\n".to_string(), ..Markup::default() }
    }

    /// An element with what `content` writes into it.
    pub fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes,
        content: impl FnOnce(&mut Markup),
    ) {
        self.html.push('<');
        self.html.push_str(name);
        for (attribute, value) in attributes {
            self.html.push(' ');
            self.html.push_str(attribute);
            self.html.push_str("=\"");
            self.escaped(value);
            self.html.push('"');
        }
        self.html.push('>');
        if EMPTY.contains(&name) {
            return;
        }
        content(self);
        self.html.push_str("</");
        self.html.push_str(name);
        self.html.push('>');
        if BREAKS.contains(&name) {
            self.html.push('\n');
        }
    }

    /// An element with a text.
    pub fn leaf(&mut self, name: &'static str, attributes: Attributes, text: &str) {
        self.element(name, attributes, |markup| markup.text(text));
    }

    /// An element without content.
    pub fn empty(&mut self, name: &'static str, attributes: Attributes) {
        self.element(name, attributes, |_| ());
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.escaped(text);
    }

    /// A sentence, in which names stand between backquotes.
    pub fn sentence(&mut self, text: &str) {
        let parts: Vec<&str> = text.split('`').collect();
        // A backquote without its partner is a part of a name.
        if parts.len().is_multiple_of(2) {
            return self.text(&unbroken(text));
        }
        for (index, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            if index % 2 == 1 { self.leaf("code", &[], part) } else { self.text(&unbroken(part)) }
        }
    }

    /// The number of an explanation that begins so, and whether this is its first place.
    pub fn explanation(&mut self, begin: &'static str) -> (usize, bool) {
        let known = self.explained.iter().position(|known| *known == begin);
        if known.is_none() {
            self.explained.push(begin);
        }
        (known.unwrap_or(self.explained.len() - 1), known.is_none())
    }

    /// A style sheet or a script of ours, as it is.
    pub fn ours(&mut self, name: &'static str, attributes: Attributes, text: &'static str) {
        self.element(name, attributes, |markup| markup.html.push_str(text));
    }

    /// What another writer wrote.
    pub fn written(&mut self, other: Markup) {
        self.html.push_str(&other.html);
    }

    /// Data for scripts, which no parser takes for markup or for a script.
    pub fn data(&mut self, id: &'static str, kind: &'static str, json: &serde_json::Value) {
        let json = shown(&json.to_string());
        let escaped = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        self.element("script", &[("type", kind), ("id", id)], |markup| {
            markup.html.push_str(&escaped);
        });
    }

    /// What was written.
    pub fn finish(self) -> String {
        self.html
    }

    fn escaped(&mut self, text: &str) {
        for letter in shown(text).chars() {
            match letter {
                '&' => self.html.push_str("&amp;"),
                '<' => self.html.push_str("&lt;"),
                '>' => self.html.push_str("&gt;"),
                '"' => self.html.push_str("&quot;"),
                '\'' => self.html.push_str("&#39;"),
                // Only shown by `shown` as colours of ours, which pages have not.
                '\u{1b}' => self.html.push_str("\\u001b"),
                letter => self.html.push(letter),
            }
        }
    }
}

/// A text in which no line ends within a number: before its unit or its uncertainty, between groups of digits, within an
/// interval.
fn unbroken(text: &str) -> String {
    const STAYS: char = '\u{a0}';
    let letters: Vec<char> = text.chars().collect();
    let at = |index: usize| letters.get(index).copied().unwrap_or(' ');
    let is_digit = |index: usize| at(index).is_ascii_digit();
    let mut interval_end = 0;
    let mut unbroken = String::with_capacity(text.len());
    for (index, letter) in letters.iter().enumerate() {
        if *letter == '[' {
            let end = letters[index..].iter().take(40).position(|letter| *letter == ']');
            interval_end = end.map_or(interval_end, |end| index + end);
        }
        let is_group = || is_digit(index + 1) && is_digit(index + 2) && is_digit(index + 3);
        let stays = *letter == ' '
            && index > 0
            && (index < interval_end
                || ['%', '±'].contains(&at(index + 1))
                || ['±', '='].contains(&at(index - 1))
                    && (is_digit(index + 1) || at(index - 1) == '±')
                || at(index + 1) == '=' && is_digit(index + 3)
                || is_digit(index - 1) && is_group() && !is_digit(index + 4));
        unbroken.push(if stays { STAYS } else { *letter });
    }
    unbroken
}

/// Elements after which a line ends, so that a person can read the file.
const BREAKS: [&str; 16] = [
    "caption", "details", "div", "figure", "head", "header", "li", "main", "p", "script",
    "section", "style", "summary", "title", "tr", "ul",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_place() {
        let mut markup = Markup::default();
        let hostile = "</p><script>alert(1)</script>\" onload='x' &\u{202e}\u{1b}]0;\u{0}";
        markup.leaf("p", &[("title", hostile)], hostile);
        let html = markup.finish();
        assert_eq!(html.matches('<').count(), 2, "{html}");
        assert_eq!(html.matches('"').count(), 2, "{html}");
        assert!(!html.contains(['\u{202e}', '\u{1b}', '\u{0}', '\'']), "{html}");
    }

    #[test]
    fn names_in_sentences_are_code_and_odd_backquotes_stay() {
        let written = |text| {
            let mut markup = Markup::default();
            markup.sentence(text);
            markup.finish()
        };
        assert_eq!(written("`a<b` is slower"), "<code>a&lt;b</code> is slower");
        assert_eq!(written("a`b is slower"), "a`b is slower");
    }

    #[test]
    fn no_line_ends_within_a_number() {
        for (text, expected) in [
            ("+2.3 % [+1.4, +4.9], n = 10", "+2.3_% [+1.4,_+4.9], n_=_10"),
            ("0.49 ± 0.03 times on 2 CPUs", "0.49_±_0.03 times on 2 CPUs"),
            ("1 200 000 operations in 5 runs", "1_200_000 operations in 5 runs"),
            ("5 2026 a [b c", "5 2026 a [b c"),
        ] {
            assert_eq!(unbroken(text).replace('\u{a0}', "_"), expected);
        }
    }

    #[test]
    fn data_cannot_end_its_element() {
        let mut markup = Markup::default();
        markup.data("d", "application/json", &serde_json::json!({ "</script><b>": "<!--&" }));
        let html = markup.finish();
        assert_eq!(html.matches('<').count(), 2, "{html}");
        let json = html.split(['>', '<']).nth(2).unwrap();
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(value["</script><b>"], "<!--&");
    }
}
