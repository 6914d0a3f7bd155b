//! The registers of a thread in its program.

/// The registers that walking a stack needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRegisters {
    pub ip: u64,
    pub sp: u64,
    /// The frame pointer, if the function keeps one.
    pub bp: u64,
    /// Where the innermost function returns to, on architectures that have it in a register.
    pub link: u64,
}

/// General registers of x86-64 in the order of struct pt_regs, with the instruction pointer; zeros elsewhere.
pub const REGISTERS: usize = 17;
