//! Explanations: where time goes and what changed there, from ledgers and recordings, as text for people or as data for
//! other programs. Pure functions from a record or a recording to text.

pub mod ledger;
pub mod live;
pub mod recording;
pub mod top;
