//! Makes one record of several files: names of variants, cells, points and runs. Pure: the caller reads
//! the files before and stores the record afterwards.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use anyhow::{Result, bail, ensure};
use host::{Topology, unknown_of};
use records::scanned::is_scanned;
use records::{
    Experiment, FORMAT, HostFacts, Judging, Load, Outcome, Point, Record, RecordState,
    ReplicationUnit, Run, Sample, Session, Source, Unavailable, Until, Values, Variant, Warning,
};

use crate::import::input::Input;
use crate::import::{FORMATS, File, Foreign, ForeignCell, ForeignRun, Format, Wanted, value};

/// What the user says about the files.
#[derive(Clone, Debug, Default)]
pub struct Telling<'a> {
    /// The format; `None` to recognise it.
    pub format: Option<&'a str>,
    /// Names of the variants, one per given file; a repeated name means further runs of one variant.
    pub names: &'a [String],
    /// Name of the workload.
    pub workload: Option<&'a str>,
    /// The variant that the others are compared with; the first without it.
    pub baseline: Option<&'a str>,
    /// The numbers that the user points at, in place of a format.
    pub values: &'a [Wanted],
    /// What is set up anew for each run; only for a format that cannot record it.
    pub unit: Option<ReplicationUnit>,
}

/// A record that is not stored yet, with facts for the user.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The record, complete except for its id and seals.
    pub record: Record,
    /// Its runs with their samples.
    pub runs: Vec<(Run, Vec<Sample>)>,
    /// The format of the files.
    pub format: &'static Format,
    /// Number of values of all runs.
    pub values: usize,
}

/// Makes one record of all files.
pub fn assemble(inputs: &[Input], telling: &Telling, session: Session) -> Result<Imported> {
    ensure!(!inputs.is_empty(), "no file to import");
    refuse_copies(inputs)?;
    let format =
        if telling.values.is_empty() { format(inputs, telling.format)? } else { &value::FORMAT };
    let mut read = Vec::new();
    for input in inputs {
        let (path, text) = (&*input.path, &*input.text);
        let file = File { path, text, alone: inputs.len() == 1, values: telling.values };
        let mut foreign = format.read(&input.path.display().to_string(), &file)?;
        foreign.warnings.extend(input.warnings.iter().cloned());
        read.push(foreign);
    }
    if let Some(unit) = telling.unit {
        ensure!(
            format.name == "plain",
            "--unit is only for plain CSV: the format {} itself defines what a run is",
            format.name
        );
        read.iter_mut().for_each(|foreign| foreign.unit = unit);
    }
    name_variants(&mut read, inputs, telling.names)?;
    if telling.names.is_empty() && is_scan(&read) {
        let names: Vec<String> = file_names(&inputs.iter().map(|i| &*i.given).collect::<Vec<_>>());
        let name = common_start(&names);
        let runs = read.iter_mut().flat_map(|foreign| &mut foreign.runs);
        runs.for_each(|run| run.variant = Some(name.clone()));
    }
    name_workloads(&mut read, telling.workload, format);
    let unit = replicate(&mut read);
    let variants = baseline_first(&read, telling.baseline)?;
    make(read, variants, inputs, format, unit, session)
}

/// The baseline as the first variant, if the user names one.
fn baseline_first(read: &[Foreign], baseline: Option<&str>) -> Result<Vec<String>> {
    let Some(baseline) = baseline else { return Ok(Vec::new()) };
    let names: BTreeSet<&str> = read
        .iter()
        .flat_map(|foreign| &foreign.runs)
        .filter_map(|run| run.variant.as_deref())
        .collect();
    let known: Vec<&str> = names.into_iter().collect();
    ensure!(known.contains(&baseline), "--baseline: {}", unknown_of("variant", baseline, &known));
    Ok(vec![baseline.to_string()])
}

/// Refuses copies: a copied result would count as another run with equal values.
fn refuse_copies(inputs: &[Input]) -> Result<()> {
    let mut seen: HashMap<&str, &Path> = HashMap::new();
    for input in inputs {
        if let Some(before) = seen.insert(&input.seal.sha256, &input.path)
            && input.seal.bytes > 0
        {
            bail!(
                "{} is a byte-for-byte copy of {}: a copy is no further run; leave it out",
                input.path.display(),
                before.display()
            );
        }
    }
    Ok(())
}

fn format(inputs: &[Input], forced: Option<&str>) -> Result<&'static Format> {
    let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = forced {
        let Some(format) = Format::find(name) else {
            bail!("'{name}' is not a format: must be one of {}", names())
        };
        return Ok(format);
    }
    let mut found: Option<(&'static Format, &Path)> = None;
    for input in inputs {
        let path = input.path.display();
        let format = Format::of(&path.to_string(), &input.text)?;
        match found {
            Some((other, before)) if other.name != format.name => bail!(
                "{} is {}, but {path} is {}: import them separately",
                before.display(),
                other.name,
                format.name
            ),
            _ => found = Some((format, &input.path)),
        }
    }
    let (format, _) = found.expect("there is an input");
    Ok(format)
}

/// Names the variant of each run: by the user's name, else by the file's contents, else by the file's
/// name.
fn name_variants(read: &mut [Foreign], inputs: &[Input], names: &[String]) -> Result<()> {
    let mut given: Vec<&Path> = Vec::new();
    for input in inputs {
        if !given.contains(&input.given.as_path()) {
            given.push(&input.given);
        }
    }
    let mut defaults = file_names(&given);
    let told = names.len() == given.len();
    if told {
        defaults = names.to_vec();
    } else if !names.is_empty() {
        return rename_inside(read, names, given.len());
    }
    for (foreign, input) in read.iter_mut().zip(inputs) {
        let at = given.iter().position(|path| *path == input.given).expect("each is given");
        let inside = inside(foreign);
        ensure!(
            !told || inside.len() < 2,
            "{} itself holds the variants {}: omit --as, or name each of them",
            input.path.display(),
            inside.join(", ")
        );
        for run in &mut foreign.runs {
            if told || run.variant.is_none() {
                run.variant = Some(defaults[at].clone());
            }
        }
    }
    Ok(())
}

/// Whether several files are the points of one curve: they are of one workload, and each has another number of tasks or
/// CPUs. As variants of their own they would have nothing to be compared in.
fn is_scan(read: &[Foreign]) -> bool {
    const FILES_MIN: usize = 3;
    let own_size = |foreign: &Foreign| {
        let size = |run: &ForeignRun| {
            let scanned = run.cell.parameters.iter().filter(|(name, _)| is_scanned(name));
            let scanned: Vec<String> = scanned.map(|(_, value)| value.clone()).collect();
            (run.cell.workload.clone(), run.cell.tasks, run.cell.cpus, scanned)
        };
        let sizes: HashSet<_> = foreign.runs.iter().map(size).collect();
        (sizes.len() == 1).then(|| sizes.into_iter().next()).flatten()
    };
    let Some(sizes) = read.iter().map(own_size).collect::<Option<Vec<_>>>() else { return false };
    let unique: HashSet<_> = sizes.iter().collect();
    let is_one_load = sizes.iter().all(|(workload, ..)| *workload == sizes[0].0);
    sizes.len() >= FILES_MIN && is_one_load && unique.len() == sizes.len()
}

/// What the names of files begin with, without a number at its end: `oltp` of oltp-1 and oltp-16.
fn common_start(names: &[String]) -> String {
    let Some(first) = names.first() else { return String::new() };
    let is_shared = |end: &usize| {
        first.is_char_boundary(*end) && names.iter().all(|name| name.starts_with(&first[..*end]))
    };
    let end = (0..=first.len()).rev().find(is_shared).unwrap_or(0);
    let is_end = |c: char| !c.is_alphabetic();
    let start = first[..end].trim_end_matches(is_end);
    if start.is_empty() { "all files".to_string() } else { start.to_string() }
}

/// Renames the variants inside one file, in order of appearance.
fn rename_inside(read: &mut [Foreign], names: &[String], files: usize) -> Result<()> {
    let [foreign] = read else {
        bail!("--as has {} names for {files} files: give one name per file", names.len())
    };
    let inside = inside(foreign);
    ensure!(
        inside.len() == names.len(),
        "--as has {} names, but the file holds {} variants: {}",
        names.len(),
        inside.len().max(1),
        inside.join(", ")
    );
    for run in &mut foreign.runs {
        let at = inside.iter().position(|name| Some(name) == run.variant.as_ref());
        run.variant = at.map(|at| names[at].clone());
    }
    Ok(())
}

/// The variants that a file itself distinguishes, in order of appearance.
fn inside(foreign: &Foreign) -> Vec<String> {
    let mut seen = HashSet::new();
    let names = foreign.runs.iter().filter_map(|run| run.variant.as_ref());
    names.filter(|name| seen.insert(*name)).cloned().collect()
}

/// Short names that distinguish the files: `a.csv b.csv` are a and b, while `old/x.csv new/x.csv` are
/// old and new.
fn file_names(paths: &[&Path]) -> Vec<String> {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = |path: &Path| path.parent().map(stem).unwrap_or_default();
    let whole = |path: &Path| path.display().to_string();
    let different = |name: &dyn Fn(&Path) -> String| {
        let names: Vec<String> = paths.iter().map(|path| name(path)).collect();
        let unique: HashSet<&String> = names.iter().collect();
        let ok = unique.len() == names.len() && names.iter().all(|name| !name.is_empty());
        ok.then_some(names)
    };
    let names = different(&stem).or_else(|| different(&folder));
    let names = names.unwrap_or_else(|| paths.iter().map(|path| whole(path)).collect());
    names.iter().map(|name| super::printable(name)).collect()
}

fn name_workloads(read: &mut [Foreign], told: Option<&str>, format: &Format) {
    let all_runs = || read.iter().flat_map(|foreign| &foreign.runs);
    let first = all_runs().next().map(|run| run.cell.workload.clone()).unwrap_or_default();
    let is_single = all_runs().all(|run| run.cell.workload == first);
    // will-it-scale names workloads by file; files with different names may be of one workload.
    let mixed = !is_single && format.name == "will-it-scale";
    for run in read.iter_mut().flat_map(|foreign| &mut foreign.runs) {
        let workload = &mut run.cell.workload;
        match told {
            Some(told) if is_single || mixed => *workload = told.to_string(),
            // Several workloads stay distinct.
            Some(told) => *workload = format!("{told}.{workload}"),
            None if mixed || workload.is_empty() => *workload = format.name.to_string(),
            None => (),
        }
    }
}

/// What a run of these files is. If a file holds only samples of one run, several files of a variant are
/// its runs. For a single file the samples take the place of runs, and are marked as samples.
fn replicate(read: &mut [Foreign]) -> ReplicationUnit {
    let unit = read.iter().map(|foreign| foreign.unit).min().unwrap_or(ReplicationUnit::Run);
    if unit != ReplicationUnit::Sample {
        return unit;
    }
    let mut seen = HashSet::new();
    let mut runs = read.iter().flat_map(|foreign| &foreign.runs);
    let repeated = runs.any(|run| !seen.insert((run.variant.clone(), run.cell.clone())));
    if repeated {
        return ReplicationUnit::Run;
    }
    for foreign in read.iter_mut() {
        let runs = std::mem::take(&mut foreign.runs);
        foreign.runs = runs.into_iter().flat_map(apart).collect();
    }
    ReplicationUnit::Sample
}

/// The samples of a run, each as a run.
fn apart(mut run: ForeignRun) -> Vec<ForeignRun> {
    let samples = std::mem::take(&mut run.samples);
    if samples.is_empty() {
        return vec![run];
    }
    samples.into_iter().map(|values| ForeignRun { values, ..run.clone() }).collect()
}

/// Points and runs of the record so far.
#[derive(Default)]
struct Assembly {
    variants: Vec<String>,
    cells: HashMap<ForeignCell, u32>,
    /// Indices of points by cell and variant, with the file that introduced them.
    points: HashMap<(u32, usize), (usize, usize)>,
    planned: Vec<Point>,
    /// Number of runs of each point so far.
    repeats: Vec<u32>,
    runs: Vec<(Run, Vec<Sample>)>,
    blocks: HashSet<(usize, u32, bool)>,
    /// The first run of each session.
    sessions: Vec<u32>,
    /// Whether blocks must be renumbered.
    several_series: bool,
    numbers: HashMap<(String, u32), u32>,
}

fn make(
    read: Vec<Foreign>,
    variants: Vec<String>,
    inputs: &[Input],
    format: &'static Format,
    unit: ReplicationUnit,
    session: Session,
) -> Result<Imported> {
    let mut made = Assembly { variants, ..Assembly::default() };
    let blocks = read.iter().all(|foreign| foreign.blocks);
    let mut series = read.iter().flat_map(|foreign| &foreign.runs).map(|run| &run.series);
    let first = series.next();
    made.several_series = series.any(|series| Some(series) != first);
    let timed = made.add_all(&read, inputs, blocks, session.started)?;
    let blocks = blocks && made.blocks_pair();
    let total = made.runs.len();
    let values = made.runs.iter().map(|(run, _)| match &run.outcome {
        Outcome::Finished { metrics, .. } => metrics.len(),
        Outcome::Failed { .. } => 0,
    });
    let values: usize = values.sum();
    if made.runs.iter().all(|(run, _)| run.finished()) {
        ensure!(values > 0, "{} has no numeric value", inputs[0].path.display());
    }
    let first = &read[0];
    let primary = primary(first, &made.runs);
    let variants: Vec<Variant> = made.variants.iter().map(|n| named(n)).collect();
    let source = Source {
        format: format.name.to_string(),
        files: inputs.iter().map(|i| (i.path.display().to_string(), i.seal.clone())).collect(),
        unit,
        blocks,
        sessions: std::mem::take(&mut made.sessions),
        timed,
        lacks: lacks(&read, &made),
    };
    let record = Record {
        format: FORMAT,
        id: String::new(),
        state: RecordState::Growing,
        label: String::new(),
        note: String::new(),
        experiment: experiment(&made, &variants, format, primary, total),
        seed: 0,
        variants,
        source: Some(source),
        metrics: metrics(&read, &made.runs),
        commands: BTreeMap::new(),
        operations: BTreeMap::new(),
        programs: BTreeMap::new(),
        image: None,
        hypervisor: None,
        sessions: vec![session],
        host: host(&read),
        clients: BTreeMap::new(),
        topology: Topology::default(),
        directories: Vec::new(),
        warnings: warnings(&read),
        runs_finished: 0,
        runs_failed: 0,
        files: BTreeMap::new(),
        points: made.planned,
        blocks: None,
    };
    Ok(Imported { record, runs: made.runs, format, values })
}

/// What says when runs started.
#[derive(Clone, Copy, PartialEq)]
enum Times {
    /// The files themselves.
    Inside,
    /// The times at which the files were written.
    Files,
    Unknown,
}

impl Times {
    /// Several files that were written by the runs themselves have times apart. Copies and checkouts
    /// write many files in a moment, in an order that says nothing.
    fn new(read: &[Foreign], inputs: &[Input]) -> Times {
        const APART_S: f64 = 0.2;
        let mut runs = read.iter().flat_map(|foreign| &foreign.runs);
        if runs.all(|run| run.started.is_some()) {
            return Times::Inside;
        }
        if read.iter().any(|foreign| foreign.runs_alone) {
            return Times::Unknown;
        }
        let written: Option<Vec<jiff::Timestamp>> = inputs.iter().map(|one| one.written).collect();
        let Some(mut written) = written.filter(|all| all.len() > 1) else { return Times::Unknown };
        written.sort_unstable();
        let span = written[written.len() - 1].duration_since(written[0]).as_secs_f64();
        let are_apart = written.windows(2).all(|pair| pair[0] < pair[1]);
        let is_slow = span >= APART_S * (written.len() - 1) as f64;
        if are_apart && is_slow { Times::Files } else { Times::Unknown }
    }

    fn started(self, run: &ForeignRun, input: &Input) -> Option<jiff::Timestamp> {
        run.started.or(input.written.filter(|_| self == Times::Files))
    }
}

fn named(name: &str) -> Variant {
    Variant { name: name.to_string(), ..Variant::default() }
}

impl Assembly {
    /// Adds the runs of all files, each a session unless its runs are. Returns whether the times of runs are known.
    fn add_all(
        &mut self,
        read: &[Foreign],
        inputs: &[Input],
        blocks: bool,
        now: jiff::Timestamp,
    ) -> Result<bool> {
        let times = Times::new(read, inputs);
        for (file, foreign) in read.iter().enumerate() {
            for (index, run) in foreign.runs.iter().enumerate() {
                if index == 0 || foreign.runs_alone {
                    self.sessions.push(u32::try_from(self.runs.len())?);
                }
                let started = times.started(run, &inputs[file]).unwrap_or(now);
                self.add(run, file, inputs, blocks, started)?;
            }
        }
        Ok(times != Times::Unknown)
    }

    fn add(
        &mut self,
        run: &ForeignRun,
        file: usize,
        inputs: &[Input],
        blocks: bool,
        started: jiff::Timestamp,
    ) -> Result<()> {
        let point = self.point(run, file, inputs)?;
        let block = match run.block.filter(|_| blocks) {
            Some(told) => {
                let block = self.number(&run.series, told);
                let new = self.blocks.insert((point, block, run.placebo));
                ensure!(
                    new,
                    "{}: {} has block {told} twice: another line or file already has it",
                    inputs[file].path.display(),
                    self.planned[point].variant
                );
                block
            }
            None => self.repeats[point],
        };
        self.repeats[point] += 1;
        let outcome = match &run.failed {
            Some(reason) => Outcome::Failed { reason: reason.clone() },
            None => Outcome::Finished {
                metrics: run.values.clone().into(),
                counters: Values::new(),
                unavailable: Unavailable::default(),
                warmup: None,
            },
        };
        let samples = run.samples.iter().flat_map(|values| values.iter().map(sample));
        let samples = if run.failed.is_some() { Vec::new() } else { samples.collect() };
        let run = Run {
            run: u32::try_from(self.runs.len())?,
            point: u32::try_from(point)?,
            block,
            placebo: run.placebo,
            started,
            file_system: None,
            boot: None,
            repeat: 0,
            outcome,
            warnings: Vec::new(),
        };
        self.runs.push((run, samples));
        Ok(())
    }

    /// The number of a block in the record.
    fn number(&mut self, series: &str, block: u32) -> u32 {
        if !self.several_series {
            return block;
        }
        let next = self.numbers.len() as u32;
        *self.numbers.entry((series.to_string(), block)).or_insert(next)
    }

    /// The index of a run's point, which is added with its first run.
    fn point(&mut self, run: &ForeignRun, file: usize, inputs: &[Input]) -> Result<usize> {
        let cells = self.cells.len() as u32;
        let cell = *self.cells.entry(run.cell.clone()).or_insert(cells);
        let variant = run.variant.as_deref().unwrap_or_default();
        let variant_at = match self.variants.iter().position(|name| name == variant) {
            Some(at) => at,
            None => {
                self.variants.push(variant.to_string());
                self.variants.len() - 1
            }
        };
        let parameters = parameters(run);
        if let Some((at, before)) = self.points.get(&(cell, variant_at)).copied() {
            let known = &self.planned[at].parameters;
            if *known != parameters {
                let differs =
                    parameters.iter().find(|(name, value)| known.get(*name) != Some(value));
                let name = differs.map_or("an option", |(name, _)| name);
                bail!(
                    "{} differs from {} in {name}, although both are {variant}: give them \
                     different names with --as",
                    inputs[file].path.display(),
                    inputs[before].path.display()
                );
            }
            return Ok(at);
        }
        let at = self.planned.len();
        self.points.insert((cell, variant_at), (at, file));
        self.planned.push(point(run, variant, cell, parameters));
        self.repeats.push(0);
        Ok(at)
    }

    /// Whether some block holds two variants of one cell.
    fn blocks_pair(&self) -> bool {
        let mut first: HashMap<(Option<u32>, u32), usize> = HashMap::new();
        self.blocks.iter().any(|(point, block, _)| {
            let cell = self.planned[*point].cell;
            *first.entry((cell, *block)).or_insert(*point) != *point
        })
    }
}

/// All options and parameters of a run.
fn parameters(run: &ForeignRun) -> BTreeMap<String, String> {
    run.options.iter().chain(&run.cell.parameters).map(|(n, v)| (n.clone(), v.clone())).collect()
}

fn point(
    run: &ForeignRun,
    variant: &str,
    cell: u32,
    parameters: BTreeMap<String, String>,
) -> Point {
    let own = &run.cell;
    Point {
        workload: own.workload.clone(),
        semantics: own.semantics,
        parameters,
        form: own.form,
        cpus: own.cpus,
        placement: own.placement,
        cpu_list: Vec::new(),
        tasks: own.tasks,
        until: Until::End,
        pass: own.pass,
        dir: own.dir.clone(),
        variant: variant.to_string(),
        cell: Some(cell),
        command: None,
        other: BTreeMap::new(),
    }
}

fn sample((metric, value): (&String, &f64)) -> Sample {
    Sample { metric: metric.clone(), task: None, at_ns: None, value: *value }
}

/// The metric that decides: the tool's main metric, else one that some run has.
fn primary(foreign: &Foreign, runs: &[(Run, Vec<Sample>)]) -> String {
    let has = |name: &str| runs.iter().any(|(run, _)| run.value(name).is_some());
    if has(&foreign.primary) {
        return foreign.primary.clone();
    }
    let described = foreign.metrics.keys().find(|name| has(name));
    let any = || {
        runs.iter().find_map(|(run, _)| match &run.outcome {
            Outcome::Finished { metrics, .. } => metrics.keys().next().map(str::to_string),
            Outcome::Failed { .. } => None,
        })
    };
    described.cloned().or_else(any).unwrap_or_else(|| foreign.primary.clone())
}

fn experiment(
    made: &Assembly,
    variants: &[Variant],
    format: &Format,
    primary: String,
    runs: usize,
) -> Experiment {
    let mut workloads: Vec<&str> = Vec::new();
    for point in &made.planned {
        if !workloads.contains(&point.workload.as_str()) {
            workloads.push(&point.workload);
        }
    }
    const SHOWN: usize = 3;
    let more = if workloads.len() > SHOWN { ", …" } else { "" };
    let load = |workload: &&str| Load::new(workload.to_string());
    let names: Vec<&str> = made.variants.iter().map(String::as_str).collect();
    Experiment {
        name: workloads[..workloads.len().min(SHOWN)].join(", ") + more,
        description: format!("imported from {}: {}", format.name, names.join(", ")),
        // The average, so that a record whose points have unequal numbers of runs is whole.
        blocks: Some(u32::try_from(runs / made.planned.len().max(1)).unwrap_or(u32::MAX).max(1)),
        loads: workloads.iter().map(load).collect(),
        variants: variants.to_vec(),
        compare: Judging { metric: primary, placebo: 0.0, ..Judging::default() },
        ..Experiment::default()
    }
}

/// Descriptions of those metrics that some run has.
fn metrics(
    read: &[Foreign],
    runs: &[(Run, Vec<Sample>)],
) -> BTreeMap<String, records::DescribedMetric> {
    let mut metrics = BTreeMap::new();
    for (name, described) in read.iter().flat_map(|foreign| &foreign.metrics) {
        if !metrics.contains_key(name) && runs.iter().any(|(run, _)| run.value(name).is_some()) {
            metrics.insert(name.clone(), described.clone());
        }
    }
    metrics
}

fn lacks(read: &[Foreign], made: &Assembly) -> Vec<String> {
    let mut lacks: Vec<String> = Vec::new();
    for lack in read.iter().flat_map(|foreign| &foreign.lacks) {
        if !lacks.contains(lack) {
            lacks.push(lack.clone());
        }
    }
    let mut variants_of: HashMap<u32, usize> = HashMap::new();
    for (cell, _) in made.points.keys() {
        *variants_of.entry(*cell).or_default() += 1;
    }
    let incomplete = variants_of.values().filter(|count| **count < made.variants.len()).count();
    if read.iter().all(|foreign| foreign.blocks) && made.variants.len() > 1 && !made.blocks_pair() {
        lacks.push("no block holds two variants of a cell, so runs are not pairs".to_string());
    }
    if incomplete > 0 {
        let cells = made.cells.len();
        lacks.push(format!("{incomplete} of {cells} cells do not have every variant"));
    }
    lacks
}

fn warnings(read: &[Foreign]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in read.iter().flat_map(|foreign| &foreign.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    warnings
}

/// The facts about the host in which all files agree.
fn host(read: &[Foreign]) -> HostFacts {
    fn common<T: PartialEq + Clone>(
        read: &[Foreign],
        fact: fn(&HostFacts) -> &Option<T>,
    ) -> Option<T> {
        let first = fact(&read[0].host);
        first.clone().filter(|_| read.iter().all(|foreign| fact(&foreign.host) == first))
    }
    HostFacts {
        hostname: common(read, |host| &host.hostname),
        kernel_release: common(read, |host| &host.kernel_release),
        architecture: common(read, |host| &host.architecture),
        memory_bytes: common(read, |host| &host.memory_bytes),
        ..HostFacts::default()
    }
}
