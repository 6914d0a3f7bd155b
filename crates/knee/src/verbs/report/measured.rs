//! The page of records: what is compared, or the curves of one, and the ledgers of their profiled runs.

use anyhow::Result;
use explanations::ledger::{LedgerPart, LedgerSide, difference_part, explained_part, growth_part};
use ledger::Explained;
use pages::{Page, comparison, ledgers, record};
use records::{Opened, Profile};
use reports::{Detail, quoted, shown_metrics};
use store::Store;
use text::prose::counted;

use crate::named::{NamedRecords, each_variant};
use crate::verbs::compare::CompareQuestion;
use crate::verbs::explain::{ProfiledPoint, explained, flame, over_cpus, pairs};

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
    let looks: Vec<Vec<Profile>> =
        records.iter().map(|record| store::profiles(record)).collect::<Result<_>>()?;
    if looks.iter().all(Vec::is_empty) {
        return Ok(measured);
    }
    let explained = explained(named, &looks);
    let title = measured.title.clone();
    let profiled = Profiled { named, looks: &looks, explained: &explained };
    let parts = profiled.parts(question.force)?;
    Ok(measured.and(ledgers(&title, parts)))
}

/// Records with their profiles, explained.
struct Profiled<'a> {
    named: &'a NamedRecords,
    looks: &'a [Vec<Profile>],
    explained: &'a [Vec<Explained>],
}

impl Profiled<'_> {
    /// The differences between variants, most CPUs first, or how rows grow; then each point.
    fn parts(&self, force: bool) -> Result<Vec<LedgerPart>> {
        let mut parts = self.differences(force)?;
        if self.named.arms().len() < 2 {
            parts = self.growths(force);
        }
        // Stacks stand once: beside those that they are compared with.
        let has_flame = parts.iter().any(|part| part.flame.is_some());
        for (record, explained) in self.named.records.iter().zip(self.explained) {
            for one in explained.iter().filter(|one| one.ledger.is_some()) {
                let name = "CPU time".to_string();
                let points = [(name, self.point(record, one.point))];
                let flame = if has_flame { None } else { flame(&points) };
                parts.push(LedgerPart { flame, ..explained_part(record, one, force) });
            }
        }
        Ok(parts)
    }

    fn differences(&self, force: bool) -> Result<Vec<LedgerPart>> {
        let arms = self.named.arms();
        let mut pairs = pairs(self.named, &arms, self.explained, force)?;
        let cpus = |side: &LedgerSide| side.record.record.points[side.explained.point].cpus;
        pairs.sort_by_key(|(_, after)| std::cmp::Reverse(cpus(after)));
        let part = |(before, after): (LedgerSide, LedgerSide)| {
            let point = |side: &LedgerSide| {
                (side.name.to_string(), self.point(side.record, side.explained.point))
            };
            let flame = flame(&[point(&before), point(&after)]);
            LedgerPart { flame, ..difference_part(&before, &after, force) }
        };
        Ok(pairs.into_iter().map(part).collect())
    }

    fn growths(&self, force: bool) -> Vec<LedgerPart> {
        let loads = over_cpus(self.named, self.explained);
        let part = |(record, same): &(&Opened, Vec<&Explained>)| {
            let cpus = |one: &Explained| record.record.points[one.point].cpus;
            let mut same: Vec<&Explained> = same.clone();
            same.sort_by_key(|one| cpus(one));
            let points = same
                .iter()
                .map(|one| (counted(cpus(one) as usize, "CPU"), self.point(record, one.point)));
            let flame = flame(&points.collect::<Vec<_>>());
            Some(LedgerPart { flame, ..growth_part(record, &same, force)? })
        };
        loads.iter().filter_map(part).collect()
    }

    fn point(&self, record: &Opened, point: usize) -> ProfiledPoint<'_> {
        let records = self.named.records.iter();
        let index = records.clone().position(|one| std::ptr::eq(one, record)).unwrap_or(0);
        ProfiledPoint::new(&self.named.records[index], &self.looks[index], point)
    }
}
