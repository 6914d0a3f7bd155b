//! Virtual machines of QEMU that need nothing but a kernel file: what is in that file, which
//! modules of its tree a run needs, an initramfs with one program as init, and a VM with a byte
//! stream to that program. The caller chooses the program and what is sent to it.
//!
//!     kernel file ─ kernel.rs ─┐
//!     its modules ─ modules.rs ┼─ initramfs.rs ─ qemu.rs ═ stream, console ═ init
//!     a program ───────────────┘
//!
//! No part of a VM has a name in a file system: the kernel, the initramfs and the disks are open
//! files without a name, and the streams are socket pairs. So a killed owner leaves nothing behind.

pub mod architecture;
pub mod build_id;
pub mod counted;
mod decompress;
#[cfg(test)]
mod fuzz;
pub mod initramfs;
pub mod kernel;
pub mod kernels;
pub mod libraries;
pub mod module_index;
pub mod modules;
pub mod program;
mod pvh;
pub mod qemu;
mod relocate;
pub mod tracer;
pub mod vcpus;
