//! The way into C code and out of it. Registers that a function must keep are cleared on the way in and pushed on the way
//! out: then they and the stack between are all that the C code knows.
//!
//!     Rust ─enter─> C ─stub, hook number in rax─> hooked ─> Rust
//!             base ┘                                 └ frame
//!
//! Unused stack is cleared, so that equal states of a task are equal in their padding too.

/// What the way out leaves on the stack, from its lowest address.
#[repr(C)]
pub struct Frame {
    /// The number of the hook.
    pub hook: u64,
    /// r15, r14, r13, r12, rbp, rbx.
    pub registers: [u64; 6],
    pub return_address: u64,
}

/// What a call that stands for an instruction leaves on the stack, from its lowest address.
#[repr(C)]
#[derive(Debug)]
pub struct InstructionFrame {
    /// In the order of their numbers: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15. That of rsp is not the caller's.
    pub registers: [u64; 16],
    pub flags: u64,
    /// The number of the hook.
    pub hook: u64,
    pub return_address: u64,
}

#[cfg(target_arch = "x86_64")]
unsafe extern "C-unwind" {
    /// Calls a C function with one argument. Stores the address at which its stack begins.
    pub fn knee_c_enter(function: usize, argument: usize, base: *mut usize) -> u64;
    /// Where the stubs of hooks jump to.
    pub fn knee_c_hooked();
    /// Where the stubs of instructions jump to, with the number of the hook on the stack. All registers but the flags stay
    /// as they are, unless the instruction changes them.
    pub fn knee_c_instruction();
}

#[cfg(not(target_arch = "x86_64"))]
pub use elsewhere::{knee_c_enter, knee_c_hooked, knee_c_instruction};

/// Where there is no way into C code yet, `compile` refuses every lock, and nothing calls these.
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    pub unsafe fn knee_c_enter(_function: usize, _argument: usize, _base: *mut usize) -> u64 {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub fn knee_c_hooked() {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub fn knee_c_instruction() {
        unreachable!("no lock in C is compiled on this architecture")
    }
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".macro knee_push_registers",
    ".irp register, rbx, rbp, r12, r13, r14, r15",
    "push \\register",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset \\register, 0",
    ".endr",
    ".endm",
    ".macro knee_pop_registers",
    ".irp register, r15, r14, r13, r12, rbp, rbx",
    "pop \\register",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore \\register",
    ".endr",
    ".endm",
    // Registers that a call may change and that nothing needs: what others left there is no part of the task's state.
    ".macro knee_clear_scratch",
    ".irp register, ecx, edx, esi, r9d, r10d, r11d",
    "xor \\register, \\register",
    ".endr",
    ".endm",
    ".text",
    ".p2align 4",
    ".globl knee_c_enter",
    ".type knee_c_enter, @function",
    "knee_c_enter:",
    ".cfi_startproc",
    "knee_push_registers",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "mov [rdx], rsp",
    "mov r8, rdi",
    "lea rdi, [rsp - 2048]",
    "mov ecx, 256",
    "xor eax, eax",
    "rep stosq",
    "mov rdi, rsi",
    "knee_clear_scratch",
    "xor ebx, ebx",
    "xor ebp, ebp",
    "xor r12d, r12d",
    "xor r13d, r13d",
    "xor r14d, r14d",
    "xor r15d, r15d",
    "call r8",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "knee_pop_registers",
    "ret",
    ".cfi_endproc",
    ".size knee_c_enter, . - knee_c_enter",
    ".p2align 4",
    ".globl knee_c_hooked",
    ".type knee_c_hooked, @function",
    "knee_c_hooked:",
    ".cfi_startproc",
    "knee_push_registers",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "mov r9, rsp",
    "call knee_c_called",
    "mov rdx, rax",
    "lea rdi, [rsp - 2048]",
    "mov ecx, 256",
    "xor eax, eax",
    "rep stosq",
    "mov rax, rdx",
    "xor edi, edi",
    "xor r8d, r8d",
    "knee_clear_scratch",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "knee_pop_registers",
    "ret",
    ".cfi_endproc",
    ".size knee_c_hooked, . - knee_c_hooked",
    ".p2align 4",
    ".globl knee_c_instruction",
    ".type knee_c_instruction, @function",
    "knee_c_instruction:",
    ".cfi_startproc",
    ".cfi_def_cfa_offset 16",
    "pushfq",
    ".cfi_adjust_cfa_offset 8",
    ".irp register, r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rsp, rbx, rdx, rcx, rax",
    "push \\register",
    ".cfi_adjust_cfa_offset 8",
    ".endr",
    ".cfi_rel_offset rbx, 24",
    ".cfi_rel_offset rbp, 40",
    ".cfi_rel_offset r12, 96",
    ".cfi_rel_offset r13, 104",
    ".cfi_rel_offset r14, 112",
    ".cfi_rel_offset r15, 120",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    // The code around is not prepared for a call: the stack may be unaligned, vector registers may be in use.
    "sub rsp, 512",
    "and rsp, -16",
    "fxsave64 [rsp]",
    "mov rdi, rbp",
    "call knee_c_instructed",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    ".cfi_def_cfa_register rsp",
    "lea rdi, [rsp - 2048]",
    "mov ecx, 256",
    "xor eax, eax",
    "rep stosq",
    ".irp register, rax, rcx, rdx, rbx",
    "pop \\register",
    ".cfi_adjust_cfa_offset -8",
    ".endr",
    "lea rsp, [rsp + 8]",
    ".cfi_adjust_cfa_offset -8",
    ".irp register, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15",
    "pop \\register",
    ".cfi_adjust_cfa_offset -8",
    ".endr",
    "popfq",
    ".cfi_adjust_cfa_offset -8",
    "lea rsp, [rsp + 8]",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size knee_c_instruction, . - knee_c_instruction",
);
