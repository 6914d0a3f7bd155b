//! What an algorithm may do. A lock or a mechanism is written once, generic over
//! [`Machine`], and runs on every machine: natively at full speed, in a checker that searches
//! all interleavings, or in the virtual time of a simulated host.
//!
//! Memory is not part of the trait. Words are concrete types with their native layout, in a
//! [`Region`]; only the operations go through the machine. So the same bytes serve every
//! machine: a cache line is an offset and a snapshot is a copy. Setup and final checks are
//! ordinary calls on the [`Native`] machine.

#![warn(missing_docs)]

mod atom;
mod exponential;
mod image;
mod interrupts;
mod native;
mod operations;
mod region;
mod site;
mod task;
mod work;

pub use atom::{Atom, Field, Line, Op, Test, Until, Value};
pub use exponential::exponential;
pub use image::{Image, Member, Word};
pub use interrupts::{IpiHandler, Peers};
pub use native::{Native, Spinning, WaitPolicy, Yielding};
pub use region::{Array, NamedArray, Region};
pub use site::{CodeSite, SourceLine};
pub use task::{Annotation, Dependencies, IpiTarget, Machine, Requeue, Sleep, SleepEnd, Sleepers};
pub use work::{Pace, work};

/// Used by the macro `image!`.
#[doc(hidden)]
pub use std::mem::offset_of;

/// The memory orderings of the standard library, which every machine honours.
pub use std::sync::atomic::Ordering;
