//! Pages: what a comparison, a record, a ledger or a simulation says, for readers who were not there. Pure
//! functions; nothing here reads files or measures.
//!
//!     comparison ─┐                  ┌─> terminal  within its width
//!     record ─────┤                  ├─> HTML      one file, whole without scripts and network
//!     ledger ─────┼─> Page (values) ─┼─> mail      72 columns, for a kernel list
//!     check … ────┘                  └─> Markdown  for a tracker
//!
//! The values are those of the text reports, from [`reports`]: nothing is computed twice.

mod columns;
mod comparison;
mod conflicts;
mod fitted;
mod html;
mod ledger;
mod listing;
mod mail;
mod manual;
mod markdown;
mod page;
mod plan;
pub mod reading;
mod record;
mod scaling;
mod screening;
mod terminal;
mod view;

pub use crate::comparison::comparison;
pub use crate::conflicts::{conflicts, times};
pub use crate::html::{HAS_BUNDLE, Purpose, html, policy, svg};
pub use crate::ledger::{explanation, ledgers};
pub use crate::listing::{ListedExperiment, ListedRecord, Listing, listing, message};
pub use crate::mail::mail;
pub use crate::markdown::markdown;
pub use crate::page::{
    Block, Count, Page, PageKind, PageTable, RowMark, Section, TaskSteps, Tone, Wide,
};
pub use crate::plan::plan;
pub use crate::record::record;
pub use crate::scaling::{CurvePart, forecasts, fragile, scaling};
pub use crate::screening::screening;
pub use crate::terminal::terminal;
pub use crate::view::{FormFlag, View, ViewFlags, print_html};
