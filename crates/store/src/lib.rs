//! Records on disk: the store, its index, raw samples as Parquet, compaction of many records into few
//! files, and the import of other tools' results.

mod compact;
mod folder;
mod followed;
mod id;
pub mod import;
mod index;
mod keep;
mod lines;
mod listed;
mod parquet_limits;
mod record_files;
mod samples;
mod saved_look;

pub use compact::{Compacted, compact};
pub use folder::{
    DECISIVE_FILES, Growing, Store, alteration, boots, discard, open, profiles, read_record,
    samples,
};
pub use followed::{ReadSoFar, RecordStamp, Watch, open_growing, stamp};
pub use id::Id;
pub use index::{Filter, Index, RecordName, names};
pub use keep::{annotate, remove};
pub use listed::Listed;
pub use saved_look::{is_saved_look, read_look, save_look};
