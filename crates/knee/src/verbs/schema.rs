//! `knee schema`: prints the JSON Schema of what a verb prints with `--json`.

use std::process::ExitCode;

use answers::schema_of;
use anyhow::{Context, Result};
use host::terminal::print;
use host::unknown;
use schemars::Schema;

/// Which answer.
#[derive(clap::Args)]
pub struct Arguments {
    /// Answer to describe: the words of its command with dashes [default: list all]
    name: Option<String>,
}

/// What some verb prints with `--json`.
struct AnswerKind {
    /// The words of the command with dashes, then what tells the answer from others of that verb.
    name: &'static str,
    schema: fn() -> Schema,
}

/// An entry of [`ANSWERS`].
const fn answer(name: &'static str, schema: fn() -> Schema) -> AnswerKind {
    AnswerKind { name, schema }
}

/// All answers, by name.
const ANSWERS: &[AnswerKind] = &[
    answer("compare", schema_of::<analysis::Comparison>),
    answer("record-export", schema_of::<answers::WholeRecord>),
    answer("scale-forecast", schema_of::<answers::Forecasts>),
    answer("compare-fragile", schema_of::<answers::FragileAnswer>),
    answer("scale", schema_of::<answers::Scalings>),
    answer("show", schema_of::<answers::Summary>),
];

/// Prints one schema, or the names of all.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(name) = &arguments.name else {
        print(ANSWERS.iter().map(|one| format!("{}\n", one.name)).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    };
    let kind = ANSWERS.iter().find(|one| one.name == name).with_context(|| {
        unknown("answer", name, ANSWERS.iter().map(|one| one.name), "knee schema")
    })?;
    print(format!("{:#}\n", (kind.schema)().to_value()))?;
    Ok(ExitCode::SUCCESS)
}
