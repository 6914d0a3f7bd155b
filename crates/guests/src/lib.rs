//! Virtual machines of QEMU that need nothing but a kernel file: what is in that file, which
//! modules of its tree are needed, an initramfs with one program as init, and a machine with a
//! byte stream to that program. What program it is and what is said to it is the caller's
//! business.
//!
//!     kernel file ─ kernel.rs ─┐
//!     its modules ─ modules.rs ┼─ initramfs.rs ─ qemu.rs ═ stream, console ═ init
//!     a program ───────────────┘
//!
//! Nothing of it lies in a file system: the kernel, the initramfs and the disks are open files
//! without a name, and the streams are socket pairs. So a killed owner leaves nothing behind.

mod decompress;
#[cfg(test)]
mod fuzz;
pub mod initramfs;
pub mod kernel;
pub mod kernels;
pub mod modules;
pub mod qemu;
mod relocate;
pub mod vcpus;
