//! The way into C code and out of it. Registers that a function must keep are cleared on the way in and pushed on the way
//! out: then they and the stack between are all that the C code knows.
//!
//!     Rust ─enter─> C ─stub, hook number in rax─> hooked ─> Rust
//!             base ┘                                 └ frame
//!
//! Unused stack is cleared, so that equal states of a task are equal in their padding too.
//!
//! Where tasks share local variables, C code runs on a stack in the region, which is part of the searched memory. Each way in
//! and out then has a second form, which changes stacks:
//!
//!     stack of the task's Rust code        stack in the region, aligned to STACK_ALIGN
//!     ...                                  end of the live part, for other tasks    <- top - 8
//!     knee_c_enter_apart  ───────────────> where the other stack continues          <- top - 16
//!     knee_c_called  <───────────────────  C functions, then the frame of a hook

/// What the way out leaves on the stack, from its lowest address.
#[repr(C)]
pub struct Frame {
    /// The number of the hook.
    pub hook: u64,
    /// Keeps the stack aligned.
    pub nothing: u64,
    /// The sixth argument of a call, if it has one.
    pub sixth: u64,
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
    /// Where the function that is called first returns to.
    pub fn knee_c_returned();
    pub fn knee_c_returned_apart();
    /// Where the stubs of hooks jump to.
    pub fn knee_c_hooked();
    /// As `knee_c_enter`, on a stack that ends at `top`. Clears it in the end.
    pub fn knee_c_enter_apart(
        function: usize,
        argument: usize,
        base: *mut usize,
        top: usize,
    ) -> u64;
    /// As `knee_c_hooked`, for code on a stack apart.
    pub fn knee_c_hooked_apart();
    /// As `knee_c_instruction`, for code on a stack apart.
    pub fn knee_c_instruction_apart();
    /// Where the stubs of instructions jump to, with the number of the hook on the stack. All registers but the flags stay
    /// as they are, unless the instruction changes them.
    pub fn knee_c_instruction();
}

#[cfg(not(target_arch = "x86_64"))]
pub use elsewhere::{
    knee_c_enter, knee_c_enter_apart, knee_c_hooked, knee_c_hooked_apart, knee_c_instruction,
    knee_c_instruction_apart, knee_c_returned, knee_c_returned_apart,
};

/// Where there is no way into C code yet, `compile` refuses every lock, and nothing calls these.
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    pub unsafe fn knee_c_enter(_function: usize, _argument: usize, _base: *mut usize) -> u64 {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub unsafe fn knee_c_enter_apart(_: usize, _: usize, _: *mut usize, _top: usize) -> u64 {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub fn knee_c_returned() {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub fn knee_c_returned_apart() {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub fn knee_c_hooked_apart() {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub fn knee_c_instruction_apart() {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub fn knee_c_hooked() {
        unreachable!("no lock in C is compiled on this architecture")
    }

    pub fn knee_c_instruction() {
        unreachable!("no lock in C is compiled on this architecture")
    }
}

/// Bytes to which stacks in the region are aligned; the upper part of each is used.
pub const STACK_ALIGN: usize = 4096;
/// Bytes below the used part, where a stack that is too deep is noticed.
pub const STACK_GUARD: usize = 1024;

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
    ".macro knee_begin name",
    ".p2align 4",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".cfi_startproc",
    ".endm",
    ".macro knee_end name",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    // The stack below, which the call used.
    ".macro knee_clear_below",
    "lea rdi, [rsp - 2048]",
    "mov ecx, 256",
    "xor eax, eax",
    "rep stosq",
    ".endm",
    ".macro knee_clear_kept",
    ".irp register, ebx, ebp, r12d, r13d, r14d, r15d",
    "xor \\register, \\register",
    ".endr",
    ".endm",
    // All registers and the flags, above the number of the hook, which goes with them.
    ".macro knee_save_all",
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
    ".endm",
    ".macro knee_restore_all",
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
    ".endm",
    ".text",
    "knee_begin knee_c_enter",
    "knee_push_registers",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "mov [rdx], rsp",
    "mov r8, rdi",
    "knee_clear_below",
    "mov rdi, rsi",
    "knee_clear_scratch",
    "knee_clear_kept",
    "call r8",
    ".globl knee_c_returned",
    "knee_c_returned:",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "knee_pop_registers",
    "ret",
    "knee_end knee_c_enter",
    "knee_begin knee_c_hooked",
    "knee_push_registers",
    "push r9",
    ".cfi_adjust_cfa_offset 8",
    "push 0",
    ".cfi_adjust_cfa_offset 8",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "mov r9, rsp",
    "call knee_c_called",
    "mov rdx, rax",
    "knee_clear_below",
    "mov rax, rdx",
    "xor edi, edi",
    "xor r8d, r8d",
    "knee_clear_scratch",
    "mov [rsp + 16], rcx",
    "add rsp, 24",
    ".cfi_adjust_cfa_offset -24",
    "knee_pop_registers",
    "ret",
    "knee_end knee_c_hooked",
    "knee_begin knee_c_instruction",
    "knee_save_all",
    // The code around is not prepared for a call: the stack may be unaligned, vector registers may be in use.
    "sub rsp, 512",
    "and rsp, -16",
    "fxsave64 [rsp]",
    "mov rdi, rbp",
    "call knee_c_instructed",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    ".cfi_def_cfa_register rsp",
    "knee_clear_below",
    "knee_restore_all",
    "ret",
    "knee_end knee_c_instruction",
    // The forms for a stack apart: what differs from the above is said here.
    // From the stack pointer down to the guard.
    ".macro knee_clear_apart",
    "mov rdi, rsp",
    "and rdi, -4096",
    "add rdi, 1024",
    "mov rcx, rsp",
    "sub rcx, rdi",
    "shr rcx, 3",
    "xor eax, eax",
    "rep stosq",
    ".endm",
    // The other stack, from where it continues.
    ".macro knee_leave_apart register",
    "mov \\register, rsp",
    "or \\register, 4095",
    "mov rsp, [\\register - 15]",
    ".endm",
    "knee_begin knee_c_enter_apart",
    "knee_push_registers",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "lea r8, [rcx - 16]",
    "mov [r8], rsp",
    "mov [rdx], r8",
    "mov rsp, r8",
    // The caller's frame: 64 bytes above what the stack pointer points to.
    ".cfi_escape 0x0f, 5, 0x77, 0x00, 0x06, 0x23, 0x40",
    "mov r8, rdi",
    "mov rdi, rsi",
    "xor eax, eax",
    "knee_clear_scratch",
    "knee_clear_kept",
    "call r8",
    ".globl knee_c_returned_apart",
    "knee_c_returned_apart:",
    "mov rdx, rax",
    "knee_clear_apart",
    "mov rcx, rsp",
    "mov rsp, [rsp]",
    ".cfi_def_cfa rsp, 64",
    "mov [rcx], rax",
    "mov [rcx + 8], rax",
    "mov rax, rdx",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "knee_pop_registers",
    "ret",
    "knee_end knee_c_enter_apart",
    "knee_begin knee_c_hooked_apart",
    "knee_push_registers",
    "push r9",
    ".cfi_adjust_cfa_offset 8",
    "push 0",
    ".cfi_adjust_cfa_offset 8",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "mov r9, rsp",
    "mov rbx, rsp",
    ".cfi_def_cfa_register rbx",
    "knee_leave_apart rax",
    "call knee_c_called",
    "mov rsp, rbx",
    ".cfi_def_cfa_register rsp",
    "mov rdx, rax",
    "knee_clear_apart",
    "mov rax, rdx",
    "xor edi, edi",
    "xor r8d, r8d",
    "knee_clear_scratch",
    "mov [rsp + 16], rcx",
    "add rsp, 24",
    ".cfi_adjust_cfa_offset -24",
    "knee_pop_registers",
    "ret",
    "knee_end knee_c_hooked_apart",
    "knee_begin knee_c_instruction_apart",
    "knee_save_all",
    "knee_leave_apart rax",
    "sub rsp, 512",
    "fxsave64 [rsp]",
    "mov rdi, rbp",
    "call knee_c_instructed",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    ".cfi_def_cfa_register rsp",
    "knee_clear_apart",
    "knee_restore_all",
    "ret",
    "knee_end knee_c_instruction_apart",
);
