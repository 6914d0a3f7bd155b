//! What `knee explain --pid` costs the server that it looks at: the rates of redis and of PostgreSQL, looked at and left alone in
//! turns; and whether it keeps up with a thousand threads that switch all the time.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::RngExt;
use serde::Deserialize;
use tempfile::TempDir;

use crate::report::{Figure, Limit};
use crate::servers::Process;
use crate::{Bench, Options, fresh_directory, output, workspace};

/// The user and the group `nobody` of Debian: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;
/// How long knee takes until it follows all threads, generously.
const ATTACHED: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_secs(60);

/// Costs of a look at each server that is installed here.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, start) in
        [("redis", Server::redis as fn() -> Result<Server>), ("pgbench", Server::postgresql)]
    {
        eprintln!("{name}, looked at and left alone");
        match start().and_then(|server| server.cost(name, bench, options.pairs)) {
            Ok(figure) => figures.push(figure),
            Err(why) => eprintln!("{name} is not measured: {why:#}"),
        }
    }
    figures.extend(thousand_threads(bench)?);
    Ok(figures)
}

/// A server that runs, and the client that measures its rate. Fields are dropped in this order.
struct Server {
    process: Process,
    client: Vec<String>,
    /// What stands before the rate in what the client prints.
    before: &'static str,
    home: TempDir,
}

impl Server {
    fn redis() -> Result<Server> {
        let home = fresh_directory(&std::env::temp_dir())?;
        let socket = home.path().join("socket");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
        command.arg(&socket).current_dir(home.path());
        let process = Process::start(&mut command, &home.path().join("log"), None)?;
        wait_for(&socket)?;
        let asked = "redis-benchmark -t get -n 300000 -c 16 --csv -s";
        let client = words(asked, &[&socket.display().to_string()]);
        Ok(Server { process, client, before: "\"GET\",\"", home })
    }

    fn postgresql() -> Result<Server> {
        let home = fresh_directory(&std::env::temp_dir())?;
        chown(home.path(), Some(NOBODY), Some(NOBODY)).context("giving nobody the folder")?;
        let programs = programs_of_postgresql()?;
        let data = home.path().join("data");
        let folder = home.path().display().to_string();
        let as_nobody = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.uid(NOBODY).gid(NOBODY).current_dir(home.path());
            command
        };
        output(as_nobody("initdb").args(["--auth=trust", "--username=nobody", "-D"]).arg(&data))?;
        let mut command = as_nobody("postgres");
        command.args(["-c", "listen_addresses=", "-c", "fsync=off", "-k", &folder, "-D"]);
        command.arg(&data);
        let process = Process::start(&mut command, &home.path().join("log"), None)?;
        wait_for(&home.path().join(".s.PGSQL.5432"))?;
        let client = |asked: &str| {
            let program = programs.join("pgbench").display().to_string();
            words(&format!("{program} -h {folder} -U nobody {asked} postgres"), &[])
        };
        let fill = client("-i -s 5 -q");
        output(Command::new(&fill[0]).args(&fill[1..]))?;
        let client = client("-n -S -c 8 -j 2 -T 4");
        Ok(Server { process, client, before: "tps = ", home })
    }

    /// Rates while knee looks over rates while it does not, in pairs in a random order.
    fn cost(self, name: &str, bench: &mut Bench, pairs: usize) -> Result<Figure> {
        self.rate()?;
        let mut values = Vec::new();
        for _ in 0..pairs {
            let first = bench.random.random::<bool>();
            let (a, b) = (self.rate_if(bench, first)?, self.rate_if(bench, !first)?);
            values.push(if first { a / b } else { b / a });
        }
        let name = format!("{name}: rate while knee explains it over its rate alone");
        Ok(Figure { name, unit: "", limit: Limit::AtLeast(0.98), values })
    }

    fn rate_if(&self, bench: &Bench, is_looked_at: bool) -> Result<f64> {
        let look = is_looked_at.then(|| Look::begin(bench, &self.process, self.home.path()));
        let look = look.transpose()?;
        sleep(ATTACHED);
        let rate = self.rate()?;
        look.map_or(Ok(()), |look| look.end().map(drop))?;
        Ok(rate)
    }

    fn rate(&self) -> Result<f64> {
        let said = output(Command::new(&self.client[0]).args(&self.client[1..]))?.stdout;
        let said = String::from_utf8_lossy(&said);
        let rate = said.split(self.before).nth(1).and_then(|rest| {
            rest.split(|letter: char| !letter.is_ascii_digit() && letter != '.')
                .next()?
                .parse()
                .ok()
        });
        rate.with_context(|| format!("{} prints no rate: {said}", self.client[0]))
    }
}

fn words(line: &str, more: &[&str]) -> Vec<String> {
    line.split_whitespace().chain(more.iter().copied()).map(str::to_string).collect()
}

fn programs_of_postgresql() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").context("looking for PostgreSQL")?;
    let programs = versions.flatten().map(|version| version.path().join("bin"));
    programs.max().context("PostgreSQL has no programs in /usr/lib/postgresql")
}

fn wait_for(file: &Path) -> Result<()> {
    let since = Instant::now();
    while !file.exists() {
        ensure!(since.elapsed() < PATIENCE, "{} does not come", file.display());
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A look that goes on until it is ended.
struct Look {
    knee: Process,
    said: PathBuf,
}

/// What is read of an answer.
#[derive(Deserialize)]
struct Seen {
    seconds: f64,
    lost_events: u64,
}

impl Look {
    fn begin(bench: &Bench, process: &Process, home: &Path) -> Result<Look> {
        let said = home.join("answer.json");
        let mut command = bench.knee(home);
        command.args(["explain", "--json", "--seconds", "600", "--pid"]);
        command.arg(process.id().to_string());
        Ok(Look { knee: Process::start(&mut command, &said, None)?, said })
    }

    /// Interrupts it, and returns its answer with the time that it took to the end.
    fn end(mut self) -> Result<(Seen, f64)> {
        // SAFETY: no preconditions; the process is ours and not waited for yet.
        unsafe { libc::kill(self.knee.id() as i32, libc::SIGTERM) };
        let since = Instant::now();
        while self.knee.ended()?.is_none() {
            ensure!(since.elapsed() < PATIENCE, "no answer after {PATIENCE:?}");
            sleep(Duration::from_millis(20));
        }
        let said = fs::read_to_string(&self.said).context("reading what knee said")?;
        // Before it stands what it tells the user.
        let answer = &said[said.find("\n{").unwrap_or_default()..];
        let seen = serde_json::from_str(answer).with_context(|| format!("knee said: {said}"))?;
        Ok((seen, since.elapsed().as_secs_f64()))
    }
}

/// A look at a thousand threads that pass tokens on.
fn thousand_threads(bench: &Bench) -> Result<Vec<Figure>> {
    const LOOKED: Duration = Duration::from_secs(10);
    let home = fresh_directory(&std::env::temp_dir())?;
    let (ring, log) = (home.path().join("ring"), home.path().join("log"));
    let source = workspace().join("bench/servers/ring.c");
    output(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&ring).arg(source))?;
    let mut command = Command::new("prlimit");
    command.arg("--nofile=4096").arg(&ring);
    let process = Process::start(&mut command, &log, None)?;
    let (mut rates, mut lost, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let look = Look::begin(bench, &process, home.path())?;
        sleep(ATTACHED + LOOKED);
        let (seen, seconds) = look.end()?;
        rates.push(hops_per_s(&log)?);
        lost.push(seen.lost_events as f64 / seen.seconds);
        late.push(seconds);
    }
    let figure = |name: &str, unit, limit, values| Figure {
        name: format!("1000 threads: {name}"),
        unit,
        limit,
        values,
    };
    Ok(vec![
        figure("waits while knee looks", "1/s", Limit::AtLeast(100_000.0), rates),
        figure("events that knee says it lost", "1/s", Limit::None, lost),
        figure("time to the answer, beyond the time looked at", "s", Limit::AtMost(3.0), late),
    ])
}

/// The hops of the last second.
fn hops_per_s(log: &Path) -> Result<f64> {
    let said = fs::read_to_string(log)?;
    let done: Vec<(f64, f64)> = said
        .lines()
        .filter_map(|line| {
            let (hops, at_s) = line.strip_prefix("done ")?.split_once(' ')?;
            Some((hops.parse().ok()?, at_s.parse().ok()?))
        })
        .collect();
    let last = done.last().context("the ring prints nothing")?;
    let first = done.get(done.len().saturating_sub(5)).context("the ring prints nothing")?;
    ensure!(last.1 > first.1, "the ring stands still");
    Ok((last.0 - first.0) / (last.1 - first.1))
}
