//! The life of each thread, from the switches of the CPUs: it runs, or could run, or waits.
//!
//!     switch:        leaves ........ woken ....... arrives
//!     thread:  Runs  |   Waits       |  CouldRun  |  Runs
//!
//! Segments follow each other without a rest, from where a thread is first known to the end of the trace. Where nothing was
//! followed, there are none: after such a gap, a thread goes on with what it was found to do. A trace that goes on where
//! another was cut begins with what its threads were found to do there.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::slice::Iter;

use records::live::{
    Arriving, FoundDoing, FoundTask, Leaving, Left, Switch, Trace, TracedWait, Woken,
};

/// A part of a thread's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    pub from: u64,
    pub to: u64,
    pub what: Doing<'a>,
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing<'a> {
    Runs,
    CouldRun(Behind<'a>),
    /// It waits, until it is woken, if that was seen.
    Waits(&'a TracedWait, Option<Woken>),
}

/// What keeps a thread that could run from a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind<'a> {
    /// Another followed thread.
    Own,
    /// Another task, by name.
    Other(&'a str),
    /// The quota of its control group.
    Quota,
    /// Nothing: the CPU is idle and takes its time.
    Idle,
}

/// The segments of each thread, by its number.
pub type Timelines<'a> = BTreeMap<u32, Vec<Segment<'a>>>;

/// Follows each thread through the trace.
pub fn timelines(trace: &Trace) -> Timelines<'_> {
    let (Some(begin), Some(end)) = (trace.edges_ns.first(), trace.edges_ns.last()) else {
        return Timelines::new();
    };
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    for (task, known) in &trace.tasks {
        let since = (*begin).max(known.since_ns);
        let what = match &known.waited {
            Some(wait) => Doing::Waits(wait, None),
            None => Doing::CouldRun(Behind::Idle),
        };
        threads.insert(
            *task,
            Thread { done: Vec::new(), since, ran_since: since, what: Some(what), is_lost: false },
        );
    }
    let mut gaps = trace.gaps_ns.iter().peekable();
    let mut found = trace.found.iter().peekable();
    for switch in trace.switches.iter().filter(|switch| switch.at_ns < *end) {
        across_gaps(&mut threads, &mut gaps, &mut found, switch.at_ns);
        if let Some(from) = &switch.from
            && let Some(thread) = threads.get_mut(&from.task)
        {
            thread.leaves(switch, from);
        }
        if let Some(to) = &switch.to
            && let Some(thread) = threads.get_mut(&to.task)
        {
            thread.arrives(switch, to);
        }
    }
    across_gaps(&mut threads, &mut gaps, &mut found, *end);
    threads.into_iter().map(|(task, thread)| (task, thread.ended(*end))).collect()
}

/// Loses all threads at each gap that begins until then, and takes them up again where they are found.
fn across_gaps<'a>(
    threads: &mut BTreeMap<u32, Thread<'a>>,
    gaps: &mut Peekable<Iter<'a, (u64, u64)>>,
    found: &mut Peekable<Iter<'a, FoundTask>>,
    until: u64,
) {
    while let Some((from, _)) = gaps.next_if(|(from, _)| *from <= until) {
        while let Some(found) = found.next_if(|found| found.at_ns <= *from) {
            threads.get_mut(&found.task).into_iter().for_each(|thread| thread.find(found));
        }
        threads.values_mut().for_each(|thread| thread.lose(*from));
    }
    while let Some(found) = found.next_if(|found| found.at_ns <= until) {
        threads.get_mut(&found.task).into_iter().for_each(|thread| thread.find(found));
    }
}

/// A thread while its life is put together.
struct Thread<'a> {
    done: Vec<Segment<'a>>,
    since: u64,
    /// When it last got a CPU.
    ran_since: u64,
    /// `None` once it has ended.
    what: Option<Doing<'a>>,
    /// Whether nothing is known of it since a gap.
    is_lost: bool,
}

impl<'a> Thread<'a> {
    /// Loses the thread at the begin of a gap, unless it was first seen later.
    fn lose(&mut self, from: u64) {
        if self.done.is_empty() && self.since > from {
            return;
        }
        self.turn(from, None);
        self.is_lost = true;
    }

    fn find(&mut self, found: &'a FoundTask) {
        let is_new = self.done.is_empty() && found.at_ns <= self.since;
        if !self.is_lost && !is_new {
            return;
        }
        self.is_lost = false;
        self.since = found.at_ns;
        self.ran_since = found.at_ns;
        self.what = Some(match &found.does {
            FoundDoing::Runs => Doing::Runs,
            FoundDoing::CouldRun => Doing::CouldRun(Behind::Own),
            FoundDoing::CouldRunBehind(name) => Doing::CouldRun(Behind::Other(name)),
            FoundDoing::Throttled => Doing::CouldRun(Behind::Quota),
            FoundDoing::WakesUp => Doing::CouldRun(Behind::Idle),
            FoundDoing::Waits(wait) => Doing::Waits(wait, None),
        });
    }

    fn leaves(&mut self, switch: &'a Switch, from: &'a Leaving) {
        if self.is_lost {
            return;
        }
        // A thread that was found neither waiting nor running ran until now.
        if self.done.is_empty() && matches!(self.what, Some(Doing::CouldRun(Behind::Idle))) {
            self.what = Some(Doing::Runs);
        }
        if !matches!(self.what, None | Some(Doing::Runs)) {
            self.arrived_unseen(switch.at_ns, from);
        }
        let next = match &from.why {
            Left::Ends => None,
            Left::Throttled => Some(Doing::CouldRun(Behind::Quota)),
            Left::Preempted => Some(Doing::CouldRun(behind(switch, switch.to.is_some()))),
            Left::Waits(wait) => Some(Doing::Waits(wait, None)),
        };
        self.turn(switch.at_ns, next);
    }

    /// Kernels miss switches from the idle task: one that leaves had the CPU for as long as its CPU time says, or since it was
    /// woken.
    fn arrived_unseen(&mut self, at_ns: u64, from: &Leaving) {
        self.is_woken(from.unseen, at_ns, Behind::Idle);
        let is_known = from.ran_ns > 0 || !matches!(self.what, Some(Doing::Waits(..)));
        if is_known {
            let ran_ns = if from.ran_ns > 0 { from.ran_ns } else { at_ns - self.since };
            self.ran_since = at_ns.saturating_sub(ran_ns).max(self.since);
            self.turn(self.ran_since, Some(Doing::Runs));
        }
    }

    fn arrives(&mut self, switch: &'a Switch, to: &Arriving) {
        if self.is_lost {
            return;
        }
        self.is_woken(to.woken, switch.at_ns, behind(switch, switch.from.is_some()));
        self.ran_since = switch.at_ns;
        self.turn(switch.at_ns, Some(Doing::Runs));
    }

    /// Ends its wait, if it waits and the wake-up is its: then it could run until that instant.
    ///
    /// Another CPU may wake it while it still leaves its own: then it waited for no time.
    fn is_woken(&mut self, woken: Option<Woken>, until: u64, behind: Behind<'a>) {
        let Some(Doing::Waits(wait, _)) = self.what else { return };
        let Some(woken) = woken.filter(|woken| (self.ran_since..=until).contains(&woken.at_ns))
        else {
            return;
        };
        let what = Doing::Waits(wait, Some(woken));
        if woken.at_ns <= self.since {
            self.done.push(Segment { from: self.since, to: self.since, what: what.clone() });
        }
        self.what = Some(what);
        self.turn(woken.at_ns, Some(Doing::CouldRun(behind)));
    }

    fn turn(&mut self, at: u64, next: Option<Doing<'a>>) {
        if let Some(what) = self.what.take()
            && at > self.since
        {
            self.done.push(Segment { from: self.since, to: at, what });
        }
        self.since = self.since.max(at);
        self.what = next;
    }

    fn ended(mut self, end: u64) -> Vec<Segment<'a>> {
        self.turn(end, None);
        self.done
    }
}

/// What kept the CPU of a switch from a thread that could run.
fn behind(switch: &Switch, is_own: bool) -> Behind<'_> {
    match switch.other.as_str() {
        _ if is_own => Behind::Own,
        "" => Behind::Idle,
        other => Behind::Other(other),
    }
}

/// Whether a segment of a thread is nothing but the time that an idle CPU takes after the wait before it.
pub fn is_wake_up(wait: &Segment, segment: &Segment) -> bool {
    let waits = matches!(wait.what, Doing::Waits(..));
    waits && segment.what == Doing::CouldRun(Behind::Idle) && segment.from == wait.to
}

/// The segments of a thread that lie in a time, cut to it.
pub fn during<'s, 'a>(
    segments: &'s [Segment<'a>],
    from: u64,
    to: u64,
) -> impl Iterator<Item = (u64, u64, &'s Doing<'a>)> {
    let first = segments.partition_point(|segment| segment.to <= from);
    let inside = segments[first..].iter().take_while(move |segment| segment.from < to);
    inside.map(move |segment| (segment.from.max(from), segment.to.min(to), &segment.what))
}

/// What a thread did just before an instant.
pub fn before<'s, 'a>(segments: &'s [Segment<'a>], at: u64) -> Option<&'s Doing<'a>> {
    let first = segments.partition_point(|segment| segment.to <= at);
    Some(&segments[first.checked_sub(1)?].what)
}

#[cfg(test)]
mod tests {
    use records::live::TracedTask;

    use super::*;

    fn task(waited: Option<TracedWait>) -> TracedTask {
        TracedTask { process: 1, name: "t".to_string(), waited, since_ns: 0 }
    }

    #[test]
    fn a_thread_runs_waits_and_waits_for_a_cpu_without_gaps() {
        let wait = TracedWait { call: "futex".to_string(), ..TracedWait::default() };
        let leaves =
            |task, why| Some(Leaving { task, cpus_allowed: 2, unseen: None, ran_ns: 0, why });
        let switches = vec![
            Switch {
                at_ns: 20,
                from: leaves(1, Left::Waits(wait.clone())),
                to: Some(Arriving { task: 2, woken: None }),
                ..Switch::default()
            },
            Switch {
                at_ns: 50,
                from: leaves(2, Left::Preempted),
                to: Some(Arriving {
                    task: 1,
                    woken: Some(Woken { at_ns: 40, waker: 2, futex: None, by_signal: false }),
                }),
                ..Switch::default()
            },
        ];
        let trace = Trace {
            edges_ns: vec![10, 100],
            tasks: [(1, task(None)), (2, task(Some(wait.clone())))].into(),
            switches,
            ..Trace::default()
        };
        let lives = timelines(&trace);
        let woken = Some(Woken { at_ns: 40, waker: 2, futex: None, by_signal: false });
        let segment = |from, to, what| Segment { from, to, what };
        assert_eq!(
            lives[&1],
            [
                segment(10, 20, Doing::Runs),
                segment(20, 40, Doing::Waits(&wait, woken)),
                segment(40, 50, Doing::CouldRun(Behind::Own)),
                segment(50, 100, Doing::Runs),
            ]
        );
        assert_eq!(
            lives[&2],
            [
                segment(10, 20, Doing::Waits(&wait, None)),
                segment(20, 50, Doing::Runs),
                segment(50, 100, Doing::CouldRun(Behind::Own)),
            ]
        );
        let cut: Vec<(u64, u64)> = during(&lives[&1], 15, 45).map(|(a, b, _)| (a, b)).collect();
        assert_eq!(cut, [(15, 20), (20, 40), (40, 45)]);
    }

    #[test]
    fn after_a_gap_a_thread_goes_on_with_what_it_was_found_to_do() {
        let wait = TracedWait { call: "futex".to_string(), ..TracedWait::default() };
        let leaves = |at_ns| Switch {
            at_ns,
            from: Some(Leaving {
                task: 1,
                cpus_allowed: 2,
                unseen: None,
                ran_ns: 0,
                why: Left::Preempted,
            }),
            ..Switch::default()
        };
        let found = FoundTask { at_ns: 62, task: 1, does: FoundDoing::Waits(wait.clone()) };
        let woken = Some(Woken { at_ns: 80, waker: 2, futex: None, by_signal: false });
        let arrives =
            Switch { at_ns: 90, to: Some(Arriving { task: 1, woken }), ..Switch::default() };
        let trace = Trace {
            edges_ns: vec![10, 30, 60, 100],
            gaps_ns: vec![(30, 60)],
            tasks: [(1, task(None))].into(),
            // That at 61 comes before it is found.
            switches: vec![leaves(20), leaves(61), arrives],
            found: vec![found],
            ..Trace::default()
        };
        let segment = |from, to, what| Segment { from, to, what };
        assert_eq!(
            timelines(&trace)[&1],
            [
                segment(10, 20, Doing::Runs),
                segment(20, 30, Doing::CouldRun(Behind::Idle)),
                segment(62, 80, Doing::Waits(&wait, woken)),
                segment(80, 90, Doing::CouldRun(Behind::Idle)),
                segment(90, 100, Doing::Runs),
            ]
        );
    }

    #[test]
    fn a_thread_that_is_first_seen_after_a_gap_is_known_from_then_on() {
        let wait = TracedWait { call: "futex".to_string(), ..TracedWait::default() };
        let born = |since_ns| TracedTask { since_ns, ..task(None) };
        let leaves = Switch {
            at_ns: 80,
            from: Some(Leaving {
                task: 2,
                cpus_allowed: 2,
                unseen: None,
                ran_ns: 0,
                why: Left::Waits(wait.clone()),
            }),
            ..Switch::default()
        };
        let trace = Trace {
            edges_ns: vec![10, 30, 60, 100],
            gaps_ns: vec![(30, 60)],
            // Born in the gap and found at its end; born after it.
            tasks: [(1, born(58)), (2, born(70))].into(),
            found: vec![FoundTask { at_ns: 58, task: 1, does: FoundDoing::Waits(wait.clone()) }],
            switches: vec![leaves],
            ..Trace::default()
        };
        let segment = |from, to, what| Segment { from, to, what };
        let lives = timelines(&trace);
        assert_eq!(lives[&1], [segment(58, 100, Doing::Waits(&wait, None))]);
        assert_eq!(
            lives[&2],
            [segment(70, 80, Doing::Runs), segment(80, 100, Doing::Waits(&wait, None))]
        );
    }

    #[test]
    fn a_thread_that_is_woken_while_it_leaves_could_run_at_once() {
        let wait = TracedWait { call: "futex".to_string(), ..TracedWait::default() };
        let why = Left::Waits(wait.clone());
        let from = Leaving { task: 1, cpus_allowed: 2, unseen: None, ran_ns: 0, why };
        let woken = Some(Woken { at_ns: 19, waker: 2, futex: None, by_signal: false });
        let to = Arriving { task: 1, woken };
        let trace = Trace {
            edges_ns: vec![10, 50],
            tasks: [(1, task(None))].into(),
            switches: vec![
                Switch { at_ns: 20, from: Some(from), ..Switch::default() },
                Switch { at_ns: 30, to: Some(to), ..Switch::default() },
            ],
            ..Trace::default()
        };
        let segment = |from, to, what| Segment { from, to, what };
        assert_eq!(
            timelines(&trace)[&1],
            [
                segment(10, 20, Doing::Runs),
                segment(20, 20, Doing::Waits(&wait, woken)),
                segment(20, 30, Doing::CouldRun(Behind::Idle)),
                segment(30, 50, Doing::Runs),
            ]
        );
    }

    #[test]
    fn a_thread_that_leaves_unseen_ran_for_its_cpu_time() {
        let wait = TracedWait { call: "futex".to_string(), ..TracedWait::default() };
        let unseen = Some(Woken { at_ns: 30, waker: 2, futex: None, by_signal: false });
        let check = |unseen: Option<Woken>, ran_ns: u64, expected: &[(u64, u64, Doing)]| {
            let from = Leaving { task: 1, cpus_allowed: 2, unseen, ran_ns, why: Left::Ends };
            let trace = Trace {
                edges_ns: vec![10, 50],
                tasks: [(1, task(Some(wait.clone())))].into(),
                switches: vec![Switch { at_ns: 40, from: Some(from), ..Switch::default() }],
                ..Trace::default()
            };
            let expected = expected.iter().cloned();
            let expected: Vec<Segment> =
                expected.map(|(from, to, what)| Segment { from, to, what }).collect();
            assert_eq!(timelines(&trace)[&1], expected, "{ran_ns}");
        };
        let waits = || Doing::Waits(&wait, unseen);
        let wakes_up = Doing::CouldRun(Behind::Idle);
        check(unseen, 0, &[(10, 30, waits()), (30, 40, Doing::Runs)]);
        check(unseen, 4, &[(10, 30, waits()), (30, 36, wakes_up), (36, 40, Doing::Runs)]);
        check(unseen, 99, &[(10, 30, waits()), (30, 40, Doing::Runs)]);
        check(None, 4, &[(10, 36, Doing::Waits(&wait, None)), (36, 40, Doing::Runs)]);
        check(None, 0, &[(10, 40, Doing::Waits(&wait, None))]);
    }

    #[test]
    fn a_thread_that_could_run_stands_behind_others_a_quota_or_an_idle_cpu() {
        let leaves = |why| Some(Leaving { task: 1, cpus_allowed: 2, unseen: None, ran_ns: 0, why });
        let check = |why: Left, other: &str, expected: Behind| {
            let first = Switch { at_ns: 20, from: leaves(why), ..Switch::default() };
            let trace = Trace {
                edges_ns: vec![10, 30],
                tasks: [(1, task(None))].into(),
                switches: vec![Switch { other: other.to_string(), ..first }],
                ..Trace::default()
            };
            assert_eq!(timelines(&trace)[&1][1].what, Doing::CouldRun(expected));
        };
        check(Left::Preempted, "hog", Behind::Other("hog"));
        check(Left::Throttled, "", Behind::Quota);
        check(Left::Preempted, "", Behind::Idle);
    }
}
