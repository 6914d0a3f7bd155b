//! Where a trace that goes on is cut: what its threads do there, so that one which sleeps across the cut is known after it.

use std::collections::HashMap;

use records::live::{Carried, CarriedTask, FoundDoing, FoundTask, GoroutineEvent, Trace};

use crate::timelines::{Behind, Doing, Segment, Timelines};

/// What goes on at the end of a trace. A thread that has ended, or has been lost since a gap, does not.
pub fn carried(trace: &Trace, lives: &Timelines) -> Carried {
    let Some(end) = trace.edges_ns.last().copied() else { return Carried::default() };
    let task = |(task, segments): (&u32, &Vec<Segment>)| {
        let last = segments.last().filter(|last| last.to == end)?;
        let found = FoundTask { at_ns: end, task: *task, does: does(&last.what) };
        Some(CarriedTask { found, since_ns: last.from })
    };
    Carried { tasks: lives.iter().filter_map(task).collect(), goroutines: goroutines(trace, end) }
}

fn does(what: &Doing) -> FoundDoing {
    match what {
        Doing::Runs => FoundDoing::Runs,
        Doing::CouldRun(Behind::Own) => FoundDoing::CouldRun,
        Doing::CouldRun(Behind::Other(name)) => FoundDoing::CouldRunBehind((*name).to_string()),
        Doing::CouldRun(Behind::Quota) => FoundDoing::Throttled,
        Doing::CouldRun(Behind::Idle) => FoundDoing::WakesUp,
        Doing::Waits(wait, _) => FoundDoing::Waits((*wait).clone()),
    }
}

/// The waits of goroutines that have not ended.
fn goroutines(trace: &Trace, end: u64) -> Vec<GoroutineEvent> {
    let mut waiting: HashMap<(u32, u64), GoroutineEvent> = HashMap::new();
    for event in &trace.goroutines {
        let process = trace.tasks.get(&event.task).map_or(0, |task| task.process);
        match event.waits_at {
            Some(_) => drop(waiting.insert((process, event.goroutine), *event)),
            None => drop(waiting.remove(&(process, event.goroutine))),
        }
    }
    let is_sure = |event: &GoroutineEvent| {
        !trace.gaps_ns.iter().any(|(begin, _)| (event.at_ns..end).contains(begin))
    };
    let mut waiting: Vec<GoroutineEvent> = waiting.into_values().filter(is_sure).collect();
    waiting.sort_by_key(|event| (event.at_ns, event.goroutine));
    waiting
}

#[cfg(test)]
mod tests {
    use records::live::{
        Arriving, Leaving, Left, Observation, StackTaken, Switch, TracedFunction, TracedStack,
        TracedTask, TracedWait, Woken,
    };

    use crate::observe_part;

    use super::*;

    const FUTEX: u64 = 0x1000;

    fn futex() -> TracedWait {
        TracedWait {
            call: "futex".to_string(),
            arguments: [FUTEX, 0],
            words: [2, 0, 1, 1, 0],
            ..TracedWait::default()
        }
    }

    fn switch(at_ns: u64, from: Option<(u32, Left)>, to: Option<(u32, Option<Woken>)>) -> Switch {
        let leaving = |(task, why)| Leaving { task, cpus_allowed: 2, unseen: None, ran_ns: 0, why };
        let from = from.map(leaving);
        let to = to.map(|(task, woken)| Arriving { task, woken });
        Switch { at_ns, from, to, ..Switch::default() }
    }

    /// Thread 2 waits from 20 to 80 for what thread 1 has, thread 3 is preempted by a hog from 30 on, and 4 ends at 25.
    fn whole() -> Trace {
        let task = |name: &str| TracedTask {
            process: 1,
            name: name.to_string(),
            waited: None,
            since_ns: 0,
        };
        let woken = Woken { at_ns: 80, waker: 1, futex: Some(FUTEX), by_signal: false };
        let preempted =
            Switch { other: "hog".to_string(), ..switch(30, Some((3, Left::Preempted)), None) };
        Trace {
            edges_ns: vec![10, 50, 100],
            tasks: [(1, task("a")), (2, task("b")), (3, task("c")), (4, task("d"))].into(),
            switches: vec![
                switch(12, None, Some((1, None))),
                switch(20, Some((2, Left::Waits(futex()))), None),
                switch(25, Some((4, Left::Ends)), None),
                preempted,
                switch(90, None, Some((2, Some(woken)))),
            ],
            stacks: vec![TracedStack {
                at_ns: 20,
                task: 2,
                why: StackTaken::Waits,
                frames: vec![0],
                is_whole: true,
                ..TracedStack::default()
            }],
            functions: vec![TracedFunction {
                name: "serve".to_string(),
                object: "server".to_string(),
                is_named: true,
            }],
            online_cpus: 2,
            ..Trace::default()
        }
    }

    /// The two parts of a trace that is cut at 50, as a watcher makes them.
    fn parts() -> (Observation, Observation) {
        let mut first = whole();
        let mut second = whole();
        first.edges_ns = vec![10, 50];
        first.switches.retain(|switch| switch.at_ns < 50);
        let (seen, carried) = observe_part(&first);
        second.edges_ns = vec![50, 100];
        second.switches.retain(|switch| switch.at_ns >= 50);
        second.found = carried.tasks.iter().map(|task| task.found.clone()).collect();
        second.tasks.retain(|task, _| carried.tasks.iter().any(|live| live.found.task == *task));
        for stack in &mut second.stacks {
            let since = carried.tasks.iter().find(|task| task.found.task == stack.task);
            assert_eq!(since.unwrap().since_ns, stack.at_ns);
            stack.at_ns = 50;
        }
        (seen, observe_part(&second).0)
    }

    #[test]
    fn two_parts_say_what_the_whole_says() {
        let (whole, _) = observe_part(&whole());
        let (first, second) = parts();
        for thread in &whole.threads {
            let of = |part: &Observation, window: usize| {
                let known = part.threads.iter().find(|known| known.task == thread.task);
                for time in &thread.states {
                    let other = known.and_then(|known| {
                        known.states.iter().find(|other| other.state == time.state)
                    });
                    let ns = other.map_or(0, |other| other.ns[0]);
                    assert_eq!(ns, time.ns[window], "{} {:?} {window}", thread.name, time.state);
                }
            };
            of(&first, 0);
            of(&second, 1);
        }
        assert_eq!(second.threads.len(), 3, "one has ended");
    }

    #[test]
    fn a_wait_across_the_cut_keeps_its_lock_and_its_holder() {
        let (_, second) = parts();
        let lock = &second.locks[0];
        assert_eq!(
            (lock.waits, lock.wait_ns[0]),
            (1, 40),
            "30 until it is woken, 10 until it runs"
        );
        assert_eq!(lock.name, "mutex waited for in serve");
        assert_eq!(lock.holder[0].ns, [30], "thread 1 runs until it gives it back");
    }

    #[test]
    fn goroutines_that_still_wait_are_carried() {
        let event =
            |at_ns, goroutine, waits_at| GoroutineEvent { at_ns, task: 1, goroutine, waits_at };
        let trace = Trace {
            goroutines: vec![
                event(11, 7, Some(FUTEX)),
                event(12, 8, Some(FUTEX)),
                event(15, 7, None),
                event(40, 9, Some(FUTEX)),
            ],
            gaps_ns: vec![(20, 30)],
            edges_ns: vec![10, 20, 30, 50],
            ..whole()
        };
        let (_, carried) = observe_part(&trace);
        assert_eq!(carried.goroutines, [event(40, 9, Some(FUTEX))]);
    }
}
