//! File locks natively, in every design: a single task plays all owners and compares with a model.

use algorithms::locks::ticket::Ticket;
use algorithms::mechanisms::{
    ListedMechanism, Mechanism, Scenario, Visitor, operations, visit_over,
};
use machine::{Native, Region};

struct SingleTask;

impl Visitor for SingleTask {
    type Out = ();

    fn mechanism<X: Mechanism>(self) {
        let settings = Scenario::new(1, 1).settings(ListedMechanism::named(X::NAME).unwrap());
        for (name, design) in X::DESIGNS {
            let region = Region::new(X::bytes(design, 1, &settings)).unwrap();
            let (mechanism, m) = (X::new(&region, design.clone(), 1, &settings), Native::new(0, 0));
            operations(&mechanism, &m, 0, 1);
            assert_eq!(mechanism.check(&m, 1), Ok(()), "{name}");
        }
    }
}

#[test]
fn a_single_task_that_plays_all_owners_gets_the_answers_of_the_model() {
    visit_over::<Ticket, _>("file_locks", SingleTask).unwrap();
}
