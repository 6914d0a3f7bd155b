//! The compiler's assembly, read line by line: adds a table with the source line of each call, and finds instructions
//! that access shared memory without a call.

use std::fmt::Write;

use anyhow::{Result, bail};

/// The section with the table: of each call, its return address, file, line and column.
pub const LINES_SECTION: &str = ".knee_lines";

/// Bytes of an entry of the table.
pub const LINE_ENTRY_BYTES: usize = 24;

/// Assembly with the table, and the files that its numbers stand for.
pub struct Annotated {
    pub text: String,
    /// By number: the path as the compiler has it.
    pub files: Vec<String>,
}

/// Instructions in inline assembly that access no memory and order nothing.
const HARMLESS: [&str; 5] = ["", "pause", "rep; nop", "rep nop", "nop"];

#[derive(Clone, Copy, Default)]
struct Line {
    file: usize,
    line: usize,
    column: usize,
}

/// Adds the table. Fails with the lines of all accesses that no call replaces.
pub fn annotate(assembly: &str) -> Result<Annotated> {
    let mut pass = Pass::default();
    for text in assembly.lines() {
        pass.line(text);
    }
    if !pass.unseen.is_empty() {
        bail!(
            "the checker would not see these accesses:\n  {}\nuse the atomics of <stdatomic.h>, or the kernel's with \
             #include <knee_kernel.h>",
            pass.unseen.join("\n  ")
        );
    }
    Ok(Annotated { text: pass.text, files: pass.files })
}

#[derive(Default)]
struct Pass {
    text: String,
    files: Vec<String>,
    at: Line,
    calls: usize,
    /// Whether the lines come from inline assembly.
    inline: bool,
    /// The line of the source that inline assembly begins with.
    inline_at: Option<String>,
    unseen: Vec<String>,
}

impl Pass {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}");
        let words = text.trim();
        if let Some(numbers) = words.strip_prefix(".loc") {
            let mut numbers = numbers.split_whitespace().map(|word| word.parse().unwrap_or(0));
            let mut next = || numbers.next().unwrap_or(0);
            self.at = Line { file: next(), line: next(), column: next() };
        } else if let Some(file) = words.strip_prefix(".file") {
            self.file(file);
        } else if words == "#APP" {
            (self.inline, self.inline_at) = (true, None);
        } else if words == "#NO_APP" {
            self.inline = false;
        } else if self.inline {
            self.inline_line(words);
        } else if ["call", "callq"].contains(&name(words)) {
            self.call();
        } else if accesses_atomically(words) {
            let place = self.place();
            self.unseen.push(format!("{place}: the compiler's own {}", one_space(words)));
        }
    }

    /// `.file 1 "/folder" "name.c"`, or `.file 1 "name.c"`.
    fn file(&mut self, text: &str) {
        let mut parts = text.split('"');
        let Ok(number) = parts.next().unwrap_or_default().trim().parse::<usize>() else { return };
        let (first, _, second) = (parts.next(), parts.next(), parts.next());
        let path = match (first, second) {
            (Some(folder), Some(name)) if !name.starts_with('/') => format!("{folder}/{name}"),
            (_, Some(name)) => name.to_string(),
            (first, None) => first.unwrap_or_default().to_string(),
        };
        if self.files.len() <= number {
            self.files.resize(number + 1, String::new());
        }
        self.files[number] = path;
    }

    /// `# 20 "my_lock.c" 1` says where inline assembly comes from.
    fn inline_line(&mut self, words: &str) {
        if let Some(comment) = words.strip_prefix('#') {
            let mut parts = comment.split('"');
            let number = parts.next().unwrap_or_default().trim().parse::<usize>().unwrap_or(0);
            if let Some(path) = parts.next().filter(|_| number > 0 && self.inline_at.is_none()) {
                self.inline_at = Some(format!("{path}:{number}"));
            }
            return;
        }
        if !HARMLESS.contains(&words) && !words.starts_with('.') {
            let place = self.inline_at.clone().unwrap_or_else(|| self.place());
            self.unseen.push(format!("{place}: inline assembly: {}", one_space(words)));
        }
    }

    fn call(&mut self) {
        let Line { file, line, column } = self.at;
        self.calls += 1;
        let label = format!(".Lknee_call{}", self.calls);
        let _ = writeln!(
            self.text,
            "{label}:\n\t.pushsection {LINES_SECTION},\"\",@progbits\n\t.quad {label}\n\t.long {file}, {line}, \
             {column}, 0\n\t.popsection"
        );
    }

    fn place(&self) -> String {
        let file = self.files.get(self.at.file).map_or("", String::as_str);
        format!("{file}:{}", self.at.line)
    }
}

/// Whether an instruction is an atomic access, or a fence.
fn accesses_atomically(instruction: &str) -> bool {
    let name = name(instruction);
    let exchanges = name.starts_with("xchg") && instruction.contains('(');
    exchanges || ["lock", "mfence", "lfence", "sfence"].contains(&name)
}

/// The first word of an instruction, or a label with its colon.
fn name(instruction: &str) -> &str {
    instruction.split(|c: char| c.is_whitespace() || c == ';').next().unwrap_or_default()
}

fn one_space(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_get_lines_and_unseen_accesses_are_named() {
        let text = "\t.file 1 \"a.c\"\n\t.loc 1 7 3 view -0\n\tcall\tf@PLT\n";
        let annotated = annotate(text).unwrap();
        assert!(annotated.text.contains(".long 1, 7, 3, 0"), "{}", annotated.text);
        assert_eq!(annotated.files[1], "a.c");
        let harmless = "#APP\n# 9 \"a.c\" 1\n\tpause\n# 0 \"\" 2\n#NO_APP\n";
        assert!(annotate(harmless).is_ok());
        let inline = "#APP\n# 9 \"a.c\" 1\n\tlock; incl 8(%rbp)\n# 0 \"\" 2\n#NO_APP\n";
        let said = annotate(inline).err().unwrap().to_string();
        assert!(said.contains("a.c:9: inline assembly: lock; incl 8(%rbp)"), "{said}");
        let plain = "\t.file 1 \"a.c\"\n\t.loc 1 5 1\n\txchgb\t%al, (%rdi)\n\txchgl %eax, %ebx\n";
        let said = annotate(plain).err().unwrap().to_string();
        assert!(
            said.contains("a.c:5: the compiler's own xchgb") && !said.contains("ebx"),
            "{said}"
        );
    }

    #[test]
    fn labels_are_no_instructions() {
        let annotated = annotate("lock_slow:\nlock:\ncall_slow:\nmfence_all:\n").unwrap();
        assert!(!annotated.text.contains(LINES_SECTION), "{}", annotated.text);
        assert!(annotate("\tlock xaddl\t%eax, (%rdi)\n").is_err());
    }
}
