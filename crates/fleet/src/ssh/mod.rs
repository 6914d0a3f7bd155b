//! Hosts reached by the system's ssh client, on which nothing is installed: one session for each host
//! carries knee's binary, the plan and the records.
//!
//! One session, and no control master of ours: a second session would have nothing to carry. A master
//! that the user's configuration names is used.

mod connection;
mod facts;
mod remote_host;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};

use anyhow::Result;
use host::signals;
use host::terminal::talk;

pub use facts::Facts;
pub use remote_host::RemoteHost;

use crate::claims::Folder;
use crate::member::{Member, Work};
use crate::owner::Owner;
use crate::plan_file::Plan;

/// Checks and prepares all hosts at the same time. The results come in the order of the names.
pub fn prepare_all(
    ssh: &[String],
    names: &[String],
    plan: &Plan,
    binary: Vec<u8>,
) -> Vec<Result<RemoteHost>> {
    let binary = Arc::new(binary);
    on_all(names, |name| RemoteHost::prepare(ssh, name, plan, &binary))
}

/// Lets hosts measure chunk after chunk until all are done. A host that fails is named, and the others
/// take its chunk over. The results come in the order of the hosts.
pub fn measure_all(folder: &Folder, plan: &Plan, hosts: Vec<RemoteHost>) -> Vec<Result<Work>> {
    on_all(hosts, |host| {
        let name = host.name.clone();
        // This process claims for the host: when it dies, the host stops.
        let owner = Owner { host: name.clone(), ..Owner::new() };
        let mut member = Member::new(folder.clone(), plan.clone(), owner, host);
        let worked = member.work(None);
        match &worked {
            Err(why) => talk(format_args!("{name}: {why:#}; other hosts take its chunk over")),
            Ok(Work::Interrupted) if signals::received().is_none() => {
                talk(format_args!(
                    "{name}: a signal ended its knee; other hosts take its chunk over"
                ));
            }
            Ok(_) => (),
        }
        worked
    })
}

/// Does something for each, all at the same time: most of it is waiting. Where the system grants no more threads, this
/// one does the rest, one after the other.
fn on_all<T: Send, R: Send>(
    all: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let start = |one| {
            // A thread that does not start takes its closure with it.
            let waiting = Arc::new(Mutex::new(Some(one)));
            let taken = Arc::clone(&waiting);
            let take = |from: &Mutex<Option<T>>| {
                from.lock().unwrap_or_else(PoisonError::into_inner).take()
            };
            let thread = Builder::new().spawn_scoped(scope, move || take(&taken).map(work));
            thread.map_err(|_| take(&waiting))
        };
        let threads: Vec<_> = all.into_iter().map(start).collect();
        let joined = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(one) => one.map(work),
        });
        joined.flatten().collect()
    })
}
