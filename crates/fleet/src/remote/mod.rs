//! A host that shares no directory: its knee measures blocks in a directory of its own, and sends the
//! record's files, after each run, to the process that claimed the chunk. Both talk in lines of JSON over
//! any pair of byte streams, such as ssh's:
//!
//!     claimer                               host
//!     ───────                               ────
//!     {"do":"check","plan":…}        ──>
//!                                    <──    {"is":"fit"}  or  {"is":"unfit","why":…}
//!     {"do":"measure","blocks":[3,4]} ─>
//!                                    <──    {"is":"file","path":…,"offset":…,"bytes":N} and N bytes
//!                                    <──    {"is":"run","runs":1,"failed":false}
//!                                    <──    {"is":"ended","interrupted":false}
//!     {"do":"stop"}, or the end of the stream: the run in progress ends, and the host's knee too
//!
//! The host writes nothing during a run. Why files and not the worker's job protocol: mounts, probes, the
//! journal of what root changes and the description of the host then work there as they do for `knee run`.

mod messages;
mod mirror;

pub use messages::{Answer, Request, read_line, send};
pub use mirror::{Copy, Mirror};
