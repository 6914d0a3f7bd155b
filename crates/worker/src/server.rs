//! The server of a command: started on the CPUs that are measured before its client, and ended after it; or the daemon of
//! a variant, for which the run is the client.
//! Its output goes to a file in memory, so that it waits for no reader.

use std::cell::OnceCell;
use std::fs::{self, DirBuilder, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use host::bounded_output::BoundedOutput;
use host::paths;
use probes::ledger::Marker;
use records::{CommandLine, Readiness, StartedServer, Stop, Surroundings, Warning};
use setup::ownership::DIRECTORY_PREFIX;

use crate::guard::Guard;
use crate::output::last_words;
use crate::priority::SchedulingPolicy;
use crate::program::{
    FREE_INTERVAL, HelperError, INTERRUPTED, Served, TerminationSignals, become_user, collect,
    command, described, not_started, pidfd, place, poll, run_helper, with_last_words,
};

/// How often knee looks whether a server is ready.
const READY_POLL: Duration = Duration::from_millis(10);

/// How long a server may take to end when the worker itself was asked to end.
const HURRIED_STOP: Duration = Duration::from_secs(5);

/// A server that serves.
pub struct RunningServer<'a> {
    /// "server" or "daemon", for messages.
    what: &'static str,
    server: &'a StartedServer,
    user: Option<(u32, u32)>,
    child: Child,
    ended: OwnedFd,
    output: BoundedOutput,
    /// How it ended, once it has been waited for.
    end: OnceCell<String>,
    _guard: Guard,
}

impl<'a> RunningServer<'a> {
    /// Makes the data directory, starts the server on these CPUs and waits until it is ready.
    pub fn start(
        what: &'static str,
        server: &'a StartedServer,
        cpus: &[u32],
        marker: Option<Marker>,
        signals: &TerminationSignals,
    ) -> Result<RunningServer<'a>, String> {
        let user = user_of(server)?;
        prepare_data(server, user, signals)?;
        refuse_taken_port(server)?;
        let surroundings = Surroundings { user, ..server.into() };
        let output = BoundedOutput::in_memory().map_err(|why| format!("{why:#}"))?;
        let copy = || output.for_child().map_err(|e| format!("dup: {e}"));
        let mut program = command(&server.run, &surroundings);
        program.stdout(copy()?).stderr(copy()?);
        place(&mut program, cpus, SchedulingPolicy::current(), marker);
        become_user(&mut program, user);
        let child = program.spawn();
        let child = child.map_err(|e| not_started(&server.run, &surroundings, &e))?;
        let ended = pidfd(&child)?;
        // A session, and so a group, of its own.
        let _guard = Guard::of_group(child.id() as i32)?;
        let end = OnceCell::new();
        let mut running = RunningServer { what, server, user, child, ended, output, end, _guard };
        running.wait_until_ready(signals)?;
        Ok(running)
    }

    fn name(&self) -> &str {
        &self.server.run[0]
    }

    fn wait_until_ready(&mut self, signals: &TerminationSignals) -> Result<(), String> {
        let since = Instant::now();
        let limit = Duration::from_secs_f64(self.server.ready_timeout_s);
        while !self.is_ready(since.elapsed(), signals)? {
            let [has_ended, is_asked_to_end] =
                poll(&[self.ended.as_raw_fd(), signals.descriptor()], READY_POLL);
            if is_asked_to_end {
                return Err(INTERRUPTED.to_string());
            }
            if has_ended {
                return Err(self.why_ended("before it was ready"));
            }
            let _ = self.output.free_middle();
            if since.elapsed() > limit {
                let why = format!(
                    "the {} {} was not ready after {} s: knee waited until {} \
                     (ready_timeout_s allows more time)",
                    self.what,
                    self.name(),
                    self.server.ready_timeout_s,
                    self.server.ready.in_words()
                );
                return Err(with_last_words(&why, &self.last_words()));
            }
        }
        Ok(())
    }

    fn is_ready(&self, age: Duration, signals: &TerminationSignals) -> Result<bool, String> {
        match &self.server.ready {
            Readiness::AliveMs(ms) => Ok(age >= Duration::from_millis(*ms)),
            Readiness::Port(port) => takes_connections(self.server, &port.0),
            Readiness::File(path) => Ok(self.server.data.join(path).exists()),
            Readiness::Line(pattern) => {
                let text = self.output.text().unwrap_or_default();
                records::has_line(pattern, &String::from_utf8_lossy(&text))
            }
            Readiness::Command(line) => {
                let surroundings = Surroundings { user: self.user, ..self.server.into() };
                let limit = Duration::from_secs_f64(self.server.ready_timeout_s);
                match run_helper(line.words(), &surroundings, limit, Some(signals)) {
                    Ok(()) => Ok(true),
                    Err(HelperError::Failed(_)) => Ok(false),
                    Err(HelperError::Interrupted) => Err(INTERRUPTED.to_string()),
                }
            }
        }
    }

    /// Watches it until the worker is asked to end. Its own end before is an error.
    pub fn stay(&mut self, signals: &TerminationSignals) -> Result<(), String> {
        loop {
            let [has_ended, is_asked_to_end] =
                poll(&[self.ended.as_raw_fd(), signals.descriptor()], FREE_INTERVAL);
            let _ = self.output.free_middle();
            if has_ended {
                return Err(self.why_ended("while the run went on"));
            }
            if is_asked_to_end {
                return Ok(());
            }
        }
    }

    /// What to watch of it while its client runs.
    pub fn served(&mut self) -> Served<'_> {
        Served { ended: self.ended.as_raw_fd(), output: &mut self.output }
    }

    /// Refuses a server that has ended, whatever its client said.
    pub fn check_alive(&self) -> Result<(), String> {
        match poll(&[self.ended.as_raw_fd()], Duration::ZERO) {
            [true] => Err(self.why_ended("while its client ran")),
            [false] => Ok(()),
        }
    }

    /// Why a run failed, with the last lines of the server.
    pub fn with_last_words(&self, why: String) -> String {
        let words = self.last_words();
        if why == INTERRUPTED || words.is_empty() || why.contains(&words) {
            return why;
        }
        format!("{why}; its server {} said last: {words}", self.name())
    }

    fn last_words(&self) -> String {
        self.output.text().map(|text| last_words(&text)).unwrap_or_default()
    }

    fn why_ended(&self, when: &str) -> String {
        let wait = || collect(&self.child).map_or_else(|why| why, |(status, _)| described(status));
        let end = self.end.get_or_init(wait);
        let hint = match end.as_str() {
            "ended with status 0" => format!(" (a {} has to stay in the foreground)", self.what),
            _ => String::new(),
        };
        let why = format!("the {} {} {end} {when}{hint}", self.what, self.name());
        with_last_words(&why, &self.last_words())
    }

    /// Lets the server finish what it does, asks it to end and waits for that. Returns a warning if it did not
    /// end; the caller kills what is left.
    pub fn stop(mut self, is_hurried: bool, signals: &TerminationSignals) -> Option<Warning> {
        if self.check_alive().is_err() {
            return None;
        }
        let mut limit = Duration::from_secs_f64(self.server.stop_timeout_s);
        if is_hurried {
            limit = limit.min(HURRIED_STOP);
        } else {
            self.wait_for_end(Duration::from_secs_f64(self.server.drain_s), Some(signals));
        }
        let asked = match records::stop(&self.server.stop) {
            Ok(Stop::Signal(signal)) => {
                // SAFETY: a child that has not been waited for.
                unsafe { libc::kill(self.child.id() as i32, signal) };
                Ok(())
            }
            Ok(Stop::Command(line)) => self.run_stop(line, limit),
            Err(why) => Err(why.to_string()),
        };
        if asked.is_ok() && self.wait_for_end(limit, None) {
            return None;
        }
        let why = match asked {
            Ok(()) => format!("did not end within {} s of", limit.as_secs_f64()),
            Err(why) => format!("was not stopped ({why}) by"),
        };
        let text = format!(
            "the {} {} {why} {} and was killed",
            self.what,
            self.name(),
            self.server.stop.text()
        );
        Some(Warning::new(text, "raise its stop_timeout_s, or stop it in another way (stop)"))
    }

    fn run_stop(&self, line: &CommandLine, limit: Duration) -> Result<(), String> {
        let surroundings = Surroundings { user: self.user, ..self.server.into() };
        match run_helper(line.words(), &surroundings, limit, None) {
            Err(HelperError::Failed(why)) => Err(why),
            _ => Ok(()),
        }
    }

    /// Waits for its end, or a signal that asks the worker to end. Returns whether it has ended.
    fn wait_for_end(&mut self, limit: Duration, signals: Option<&TerminationSignals>) -> bool {
        let since = Instant::now();
        let signalled = signals.map_or(-1, TerminationSignals::descriptor);
        loop {
            let left = limit.saturating_sub(since.elapsed());
            let [has_ended, is_asked_to_end] =
                poll(&[self.ended.as_raw_fd(), signalled], left.min(FREE_INTERVAL));
            let _ = self.output.free_middle();
            if has_ended || is_asked_to_end || left.is_zero() {
                return has_ended;
            }
        }
    }
}

/// The ids that the server's programs get: those of its `user` if the worker is root.
fn user_of(server: &StartedServer) -> Result<Option<(u32, u32)>, String> {
    let Some(name) = server.user.as_ref().filter(|_| paths::user() == 0) else { return Ok(None) };
    let ids = paths::user_named(name);
    let missing =
        "is not in /etc/passwd: install its package, or name another user in the server's `user`";
    ids.map(Some)
        .ok_or_else(|| format!("the server {} runs as {name}, who {missing}", server.run[0]))
}

/// Makes the data directory, new or from its template, and runs what sets it up.
fn prepare_data(
    server: &StartedServer,
    user: Option<(u32, u32)>,
    signals: &TerminationSignals,
) -> Result<(), String> {
    let data = &server.data;
    let limit = Duration::from_secs_f64(server.ready_timeout_s);
    let run = |words: &[String], surroundings: &Surroundings| {
        run_helper(words, surroundings, limit, Some(signals)).map_err(|error| match error {
            HelperError::Failed(why) => format!("setting up the server: {why}"),
            HelperError::Interrupted => INTERRUPTED.to_string(),
        })
    };
    let made = DirBuilder::new().mode(0o700).create(data);
    made.map_err(|e| format!("creating the server's data directory {}: {e}", data.display()))?;
    let (own, path) = (Surroundings::from(server), data.display().to_string());
    if let Some(template) = &server.template {
        let content = format!("{}/.", template.display());
        run(&["cp", "-a", "--", &content, &path].map(String::from), &own)?;
    }
    if let Some((user, group)) = user {
        if server.template.is_some() {
            run(&["chown", "-R", "--", &format!("{user}:{group}"), &path].map(String::from), &own)?;
        }
        let given = chown(data, Some(user), Some(group));
        given.map_err(|e| format!("giving {} to the server's user: {e}", data.display()))?;
        let_pass(data, user)?;
    }
    let surroundings = Surroundings { user, ..server.into() };
    server.setup.iter().try_for_each(|words| run(words, &surroundings))
}

/// Lets another user pass through knee's own directories above `data`, which stay unreadable.
fn let_pass(data: &Path, user: u32) -> Result<(), String> {
    let is_own = |directory: &&Path| {
        directory
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(DIRECTORY_PREFIX))
    };
    // In a guest, the directory of the run is the only one of knee's.
    let top = data.ancestors().find(is_own).or(data.parent());
    for directory in data.ancestors().skip(1) {
        let metadata = fs::metadata(directory);
        let metadata = metadata.map_err(|e| format!("looking at {}: {e}", directory.display()))?;
        if metadata.mode() & 0o001 != 0 || metadata.uid() == user {
            continue;
        }
        if !top.is_some_and(|top| directory.starts_with(top)) {
            return Err(format!(
                "the server's user cannot enter {}: choose another directory (--dir)",
                directory.display()
            ));
        }
        let passable = Permissions::from_mode(metadata.mode() & 0o777 | 0o001);
        let changed = fs::set_permissions(directory, passable);
        changed
            .map_err(|e| format!("letting the server's user into {}: {e}", directory.display()))?;
    }
    Ok(())
}

/// Another program that listens would be taken for the server.
fn refuse_taken_port(server: &StartedServer) -> Result<(), String> {
    let Readiness::Port(port) = &server.ready else { return Ok(()) };
    if !takes_connections(server, &port.0)? {
        return Ok(());
    }
    Err(format!(
        "port {} of {} is taken: another program listens there, so the server {} was not started; \
         stop that program, or let knee choose a free port ({{port}})",
        port.0, server.address, server.run[0]
    ))
}

fn takes_connections(server: &StartedServer, port: &str) -> Result<bool, String> {
    let port: u16 =
        port.parse().map_err(|_| format!("'{port}' is not a TCP port, must be 1 to 65535"))?;
    let address: Ipv4Addr = server.address.parse().map_err(|_| {
        format!("'{}' is not the IPv4 address of a server, such as 127.0.0.1", server.address)
    })?;
    let address = SocketAddr::from((address, port));
    Ok(TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok())
}
