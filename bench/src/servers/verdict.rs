//! What was said of a server against what is true.

use super::answer::{Accusation, Answer};
use super::case::{Case, Kind};
use super::rates::Rates;
use super::truth::Truth;

/// Names beyond these are not read: a long list of functions says nothing.
const FUNCTIONS_MAX: usize = 5;

/// The judgement of one answer. What a case cannot be judged by is nothing.
#[derive(Default)]
pub struct Verdict {
    /// What was accused first.
    pub accused_first: String,
    pub first_right: Option<bool>,
    /// Whether the lock, line or thread has its name, where the program keeps one.
    pub name_right: Option<bool>,
    pub holder_right: Option<bool>,
    pub reason_right: Option<bool>,
    /// Whether a server without a limit was accused.
    pub accused: Option<bool>,
    /// Time to the answer beyond the time that knee was asked to look.
    pub over_s: f64,
    /// Why there is no answer.
    pub failure: Option<String>,
}

impl Verdict {
    /// The verdict on an answer.
    pub fn new(case: &Case, answer: &Answer, seconds: f64) -> Verdict {
        let accused_first = match answer.causes.first() {
            Some(first) => first.line(),
            None => "no cause".to_string(),
        };
        let mut verdict =
            Verdict { accused_first, over_s: answer.wall_s - seconds, ..Verdict::default() };
        if case.kind == Kind::Healthy {
            // Other programs do run on this host, beside a load that shares its CPUs.
            verdict.accused = Some(answer.causes.iter().any(|one| one.cause != "other_programs"));
            return verdict;
        }
        verdict.judge(&case.truth, answer);
        verdict
    }

    /// The verdict on a question without an answer: wrong in all that could be judged.
    pub fn failed(case: &Case, why: &anyhow::Error) -> Verdict {
        let mut verdict = Verdict {
            failure: Some(format!("{why:#}").replace(['\n', '|'], " ")),
            over_s: f64::NAN,
            ..Verdict::default()
        };
        if case.kind != Kind::Healthy {
            verdict.judge(&case.truth, &Answer { causes: Vec::new(), wall_s: 0.0 });
        }
        verdict
    }

    fn judge(&mut self, truth: &Truth, answer: &Answer) {
        let first = answer.causes.first();
        let is_true = |one: &Accusation| truth.causes.contains(&one.cause.as_str());
        self.first_right = Some(first.is_some_and(is_true));
        // Where another cause is as right, the lock may stand below it.
        let mut right = answer.causes.iter().filter(|one| is_true(one));
        let accusation = if truth.has_holder() {
            right.find(|one| one.cause.contains("lock"))
        } else {
            right.next()
        };
        let judged =
            |is_right: &dyn Fn(&Accusation) -> bool| Some(accusation.is_some_and(is_right));
        if !truth.names.is_empty() {
            self.name_right = judged(&|one| {
                let name = one.name.as_deref().unwrap_or_default();
                truth.names.iter().any(|wanted| names(name, wanted))
            });
        }
        if truth.has_holder() {
            self.holder_right = judged(&|one| {
                let mut held_in = one.held_in.iter().take(FUNCTIONS_MAX);
                held_in.any(|function| truth.holders.iter().any(|wanted| names(function, wanted)))
            });
            self.reason_right = judged(&|one| {
                one.main_reason().is_some_and(|reason| truth.reasons.contains(&reason))
            });
        }
    }

    /// Whether the lock, its holder and what that does are right.
    pub fn lock_right(&self) -> Option<bool> {
        let parts = [self.name_right, self.holder_right, self.reason_right];
        self.reason_right.map(|_| parts.into_iter().flatten().all(|right| right))
    }

    /// What is wrong, in words; empty where nothing is.
    pub fn misses(&self) -> String {
        if let Some(failure) = &self.failure {
            return failure.clone();
        }
        let parts = [
            ("first cause", self.first_right),
            ("name", self.name_right),
            ("holder", self.holder_right),
            ("reason", self.reason_right),
            ("accused", self.accused.map(|accused| !accused)),
        ];
        let wrong = parts.into_iter().filter(|(_, right)| *right == Some(false));
        wrong.map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    }
}

/// Whether a name that knee printed is this one: alone, or as a part of a path such as `server::append` or
/// `main.append`. `*part` is in any name that contains the part.
fn names(printed: &str, wanted: &str) -> bool {
    let is_between = |letter: char| !letter.is_alphanumeric() && letter != '_';
    match wanted.strip_prefix('*') {
        Some(part) => printed.contains(part),
        None => printed == wanted || printed.split(is_between).any(|part| part == wanted),
    }
}

/// All verdicts as CSV, one line each.
pub fn csv(verdicts: &[(&Case, Rates, Verdict)]) -> String {
    let mut text = "index,language,kind,variant,shape,threads,rate,rate_without_limit,accused_first,first_right,\
                    name_right,holder_right,reason_right,healthy_accused,over_s,wrong\n"
        .to_string();
    let cell = |right: Option<bool>| right.map_or(String::new(), |right| right.to_string());
    let quoted = |words: &str| format!("\"{}\"", words.replace('"', "'"));
    for (case, rates, verdict) in verdicts {
        let fields = [
            case.index.to_string(),
            case.language.word().to_string(),
            case.kind.word().to_string(),
            case.variant.clone(),
            case.shape.word().to_string(),
            case.threads.to_string(),
            format!("{:.1}", rates.with_limit),
            format!("{:.1}", rates.without_limit),
            quoted(&verdict.accused_first),
            cell(verdict.first_right),
            cell(verdict.name_right),
            cell(verdict.holder_right),
            cell(verdict.reason_right),
            cell(verdict.accused),
            format!("{:.1}", verdict.over_s),
            quoted(&verdict.misses()),
        ];
        text += &(fields.join(",") + "\n");
    }
    text
}
