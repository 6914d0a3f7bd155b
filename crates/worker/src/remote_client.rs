//! A client on another host: one ssh session for a run, in which a shell starts the programs that this worker names,
//! one after the other. Nothing is installed there.
//!
//!     worker                              shell on the host
//!                                  <──    MARK ready, on both streams
//!     run BYTES, and a script      ──>
//!                                  <──    MARK begun, and what the program writes
//!                                  <──    MARK end and what it used; MARK end on the other stream
//!     stop                         ──>    kills what is left of it
//!                                  <──    MARK stopped, on both streams
//!     beat N, every few seconds    ──>
//!                                  <──    MARK beat
//!
//! When its input ends, the shell kills all that it started and removes its directory; so it does when it hears nothing
//! for a while, since a connection may break without a word. So does the worker give up a host that answers no beats: ssh
//! may share the connection of another ssh, whose settings then hold.

use std::collections::BTreeMap;
use std::io::Write;
use std::iter;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use host::clock::now_ns;
use host::descendants::{self, TreeUsage};
use host::{random, ssh};
use records::{CommandJob, RemoteClient, Surroundings, Usage};

use crate::marked_output::MarkedOutput;
use crate::output::KeptOutput;
use crate::profiler::Profiler;
use crate::program::{
    FREE_INTERVAL, HelperError, INTERRUPTED, ProgramEnd, ProgramRun, SERVED_INTERVAL, Served,
    TerminationSignals, command, described, not_started, pidfd, poll, shown, with_last_words,
};

/// The line that ssh passes to whatever shell the user has there: it starts sh, which reads the script of this length. The
/// length and the mark follow. dd with blocks of a byte takes no more than that; head of busybox reads ahead.
const LINE: &str = "exec sh -c 'eval \"$(dd bs=1 count=\"$0\" 2> /dev/null)\"'";

/// The script of the shell on the host; `$1` is the mark. A function, so that a script cut short by the end of the
/// connection does nothing. The variable KNEE_CLIENT in their environment tells its processes, whatever group or session
/// they moved to. A program that is stopped early has no group of its own yet. The watch cleans up if the shell itself is
/// killed; `p` and `watch` are empty in it. Its `sleep` may live on for its second.
const SHELL: &str = r#"main() {
umask 077
m=$1 d= p= watch=
stop() {
[ -z "$p" ] || { kill -s KILL -- "-$p" || { kill -s KILL "$p"; kill -s KILL -- "-$p"; }; wait "$p"; }
p=
} 2> /dev/null
gone() {
trap '' HUP INT TERM PIPE
stop
for try in 1 2 3; do
left=$(grep -ls "KNEE_CLIENT=$m" /proc/[0-9]*/environ)
[ -n "$left" ] || break
for e in $left; do e=${e#/proc/}; kill -s KILL "${e%/environ}"; done
done
cd /
[ -z "$d" ] || rm -rf "$d"
[ -z "$watch" ] || kill -s KILL "$watch"
} 2> /dev/null
trap gone EXIT
trap 'exit 1' HUP INT TERM PIPE
d=${TMPDIR:-/tmp}/knee-client-$m
mkdir "$d" || { d=; exit 1; }
mkdir "$d/work" && cd "$d/work" || exit 1
echo 0 > "$d/beat"
( last= silent=0
while sleep 1; do
kill -s 0 $$ || { gone; exit; }
read -r beat < "$d/beat"
if [ "$beat" = "$last" ]; then silent=$((silent + 1)); else silent=0; last=$beat; fi
[ "$silent" -lt 60 ] || { kill -s TERM $$; silent=0; }
done ) < /dev/null > /dev/null 2>&1 &
watch=$!
echo "$m ready"
echo "$m ready" >&2
while read -r word n; do
case $word in
run) s=$(dd bs=1 count="$n" 2> /dev/null); KNEE_CLIENT=$m setsid sh -c "$s" "$m" "$d" < /dev/null & p=$!;;
beat) echo "$n" > "$d/beat"; echo "$m beat" >&2;;
stop) stop; echo "$m stopped"; echo "$m stopped" >&2;;
esac
done
}
main "$1"
"#;

/// What the shell is given for a program, around the program's own line; a function, too. Threads are counted as on this
/// host: of a process without children.
const BEFORE: &str = r#"main() {
d=$1
rm -f "$d/threads" "$d/program"
( most=0
while sleep 0.5; do
read -r p < "$d/program" && [ -d "/proc/$p/task" ] || continue
c=; read -r c < "/proc/$p/task/$p/children" || :
[ -z "$c" ] || continue
set -- /proc/"$p"/task/*
[ "$#" -gt "$most" ] && most=$# && echo "$most" > "$d/threads"
done ) > /dev/null 2>&1 &
sampler=$!
read -r before < /proc/stat
printf '%s begun\n' "$0" >&2
"#;

const AFTER: &str = r#"
status=$?
read -r used < /proc/$$/stat
read -r after < /proc/stat
threads=0
[ ! -e "$d/threads" ] || read -r threads < "$d/threads"
kill -s KILL "$sampler" 2> /dev/null
set -- $used
printf '%s end %s %s %s %s|%s|%s\n' "$0" "$status" "${16}" "${17}" "$threads" "$before" "$after" >&2
printf '%s end\n' "$0"
}
main "$@"
"#;

/// How long a host may take to log the user in.
const LOGIN: Duration = Duration::from_secs(30);

/// How long the shell may take to stop a program.
const STOP: Duration = Duration::from_secs(15);

/// How long the session may take to end once its input has ended.
const END: Duration = Duration::from_secs(10);

/// How often the shell hears from this worker.
const BEAT: Duration = Duration::from_secs(5);

/// How many beats may stay without an answer.
const UNANSWERED_MAX: u32 = 3;

/// A session on the client's host.
pub struct RemoteSession<'a> {
    client: &'a RemoteClient,
    ssh: Child,
    ended: OwnedFd,
    to: Option<ChildStdin>,
    stdout: MarkedOutput<ChildStdout>,
    stderr: MarkedOutput<ChildStderr>,
    next_beat: Instant,
    beats: u64,
    /// Beats since the last sign of life.
    unanswered: u32,
}

/// What the shell says about a program that has ended.
struct RemoteEnd {
    status: ExitStatus,
    usage: Usage,
    threads: Option<usize>,
    host_busy_percent: Option<f64>,
}

impl<'a> RemoteSession<'a> {
    /// Logs in, and waits for the shell. ssh starts where knee did, like that of the questions before the first run: the
    /// directory and the environment of a command are for its programs there.
    pub fn open(
        client: &'a RemoteClient,
        signals: &TerminationSignals,
    ) -> Result<RemoteSession<'a>, String> {
        let environment = BTreeMap::new();
        let own = Surroundings { directory: Path::new("."), environment: &environment, user: None };
        let mark = format!("{:016x}{:016x}", random(), random());
        let line = format!("{LINE} {} {mark}", SHELL.len());
        let words = ssh::words(&client.ssh, &client.host, &line, Some(BEAT));
        let mut program = command(&words, &own);
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ssh = program.spawn().map_err(|e| not_started(&words[..1], &own, &e))?;
        let mut session = RemoteSession {
            client,
            ended: pidfd(&ssh)?,
            to: ssh.stdin.take(),
            stdout: MarkedOutput::new(ssh.stdout.take(), &mark),
            stderr: MarkedOutput::new(ssh.stderr.take(), &mark),
            ssh,
            // The limit of the login holds first.
            next_beat: Instant::now() + LOGIN,
            beats: 0,
            unanswered: 0,
        };
        session.send(SHELL)?;
        if session.wait_for_both("ready", LOGIN, Some(signals))? {
            session.stdout.take_output();
            session.stderr.take_output();
            session.next_beat = Instant::now() + BEAT;
            return Ok(session);
        }
        Err(format!(
            "{} did not log in within {} s: try `ssh {}` by hand",
            client.host,
            LOGIN.as_secs(),
            client.host
        ))
    }

    /// The host's name.
    pub fn host(&self) -> &str {
        &self.client.host
    }

    /// What the programs that connect have used of this host so far.
    pub fn usage(&self) -> TreeUsage {
        descendants::usage_from(self.ssh.id() as i32).unwrap_or_default()
    }

    /// Runs the measured program.
    pub fn run_measured(
        &mut self,
        job: &CommandJob,
        signals: &TerminationSignals,
        profiler: &mut Profiler,
        mut served: Option<Served>,
    ) -> Result<ProgramRun, String> {
        self.start(&job.run, &job.into())?;
        let (since, timeout) = (Instant::now(), Duration::from_secs_f64(job.timeout_s));
        let (mut begun_ns, mut remote) = (now_ns(), None);
        let (end, ended_ns) = loop {
            let left = timeout.saturating_sub(since.elapsed());
            let pause = left.min(SERVED_INTERVAL);
            let pause = profiler.drain_interval().map_or(pause, |time| time.min(pause));
            let server = served.as_ref().map_or(-1, |served| served.ended);
            let [is_asked_to_end, has_server_ended] =
                self.wait(pause, [signals.descriptor(), server])?;
            let at_ns = now_ns();
            profiler.drain();
            if let Some(served) = &mut served {
                let _ = served.output.free_middle();
            }
            while let Some(line) = self.take_line() {
                match line.strip_prefix("end ") {
                    Some(end) => remote = Some((self.read_end(end)?, at_ns)),
                    None => begun_ns = at_ns,
                }
            }
            if remote.is_some() && self.stdout.take_line().is_some() {
                break (None, remote.as_ref().map_or(at_ns, |(_, at_ns)| *at_ns));
            }
            let ends = [
                (is_asked_to_end, ProgramEnd::Interrupted),
                (has_server_ended, ProgramEnd::ServerEnded),
                (left.is_zero(), ProgramEnd::TimedOut),
            ];
            if let Some((_, end)) = ends.into_iter().find(|(is_so, _)| *is_so) {
                break (Some(end), at_ns);
            }
        };
        self.stop()?;
        let remote = remote.map(|(remote, _)| remote);
        let exited = remote.as_ref().map(|remote| ProgramEnd::Exited(remote.status));
        Ok(ProgramRun {
            end: end.or(exited).unwrap_or(ProgramEnd::Interrupted),
            wall_ns: ended_ns.saturating_sub(begun_ns),
            usage: remote.as_ref().map(|remote| remote.usage).unwrap_or_default(),
            stdout: self.stdout.take_output(),
            stderr: self.stderr.take_output(),
            threads: remote.as_ref().and_then(|remote| remote.threads),
            host_busy_percent: remote.and_then(|remote| remote.host_busy_percent),
        })
    }

    /// Runs a program of the preparation or the cleanup.
    pub fn run_helper(
        &mut self,
        words: &[String],
        surroundings: &Surroundings,
        timeout: Duration,
        signals: Option<&TerminationSignals>,
    ) -> Result<(), HelperError> {
        let failed = HelperError::Failed;
        self.start(words, surroundings).map_err(failed)?;
        let since = Instant::now();
        let signalled = signals.map_or(-1, TerminationSignals::descriptor);
        let mut status = None;
        while status.is_none() || self.stdout.take_line().is_none() {
            let left = timeout.saturating_sub(since.elapsed());
            let pause = left.min(FREE_INTERVAL);
            let [is_asked_to_end, _] = self.wait(pause, [signalled, -1]).map_err(failed)?;
            while let Some(line) = self.take_line() {
                let end = line.strip_prefix("end ").map(|end| self.read_end(end)).transpose();
                status = end.map_err(failed)?.map(|end| end.status).or(status);
            }
            if is_asked_to_end {
                // The cleanup runs next, and not beside it.
                let _ = self.stop();
                return Err(HelperError::Interrupted);
            }
            if left.is_zero() {
                self.stop().map_err(failed)?;
                let seconds = timeout.as_secs_f64();
                let why = format!("'{}' took longer than {seconds:.0} s", shown(words));
                return Err(failed(format!("{why} on {}", self.host())));
            }
        }
        let output = [self.stdout.take_output(), self.stderr.take_output()];
        match status {
            Some(status) if !status.success() => {
                let why = format!("'{}' {} on {}", shown(words), described(status), self.host());
                let [stdout, stderr] = output.map(|output: KeptOutput| output.last_words());
                let words = if stderr.is_empty() { stdout } else { stderr };
                Err(failed(with_last_words(&why, &words)))
            }
            _ => Ok(()),
        }
    }

    /// Sends a program to the shell.
    fn start(&mut self, words: &[String], surroundings: &Surroundings) -> Result<(), String> {
        let mut line = r#"sh -c 'echo "$$" > "$0/program"; exec env "$@"' "$d""#.to_string();
        let settings =
            surroundings.environment.iter().map(|(name, value)| format!("{name}={value}"));
        for word in settings.chain(words.iter().cloned()) {
            line.push(' ');
            line += &ssh::quoted(&word).map_err(|why| format!("{why:#}"))?;
        }
        let script = format!("{BEFORE}{line}{AFTER}");
        self.send(&format!("run {}\n{script}", script.len()))
    }

    /// Has the shell kill what is left of the last program, and waits for that.
    fn stop(&mut self) -> Result<(), String> {
        self.send("stop\n")?;
        if self.wait_for_both("stopped", STOP, None)? {
            return Ok(());
        }
        let host = self.host();
        Err(format!(
            "{host} did not stop the client within {} s: look for it there",
            STOP.as_secs()
        ))
    }

    fn send(&mut self, text: &str) -> Result<(), String> {
        let sent =
            self.to.as_mut().map(|to| to.write_all(text.as_bytes()).and_then(|()| to.flush()));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.why_lost()),
        }
    }

    /// Waits for something to read, at most this long, and reads it. Returns which of the other descriptors are
    /// readable; an error if the connection is lost.
    fn wait(&mut self, time: Duration, others: [i32; 2]) -> Result<[bool; 2], String> {
        if Instant::now() >= self.next_beat {
            self.beat()?;
        }
        let [one, other] = others;
        let (stdout, stderr) = (self.stdout.descriptor(), self.stderr.descriptor());
        let [has_ended, one, other, has_stdout, has_stderr] =
            poll(&[self.ended.as_raw_fd(), one, other, stdout, stderr], time);
        if has_stdout || has_stderr {
            self.unanswered = 0;
        }
        self.stdout.read(1);
        self.stderr.read(1);
        if has_ended { Err(self.why_lost()) } else { Ok([one, other]) }
    }

    /// Gives the shell a sign of life, unless it has given none for long.
    fn beat(&mut self) -> Result<(), String> {
        let host = self.host();
        if self.unanswered == UNANSWERED_MAX {
            return Err(format!(
                "the connection to the client's host {host} was lost: nothing came for {} s, look whether {host} is up \
                 and the network holds",
                (BEAT * (UNANSWERED_MAX + 1)).as_secs()
            ));
        }
        (self.beats, self.unanswered) = (self.beats + 1, self.unanswered + 1);
        self.next_beat = Instant::now() + BEAT;
        self.send(&format!("beat {}\n", self.beats))
    }

    /// The next line of the shell on the error stream that is no answer to a beat.
    fn take_line(&mut self) -> Option<String> {
        iter::from_fn(|| self.stderr.take_line()).find(|line| line != "beat")
    }

    /// Waits until the shell has said a word on both streams. What it says before is dropped. Returns whether it has.
    fn wait_for_both(
        &mut self,
        word: &str,
        limit: Duration,
        signals: Option<&TerminationSignals>,
    ) -> Result<bool, String> {
        let since = Instant::now();
        let signalled = signals.map_or(-1, TerminationSignals::descriptor);
        let (mut on_stdout, mut on_stderr) = (false, false);
        while !(on_stdout && on_stderr) {
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            let [is_asked_to_end, _] = self.wait(left.min(FREE_INTERVAL), [signalled, -1])?;
            if is_asked_to_end {
                return Err(INTERRUPTED.to_string());
            }
            while let Some(line) = self.stdout.take_line() {
                on_stdout |= line == word;
            }
            while let Some(line) = self.take_line() {
                on_stderr |= line == word;
            }
        }
        Ok(true)
    }

    /// Why there is no connection any more, by what ssh said last.
    fn why_lost(&mut self) -> String {
        self.stderr.read(64);
        let said = self.stderr.take_output().last_words();
        let host = self.host();
        match said.as_str() {
            "" => format!(
                "the connection to the client's host {host} was lost: look whether {host} is up and the network holds"
            ),
            said => {
                format!("no connection to the client's host {host}: {}", ssh::with_advice(said))
            }
        }
    }

    /// Reads "STATUS USER SYSTEM THREADS|CPU TIMES BEFORE|CPU TIMES AFTER", with times in ticks.
    fn read_end(&self, text: &str) -> Result<RemoteEnd, String> {
        let read = || -> Option<RemoteEnd> {
            let mut parts = text.splitn(3, '|');
            let numbers: Vec<u64> =
                parts.next()?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
            let [status, user, system, threads] = numbers[..] else { return None };
            let (before, after) = (parts.next()?, parts.next()?);
            Some(RemoteEnd {
                status: exit_status(status as i32),
                usage: Usage {
                    user_us: user * TICK_US,
                    system_us: system * TICK_US,
                    ..Usage::default()
                },
                threads: Some(threads as usize).filter(|threads| *threads > 0),
                host_busy_percent: busy_percent(before, after),
            })
        };
        read().ok_or_else(|| format!("the shell on {} ended a program with '{text}'", self.host()))
    }
}

impl Drop for RemoteSession<'_> {
    /// Lets the shell clean up: it does when its input ends.
    fn drop(&mut self) {
        self.to = None;
        let since = Instant::now();
        while since.elapsed() < END && poll(&[self.ended.as_raw_fd()], FREE_INTERVAL) == [false] {
            self.stdout.read(64);
            self.stderr.read(64);
        }
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// A clock tick of /proc/PID/stat and /proc/stat: USER_HZ is 100 on all architectures of Linux but alpha and ia64.
const TICK_US: u64 = 10_000;

/// The status that a shell tells as a number: above 128 it stands for a signal.
fn exit_status(status: i32) -> ExitStatus {
    let is_signal = (129..=159).contains(&status);
    ExitStatus::from_raw(if is_signal { status - 128 } else { status << 8 })
}

/// The share of the time of all CPUs of a host that anything used, between two first lines of its /proc/stat.
fn busy_percent(before: &str, after: &str) -> Option<f64> {
    let ticks = |line: &str| -> Option<Vec<u64>> {
        let fields = line.split_ascii_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
        (ticks.len() == 8).then_some(ticks)
    };
    let (before, after) = (ticks(before)?, ticks(after)?);
    let spent: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a.saturating_sub(*b)).collect();
    let all: u64 = spent.iter().sum();
    // Idle and waiting for disks; time that the hypervisor took is not free.
    let idle = spent[3] + spent[4];
    (all > 0).then(|| 100.0 * (all - idle) as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_above_128_is_a_signal() {
        assert_eq!(described(exit_status(0)), "ended with status 0");
        assert_eq!(described(exit_status(127)), "ended with status 127");
        assert_eq!(described(exit_status(139)), "was killed by SIGSEGV");
        assert_eq!(described(exit_status(255)), "ended with status 255");
    }

    /// An ssh that runs the line, its last argument, on this host.
    fn here() -> RemoteClient {
        let ssh = ["sh", "-c", "for line; do :; done; eval \"$line\"", "ssh"];
        let (ssh, host) = (ssh.map(str::to_string).to_vec(), "here".to_string());
        RemoteClient { ssh, host, cpus: 1, is_here: true }
    }

    #[test]
    fn a_program_that_is_stopped_at_once_does_not_run_to_its_end() {
        let (client, signals) = (here(), TerminationSignals::block().unwrap());
        let mut session = RemoteSession::open(&client, &signals).unwrap();
        let environment = BTreeMap::new();
        let own = Surroundings { directory: Path::new("."), environment: &environment, user: None };
        for _ in 0..10 {
            session.start(&["sleep", "60"].map(str::to_string), &own).unwrap();
            session.stop().unwrap();
        }
    }

    #[test]
    fn busy_time_is_what_is_neither_idle_nor_waits_for_disks() {
        let before = "cpu  100 0 100 800 0 0 0 0 0 0";
        assert_eq!(busy_percent(before, "cpu  140 0 110 830 10 5 5 0 0 0"), Some(60.0));
        assert_eq!(busy_percent(before, before), None);
        assert_eq!(busy_percent("cpu  1 2", before), None);
    }
}
