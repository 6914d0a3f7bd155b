//! Small replays of the incidents, beside what was reported.

use std::sync::Arc;

use studies::replays::{Incident, Reported, Standing, incidents, publications, replay};

fn incident(name: &str) -> Arc<Incident> {
    incidents().into_iter().find(|incident| incident.name == name).expect("it is listed")
}

#[test]
fn every_incident_says_where_its_numbers_come_from() {
    for incident in incidents() {
        let inputs = incident.model.inputs();
        assert!(
            !inputs.is_empty() && !incident.sources.is_empty() && !incident.limitations.is_empty()
        );
        for input in inputs {
            assert!(input.number.low <= input.number.high, "{}", input.name);
        }
        let targets = incident.targets.iter();
        let anchors = targets.filter(|target| target.standing == Standing::Anchor);
        assert!(anchors.count() <= usize::from(incident.fitted.is_some()), "{}", incident.name);
    }
}

/// Each file of publications/ is built in, and its points are possible on their hosts.
#[test]
fn every_publication_is_listed_and_names_known_locks_hosts_and_inputs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../publications");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let mut files: Vec<String> =
        files.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    files.sort();
    let listed: Vec<String> =
        publications().iter().map(|publication| publication.name.clone()).collect();
    assert_eq!(listed, files);
    for publication in publications() {
        assert!(!publication.limitations.is_empty(), "{}", publication.name);
    }
}

/// With one parameter fitted on 2 CPUs, the gain on 32 is of the reported order: 160 times were reported.
#[test]
fn the_gain_on_32_cpus_is_of_the_order_that_follows_from_that_on_2() {
    let replay = replay(&incident("I5"), 2, 1).unwrap();
    let flock02 = replay.rows.last().unwrap();
    let Reported::Ratio(reported) = flock02.target.reported else { panic!("a ratio was reported") };
    let factor = flock02.predicted.middle / reported;
    assert!((1.0 / 6.0..6.0).contains(&factor), "{factor}");
    // No null model predicts it.
    for null in [flock02.nulls.usl, flock02.nulls.queueing].map(Option::unwrap) {
        assert!(null / reported > 5.0, "{null}");
    }
}

/// The reporter's question: are there more interrupts, or does each cost more?
#[test]
fn a_repair_sends_more_interrupts_at_the_same_cost_each() {
    let replay = replay(&incident("I3"), 0, 1).unwrap();
    let [small, small_in_turn, large, large_in_turn] =
        [0, 1, 2, 3].map(|row| replay.rows[row].predicted.middle);
    assert!(1.05 < small && 1.05 < small_in_turn, "{small} {small_in_turn}");
    assert!(small < large_in_turn && small_in_turn < large_in_turn && large_in_turn < large);
    for row in replay.figure.unwrap().rows {
        let [_, counts_before, counts_after, us_before, us_after] = row[..] else {
            panic!("{row:?}");
        };
        assert!(counts_after > 5.0 * counts_before, "{row:?}");
        assert!((0.67..1.5).contains(&(us_after / us_before)), "{row:?}");
    }
}
