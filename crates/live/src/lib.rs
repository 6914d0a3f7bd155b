//! From what running tasks do to what holds them back: pure functions.
//!
//!     Trace ─ timelines ─→ lives of threads ─ locks, waits ─→ Observation ─ causes ─→ what limits, and what removing
//!                                                                                     it would gain at most

mod answer;
mod causes;
mod cut;
mod holds;
mod lines;
mod lives;
mod locks;
mod observe;
mod places;
mod sampled;
mod shares;
mod timelines;
mod waits;
mod windows;

pub use answer::{LiveAnswer, ThreadGroup, answer, threads_of};
pub use causes::{HolderShare, LiveCause, LiveCauseKind, causes};
pub use observe::{observe, observe_part};
pub use sampled::observe_samples;
pub use shares::Share;
