//! Sizes of one experiment. A file as it is written is the size [`HERE`], for the current host. Each
//! table `[sizes.NAME]` has the differences of another size:
//!
//!     [sizes.reported]
//!     blocks = 8
//!     axes = { tasks = 128 }
//!     load.fs_mark.parameters.files = 50_000      # the [[load]] of that name
//!
//! Tables are merged key by key; entries in a list of tables are found by their name; everything else
//! is replaced.

use anyhow::{Context, Result, bail};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The size that the file itself describes.
pub const HERE: &str = "here";

/// The document of an experiment at one of its sizes, without the tables of sizes. Its parts keep their
/// places in `text`, for errors.
pub(crate) fn document_at<'t>(text: &'t str, size: &'t str) -> Result<Spanned<DeTable<'t>>> {
    let mut document = DeTable::parse(text).context("reading the experiment")?;
    let table = document.get_mut();
    let sizes = table.remove("sizes").map(Spanned::into_inner);
    if size != HERE {
        let sizes = sizes.as_ref().and_then(DeValue::as_table);
        let difference = sizes.and_then(|sizes| sizes.get(size)?.get_ref().as_table());
        let difference =
            difference.with_context(|| format!("the experiment has no table [sizes.{size}]"))?;
        merge(table, difference)?;
    }
    let value = DeValue::String(size.into());
    table.insert(Spanned::new(0..0, "size".into()), Spanned::new(0..0, value));
    Ok(document)
}

fn merge<'t>(into: &mut DeTable<'t>, difference: &DeTable<'t>) -> Result<()> {
    for (key, value) in difference {
        match (into.get_mut(key).map(Spanned::get_mut), value.get_ref()) {
            (Some(DeValue::Table(into)), DeValue::Table(difference)) => merge(into, difference)?,
            (Some(DeValue::Array(entries)), DeValue::Table(difference)) => {
                for (name, difference) in difference {
                    let (key, name) = (key.get_ref(), name.get_ref());
                    let entries = entries.iter_mut().map(Spanned::get_mut);
                    let mut matching = entries.filter(|entry| name_of(entry) == Some(name));
                    let (Some(DeValue::Table(entry)), None, DeValue::Table(difference)) =
                        (matching.next(), matching.next(), difference.get_ref())
                    else {
                        bail!(
                            "`{key}.{name}` must be a table, and exactly one [[{key}]] must be \
                             called '{name}'"
                        );
                    };
                    merge(entry, difference)?;
                }
            }
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// The name of an entry in a list; for a load, that of its workload or command.
fn name_of<'e>(entry: &'e DeValue) -> Option<&'e str> {
    let named = entry.get("name").or_else(|| entry.get("workload"));
    named.or_else(|| entry.get("command")?.get_ref().get("name"))?.get_ref().as_str()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use toml::Deserializer;

    use super::*;

    const TEXT: &str = "
        blocks = 2
        axes = { cpus = 1, seconds = 0.1 }
        [[load]]
        workload = 'brk'
        parameters = { a = 1, b = 2 }
        [[load]]
        workload = 'getppid'
        [[load]]
        workload = 'getppid'
        [[load]]
        command = { name = 'ls', run = 'ls' }
        [sizes.large]
        blocks = 9
        axes = { cpus = [1, 2] }
        load.brk.parameters.b = 3
        load.ls.command.timeout_s = 5
        [sizes.wrong]
        load.rm.axes.cpus = 1
        [sizes.twice]
        load.getppid.axes.cpus = 1
        ";

    fn check(size: &str, expected: expect_test::Expect) {
        let shown = match document_at(TEXT, size) {
            Ok(table) => {
                serde_json::Value::deserialize(Deserializer::from(table)).unwrap().to_string()
            }
            Err(error) => format!("{error:#}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_size_changes_what_it_names_and_nothing_else() {
        check(
            "here",
            expect_test::expect![[
                r#"{"axes":{"cpus":1,"seconds":0.1},"blocks":2,"load":[{"parameters":{"a":1,"b":2},"workload":"brk"},{"workload":"getppid"},{"workload":"getppid"},{"command":{"name":"ls","run":"ls"}}],"size":"here"}"#
            ]],
        );
        check(
            "large",
            expect_test::expect![[
                r#"{"axes":{"cpus":[1,2],"seconds":0.1},"blocks":9,"load":[{"parameters":{"a":1,"b":3},"workload":"brk"},{"workload":"getppid"},{"workload":"getppid"},{"command":{"name":"ls","run":"ls","timeout_s":5}}],"size":"large"}"#
            ]],
        );
        check(
            "wrong",
            expect_test::expect![
                "`load.rm` must be a table, and exactly one [[load]] must be called 'rm'"
            ],
        );
        check(
            "twice",
            expect_test::expect![
                "`load.getppid` must be a table, and exactly one [[load]] must be called 'getppid'"
            ],
        );
        check("small", expect_test::expect!["the experiment has no table [sizes.small]"]);
    }
}
