//! What `#[derive(JsonSchema)]` means here, by the name `schemars` in the crates that derive it.
//!
//! A test derives the schemas of all answers from their types; the product has them as texts. So with the feature `derived`,
//! for which the tests of knee ask, this is schemars. Without it the derive makes nothing: what nobody calls of 450 types
//! took 33 s of the 553 s of CPU that a whole build takes.

#[cfg(not(feature = "derived"))]
pub use absent::JsonSchema;
#[cfg(feature = "derived")]
pub use schemars::*;

/// Every type has it; the tests say which type lacks one in truth.
#[cfg(not(feature = "derived"))]
pub trait JsonSchema {}

#[cfg(not(feature = "derived"))]
impl<T: ?Sized> JsonSchema for T {}
