//! A session with one host. Nothing here waits without a limit: what the streams bring is read and
//! written by threads.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use host::terminal::{hint, talk};
use host::{children, signals, ssh};

use super::facts::{Facts, MARK, SCRIPT};
use crate::remote::{Answer, Request, read_line};

/// How long a host may take to log the user in and to describe itself.
const LOGIN: Duration = Duration::from_secs(30);

/// How long is waited for a message before signals and leases are looked at.
pub const TICK: Duration = Duration::from_millis(100);

/// Slowest line that a binary is sent over, in bytes per second.
const SLOWEST_LINE: u64 = 100_000;

/// Longest file of a record, after one run, that is believed.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Last bytes of what ssh says that are kept.
const SAID_BYTES: usize = 2000;

/// What a host sends.
#[derive(Debug)]
pub enum Heard {
    Facts(Facts),
    Answer(Answer),
    /// An [`Answer::File`] with its bytes.
    File {
        path: String,
        offset: u64,
        text: Vec<u8>,
    },
    /// The stream ended, for this reason if it is known.
    End(Option<String>),
}

/// A running ssh.
pub struct Connection {
    name: String,
    ssh: Child,
    /// `None` once the stream is closed.
    to: Option<Sender<Arc<Vec<u8>>>>,
    from: Receiver<Heard>,
    said: Arc<Messages>,
}

/// What ssh and the host's knee say on standard error.
#[derive(Default)]
struct Messages {
    /// The last of it that was not shown.
    kept: Mutex<String>,
    /// Whether it is shown at once.
    shows: AtomicBool,
}

impl Connection {
    /// Logs in. Returns what the host is.
    pub fn open(ssh: &[String], name: &str) -> Result<(Connection, Facts)> {
        let connection = Connection::start(ssh, name)?;
        match connection.hear(LOGIN)? {
            Some(Heard::Facts(facts)) => Ok((connection, facts)),
            Some(other) => bail!("it begins with {other:?}: is another program its shell?"),
            None => bail!("no answer in {:.0} s", LOGIN.as_secs_f64()),
        }
    }

    fn start(ssh: &[String], name: &str) -> Result<Connection> {
        let words = ssh::words(ssh, name, SCRIPT, None);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ssh = children::spawn(&mut command)
            .with_context(|| format!("starting {}: install the client of OpenSSH", words[0]))?;
        let (to, lines) = channel();
        let (heard, from) = channel();
        let said = Arc::new(Messages::default());
        let stdin = ssh.stdin.take().context("ssh's input is a pipe")?;
        let stdout = ssh.stdout.take().context("ssh's output is a pipe")?;
        let stderr = ssh.stderr.take().context("ssh's messages are a pipe")?;
        let (known, host) = (Arc::clone(&said), name.to_string());
        // Before the threads: whatever fails then, dropping it ends ssh.
        let connection = Connection { name: name.to_string(), ssh, to: Some(to), from, said };
        let start = || -> io::Result<()> {
            Builder::new().spawn(move || write_all(stdin, &lines))?;
            Builder::new().spawn(move || listen(BufReader::new(stdout), &heard))?;
            Builder::new().spawn(move || keep_messages(BufReader::new(stderr), &known, &host))?;
            Ok(())
        };
        start().context("starting a thread that talks with ssh")?;
        Ok(connection)
    }

    /// Starts this binary there.
    pub fn send_binary(&mut self, binary: &Arc<Vec<u8>>) -> Result<()> {
        self.write(Arc::new(format!("{}\n", binary.len()).into_bytes()))?;
        self.write(Arc::clone(binary))
    }

    /// Shows from now on what the host's knee says to people. Before, it is only kept, to say why a host cannot
    /// measure.
    pub fn show_messages(&self) {
        self.said.shows.store(true, Relaxed);
    }

    /// How long it may take until a binary has answered.
    pub fn limit_for(binary: &[u8]) -> Duration {
        LOGIN + Duration::from_secs(binary.len() as u64 / SLOWEST_LINE)
    }

    /// Asks for something. Does not wait until it is sent.
    pub fn ask(&self, request: &Request) -> Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.write(Arc::new(line))
    }

    fn write(&self, bytes: Arc<Vec<u8>>) -> Result<()> {
        let to = self.to.as_ref().context("the connection is closed")?;
        to.send(bytes).ok().with_context(|| self.why_ended(None))
    }

    /// What the host sends next, unless a signal comes before; `None` if it sends nothing for this long.
    pub fn hear(&self, limit: Duration) -> Result<Option<Heard>> {
        let since = Instant::now();
        while since.elapsed() < limit {
            ensure!(signals::received().is_none(), "interrupted");
            if let Some(heard) = self.next(TICK)? {
                return Ok(Some(heard));
            }
        }
        Ok(None)
    }

    /// What the host sends next; `None` if it sends nothing for this long. An error if the connection is
    /// lost.
    pub fn next(&self, limit: Duration) -> Result<Option<Heard>> {
        match self.from.recv_timeout(limit) {
            Ok(Heard::End(why)) => bail!(self.why_ended(why)),
            Ok(heard) => Ok(Some(heard)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!(self.why_ended(None)),
        }
    }

    /// Why there is no connection any more, by what ssh said.
    fn why_ended(&self, why: Option<String>) -> String {
        // Its last words may come after the end of the stream.
        thread::sleep(Duration::from_millis(100));
        let said = self.said.kept.lock().unwrap_or_else(PoisonError::into_inner);
        ssh::with_advice(&[&why.unwrap_or_default(), said.as_str()].join("\n"))
    }
}

impl Drop for Connection {
    /// Lets the host end by itself for a while: its knee puts back what it changed there.
    fn drop(&mut self) {
        self.to = None;
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(10) {
            match self.ssh.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(10)),
                _ => return,
            }
        }
        talk(format_args!("{}: ssh does not end, and is killed", self.name));
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// Writes what is sent to this thread, until the other side or the connection ends.
fn write_all(mut stdin: ChildStdin, lines: &Receiver<Arc<Vec<u8>>>) {
    for bytes in lines {
        // Why the connection is lost is heard by the listener.
        if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Passes on what the host sends.
fn listen(mut stdout: impl BufRead, heard: &Sender<Heard>) {
    let mut hear = || -> Result<()> {
        let Some(facts) = facts(&mut stdout)? else { return Ok(()) };
        let mut next = Heard::Facts(facts);
        loop {
            if heard.send(next).is_err() {
                return Ok(());
            }
            next = match read_line::<Answer>(&mut stdout)? {
                None => return Ok(()),
                Some(Answer::File { path, offset, bytes }) => {
                    ensure!(bytes <= FILE_BYTES_MAX, "it sends a file of {bytes} bytes");
                    let mut text = Vec::new();
                    stdout.by_ref().take(bytes).read_to_end(&mut text)?;
                    ensure!(text.len() as u64 == bytes, "the stream ended within a file");
                    Heard::File { path, offset, text }
                }
                Some(answer) => Heard::Answer(answer),
            };
        }
    };
    let why = hear().err().map(|why| format!("{why:#}"));
    let _ = heard.send(Heard::End(why));
}

/// What the host says about itself, after whatever its login shell prints.
fn facts(stdout: &mut impl BufRead) -> Result<Option<Facts>> {
    loop {
        let mut line = Vec::new();
        stdout.by_ref().take(1 << 16).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if let Some(facts) = String::from_utf8_lossy(&line).strip_prefix(MARK) {
            return Facts::parse(facts).map(Some);
        }
    }
}

/// Shows or keeps what ssh and the host's knee say.
fn keep_messages(stderr: impl BufRead, said: &Messages, host: &str) {
    for line in stderr.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if said.shows.load(Relaxed) {
            hint(format_args!("{host}: {}", line.trim_end()));
            continue;
        }
        let mut kept = said.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(line.trim_end());
        kept.push('\n');
        let excess = kept.len().saturating_sub(SAID_BYTES);
        let cut = (excess..=kept.len()).find(|at| kept.is_char_boundary(*at)).unwrap_or(0);
        kept.drain(..cut);
    }
}
