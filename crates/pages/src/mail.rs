//! A page as a mail: plain text of at most 72 columns, to be pasted into a mail to a kernel list as it is.

use host::terminal::shown;
use text::Style;
use text::prose::{reflowed, wrapped};

use crate::fitted::fitted;
use crate::ledger::ledger_text;
use crate::page::{Block, LEDGER_DEPTH_MAX, Page, PageTable, brief};

/// What a mail to a kernel list may have at most.
const WIDTH: usize = 72;
const STYLE: Style = Style { width: WIDTH, ..Style::PLAIN };
/// Columns for the labels of facts, at least.
const LABEL: usize = 11;

/// The whole text.
pub fn mail(page: &Page) -> String {
    let mut text = sentence(&format!("{}: {}", page.kind.name(), page.brief_title()), 0);
    text.push('\n');
    for answer in &page.answers {
        text += &sentence(&brief(answer), 0);
    }
    if !page.counts.is_empty() {
        let counts: Vec<String> =
            page.counts.iter().map(|count| format!("{} {}", count.n, count.word)).collect();
        text += &sentence(&format!("Verdicts: {}", counts.join(", ")), 0);
    }
    for section in &page.sections {
        // What changed stands in the answer, and again in the tables of loads.
        if section.is_summary {
            continue;
        }
        let blocks: Vec<String> =
            section.blocks.iter().map(block).filter(|text| !text.is_empty()).collect();
        if !blocks.is_empty() {
            let is_known = section.title == page.title;
            let title = if is_known { String::new() } else { sentence(&section.title, 2) };
            text += &format!("\n{title}{}", blocks.join("\n"));
        }
    }
    for (title, sentences) in &page.warnings {
        text += &format!("\n{title}\n{}", list(sentences));
    }
    if !page.method.is_empty() {
        text += &format!("\nMethod\n{}", list(&page.method));
    }
    if !page.facts.is_empty() {
        text += &format!("\n{}\n", page.facts_title());
        let widest = page.facts.iter().map(|(label, _)| label.chars().count()).max();
        let column = LABEL.max(widest.unwrap_or_default());
        let fact = |(label, value): &(String, String)| {
            wrapped_ascii(&format!("  {label:<column$} {value}"), column + 3)
        };
        text += &page.facts.iter().map(fact).collect::<String>();
    }
    if !page.again.is_empty() {
        text += "\nDo it again\n";
        text += &page.again.iter().map(|command| continued(command)).collect::<String>();
    }
    // What would control a terminal is longer once it is escaped.
    cut(&shown(&text))
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(sentences) => list(sentences),
        // The numbers stand in the tables; a mail has no room for stacks.
        Block::Curves(_) | Block::Flame(_) => String::new(),
        Block::Manual(text) => reflowed(&STYLE.spelled(text), WIDTH),
        Block::Folded(_, sentences) if sentences.is_empty() => String::new(),
        Block::Folded(title, sentences) => format!("{title}:\n{}", list(sentences)),
        Block::Matrix(matrix) => fitted(&PageTable::of_matrix(matrix), STYLE),
        Block::Table(table) => fitted(table, STYLE),
        Block::Ledger(tree) => ledger_text(tree, STYLE, LEDGER_DEPTH_MAX),
    }
}

fn list(sentences: &[String]) -> String {
    sentences.iter().map(|one| wrapped_ascii(&format!("- {one}"), 2)).collect()
}

fn sentence(text: &str, indent: usize) -> String {
    wrapped_ascii(text, indent)
}

fn wrapped_ascii(text: &str, indent: usize) -> String {
    wrapped(&STYLE.spelled(text), WIDTH, indent)
}

/// A command in lines that a shell reads as one when they are pasted. A word that is longer than a line goes on
/// at the beginning of the next one, so that the shell adds no blank.
fn continued(command: &str) -> String {
    /// Room for " \" at the end of a line.
    const ROOM: usize = WIDTH - 2;
    const INDENT: usize = 6;
    let mut text = "  ".to_string();
    let mut used = text.len();
    for (index, word) in shell_words(command).into_iter().enumerate() {
        let length = word.chars().count();
        let gap = usize::from(index > 0);
        if used + gap + length <= ROOM {
            text.extend([&" "[..gap], word]);
            used += gap + length;
        } else if INDENT + length <= ROOM {
            text += &format!(" \\\n{:INDENT$}{word}", "");
            used = INDENT + length;
        } else {
            text += &" "[..gap];
            text += "\\\n";
            used = long_word(&mut text, word);
        }
    }
    text + "\n"
}

/// The words of a command, in which `'` quotes what lies up to the next one, and `\` quotes one letter elsewhere.
fn shell_words(command: &str) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_end = |letter: char| {
        is_quoted ^= letter == '\'' && !is_escaped;
        let ends = letter == ' ' && !is_quoted && !is_escaped;
        is_escaped = letter == '\\' && !is_quoted && !is_escaped;
        ends
    };
    command.split(is_end).filter(|word| !word.is_empty()).collect()
}

/// Adds a long word in lines that a shell joins: quotes are closed before a line ends, and opened again. Returns
/// the length of the last line.
fn long_word(text: &mut String, word: &str) -> usize {
    /// Room for a quote at the beginning, and for a quote and a backslash at the end.
    const LETTERS: usize = WIDTH - 3;
    let (mut used, mut is_quoted, mut is_escaped) = (0, false, false);
    for letter in word.chars() {
        if used >= LETTERS && !is_escaped {
            *text += if is_quoted { "'\\\n'" } else { "\\\n" };
            used = usize::from(is_quoted);
        }
        is_quoted ^= letter == '\'' && !is_escaped;
        is_escaped = letter == '\\' && !is_quoted && !is_escaped;
        text.push(letter);
        used += 1;
    }
    used
}

/// Words without a space may be longer than a line: their lines are broken, where possible after a comma or a
/// slash, so that no mail program breaks the lines around them.
fn cut(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let indent: String =
            line.chars().take_while(|letter| *letter == ' ').take(WIDTH / 2).collect();
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > WIDTH {
            let half = WIDTH / 2..WIDTH;
            let end = half.rev().find(|at| ",;/".contains(rest[*at - 1])).unwrap_or(WIDTH);
            let after = rest.split_off(end);
            lines.extend(rest);
            lines.push('\n');
            rest = indent.chars().chain(after).collect();
        }
        lines.extend(rest);
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that a shell makes of a command.
    fn as_a_shell_reads(command: &str) -> String {
        let script = format!("printf '<%s>\\n' {command}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{command}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn commands_in_lines_are_the_same_to_a_shell() {
        let axes = "--axis a=1 ".repeat(30);
        let quoted = format!("--command '{}'", r"make  test it'\''s ".repeat(20));
        let unbroken = "x".repeat(300);
        let escaped = format!("a{}", r"\'\\".repeat(90));
        for command in ["knee report last", "a b", &axes, &quoted, &unbroken, &escaped] {
            let lines = continued(command);
            assert!(lines.lines().all(|line| line.chars().count() <= WIDTH), "{lines}");
            assert_eq!(as_a_shell_reads(&lines), as_a_shell_reads(command), "{lines}");
        }
    }

    #[test]
    fn long_words_break_after_a_comma_and_keep_their_indent() {
        let options = format!("    ({})", "relatime,discard,".repeat(6));
        let lines = cut(&options);
        assert!(
            lines.lines().all(|line| line.len() <= WIDTH && line.starts_with("    ")),
            "{lines}"
        );
        assert!(lines.lines().next().is_some_and(|line| line.ends_with(',')), "{lines}");
        assert_eq!(cut("a\n\nb\n"), "a\n\nb\n");
    }
}
