//! Down into a merge that a bisection along first parents has found.

use anyhow::Result;
use bisector::{Request, Session, Source};
use guests::kernels::Repository;
use host::terminal::talk;
use setup::foreign::Permitted;

/// What a merge brought, to be bisected.
pub struct Inside {
    /// The short id of the merge.
    pub merge: String,
    pub request: Permitted<Request>,
}

/// The bisection of what the commit of a change brought, if that is a merge of one branch and only first parents were
/// followed. On the branch, all parents are.
pub fn of_merge(session: &Session, change: usize) -> Result<Option<Inside>> {
    let Source::Git { directory, first_parent: true, skip, .. } = &session.request.source else {
        return Ok(None);
    };
    let repository = Repository::open(directory)?;
    let commit = &session.range.commits[change];
    let parent = |number: u32| repository.resolve(&format!("{}^{number}", commit.id));
    let (Ok(first), Ok(second)) = (parent(1), parent(2)) else { return Ok(None) };
    let merge = commit.short().to_string();
    if parent(3).is_ok() {
        talk(format_args!(
            "{merge} merges several branches: bisect each of them from where it began"
        ));
        return Ok(None);
    }
    let Some(base) = repository.merge_base(&first, &second) else { return Ok(None) };
    if base == second.commit {
        return Ok(None);
    }
    let source = Source::Git {
        directory: directory.clone(),
        good: base,
        bad: second.commit,
        first_parent: false,
        skip: skip.clone(),
    };
    let left_s = session.request.budget_s.map(|budget| (budget - session.seconds_spent()).max(1.0));
    let wait_s = session.request.wait_s.map(|wait| (wait - session.waited_s()).max(0.0));
    let request = session.permitted()?.part(|_| Request {
        source,
        budget_s: left_s,
        wait_s,
        ..session.request.clone()
    });
    Ok(Some(Inside { merge, request }))
}
