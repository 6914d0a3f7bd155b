//! What this host allows, and what would disturb a measurement on it, each with the reason to care and a command
//! that helps. It looks and tries; it changes nothing.
//!
//! A check is one function of [`Facts`] and one line in the list of its group.

mod allows;
mod disturbs;
mod facts;
mod page;

use std::path::Path;

use facts::Facts;
use schemars::JsonSchema;
use serde::Serialize;

pub use page::page;

/// What a check found, with what the reader needs to judge it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// Whether this is about what the host allows or about what disturbs there.
    group: Group,
    /// What was looked at.
    name: &'static str,
    /// How bad it is.
    level: Level,
    /// What is the case, with the value.
    found: String,
    /// Why anybody should care.
    matters: &'static str,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The two questions of the verb, in the order in which they are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Group {
    Allows,
    Disturbs,
}

impl Group {
    const ALL: [Group; 2] = [Group::Allows, Group::Disturbs];

    fn title(self) -> &'static str {
        match self {
            Group::Allows => "What this host allows",
            Group::Disturbs => "What would disturb a measurement",
        }
    }

    fn checks(self) -> &'static [Check] {
        match self {
            Group::Allows => allows::CHECKS,
            Group::Disturbs => disturbs::CHECKS,
        }
    }
}

/// How bad it is; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// Results will be worse than they must be.
    Warn,
    /// Not possible here, or not told by this host.
    Missing,
    /// Worth knowing when reading results.
    Note,
    /// As it should be.
    Ok,
}

impl Level {
    const ALL: [Level; 4] = [Level::Warn, Level::Missing, Level::Note, Level::Ok];

    fn name(self) -> &'static str {
        match self {
            Level::Warn => "warn",
            Level::Missing => "missing",
            Level::Note => "note",
            Level::Ok => "ok",
        }
    }
}

/// One thing to look at.
struct Check {
    name: &'static str,
    matters: &'static str,
    /// Nothing where the question does not arise.
    judge: fn(&Facts) -> Option<Verdict>,
}

/// What one check says.
struct Verdict {
    level: Level,
    found: String,
    advice: Option<String>,
}

impl Verdict {
    fn ok(found: impl Into<String>) -> Verdict {
        Verdict { level: Level::Ok, found: found.into(), advice: None }
    }

    fn note(found: impl Into<String>) -> Verdict {
        Verdict { level: Level::Note, found: found.into(), advice: None }
    }

    fn warn(found: impl Into<String>) -> Verdict {
        Verdict { level: Level::Warn, found: found.into(), advice: None }
    }

    fn missing(found: impl Into<String>) -> Verdict {
        Verdict { level: Level::Missing, found: found.into(), advice: None }
    }

    fn advice(self, advice: impl Into<String>) -> Verdict {
        Verdict { advice: Some(advice.into()), ..self }
    }
}

/// Looks at this host for a little more than a second, and at a directory where workloads would work.
/// `has_bpf`: whether this binary has the BPF programs of `knee explain`.
pub fn examine(directory: Option<&Path>, has_bpf: bool) -> Vec<Finding> {
    findings(&Facts::gather(directory, has_bpf))
}

/// What all checks say, by group, the worst first in each.
fn findings(facts: &Facts) -> Vec<Finding> {
    let of_group = |group: Group| {
        let finding = move |check: &'static Check| {
            let Verdict { level, found, advice } = (check.judge)(facts)?;
            Some(Finding { group, name: check.name, level, found, matters: check.matters, advice })
        };
        let mut findings: Vec<_> = group.checks().iter().filter_map(finding).collect();
        findings.sort_by_key(|finding| finding.level);
        findings
    };
    Group::ALL.into_iter().flat_map(of_group).collect()
}

/// Judges one check and compares what it says: the level and what was found.
#[cfg(test)]
fn check(checks: &[Check], name: &str, facts: &Facts, expected: &str) {
    let check = checks.iter().find(|check| check.name == name).expect("a check of this name");
    let said = (check.judge)(facts).map_or("nothing".to_owned(), |verdict| {
        assert!(
            verdict.level != Level::Warn || verdict.advice.is_some(),
            "{name} warns without advice"
        );
        format!("{}: {}", verdict.level.name(), verdict.found)
    });
    assert_eq!(said, expected, "{name}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_one_name() {
        let checks: Vec<_> = Group::ALL.into_iter().flat_map(Group::checks).collect();
        for check in &checks {
            let of_this_name = checks.iter().filter(|other| other.name == check.name).count();
            assert_eq!(of_this_name, 1, "{} is there twice", check.name);
        }
    }

    #[test]
    fn the_worst_finding_of_a_group_comes_first() {
        let findings = findings(&facts::troubled());
        for group in Group::ALL {
            let levels = findings.iter().filter(|f| f.group == group).map(|f| f.level);
            assert!(levels.is_sorted());
        }
    }

    #[test]
    fn this_host_can_be_examined() {
        assert!(findings(&Facts::gather(Some(&std::env::temp_dir()), true)).len() > 20);
    }
}
