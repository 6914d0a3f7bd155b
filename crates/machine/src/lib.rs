//! What an algorithm may do. A lock or a mechanism is written once, generic over
//! [`Machine`], and runs on every machine that there is: natively at full speed, searched
//! over all interleavings, in virtual time on a computer that nobody has at hand.
//!
//! Memory is no part of the trait. Words are concrete types with their native layout, in a
//! [`Region`]; only the operations go through the machine. So the same bytes serve every
//! machine: a cache line is an offset, a snapshot is a copy, and what is set up or checked
//! at the end is done by ordinary calls on the [`Native`] machine.

mod access;
mod atom;
mod image;
mod interrupts;
mod native;
mod patient;
mod region;
mod task;

pub use access::{Op, Test, Until};
pub use atom::{Atom, Field, Line, Value};
pub use image::{Image, Word};
pub use interrupts::{Attending, Peers};
pub use native::Native;
pub use patient::Patient;
pub use region::{Array, Block, Region};
pub use task::{Annotation, IpiTarget, Machine, Sleepers};

/// What the macro `image!` needs of the standard library.
#[doc(hidden)]
pub use std::mem::offset_of;

/// The orderings of the standard library, which machines keep.
pub use std::sync::atomic::Ordering;
