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
use toml::{Table, Value};

/// The size that the file itself describes.
pub const HERE: &str = "here";

/// The document of an experiment at one of its sizes, without the tables of sizes.
pub(crate) fn document_at(text: &str, size: &str) -> Result<Table> {
    let mut document: Table = text.parse().context("reading the experiment")?;
    let sizes = document.remove("sizes");
    if size != HERE {
        let sizes = sizes.as_ref().and_then(Value::as_table);
        let difference = sizes.and_then(|sizes| sizes.get(size)).and_then(Value::as_table);
        let difference =
            difference.with_context(|| format!("the experiment has no table [sizes.{size}]"))?;
        merge(&mut document, difference)?;
    }
    document.insert("size".to_string(), Value::String(size.to_string()));
    Ok(document)
}

fn merge(into: &mut Table, difference: &Table) -> Result<()> {
    for (key, value) in difference {
        match (into.get_mut(key), value) {
            (Some(Value::Table(into)), Value::Table(difference)) => merge(into, difference)?,
            (Some(Value::Array(entries)), Value::Table(difference)) => {
                for (name, difference) in difference {
                    let named = |entry: &&mut Value| name_of(entry) == Some(name);
                    let mut matching = entries.iter_mut().filter(named);
                    let (Some(Value::Table(entry)), None, Value::Table(difference)) =
                        (matching.next(), matching.next(), difference)
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
fn name_of(entry: &Value) -> Option<&str> {
    let named = entry.get("name").or_else(|| entry.get("workload"));
    named.or_else(|| entry.get("command")?.get("name"))?.as_str()
}

#[cfg(test)]
mod tests {
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
            Ok(table) => serde_json::to_string(&table).unwrap(),
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
