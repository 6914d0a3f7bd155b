//! The builds of a gate, which the next gate of the same repository finds again.

use anyhow::Result;
use guests::kernels::Repository;
use setup::foreign::Permitted;
use store::Store;

use crate::Request;
use crate::builds_lock::BuildsLock;
use crate::folder::Bisection;
use crate::range::{Commit, Source};
use crate::tools::tools;
use crate::workshop::Workshop;

/// Opens the folder of the builds. What of it is of other commits, or was made with other compilers, is removed.
pub(super) fn workshop(
    request: &Permitted<Request>,
    store: &Store,
    commits: [&Commit; 2],
    tell: &mut dyn FnMut(&str),
) -> Result<(Workshop, BuildsLock)> {
    let Source::Git { directory, .. } = &request.source else {
        unreachable!("a gate compares commits")
    };
    let repository = Repository::open(directory)?.shared_folder()?;
    let Request { build, products, .. } = &**request;
    let kind = format!("{build:?} {products:?}");
    let (bisection, mut lock) = Bisection::of_gate(store, &repository, &kind)?;
    // What is in the way now may not be at the next gate.
    let _ = bisection.remove_unused_gates(store);
    let workshop = Workshop::open(&bisection, request.clone())?;
    let tools = tools();
    let is_known = lock.says(&tools, &repository)?;
    if !is_known && commits.iter().any(|commit| workshop.has(commit)) {
        tell("a compiler or its settings changed since the last gate: both sides are built anew");
    }
    workshop.remove_others(if is_known { &commits } else { &[] })?;
    lock.say(&tools, &repository)?;
    Ok((workshop, lock))
}
