//! Which orders of the listed locks are needed by C11, and the weakest that hold together.

use algorithms::locks::LOCKS;
use engines::checker::Memory;
use engines::{Ordered, Ordering};
use expect_test::expect;
use studies::Subject;
use studies::checks::orderings::{Judged, JudgedOrder, Orderings, judge};

fn orderings(name: &str, memory: Memory) -> Orderings {
    match judge(&Subject::lock(name).unwrap(), memory).unwrap() {
        Judged::Orders(orderings) => orderings,
        Judged::Faulty(size, failure) => panic!("{name} {size:?}: {}", failure.fault),
    }
}

fn word(ordered: Ordered, order: Ordering) -> String {
    match (ordered, order) {
        (Ordered::Fence, Ordering::Relaxed) => "none".to_string(),
        _ => format!("{order:?}"),
    }
}

/// `acquire of a load`, if it is needed; else what it can be.
fn line(one: &JudgedOrder) -> String {
    let word = |order| word(one.access.ordered, order);
    let (today, alone, in_set) = (word(one.today), word(one.alone), word(one.in_set));
    let mut line = today.clone();
    if alone != today {
        line += &format!(" -> {alone}");
    }
    if in_set != alone {
        line += &format!(", with others weaker {in_set}");
    }
    match one.on_x86.map(word) {
        Some(on_x86) if on_x86 != alone => line += &format!(" (x86: {on_x86})"),
        _ => {}
    }
    assert!(
        one.unknown.is_empty() && (one.alone == Ordering::Relaxed || !one.refutations.is_empty())
    );
    format!("    {line}: {}\n", one.line)
}

/// The locks whose orders are judged quickly; `knee check all --orderings` judges all.
#[test]
fn of_each_order_it_is_known_whether_it_is_needed() {
    let slow = [
        "hierarchical_clh",
        "per_node_read_write",
        "percpu_read_write_semaphore",
        "queued_read_write",
        "read_write_semaphore",
    ];
    let mut table = String::new();
    for lock in LOCKS.iter().filter(|lock| !slow.contains(&lock.name)) {
        let Orderings { accesses, set, .. } = orderings(lock.name, Memory::Rc11);
        assert!(set.failure.is_none(), "{}", lock.name);
        let sets = set.of.map_or("-".to_string(), |of| of.to_string());
        table += &format!("{}, weakest sets: {sets}\n", lock.name);
        accesses.iter().for_each(|one| table += &line(one));
    }
    expect![[r#"
        array, weakest sets: 1
            Acquire: m.await_until(self.turn(block, mine), Until::equals(mine), Ordering::Acquire);
            Release: self.turn(block, next).store(m, next, Ordering::Release);
        clh, weakest sets: 1
            AcqRel: let before = mem.tail.swap(m, mine, Ordering::AcqRel);
            Acquire: m.await_until(self.locked(before), Until::equals(0), Ordering::Acquire);
            Release: self.locked(mine).store(m, 0, Ordering::Release);
        cna, weakest sets: 1
            AcqRel: let before = mem.tail.swap(m, mine, Ordering::AcqRel);
            Release: self.0.node(before).next.store(m, mine, Ordering::Release);
            Acquire: m.await_until(&node.turn, Until::differs(0), Ordering::Acquire);
            Acquire: let mut next = node.next.load(m, Ordering::Acquire);
            Acquire: next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
            Release -> Relaxed: self.0.node(last).next.store(m, next, Ordering::Release);
            Release: return mem.tail.compare_exchange(m, mine, 0, Ordering::Release).is_ok();
            Release (x86: Relaxed): let unlocked = mem.tail.compare_exchange(m, mine, last, Ordering::Release).is_ok();
            Acquire: (before, waiter) = (waiter, self.0.node(waiter).next.load(m, Ordering::Acquire));
            Release: self.0.node(heir).turn.store(m, secondary, Ordering::Release);
        cohort, weakest sets: 1
            Acquire: m.await_until(&self.serving, Until::equals(mine), Ordering::Acquire);
            Release: self.serving.store(m, serving.wrapping_add(1), Ordering::Release);
        futex_mutex, weakest sets: 1
            Acquire: if mem.state.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
        mcs, weakest sets: 1
            AcqRel: let before = mem.tail.swap(m, mine, Ordering::AcqRel);
            Release: self.0.node(before).next.store(m, mine, Ordering::Release);
            Acquire: m.await_until(&node.locked, Until::differs(0), Ordering::Acquire);
            Acquire: let mut next = node.next.load(m, Ordering::Acquire);
            Release: if mem.tail.compare_exchange(m, mine, 0, Ordering::Release).is_ok() {
            Acquire: next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
            Release: self.0.node(next).locked.store(m, 1, Ordering::Release);
        parking, weakest sets: 1
            Acquire: if mem.state.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
            Release: if mem.state.swap(m, 0, Ordering::Release) == 2 {
            Acquire: 0 if mem.state.compare_exchange(m, 0, 1, Ordering::Acquire).is_ok() => return,
            Acquire: while mem.state.swap(m, 2, Ordering::Acquire) != 0 {
        per_cpu_read_write, weakest sets: 1
        queued, weakest sets: 1
            Acquire: match mem.word().compare_exchange(m, 0, LOCKED, Ordering::Acquire) {
            Release: mem.locked.store(m, 0, Ordering::Release);
            Acquire: word = mem.word().fetch_or(m, PENDING, Ordering::Acquire);
            Acquire: m.await_until(&mem.locked, Until::equals(0), Ordering::Acquire);
            AcqRel: let before = mem.tail.swap(m, mine as u16, Ordering::AcqRel);
            Release: self.0.node(before.into()).next.store(m, mine, Ordering::Release);
            Acquire (x86: Relaxed): m.await_until(&node.locked, Until::differs(0), Ordering::Acquire);
            Acquire: next = node.next.load(m, Ordering::Acquire);
            Acquire: let word = m.await_until(mem.word(), clear, Ordering::Acquire);
            Acquire: next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
            Release (x86: Relaxed): self.0.node(next).locked.store(m, 1, Ordering::Release);
            Acquire: && mem.word().compare_exchange(m, 0, LOCKED, Ordering::Acquire).is_ok()
        queued_paravirtual, weakest sets: 1
            Acquire: if lock.word().compare_exchange(m, 0, LOCKED.into(), Ordering::Acquire).is_err() {
            Release: if lock.locked.compare_exchange(m, LOCKED, 0, Ordering::Release).is_err() {
            Acquire (x86: Relaxed): mem.lock.locked.load(m, Ordering::Acquire);
            Release: mem.lock.locked.store(m, 0, Ordering::Release);
            AcqRel: let before = mem.lock.tail.swap(m, mine as u16, Ordering::AcqRel);
            Release: self.0.node(before.into()).next.store(m, mine, Ordering::Release);
            Acquire -> Relaxed: next = node.next.load(m, Ordering::Acquire);
            Acquire: next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
            Release (x86: Relaxed): heir.locked.store(m, 1, Ordering::Release);
            SeqCst (x86: none): m.fence(Ordering::SeqCst);
            Release -> Relaxed: mem.lock.locked.store(m, SLOW, Ordering::Release);
            Acquire -> Relaxed: if m.await_for(&node.locked, turn, Ordering::Acquire, LOADS).is_some() {
            SeqCst (x86: Relaxed): node.state.swap(m, HALTED, Ordering::SeqCst);
            SeqCst (x86: Relaxed): if node.locked.load(m, Ordering::SeqCst) == 0 {
            AcqRel (x86: Acquire): if mem.lock.locked.swap(m, SLOW, Ordering::AcqRel) == 0 {
            Acquire (x86: Relaxed): node.kicked.swap(m, 0, Ordering::Acquire);
            Release (x86: Relaxed): node.kicked.store(m, 1, Ordering::Release);
            Acquire: && lock.locked.compare_exchange(m, 0, LOCKED, Ordering::Acquire).is_ok()
            Acquire: if word.compare_exchange(m, PENDING, LOCKED.into(), Ordering::Acquire).is_ok() {
        test_and_set, weakest sets: 1
            Acquire: while mem.locked.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
            Release: mem.locked.store(m, 0, Ordering::Release);
        test_and_set_delayed, weakest sets: 1
        test_and_test_and_set, weakest sets: 1
            Acquire: while mem.locked.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
            Release: mem.locked.store(m, 0, Ordering::Release);
        ticket, weakest sets: 1
            Acquire: m.await_until(&mem.serving, Until::equals(mine), Ordering::Acquire);
            Release: mem.serving.store(m, serving.wrapping_add(1), Ordering::Release);
    "#]].assert_eq(&table);
}
