//! Records as things: what a list says of each folder, labels and notes, and removal.

use super::*;

/// What the list says of the folders that are no finished records: state and reason.
fn others(place: &Place) -> Vec<(String, String)> {
    let index = Index::open(&place.store, &place.cache()).unwrap();
    index.others().unwrap().into_iter().map(|other| (other.state, other.reason)).collect()
}

#[track_caller]
fn check_other(place: &Place, state: &str, reason: &str) {
    let others = others(place);
    assert_eq!(others.len(), 1, "{others:?}");
    assert_eq!(others[0].0, state, "{others:?}");
    assert!(others[0].1.contains(reason), "{others:?}");
    assert!(place.listed().is_empty());
}

#[test]
fn a_record_that_is_written_or_was_left_behind_is_listed_with_its_runs() {
    let place = Place::new();
    let mut growing = place.begin(0);
    add(&mut growing, 5);
    check_other(&place, "growing", "a knee is writing it");
    drop(growing);
    let refused = store::annotate(&place.hidden(), Some("x"), None).unwrap_err();
    assert!(refused.to_string().contains("is not finished"), "{refused}");
    check_other(&place, "unfinished", "--resume does the missing runs");
    let index = Index::open(&place.store, &place.cache()).unwrap();
    let other = &index.others().unwrap()[0];
    assert_eq!((other.runs, other.planned, other.id.as_str()), (5, PLANNED, golden::ID));
}

#[test]
fn damaged_and_foreign_records_are_listed_with_the_reason() {
    let place = Place::new();
    let folder = place.finished(5);
    let record = folder.join("record.json");
    let text = fs::read_to_string(&record).unwrap();
    for (changed, state, reason) in [
        (text.replace("\"format\": 1", "\"format\": 999"), "foreign", "use a newer knee"),
        (text[..text.len() / 2].to_string(), "damaged", "record.json: reading a record"),
        (
            text.replace(golden::ID, "20261120-115530-000000"),
            "damaged",
            "has the id 20261120-115530-00",
        ),
    ] {
        assert_ne!(changed, text);
        fs::write(&record, changed).unwrap();
        check_other(&place, state, reason);
    }
    fs::remove_file(&record).unwrap();
    check_other(&place, "damaged", "has neither record.json nor plan.json");
}

#[test]
fn a_record_in_the_folder_of_another_id_is_refused_and_under_any_other_name_opened() {
    let place = Place::new();
    let folder = place.finished(5);
    let renamed = folder.with_file_name("20261120-115530-ffffff");
    copy(&folder, &renamed);
    let error = format!("{:#}", store::open(&renamed).unwrap_err());
    assert!(error.contains("is not the name of its folder"), "{error}");
    let copied = folder.with_file_name("before the change");
    copy(&folder, &copied);
    assert_eq!(store::open(&copied).unwrap().record.id, golden::ID);
    assert_eq!(place.listed(), [folder]);
}

/// A record that starts at this time, with these random digits in its id.
fn record_at(place: &Place, time: &str, digits: u32) -> String {
    let started: jiff::Timestamp = time.parse().unwrap();
    let mut plan = golden::plan();
    plan.sessions[0].started = started;
    let mut growing = place.store.begin(plan, Id::new(started, digits)).unwrap();
    add(&mut growing, 1);
    let folder = growing.finish(golden::at(1)).unwrap().unwrap();
    folder.file_name().unwrap().to_str().unwrap().to_string()
}

#[test]
fn the_last_record_is_the_last_even_within_a_second_and_filters_choose() {
    let place = Place::new();
    let first = record_at(&place, "2026-11-20T12:00:00.1Z", 0xffffff);
    let second = record_at(&place, "2026-11-20T12:00:00.2Z", 0);
    let third = record_at(&place, "2026-11-21T12:00:00Z", 1);
    store::annotate(&place.store.root().join("ff").join(&first), Some("x"), None).unwrap();
    let index = Index::open(&place.store, &place.cache()).unwrap();
    let ids = |filter: Filter| -> Vec<String> {
        let matching = index.matching(&filter, 9);
        assert_eq!(matching.len(), index.count(&filter));
        matching.into_iter().map(|listed| listed.id).collect()
    };
    let some = |text: &str| Some(text.to_string());
    assert_eq!(ids(Filter::default()), [third.clone(), second.clone(), first.clone()]);
    let time = |text: &str| Some(text.parse().unwrap());
    let since = time("2026-11-20T12:00:00.2Z");
    assert_eq!(ids(Filter { since, ..Filter::default() }), [third.clone(), second.clone()]);
    assert_eq!(ids(Filter { until: since, ..Filter::default() }), std::slice::from_ref(&first));
    assert_eq!(ids(Filter { label: some("x"), ..Filter::default() }), [first]);
    assert_eq!(ids(Filter { workload: some("posix_lock_shared"), ..Filter::default() }).len(), 3);
    assert!(ids(Filter { workload: some("posix_lock"), ..Filter::default() }).is_empty());
    assert!(ids(Filter { host: some("nobody"), ..Filter::default() }).is_empty());
}

#[test]
fn a_label_and_a_note_change_nothing_else() {
    let place = Place::new();
    let folder = place.finished(5);
    let path = folder.join("record.json");
    let text = fs::read_to_string(&path).unwrap();
    // A newer knee wrote a field that this one does not know.
    fs::write(&path, text.replacen('{', "{\n  \"of_the_future\": [1.5, null],", 1)).unwrap();
    let before = store::open(&folder).unwrap();
    store::annotate(&folder, Some("before"), Some("slow \"disk\"\n")).unwrap();
    let after = store::open(&folder).unwrap();
    assert_eq!(
        (after.record.label.as_str(), after.record.note.as_str()),
        ("before", "slow \"disk\"\n")
    );
    assert_eq!((&after.runs, &after.record.warnings), (&before.runs, &before.record.warnings));
    assert!(store::alteration(&after).is_none());
    assert!(fs::read_to_string(&path).unwrap().contains("of_the_future"));
    let listed = Index::open(&place.store, &place.cache()).unwrap().newest(1);
    assert_eq!(listed[0].label, "before");
    store::annotate(&folder, Some(""), Some("")).unwrap();
    assert_eq!(store::open(&folder).unwrap().record, before.record);
}

#[test]
fn removing_a_record_leaves_files_that_are_not_its_own() {
    let place = Place::new();
    let growing = place.begin(0);
    let refused = store::remove(&place.hidden()).unwrap_err();
    assert!(format!("{refused:#}").contains("a knee is writing it"));
    drop(growing);
    assert!(store::remove(&place.hidden()).unwrap());
    let folder = place.finished(5);
    fs::write(folder.join("mine.txt"), "").unwrap();
    assert!(!store::remove(&folder).unwrap());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_file(folder.join("mine.txt")).unwrap();
    // What an earlier attempt left can be removed too.
    assert!(store::remove(&folder).unwrap());
    assert!(place.listed().is_empty() && others(&place).is_empty());
    assert!(store::remove(Path::new("/")).is_err());
}
