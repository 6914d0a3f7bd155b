//! What is true of a drawn server, because it was planted.

use anyhow::Result;
use serde::Serialize;

use super::case::{Case, Kind};
use super::language::Language;
use super::template::Style;

/// What a right answer says.
#[derive(Clone, Default, Serialize)]
pub struct Truth {
    /// What may be accused first; none where nothing is planted.
    pub causes: Vec<&'static str>,
    /// Names of the lock, the line or the busy thread; none where the program does not keep one.
    pub names: Vec<String>,
    /// Functions that hold the lock, or that run while it is held. `*part` stands for all names with this part.
    pub holders: Vec<String>,
    /// Functions that wait for the lock, and those around them.
    pub waiters: Vec<String>,
    /// What the holder does most of the time.
    pub reasons: Vec<&'static str>,
}

impl Truth {
    /// The truth about a case whose names are drawn.
    pub fn of(case: &Case) -> Result<Truth> {
        Ok(Truth {
            causes: causes(case),
            names: written(case, names(case))?,
            holders: if case.kind == Kind::BusyThread { Vec::new() } else { holders(case)? },
            waiters: written(case, waiters(case))?,
            reasons: reasons(case),
        })
    }

    /// Whether a lock is to be named with its holder and what that does.
    pub fn has_holder(&self) -> bool {
        !self.reasons.is_empty()
    }
}

fn written(case: &Case, roles: &[&str]) -> Result<Vec<String>> {
    roles.iter().map(|role| case.fillings.written(role, case.language.style())).collect()
}

fn waiters(case: &Case) -> &'static [&'static str] {
    match case.kind {
        Kind::Healthy => &[],
        Kind::Rwlock => &["locked", "reader", "handle"],
        _ => &["locked", "handle"],
    }
}

fn causes(case: &Case) -> Vec<&'static str> {
    let is_python = case.language == Language::Python;
    match case.kind {
        // Threads of Python compute one after the other: one busy thread keeps the interpreter's lock from all others.
        Kind::BusyThread if is_python => vec!["busy_thread", "interpreter_lock"],
        // The collector runs in the thread that allocates, with the interpreter's lock.
        Kind::Gc if is_python => vec!["garbage_collection", "interpreter_lock"],
        Kind::Mutex | Kind::Rwlock | Kind::IoLock | Kind::FaultLock => vec!["lock"],
        // Both are needed for the limit: the host without the real-time tasks, or threads without the lock, do more.
        Kind::Preempted => vec!["lock", "other_programs"],
        Kind::SharedLine => vec!["shared_line"],
        Kind::BusyThread => vec!["busy_thread"],
        Kind::Quota => vec!["quota"],
        Kind::Affinity => vec!["affinity"],
        Kind::Gc => vec!["garbage_collection"],
        Kind::Allocator => vec!["allocator_lock"],
        Kind::Kernel => vec!["kernel_lock"],
        Kind::Interpreter => vec!["interpreter_lock"],
        Kind::Healthy => Vec::new(),
    }
}

/// The roles whose names the lock, the line or the thread may have. Locks on the heap have none, and the machines of
/// Java and Python show none to others.
fn names(case: &Case) -> &'static [&'static str] {
    let is_native = !matches!(case.language, Language::Java | Language::Python);
    let is_rust = case.language == Language::Rust;
    match (case.kind, case.variant.as_str()) {
        // The thread of the runtime that the goroutine is locked to has no name of its own, nor has Python's.
        (Kind::BusyThread, _) if !matches!(case.language, Language::Go | Language::Python) => {
            &["busy_name"]
        }
        (Kind::SharedLine, _) if is_native && is_rust => &["TABLE"],
        (Kind::SharedLine, _) if is_native => &["table"],
        (_, "lock_global") if is_rust => &["LOCK"],
        (_, "lock_global") => &["lock"],
        (_, "lock_member") if is_rust => &["TABLE"],
        (_, "lock_member") => &["table"],
        _ => &[],
    }
}

fn holders(case: &Case) -> Result<Vec<String>> {
    let roles: &[&str] = match case.kind {
        Kind::Mutex if case.language == Language::Python => {
            &["locked", "fetch", "inner", "inner_work"]
        }
        Kind::Mutex | Kind::Rwlock | Kind::Preempted => {
            &["locked", "inner", "inner2", "inner_work", "inner2_work"]
        }
        Kind::IoLock => &["locked", "sync", "inner", "inner_work"],
        Kind::FaultLock => &["locked", "fresh", "inner", "inner_work"],
        Kind::Allocator | Kind::Kernel => &["locked"],
        _ => &[],
    };
    let library: &[&str] = match (case.kind, case.variant.as_str()) {
        (Kind::IoLock, _) => &["*fdatasync", "*fsync", "*sync_data", "*force"],
        (Kind::Allocator, _) => &["*malloc", "*free", "*unlink_chunk"],
        (_, "kernel_write") => &["*write"],
        (_, "kernel_allocate") => &["*fallocate", "*truncate"],
        (_, "kernel_read") => &["*read"],
        _ => &[],
    };
    let mut holders = written(case, roles)?;
    holders.extend(library.iter().map(|name| name.to_string()));
    // The compiler makes a call of the library of copies.
    if roles.iter().any(|role| {
        case.fillings.written(role, Style::Snake).ok().is_some_and(|name| {
            case.fillings.written("copy_work", Style::Snake).is_ok_and(|copy| copy == name)
        })
    }) {
        holders.extend(["*memcpy", "*memmove"].map(str::to_string));
    }
    holders.dedup();
    Ok(holders)
}

fn reasons(case: &Case) -> Vec<&'static str> {
    match case.kind {
        Kind::Mutex if case.language == Language::Python => vec!["sleeping"],
        Kind::Mutex | Kind::Rwlock | Kind::Allocator | Kind::Kernel => vec!["running"],
        Kind::IoLock => vec!["input_output"],
        Kind::FaultLock => vec!["page_fault"],
        Kind::Preempted => vec!["preempted"],
        _ => Vec::new(),
    }
}
