//! `xattr_replace` against stress-ng's xattr stressor, per call, one task each, on fresh file
//! systems of the same kind.
//!
//! The stressor mixes calls of very different cost, many of which fail on purpose: the cost of its
//! mean call says nothing about a replacement. So its calls are told apart, by a library loaded into
//! it (`bench/bare/xattr_clock.c`), which counts and times each kind; what the clock itself takes is
//! taken off. Beside that: all its calls together, from runs without the library.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rand::seq::SliceRandom;
use records::Until;

use crate::command::cpu_s_of_children;
use crate::file_system::FileSystem;
use crate::ratio::{self, Ran};
use crate::report::{Figure, Limit};
use crate::{Bench, Options, output, peer};

const KINDS: &[&str] = &["ext4", "xfs"];

/// What knee does, as the library names it: by descriptor, another value than before.
const SAME: &str = "fsetxattr replace";

/// Kinds of calls that are fewer than this share of all are not shown.
const SHARE_SHOWN: f64 = 0.01;

/// Ratios and costs on each kind of file system.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let program = peer::find("stress-ng", "stress-ng")?;
    let library = ratio::build("xattr_clock", &["-shared", "-fPIC"])?;
    let mut figures = Vec::new();
    for kind in KINDS.iter().filter(|kind| options.wants_fs(kind)) {
        let mut case =
            Case { program: &program, library: &library, kind, options, rounds: 1, names: 0 };
        case.calibrate()?;
        figures.extend(case.measure(bench)?);
    }
    Ok(figures)
}

/// One kind of file system.
struct Case<'a> {
    program: &'a Path,
    library: &'a Path,
    kind: &'static str,
    options: &'a Options,
    /// Bogo operations of each run of stress-ng.
    rounds: u64,
    /// Attributes that it makes, uses and removes in each of them.
    names: u64,
}

#[derive(Clone, Copy)]
enum Side {
    Knee,
    Peer,
    PeerByKind,
}

/// What one call takes, in ns.
#[derive(Clone, Copy)]
struct Cost {
    wall_ns: f64,
    kernel_ns: f64,
}

/// Calls of one kind.
#[derive(Clone, Copy)]
struct Calls {
    calls: u64,
    /// What one of them took, without the clock.
    ns: f64,
}

type ByKind = BTreeMap<String, Calls>;

/// What was measured in each round.
#[derive(Default)]
struct Costs {
    knee: Vec<Cost>,
    peer: Vec<Cost>,
    by_kind: Vec<ByKind>,
}

impl Case<'_> {
    /// Finds how many attributes a round has here, and how many rounds fill the time.
    fn calibrate(&mut self) -> Result<()> {
        let table = self.by_kind()?;
        self.names = table[SAME].calls;
        let ns: f64 = table.values().map(|row| row.calls as f64 * row.ns).sum();
        self.rounds = (self.options.seconds * 1e9 / ns).ceil() as u64 + 1;
        Ok(())
    }

    fn measure(&self, bench: &mut Bench) -> Result<Vec<Figure>> {
        let mut costs = Costs::default();
        let mut order = [Side::Knee, Side::Peer, Side::PeerByKind];
        for pair in 1..=self.options.pairs {
            eprintln!("xattr on {}: pair {pair} of {}", self.kind, self.options.pairs);
            order.shuffle(&mut bench.random);
            for side in order {
                match side {
                    Side::Knee => costs.knee.push(self.knee(&bench.knee)?),
                    Side::Peer => costs.peer.push(self.peer()?),
                    Side::PeerByKind => costs.by_kind.push(self.by_kind()?),
                }
            }
        }
        self.figures(&costs)
    }

    fn figures(&self, Costs { knee, peer, by_kind }: &Costs) -> Result<Vec<Figure>> {
        let kind = self.kind;
        let figure = |what: String, unit, limit, values| Figure {
            name: format!("xattr on {kind}, {what}"),
            unit,
            limit,
            values,
        };
        let wall = |costs: &[Cost]| -> Vec<f64> { costs.iter().map(|c| c.wall_ns).collect() };
        let kernel = |costs: &[Cost]| costs.iter().map(|c| c.kernel_ns).collect();
        let same: Vec<f64> = by_kind.iter().map(|table| table[SAME].ns).collect();
        let over = |theirs: &[f64]| theirs.iter().zip(wall(knee)).map(|(a, b)| a / b).collect();
        let all = format!("a call of all {} a round", self.calls_a_round(&by_kind[0]));
        let none = Limit::None;
        let mut figures = vec![
            figure(
                "cost of a replacement: stress-ng / knee".to_string(),
                "",
                Limit::AtLeast(0.99),
                over(&same),
            ),
            figure(
                "cost of a call, all kinds: stress-ng / knee".to_string(),
                "",
                none,
                over(&wall(peer)),
            ),
            figure(format!("knee, {} names: wall time", self.names), "ns", none, wall(knee)),
            figure("knee: kernel time".to_string(), "ns", none, kernel(knee)),
            figure(format!("stress-ng, {all}: wall time"), "ns", none, wall(peer)),
            figure(format!("stress-ng, {all}: kernel time"), "ns", none, kernel(peer)),
        ];
        for (name, share) in self.shown(&by_kind[0]) {
            let values = by_kind.iter().map(|table| table[name].ns).collect();
            let what = format!("stress-ng, {name}, {:.0} % of calls", share * 100.0);
            figures.push(figure(what, "ns", none, values));
        }
        Ok(figures)
    }

    fn calls_a_round(&self, table: &ByKind) -> u64 {
        table.values().map(|row| row.calls).sum::<u64>() / self.rounds
    }

    /// The kinds of calls that make a difference, each with its share.
    fn shown<'t>(&self, table: &'t ByKind) -> Vec<(&'t str, f64)> {
        let all: u64 = table.values().map(|row| row.calls).sum();
        let share = |row: &Calls| row.calls as f64 / all as f64;
        let rows = table.iter().map(|(name, row)| (name.as_str(), share(row)));
        rows.filter(|(_, share)| *share >= SHARE_SHOWN).collect()
    }

    fn knee(&self, knee: &Path) -> Result<Cost> {
        let made = self.fresh()?;
        let longest = format!("value-{}", self.names - 1).len();
        let parameters = [("names", self.names.to_string()), ("value_bytes", longest.to_string())];
        let until = Until::Seconds(self.options.seconds);
        let job = ratio::job("xattr_replace", &parameters, 1, until, made.root());
        let Ran { operations, wall_ns, usage } = Ran::by(knee, &job)?;
        ensure!(operations > 0, "knee replaced nothing");
        let each = |ns: u64| ns as f64 / operations as f64;
        Ok(Cost { wall_ns: each(wall_ns), kernel_ns: each(usage.system_us * 1000) })
    }

    /// All its calls together: what many rounds took more than one, over the calls more.
    fn peer(&self) -> Result<Cost> {
        let made = self.fresh()?;
        let one = spent(&mut self.stressor(&made, 1))?;
        let calls = self.calls_of_one(&made)? * (self.rounds - 1);
        let many = spent(&mut self.stressor(&made, self.rounds))?;
        let each = |many: f64, one: f64| (many - one) / calls as f64;
        Ok(Cost {
            wall_ns: each(many.wall_ns, one.wall_ns),
            kernel_ns: each(many.kernel_ns, one.kernel_ns),
        })
    }

    /// How many calls a round makes.
    fn calls_of_one(&self, made: &FileSystem) -> Result<u64> {
        let table = self.clocked(made, 1)?;
        Ok(table.values().map(|row| row.calls).sum())
    }

    fn by_kind(&self) -> Result<ByKind> {
        self.clocked(&self.fresh()?, self.rounds)
    }

    /// Counts and times of a run with the library in it.
    fn clocked(&self, made: &FileSystem, rounds: u64) -> Result<ByKind> {
        let path = made.root().join("calls");
        let mut command = self.stressor(made, rounds);
        output(command.env("LD_PRELOAD", self.library).env("KNEE_BENCH_XATTR", &path))?;
        read(&path)
    }

    fn stressor(&self, made: &FileSystem, rounds: u64) -> Command {
        let mut command = Command::new(self.program);
        command.args(["--quiet", "--xattr", "1", "--xattr-ops", &rounds.to_string()]);
        command.arg("--temp-path").arg(made.root());
        ratio::pinned(&mut command, 1);
        command
    }

    fn fresh(&self) -> Result<FileSystem> {
        let made = FileSystem::make(self.kind, &self.options.dir)?;
        // SAFETY: no preconditions.
        unsafe { libc::sync() };
        Ok(made)
    }
}

/// What a whole program took.
fn spent(command: &mut Command) -> Result<Cost> {
    let (_, before_s) = cpu_s_of_children();
    let since = Instant::now();
    output(command)?;
    let wall_ns = since.elapsed().as_nanos() as f64;
    Ok(Cost { wall_ns, kernel_ns: (cpu_s_of_children().1 - before_s) * 1e9 })
}

/// Reads what the library wrote: rows of a name of 48 bytes, a count, and ns.
fn read(path: &PathBuf) -> Result<ByKind> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let mut table = ByKind::new();
    for row in bytes.chunks_exact(64) {
        let number = |at: usize| u64::from_ne_bytes(row[at..at + 8].try_into().expect("8 bytes"));
        let name = String::from_utf8_lossy(&row[..48]).trim_end_matches('\0').to_string();
        let calls = number(48);
        if calls > 0 {
            table.insert(name, Calls { calls, ns: number(56) as f64 / calls as f64 });
        }
    }
    let clock = table.remove("clock").context("the library did not read the clock")?;
    table.values_mut().for_each(|row| row.ns -= clock.ns);
    ensure!(table.contains_key(SAME), "stress-ng replaced no attribute");
    Ok(table)
}
