//! The way into C code and out of it. Registers that a function must keep are cleared on the way in and pushed on the way
//! out: then they and the stack between are all that the C code knows.
//!
//!     Rust ─enter─> C ─stub, hook number in rax─> hooked ─> Rust
//!             base ┘                                 └ frame
//!
//! Unused stack is cleared, so that equal states of a task are equal in their padding too.

use std::arch::global_asm;

/// What the way out leaves on the stack, from its lowest address.
#[repr(C)]
pub struct Frame {
    /// The number of the hook.
    pub hook: u64,
    /// r15, r14, r13, r12, rbp, rbx.
    pub registers: [u64; 6],
    pub return_address: u64,
}

unsafe extern "C-unwind" {
    /// Calls a C function with one argument. Stores the address at which its stack begins.
    pub fn knee_c_enter(function: usize, argument: usize, base: *mut usize) -> u64;
    /// Where the stubs of hooks jump to.
    pub fn knee_c_hooked();
}

global_asm!(
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
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "knee_pop_registers",
    "ret",
    ".cfi_endproc",
    ".size knee_c_hooked, . - knee_c_hooked",
);
