//! Fills templates of programs: keeps the lines that are meant for the drawn words, and writes drawn names in the style
//! of the language.
//!
//! A line `@if WORD…` behind the language's comment mark keeps the lines up to `@else` or `@end` if one of the words
//! was drawn. `@name@` is replaced by the name of that role; `@Name@` and `@NAME@` write it as a type or a constant.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

/// What replaces a role.
#[derive(Clone, Debug)]
pub enum Filling {
    /// A name in words joined by `_`, which the style of the language changes.
    Name(String),
    /// Text as it stands: numbers, names of threads.
    Text(String),
    /// The filling of another role.
    Role(String),
}

/// How a language writes the names of functions and variables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Snake,
    Camel,
}

/// What was drawn for a program.
#[derive(Clone, Default)]
pub struct Fillings {
    /// By role.
    pub roles: BTreeMap<String, Filling>,
    /// The words that `@if` asks for.
    pub words: BTreeSet<String>,
}

impl Fillings {
    /// Sets the name of a role.
    pub fn name(&mut self, role: &str, name: String) {
        self.roles.insert(role.to_string(), Filling::Name(name));
    }

    /// Sets the text of a role.
    pub fn text(&mut self, role: &str, text: impl ToString) {
        self.roles.insert(role.to_string(), Filling::Text(text.to_string()));
    }

    /// Adds a word that `@if` asks for.
    pub fn word(&mut self, word: &str) {
        self.words.insert(word.to_string());
    }

    /// How a program of this style writes a role, such as `locked`, `Type` or `TABLE`.
    pub fn written(&self, role: &str, style: Style) -> Result<String> {
        let key = role.to_lowercase();
        let filling =
            self.roles.get(&key).with_context(|| format!("nothing is drawn for {role}"))?;
        Ok(match filling {
            Filling::Text(text) => text.clone(),
            Filling::Role(other) => self.written(other, style)?,
            Filling::Name(name) if role == role.to_uppercase() => name.to_uppercase(),
            Filling::Name(name) if role.starts_with(char::is_uppercase) => camel(name, true),
            Filling::Name(name) if style == Style::Camel => camel(name, false),
            Filling::Name(name) => name.clone(),
        })
    }

    /// The program of a template.
    pub fn fill(&self, template: &str, style: Style) -> Result<String> {
        let mut program = String::new();
        let mut kept = vec![true];
        for (number, line) in template.lines().enumerate() {
            let code = line.trim_start().trim_start_matches(['/', '#']);
            let place = || format!("in line {}: {line}", number + 1);
            if let Some(words) = code.strip_prefix("@if ") {
                let is_drawn = words.split(' ').any(|word| self.words.contains(word));
                kept.push(kept[kept.len() - 1] && is_drawn);
            } else if code == "@else" {
                ensure!(kept.len() > 1, "@else without @if {}", place());
                let was_kept = kept.pop().expect("there is one");
                kept.push(kept[kept.len() - 1] && !was_kept);
            } else if code == "@end" {
                ensure!(kept.len() > 1, "@end without @if {}", place());
                kept.pop();
            } else if kept[kept.len() - 1] {
                program += &self.filled_line(line, style).with_context(place)?;
                program.push('\n');
            }
        }
        if kept.len() != 1 {
            bail!("an @if has no @end");
        }
        Ok(program)
    }

    fn filled_line(&self, line: &str, style: Style) -> Result<String> {
        let mut filled = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('@') {
            filled += before;
            let role = after.split_once('@').filter(|(role, _)| is_role(role));
            match role {
                Some((role, behind)) => {
                    filled += &self.written(role, style)?;
                    rest = behind;
                }
                None => {
                    filled.push('@');
                    rest = after;
                }
            }
        }
        Ok(filled + rest)
    }
}

fn is_role(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn camel(name: &str, is_type: bool) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let words = name.split('_').enumerate();
    words
        .map(|(at, word)| if at > 0 || is_type { capital(word) } else { word.to_string() })
        .collect()
}
