//! What the compiled code accesses, read from its instructions. `assembly` puts a call before each of the compiler's that may
//! access memory which others see; what it accesses is told here by a decoder. An instruction that has no such
//! call and needs one is refused, and so is one that gives another result each time: no access escapes, whatever
//! the compiler makes of memcpy, of a structure that is assigned, or of a loop.
//!
//!     call knee_access           16 bytes are read where rax points
//!     movdqu (%rax), %xmm0

use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register, UsedMemory,
};

use crate::locals::{Frames, Local};
use crate::x86::Memory;

/// The function whose call stands before an instruction that may access shared memory.
pub const FUNCTION: &str = "knee_access";

/// Bytes of its call.
const CALL_BYTES: usize = 5;

/// Does nothing, in as many bytes.
pub const NOTHING: [u8; CALL_BYTES] = [0x0F, 0x1F, 0x44, 0, 0];

/// What an instruction does with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub kind: AccessKind,
    /// Bytes that it accesses; a string instruction, in one element.
    pub bytes: usize,
    /// Bytes of the instruction itself.
    pub length: usize,
    /// The name of the local variable that it is known to access.
    pub local: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessKind {
    Reads(Memory),
    Writes(Memory),
    ReadsAndWrites(Memory),
    /// `movs`, `stos`: from rsi or rax to rdi, once, or as often as rcx says.
    Moves {
        repeated: bool,
    },
    Fills {
        repeated: bool,
    },
}

/// The compiled code, where it is to run.
pub struct Code<'a> {
    pub bytes: &'a [u8],
    /// Where it lies.
    pub start: usize,
    /// The parts of it that are instructions.
    pub text: &'a [Range<usize>],
    /// Where [`FUNCTION`] lies.
    pub function: Option<usize>,
    /// The code, its constants, and slots with addresses: who reads there reads what never changes.
    pub constant: Range<usize>,
    /// Local variables that other tasks may use, with the frames that they are in.
    pub locals: &'a [Local],
    pub frames: Frames,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Decoded {
    /// By the offset of the instruction.
    pub accesses: Vec<(usize, Access)>,
    /// The offsets of calls that stand before an instruction that needs none.
    pub unneeded: Vec<usize>,
    /// The offsets of instructions that cannot be searched, and why.
    pub refused: Vec<(usize, String)>,
}

impl Code<'_> {
    pub fn decode(&self) -> Decoded {
        let mut decoded = Decoded::default();
        let mut factory = InstructionInfoFactory::new();
        for range in self.text {
            let bytes = &self.bytes[range.clone()];
            let begin = (self.start + range.start) as u64;
            let mut called_at = None;
            for instruction in Decoder::with_ip(64, bytes, begin, DecoderOptions::NONE) {
                let at = instruction.ip() as usize - self.start;
                if self.function.is_some_and(|it| instruction.near_branch_target() == it as u64) {
                    called_at = Some(at);
                    continue;
                }
                let found = self.access(&instruction, &mut factory);
                match (found, called_at.take()) {
                    (Ok(Some(access)), Some(_)) => decoded.accesses.push((at, access)),
                    (Ok(None), Some(call)) => decoded.unneeded.push(call),
                    (Ok(None), None) => {}
                    (Ok(Some(_)), None) => {
                        let why = format!("{} accesses memory unseen", name(&instruction));
                        decoded.refused.push((at, why));
                    }
                    (Err(why), _) => decoded.refused.push((at, why)),
                }
            }
        }
        decoded
    }

    /// What an instruction does with memory that others may see.
    fn access(
        &self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Result<Option<Access>, String> {
        if instruction.is_invalid() {
            return Err("bytes that are no instruction".to_string());
        }
        if let Some(why) = refused(instruction) {
            return Err(format!("{} {why}", name(instruction)));
        }
        let used = factory.info(instruction).used_memory();
        let length = instruction.len();
        if let Some((kind, bytes)) = string_access(instruction) {
            return Ok(Some(Access { kind, bytes, length, local: None }));
        }
        let at = instruction.ip() as usize - self.start;
        let mut shared = used.iter().filter(|memory| !self.is_own(memory, at));
        let Some(memory) = shared.next() else { return Ok(None) };
        let unknown =
            || format!("{} accesses memory in a way that no search has", name(instruction));
        if instruction.has_rep_prefix() || instruction.has_repne_prefix() {
            return Err(unknown());
        }
        let bytes = memory.memory_size().size();
        let address = address(memory).filter(|_| shared.next().is_none() && bytes > 0);
        let address = address.ok_or_else(unknown)?;
        let kind = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => AccessKind::Reads(address),
            OpAccess::Write => AccessKind::Writes(address),
            OpAccess::ReadWrite => AccessKind::ReadsAndWrites(address),
            _ => return Err(unknown()),
        };
        let local = self.local(memory, at).map(|(local, offset)| local.part(offset));
        Ok(Some(Access { kind, bytes, length, local }))
    }

    /// The local variable that the instruction at this offset accesses, and where in it.
    fn local(&self, memory: &UsedMemory, at: usize) -> Option<(&Local, usize)> {
        if self.locals.is_empty() || memory.base() == Register::None {
            return None;
        }
        let (register, distance) = self.frames.at(at)?;
        let from_frame = memory.displacement() as i64 - distance;
        let is_it = |local: &&Local| {
            let end = local.offset + local.size as i64;
            local.function.contains(&at) && (local.offset..end).contains(&from_frame)
        };
        let local = self.locals.iter().find(is_it).filter(|_| register == memory.base())?;
        Some((local, (from_frame - local.offset) as usize))
    }

    /// Whether it is the stack of the function itself, a constant, or not accessed at all.
    fn is_own(&self, memory: &UsedMemory, at: usize) -> bool {
        let is_constant = memory.base() == Register::None
            && memory.index() == Register::None
            && memory.access() == OpAccess::Read
            && self.constant.contains(&(memory.displacement() as usize));
        let is_stack = memory.base() == Register::RSP
            && memory.segment() == Register::SS
            && self.local(memory, at).is_none();
        is_stack || is_constant || memory.access() == OpAccess::NoMemAccess
    }
}

/// Why no search can have this instruction.
fn refused(instruction: &Instruction) -> Option<&'static str> {
    use Mnemonic as M;
    const DIFFERS: &str = "gives another result each time, and a search repeats its steps";
    const UNORDERED: &str = "orders memory in a way that the search does not know";
    const SYSTEM: &str = "is an instruction of the system, which a search cannot repeat";
    Some(match instruction.mnemonic() {
        M::Rdtsc
        | M::Rdtscp
        | M::Rdrand
        | M::Rdseed
        | M::Cpuid
        | M::Rdpid
        | M::Rdpmc
        | M::Xgetbv => DIFFERS,
        M::Mfence | M::Lfence | M::Sfence | M::Clflush | M::Clflushopt | M::Clwb | M::Clzero => {
            UNORDERED
        }
        M::Movnti | M::Movntdq | M::Movntps | M::Movntpd | M::Movntq | M::Movntdqa | M::Movdiri => {
            UNORDERED
        }
        M::Maskmovq | M::Maskmovdqu | M::Xbegin | M::Xend | M::Xabort | M::Xtest => UNORDERED,
        M::Syscall | M::Sysenter | M::Int | M::Int1 | M::Int3 | M::Into => SYSTEM,
        M::Rdfsbase
        | M::Rdgsbase
        | M::Wrfsbase
        | M::Wrgsbase
        | M::Lsl
        | M::Lar
        | M::Sgdt
        | M::Sidt => SYSTEM,
        M::Sldt | M::Str | M::Smsw | M::Umwait | M::Umonitor | M::Tpause => SYSTEM,
        _ if instruction.is_privileged() => SYSTEM,
        M::Xchg if (0..2).any(|operand| instruction.op_kind(operand) == OpKind::Memory) => {
            UNORDERED
        }
        _ if instruction.has_lock_prefix() => UNORDERED,
        _ if instruction.is_save_restore_instruction() => SYSTEM,
        _ => return None,
    })
}

/// `movs` or `stos`, and the bytes of an element.
fn string_access(instruction: &Instruction) -> Option<(AccessKind, usize)> {
    let repeated = instruction.has_rep_prefix();
    let kind = match (instruction.op0_kind(), instruction.op1_kind()) {
        (OpKind::MemoryESRDI, OpKind::MemorySegRSI) => AccessKind::Moves { repeated },
        (OpKind::MemoryESRDI, OpKind::Register) => AccessKind::Fills { repeated },
        _ => return None,
    };
    use Mnemonic as M;
    let is_known = matches!(
        instruction.mnemonic(),
        M::Movsb | M::Movsw | M::Movsd | M::Movsq | M::Stosb | M::Stosw | M::Stosd | M::Stosq
    );
    is_known.then(|| (kind, instruction.memory_size().size()))
}

/// The address, if whole registers make it.
fn address(memory: &UsedMemory) -> Option<Memory> {
    let register = |register: Register| match register {
        Register::None => Some(None),
        register => register.is_gpr64().then(|| Some(register.number())),
    };
    let is_of_thread = matches!(memory.segment(), Register::FS | Register::GS);
    Some(Memory {
        symbol: None,
        base: register(memory.base())?,
        index: register(memory.index())?,
        scale: u64::from(memory.scale()),
        displacement: memory.displacement() as i64,
    })
    .filter(|_| !is_of_thread)
}

fn name(instruction: &Instruction) -> String {
    format!("{:?}", instruction.mnemonic()).to_lowercase()
}
