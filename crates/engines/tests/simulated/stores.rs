//! Orders of stores and later loads, as on x86.

use super::*;

/// Whether two tasks that each store to a word of their own, and then load the other's, both see no store. Each
/// has the other's word exclusively; the second one starts this much later.
fn both_miss(ordering: Ordering, later_ns: u64) -> bool {
    let misses = [const { Cell::new(false) }; 2];
    run(&host(1, 2), 2, &OPTIONS, |m, words, task| {
        let mut own_and_other = [&words.turn, &words.other];
        own_and_other.rotate_left(task);
        let [own, other] = own_and_other;
        other.fetch_add(m, 0, Ordering::Relaxed);
        m.work(1000 + task as u64 * later_ns);
        own.store(m, 1, ordering);
        misses[task].set(other.load(m, ordering) == 0);
        loop {
            m.work(1000);
            m.operation_done();
        }
    })
    .unwrap();
    misses.iter().all(Cell::get)
}

#[test]
fn a_later_load_may_pass_a_store_but_not_one_that_is_sequentially_consistent() {
    let any = |ordering| (0..300).any(|later_ns| both_miss(ordering, later_ns));
    assert!(any(Ordering::Release));
    assert!(!any(Ordering::SeqCst));
}
