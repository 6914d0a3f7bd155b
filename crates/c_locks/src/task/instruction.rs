//! An instruction of inline assembly, done by the machine: it reads and changes the registers that were saved.

use machine::{Machine, Op, Ordering};

use super::Task;
use super::access::{Place, ones, read, write};
use super::futex::{FutexEnd, SystemCall};
use crate::entry::InstructionFrame;
use crate::x86::{Action, Instruction, Memory, Operand};

/// The numbers of registers.
const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;
const RSI: usize = 6;
const RDI: usize = 7;
const R8: usize = 8;
const R9: usize = 9;
const R10: usize = 10;
pub const R11: usize = 11;
pub const RSP: usize = 4;

/// Bits of the flags: the result is zero, or negative.
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
/// The bit of the flags that tells a bit's former value.
const CARRY: u64 = 1;

/// Memory orders as C has them.
const RELEASE: u64 = 3;
const SEQ_CST: u64 = 5;

impl<M: Machine> Task<'_, M> {
    pub(super) fn instruction(&self, number: usize, frame: &mut InstructionFrame, state: u64) {
        let instruction = &self.instance.program.instructions[number];
        if let Action::Fence(ordering) = instruction.action {
            self.forget(state);
            self.ends_wait();
            return self.m.fence(ordering);
        }
        if instruction.action == Action::SystemCall {
            let [number, address, operation, value, timeout, other, last] =
                [RAX, RDI, RSI, RDX, R10, R8, R9].map(|register| frame.registers[register]);
            let call = SystemCall { number, address, operation, value, timeout };
            let end = || FutexEnd { other, last: last as u32 };
            let result = self.system_call(call, end, state);
            frame.registers[RAX] = result.unwrap_or_else(|error| -i64::from(error) as u64);
            return;
        }
        let registers = address(&instruction.memory, &frame.registers);
        let address = registers.wrapping_add(self.instance.symbol(number));
        if instruction.action == Action::WideCompareExchange {
            return self.wide_compare_exchange(address, frame, state);
        }
        let mut place = Place { address, size: instruction.size };
        let given = match instruction.operand {
            Operand::Register(register) => frame.registers[register],
            Operand::Immediate(value) => value as u64,
            Operand::Nothing => 0,
        } & ones(place.size);
        let is_bit = instruction.action.is_of_bit();
        let bit = if is_bit { numbered_bit(instruction, given, &mut place.address) } else { 0 };
        let expected = frame.registers[RAX] & ones(place.size);
        let op = match instruction.action {
            Action::Load | Action::Fence(_) | Action::SystemCall | Action::WideCompareExchange => {
                Op::Load
            }
            Action::Store => Op::Store(given),
            Action::Exchange => Op::Swap(given),
            Action::ExchangeAdd | Action::Add => Op::Add(given),
            Action::Sub => Op::Add(given.wrapping_neg()),
            Action::And => Op::And(given),
            Action::Or => Op::Or(given),
            Action::Xor => Op::Xor(given),
            Action::SetBit => Op::Or(bit),
            Action::ClearBit => Op::And(!bit & ones(place.size)),
            Action::FlipBit => Op::Xor(bit),
            Action::CompareExchange => Op::CompareExchange(expected, given),
        };
        self.depends_by_instruction(instruction);
        let old = self.access(place, op, state);
        self.flows_from_instruction(instruction);
        if is_bit {
            frame.flags &= !CARRY;
            frame.flags |= if old & bit != 0 { CARRY } else { 0 };
            return;
        }
        self.finish(instruction, frame, op, old);
    }

    fn wide_compare_exchange(&self, address: usize, frame: &mut InstructionFrame, state: u64) {
        let halves = [address, address + 8].map(|address| Place { address, size: 8 });
        self.begin_wide(address, state);
        let old = halves.map(|half| self.wide_half(half));
        let is_equal = old == [RAX, RDX].map(|register| frame.registers[register]);
        if is_equal {
            let new = [RBX, RCX].map(|register| frame.registers[register]);
            halves.into_iter().zip(new).for_each(|(half, new)| self.set_wide_half(half, new));
        }
        [frame.registers[RAX], frame.registers[RDX]] = old;
        frame.flags = frame.flags & !ZERO | if is_equal { ZERO } else { 0 };
        self.end_wide(state);
    }

    /// Does the access in the order of x86; on the task's own stack, without the machine.
    fn access(&self, place: Place, op: Op<u64>, state: u64) -> u64 {
        let writes = !matches!(op, Op::Load);
        if self.is_own(place.address, place.size.into(), writes) {
            // SAFETY: the task's own stack, or a constant that is only read.
            let old = unsafe { read(place.address, place.size) };
            if let Some(new) = op.written(old, place.size) {
                // SAFETY: as above.
                unsafe { write(place.address, place.size, new) };
            }
            // `lock addl $0, (%rsp)` is a full barrier.
            if !matches!(op, Op::Load | Op::Store(_)) {
                self.forget(state);
                self.ends_wait();
                self.m.fence(Ordering::SeqCst);
            }
            return old;
        }
        match op {
            Op::Load => self.load(place, Ordering::Acquire, state),
            Op::Store(_) => self.modify(place, op, RELEASE, state),
            _ => self.modify(place, op, SEQ_CST, state),
        }
    }

    /// Sets the registers and the flags that the instruction changes: of the flags zero and sign alone.
    fn finish(
        &self,
        instruction: &Instruction,
        frame: &mut InstructionFrame,
        op: Op<u64>,
        old: u64,
    ) {
        let size = instruction.size;
        let registers = &mut frame.registers;
        match (instruction.action, instruction.operand) {
            (Action::Load | Action::Exchange, Operand::Register(register)) => {
                return set(&mut registers[register], size, old);
            }
            (Action::Store | Action::Exchange | Action::Load, _) => return,
            (Action::ExchangeAdd, Operand::Register(register)) => {
                set(&mut registers[register], size, old);
            }
            (Action::CompareExchange, _) if old != registers[RAX] & ones(size) => {
                set(&mut registers[RAX], size, old);
                frame.flags &= !ZERO;
                return;
            }
            _ => {}
        }
        // A compare-exchange that succeeds has compared equal values.
        let result = match op {
            Op::CompareExchange(..) => 0,
            op => op.written(old, size).unwrap_or(old),
        };
        let is_negative = result >> (8 * u32::from(size) - 1) & 1 != 0;
        frame.flags &= !(ZERO | SIGN);
        frame.flags |= if result == 0 { ZERO } else { 0 } | if is_negative { SIGN } else { 0 };
    }
}

/// The bit of a word that an instruction sets, clears or flips. A number in a register counts from the address, which becomes
/// that of the word with the bit.
fn numbered_bit(instruction: &Instruction, given: u64, address: &mut usize) -> u64 {
    let bits = 8 * u32::from(instruction.size);
    if matches!(instruction.operand, Operand::Register(_)) {
        let number = (given << (64 - bits)) as i64 >> (64 - bits);
        let words = number.div_euclid(i64::from(bits));
        *address =
            address.wrapping_add_signed(words as isize * isize::from(instruction.size as i8));
    }
    1 << (given % u64::from(bits))
}

pub fn address(memory: &Memory, registers: &[u64; 16]) -> usize {
    let register = |register: Option<usize>| register.map_or(0, |register| registers[register]);
    let index = register(memory.index).wrapping_mul(memory.scale);
    let sum = register(memory.base).wrapping_add(index);
    sum.wrapping_add(memory.displacement as u64) as usize
}

/// Writes a register as x86 does: four bytes clear those above, one or two leave them.
fn set(register: &mut u64, size: u8, value: u64) {
    *register = match size {
        4 | 8 => value & ones(size),
        _ => *register & !ones(size) | value & ones(size),
    };
}
