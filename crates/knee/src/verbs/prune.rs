//! `knee record prune`: removes records that are old, too many or too large together.

use std::process::ExitCode;

use answers::{RemovedRecord, RemovedRecords, as_json};
use anyhow::{Result, ensure};
use host::paths;
use host::question;
use host::terminal::{print, talk};
use jiff::{SignedDuration, Timestamp};
use pages::{Page, PageKind, Section, terminal};
use records::parse;
use store::{Index, Listed, Store};
use text::Style;
use text::prose::counted;

use super::list::records_table;
use super::rm::remove;
use crate::flags::age;

/// Remove old records, by age, number or size.
///
/// Lists what would go, and asks. Records with a label are always kept.
#[derive(clap::Args)]
pub struct Arguments {
    /// Remove records that started longer ago than this: 30d, 12h, 2w
    #[arg(long, value_name = "AGE", value_parser = age, required_unless_present_any = ["keep", "size"])]
    older_than: Option<SignedDuration>,
    /// Keep this many of the newest records and remove the others
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Keep the newest records up to this size together
    ///
    /// Such as 10G. The others are removed.
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    size: Option<u64>,
    /// Remove them without asking
    #[arg(long)]
    yes: bool,
    /// Print the folders that were removed as JSON
    #[arg(long)]
    json: bool,
}

/// Lists the records that would go, asks, and removes them.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let index = Index::open(store, &paths::cache()?)?;
    let records = index.newest(usize::MAX);
    let superfluous = superfluous(&records, arguments, Timestamp::now());
    if superfluous.is_empty() {
        talk(format_args!("nothing to remove of {}", counted(records.len(), "record")));
        return answer(arguments, Vec::new());
    }
    if arguments.json {
        // Standard output is for the answer.
        let folders = superfluous.iter().map(|record| record.folder.display());
        folders.for_each(|folder| talk(format_args!("  {folder}")));
    } else {
        let table = records_table(superfluous.iter().copied());
        let sections = vec![Section::open("records", vec![table])];
        let page = Page { sections, ..Page::new("records to remove", PageKind::List) };
        print(terminal(&page, Style::for_stdout()))?;
    }
    let bytes: u64 = superfluous.iter().map(|record| record.bytes).sum();
    let (number, of) = (superfluous.len(), counted(records.len(), "record"));
    let question = format!("Remove these {number} of {of} for good ({} KiB)?", bytes >> 10);
    if !arguments.yes {
        question::ask(&question, "nothing was removed", "add --yes")?;
    }
    let removed = superfluous.iter().filter_map(|one| remove(&one.folder).map_err(complain).ok());
    let removed: Vec<RemovedRecord> = removed.collect();
    let failed = number - removed.len();
    let answered = answer(arguments, removed);
    ensure!(failed == 0, "{failed} of {number} records could not be removed, see above");
    answered
}

fn answer(arguments: &Arguments, removed: Vec<RemovedRecord>) -> Result<ExitCode> {
    if arguments.json {
        print(as_json(&RemovedRecords { removed })?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn complain(why: anyhow::Error) {
    talk(format_args!("{why:#}"));
}

/// The records that any of the limits excludes. `records` are the newest first.
fn superfluous<'a>(records: &'a [Listed], limits: &Arguments, now: Timestamp) -> Vec<&'a Listed> {
    let (mut kept, mut kept_bytes) = (0, 0);
    let mut is_superfluous = |record: &&Listed| {
        if !record.label.is_empty() {
            return false;
        }
        let age = record.started.map(|started| now.duration_since(started));
        let is_old = age.zip(limits.older_than).is_some_and(|(age, limit)| age > limit);
        let is_over = limits.keep.is_some_and(|keep| kept >= keep)
            || limits.size.is_some_and(|size| kept_bytes + record.bytes > size);
        if !is_old && !is_over {
            kept += 1;
            kept_bytes += record.bytes;
        }
        is_old || is_over
    };
    records.iter().filter(|record| is_superfluous(record)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_those_with_a_label() {
        let now: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
        let record = |number: i64| Listed {
            id: number.to_string(),
            label: if number == 4 { "keep".to_string() } else { String::new() },
            started: Some(now - SignedDuration::from_hours(24 * number)),
            bytes: 1 << 20,
            ..Listed::default()
        };
        let records: Vec<Listed> = (0..6).map(record).collect();
        let check = |older_than, keep, size, expected: &str| {
            let limits = Arguments { older_than, keep, size, yes: true, json: false };
            let ids = superfluous(&records, &limits, now).into_iter().map(|r| r.id.as_str());
            assert_eq!(ids.collect::<Vec<_>>().join(" "), expected);
        };
        check(None, Some(2), None, "2 3 5");
        check(None, Some(0), None, "0 1 2 3 5");
        check(Some(SignedDuration::from_hours(48)), None, None, "3 5");
        check(None, None, Some(3 << 20), "3 5");
        check(Some(SignedDuration::from_hours(24)), Some(1), None, "1 2 3 5");
    }
}
