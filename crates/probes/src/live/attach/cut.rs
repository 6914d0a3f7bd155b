//! A look that goes on for hours: what was seen is given away from time to time, and what threads do then is kept.
//!
//!     edges:    |----|----|----|          cut: these windows are given away
//!     events:   ..................        those behind the last edge stay, with what each thread does there
//!
//! What an answer costs, and what windows have taken beyond their budget, is paid by the windows after it: they follow so much
//! less, or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{replace, take};

use records::live::{Carried, FoundDoing, StackTaken, Trace, TracedWait};

use super::{LiveWatch, WalkedStack, futex_of, name_stacks};
use crate::live::Followed;
use crate::live::host_use::own_cpu_ns;
use crate::live::user_stacks::variables;

/// A window pays for answers with this share of its CPU time: the rest is for following.
const PAID: f64 = 0.5;
/// With a debt of so many windows' payments, windows do nothing but pay.
const DEBT_MAX: f64 = 4.0;

impl LiveWatch {
    /// Gives away what was seen up to the last edge, and goes on with what threads do there, which the answer finds out.
    pub fn cut<R>(&mut self, answer: impl FnOnce(Followed) -> (R, Carried)) -> R {
        let before = own_cpu_ns();
        self.drain();
        let (trace, walked) = self.up_to_edge();
        let followed = self.named(trace, &walked);
        let (answer, carried) = answer(followed);
        self.carry(walked, &carried);
        self.is_cut = true;
        let took_ns = own_cpu_ns().saturating_sub(before);
        self.own_ns += took_ns;
        self.answered_ns += took_ns;
        self.debt_ns += took_ns as f64;
        answer
    }

    /// Whether anything was followed since the last cut.
    pub fn has_windows(&self) -> bool {
        !self.trace.cpus.is_empty()
    }

    /// Whether windows have paid for all answers.
    pub fn is_paid(&self) -> bool {
        self.debt_ns <= 0.0
    }

    /// Whether this window does nothing but pay for those before it: then it has paid.
    pub(super) fn only_pays(&mut self) -> bool {
        let is_deep = self.payment_ns() >= self.budget_ns();
        if is_deep {
            self.debt_ns -= self.budget_ns();
        }
        is_deep
    }

    /// Owes what this window has taken beyond its budget: a look that goes on for hours must keep to it.
    pub(super) fn owe_excess(&mut self) {
        if self.is_cut {
            self.debt_ns += (self.cost_ns() - self.budget_ns()).max(0.0);
        }
    }

    /// Stops following until the next edge: nobody wants to know. That pays for everything.
    pub fn rest(&mut self) {
        if !self.is_paused {
            self.drain();
            self.end_window();
            self.pause();
        }
        self.debt_ns = 0.0;
    }

    /// What this window pays of what answers took, in ns.
    pub(super) fn payment_ns(&self) -> f64 {
        payment_ns(self.debt_ns, self.budget_ns())
    }

    /// Takes out what lies before the last edge.
    fn up_to_edge(&mut self) -> (Trace, Vec<WalkedStack>) {
        let at = self.trace.edges_ns.last().copied().unwrap_or_default();
        let next = Trace {
            edges_ns: vec![at],
            tasks: self.trace.tasks.clone(),
            online_cpus: self.trace.online_cpus,
            hertz: self.trace.hertz,
            ..Trace::default()
        };
        let mut trace = replace(&mut self.trace, next);
        let later = trace.switches.extract_if(.., |switch| switch.at_ns >= at);
        self.trace.switches = later.collect();
        self.trace.found = trace.found.extract_if(.., |found| found.at_ns >= at).collect();
        let later = trace.goroutines.extract_if(.., |event| event.at_ns >= at);
        self.trace.goroutines = later.collect();
        let mut walked = take(&mut self.walked);
        self.walked = walked.extract_if(.., |stack| stack.at_ns >= at).collect();
        self.switches_before = 0;
        (trace, walked)
    }

    /// A trace with the names of functions and variables.
    pub(super) fn named(&mut self, mut trace: Trace, walked: &[WalkedStack]) -> Followed {
        trace.variables = variables(&mut self.stacks, &self.addresses);
        let stacks = walked.iter().map(|stack| &stack.user[..]);
        let names = self.names.of(&self.stacks.programs, stacks);
        name_stacks(&mut trace, walked, self.symbols.as_ref(), &names, &self.pythons.functions);
        self.followed.missing.append(&mut self.stacks.missing);
        self.followed.missing.append(&mut self.pythons.missing);
        // Events of different CPUs reach the ring in about the order of time.
        trace.switches.sort_by_key(|switch| switch.at_ns);
        trace.found.sort_by_key(|found| found.at_ns);
        trace.stacks.sort_by_key(|stack| stack.at_ns);
        trace.goroutines.sort_by_key(|event| event.at_ns);
        let in_user = walked.iter().filter(|stack| !stack.user.is_empty());
        let (all, whole) = in_user.fold((0_u64, 0_u64), |(all, whole), stack| {
            (all + 1, whole + u64::from(stack.is_whole))
        });
        Followed {
            trace,
            whole_stacks: whole as f64 / all.max(1) as f64,
            lost_events: take(&mut self.followed.lost_events),
            missing: self.followed.missing.clone(),
            own_ns: take(&mut self.followed.own_ns),
        }
    }

    /// Goes on with what threads did at the cut: waits keep their stacks, and threads that have ended are forgotten.
    fn carry(&mut self, walked: Vec<WalkedStack>, carried: &Carried) {
        let at = self.trace.edges_ns[0];
        let since: BTreeMap<u32, u64> =
            carried.tasks.iter().map(|task| (task.found.task, task.since_ns)).collect();
        let goroutines: BTreeSet<(u32, u64)> =
            carried.goroutines.iter().map(|event| (event.task, event.at_ns)).collect();
        self.trace.tasks.retain(|task, known| since.contains_key(task) || known.since_ns >= at);
        let goes_on = |stack: &WalkedStack| {
            let is_thread = since.get(&stack.task) == Some(&stack.at_ns);
            stack.why == StackTaken::Waits
                && (is_thread || goroutines.contains(&(stack.task, stack.at_ns)))
        };
        let stacks = walked.into_iter().filter(goes_on);
        self.walked.extend(stacks.map(|stack| WalkedStack { at_ns: at, ..stack }));
        self.trace.found.extend(carried.tasks.iter().map(|task| task.found.clone()));
        for event in &carried.goroutines {
            self.trace.goroutines.push(records::live::GoroutineEvent { at_ns: at, ..*event });
        }
        self.addresses = self.addresses_of(carried);
        let processes: BTreeSet<u32> = self.trace.tasks.values().map(|task| task.process).collect();
        self.stacks.keep(&processes);
    }

    /// The addresses that what goes on is about.
    fn addresses_of(&self, carried: &Carried) -> BTreeSet<(u32, u64)> {
        let process = |task: &u32| Some(self.trace.tasks.get(task)?.process);
        let futex = |wait: &TracedWait| wait.call.starts_with("futex").then_some(wait.arguments[0]);
        let waits = carried.tasks.iter().filter_map(|task| match &task.found.does {
            FoundDoing::Waits(wait) => Some((process(&task.found.task)?, futex(wait)?)),
            _ => None,
        });
        let left =
            self.trace.switches.iter().filter_map(|switch| {
                Some((process(&switch.from.as_ref()?.task)?, futex_of(switch)?))
            });
        let of_goroutines = self.trace.goroutines.iter();
        let of_goroutines =
            of_goroutines.filter_map(|event| Some((process(&event.task)?, event.waits_at?)));
        let touched = self.walked.iter().flat_map(|stack| {
            let touches = stack.touches.iter().map(|touch| touch.address);
            touches.filter_map(|address| Some((process(&stack.task)?, address)))
        });
        waits.chain(left).chain(of_goroutines).chain(touched).collect()
    }
}

/// What a window of a budget pays of a debt: a part, or with a great one all that it has, so that it follows nothing.
fn payment_ns(debt_ns: f64, budget_ns: f64) -> f64 {
    let share = PAID * budget_ns;
    let payment = if debt_ns > DEBT_MAX * share { budget_ns } else { share };
    payment.min(debt_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_paid_for_by_the_windows_after_them() {
        /// Ten windows of 6 ms between answers of so many ms: what is owed after an hour, and how many windows followed
        /// something in the last minute.
        fn check(answer_ms: f64, debt_max: f64, followed: std::ops::RangeInclusive<u32>) {
            let (mut debt, mut number) = (0.0, 0);
            for screen in 0..1200 {
                debt += answer_ms;
                for _ in 0..10 {
                    let payment = payment_ns(debt, 6.0);
                    debt -= payment;
                    number += u32::from(screen >= 1180 && payment < 6.0);
                }
            }
            assert!(debt <= debt_max, "{answer_ms} ms: {debt} ms are owed");
            assert!(followed.contains(&number), "{answer_ms} ms: {number} windows followed");
        }
        check(5.0, 0.0, 200..=200);
        check(30.0, 0.0, 100..=160);
        check(45.0, 60.0, 50..=100);
        check(90.0, f64::INFINITY, 0..=0);
    }
}
