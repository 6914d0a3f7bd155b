//! The forms of an answer. Every verb that answers has one page and one value of a published type, and prints either
//! through [`ViewFlags::print`]: no verb writes a form of its own.

use std::io::Write;

use answers::as_json;
use anyhow::{Context, Result};
use host::terminal::{WRITING, print};
use schemars::JsonSchema;
use serde::Serialize;
use text::Style;

use crate::{Page, Purpose, html, mail, markdown, terminal};

/// A form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Text within the width of the terminal
    Terminal,
    /// A mail of 72 columns for a kernel list
    Mail,
    /// Markdown for a tracker
    Markdown,
    /// A page in HTML that needs no network and no scripts
    Html,
    /// JSON of a published type (`knee schema`)
    Json,
}

/// In which form to print an answer, for verbs that have `--json` from elsewhere.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct FormFlag {
    /// Form of the answer: terminal, mail, markdown, html, json
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        hide_possible_values = true,
        conflicts_with = "json"
    )]
    view: Option<View>,
}

impl FormFlag {
    /// The flags of both.
    pub fn or_json(self, json: bool) -> ViewFlags {
        ViewFlags { form: self, json }
    }
}

/// In which form to print an answer.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ViewFlags {
    #[command(flatten)]
    form: FormFlag,
    /// Print JSON, as --view json
    #[arg(long)]
    json: bool,
}

impl ViewFlags {
    /// The form that the user asked for.
    pub fn view(self) -> View {
        if self.json { View::Json } else { self.form.view.unwrap_or(View::Terminal) }
    }

    /// Prints an answer: `value` as JSON, `page` in all other forms. Only the one that is asked for is made.
    ///
    /// # Errors
    /// Says that standard output failed, or which value has no JSON form.
    pub fn print<T: Serialize + JsonSchema>(
        self,
        value: impl FnOnce() -> Result<T>,
        page: impl FnOnce() -> Result<Page>,
    ) -> Result<()> {
        if self.view() == View::Json { print(as_json(&value()?)?) } else { self.print_page(page) }
    }

    /// Prints the page of an answer whose JSON went out as it came: nothing with `--json`.
    ///
    /// # Errors
    /// Says that standard output failed.
    pub fn print_page(self, page: impl FnOnce() -> Result<Page>) -> Result<()> {
        let view = self.view();
        if view == View::Json { Ok(()) } else { print_as(view, &page()?) }
    }
}

/// Prints a page in a form. JSON is not one: its verbs print it.
fn print_as(view: View, page: &Page) -> Result<()> {
    match view {
        View::Json => Ok(()),
        View::Terminal => print(terminal(page, Style::for_stdout())),
        View::Mail => print(mail(page)),
        View::Markdown => print(markdown(page)),
        View::Html => print_html(page, Purpose::File),
    }
}

impl From<View> for ViewFlags {
    fn from(view: View) -> ViewFlags {
        ViewFlags { form: FormFlag { view: Some(view) }, json: false }
    }
}

/// Prints a page as HTML, in which the writer has escaped what would control a terminal.
///
/// # Errors
/// Says that standard output failed.
pub fn print_html(page: &Page, purpose: Purpose) -> Result<()> {
    std::io::stdout().lock().write_all(html(page, purpose).as_bytes()).context(WRITING)
}
