//! `knee watch bisect`: which commit between both points of a change has it.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use bisection::Answer;
use bisector::{Between, Commit, Limits};
use host::terminal::talk;
use store::Store;

use super::super::bisect;
use super::{BisectArguments, kernels, permitted};

/// Bisects a change, and keeps what that comes to.
pub fn run(arguments: &BisectArguments, store: &Store) -> Result<ExitCode> {
    ensure!(
        kernels::opened(&arguments.line)?.is_none(),
        "{} is of kernels, whose functions say what changed: knee watch show {0}; knee bisect --help finds a commit of Linux",
        arguments.line.display()
    );
    let (line, request) = permitted(&arguments.line, arguments.yes)?;
    let bisection = line.bisection(&arguments.change)?;
    let id = &bisection.change.id;
    match bisection.between(request)? {
        Between::One(commit) => {
            bisection.keep_answer(None, std::slice::from_ref(&commit), "")?;
            talk(format_args!(
                "{id} is the only commit between both points, which were compared: it has the change ({})",
                commit.subject
            ));
            Ok(ExitCode::SUCCESS)
        }
        Between::Several { request, range, begun } => {
            let begun = begun.filter(|id| bisector::open(id, store).is_ok());
            let session = match begun {
                Some(id) => bisect::resumed(&id, arguments.yes, Limits::default(), store)?,
                None => {
                    let session = bisect::begun(*request, range, store)?;
                    bisection.keep_begun(&session.bisection.id)?;
                    session
                }
            };
            let (id, commits) = (session.bisection.id.clone(), session.range.commits.clone());
            let concluded = bisect::conduct_usual(session, arguments.view, store)?;
            if let Some(answer) = &concluded.answer {
                let named: Vec<Commit> =
                    answer.blamed().into_iter().map(|at| commits[at].clone()).collect();
                bisection.keep_answer(Some(&id), &named, came_to(answer))?;
            }
            Ok(ExitCode::from(concluded.status))
        }
    }
}

fn came_to(answer: &Answer) -> &'static str {
    match answer {
        Answer::Named { .. } | Answer::Several { .. } => "",
        Answer::Set { .. } => "a set of commits",
        Answer::NotReproduced { .. } => "the ends do not differ",
    }
}
