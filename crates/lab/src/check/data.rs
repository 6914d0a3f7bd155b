//! What was searched and what was found, as data.

use answers::{CheckedAlgorithm, LanguageVerdict, Mutant, MutantFate, MutatedAlgorithm};
use engines::Unsupported;
use studies::checks::mutants::{CaughtMutant, Fate, JudgedMutant};
use studies::checks::{Besides, CheckResult, Verdict};

use super::{Judged, accepted, page};

/// A check as data.
pub fn checked(checked: &CheckResult) -> CheckedAlgorithm {
    let verdict = checked.verdict();
    let failure = if let Verdict::Wrong(failure) = verdict { Some(failure) } else { None };
    let not_checked = if let Verdict::NotChecked(why) = &verdict { Some(why) } else { None };
    CheckedAlgorithm {
        name: checked.name.clone(),
        verdict: verdict.word(),
        why: not_checked.map(|not_checked| not_checked.why.to_string()),
        way_out: not_checked.map(|not_checked| not_checked.way_out.to_string()),
        threads: checked.size.threads,
        acquires: checked.size.acquires,
        locks: checked.size.locks,
        memory: page::memory(checked.memory),
        holds_on: failure
            .filter(|_| checked.memory.reads_old())
            .map(|_| checked.holds_on.iter().map(|&memory| page::memory(memory)).collect()),
        by_language: checked.by_language.as_ref().map(besides),
        spurious_wake_ups: checked.by_itself.as_ref().map(besides),
        needs_spurious_wake_up: failure.map(|_| checked.is_spurious),
        states: checked.states,
        schedules: checked.schedules,
        coverage: checked.coverage.as_ref().map(page::coverage),
        steps: checked.steps,
        bypass: checked.fairness.as_ref().map(page::bypass_bounds),
        seconds: checked.seconds,
        complete: matches!(verdict, Verdict::Holds),
        accepted_races: checked.accepted.races.iter().map(accepted::race).collect(),
        lines_without_race: page::without_race(checked).to_vec(),
        counts_tries: checked.counts_tries,
        fault: failure.map(|failure| failure.fault.to_string()),
        schedule: failure.map(|failure| failure.schedule.to_string()),
        interleaving: failure.map(|failure| failure.steps.clone()),
        shortest: failure.map(|failure| failure.is_shortest),
    }
}

fn besides(other: &Besides) -> LanguageVerdict {
    match other {
        Besides::Holds(states) => {
            LanguageVerdict { verdict: "holds", states: Some(*states), why: None }
        }
        Besides::NotChecked(why) => {
            LanguageVerdict { verdict: "not checked", states: None, why: Some(why.why.to_string()) }
        }
    }
}

/// The mutants of an algorithm as data.
pub fn mutated(name: &str, judged: &Judged) -> MutatedAlgorithm {
    let name = name.to_string();
    match judged {
        Ok(judged) => {
            MutatedAlgorithm::Judged { name, mutants: judged.iter().map(mutant).collect() }
        }
        Err(Unsupported { why, way_out }) => MutatedAlgorithm::NotChecked {
            name,
            verdict: "not checked",
            why: why.to_string(),
            way_out: way_out.to_string(),
        },
    }
}

fn mutant(judged: &JudgedMutant) -> Mutant {
    let fate = match &judged.fate {
        Fate::Caught(CaughtMutant { fault, size, settings, choices, memory }) => {
            MutantFate::Caught {
                fault: fault.to_string(),
                threads: size.threads,
                acquires: size.acquires,
                locks: size.locks,
                settings: settings.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
                choices: choices.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect(),
                memory: page::memory(*memory),
            }
        }
        Fate::Equivalent(why) => MutantFate::Equivalent { why: why.to_string() },
        Fate::Survived => MutantFate::Survived,
    };
    Mutant {
        line: judged.mutant.site.line,
        source: judged.line.clone(),
        change: judged.mutant.change.to_string(),
        fate,
    }
}
