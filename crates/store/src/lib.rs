//! Records on disk: the store that keeps them, its index, raw samples as Parquet, several records as
//! one, and readers of other tools' results.

mod compact;
mod folder;
pub mod import;
mod index;
mod lines;
mod samples;

pub use compact::{Compacted, compact};
pub use folder::{Growing, Id, Store, boots, open, profiles, samples};
pub use index::{Index, Listed};
