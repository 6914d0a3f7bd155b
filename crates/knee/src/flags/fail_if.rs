//! `--fail-if`: an exit status for verdicts, so that a script or CI can act on them.

use std::process::ExitCode;

use analysis::{Comparison, Verdict};
use clap::ValueEnum;
use host::terminal::talk;
use reports::verdicts_in_words;

/// Exit status of a comparison with a verdict that `--fail-if` names. 1 and 2 mean that something
/// went wrong while measuring.
const FAILED: u8 = 3;

/// The verdicts that make knee fail.
#[derive(clap::Args, Debug)]
pub struct FailIf {
    /// Exit with status 3 if a cell has this verdict
    ///
    /// The verdict of the deciding metric counts. Several verdicts are separated by commas.
    #[arg(long, value_enum, value_name = "VERDICT", value_delimiter = ',', hide_short_help = true)]
    fail_if: Vec<Condition>,
}

/// A verdict that a script may act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Condition {
    /// A variant is slower, or worse
    Slower,
    /// A variant is slower or worse by the smallest effect that matters, or more
    ClearlySlower,
    /// A variant is faster, or better
    Faster,
    /// A variant differs, in either direction
    Changed,
    /// It cannot be told, or there is no verdict
    Undecided,
}

impl Condition {
    fn is_met(self, verdict: &Verdict) -> bool {
        match self {
            Condition::Slower => matches!(verdict, Verdict::Worse { .. }),
            Condition::ClearlySlower => matches!(verdict, Verdict::Worse { at_least: true }),
            Condition::Faster => matches!(verdict, Verdict::Better { .. }),
            Condition::Changed => verdict.is_change(),
            Condition::Undecided => !verdict.is_change() && *verdict != Verdict::Same,
        }
    }
}

impl FailIf {
    /// Whether any verdict is asked for.
    pub fn is_given(&self) -> bool {
        !self.fail_if.is_empty()
    }

    /// The exit status of a comparison; names the verdicts that made it fail.
    pub fn status(&self, comparison: &Comparison) -> ExitCode {
        let is_met = |verdict: &Verdict| self.fail_if.iter().any(|one| one.is_met(verdict));
        let met = verdicts_in_words(comparison, is_met);
        for words in &met {
            talk(format_args!("--fail-if: {words}"));
        }
        if met.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_names_its_verdicts() {
        let verdicts = [
            Verdict::Worse { at_least: true },
            Verdict::Worse { at_least: false },
            Verdict::Better { at_least: true },
            Verdict::More { at_least: false },
            Verdict::Same,
            Verdict::CannotTell { more: None, why: String::new() },
            Verdict::NotInterleaved,
            Verdict::Unjudged { needs: 4, why: String::new() },
        ];
        let check = |condition: Condition, expected: &str| {
            let met =
                verdicts.iter().map(|verdict| u8::from(condition.is_met(verdict)).to_string());
            assert_eq!(met.collect::<String>(), expected, "{condition:?}");
        };
        check(Condition::Slower, "11000000");
        check(Condition::ClearlySlower, "10000000");
        check(Condition::Faster, "00100000");
        check(Condition::Changed, "11110000");
        check(Condition::Undecided, "00000111");
    }
}
