//! What `knee serve` shows: the list of records with their newest verdicts, and pages of records.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host::{memory, paths};
use pages::{ListedExperiment, ListedRecord, Listing, Page, Purpose, Tone};
use records::Opened;
use store::{Index, Listed, ReadSoFar, RecordStamp, Store};

use crate::results::result;
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

/// Bytes of pages that are kept, so that a page that many ask for is made once.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Growing records whose runs are kept, so that only new ones are read.
const FOLLOWED_MAX: usize = 2;

/// Verdicts in words, with what they mean.
type Verdicts = Vec<(Tone, String)>;

/// Answers requests from the records of a store, one at a time: what runs on this host may be under measurement, and
/// opened records take memory.
pub struct Routes {
    store: Store,
    desk: Mutex<Desk>,
    /// How long the last page took, in ms.
    last_ms: AtomicU64,
}

/// What is kept between requests.
#[derive(Default)]
struct Desk {
    pages: VecDeque<KeptPage>,
    followed: VecDeque<(Opened, ReadSoFar)>,
    /// Verdicts by id and length of the record's files, which change when a record does.
    verdicts: HashMap<(String, u64), Verdicts>,
}

/// A page of a record in one of its states.
struct KeptPage {
    asked: Asked,
    stamp: RecordStamp,
    response: Arc<Response>,
}

impl Routes {
    pub fn new(store: Store) -> Routes {
        Routes { store, desk: Mutex::default(), last_ms: AtomicU64::new(0) }
    }

    /// How long the last page took.
    pub fn last_took(&self) -> Duration {
        Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }

    /// The answer to a request.
    pub fn answer(&self, asked: &Asked) -> Arc<Response> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match asked {
            Asked::List { search } => self.list(&mut desk, search).map(Arc::new),
            Asked::Page { ids, form } => self.page(&mut desk, asked, ids, *form),
            Asked::Events => {
                let why = "there is no such page";
                return Arc::new(Response::refusal(404, "nothing here", why));
            }
        };
        answer
            .unwrap_or_else(|why| Arc::new(Response::refusal(404, "no page", &format!("{why:#}"))))
    }

    fn page(
        &self,
        desk: &mut Desk,
        asked: &Asked,
        ids: &[String],
        form: PageForm,
    ) -> Result<Arc<Response>> {
        let index = Index::open(&self.store, &paths::cache()?)?;
        let find = |id: &String| -> Result<Listed> {
            let others = index.others()?;
            let found = index.with_prefix(id).into_iter().chain(others).find(|one| one.id == *id);
            found.with_context(|| format!("there is no record {id}"))
        };
        let listed = ids.iter().map(find).collect::<Result<Vec<Listed>>>()?;
        // A comparison also rests on earlier records, so that nothing shows whether it is still right.
        let stamp = if let [one] = &listed[..] { Some(store::stamp(&one.folder)) } else { None };
        let kept = desk.pages.iter().find(|kept| kept.asked == *asked);
        if let Some(kept) = kept.filter(|kept| Some(&kept.stamp) == stamp.as_ref()) {
            return Ok(kept.response.clone());
        }
        let since = Instant::now();
        let page = match &listed[..] {
            [one] if one.state == "growing" => self.growing_page(desk, one)?,
            _ => {
                let folder = |one: &Listed| one.folder.to_string_lossy().into_owned();
                let what: Vec<String> = listed.iter().map(folder).collect();
                measured::page(&what, &CompareQuestion::default(), &self.store)?
            }
        };
        let response = Arc::new(match form {
            PageForm::Html => Response::html(pages::html(&page, Purpose::Served)),
            PageForm::Mail => Response::text(&pages::mail(&page)),
            PageForm::Markdown => Response::text(&pages::markdown(&page)),
        });
        drop(page);
        memory::give_back();
        self.last_ms.store(since.elapsed().as_millis() as u64, Ordering::Relaxed);
        if let Some(stamp) = stamp {
            desk.keep(KeptPage { asked: asked.clone(), stamp, response: response.clone() });
        }
        Ok(response)
    }

    /// The page of a record that grows, of which only new runs are read.
    fn growing_page(&self, desk: &mut Desk, one: &Listed) -> Result<Page> {
        let known = desk.followed.iter().position(|(known, _)| known.folder == one.folder);
        let (opened, read) = match known.and_then(|at| desk.followed.remove(at)) {
            Some((mut opened, mut read)) => {
                read.catch_up(&mut opened)?;
                (opened, read)
            }
            None => store::open_growing(&one.folder)?,
        };
        let (page, opened) = measured::page_of(opened, &self.store);
        desk.followed.push_back((opened, read));
        if desk.followed.len() > FOLLOWED_MAX {
            desk.followed.pop_front();
        }
        page
    }

    fn list(&self, desk: &mut Desk, search: &str) -> Result<Response> {
        let mut index = Index::open(&self.store, &paths::cache()?)?;
        let most = if search.is_empty() { LISTED_MAX + 1 } else { SEARCHED_MAX };
        let growing = index.others()?;
        let is_growing = growing.iter().any(|one| one.state == "growing");
        let mut listed: Vec<Listed> = growing.into_iter().chain(index.newest(most)).collect();
        listed.retain(|one| is_found(one, search));
        let more = listed.len() > LISTED_MAX;
        listed.truncate(LISTED_MAX);
        let judged = listed.len().min(JUDGED_MAX);
        index.add_results(&mut listed[..judged], result);
        memory::give_back();
        let note = if more {
            format!("Only the newest {LISTED_MAX} are shown: search for others")
        } else {
            String::new()
        };
        let mut experiments: Vec<ListedExperiment> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (number, one) in listed.iter().enumerate() {
            let line = desk.line(one, number < JUDGED_MAX);
            let place = *places.entry(one.name.clone()).or_insert_with(|| {
                experiments.push(ListedExperiment { name: one.name.clone(), records: Vec::new() });
                experiments.len() - 1
            });
            experiments[place].records.push(line);
        }
        let search = search.to_string();
        Ok(Response::html(pages::listing(&Listing { experiments, search, note, is_growing })))
    }
}

impl Desk {
    /// Keeps a page in the place of an older one, and no more than fit.
    fn keep(&mut self, page: KeptPage) {
        self.pages.retain(|kept| kept.asked != page.asked);
        self.pages.push_back(page);
        let bytes = |pages: &VecDeque<KeptPage>| {
            pages.iter().map(|kept| kept.response.bytes()).sum::<usize>()
        };
        while bytes(&self.pages) > KEPT_BYTES_MAX {
            self.pages.pop_front();
        }
    }

    fn line(&mut self, one: &Listed, is_judged: bool) -> ListedRecord {
        let is_shown = ["whole", "partial", "growing", "unfinished"].contains(&one.state.as_str());
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
            runs: one.runs_in_words(),
            result: one.result.clone(),
            verdicts: if is_judged && is_whole { self.verdicts(one) } else { Vec::new() },
        }
    }

    /// The verdicts of a record, worked out once.
    fn verdicts(&mut self, one: &Listed) -> Verdicts {
        let key = (one.id.clone(), one.bytes);
        if let Some(known) = self.verdicts.get(&key) {
            return known.clone();
        }
        let found = verdicts(&one.folder).unwrap_or_default();
        memory::give_back();
        if self.verdicts.len() >= KEPT_MAX {
            self.verdicts.clear();
        }
        self.verdicts.insert(key, found.clone());
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
