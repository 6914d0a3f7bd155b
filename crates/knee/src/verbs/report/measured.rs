//! The page of records: what is compared, or the curves of one, and the ledgers of their profiled runs.

use analysis::ledger::Explained;
use anyhow::Result;
use pages::{Page, comparison, ledgers, record};
use records::{Opened, Profile};
use reports::{LedgerPart, difference_part, explained_part, growth_part, quoted};
use store::Store;

use crate::verbs::compare::{CompareQuestion, NamedRecords, each_variant};
use crate::verbs::explain::{explained, over_cpus, pairs};

/// The page of the records or variants that the words name.
pub fn page(what: &[String], question: &CompareQuestion, store: &Store) -> Result<Page> {
    let mut whole: Option<Page> = None;
    for what in each_variant(what, store) {
        let named = NamedRecords::resolve(&what, store)?;
        let page = of_named(&named, question, store, &again(&what))?;
        whole = Some(match whole {
            None => page,
            Some(first) => first.and(page),
        });
    }
    Ok(whole.expect("there is at least one list of words"))
}

/// The command that prints what the page is made of.
fn again(what: &[String]) -> String {
    let words: Vec<String> = what.iter().map(|word| quoted(word)).collect();
    match &words[..] {
        [] => String::new(),
        words => format!("knee report {}", words.join(" ")),
    }
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
        [one] if arms.len() < 2 => record(one),
        _ => comparison(&question.compared(named, store)?, &records, again),
    };
    let looks: Vec<Vec<Profile>> =
        records.iter().map(|record| store::profiles(record)).collect::<Result<_>>()?;
    if looks.iter().all(Vec::is_empty) {
        return Ok(measured);
    }
    let explained = explained(named, &looks);
    let title = measured.title.clone();
    let parts = ledger_parts(named, &explained, question.force)?;
    Ok(measured.and(ledgers(&title, parts, &[], "")))
}

/// The differences between variants, or how rows grow; then each point.
fn ledger_parts(
    named: &NamedRecords,
    explained: &[Vec<Explained>],
    force: bool,
) -> Result<Vec<LedgerPart>> {
    let arms = named.arms();
    let mut parts = Vec::new();
    if arms.len() > 1 {
        for (before, after) in pairs(named, &arms, explained, force)? {
            parts.push(difference_part(&before, &after, force));
        }
    } else {
        let loads = over_cpus(named, explained);
        parts.extend(loads.iter().filter_map(|(record, same)| growth_part(record, same, force)));
    }
    for (record, explained) in named.records.iter().zip(explained) {
        let known = explained.iter().filter(|one| one.ledger.is_some());
        parts.extend(known.map(|one| explained_part(record, one, force)));
    }
    Ok(parts)
}
