//! Instructions of inline assembly that access memory. The assembly calls a function instead, which finds all registers as they
//! were, and the machine does the access in the order that x86 gives it: a load acquires, a store releases, and a locked
//! instruction is a full barrier.
//!
//!     lock xaddl %eax, 8(%rdi)    ->    call knee_x86_3

use machine::Ordering;

/// The start of the name of a function that stands for an instruction; its number follows.
pub const FUNCTION: &str = "knee_x86_";

/// The names of the registers with eight bytes, by number.
const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// Instructions that access no memory if none of their operands does, and order nothing.
const ON_REGISTERS: [&str; 18] = [
    "mov", "set", "test", "cmp", "xor", "add", "sub", "and", "or", "not", "neg", "inc", "dec",
    "nop", "adc", "sbb", "lea", "cmov",
];

/// What an instruction does with the memory that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Load,
    Store,
    Exchange,
    ExchangeAdd,
    CompareExchange,
    Add,
    Sub,
    And,
    Or,
    Xor,
    /// Sets, clears or flips the bit whose number the operand is, and tells what it was.
    SetBit,
    ClearBit,
    FlipBit,
    Fence(Ordering),
    /// A compare-exchange of 16 bytes: of rdx and rax with rcx and rbx.
    WideCompareExchange,
    /// A system call, whose registers say which.
    SystemCall,
}

impl Action {
    /// Whether the operand is the number of a bit.
    pub fn is_of_bit(self) -> bool {
        matches!(self, Action::SetBit | Action::ClearBit | Action::FlipBit)
    }
}

/// What an instruction uses beside memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register, by its number.
    Register(usize),
    Immediate(i64),
    Nothing,
}

/// An address: a symbol, which the loader knows, and registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `name+8`, or `name@dtpoff` for the offset of a thread-local variable.
    pub symbol: Option<String>,
    pub base: Option<usize>,
    pub index: Option<usize>,
    pub scale: u64,
    pub displacement: i64,
}

/// An instruction that accesses memory, or a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub action: Action,
    /// Bytes that it accesses.
    pub size: u8,
    pub operand: Operand,
    pub memory: Memory,
}

/// What a statement of inline assembly is.
#[derive(Debug, PartialEq, Eq)]
pub enum Statement {
    /// Something that accesses no memory.
    Harmless,
    Access(Instruction),
    /// An access that no machine of knee has, or what knee cannot read.
    Unknown,
}

/// Reads a statement, without a `lock` before it.
pub fn read(text: &str, is_locked: bool) -> Statement {
    let text = text.trim();
    let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    // The assembler takes `NOP` too.
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    let action = match name {
        "mfence" => Action::Fence(Ordering::SeqCst),
        "lfence" => Action::Fence(Ordering::Acquire),
        "sfence" => Action::Fence(Ordering::Release),
        "syscall" => Action::SystemCall,
        "" | "pause" => return Statement::Harmless,
        "rep" if ["", "nop", "ret"].contains(&operands.trim()) => return Statement::Harmless,
        // A hint: it neither reads nor faults, whatever the address.
        _ if name.starts_with('.') || name.starts_with("prefetch") => return Statement::Harmless,
        _ => return access(name, &operands_of(operands), is_locked),
    };
    let (size, operand) = (0, Operand::Nothing);
    Statement::Access(Instruction { action, size, operand, memory: Memory::default() })
}

fn access(name: &str, operands: &[&str], is_locked: bool) -> Statement {
    if !operands.iter().any(|operand| is_memory(operand)) {
        let is_harmless = ON_REGISTERS.iter().any(|start| name.starts_with(start));
        // Without operands, `movsb` and `cmpsb` access what registers point to.
        let is_harmless = is_harmless && (!operands.is_empty() || name == "nop");
        return if is_harmless && !is_locked { Statement::Harmless } else { Statement::Unknown };
    }
    instruction(name, operands, is_locked).map_or(Statement::Unknown, Statement::Access)
}

fn instruction(name: &str, operands: &[&str], is_locked: bool) -> Option<Instruction> {
    if name == "cmpxchg16b" {
        let [memory_operand] = operands else { return None };
        let (action, operand) = (Action::WideCompareExchange, Operand::Nothing);
        let memory = memory(memory_operand)?;
        return is_locked.then_some(Instruction { action, size: 8, operand, memory });
    }
    let names = [
        "mov", "xchg", "xadd", "cmpxchg", "add", "sub", "and", "or", "xor", "inc", "dec", "bts",
        "btr", "btc",
    ];
    let (plain, suffix) = names.iter().find_map(|plain| {
        let suffix = name.strip_prefix(plain)?;
        ["", "b", "w", "l", "q"].contains(&suffix).then_some((*plain, suffix))
    })?;
    let register = operands.iter().find_map(|operand| register(operand));
    let size = match suffix {
        "b" => 1,
        "w" => 2,
        "l" => 4,
        "q" => 8,
        _ => register?.1,
    };
    let memory_at = operands.iter().position(|operand| is_memory(operand))?;
    let other = |at: usize| operand(operands[at]);
    let (action, operand, must_lock) = match (plain, operands.len(), memory_at) {
        ("mov", 2, 0) => (Action::Load, other(1)?, false),
        ("mov", 2, 1) => (Action::Store, other(0)?, false),
        ("xchg", 2, at) => (Action::Exchange, other(1 - at)?, false),
        ("xadd", 2, 1) => (Action::ExchangeAdd, other(0)?, true),
        ("cmpxchg", 2, 1) => (Action::CompareExchange, other(0)?, true),
        ("add", 2, 1) => (Action::Add, other(0)?, true),
        ("sub", 2, 1) => (Action::Sub, other(0)?, true),
        ("and", 2, 1) => (Action::And, other(0)?, true),
        ("or", 2, 1) => (Action::Or, other(0)?, true),
        ("xor", 2, 1) => (Action::Xor, other(0)?, true),
        ("bts", 2, 1) => (Action::SetBit, other(0)?, true),
        ("btr", 2, 1) => (Action::ClearBit, other(0)?, true),
        ("btc", 2, 1) => (Action::FlipBit, other(0)?, true),
        ("inc", 1, 0) => (Action::Add, Operand::Immediate(1), true),
        ("dec", 1, 0) => (Action::Sub, Operand::Immediate(1), true),
        _ => return None,
    };
    let writes_register = matches!(action, Action::Load | Action::Exchange | Action::ExchangeAdd);
    let is_possible = !writes_register || matches!(operand, Operand::Register(_));
    // Without a lock, loading and storing are two accesses.
    if !is_possible || must_lock && !is_locked {
        return None;
    }
    Some(Instruction { action, size, operand, memory: memory(operands[memory_at])? })
}

/// Splits at commas outside of parentheses.
fn operands_of(text: &str) -> Vec<&str> {
    let (mut operands, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                operands.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    operands.extend(Some(text[start..].trim()).filter(|last| !last.is_empty()));
    operands
}

fn is_memory(operand: &str) -> bool {
    !operand.starts_with(['%', '$']) || operand.contains('(')
}

fn operand(text: &str) -> Option<Operand> {
    match text.strip_prefix('$') {
        Some(number) => number_of(number).map(Operand::Immediate),
        None => register(text).map(|(register, _)| Operand::Register(register)),
    }
}

/// A register's number, and the bytes of it that the name means. None for the second byte, as `%ah`.
fn register(text: &str) -> Option<(usize, u8)> {
    let name = text.strip_prefix('%')?;
    if let Some(number) = REGISTERS.iter().position(|register| *register == name) {
        return Some((number, 8));
    }
    let numbered = REGISTERS[8..].iter().position(|register| {
        name.strip_prefix(register).is_some_and(|part| ["d", "w", "b"].contains(&part))
    });
    if let Some(number) = numbered {
        let size = match name.as_bytes().last() {
            Some(b'd') => 4,
            Some(b'w') => 2,
            _ => 1,
        };
        return Some((8 + number, size));
    }
    let old = REGISTERS[..8].iter().position(|register| {
        let word = &register[1..];
        let byte = word.strip_suffix('x').map_or(format!("{word}l"), |letter| format!("{letter}l"));
        name == word || name.strip_prefix('e') == Some(word) || name == byte
    })?;
    let size = match name {
        _ if name.starts_with('e') => 4,
        _ if name.ends_with('l') => 1,
        _ => 2,
    };
    Some((old, size))
}

/// `8(%rdi,%rax,4)`, `name+8(%rip)` or `name@dtpoff(%rax)`.
fn memory(text: &str) -> Option<Memory> {
    let (before, inside) = text.strip_suffix(')')?.split_once('(')?;
    if inside == "%rip" {
        let symbol = (!before.contains('@')).then(|| before.to_string());
        return Some(Memory { symbol: Some(symbol?), ..Memory::default() });
    }
    let mut parts = inside.split(',').map(str::trim);
    let mut whole_register = || match parts.next() {
        None | Some("") => Some(None),
        Some(part) => register(part).filter(|(_, size)| *size == 8).map(|(it, _)| Some(it)),
    };
    let (base, index) = (whole_register()?, whole_register()?);
    let scale = parts.next().map_or(Some(1), |scale| scale.parse().ok())?;
    let symbol = before.ends_with("@dtpoff").then(|| before.to_string());
    let is_number = symbol.is_none() && !before.is_empty();
    let displacement = if is_number { number_of(before)? } else { 0 };
    Some(Memory { symbol, base, index, scale, displacement })
}

fn number_of(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let number = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    number.ok().map(|number| sign * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_with_memory_are_read() {
        let registers = |base, index, scale, displacement| Memory {
            symbol: None,
            base,
            index,
            scale,
            displacement,
        };
        let rdi = || registers(Some(7), None, 1, 0);
        for (text, is_locked, action, size, operand, memory) in [
            (
                "movl 4(%rdi), %eax",
                false,
                Action::Load,
                4,
                Operand::Register(0),
                registers(Some(7), None, 1, 4),
            ),
            ("movq $-1, (%rdi)", false, Action::Store, 8, Operand::Immediate(-1), rdi()),
            (
                "mov %r9b, (%rdi,%rcx,8)",
                false,
                Action::Store,
                1,
                Operand::Register(9),
                registers(Some(7), Some(1), 8, 0),
            ),
            ("xchg (%rdi), %sil", false, Action::Exchange, 1, Operand::Register(6), rdi()),
            ("xaddl %edx, (%rdi)", true, Action::ExchangeAdd, 4, Operand::Register(2), rdi()),
            (
                "cmpxchgw %r10w, (%rdi)",
                true,
                Action::CompareExchange,
                2,
                Operand::Register(10),
                rdi(),
            ),
            ("btsl $3, (%rdi)", true, Action::SetBit, 4, Operand::Immediate(3), rdi()),
            ("btrq %rcx, (%rdi)", true, Action::ClearBit, 8, Operand::Register(1), rdi()),
            ("xorl %eax, (%rdi)", true, Action::Xor, 4, Operand::Register(0), rdi()),
            ("syscall", false, Action::SystemCall, 0, Operand::Nothing, Memory::default()),
            ("cmpxchg16b (%rdi)", true, Action::WideCompareExchange, 8, Operand::Nothing, rdi()),
            ("incl (%rdi)", true, Action::Add, 4, Operand::Immediate(1), rdi()),
            (
                "addl $0, -0x10(%rsp)",
                true,
                Action::Add,
                4,
                Operand::Immediate(0),
                registers(Some(4), None, 1, -16),
            ),
            (
                "movq %rbx, first+8(%rip)",
                false,
                Action::Store,
                8,
                Operand::Register(3),
                Memory { symbol: Some("first+8".to_string()), ..Memory::default() },
            ),
        ] {
            let expected = Instruction { action, size, operand, memory };
            assert_eq!(read(text, is_locked), Statement::Access(expected), "{text}");
        }
    }

    #[test]
    fn what_no_machine_has_is_unknown() {
        for (text, is_locked) in [
            ("addl $1, (%rdi)", false),
            ("cmpxchg16b (%rdi)", false),
            ("movb %ah, (%rdi)", false),
            ("xchgl %eax, word@GOTPCREL(%rip)", false),
            ("btsl $3, (%rdi)", false),
            ("movzbl (%rdi), %eax", false),
            ("1:", false),
            ("jne 1b", false),
            ("rep stosb", false),
            ("movsb", false),
            ("rdtsc", false),
        ] {
            assert_eq!(read(text, is_locked), Statement::Unknown, "{text}");
        }
        for text in [
            "",
            "setz %al",
            "sbbl %eax, %eax",
            "movl %eax, %ebx",
            "pause",
            ".p2align 4",
            "testb %al, %al",
            "NOP",
            "prefetchw 8(%rdi)",
            "prefetcht0 (%rdi,%rax,8)",
        ] {
            assert_eq!(read(text, false), Statement::Harmless, "{text}");
        }
    }
}
