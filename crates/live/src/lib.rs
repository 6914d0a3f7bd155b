//! From what running tasks do to what holds them back: pure functions.
//!
//!     Trace ─ timelines ─→ lives of threads ─ locks, waits ─→ Observation ─ causes ─→ what limits, and what removing
//!                                                                                     it would gain at most
//!     two Observations ─ quantities ─→ series over windows ─ compare ─→ what moved

mod answer;
mod cause_series;
mod causes;
mod compare;
mod cut;
mod goroutines;
mod holds;
mod java_locks;
mod lines;
mod lives;
mod locks;
mod objects;
mod observe;
mod places;
mod python;
mod quantities;
mod sampled;
mod shares;
mod spinning;
mod timelines;
mod waits;
mod windows;

pub use answer::{LiveAnswer, ThreadGroup, answer, threads_of};
pub use causes::{HolderShare, LiveCause, LiveCauseKind, causes};
pub use compare::{ComparedLook, LiveChange, LiveComparison, LiveVerdict, compare};
pub use observe::{observe, observe_part};
pub use quantities::{LiveQuantity, LiveUnit};
pub use sampled::observe_samples;
pub use shares::Share;
