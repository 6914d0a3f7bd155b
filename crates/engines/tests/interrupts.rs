//! Interrupts under search, pinned by small cases: the expected fault of each, or its number of
//! states, in both memory models.

use engines::checker::{Checked, Fault, Memory, Options, SearchResult, Setup, search};
use machine::{Atom, Field, IpiTarget, Machine, Native, Ordering, Region, Until, image};

image! {
    struct Words {
        asked: [Atom<u32>; 2],
        answered: [Atom<u32>; 2],
        /// Plain: used by each task and by its interrupt handler.
        own: [Field<u32>; 2],
        seen: Field<u32>,
    }
}

type Body<'a> = &'a dyn Fn(&Checked, &Words, usize);

fn searched(
    task: Body,
    handler: Body,
    memory: Memory,
    is_right: fn(&Words) -> bool,
) -> SearchResult {
    let region = Region::new(4096).unwrap();
    let words = &region.array::<Words>("words", 1)[0];
    let setup = Setup {
        region: &region,
        nodes: &[0, 0],
        task: &|m, cpu| task(m, words, cpu),
        ipi_handler: Some(&|m, cpu| handler(m, words, cpu)),
        final_check: &|| if is_right(words) { Ok(()) } else { Err("wrong words".to_string()) },
        bypasses: None,
        symmetric: false,
    };
    search(&setup, &Options { memory, ..Options::default() }).unwrap()
}

/// `expected`: the word of the fault, or none and the number of states; without store buffers,
/// then with them.
#[track_caller]
fn check(task: Body, handler: Body, is_right: fn(&Words) -> bool, expected: [(&str, u64); 2]) {
    let results = [Memory::SequentiallyConsistent, Memory::TotalStoreOrder].map(|memory| {
        let searched = searched(task, handler, memory, is_right);
        match searched.failure {
            None => ("", searched.states),
            Some(failure) => (failure.fault.word(), 0),
        }
    });
    assert_eq!(results, expected);
}

fn ask(m: &Checked, words: &Words, cpu: usize) {
    words.asked[1 - cpu].store(m, 1, Ordering::Release);
    m.send_ipi(IpiTarget::One(1 - cpu));
}

fn wait(m: &Checked, words: &Words, cpu: usize) {
    m.await_until(&words.answered[1 - cpu], Until::equals(1), Ordering::Acquire);
}

fn answer(m: &Checked, words: &Words, cpu: usize) {
    if words.asked[cpu].load(m, Ordering::Acquire) == 1 {
        words.answered[cpu].store(m, 1, Ordering::Release);
    }
}

#[test]
fn tasks_that_wait_for_each_other_take_interrupts() {
    let both = |m: &Checked, words: &Words, cpu| {
        ask(m, words, cpu);
        wait(m, words, cpu);
    };
    check(&both, &answer, |_| true, [("", 49), ("", 83)]);
}

#[test]
fn tasks_that_wait_for_each_other_with_interrupts_off_deadlock() {
    let both = |m: &Checked, words: &Words, cpu| {
        ask(m, words, cpu);
        m.with_irqs_off(|| wait(m, words, cpu));
    };
    check(&both, &answer, |_| true, [("deadlock", 0); 2]);
}

#[test]
fn a_task_that_has_ended_is_an_idle_cpu_that_still_answers() {
    let task = |m: &Checked, words: &Words, cpu| {
        if cpu == 0 {
            ask(m, words, cpu);
            wait(m, words, cpu);
        }
    };
    check(&task, &answer, |_| true, [("", 7), ("", 9)]);
}

#[test]
fn a_cpu_that_was_not_interrupted_does_not_answer() {
    let task = |m: &Checked, words: &Words, cpu| {
        if cpu == 0 {
            words.asked[1].store(m, 1, Ordering::Release);
            wait(m, words, cpu);
        }
    };
    check(&task, &answer, |_| true, [("deadlock", 0); 2]);
}

/// A handler's plain accesses are ordered with those of its own task, and not with those of the
/// task that sent the interrupt.
#[test]
fn a_handler_runs_as_its_task_and_orders_nothing_for_others() {
    let own = |m: &Checked, words: &Words, cpu| {
        if cpu == 0 {
            ask(m, words, cpu);
        } else {
            words.own[1].set(m, 1);
            m.work(1);
            words.own[1].set(m, words.own[1].get(m) + 1);
        }
    };
    let count = |m: &Checked, words: &Words, cpu: usize| {
        words.own[cpu].set(m, words.own[cpu].get(m) + 10);
    };
    check(&own, &count, |words| words.own[1].get(&Native::new(0, 0)) == 12, [("", 8), ("", 10)]);
    let others = |m: &Checked, words: &Words, cpu| {
        if cpu == 0 {
            words.own[0].set(m, 1);
            m.send_ipi(IpiTarget::Others);
        }
    };
    let look = |m: &Checked, words: &Words, _: usize| {
        let _ = words.own[0].get(m);
    };
    check(&others, &look, |_| true, [("race", 0); 2]);
}

/// An interrupt that is sent during a section with interrupts off comes after it.
#[test]
fn an_interrupt_comes_at_any_point_except_with_interrupts_off() {
    let task = |irqs_off: bool| {
        move |m: &Checked, words: &Words, cpu: usize| {
            if cpu == 0 {
                return m.send_ipi(IpiTarget::One(1));
            }
            let section = || {
                words.own[1].set(m, 1);
                let _ = words.asked[1].load(m, Ordering::Relaxed);
                words.own[1].set(m, 0);
            };
            if irqs_off { m.with_irqs_off(section) } else { section() }
        }
    };
    let look = |m: &Checked, words: &Words, _: usize| words.seen.set(m, words.own[1].get(m));
    let nothing_seen = |words: &Words| words.seen.get(&Native::new(0, 0)) == 0;
    check(&task(false), &look, nothing_seen, [("final state", 0); 2]);
    check(&task(true), &look, nothing_seen, [("", 5); 2]);
}

#[test]
fn a_failure_names_the_interrupt_among_its_steps() {
    let task = |m: &Checked, _: &Words, cpu| {
        if cpu == 0 {
            m.send_ipi(IpiTarget::One(1));
        }
    };
    let fail = |_: &Checked, _: &Words, _: usize| panic!("interrupted");
    let searched = searched(&task, &fail, Memory::SequentiallyConsistent, |_| true);
    let failure = searched.failure.unwrap();
    assert!(matches!(failure.fault, Fault::Panicked(_)));
    assert_eq!(failure.schedule.to_string(), "0.1i");
    assert!(failure.steps.last().unwrap().contains("idle is interrupted"), "{:?}", failure.steps);
}
