//! A record as large as they come: how long it takes to show and to report it, and how much memory. How much memory
//! a server takes that many ask at once for the page of a large record.

use std::env::temp_dir;
use std::fs::read_to_string;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use rand::RngExt;
use records::Run;
use store::{Id, Store};

use crate::comparing::{only_record, vary};
use crate::perf_data::timed;
use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const RUNS: u32 = 100_000;

/// Runs of the record that is served.
const SERVED: u32 = 20_000;

/// Requests at once.
const REQUESTS: [usize; 3] = [1, 8, 64];
const REPEATS: usize = 5;

/// Runs that become durable together.
const BATCH: u32 = 1000;

/// Wall times and largest memory of `knee show` and `knee report`.
pub fn measure(bench: &mut Bench) -> Result<Vec<Figure>> {
    let home = fresh_directory(&temp_dir())?;
    let mut run = bench.knee(home.path());
    run.args(["run", "getppid", "--cpus", "1", "--seconds", "0.02", "--json", "--dir"]);
    run.arg(home.path()).args(["--variant", "a=", "--variant", "b=idle_ns=10"]);
    output(&mut run)?;
    eprintln!("writing {RUNS} runs");
    let small = only_record(&home.path().join("records"))?;
    let large = enlarge(bench, &small, home.path().join("large"), RUNS)?;
    let mut figures = Vec::new();
    for verb in ["show", "report"] {
        let (mut ms, mut memory) = (Vec::new(), Vec::new());
        for repeat in 1..=REPEATS {
            eprintln!("{verb} of {RUNS} runs: {repeat} of {REPEATS}");
            let (time, bytes) = timed(bench.knee(home.path()).arg(verb).arg(&large))?;
            ms.push(time);
            memory.push(bytes / f64::from(1 << 20));
        }
        let figure = |what: &str, unit, limit, values| Figure {
            name: format!("{verb} of {RUNS} runs{what}"),
            unit,
            limit: Limit::AtMost(limit),
            values,
        };
        figures.push(figure("", "ms", 3000.0, ms));
        figures.push(figure(", memory", "MiB", 400.0, memory));
    }
    let served = enlarge(bench, &small, home.path().join("served"), SERVED)?;
    for requests in REQUESTS {
        figures.push(serving(bench, home.path(), &served, requests)?);
    }
    Ok(figures)
}

/// The largest memory of `knee serve` that so many clients ask for the page of the record at once.
fn serving(bench: &mut Bench, home: &Path, record: &Path, requests: usize) -> Result<Figure> {
    let mut memory = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("serve of {SERVED} runs, {requests} requests: {repeat} of {REPEATS}");
        let mut knee = bench.knee(home);
        knee.arg("--records").arg(home.join("served")).args(["serve", "--port", "0"]);
        let mut server = Held(knee.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
        let mut line = String::new();
        let printed = server.0.stdout.take().context("its output")?;
        BufReader::new(printed).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://").context("an address")?;
        let (host, key) = address.split_once("/?key=").context("a key")?;
        let port = host.rsplit(':').next().context("a port")?;
        let id = record.file_name().context("a name")?.display();
        let request = format!(
            "GET /records/{id} HTTP/1.1\r\nHost: {host}\r\nCookie: knee_{port}={key}\r\n\r\n"
        );
        // Whether the page came: a server has the right to refuse what it cannot answer at once.
        let ask = || -> Result<bool> {
            let mut stream = TcpStream::connect(host)?;
            stream.write_all(request.as_bytes())?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer.starts_with(b"HTTP/1.1 200"))
        };
        thread::scope(|scope| {
            let clients: Vec<_> = (0..requests).map(|_| scope.spawn(ask)).collect();
            let answers = clients.into_iter().map(|client| client.join().expect("no panic"));
            let answered = answers.filter(|answer| matches!(answer, Ok(true))).count();
            ensure!(answered > 0, "no client got the page of {id}");
            Ok(())
        })?;
        let status = read_to_string(format!("/proc/{}/status", server.0.id()))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = kib.and_then(|kib| kib.trim().strip_suffix(" kB")).context("VmHWM")?;
        memory.push(kib.parse::<f64>()? / 1024.0);
    }
    Ok(Figure {
        name: format!("serve of {SERVED} runs, {requests} requests at once, memory"),
        unit: "MiB",
        limit: Limit::AtMost(400.0),
        values: memory,
    })
}

/// A server that ends with its measurement.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A record of the same two variants with many runs, which differ by chance.
fn enlarge(bench: &mut Bench, small: &Path, folder: PathBuf, runs: u32) -> Result<PathBuf> {
    let template = store::open(small)?;
    let mut record = template.record.clone();
    record.experiment.blocks = Some(runs / 2);
    let store = Store::at(folder);
    let mut growing = store.begin(record, Id::new(Timestamp::now(), bench.random.random()))?;
    let finished = |point| template.runs_of(point).find(|run| run.finished() && !run.placebo);
    let like = [finished(0), finished(1)].map(|run| run.context("a finished run"));
    let [a, b] = like;
    let like = [a?, b?];
    for first in (0..runs).step_by(BATCH as usize) {
        let run = |run: u32| {
            let mut one = Run { run, block: run / 2, ..like[run as usize % 2].clone() };
            vary(&mut one, &mut bench.random);
            (one, Vec::new())
        };
        growing.append_all((first..first + BATCH).map(run).collect())?;
    }
    growing.complete = true;
    growing.finish(Timestamp::now())?.context("the record has runs")
}
