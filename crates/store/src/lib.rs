//! Records on disk: the store, its index, raw samples as Parquet, compaction of many records into few
//! files, and the import of other tools' results.

mod compact;
mod folder;
pub mod import;
mod index;
mod lines;
mod samples;

pub use compact::{Compacted, compact};
pub use folder::{Growing, Id, Store, boots, open, profiles, samples};
pub use index::{Index, Listed};
