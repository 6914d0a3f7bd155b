//! Records by name: ids, labels, hosts, and the variants of the last one.

use std::collections::BTreeSet;

use host::paths;
use store::{RecordName, Store};

use super::Candidate;

/// At most so many of one kind are offered at once.
const OFFERED: usize = 50;

/// Lengths to which ids are cut where too many begin alike: year, month, day, hour, second.
const CUTS: [usize; 5] = [4, 6, 9, 11, 16];

/// The finished records, newest first.
pub fn all(store: &Store) -> Vec<RecordName> {
    let names = paths::cache().and_then(|cache| store::names(store, &cache));
    let mut names = names.unwrap_or_default();
    // An id begins with the time.
    names.sort_by(|a, b| b.id.cmp(&a.id));
    names
}

/// `last`, labels and ids. Without a beginning, the newest ids; of very many that begin alike, what they have in common.
pub fn named(all: &[RecordName], given: &str) -> Vec<Candidate> {
    let Some(newest) = all.first() else { return Vec::new() };
    let mut candidates = vec![Candidate::new("last", newest.about())];
    candidates.extend(labels(all));
    let ids: Vec<&RecordName> = all.iter().filter(|one| one.id.starts_with(given)).collect();
    let is_few = ids.len() <= OFFERED || given.is_empty();
    let cut = CUTS.iter().rev().find(|cut| {
        let heads: BTreeSet<_> = ids.iter().filter_map(|one| one.id.get(..**cut)).collect();
        **cut > given.len() && heads.len() <= OFFERED
    });
    match cut {
        Some(cut) if !is_few => candidates.extend(heads(&ids, *cut)),
        _ => candidates.extend(
            ids.iter().take(OFFERED).map(|one| Candidate::new(one.id.clone(), one.about())),
        ),
    }
    candidates
}

/// The beginnings of ids, each with the number of records that have it.
fn heads(ids: &[&RecordName], cut: usize) -> Vec<Candidate> {
    let mut heads: Vec<(String, usize)> = Vec::new();
    for head in ids.iter().filter_map(|one| one.id.get(..cut)) {
        match heads.last_mut().filter(|(last, _)| last == head) {
            Some((_, number)) => *number += 1,
            None => heads.push((head.to_string(), 1)),
        }
    }
    let candidate = |(head, number)| Candidate {
        goes_on: true,
        ..Candidate::new(head, host::counted(number, "record"))
    };
    heads.into_iter().map(candidate).collect()
}

/// Labels, the newest first.
pub fn labels(all: &[RecordName]) -> Vec<Candidate> {
    let mut seen = BTreeSet::new();
    let has_label = |one: &&RecordName| !one.label.is_empty() && seen.insert(one.label.clone());
    let labelled = all.iter().filter(has_label).take(OFFERED);
    labelled.map(|one| Candidate::new(one.label.clone(), one.about())).collect()
}

/// Names of the hosts that made runs.
pub fn hosts(all: &[RecordName]) -> Vec<Candidate> {
    let hosts: BTreeSet<&str> =
        all.iter().flat_map(|one| one.host.split(", ")).filter(|host| !host.is_empty()).collect();
    hosts.into_iter().map(|host| Candidate::new(host, "")).collect()
}

/// The variants of the newest record.
pub fn variants_of_last(all: &[RecordName]) -> Vec<Candidate> {
    let record = all.first().and_then(|newest| store::read_record(&newest.folder).ok());
    let variants = record.map(|record| record.variants).unwrap_or_default();
    let candidate = |variant: records::Variant| Candidate::new(variant.name, "variant of last");
    variants.into_iter().map(candidate).collect()
}
