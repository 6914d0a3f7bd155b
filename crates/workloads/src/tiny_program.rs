//! The smallest program: an ELF file whose code ends with the number of its arguments as exit status.

/// Its exit status, as it has one argument, its name.
pub(crate) const STATUS: i32 = 1;

/// exit(argc): the kernel puts argc at the stack pointer.
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = &[
    0x8b, 0x3c, 0x24, // mov edi, [rsp]
    0xb8, 0x3c, 0, 0, 0, // mov eax, SYS_exit
    0x0f, 0x05, // syscall
];
#[cfg(target_arch = "aarch64")]
const CODE: &[u8] = &[
    0xe0, 0x03, 0x40, 0xb9, // ldr w0, [sp]
    0xa8, 0x0b, 0x80, 0xd2, // mov x8, SYS_exit
    0x01, 0x00, 0x00, 0xd4, // svc 0
];

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

const HEADER_BYTES: u16 = 64;
const SEGMENT_BYTES: u16 = 56;
const CODE_OFFSET: u64 = (HEADER_BYTES + SEGMENT_BYTES) as u64;
/// Where the file is mapped.
const BASE: u64 = 0x40_0000;

/// The file: ELF header, one segment that is the whole file, code.
pub(crate) fn bytes() -> Vec<u8> {
    let mut file = Vec::new();
    file.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // An executable for this machine, version 1.
    file.extend([2u16, MACHINE].map(u16::to_le_bytes).concat());
    file.extend(1u32.to_le_bytes());
    // Entry, offset of the segment's header, no sections.
    file.extend([BASE + CODE_OFFSET, HEADER_BYTES.into(), 0].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    file.extend([HEADER_BYTES, SEGMENT_BYTES, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    // Loaded, readable and executable.
    file.extend([1u32, 5].map(u32::to_le_bytes).concat());
    let length = CODE_OFFSET + CODE.len() as u64;
    file.extend([0, BASE, BASE, length, length, 0x1000].map(u64::to_le_bytes).concat());
    file.extend(CODE);
    file
}
