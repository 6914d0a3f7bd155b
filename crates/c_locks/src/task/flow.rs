//! Which reads the registers and the stack of C code depend on: by its instructions, from one hook to the next.
//!
//!     call __tsan_atomic64_load     rax depends on this read
//!     mov  8(%rsp), %rax            so does the slot
//!     test %rax, %rax; je …         so does what happens from here on
//!     call __tsan_atomic64_store    rdi: its address; rsi: its value
//!
//! The code runs by itself, and only hooks are seen. So all ways from one hook to the next are followed, and a dependency counts
//! if it is there on each of them. Where they cannot be followed (a computed jump, a loop without accesses) nothing depends on
//! anything any more, but for what branches have decided already. So none is taken for one that is not there.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register, UsedMemory,
};
use machine::Dependencies;

use crate::instance::Instance;

/// Parts of the stack, of four bytes each, whose dependencies are known at a time.
const SLOTS: usize = 64;
/// Functions that a task is in at a time, at most.
const CALLS: usize = 24;
/// Instructions that are followed from one hook to the next.
const INSTRUCTIONS_MAX: usize = 3000;
/// The number of rsp.
const RSP: usize = 4;

/// Reads, by their numbers in their task.
type Reads = u128;

/// What is known at an instruction.
#[derive(Clone, Copy)]
struct Known {
    registers: [Reads; 16],
    vectors: [Reads; 16],
    flags: Reads,
    control: Reads,
    /// By address.
    slots: [(usize, Reads); SLOTS],
    /// Where calls return to: the place on the stack, and the address.
    returns: [(usize, usize); CALLS],
    depth: usize,
    stack: usize,
}

const NOTHING: Known = Known {
    registers: [0; 16],
    vectors: [0; 16],
    flags: 0,
    control: 0,
    slots: [(0, 0); SLOTS],
    returns: [(0, 0); CALLS],
    depth: 0,
    stack: 0,
};

/// What the code depends on where it has stopped.
#[derive(Clone, Copy)]
pub struct Flow {
    known: Known,
    /// Where it goes on.
    at: usize,
    /// What the instruction there reads from memory, and where on the stack, if it is there.
    access: Option<(Reads, Option<usize>)>,
    /// The read of the hook that is running, or of the one before it.
    pub result: Reads,
    /// As `result`, of an access that an instruction behind a later hook does.
    pub announced: Reads,
    /// What the hook's access depends on.
    pub next: Dependencies,
    /// What the write of the last instruction with a hook depends on.
    pub written: Dependencies,
}

impl Flow {
    /// At the start of a function.
    pub fn new(function: usize) -> Flow {
        let (next, written) = Default::default();
        Flow { known: NOTHING, at: function, access: None, result: 0, announced: 0, next, written }
    }

    /// The code has come to the hook that returns to this address, with its stack there.
    pub fn arrive(&mut self, instance: &Instance, to: usize, stack: usize, base: usize) {
        if self.known.stack == 0 {
            self.known.stack = base;
        }
        self.finish(instance);
        let found = Ways::new(instance, to, stack).all(self.at, self.known);
        self.known = found.unwrap_or_else(|| self.known.unsure());
        self.known.stack = stack;
        for slot in &mut self.known.slots {
            if slot.0 < stack {
                *slot = (0, 0);
            }
        }
        self.at = to;
        self.result = 0;
        self.next = Dependencies { control: self.known.control, ..Dependencies::default() };
    }

    /// Forgets all reads but these.
    pub fn keep(&mut self, open: Reads) {
        let Known { registers, vectors, flags, control, slots, .. } = &mut self.known;
        let fixed = registers.iter_mut().chain(vectors).chain([flags, control]);
        fixed.for_each(|reads| *reads &= open);
        for slot in slots {
            slot.1 &= open;
            if slot.1 == 0 {
                *slot = (0, 0);
            }
        }
        self.next.control &= open;
    }

    /// Does the instruction whose hook has run, if there is one.
    pub fn finish(&mut self, instance: &Instance) {
        let Some(access) = self.access.take() else { return };
        let mut factory = InstructionInfoFactory::new();
        let Some(instruction) = decoded(instance, self.at) else { return };
        let (address, data) = self.known.perform(&instruction, &mut factory, Some(access));
        let control = self.known.control;
        if access.1.is_none() {
            self.written = Dependencies { address, data, control, of_spinlock: false };
        }
        self.at = instruction.next_ip() as usize;
    }

    /// What a register depends on.
    pub fn register(&self, register: usize) -> Reads {
        self.known.registers[register]
    }

    pub fn set_register(&mut self, register: usize, reads: Reads) {
        self.known.registers[register] = reads;
    }

    pub fn set_flags(&mut self, reads: Reads) {
        self.known.flags = reads;
    }

    /// What these bytes of the stack depend on.
    pub fn slot(&self, address: usize, bytes: usize) -> Reads {
        self.known.slot(address, bytes)
    }

    pub fn set_slot(&mut self, address: usize, bytes: usize, reads: Reads) {
        self.known.set_slot(address, bytes, reads);
    }

    /// The call returns: registers that a function need not keep hold nothing, but for its result.
    pub fn leave_call(&mut self) {
        const KEPT: [usize; 7] = [3, 4, 5, 12, 13, 14, 15];
        for register in (0..16).filter(|register| !KEPT.contains(register)) {
            self.known.registers[register] = 0;
        }
        self.known.registers[0] = self.result;
        self.known.vectors = [0; 16];
        self.known.flags = 0;
    }

    /// The next instruction accesses memory: what it reads is that of the hook, or that of this place on the stack.
    pub fn leave_access(&mut self, own: Option<usize>) {
        self.access = Some((self.result, own));
    }

    /// The instruction at this address was done by its hook: the code goes on behind it.
    pub fn skip_to(&mut self, address: usize) {
        self.at = address;
        self.access = None;
    }

    /// A hash of what is known.
    pub fn hash(&self, mix: impl Fn(u64, u64) -> u64) -> u64 {
        let half = |hash: u64, reads: Reads| mix(mix(hash, reads as u64), (reads >> 64) as u64);
        let Known { registers, vectors, flags, control, slots, .. } = &self.known;
        let fixed = registers.iter().chain(vectors).chain([flags, control]);
        let hash = fixed.fold(0xF10E, |hash, reads| half(hash, *reads));
        let slots = slots.iter().filter(|(_, reads)| *reads != 0);
        slots.fold(hash, |sum, (address, reads)| sum.wrapping_add(half(*address as u64, *reads)))
    }
}

/// A place to which a loop may come back, found by Brent's algorithm: it is set anew after 1, 2, 4, … loads.
pub struct Head {
    state: u64,
    /// The accesses of the task up to there.
    pub accesses: u8,
    pub flow: Flow,
    loads: u32,
    loads_max: u32,
}

impl Head {
    pub fn new(flow: &Flow) -> Head {
        Head { state: 0, accesses: 0, flow: *flow, loads: 0, loads_max: 1 }
    }

    /// The task does more than read: what came before is no loop.
    pub fn leave(&mut self) {
        (self.loads, self.loads_max) = (0, 1);
    }

    /// Whether a task that is about to load in this state has come back.
    pub fn is_back(&mut self, state: u64, accesses: u8, flow: &Flow) -> bool {
        if self.loads > 0 && self.state == state {
            self.loads = 1;
            return true;
        }
        if self.loads == 0 || self.loads == self.loads_max {
            self.loads_max *= if self.loads == 0 { 1 } else { 2 };
            (self.state, self.accesses, self.flow, self.loads) = (state, accesses, *flow, 0);
        }
        self.loads += 1;
        false
    }
}

/// The instruction at an address.
fn decoded(instance: &Instance, at: usize) -> Option<Instruction> {
    let bytes = instance.text_at(at)?;
    let mut decoder = Decoder::with_ip(64, bytes, at as u64, DecoderOptions::NONE);
    Some(decoder.decode()).filter(|instruction| !instruction.is_invalid())
}

impl Known {
    /// Nothing, but for what has been decided.
    fn unsure(&self) -> Known {
        Known { control: self.control, ..NOTHING }
    }

    fn slot(&self, address: usize, bytes: usize) -> Reads {
        let end = address + bytes;
        let is_in = |&&(at, _): &&(usize, Reads)| at != 0 && at < end && address < at + 4;
        self.slots.iter().filter(is_in).fold(0, |all, (_, reads)| all | reads)
    }

    fn set_slot(&mut self, address: usize, bytes: usize, reads: Reads) {
        let mut at = address & !3;
        while at < address + bytes {
            let place = self.slots.iter_mut().find(|slot| slot.0 == at);
            if let Some(slot) = place {
                *slot = if reads == 0 { (0, 0) } else { (at, reads) };
            } else if let (true, Some(free)) =
                (reads != 0, self.slots.iter_mut().find(|slot| slot.0 == 0))
            {
                *free = (at, reads);
            }
            at += 4;
        }
    }

    /// What is known on both of two ways.
    fn both(&self, other: &Known) -> Known {
        let mut both = *self;
        let pairs = both.registers.iter_mut().zip(other.registers);
        pairs.chain(both.vectors.iter_mut().zip(other.vectors)).for_each(|(a, b)| *a &= b);
        both.flags &= other.flags;
        both.control &= other.control;
        for slot in &mut both.slots {
            slot.1 &= other.slot(slot.0, 4);
            if slot.1 == 0 {
                *slot = (0, 0);
            }
        }
        both
    }

    /// Where an operand lies on the stack.
    fn own(&self, memory: &UsedMemory) -> Option<usize> {
        let is_own = memory.base() == Register::RSP && memory.index() == Register::None;
        is_own.then(|| self.stack.wrapping_add(memory.displacement() as usize))
    }

    /// Does an instruction that is no jump and moves no stack. Returns what the address and the value of its access depend on.
    fn perform(
        &mut self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
        access: Option<(Reads, Option<usize>)>,
    ) -> (Reads, Reads) {
        let info = factory.info(instruction);
        let is_same = instruction.op_count() == 2
            && instruction.op0_kind() == OpKind::Register
            && instruction.op1_kind() == OpKind::Register
            && instruction.op0_register() == instruction.op1_register();
        use Mnemonic::{Pxor, Sub, Xor, Xorps};
        let is_zero = is_same && matches!(instruction.mnemonic(), Xor | Sub | Pxor | Xorps);
        let (mut address, mut sources) = (0, 0);
        for memory in info.used_memory() {
            for register in [memory.base(), memory.index()] {
                address |= self.of(register);
            }
        }
        let mut addressing: Vec<Register> = Vec::new();
        addressing.extend(info.used_memory().iter().flat_map(|m| [m.base(), m.index()]));
        for used in info.used_registers() {
            let register = used.register();
            let is_of_address =
                addressing.contains(&register) && !has_operand(instruction, register);
            if reads(used.access()) && !is_zero && !is_of_address {
                sources |= self.of(register);
            }
        }
        if instruction.rflags_read() != 0 {
            sources |= self.flags;
        }
        let data = sources;
        for memory in info.used_memory().iter().filter(|memory| reads(memory.access())) {
            let bytes = memory.memory_size().size();
            sources |= match (access, self.own(memory)) {
                (Some((_, Some(own))), _) | (None, Some(own)) => self.slot(own, bytes),
                (Some((read, None)), _) => read,
                (None, None) => 0,
            };
        }
        for memory in info.used_memory().iter().filter(|memory| writes(memory.access())) {
            let bytes = memory.memory_size().size();
            match (access, self.own(memory)) {
                (Some((_, Some(own))), _) | (None, Some(own)) => self.set_slot(own, bytes, sources),
                (Some((_, None)), _) => {}
                // Somewhere on the stack.
                (None, None) => self.slots = [(0, 0); SLOTS],
            }
        }
        for used in info.used_registers() {
            if writes(used.access()) {
                self.set(used.register(), sources);
            }
        }
        if instruction.rflags_modified() != 0 {
            self.flags = sources;
        }
        (address, data)
    }

    fn of(&self, register: Register) -> Reads {
        let full = register.full_register();
        match full {
            Register::RSP | Register::None => 0,
            _ if full.is_gpr64() => self.registers[full.number()],
            _ if full.is_vector_register() => self.vectors[full.number() % 16],
            _ => 0,
        }
    }

    fn set(&mut self, register: Register, reads: Reads) {
        let full = register.full_register();
        if full.is_gpr64() && full.number() != RSP {
            self.registers[full.number()] = reads;
        } else if full.is_vector_register() {
            self.vectors[full.number() % 16] = reads;
        }
    }
}

/// Whether a register is an operand itself, not only a part of an address.
fn has_operand(instruction: &Instruction, register: Register) -> bool {
    (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).full_register() == register.full_register()
    }) || instruction.mnemonic() == Mnemonic::Lea
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// All ways from an instruction to a hook.
struct Ways<'a> {
    instance: &'a Instance,
    to: usize,
    stack: usize,
    factory: InstructionInfoFactory,
    left: usize,
    is_unsure: bool,
    found: Option<Known>,
}

/// A step on a way.
enum Step {
    Next(usize),
    Both(usize, usize),
    /// The hook is called here.
    Arrived,
    /// The way does not lead there.
    Ended,
}

impl<'a> Ways<'a> {
    fn new(instance: &'a Instance, to: usize, stack: usize) -> Ways<'a> {
        let factory = InstructionInfoFactory::new();
        let (left, is_unsure, found) = (INSTRUCTIONS_MAX, false, None);
        Ways { instance, to, stack, factory, left, is_unsure, found }
    }

    /// What is known at the hook by all ways. `None`: nothing is.
    fn all(mut self, from: usize, known: Known) -> Option<Known> {
        let mut open = vec![(from, known, Vec::new())];
        while let Some((mut at, mut known, mut passed)) = open.pop() {
            while self.left > 0 {
                self.left -= 1;
                match self.step(at, &mut known) {
                    Step::Next(next) => at = next,
                    Step::Both(next, other) => {
                        if passed.contains(&at) {
                            self.is_unsure = true;
                            break;
                        }
                        passed.push(at);
                        open.push((other, known, passed.clone()));
                        at = next;
                    }
                    Step::Arrived => {
                        self.arrive(known);
                        break;
                    }
                    Step::Ended => break,
                }
            }
        }
        let is_sure = self.left > 0 && !self.is_unsure;
        self.found.filter(|_| is_sure)
    }

    /// A way has come to the hook: if the stack is as it is there, it may be the one that was taken.
    fn arrive(&mut self, known: Known) {
        let is_real = |&(place, address): &(usize, usize)| {
            // SAFETY: on the live part of the task's stack.
            place >= self.stack && unsafe { *(place as *const usize) } == address
        };
        if known.stack == self.stack && known.returns[..known.depth].iter().all(is_real) {
            self.found = Some(self.found.map_or(known, |found| found.both(&known)));
        }
    }

    fn step(&mut self, at: usize, known: &mut Known) -> Step {
        let Some(instruction) = decoded(self.instance, at) else { return Step::Ended };
        let next = instruction.next_ip() as usize;
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => {
                known.control |= known.flags;
                return Step::Both(next, instruction.near_branch_target() as usize);
            }
            FlowControl::UnconditionalBranch => {
                return self.goes_to(instruction.near_branch_target() as usize, known);
            }
            FlowControl::Call => return self.calls(&instruction, known),
            FlowControl::IndirectCall => return self.calls(&instruction, known),
            FlowControl::Return => return Ways::returns(known),
            FlowControl::IndirectBranch => {
                self.is_unsure = true;
                return Step::Ended;
            }
            FlowControl::Next => {}
            _ => return Step::Ended,
        }
        if !self.moves_stack(&instruction, known) {
            known.perform(&instruction, &mut self.factory, None);
        }
        Step::Next(next)
    }

    /// A jump: to other code, or a hook as the last call of a function.
    fn goes_to(&mut self, target: usize, known: &mut Known) -> Step {
        if self.instance.text_at(target).is_some() {
            return Step::Next(target);
        }
        let last = known.depth.checked_sub(1).map(|last| known.returns[last].1);
        if last != Some(self.to) {
            return Step::Ended;
        }
        known.depth -= 1;
        known.stack += 8;
        Step::Arrived
    }

    fn calls(&mut self, instruction: &Instruction, known: &mut Known) -> Step {
        let next = instruction.next_ip() as usize;
        let is_by_slot = instruction.is_ip_rel_memory_operand();
        let target = if is_by_slot {
            let slot = instruction.ip_rel_memory_address() as usize;
            if !self.instance.is_constant(slot) {
                return Step::Ended;
            }
            // SAFETY: a slot of the program, with an address.
            unsafe { *(slot as *const usize) }
        } else {
            instruction.near_branch_target() as usize
        };
        if self.instance.text_at(target).is_none() {
            return if next == self.to { Step::Arrived } else { Step::Ended };
        }
        if known.depth == CALLS {
            self.is_unsure = true;
            return Step::Ended;
        }
        known.stack -= 8;
        known.returns[known.depth] = (known.stack, next);
        known.depth += 1;
        Step::Next(target)
    }

    fn returns(known: &mut Known) -> Step {
        let Some(last) = known.depth.checked_sub(1) else { return Step::Ended };
        known.depth = last;
        known.stack += 8;
        Step::Next(known.returns[last].1)
    }

    /// Does an instruction that moves the stack pointer.
    fn moves_stack(&mut self, instruction: &Instruction, known: &mut Known) -> bool {
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let reads = match instruction.op0_kind() {
                    OpKind::Register => known.of(instruction.op0_register()),
                    _ => 0,
                };
                known.stack -= 8;
                known.set_slot(known.stack, 8, reads);
                true
            }
            Mnemonic::Pop => {
                let reads = known.slot(known.stack, 8);
                known.set(instruction.op0_register(), reads);
                known.stack += 8;
                true
            }
            _ if instruction.op_count() > 0
                && instruction.op0_kind() == OpKind::Register
                && instruction.op0_register() == Register::RSP =>
            {
                self.adds_to_stack(instruction, known)
            }
            _ => false,
        }
    }

    fn adds_to_stack(&mut self, instruction: &Instruction, known: &mut Known) -> bool {
        let by = match (instruction.mnemonic(), instruction.code()) {
            (Mnemonic::Add, _) if instruction.op1_kind() != OpKind::Register => {
                instruction.immediate(1) as usize
            }
            (Mnemonic::Sub, _) if instruction.op1_kind() != OpKind::Register => {
                (instruction.immediate(1) as usize).wrapping_neg()
            }
            (_, Code::Lea_r64_m) if instruction.memory_base() == Register::RSP => {
                instruction.memory_displacement64() as usize
            }
            (Mnemonic::Cmp | Mnemonic::Test, _) => return false,
            _ => {
                self.is_unsure = true;
                0
            }
        };
        known.stack = known.stack.wrapping_add(by);
        known.flags = 0;
        true
    }
}
