//! Native loads. A workload is one declared operation that n tasks repeat
//! concurrently, and a way to verify that the operations really happened. It counts;
//! it never times or prints: the runner owns the clock.
//!
//! One workload is one file, named after the workload. Its module doc is its manual
//! page (`knee show NAME` prints it), its `SPEC` is all that the runner
//! needs, and one line in the list below makes it known everywhere.

use std::sync::LazyLock;

mod aligned;
mod drive;
mod failure;
mod fault;
mod file_lock;
mod file_region;
mod files;
mod load;
mod lock;
mod manual;
mod mapping;
mod mechanism;
mod message;
mod need;
mod open_close;
mod parameter;
mod shared;
mod spin;
mod stamp;
mod tcp;
mod tiny_program;
mod user_xattr;

pub use drive::{Control, Task};
use failure::until_done;
pub use failure::{Failure, sys};
pub use load::{Load, TaskForm};
pub use machine::Pace;
use manual::manual;
pub use need::Need;
pub use parameter::{
    COMMON_PARAMETERS, DELAYED_LOCKS, DelayedLock, Parameter, ParameterKind, Values,
};
pub use shared::{CacheLine, Shared};
pub use spin::{Idle, Spin};

/// One workload: its name, its manual page, and what its file declares.
pub struct Workload {
    /// The name of its file, used everywhere.
    pub name: &'static str,
    /// The module doc of its file, with what marks its lines.
    doc: &'static str,
    pub spec: &'static Spec,
}

/// What a workload's file declares.
pub struct Spec {
    /// Version of what one operation does: raised whenever results from before and
    /// after a change of this file must not be compared.
    pub semantics: u32,
    /// Names of the same load in other tools.
    pub aliases: &'static [&'static str],
    /// The group under which it is listed.
    pub family: Family,
    /// What exactly one counted operation is, in a few words.
    pub operation: &'static str,
    /// The forms in which it can run.
    pub forms: Forms,
    /// Its parameters, without [`COMMON_PARAMETERS`].
    pub parameters: &'static [Parameter],
    /// What the host must offer; checked before anything is created.
    pub needs: &'static [Need],
    /// Sets up what all tasks of one run share, before they exist.
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
    /// Connections and messages over the loopback interface.
    Network,
    /// Creation and end of processes and threads.
    Processes,
    /// Scheduling and inter-process communication.
    Scheduling,
    /// Locks taken in user space.
    UserLocks,
    /// Kernel mechanisms run in user space.
    UserMechanisms,
    /// The cheapest operation, to compare others with.
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
            Family::Network => "network",
            Family::Processes => "processes and threads",
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
    /// As processes and as threads.
    Both,
    /// In both, but one form means something different: the note becomes a warning
    /// of every run in that form.
    Noted(TaskForm, &'static str),
    /// In one form only, for this reason.
    Only(TaskForm, &'static str),
}

/// What all tasks of one run share. Made once, before the tasks exist: processes
/// inherit it by fork, threads borrow it.
pub trait Prepared: Sync {
    /// Makes task `index` (0-based). The task itself calls this, already pinned, so that
    /// memory it touches first is local. Not timed.
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure>;

    /// Checks the combined effect of all tasks, after each has verified its own.
    /// `operations` is the sum over tasks.
    fn verify(&self, operations: u64) -> Result<(), Failure> {
        let _ = operations;
        Ok(())
    }
}

/// Tasks that share only what makes each of them, by its index.
fn each_task<T: Task + 'static>(
    make: impl Fn(usize) -> Result<T, Failure> + Sync + 'static,
) -> Result<Box<dyn Prepared>, Failure> {
    struct EachTask<F>(F);

    impl<T: Task + 'static, F: Fn(usize) -> Result<T, Failure> + Sync> Prepared for EachTask<F> {
        fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
            Ok(Box::new((self.0)(index)?))
        }
    }

    Ok(Box::new(EachTask(make)))
}

macro_rules! workloads {
    ($($name:ident,)*) => {
        $(mod $name;)*
        /// Every workload, in alphabetical order: those of the list below, and one for each
        /// lock and each mechanism in the list of algorithms.
        pub static WORKLOADS: LazyLock<Vec<Workload>> = LazyLock::new(|| {
            let mut workloads = vec![$(Workload {
                name: stringify!($name),
                doc: manual!(concat!(stringify!($name), ".rs")),
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
    create_process,
    create_thread,
    create_unlink,
    discard_pages,
    discard_shared_address_space,
    dup_close,
    epoll,
    eventfd,
    fallocate,
    file_read,
    file_write,
    flock_own,
    flock_shared,
    futex,
    getppid,
    io_uring,
    lease_own,
    lseek,
    malloc_free,
    mmap_munmap,
    mount_umount,
    ofd_lock_own,
    ofd_lock_shared,
    open_close_own,
    open_close_shared_directory,
    page_fault_anonymous,
    page_fault_private_file,
    page_fault_shared_file,
    path_call,
    pipe,
    poll,
    posix_lock_own,
    posix_lock_ranges,
    posix_lock_readers,
    posix_lock_shared,
    posix_semaphore,
    protect_shared_address_space,
    pthread_mutex,
    readdir,
    rename,
    sched_yield,
    signal,
    stat,
    tcp_accept,
    tcp_message,
    unix_socket,
    unlink,
    xattr_list,
    xattr_remove,
    xattr_replace,
    xattr_set,
}

impl Workload {
    /// Looks up a workload by name or alias.
    pub fn find(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|w| w.name == name || w.spec.aliases.contains(&name))
    }

    /// The manual page: the module doc of its file.
    pub fn manual(&self) -> String {
        self.doc
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

    /// Its own parameters, then those of every workload.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        self.spec.parameters.iter().chain(COMMON_PARAMETERS)
    }
}
