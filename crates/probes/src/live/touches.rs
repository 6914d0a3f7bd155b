//! What an instruction accesses: its address in memory follows from the code and from the registers of a sample. It needs
//! no performance counter, which virtual machines lack.
//!
//! The clock of a sample interrupts between instructions: one that waits for a cache line has ended by then, so that the
//! instruction before the sample is the one that took the time. Where that one accesses nothing, the next one does.

use records::live::Touch;

use super::user_registers::REGISTERS;

/// Code that is read before and behind a sample.
pub const CODE_BYTES: usize = 64;

/// The accesses of the instruction before `at` in this code, or of the one there. Registers are those of struct pt_regs.
#[cfg(target_arch = "x86_64")]
pub fn touches(code: &[u8], at: usize, registers: &[u64; REGISTERS]) -> Vec<Touch> {
    let ip = registers[16];
    let before = instruction_before(code, at, ip);
    let of_before = before.map(|instruction| accesses(&instruction, registers)).unwrap_or_default();
    if !of_before.is_empty() {
        return of_before;
    }
    let mut decoder = Decoder::with_ip(64, &code[at..], ip, DecoderOptions::NONE);
    let next = decoder.decode();
    if next.is_invalid() { Vec::new() } else { accesses(&next, registers) }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn touches(_code: &[u8], _at: usize, _registers: &[u64; REGISTERS]) -> Vec<Touch> {
    Vec::new()
}

#[cfg(target_arch = "x86_64")]
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register};

/// The instruction that ends at `at`. Code of x86 cannot be read backwards: it is read forwards from several places
/// before, most of which fall into step within some instructions, and the majority counts.
#[cfg(target_arch = "x86_64")]
fn instruction_before(code: &[u8], at: usize, ip: u64) -> Option<Instruction> {
    const PLACES: usize = 16;
    let mut found: Vec<(Instruction, usize)> = Vec::new();
    for start in 0..PLACES.min(at) {
        let from = ip.wrapping_sub((at - start) as u64);
        let decoder = Decoder::with_ip(64, &code[start..at], from, DecoderOptions::NONE);
        let Some(last) = decoder.into_iter().last() else { continue };
        if last.is_invalid() || last.next_ip() != ip {
            continue;
        }
        match found.iter_mut().find(|(known, _)| known.ip() == last.ip()) {
            Some((_, times)) => *times += 1,
            None => found.push((last, 1)),
        }
    }
    found.into_iter().max_by_key(|(_, times)| *times).map(|(instruction, _)| instruction)
}

#[cfg(target_arch = "x86_64")]
fn accesses(instruction: &Instruction, registers: &[u64; REGISTERS]) -> Vec<Touch> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    // An address is not known any more if the instruction has changed a register of it.
    let changed: Vec<Register> = info
        .used_registers()
        .iter()
        .filter(|used| is_write(used.access()))
        .map(|used| used.register().full_register())
        .collect();
    let is_stack = |register: Register| register == Register::RSP;
    let accesses = info.used_memory().iter().filter(|used| {
        let (base, index) = (used.base(), used.index());
        !is_stack(base)
            && used.segment() != Register::FS
            && !changed.contains(&base.full_register())
            && !changed.contains(&index.full_register())
    });
    let touch = |used: &iced_x86::UsedMemory| {
        let address = used.virtual_address(0, |register, _, _| match register {
            Register::DS | Register::ES | Register::SS | Register::CS | Register::GS => Some(0),
            register => value(register, registers),
        })?;
        Some(Touch { address, is_write: is_write(used.access()) })
    };
    accesses.filter_map(touch).collect()
}

#[cfg(target_arch = "x86_64")]
fn is_write(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// The value of a register: arch/x86/include/asm/ptrace.h has their order.
#[cfg(target_arch = "x86_64")]
fn value(register: Register, registers: &[u64; REGISTERS]) -> Option<u64> {
    const ORDER: [Register; 15] = [
        Register::R15,
        Register::R14,
        Register::R13,
        Register::R12,
        Register::RBP,
        Register::RBX,
        Register::R11,
        Register::R10,
        Register::R9,
        Register::R8,
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RSI,
        Register::RDI,
    ];
    let whole = register.full_register();
    let at = ORDER.iter().position(|known| *known == whole)?;
    Some(if register.is_gpr32() { registers[at] & 0xffff_ffff } else { registers[at] })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_before_a_sample_is_the_one_that_waited() {
        let mut registers = [0; REGISTERS];
        registers[10] = 0x1000;
        registers[5] = 0x2000;
        registers[16] = 0x40_0040;
        let check = |before: &[u8], next: &[u8], expected: &[(u64, bool)]| {
            let mut code = vec![0x90; 2 * CODE_BYTES];
            code[CODE_BYTES - before.len()..CODE_BYTES].copy_from_slice(before);
            code[CODE_BYTES..CODE_BYTES + next.len()].copy_from_slice(next);
            let found = touches(&code, CODE_BYTES, &registers);
            let found: Vec<(u64, bool)> = found.iter().map(|t| (t.address, t.is_write)).collect();
            assert_eq!(found, expected, "{before:x?} {next:x?}");
        };
        // lock incq 8(%rax); nop
        check(&[0xf0, 0x48, 0xff, 0x40, 0x08], &[0x90], &[(0x1008, true)]);
        // nop; mov (%rbx),%rcx
        check(&[], &[0x48, 0x8b, 0x0b], &[(0x2000, false)]);
        // mov (%rax),%rax: where it was read is not known any more
        check(&[0x48, 0x8b, 0x00], &[0x90], &[]);
        // addq $1,8(%rsp): the thread's own stack
        check(&[0x48, 0x83, 0x44, 0x24, 0x08, 0x01], &[0x90], &[]);
        // incl 0x100(%rip)
        check(&[0xff, 0x05, 0x00, 0x01, 0x00, 0x00], &[0x90], &[(0x40_0140, true)]);
    }
}
