//! What measuring a command costs: the wall time that knee tells of a program of a second over
//! that of a plain fork, exec and wait of the same program, one that sleeps and one that
//! computes, in pairs in random order.

use std::env::temp_dir;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rand::seq::SliceRandom;
use records::{CommandJob, Event, Form, Job, PROTOCOL, Pass, Success, Until, Work};

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, ratio};

/// How long a program took.
#[derive(Clone, Copy)]
struct Times {
    wall_s: f64,
    cpu_s: f64,
}

impl Times {
    fn wall(&self) -> f64 {
        self.wall_s
    }

    fn cpu(&self) -> f64 {
        self.cpu_s
    }
}

/// Ratios of wall times, for a program that sleeps and one that computes for a second.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let computing = computing()?;
    let programs = [
        ("sleep 1", vec!["sleep".to_string(), "1".to_string()]),
        ("a second of arithmetic", computing),
    ];
    let mut figures = Vec::new();
    for (name, words) in programs {
        let mut times = [vec![], vec![], vec![]];
        let mut order = [0, 1, 2];
        for pair in 1..=options.pairs {
            eprintln!("command, {name}: pair {pair} of {}", options.pairs);
            order.shuffle(&mut bench.random);
            for side in order {
                let seconds =
                    if side == 0 { by_knee(&bench.knee, &words)? } else { plain(&words)? };
                times[side].push(seconds);
            }
        }
        let [knee, bare, again] = times;
        let ratio = |a: &[Times], b: &[Times], of: fn(&Times) -> f64| {
            a.iter().zip(b).map(|(a, b)| of(a) / of(b)).collect()
        };
        let figure = |what: &str, unit, limit, values| Figure {
            name: format!("command, {name}: {what}"),
            unit,
            limit,
            values,
        };
        figures.push(figure(
            "knee / plain",
            "",
            Limit::AtMost(1.01),
            ratio(&knee, &bare, Times::wall),
        ));
        figures.push(figure("plain / plain", "", Limit::None, ratio(&again, &bare, Times::wall)));
        // Others on the CPU lengthen the wall time, and hardly this.
        figures.push(figure(
            "CPU time, knee / plain",
            "",
            Limit::None,
            ratio(&knee, &bare, Times::cpu),
        ));
        figures.push(figure("plain", "s", Limit::None, bare.iter().map(Times::wall).collect()));
    }
    Ok(figures)
}

/// A loop of a shell that takes about a second, however fast the CPU.
fn computing() -> Result<Vec<String>> {
    let loops = "i=0; while [ $i -lt N ]; do i=$((i+1)); done";
    let words =
        |n: u64| vec!["sh".to_string(), "-c".to_string(), loops.replace('N', &n.to_string())];
    let trial = 300_000;
    let times = (0..5).map(|_| Ok(plain(&words(trial))?.wall_s)).collect::<Result<Vec<f64>>>()?;
    let fastest = times.into_iter().fold(f64::INFINITY, f64::min);
    Ok(words((trial as f64 / fastest) as u64))
}

/// Fork, exec and wait, on CPU 0, as a script would.
fn plain(words: &[String]) -> Result<Times> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    ratio::pinned(&mut command, 1);
    let (user_s, system_s) = cpu_s_of_children();
    let since = Instant::now();
    let status = command.status().with_context(|| format!("starting {words:?}"))?;
    let wall_s = since.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{words:?} ended with {status}");
    }
    let (user_after_s, system_after_s) = cpu_s_of_children();
    Ok(Times { wall_s, cpu_s: user_after_s - user_s + system_after_s - system_s })
}

/// CPU time of all children so far, in user mode and in the kernel.
pub fn cpu_s_of_children() -> (f64, f64) {
    // SAFETY: rusage is plain data, valid when zero; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// What a worker tells.
fn by_knee(knee: &Path, words: &[String]) -> Result<Times> {
    let home = fresh_directory(&temp_dir())?;
    let scratch = home.path().join("run");
    let job = Job {
        protocol: PROTOCOL,
        work: Work::Command(CommandJob {
            run: words.to_vec(),
            prepare: Vec::new(),
            cleanup: Vec::new(),
            directory: scratch.clone(),
            environment: Default::default(),
            success: Success::Statuses(vec![0]),
            timeout_s: 60.0,
            metrics: Vec::new(),
            server: None,
            client: None,
            operations: None,
        }),
        form: Form::Processes,
        tasks: 1,
        cpus: vec![0],
        until: Until::End,
        pass: Pass::Rate,
        profile: None,
        scratch,
        keep: false,
        beside: None,
        daemon: None,
        together: false,
        allocations: false,
        traced: false,
        stop_grace_s: 10.0,
    };
    for event in ratio::worker(knee, &job)? {
        match event {
            Event::Measured(measured) => {
                let cpu_us = measured.usage.user_us + measured.usage.system_us;
                let wall_s = measured.wall_ns as f64 / 1e9;
                return Ok(Times { wall_s, cpu_s: cpu_us as f64 / 1e6 });
            }
            Event::Failed { reason } => bail!("knee: {reason}"),
            _ => {}
        }
    }
    bail!("the worker died")
}
