//! Fleet: an experiment cut into chunks of whole blocks, which any number of hosts take. Hosts share nothing but a directory; any scheduler may start `knee fleet chunk`.
//! docs/guide/fleet.md specifies the files:
//!
//!     DIR/plan.json        written once
//!     DIR/claims/0007.1    who measures chunk 7, first claim; appears by one link(2), never changes
//!     DIR/claims/0007.1.released    its owner gave up cleanly
//!     DIR/beats/0007.1     runs so far: changes while the owner lives
//!     DIR/hosts/NAME.json  what stands in the way of a host, by itself
//!     DIR/records/0007.1/  a store with the record that this claim grows
//!     DIR/done/0007        which claim measured which block; appears by one link(2), never changes
//!
//! States of a chunk N with E claims, each a function of the names that exist:
//!
//!              link claims/N.1              link done/N
//!     free ───────────────────> claimed ───────────────────> done
//!                               │     ^
//!            released, owner    │     │  link claims/N.(E+1), which lists
//!            gone, or no beat   └─────┘  the blocks of claims ..E it keeps
//!
//! A lease decides only who tries; the links decide who counts. An owner that was taken for dead may go on
//! and finish first: its `done/N` then counts, and the record of the other is kept but not collected. Each
//! `done/N` gives every block of its chunk exactly one claim, so every block counts exactly once,
//! whatever the clocks say. No clock of another host is read.

mod claims;
mod collect;
mod hosts;
mod member;
mod owner;
mod parts;
mod plan_file;
pub mod remote;
pub mod slurm;
pub mod ssh;
mod watch;

pub use claims::{ChunkState, Done, Folder, Survey};
pub use collect::{Collected, collect};
pub use hosts::{HostCheck, why_full};
pub use member::{Measurer, Member, Outcome, Share, Work};
pub use owner::{Claim, Owner, started_ticks};
pub use parts::{kept_blocks, measured_by};
pub use plan_file::{CHUNKS_MAX, Chunk, FORMAT, Plan, cut};
pub use watch::Watch;
