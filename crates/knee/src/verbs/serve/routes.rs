//! What `knee serve` shows: the list of records with their newest verdicts, and pages of records.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use host::paths;
use pages::{ListedExperiment, ListedRecord, Listing, Purpose, Tone};
use store::{Index, Listed, Store};
use text::prose::counted;

use crate::verbs::compare::{self, CompareQuestion};
use crate::verbs::report::measured;
use crate::verbs::serve::request::{Asked, PageForm};
use crate::verbs::serve::response::Response;

/// Records in a list: more are found by a search.
const LISTED_MAX: usize = 1000;
/// Records that a search looks through.
const SEARCHED_MAX: usize = 100_000;
/// Records whose verdicts are worked out for a list: the newest.
const JUDGED_MAX: usize = 20;
/// Verdicts that are kept, so that a list is quick the next time.
const KEPT_MAX: usize = 1000;

/// Verdicts in words, with what they mean.
type Verdicts = Vec<(Tone, String)>;

/// Answers requests from the records of a store.
pub struct Routes {
    store: Store,
    port: u16,
    /// Verdicts by id and length of the record's files, which change when a record does.
    verdicts: Mutex<HashMap<(String, u64), Verdicts>>,
}

impl Routes {
    pub fn new(store: Store, port: u16) -> Routes {
        Routes { store, port, verdicts: Mutex::default() }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The answer to a request.
    pub fn answer(&self, asked: &Asked) -> Response {
        let answer = match asked {
            Asked::List { search } => self.list(search),
            Asked::Page { ids, form } => self.page(ids, *form),
            Asked::Events => {
                return Response::refusal(404, "nothing here", "there is no such page");
            }
        };
        answer.unwrap_or_else(|why| Response::refusal(404, "no page", &format!("{why:#}")))
    }

    fn page(&self, ids: &[String], form: PageForm) -> Result<Response> {
        let index = Index::open(&self.store, &paths::cache()?)?;
        let folder = |id: &String| -> Result<String> {
            let others = index.others()?;
            let found = index.with_prefix(id)?.into_iter().chain(others).find(|one| one.id == *id);
            let folder = found.with_context(|| format!("there is no record {id}"))?.folder;
            Ok(folder.to_string_lossy().into_owned())
        };
        let what = ids.iter().map(folder).collect::<Result<Vec<String>>>()?;
        let page = measured::page(&what, &CompareQuestion::default(), &self.store)?;
        Ok(match form {
            PageForm::Html => Response::html(pages::html(&page, Purpose::Served)),
            PageForm::Mail => Response::text(&pages::mail(&page)),
            PageForm::Markdown => Response::text(&pages::markdown(&page)),
        })
    }

    fn list(&self, search: &str) -> Result<Response> {
        let index = Index::open(&self.store, &paths::cache()?)?;
        let most = if search.is_empty() { LISTED_MAX + 1 } else { SEARCHED_MAX };
        let growing = index.others()?;
        let is_growing = growing.iter().any(|one| one.state == "growing");
        let mut listed: Vec<Listed> = growing.into_iter().chain(index.newest(most)?).collect();
        listed.retain(|one| is_found(one, search));
        let more = listed.len() > LISTED_MAX;
        listed.truncate(LISTED_MAX);
        let note = if more {
            format!("Only the newest {LISTED_MAX} are shown: search for others")
        } else {
            String::new()
        };
        let mut experiments: Vec<ListedExperiment> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (number, one) in listed.iter().enumerate() {
            let line = self.line(one, number < JUDGED_MAX);
            let place = *places.entry(one.name.clone()).or_insert_with(|| {
                experiments.push(ListedExperiment { name: one.name.clone(), records: Vec::new() });
                experiments.len() - 1
            });
            experiments[place].records.push(line);
        }
        let search = search.to_string();
        Ok(Response::html(pages::listing(&Listing { experiments, search, note, is_growing })))
    }

    fn line(&self, one: &Listed, is_judged: bool) -> ListedRecord {
        let is_shown = ["whole", "partial", "growing", "unfinished"].contains(&one.state.as_str());
        let failed =
            if one.failed > 0 { format!(", {} failed", one.failed) } else { String::new() };
        // Runs in the place of disturbed ones were not planned.
        let runs = if one.runs < one.planned {
            format!("{} of {} runs", one.runs, one.planned)
        } else {
            counted(one.runs as usize, "run")
        };
        let known = [one.host.as_str(), &one.kernel].into_iter().filter(|name| *name != "?");
        let known: Vec<&str> = known.collect();
        let started = one.started.map(|time| time.strftime("%Y-%m-%d %H:%M UTC").to_string());
        let is_whole = ["whole", "partial"].contains(&one.state.as_str());
        ListedRecord {
            id: if is_shown { one.id.clone() } else { String::new() },
            name: if one.label.is_empty() { one.id.clone() } else { one.label.clone() },
            started: started.unwrap_or_default(),
            state: one.state.clone(),
            workloads: one.workloads.clone(),
            host: known.join(", "),
            runs: format!("{runs}{failed}"),
            verdicts: if is_judged && is_whole { self.verdicts(one) } else { Vec::new() },
        }
    }

    /// The verdicts of a record, worked out once.
    fn verdicts(&self, one: &Listed) -> Verdicts {
        let key = (one.id.clone(), one.bytes);
        let kept = || self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().get(&key) {
            return known.clone();
        }
        let found = verdicts(&one.folder).unwrap_or_default();
        let mut kept = kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, found.clone());
        found
    }
}

fn verdicts(folder: &Path) -> Result<Verdicts> {
    let record = store::open(folder)?;
    ensure!(record.record.variants.len() > 1, "nothing is compared");
    let counts = pages::comparison(&compare::of_record(&record)?, &[], "").counts;
    Ok(counts.iter().map(|count| (count.tone, format!("{} {}", count.n, count.word))).collect())
}

/// Whether all words of a search stand somewhere in a line.
fn is_found(one: &Listed, search: &str) -> bool {
    let fields =
        [&one.id, &one.name, &one.label, &one.note, &one.workloads, &one.host, &one.kernel];
    let text = fields.map(String::as_str).join(" ").to_lowercase();
    search.to_lowercase().split_whitespace().all(|word| text.contains(word))
}
