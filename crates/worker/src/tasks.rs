//! Tasks as processes or threads: started, reaped, killed.

use std::thread::{self, Scope};
use std::time::{Duration, Instant};
use std::{fs, io};

use records::Form;

use crate::own::OwnProgram;
use crate::task::{self, Native, TaskContext};

/// A task's stack, in bytes: operations are shallow, and 4096 tasks have one each.
const STACK_BYTES: usize = 256 * 1024;

pub struct Tasks {
    form: Form,
    /// Process ids of tasks not reaped yet; empty for threads.
    alive: Vec<(usize, i32)>,
    /// The program whose children or threads are the tasks; then its process alone is in `alive`.
    program: Option<OwnProgram>,
}

impl Tasks {
    pub fn new(form: Form) -> Tasks {
        Tasks { form, alive: Vec::new(), program: None }
    }

    /// Starts task `index`. In the process form the worker must be single-threaded.
    pub fn start<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        context: &'scope TaskContext<'scope>,
        native: &'scope Native<'scope>,
        index: usize,
    ) -> Result<(), String> {
        let started = match self.form {
            Form::Processes => self.fork(context, native, index),
            Form::Threads => thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || task::run(context, native, index))
                .map(drop),
        };
        started.map_err(|e| {
            format!(
                "starting task {index} of {} as {}: {e}; check ulimit -u, the cgroup's pids.max \
                 and kernel.threads-max, or use fewer tasks",
                context.job.tasks,
                self.form.name()
            )
        })
    }

    fn fork(&mut self, context: &TaskContext, native: &Native, index: usize) -> io::Result<()> {
        let worker = std::process::id();
        // SAFETY: the worker has one thread, so the child may do what any process may.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                die_with_parent(worker);
                task::run(context, native, index);
                // SAFETY: ends the child without running what belongs to the worker:
                // buffers, destructors, the scratch directory's removal.
                unsafe { libc::_exit(0) }
            }
            pid => {
                self.alive.push((index, pid));
                Ok(())
            }
        }
    }

    /// Takes a program that starts the tasks.
    pub fn adopt(&mut self, program: OwnProgram) {
        self.alive.push((0, program.process));
        self.program = Some(program);
    }

    /// A task's name in messages; with a program, that of the program.
    fn name(&self, index: usize, pid: i32) -> String {
        match &self.program {
            Some(program) => program.name.clone(),
            None => format!("task {index} (process {pid})"),
        }
    }

    /// Reaps tasks that have ended, without waiting. A task that a signal or an exit status other than
    /// 0 ended is an error, and so is one that was stopped and continued.
    pub fn reap(&mut self) -> Result<(), String> {
        let mut died = Ok(());
        while !self.alive.is_empty()
            && let Some((pid, status)) = collect(-1, libc::WNOHANG | libc::WCONTINUED)
        {
            let index = self.alive.iter().position(|(_, p)| *p == pid);
            if libc::WIFCONTINUED(status) {
                let task = index.map_or(pid as usize, |at| self.alive[at].0);
                died = Err(format!(
                    "{} was stopped and continued by signals (SIGSTOP, SIGCONT): \
                     the time between them would count as its own",
                    self.name(task, pid)
                ));
                continue;
            }
            let index = index.map(|i| self.alive.swap_remove(i).0);
            if let (Some(index), Some(how)) = (index, abnormal(status)) {
                died = Err(format!("{} {how}", self.name(index, pid)));
            }
        }
        died
    }

    /// Waits for all processes to end. Threads end with the scope.
    pub fn join(&mut self) -> Result<(), String> {
        let mut died = Ok(());
        for (index, pid) in std::mem::take(&mut self.alive) {
            if let Some(how) = collect(pid, 0).and_then(|(_, status)| abnormal(status)) {
                died = Err(format!("{} {how}", self.name(index, pid)));
            }
        }
        died
    }

    /// Asks the program to put away its files and to end, and kills it if it takes too long.
    pub fn end_program(&mut self) {
        /// Some more than the program gives itself.
        const PATIENCE: Duration = Duration::from_secs(3);
        let since = Instant::now();
        for &(_, pid) in &self.alive {
            // SAFETY: a child of ours, not reaped yet, so the id is still its.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        while !self.alive.is_empty() && since.elapsed() < PATIENCE {
            // How it ends does not matter any more.
            let _ = self.reap();
            thread::sleep(Duration::from_millis(1));
        }
        self.kill();
    }

    /// Kills and reaps all processes. Threads end with the worker.
    pub fn kill(&mut self) {
        for &(_, pid) in &self.alive {
            // SAFETY: a child of ours, not reaped yet, so the id is still its.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        let _ = self.join();
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks the kernel to kill this process when the worker dies, however it dies.
fn die_with_parent(worker: u32) {
    // SAFETY: plain numbers only. The check of the parent closes the gap in which the worker may
    // have died before the request.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != worker as i32 {
            libc::_exit(1);
        }
    }
}

/// Collects a child: its id and wait status, or `None` while it lives. `pid` -1 means any child.
fn collect(pid: i32, flags: i32) -> Option<(i32, i32)> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is live.
        match unsafe { libc::waitpid(pid, &mut status, flags) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => continue,
            -1 | 0 => return None,
            pid => return Some((pid, status)),
        }
    }
}

fn abnormal(status: i32) -> Option<String> {
    if libc::WIFSIGNALED(status) {
        return Some(format!("was killed by {}", host::signals::name(libc::WTERMSIG(status))));
    }
    match libc::WEXITSTATUS(status) {
        0 => None,
        code => Some(format!("ended with status {code}")),
    }
}

/// The state of a thread and the kernel function that it sleeps in, for errors about hangs.
pub fn where_it_waits((process, tid): (i32, i32)) -> String {
    let read = |what: &str| {
        let path = format!("/proc/{process}/task/{tid}/{what}");
        fs::read_to_string(path).unwrap_or_default().trim().to_string()
    };
    let stat = read("stat");
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
    let channel = read("wchan");
    let channel = if channel.is_empty() || channel == "0" { "?".to_string() } else { channel };
    format!("thread {tid}, state {state}, waiting in {channel}")
}
