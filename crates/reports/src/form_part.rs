//! A table of a report with its title and what it says, as a value.

use text::table::Table;

/// A table with its title and what is said below it.
pub struct FormPart {
    pub title: String,
    pub table: Table,
    pub sentences: Vec<String>,
}
