//! Interrupts under search, pinned by small cases: each with what can come of it, in how many
//! states, in both memory models.

use engines::checker::{Checked, Fault, Memory, Options, Searched, Setup, search};
use machine::{Atom, Field, IpiTarget, Machine, Native, Ordering, Region, Until, image};

image! {
    struct Words {
        asked: [Atom<u32>; 2],
        answered: [Atom<u32>; 2],
        /// Plain: of each task, and of the handler that interrupts it.
        own: [Field<u32>; 2],
        seen: Field<u32>,
    }
}

type Part<'a> = &'a dyn Fn(&Checked, &Words, usize);

fn searched(task: Part, interrupted: Part, memory: Memory, last: fn(&Words) -> bool) -> Searched {
    let region = Region::new(4096).unwrap();
    let words = &region.array::<Words>("words", 1)[0];
    let setup = Setup {
        region: &region,
        nodes: &[0, 0],
        task: &|m, cpu| task(m, words, cpu),
        interrupted: Some(&|m, cpu| interrupted(m, words, cpu)),
        last: &|| if last(words) { Ok(()) } else { Err("the last words".to_string()) },
        fifo: false,
        alike: false,
    };
    search(&setup, &Options { memory, ..Options::default() }).unwrap()
}

/// `expected`: the word for what goes wrong, or nothing, and the number of states where
/// nothing does, without and with store buffers.
#[track_caller]
fn check(task: Part, interrupted: Part, last: fn(&Words) -> bool, expected: [(&str, u64); 2]) {
    let found = [Memory::SequentiallyConsistent, Memory::TotalStoreOrder].map(|memory| {
        let searched = searched(task, interrupted, memory, last);
        match searched.failure {
            None => ("", searched.states),
            Some(failure) => (failure.fault.word(), 0),
        }
    });
    assert_eq!(found, expected);
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
fn tasks_that_wait_for_each_other_are_interrupted_meanwhile() {
    let both = |m: &Checked, words: &Words, cpu| {
        ask(m, words, cpu);
        wait(m, words, cpu);
    };
    check(&both, &answer, |_| true, [("", 49), ("", 83)]);
}

#[test]
fn tasks_that_do_not_listen_while_they_wait_deadlock() {
    let both = |m: &Checked, words: &Words, cpu| {
        ask(m, words, cpu);
        m.with_irqs_off(|| wait(m, words, cpu));
    };
    check(&both, &answer, |_| true, [("deadlock", 0); 2]);
}

#[test]
fn who_has_ended_is_an_idle_cpu_that_answers_still() {
    let one = |m: &Checked, words: &Words, cpu| {
        if cpu == 0 {
            ask(m, words, cpu);
            wait(m, words, cpu);
        }
    };
    check(&one, &answer, |_| true, [("", 7), ("", 9)]);
}

#[test]
fn nobody_answers_who_was_not_interrupted() {
    let one = |m: &Checked, words: &Words, cpu| {
        if cpu == 0 {
            words.asked[1].store(m, 1, Ordering::Release);
            wait(m, words, cpu);
        }
    };
    check(&one, &answer, |_| true, [("deadlock", 0); 2]);
}

/// What a handler does to plain fields of its task is ordered with them, what it does for
/// others is not.
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

/// In a section that is not interrupted it comes afterwards; at any point outside it can come.
#[test]
fn an_interrupt_comes_at_any_point_but_not_in_a_masked_section() {
    let task = |masked: bool| {
        move |m: &Checked, words: &Words, cpu: usize| {
            if cpu == 0 {
                return m.send_ipi(IpiTarget::One(1));
            }
            let section = || {
                words.own[1].set(m, 1);
                let _ = words.asked[1].load(m, Ordering::Relaxed);
                words.own[1].set(m, 0);
            };
            if masked { m.with_irqs_off(section) } else { section() }
        }
    };
    let see = |m: &Checked, words: &Words, _: usize| words.seen.set(m, words.own[1].get(m));
    let never = |words: &Words| words.seen.get(&Native::new(0, 0)) == 0;
    check(&task(false), &see, never, [("wrong end", 0); 2]);
    check(&task(true), &see, never, [("", 5); 2]);
}

#[test]
fn a_failure_names_the_interrupt_among_its_steps() {
    let task = |m: &Checked, _: &Words, cpu| {
        if cpu == 0 {
            m.send_ipi(IpiTarget::One(1));
        }
    };
    let fail = |_: &Checked, _: &Words, _: usize| panic!("interrupted");
    let found = searched(&task, &fail, Memory::SequentiallyConsistent, |_| true);
    let failure = found.failure.unwrap();
    assert!(matches!(failure.fault, Fault::Panicked(_)));
    assert_eq!(failure.schedule.to_string(), "0.1i");
    assert!(failure.steps.last().unwrap().contains("idle is interrupted"), "{:?}", failure.steps);
}
