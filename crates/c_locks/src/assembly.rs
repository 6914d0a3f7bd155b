//! The compiler's assembly, read line by line: adds a table with the source line of each call. Before each instruction that may
//! access memory which others see it puts a call, which makes ThreadSanitizer's calls for plain accesses needless: what is
//! seen is what the code does. Instructions of inline assembly become calls, of which some have no machine: a lock whose
//! functions lead there is refused.

use std::fmt::Write;

use crate::decoded;
use crate::x86::{self, Instruction, Statement};

/// The section with the table: of each call, its return address, file, line and column.
pub const LINES_SECTION: &str = ".knee_lines";

/// Bytes of an entry of the table.
pub const LINE_ENTRY_BYTES: usize = 24;

/// The section with the addresses that instructions of inline assembly name by a symbol: each with the instruction's number.
pub const PLACES_SECTION: &str = ".knee_places";

/// Bytes of an entry of that section.
pub const PLACE_ENTRY_BYTES: usize = 16;

/// The start of the name of a function whose call stands beside, or for, an access that the checker would not see.
pub const UNSEEN: &str = "knee_unseen_";

/// Assembly with the table, and the files that its numbers stand for.
pub struct Annotated {
    pub text: String,
    /// By number: the path as the compiler has it.
    pub files: Vec<String>,
    /// By number: the instructions that calls stand for.
    pub instructions: Vec<Instruction>,
    /// By number, which stands after [`UNSEEN`]: accesses that the checker would not see, with their lines.
    pub unseen: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Line {
    file: usize,
    line: usize,
    column: usize,
}

/// Adds the table.
pub fn annotate(assembly: &str) -> Annotated {
    let mut pass = Pass::default();
    for text in assembly.lines() {
        pass.line(text);
    }
    let Pass { text, files, instructions, unseen, .. } = pass;
    Annotated { text, files, instructions, unseen }
}

#[derive(Default)]
struct Pass {
    text: String,
    files: Vec<String>,
    at: Line,
    calls: usize,
    /// Whether the lines come from inline assembly.
    inline: bool,
    /// The file and the line that the source of inline assembly begins at.
    inline_at: Option<(String, usize)>,
    unseen: Vec<String>,
    instructions: Vec<Instruction>,
}

impl Pass {
    fn line(&mut self, text: &str) {
        let words = text.trim();
        if is_plain_hook(words) || is_of_exceptions(words) || is_pause(words) {
            return;
        }
        if self.inline && !words.starts_with('#') {
            return self.inline_statements(words);
        }
        if let Some(pointer) = called_pointer(words) {
            return self.call_by_pointer(pointer);
        }
        if !self.inline && may_access(words) {
            let _ = writeln!(self.text, "\tcall {}", decoded::FUNCTION);
            self.call();
        }
        let is_trap = !self.inline && words == "ud2";
        let text = if is_trap { "\tcall knee_trap" } else { text };
        let _ = writeln!(self.text, "{text}");
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
            self.inline_comment(words);
        } else if is_call(words) || is_trap {
            self.call();
        } else if accesses_atomically(words) {
            let place = self.place();
            self.unseen(format!("{place}: the compiler's own {}", one_space(words)));
        } else if is_refused(words) || divides(words) {
            self.call();
        }
    }

    /// A call by a pointer in a register, or in memory: then it is loaded first, since that is an access. The hook before it looks
    /// at the pointer in r11, in which no argument is.
    fn call_by_pointer(&mut self, pointer: &str) {
        if pointer != "%r11" {
            self.line(&format!("\tmovq\t{pointer}, %r11"));
        }
        let _ = writeln!(self.text, "\tcall knee_pointer_call");
        self.call();
        let _ = writeln!(self.text, "\tcall\t*%r11");
        self.call();
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
    fn inline_comment(&mut self, comment: &str) {
        let mut parts = comment.trim_start_matches('#').split('"');
        let number = parts.next().unwrap_or_default().trim().parse::<usize>().unwrap_or(0);
        if let Some(path) = parts.next().filter(|_| number > 0) {
            self.inline_at = Some((path.to_string(), number));
        }
    }

    /// Statements of inline assembly, with semicolons between.
    fn inline_statements(&mut self, words: &str) {
        let mut is_locked = false;
        for statement in words.split(';').map(str::trim) {
            let (prefix, rest) =
                statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
            is_locked |= prefix == "lock";
            let statement = if prefix == "lock" { rest.trim() } else { statement };
            if statement.is_empty() {
                continue;
            }
            match x86::read(statement, is_locked) {
                Statement::Harmless => {
                    let _ = writeln!(self.text, "\t{statement}");
                }
                Statement::Access(instruction) => self.instruction(instruction),
                Statement::Unknown => {
                    let began = self.inline_at.as_ref();
                    let place = began.map(|(path, line)| format!("{path}:{line}"));
                    let place = place.unwrap_or_else(|| self.place());
                    self.unseen(format!("{place}: inline assembly: {}", one_space(words)));
                }
            }
            is_locked = false;
        }
    }

    fn unseen(&mut self, what: String) {
        let _ = writeln!(self.text, "\tcall {UNSEEN}{}", self.unseen.len());
        self.unseen.push(what);
    }

    fn instruction(&mut self, instruction: Instruction) {
        let number = self.instructions.len();
        let _ = writeln!(self.text, "\tcall {}{number}", x86::FUNCTION);
        // Compilers give only the first of several such statements a `.loc`.
        let loc = self.at;
        if let Some((path, line)) = &self.inline_at
            && let Some(file) = self.files.iter().position(|file| file == path)
        {
            self.at = Line { file, line: *line, column: 0 };
        }
        self.call();
        self.at = loc;
        if let Some(symbol) = &instruction.memory.symbol {
            let _ = writeln!(
                self.text,
                "\t.pushsection {PLACES_SECTION},\"\",@progbits\n\t.quad {symbol}\n\t.long {number}, 0\n\t.popsection"
            );
        }
        self.instructions.push(instruction);
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

/// Whether an instruction is refused once it is decoded: then its line is told, as that of a call.
fn is_refused(instruction: &str) -> bool {
    const STARTS: [&str; 8] =
        ["rdtsc", "rdrand", "rdseed", "cpuid", "rdp", "xgetbv", "movnt", "syscall"];
    STARTS.iter().any(|start| instruction.starts_with(start))
}

/// Whether it may fail for its operands: then its line is told, too.
fn divides(instruction: &str) -> bool {
    ["divb", "divw", "divl", "divq"]
        .iter()
        .any(|end| name(instruction).trim_start_matches('i') == *end)
}

fn is_call(instruction: &str) -> bool {
    ["call", "callq"].contains(&name(instruction))
}

/// Whether it is the compiler's call before a plain access. Of a volatile one, only that call tells what it is.
fn is_plain_hook(instruction: &str) -> bool {
    let called = instruction.split_whitespace().nth(1).unwrap_or_default();
    let access = called.strip_prefix("__tsan_").filter(|_| is_call(instruction));
    let access = access.map(|access| access.trim_start_matches("unaligned_"));
    access.is_some_and(|access| access.starts_with("read") || access.starts_with("write"))
}

/// Whether it only takes time, or only keeps the compiler from moving accesses: loops that count their tries have thousands.
fn is_pause(instruction: &str) -> bool {
    let spaced = instruction.replace(';', " ");
    match &spaced.split_whitespace().collect::<Vec<_>>()[..] {
        ["pause"] | ["rep", "nop"] => true,
        [_, called] => is_call(instruction) && called.starts_with("__tsan_atomic_signal_fence"),
        _ => false,
    }
}

/// Whether it tells where exceptions are caught: none is thrown, and a fault that ends a check passes all frames.
fn is_of_exceptions(directive: &str) -> bool {
    [".cfi_personality", ".cfi_lsda"].iter().any(|start| directive.starts_with(start))
}

/// Instructions that access what rsi and rdi point to, with or without naming it.
const STRING_INSTRUCTIONS: [&str; 12] = [
    "rep", "repz", "repnz", "repe", "movsb", "movsw", "movsl", "movsq", "stosb", "stosw", "stosl",
    "stosq",
];

/// Whether an instruction may access memory that others see. If it does not, its call is taken out again, once all addresses
/// are known; one that is missing is found then, too.
fn may_access(line: &str) -> bool {
    let instruction = line.split('#').next().unwrap_or_default();
    let name = name(instruction);
    if STRING_INSTRUCTIONS.contains(&name) {
        return true;
    }
    if instruction.starts_with('.') || name.starts_with("lea") || name.ends_with(':') {
        return false;
    }
    let Some((before, _)) = instruction.rsplit_once('(') else { return false };
    !before.to_uppercase().ends_with("@GOTPCREL")
}

/// The operand of a call by a pointer. What the linker fills in is never null.
fn called_pointer(instruction: &str) -> Option<&str> {
    let operand = instruction.split('#').next()?.split_whitespace().nth(1)?;
    let pointer = operand.strip_prefix('*').filter(|_| is_call(instruction))?;
    (!pointer.to_uppercase().contains("@GOTPCREL")).then_some(pointer)
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
        let annotated = annotate(text);
        assert!(annotated.text.contains(".long 1, 7, 3, 0"), "{}", annotated.text);
        assert_eq!(annotated.files[1], "a.c");
        let inline =
            |text: &str| annotate(&format!("#APP\n# 9 \"a.c\" 1\n\t{text}\n# 0 \"\" 2\n#NO_APP\n"));
        let harmless = inline("rep; nop");
        assert!(harmless.instructions.is_empty() && harmless.unseen.is_empty());
        for pause in ["pause", "rep; nop", "rep;nop"] {
            assert!(!inline(pause).text.contains("nop") && !inline(pause).text.contains("pause"));
        }
        assert!(inline("pause; cpuid").text.contains("\tcall knee_unseen_0\n"));
        let pointed = annotate("\tcall\t*8(%rdi)\n").text;
        for part in ["\tmovq\t8(%rdi), %r11\n", "\tcall knee_pointer_call\n", "\tcall\t*%r11\n"] {
            assert!(pointed.contains(part), "no '{part}' in {pointed}");
        }
        let fence = annotate("\tcall\t__tsan_atomic_signal_fence@PLT\n\tcall\tf@PLT\n").text;
        assert!(fence.contains("\tcall\tf") && !fence.contains("signal_fence"), "{fence}");
        let cpuid = inline("xor %eax, %eax; cpuid");
        assert_eq!(cpuid.unseen, ["a.c:9: inline assembly: xor %eax, %eax; cpuid"]);
        assert!(cpuid.text.contains("\tcall knee_unseen_0\n") && !cpuid.text.contains("\tcpuid"));
        let called = inline("lock ; decl word(%rip); setz %al");
        assert_eq!(called.instructions.len(), 1);
        for part in ["\tcall knee_x86_0\n", "\t.quad word\n\t.long 0, 0\n", "\tsetz %al\n"] {
            assert!(called.text.contains(part), "no '{part}' in {}", called.text);
        }
        let plain = "\t.file 1 \"a.c\"\n\t.loc 1 5 1\n\txchgb\t%al, (%rdi)\n\txchgl %eax, %ebx\n";
        assert_eq!(annotate(plain).unseen, ["a.c:5: the compiler's own xchgb %al, (%rdi)"]);
    }

    #[test]
    fn instructions_that_may_access_memory_get_a_call() {
        for instruction in [
            "movdqu\t(%rax), %xmm0",
            "addl\t$1, word(%rip)",
            "movq\tn@dtpoff(%rbx), %rax",
            "rep stosq",
            "movsl",
            "movq\t8(%rsp), %rax",
        ] {
            let text = annotate(&format!("\t{instruction}\n")).text;
            assert!(text.starts_with("\tcall knee_access\n"), "{text}");
            assert!(text.contains(&format!("\t{instruction}\n")), "{text}");
        }
        for instruction in [
            "leaq\t8(%rax), %rdi",
            "movslq\t%eax, %rbx",
            "movq\tword@GOTPCREL(%rip), %rax",
            "pushq\t%rbx                    # 8-byte (Spill)",
            ".string\t\"a(b)\"",
        ] {
            assert_eq!(annotate(&format!("\t{instruction}\n")).text, format!("\t{instruction}\n"));
        }
        assert_eq!(annotate("\tcall\t__tsan_unaligned_write8@PLT\n").text, "");
        assert!(!annotate("\tcallq\t__tsan_volatile_read4@PLT\n").text.is_empty());
    }

    #[test]
    fn labels_are_no_instructions() {
        let annotated = annotate("lock_slow:\nlock:\ncall_slow:\nmfence_all:\n");
        assert!(!annotated.text.contains(LINES_SECTION), "{}", annotated.text);
        assert_eq!(annotate("\tlock xaddl\t%eax, (%rdi)\n").unseen.len(), 1);
    }
}
