//! The page of records: what is compared, or the curves of one, and the ledgers of their profiled runs.

use anyhow::Result;
use explanations::ledger::LedgerPart;
use pages::{Page, comparison, ledgers, record};
use records::Opened;
use reports::{Detail, quoted, shown_metrics};
use store::Store;

use crate::named::{NamedRecords, each_variant};
use crate::verbs::compare::CompareQuestion;
use crate::verbs::explain::{ExplainedRecords, ProfiledRecords};

/// The page of the records or variants that the words name.
pub fn page(what: &[String], question: &CompareQuestion, store: &Store) -> Result<Page> {
    let mut whole: Option<Page> = None;
    for what in each_variant(what, store) {
        let named = NamedRecords::resolve(&what, store)?;
        let words = [named.lasting_words(&what), question.words()].concat();
        let page = of_named(&named, question, store, &again(&words))?;
        whole = Some(match whole {
            None => page,
            Some(first) => first.and(page),
        });
    }
    Ok(whole.expect("there is at least one list of words"))
}

/// The page of a record that is open already, and the record again.
pub fn page_of(record: Opened, store: &Store) -> (Result<Page>, Opened) {
    let named = NamedRecords::all_variants(record);
    let words = named.lasting_words(&[]);
    let page = of_named(&named, &CompareQuestion::default(), store, &again(&words));
    let [record] = <[Opened; 1]>::try_from(named.records).expect("there is one record");
    (page, record)
}

/// The command that prints the page as a mail.
fn again(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("knee report {}", words.join(" "))
}

fn of_named(
    named: &NamedRecords,
    question: &CompareQuestion,
    store: &Store,
    again: &str,
) -> Result<Page> {
    let records: Vec<&Opened> = named.records.iter().collect();
    let arms = named.arms();
    let measured = match &records[..] {
        [one] if arms.len() < 2 => {
            let asked = question.metrics(&arms)?;
            let metrics = if asked.is_empty() { shown_metrics(one).shown } else { asked.to_vec() };
            record(one, &Detail { metrics, ..Detail::default() }, again)
        }
        _ => comparison(&question.compared(named, store)?, &records, again),
    };
    let profiled = ProfiledRecords::read(named)?;
    if profiled.is_empty() {
        return Ok(measured);
    }
    let title = measured.title.clone();
    let parts = parts(&profiled.explained(), question.force)?;
    Ok(measured.and(ledgers(&title, parts)))
}

/// The differences between variants, or how rows grow; then each point.
fn parts(records: &ExplainedRecords, force: bool) -> Result<Vec<LedgerPart>> {
    let is_compared = records.is_compared();
    let mut parts =
        if is_compared { records.differences(force, true)? } else { records.growths(force, true) };
    // What has one CPU count does not grow.
    parts.retain(|part| is_compared || part.tree.is_some());
    // Stacks stand once: beside those that they are compared with.
    let has_flames = parts.iter().all(|part| part.flame.is_none());
    parts.extend(records.points(force, has_flames));
    Ok(parts)
}
