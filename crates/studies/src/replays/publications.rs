//! Published measurements of locks, as files: `publications/*.toml`, built into knee, or a user's own. A file says
//! where the measurement ran, what each task did, and what came out, as ratios of the rates at two points.
//!
//!     [inputs]  numbers, found or assumed as ranges ─┐
//!     [load]    what all points have in common       ├─> two simulated points ─> their ratio
//!     [[target]]  of = { … }, over = { … }           ┘   beside `reported`
//!
//! The file is written, and committed, before its first simulation.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use engines::simulated::{NS, SimulatedRun, Time};
use host::{Placement, unknown_of};
use serde::Deserialize;

use super::{
    DrawnInputs, FittedInput, Incident, Input, Model, PredictedValue, Prediction, Reported,
    Standing, Target, fit,
};
use crate::domain::{Class, ComparedSide};
use crate::simulations::{Conditions, LINES_MAX, LOCKS_MAX, LockLoad, OneDraw, Variation, draw};
use crate::subject::Subject;
use described_hosts::{Number, NumberEntry, Units};

/// Compiles the lock in a file that [`locks_in_c`] found.
pub type CompileLock<'a> = &'a dyn Fn(&Path) -> Result<Subject>;

/// The locks in C that a publication names.
pub struct NamedLocks {
    /// Their files, each once.
    pub files: Vec<PathBuf>,
    /// Words for their compiler.
    pub flags: String,
}

macro_rules! publications {
    ($($name:literal,)*) => {
        /// The publications built into knee: the name and the text of each file.
        static FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../publications/", $name, ".toml"))),)*];
    };
}

publications! {
    "cna-lock2",
    "cna-locktorture",
    "cna-open1",
    "cost-hierarchy-icelake",
    "cost-hierarchy-skylake",
    "folly-small-locks",
    "non-scalable-locks",
    "qspinlock-simple-write",
    "refscale-rwlock",
    "refscale-rwsem",
    "rwsem-half-readers",
    "sosp13-512-locks",
    "sosp13-opteron-one-lock",
    "sosp13-xeon-one-lock",
    "swift-mutex-broadwell",
    "swift-mutex-skylake",
}

/// The format of a publication's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicationFile {
    title: String,
    /// The publications that numbers were found in, by the names that the numbers use.
    sources: BTreeMap<String, String>,
    /// What the model leaves out.
    limitations: Vec<String>,
    #[serde(default)]
    inputs: BTreeMap<String, NumberEntry>,
    /// What all points have in common.
    #[serde(default)]
    load: PointEntry,
    fitted: Option<FittedEntry>,
    /// Flags for the compiler of locks in C.
    #[serde(default)]
    cflags: String,
    target: Vec<TargetEntry>,
}

/// An observation of the publication.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetEntry {
    what: String,
    /// The rate at one point over the rate at the other.
    reported: f64,
    /// ns from one operation to the next of any task, at both points.
    reported_ns: Option<[f64; 2]>,
    of: PointEntry,
    over: PointEntry,
}

/// An input that is fitted to an observation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FittedEntry {
    /// The name of the input. It is none of `[inputs]`.
    input: String,
    /// Where to look for it, in ns.
    from_ns: f64,
    to_ns: f64,
    what: String,
    reported: f64,
    of: PointEntry,
    over: PointEntry,
}

/// A point, or the part of it that differs from `[load]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointEntry {
    host: Option<String>,
    lock: Option<String>,
    placement: Option<String>,
    cpus: Option<Amount>,
    /// As many as CPUs unless given.
    tasks: Option<Amount>,
    /// The time between two critical sections: an input.
    work: Option<String>,
    /// How it varies: `exp` unless given.
    variation: Option<String>,
    /// The time inside a critical section, besides its lines: an input.
    hold: Option<String>,
    /// Lines that a critical section writes, and lines that it only reads.
    data: Option<Amount>,
    read: Option<Amount>,
    locks: Option<Amount>,
    /// How many of 100 operations only read.
    reads: Option<Amount>,
    /// Simulated time in ms.
    length_ms: Option<u64>,
}

/// A number, or the input that has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Input(String),
}

/// A point with everything it needs.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    host: String,
    lock: Subject,
    placement: Placement,
    cpus: Amount,
    tasks: Option<Amount>,
    work: Option<String>,
    variation: Variation,
    hold: Option<String>,
    data: Amount,
    read: Amount,
    locks: Amount,
    reads: Amount,
    length: Time,
}

/// The points of a publication, whose ratios are its targets.
pub struct PublishedPoints {
    inputs: Vec<(String, Number)>,
    fitted: Option<FittedPoints>,
    /// Both points of each target.
    targets: Vec<[Point; 2]>,
}

struct FittedPoints {
    input: String,
    range: [f64; 2],
    reported: f64,
    points: [Point; 2],
}

/// The publications built into knee.
pub fn publications() -> Vec<Arc<Incident>> {
    let parse = |(name, text): &(&str, &str)| {
        let no_files: FindLock =
            &|file| bail!("{file}: knee's own publications have only locks of its list");
        let parsed = parsed(name, text, no_files);
        Arc::new(parsed.unwrap_or_else(|why| panic!("publications/{name}.toml: {why:#}")))
    };
    FILES.iter().map(parse).collect()
}

/// The locks in C that the publication with this text names, as files beside it.
pub fn locks_in_c(path: &Path, text: &str) -> Result<NamedLocks> {
    let file: PublicationFile = toml::from_str(text).with_context(|| path.display().to_string())?;
    let of_target = file.target.iter().flat_map(|target| [&target.of, &target.over]);
    let of_fitted = file.fitted.iter().flat_map(|fitted| [&fitted.of, &fitted.over]);
    let points = of_target.chain(of_fitted).chain([&file.load]);
    let names: BTreeSet<&String> =
        points.filter_map(|point| point.lock.as_ref()).filter(|name| is_c_file(name)).collect();
    let files = names.into_iter().map(|name| beside(path, name)).collect();
    Ok(NamedLocks { files, flags: file.cflags })
}

fn is_c_file(lock: &str) -> bool {
    lock.ends_with(".c")
}

/// The path of a file that a publication names.
fn beside(publication: &Path, name: &str) -> PathBuf {
    publication.parent().unwrap_or(Path::new("")).join(name)
}

/// The publication with this text, in a file of the user's. Locks that it names as files lie beside it.
pub fn read_publication(path: &Path, text: &str, compile: CompileLock) -> Result<Incident> {
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let compile = |file: &str| compile(&beside(path, file));
    let publication = parsed(&name.unwrap_or_default(), text, &compile);
    publication.with_context(|| path.display().to_string())
}

/// Finds the lock in a file of this name.
type FindLock<'a> = &'a dyn Fn(&str) -> Result<Subject>;

fn parsed(name: &str, text: &str, find_own: FindLock) -> Result<Incident> {
    let file: PublicationFile = toml::from_str(text)?;
    let sources: Vec<String> = file.sources.keys().cloned().collect();
    let units = Units { cycle_ps: None, allows_bandwidth: false };
    let input = |(name, entry): (&String, &NumberEntry)| {
        let number = entry.number(units, &sources).with_context(|| format!("inputs.{name}"))?;
        anyhow::Ok((name.clone(), number))
    };
    let inputs: Vec<_> = file.inputs.iter().map(input).collect::<Result<_>>()?;
    let mut names: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    names.extend(file.fitted.iter().map(|fitted| fitted.input.as_str()));
    // Points share their locks.
    let found: RefCell<BTreeMap<String, Subject>> = RefCell::default();
    let find_lock = |name: &str| {
        if let Some(lock) = found.borrow().get(name) {
            return Ok(lock.clone());
        }
        let lock = if is_c_file(name) { find_own(name)? } else { listed_lock(name)? };
        found.borrow_mut().insert(name.to_string(), lock.clone());
        Ok(lock)
    };
    let pair = |what: &str, of: &PointEntry, over: &PointEntry| {
        let point = |entry: &PointEntry| entry.over(&file.load).point(&names, &find_lock);
        let both = point(of).and_then(|of| Ok([of, point(over)?]));
        both.with_context(|| format!("{what:?}"))
    };
    ensure!(!file.target.is_empty(), "a publication needs a [[target]]");
    let points = file.target.iter().map(|target| pair(&target.what, &target.of, &target.over));
    let points: Vec<[Point; 2]> = points.collect::<Result<_>>()?;
    let fitted = file.fitted.as_ref().map(|fitted| {
        let FittedEntry { input, from_ns, to_ns, reported, .. } = fitted;
        let range = [*from_ns, *to_ns];
        ensure!(range[0] > 0.0 && range[0] < range[1], "[fitted]: from_ns must be below to_ns");
        let points = pair(&fitted.what, &fitted.of, &fitted.over)?;
        Ok(FittedPoints { input: input.clone(), range, reported: *reported, points })
    });
    let fitted = fitted.transpose()?;
    let all = points.iter().chain(fitted.iter().map(|fitted| &fitted.points)).flatten();
    let mut hosts: Vec<String> = all.map(|point| point.host.clone()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let target = |target: &TargetEntry| Target {
        reported_ns: target.reported_ns,
        ..Target::new(&target.what, Reported::Ratio(target.reported), Standing::Claimed)
    };
    Ok(Incident {
        name: name.to_string(),
        title: file.title.clone(),
        sources: file.sources.values().cloned().collect(),
        hosts,
        fitted: file.fitted.as_ref().map(|fitted| FittedInput {
            name: format!("{}, ns", fitted.input),
            to: format!("{}, {}", fitted.what, fitted.reported),
        }),
        targets: file.target.iter().map(target).collect(),
        model: Model::Publication(Box::new(PublishedPoints { inputs, fitted, targets: points })),
        limitations: file.limitations.clone(),
    })
}

fn listed_lock(name: &str) -> Result<Subject> {
    Subject::lock(name).map_err(|why| {
        anyhow!("{why}; a lock in C is a file beside the publication, such as \"my_lock.c\"")
    })
}

impl PointEntry {
    /// This entry, with the rest from another.
    fn over(&self, rest: &PointEntry) -> PointEntry {
        fn or<T: Clone>(own: &Option<T>, rest: &Option<T>) -> Option<T> {
            own.clone().or_else(|| rest.clone())
        }
        PointEntry {
            host: or(&self.host, &rest.host),
            lock: or(&self.lock, &rest.lock),
            placement: or(&self.placement, &rest.placement),
            cpus: or(&self.cpus, &rest.cpus),
            tasks: or(&self.tasks, &rest.tasks),
            work: or(&self.work, &rest.work),
            variation: or(&self.variation, &rest.variation),
            hold: or(&self.hold, &rest.hold),
            data: or(&self.data, &rest.data),
            read: or(&self.read, &rest.read),
            locks: or(&self.locks, &rest.locks),
            reads: or(&self.reads, &rest.reads),
            length_ms: or(&self.length_ms, &rest.length_ms),
        }
    }

    fn point(self, inputs: &[&str], find_lock: &dyn Fn(&str) -> Result<Subject>) -> Result<Point> {
        let known = |name: &String| {
            let is_known = inputs.contains(&name.as_str());
            ensure!(is_known, "{}", unknown_of("input", name, inputs));
            Ok(())
        };
        let amounts = [&self.cpus, &self.tasks, &self.data, &self.read, &self.locks, &self.reads];
        for amount in amounts.into_iter().flatten() {
            if let Amount::Input(name) = amount {
                known(name)?;
            }
        }
        [&self.work, &self.hold].into_iter().flatten().try_for_each(known)?;
        let host = self.host.context("a point, or [load], needs a host")?;
        described_hosts::find(&host)?;
        let lock = self.lock.context("a point, or [load], needs a lock")?;
        let lock = find_lock(&lock)?;
        let placement = match &self.placement {
            None => Placement::default(),
            Some(name) => Placement::ALL
                .iter()
                .copied()
                .find(|placement| placement.name() == name)
                .with_context(|| format!("no placement is called {name:?}"))?,
        };
        let variation = match &self.variation {
            None => Variation::Exponential,
            Some(name) => {
                Variation::ALL.into_iter().find(|variation| variation.name() == name).with_context(
                    || format!("work varies as exp, uniform or constant, not {name:?}"),
                )?
            }
        };
        let or = |amount: Option<Amount>, default| amount.unwrap_or(Amount::Number(default));
        Ok(Point {
            host,
            lock,
            placement,
            cpus: self.cpus.context("a point, or [load], needs cpus")?,
            tasks: self.tasks,
            work: self.work,
            variation,
            hold: self.hold,
            data: or(self.data, 0),
            read: or(self.read, 0),
            locks: or(self.locks, 1),
            reads: or(self.reads, 0),
            length: self.length_ms.unwrap_or(2) * 1_000_000 * NS,
        })
    }
}

impl PublishedPoints {
    /// The inputs of the publication; times are in ns.
    pub fn inputs(&self) -> Vec<Input> {
        let input = |(name, number): &(String, Number)| Input {
            name: name.clone(),
            number: number.clone(),
            chosen_late: None,
        };
        self.inputs.iter().map(input).collect()
    }

    /// The class of the comparison of each target.
    pub fn classes(&self, drawn: &DrawnInputs) -> Vec<Class> {
        // Any value of it will do.
        let fitted = self.fitted.as_ref().map(|fitted| (fitted.input.as_str(), fitted.range[1]));
        let class = |[of, over]: &[Point; 2]| {
            Class::of([&of.side(drawn, fitted), &over.side(drawn, fitted)])
        };
        self.targets.iter().map(class).collect()
    }

    /// The ratio of each target for one draw of all inputs.
    pub fn predict(&self, drawn: &DrawnInputs) -> Result<Prediction> {
        let fitted = self.fitted.as_ref().map(|fitted| {
            let value = fit(fitted.range, fitted.reported, |value| {
                let value = Some((fitted.input.as_str(), value));
                Ok(PointRuns::new(drawn, value).ratio(&fitted.points)?.value)
            });
            value.map(|value| (fitted.input.as_str(), value))
        });
        let fitted = fitted.transpose()?;
        let mut runs = PointRuns::new(drawn, fitted);
        let values = self.targets.iter().map(|points| runs.ratio(points));
        let values = values.collect::<Result<_>>()?;
        Ok(Prediction { fitted: fitted.map(|(_, value)| value), values })
    }
}

/// The simulations for one draw of all inputs. Targets share their points, each of which runs once.
struct PointRuns<'a> {
    drawn: &'a DrawnInputs,
    fitted: Option<(&'a str, f64)>,
    runs: Vec<(&'a Point, SimulatedRun)>,
}

impl<'a> PointRuns<'a> {
    fn new(drawn: &'a DrawnInputs, fitted: Option<(&'a str, f64)>) -> PointRuns<'a> {
        PointRuns { drawn, fitted, runs: Vec::new() }
    }

    /// The rate at the first point over that at the second.
    fn ratio(&mut self, points: &'a [Point; 2]) -> Result<PredictedValue> {
        let [of, over] = points;
        let [of, over] = [self.run(of)?, self.run(over)?];
        Ok(PredictedValue::rates(&self.runs[of].1, &self.runs[over].1))
    }

    /// The index of the run of a point.
    fn run(&mut self, point: &'a Point) -> Result<usize> {
        if let Some(index) = self.runs.iter().position(|(other, _)| *other == point) {
            return Ok(index);
        }
        self.runs.push((point, point.run(self.drawn, self.fitted)?));
        Ok(self.runs.len() - 1)
    }
}

impl Point {
    /// What each task does, and the CPUs and tasks.
    fn load(&self, drawn: &DrawnInputs, fitted: Option<(&str, f64)>) -> (LockLoad, usize, usize) {
        // Inputs that are times are in ps.
        let time = |name: &Option<String>| match (name, fitted) {
            (None, _) => 0,
            (Some(name), Some((fitted, value))) if name == fitted => value.round() as u64,
            (Some(name), _) => (drawn.get(name) / NS as f64).round() as u64,
        };
        let amount = |amount: &Amount| match amount {
            Amount::Number(number) => *number as usize,
            Amount::Input(name) => drawn.whole(name) as usize,
        };
        let (hold_ns, work_ns) = (time(&self.hold), time(&self.work));
        let load = LockLoad {
            work_ns,
            variation: self.variation,
            hold_ns,
            reads: amount(&self.reads) as u32,
            locks: amount(&self.locks),
            lines_written: amount(&self.data),
            lines_read: amount(&self.read),
            start_within_ns: (hold_ns + work_ns).max(1000),
        };
        let cpus = amount(&self.cpus);
        (load, cpus, self.tasks.as_ref().map_or(cpus, amount))
    }

    /// What decides about the class of a comparison with it.
    fn side(&self, drawn: &DrawnInputs, fitted: Option<(&str, f64)>) -> ComparedSide {
        let (load, _, tasks) = self.load(drawn, fitted);
        ComparedSide::new(&self.lock, &load, tasks)
    }

    fn run(&self, drawn: &DrawnInputs, fitted: Option<(&str, f64)>) -> Result<SimulatedRun> {
        let (load, cpus, tasks) = self.load(drawn, fitted);
        let lines = (load.lines_written + load.lines_read) * load.locks;
        if load.locks == 0 || load.locks > LOCKS_MAX || lines > LINES_MAX {
            bail!(
                "{} locks with {lines} lines: 1 to {LOCKS_MAX} locks guard at most {LINES_MAX} lines",
                load.locks
            );
        }
        let host = drawn.described(&self.host);
        let conditions = Conditions {
            placement: self.placement,
            ..Conditions::new(host, drawn.seed, self.length)
        };
        let available = conditions.host.cpus();
        ensure!((1..=available).contains(&cpus), "{cpus} CPUs: {} has {available}", self.host);
        let simulated = OneDraw { load, conditions: &conditions, draw: drawn.draw, cpus, tasks };
        draw(&self.lock, &simulated)
    }
}
