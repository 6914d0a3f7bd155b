//! The words of a litmus test.

use anyhow::{Result, bail, ensure};

/// Names and numbers, and signs of one or two characters.
pub struct Tokens {
    tokens: Vec<String>,
    at: usize,
}

const PAIRS: &[&str] = &["/\\", "\\/", "==", "!=", "<=", ">=", "&&", "||"];

impl Tokens {
    /// The words of a text without its comments.
    pub fn new(text: &str) -> Tokens {
        let text = without_comments(text);
        let characters: Vec<char> = text.chars().collect();
        let (mut tokens, mut at) = (Vec::new(), 0);
        while at < characters.len() {
            let first = characters[at];
            if first.is_whitespace() {
                at += 1;
                continue;
            }
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
            let length = if is_word(first) {
                characters[at..].iter().take_while(|&&c| is_word(c)).count()
            } else if first == '"' {
                let rest = characters[at + 1..].iter().take_while(|&&c| c != '"').count();
                (rest + 2).min(characters.len() - at)
            } else {
                let pair: String = characters[at..].iter().take(2).collect();
                if PAIRS.contains(&pair.as_str()) { 2 } else { 1 }
            };
            tokens.push(characters[at..at + length].iter().collect());
            at += length;
        }
        Tokens { tokens, at: 0 }
    }

    /// How many words the whole text has.
    pub fn count(&self) -> usize {
        self.tokens.len()
    }

    /// The next word; empty at the end.
    pub fn peek(&self) -> &str {
        self.ahead(0)
    }

    /// The word this far ahead.
    pub fn ahead(&self, distance: usize) -> &str {
        self.tokens.get(self.at + distance).map_or("", String::as_str)
    }

    /// Takes the next word.
    pub fn next(&mut self) -> Result<String> {
        let Some(token) = self.tokens.get(self.at) else { bail!("the test ends too early") };
        self.at += 1;
        Ok(token.clone())
    }

    /// Takes the next word if it is this.
    pub fn take(&mut self, token: &str) -> bool {
        let is_it = self.peek() == token;
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes the next word, which must be this.
    pub fn expect(&mut self, token: &str) -> Result<()> {
        ensure!(self.take(token), "`{}` where `{token}` is expected", self.peek());
        Ok(())
    }

    /// Takes a name.
    pub fn name(&mut self) -> Result<String> {
        let token = self.next()?;
        ensure!(is_name(&token), "`{token}` where a name is expected");
        Ok(token)
    }

    /// Takes a number, which may have a sign.
    pub fn number(&mut self) -> Result<u32> {
        let is_negative = self.take("-");
        let token = self.next()?;
        let value = match token.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => token.parse(),
        };
        let Ok(value) = value else { bail!("`{token}` where a number is expected") };
        Ok(if is_negative { -value } else { value } as u32)
    }
}

/// Whether a word is a name.
pub fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Whether `(*`, before this text, is of C, as in `WRITE_ONCE(*x, 1)`, and begins no comment, as `(*x*)` or `(* x *)` do.
fn leads_on(after: &str) -> bool {
    let closes = after.find(')').is_some_and(|at| after[..at].ends_with('*'));
    is_name(after) && !closes || !after.contains("*)")
}

fn without_comments(text: &str) -> String {
    let (mut rest, mut kept) = (text, String::new());
    // `(* … *)` is herd's, the others are those of C.
    let starts = [("(*", "*)"), ("/*", "*/"), ("//", "\n")];
    loop {
        let found = starts.iter().filter_map(|&(start, end)| Some((rest.find(start)?, start, end)));
        let Some((at, start, end)) = found.min() else { return kept + rest };
        let is_pointer = start == "(*" && leads_on(&rest[at + start.len()..]);
        if is_pointer {
            kept.push_str(&rest[..at + start.len()]);
            rest = &rest[at + start.len()..];
            continue;
        }
        kept.push_str(&rest[..at]);
        kept.push(' ');
        let inside = &rest[at + start.len()..];
        rest = inside.find(end).map_or("", |length| &inside[length + end.len()..]);
    }
}
