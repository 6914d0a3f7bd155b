//! Native loads. A workload is one declared operation that n tasks repeat
//! together, and a way to verify that the operations really happened. It counts;
//! it never times or prints: the runner owns the clock.
//!
//! One workload is one file, named as the workload. Its module doc is its manual
//! page (`knee describe NAME` prints it), its `SPEC` is all that the runner
//! needs, and one line in the list below makes it known everywhere.

use std::sync::LazyLock;

mod drive;
mod failure;
mod fault;
mod file_lock;
mod file_write;
mod files;
mod load;
mod lock;
mod mapping;
mod mechanism;
mod message;
mod need;
mod open_close;
mod parameter;
mod shared;
mod spin;
mod stamp;
mod user_xattr;

pub use drive::{Control, Task};
pub use failure::{Failure, sys};
pub use load::{Form, Load};
pub use need::Need;
pub use parameter::{COMMON_PARAMETERS, Kind, Parameter, Values};
pub use shared::{Line, Shared};
pub use spin::Spin;

/// One workload: its name, its manual page, and what its file declares.
pub struct Workload {
    /// The name of its file and of everything that shows it.
    pub name: &'static str,
    source: &'static str,
    /// What the workload's file declares.
    pub spec: &'static Spec,
}

/// What a workload's file declares.
pub struct Spec {
    /// Version of what one operation does: raised whenever results before and
    /// after a change of this file must not be compared.
    pub semantics: u32,
    /// Names that other tools use for the same load.
    pub aliases: &'static [&'static str],
    /// The group it is listed under.
    pub family: Family,
    /// What exactly one counted operation is, in a few words.
    pub operation: &'static str,
    /// Forms in which it can run, and what to know about the others.
    pub forms: Forms,
    /// Its own parameters, beside [`COMMON_PARAMETERS`].
    pub parameters: &'static [Parameter],
    /// What the host must offer; checked before anything is made.
    pub needs: &'static [Need],
    /// Makes what all tasks of one run use together, before they exist.
    pub prepare: fn(&Load) -> Result<Box<dyn Prepared>, Failure>,
}

/// Groups of workloads, in the order in which they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// POSIX, OFD and flock locks, leases.
    FileLocks,
    /// Page faults on anonymous and file mappings.
    PageFaults,
    /// Operations on files and directories.
    Files,
    /// Address-space operations.
    Memory,
    /// Scheduling and inter-process communication.
    Scheduling,
    /// Locks taken in user space.
    UserLocks,
    /// Kernel mechanisms done in user space.
    UserMechanisms,
    /// The floor to compare with.
    Baseline,
}

impl Family {
    /// The heading of this group in lists.
    pub fn title(self) -> &'static str {
        match self {
            Family::FileLocks => "file locks",
            Family::PageFaults => "page faults",
            Family::Files => "files",
            Family::Memory => "memory",
            Family::Scheduling => "scheduling and IPC",
            Family::UserLocks => "user locks",
            Family::UserMechanisms => "user mechanisms",
            Family::Baseline => "baseline",
        }
    }
}

/// In which forms a workload can run.
#[derive(Clone, Copy, Debug)]
pub enum Forms {
    /// Processes and threads alike.
    Both,
    /// Both run, but one of them means something else: the note becomes a
    /// warning of every run in that form.
    Noted(Form, &'static str),
    /// Only this form, for this reason.
    Only(Form, &'static str),
}

/// What all tasks of one run share. Made once, before the tasks exist; processes
/// inherit it by fork, threads by reference.
pub trait Prepared: Sync {
    /// Makes task `index` (0-based) inside the task itself, already pinned, so that
    /// first-touched memory is local. Not timed.
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure>;

    /// Checks the effect of all tasks together, after each has verified its own.
    /// `operations` is the sum over tasks.
    fn verify(&self, operations: u64) -> Result<(), Failure> {
        let _ = operations;
        Ok(())
    }
}

macro_rules! workloads {
    ($($name:ident,)*) => {
        $(mod $name;)*
        /// Every workload, in alphabetical order: those of the list below, and one for each
        /// lock and each mechanism that is listed as an algorithm.
        pub static WORKLOADS: LazyLock<Vec<Workload>> = LazyLock::new(|| {
            let mut workloads = vec![$(Workload {
                name: stringify!($name),
                source: include_str!(concat!(stringify!($name), ".rs")),
                spec: &$name::SPEC,
            },)*];
            workloads.extend(lock::workloads());
            workloads.extend(mechanism::workloads());
            workloads.sort_by_key(|workload| workload.name);
            workloads
        });
    };
}

workloads! {
    append,
    brk,
    context_switch,
    create_files,
    discard_shared_address_space,
    eventfd,
    fallocate,
    flock_own,
    flock_shared,
    futex,
    getppid,
    lease_own,
    mmap_munmap,
    ofd_lock_own,
    ofd_lock_shared,
    open_close_own,
    open_close_shared_directory,
    page_fault_anonymous,
    page_fault_private_file,
    page_fault_shared_file,
    pipe,
    poll,
    posix_lock_own,
    posix_lock_ranges,
    posix_lock_readers,
    posix_lock_shared,
    protect_shared_address_space,
    pthread_mutex,
    pwrite_own,
    pwrite_shared,
    readdir,
    rename,
    sched_yield,
    signal,
    stat,
    unix_socket,
    unlink,
    xattr_list,
    xattr_remove,
    xattr_replace,
    xattr_set,
}

impl Workload {
    /// The workload of this name or alias.
    pub fn find(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|w| w.name == name || w.spec.aliases.contains(&name))
    }

    /// The manual page: the module doc of its file.
    pub fn manual(&self) -> String {
        self.source
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The first sentence of the manual page, on one line.
    pub fn summary(&self) -> String {
        let manual = self.manual();
        let paragraph = manual.split("\n\n").next().unwrap_or_default();
        let line = paragraph.replace('\n', " ");
        match line.split_once(". ") {
            Some((first, _)) => first.to_string(),
            None => line.trim_end_matches('.').to_string(),
        }
    }

    /// Its own parameters followed by those every workload has.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        self.spec.parameters.iter().chain(COMMON_PARAMETERS)
    }
}
