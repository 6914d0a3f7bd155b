//! Which assumption decides: of a host on which all numbers are known but one, that one or none.

use described_hosts::{DescribedHost, InRange};
use studies::simulations::decided::{Compared, DecidingNumber};
use studies::simulations::{Conditions, LockLoad, point};
use studies::{MechanismDesign, Subject};

/// The laptop, of which only this number is not known.
fn unknown(number: &str) -> DescribedHost {
    let host = described_hosts::find("skylake-4").unwrap();
    let others: Vec<&str> = host.ranges().filter(|name| *name != number).collect();
    host.fixed(&others, InRange::Middle)
}

/// What decides about additions by compare-and-exchange over those by one instruction.
fn decided(host: &DescribedHost) -> (Vec<DecidingNumber>, [f64; 2]) {
    let subject = |design| Subject::Mechanism(MechanismDesign::new("counter", design).unwrap());
    let subjects = ["compare", "add"].map(subject);
    let conditions = Conditions { draws: 4, ..Conditions::new(host, 1, 300_000_000) };
    let load = LockLoad::steady(0, 0, 0);
    let [of, over] = [&subjects[0], &subjects[1]];
    let point = |subject| point(subject, load, &conditions, 4, 4).unwrap();
    let ratio = point(of).ratio_to(&point(over));
    let compared =
        Compared { subjects: [of, over], load, conditions: &conditions, cpus: 4, tasks: 4 };
    (compared.decided().unwrap(), [ratio.low, ratio.high])
}

#[test]
fn the_number_that_is_not_known_decides_and_measuring_it_leaves_what_seeds_do() {
    let (numbers, [low, high]) = decided(&unknown("costs.keep"));
    let [number] = &numbers[..] else { panic!("{numbers:?}") };
    assert_eq!((&*number.name, number.origin), ("costs.keep", "assumed"));
    assert_eq!(number.text, "0.1..0.15..0.2");
    // The more often an owner keeps the word, the more often its next attempt succeeds.
    assert!(number.at_low < number.at_high, "{number:?}");
    let left = number.measured.high / number.measured.low;
    assert!(left < (high / low).sqrt(), "{left} of {}", high / low);
}

#[test]
fn a_number_that_changes_nothing_does_not_decide() {
    for number in ["costs.park", "costs.interrupt_send", "transfer.node.load_memory"] {
        let (numbers, _) = decided(&unknown(number));
        assert!(numbers.is_empty(), "{number}: {numbers:?}");
    }
}
