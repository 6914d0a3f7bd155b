//! A line as its files have it, and what follows from them: no statistic is stored, all is computed again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use analysis::Student;
use bisection::Build;
use bisection::watch::{
    ComparedSoFar, Fate, GapIs, Score, Suspect, compared, is_one_sided, next_suspect, score,
    taken_back, unchanged,
};
use records::{Better, HostFacts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the files beside a line's own.
pub const VERSION: u32 = 1;

/// The file of a line: what its user chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineFile {
    /// Git repository, relative to the file.
    pub git: PathBuf,
    /// The commit that runs in every block.
    pub anchor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub product: Vec<PathBuf>,
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub higher_is_better: bool,
    /// `value` counts what the program does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub cpus: String,
    /// Smallest change that matters, as a share.
    pub smallest_effect: f64,
    /// Seconds after which a build, or a run, is given up.
    #[serde(default = "hour")]
    pub build_timeout: f64,
    #[serde(default = "ten_minutes")]
    pub timeout: f64,
}

fn all() -> String {
    "all".to_string()
}

fn is_all(cpus: &String) -> bool {
    cpus == "all"
}

fn hour() -> f64 {
    3600.0
}

fn ten_minutes() -> f64 {
    600.0
}

impl LineFile {
    /// What decides a point's value, by names. Points of other experiments are no points of this line.
    pub fn experiment(&self) -> BTreeMap<String, String> {
        let product: Vec<String> =
            self.product.iter().map(|path| path.display().to_string()).collect();
        let fields = [
            ("anchor", self.anchor.clone()),
            ("build", self.build.clone().unwrap_or_default()),
            ("product", product.join(",")),
            ("command", self.command.clone()),
            ("metric", self.metric.clone().unwrap_or_default()),
            ("value", self.value.clone().unwrap_or_default()),
            ("higher_is_better", self.higher_is_better.to_string()),
            ("cpus", self.cpus.clone()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }
}

/// A line of the file of points.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LineEvent {
    /// The first line.
    Begun {
        version: u32,
        knee: String,
        at: jiff::Timestamp,
        /// [`LineFile::experiment`].
        experiment: BTreeMap<String, String>,
        /// Equal for builds of the anchor that load equal code and data.
        anchor_key: String,
    },
    Point(Box<Point>),
    Compared(Box<ComparedGap>),
}

/// A measured commit, or one whose build is that of an earlier point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub commit: String,
    pub subject: String,
    pub date: String,
    /// The point before it in the history, when it was added; the first of the line without one.
    pub after: Option<String>,
    pub at: jiff::Timestamp,
    /// Equal for builds that load equal code and data.
    pub key: String,
    /// The record of its runs; absent where an earlier point has the same build.
    pub record: Option<String>,
    /// Logarithms of its ratio to the anchor, by block.
    pub logs: Vec<f64>,
    /// Those of the point before it, in the same blocks.
    pub previous_logs: Vec<f64>,
    /// Blocks that the host disturbed.
    pub disturbed: u32,
    /// What the host was.
    pub host: Option<HostState>,
}

/// What a host was at a point: stable facts alone, and no number that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    pub knee: String,
    pub facts: HostFacts,
}

/// A comparison of two neighbours, in runs of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparedGap {
    pub before: String,
    pub after: String,
    pub at: jiff::Timestamp,
    /// What the points suggested: the step as a logarithm, and its probability.
    pub step: f64,
    pub probability: f64,
    /// Number of builds after the gap, at that time.
    pub followed: usize,
    /// Later less earlier for each pair of runs, in their order.
    pub differences: Vec<f64>,
    /// How many of the first pairs are of the builds as the compiler lays them out.
    pub plain: usize,
    pub records: Vec<String>,
    /// Why there are no other layouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_layouts: Option<String>,
    /// Why they could not be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A user's word about a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ack {
    /// The commit that has the change.
    pub change: String,
    pub why: String,
    /// Whether it was none.
    pub is_false: bool,
    pub at: jiff::Timestamp,
}

/// A line, read.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Points in the order of the history.
    pub points: Vec<Point>,
    pub compared: Vec<ComparedGap>,
    pub acks: Vec<Ack>,
    pub smallest: f64,
}

/// Neighbouring points of one build.
struct Entry {
    commits: Vec<String>,
    runs: Build,
}

impl Line {
    /// The line that these events make.
    pub fn new(events: &[LineEvent], acks: Vec<Ack>, smallest: f64) -> Line {
        let mut line = Line { acks, smallest, ..Line::default() };
        for event in events {
            line.take(event);
        }
        line
    }

    pub fn take(&mut self, event: &LineEvent) {
        match event {
            LineEvent::Begun { .. } => (),
            LineEvent::Point(point) => {
                let is_before = |known: &Point| Some(&known.commit) == point.after.as_ref();
                let place = self.points.iter().position(is_before).map_or(0, |at| at + 1);
                self.points.insert(place, (**point).clone());
            }
            LineEvent::Compared(gap) => self.compared.push((**gap).clone()),
        }
    }

    pub fn point(&self, commit: &str) -> Option<&Point> {
        self.points.iter().find(|point| point.commit == commit)
    }

    /// The point that was measured with this build.
    pub fn with_key(&self, key: &str) -> Option<&Point> {
        self.points.iter().find(|point| point.key == key && point.record.is_some())
    }

    /// All logarithms of a build's ratio to the anchor: its own, and those beside the point after it.
    pub fn logs(&self, key: &str) -> Vec<f64> {
        let mut logs = Vec::new();
        for point in &self.points {
            if point.key == key {
                logs.extend(&point.logs);
            }
            let previous = point.after.as_deref().and_then(|commit| self.point(commit));
            if previous.is_some_and(|previous| previous.key == key) {
                logs.extend(&point.previous_logs);
            }
        }
        logs
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<(String, Entry)> = Vec::new();
        for point in &self.points {
            if let Some((_, entry)) = entries.last_mut().filter(|(key, _)| *key == point.key) {
                entry.commits.push(point.commit.clone());
                continue;
            }
            let mut runs = Build::new(entries.len());
            self.logs(&point.key).iter().for_each(|log| runs.add(*log));
            let entry = Entry { commits: vec![point.commit.clone()], runs };
            entries.push((point.key.clone(), entry));
        }
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The neighbours that are to be compared next, by their commits, and the number of builds after them.
    pub fn next(&self) -> Option<(String, String, usize, Suspect)> {
        let entries = self.entries();
        let gap = |(at, pair): (usize, &[Entry])| {
            let is_of = |compared: &&ComparedGap| {
                pair[0].commits.contains(&compared.before)
                    && pair[1].commits.contains(&compared.after)
            };
            let compared: Vec<&ComparedGap> = self.compared.iter().filter(is_of).collect();
            if compared.iter().any(|gap| self.judged(gap).is_changed) {
                return GapIs::Changed;
            }
            let followed: Vec<usize> = compared.iter().map(|gap| gap.followed).collect();
            unchanged(&followed, entries.len() - 1 - at)
        };
        let gaps: Vec<GapIs> = entries.windows(2).enumerate().map(gap).collect();
        let builds: Vec<Build> = entries.iter().map(|entry| entry.runs).collect();
        let suspect = next_suspect(&builds, &gaps, self.smallest)?;
        let before = entries[suspect.before].commits.last()?.clone();
        let after = entries[suspect.before + 1].commits.first()?.clone();
        Some((before, after, entries.len() - 1 - suspect.before, suspect))
    }

    /// What a comparison says: its pairs in other layouts if it has any, else all.
    pub fn judged(&self, gap: &ComparedGap) -> ComparedSoFar {
        let in_layouts = &gap.differences[gap.plain.min(gap.differences.len())..];
        let deciding = if in_layouts.is_empty() { &gap.differences } else { in_layouts };
        compared(deciding, gap.step, self.smallest)
    }

    fn place(&self, commit: &str) -> usize {
        self.points.iter().position(|point| point.commit == commit).unwrap_or(0)
    }

    /// The confirmed changes that no narrower one replaces, in the order of the line.
    fn confirmed(&self) -> Vec<&ComparedGap> {
        let span = |gap: &ComparedGap| self.place(&gap.before)..self.place(&gap.after);
        let confirmed: Vec<&ComparedGap> =
            self.compared.iter().filter(|gap| self.judged(gap).is_changed).collect();
        let holds = |outer: &ComparedGap, inner: &ComparedGap| {
            let (outer, inner) = (span(outer), span(inner));
            outer != inner && outer.start <= inner.start && inner.end <= outer.end
        };
        let mut narrowest: Vec<&ComparedGap> = confirmed
            .iter()
            .copied()
            .filter(|outer| !confirmed.iter().any(|inner| holds(outer, inner)))
            .collect();
        narrowest.sort_by_key(|gap| self.place(&gap.after));
        narrowest.dedup_by_key(|gap| gap.after.clone());
        narrowest
    }

    /// The user's last word about a change: about its commit, or about a wider change that it is a part of.
    fn ack(&self, change: &ComparedGap) -> Option<&Ack> {
        let (low, high) = (self.place(&change.before), self.place(&change.after));
        let wider = self.compared.iter().filter(|gap| {
            self.place(&gap.before) <= low
                && high <= self.place(&gap.after)
                && self.judged(gap).is_changed
        });
        let names: BTreeSet<&str> = wider.map(|gap| gap.after.as_str()).collect();
        self.acks.iter().rev().find(|ack| names.contains(ack.change.as_str()))
    }

    /// All alarms with what became of them, in the order of the line.
    pub fn changes(&self, better: Better) -> Vec<WatchChange> {
        let confirmed = self.confirmed();
        let sizes: Vec<f64> =
            confirmed.iter().map(|gap| self.judged(gap).judged.estimate.unwrap_or(0.0)).collect();
        let back = taken_back(&sizes, self.smallest);
        let gone_with = |at: usize| {
            let by = back[at].or_else(|| back.iter().position(|later| *later == Some(at)))?;
            Some(confirmed[by].after.clone())
        };
        let mut changes: Vec<WatchChange> = Vec::new();
        for (at, gap) in confirmed.iter().enumerate() {
            let ack = self.ack(gap);
            let fate = match (ack, gone_with(at)) {
                (Some(ack), _) if ack.is_false => Fate::False,
                (Some(_), _) => Fate::Accepted,
                (None, Some(_)) => Fate::GoneAgain,
                (None, None) => Fate::Open,
            };
            let why = ack.map(|ack| ack.why.clone()).unwrap_or_default();
            let gone_with = gone_with(at);
            changes.push(WatchChange { gone_with, ..self.change(gap, fate, why, better) });
        }
        let is_refuted = |gap: &&ComparedGap| {
            let is_later = |other: &&ComparedGap| {
                other.at > gap.at && other.before == gap.before && other.after == gap.after
            };
            !self.judged(gap).is_changed && !self.compared.iter().any(|other| is_later(&other))
        };
        let refuted = self.compared.iter().filter(is_refuted);
        changes.extend(refuted.map(|gap| {
            let why = gap.failed.clone().unwrap_or_default();
            self.change(gap, Fate::NotConfirmed, why, better)
        }));
        changes.sort_by_key(|change| self.place(&change.after));
        changes
    }

    fn change(&self, gap: &ComparedGap, fate: Fate, why: String, better: Better) -> WatchChange {
        let judged = self.judged(gap).judged;
        let share = judged.estimate.map(f64::exp_m1);
        let is_worse = match better {
            Better::Lower => share.is_some_and(|share| share > 0.0),
            Better::Higher => share.is_some_and(|share| share < 0.0),
            Better::Neither => true,
        };
        let after = self.point(&gap.after);
        WatchChange {
            id: gap.after.chars().take(12).collect(),
            before: gap.before.clone(),
            after: gap.after.clone(),
            subject: after.map(|point| point.subject.clone()).unwrap_or_default(),
            is: fate,
            worse: is_worse,
            change: share,
            interval: judged.interval.map(|(low, high)| (low.exp_m1(), high.exp_m1())),
            suggested: gap.step.exp_m1(),
            pairs: judged.n,
            other_layouts: gap.differences.len() > gap.plain,
            no_layouts: gap.no_layouts.clone(),
            at: gap.at.to_string(),
            records: gap.records.clone(),
            why,
            gone_with: None,
            host: self.host_changes(&gap.before, &gap.after),
        }
    }

    /// What differs between the hosts of two points.
    fn host_changes(&self, before: &str, after: &str) -> Vec<String> {
        let host = |commit: &str| {
            let key = &self.point(commit)?.key;
            self.with_key(key)?.host.as_ref()
        };
        match (host(before), host(after)) {
            (Some(before), Some(after)) => host_differences(before, after),
            _ => Vec::new(),
        }
    }

    /// The whole line as an answer.
    pub fn answer(&self, name: &str, metric: &str, better: Better, anchor: &str) -> WatchAnswer {
        let changes = self.changes(better);
        let fates: Vec<Fate> = changes.iter().map(|change| change.is).collect();
        let said = changes.iter().filter(|change| change.is != Fate::NotConfirmed);
        let sizes: Vec<f64> = said.filter_map(|change| change.change).collect();
        WatchAnswer {
            line: name.to_string(),
            metric: metric.to_string(),
            better,
            anchor: anchor.to_string(),
            smallest_effect: self.smallest,
            points: self.points.iter().map(|point| self.watch_point(point)).collect(),
            changes,
            score: score(&fates),
            one_sided: is_one_sided(&sizes),
        }
    }

    fn watch_point(&self, point: &Point) -> WatchPoint {
        let logs = self.logs(&point.key);
        let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        let interval = Student::paired(&logs).and_then(|student| student.interval(0.05));
        let measured = self.with_key(&point.key).filter(|_| point.record.is_none());
        WatchPoint {
            commit: point.commit.clone(),
            subject: point.subject.clone(),
            date: point.date.clone(),
            measured: point.at.to_string(),
            change: (!logs.is_empty()).then(|| mean.exp_m1()),
            interval: interval.map(|(low, high)| (low.exp_m1(), high.exp_m1())),
            runs: logs.len(),
            same_build_as: measured.map(|point| point.commit.clone()),
            record: point.record.clone(),
        }
    }
}

/// What differs between two hosts, each as "microcode 0x1 → 0x2".
pub fn host_differences(before: &HostState, after: &HostState) -> Vec<String> {
    let (a, b) = (&before.facts, &after.facts);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let memory = |facts: &HostFacts| facts.memory_bytes.map(|n| n.to_string()).unwrap_or_default();
    let facts = [
        ("knee", before.knee.clone(), after.knee.clone()),
        ("host name", text(&a.hostname), text(&b.hostname)),
        ("CPU model", text(&a.cpu_model), text(&b.cpu_model)),
        ("microcode", text(&a.microcode), text(&b.microcode)),
        ("kernel", text(&a.kernel_release), text(&b.kernel_release)),
        ("kernel build", text(&a.kernel_version), text(&b.kernel_version)),
        ("kernel command line", text(&a.kernel_command_line), text(&b.kernel_command_line)),
        ("hypervisor", text(&a.hypervisor), text(&b.hypervisor)),
        ("memory", memory(a), memory(b)),
    ];
    let names: BTreeSet<&String> = a.knobs.keys().chain(b.knobs.keys()).collect();
    let knob =
        |facts: &HostFacts, name: &String| facts.knobs.get(name).cloned().unwrap_or_default();
    let knobs = names.into_iter().map(|name| (name.as_str(), knob(a, name), knob(b, name)));
    let shown = |value: String| if value.is_empty() { "unknown".to_string() } else { value };
    let facts = facts.into_iter().chain(knobs).filter(|(_, before, after)| before != after);
    facts.map(|(name, old, new)| format!("{name} {} → {}", shown(old), shown(new))).collect()
}

/// What `knee watch show` says of a line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchAnswer {
    /// The file of the line.
    pub line: String,
    /// The metric that decides.
    pub metric: String,
    /// Direction in which the metric is better.
    pub better: Better,
    /// The commit that runs in every block.
    pub anchor: String,
    /// Smallest change that matters, as a share.
    pub smallest_effect: f64,
    /// The points in the order of the history.
    pub points: Vec<WatchPoint>,
    /// All alarms in the order of the line, those that were not confirmed too.
    pub changes: Vec<WatchChange>,
    /// How often the alarms were right.
    pub score: Score,
    /// Whether all changes go in one direction, though there are many.
    pub one_sided: bool,
}

/// A point of a line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchPoint {
    /// The commit.
    pub commit: String,
    /// First line of its message.
    pub subject: String,
    /// Day of the commit.
    pub date: String,
    /// When it was added.
    pub measured: String,
    /// Its change against the anchor in the same blocks, as a share.
    pub change: Option<f64>,
    /// The 95 % interval of the change, for this point alone.
    pub interval: Option<(f64, f64)>,
    /// Runs of its build that count.
    pub runs: usize,
    /// The commit whose build it shares: nothing was run.
    pub same_build_as: Option<String>,
    /// The record of its runs.
    pub record: Option<String>,
}

/// An alarm, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchChange {
    /// Its name for `knee watch ack`: the start of the commit that has it.
    pub id: String,
    /// The last point without it.
    pub before: String,
    /// The first point with it.
    pub after: String,
    /// First line of the message of that commit.
    pub subject: String,
    /// What became of it.
    pub is: Fate,
    /// Whether it is for the worse; true in a metric that is neither good nor bad.
    pub worse: bool,
    /// The change that the comparison found, as a share.
    pub change: Option<f64>,
    /// Its interval, which allows for looking after each stage.
    pub interval: Option<(f64, f64)>,
    /// What the points suggested, as a share.
    pub suggested: f64,
    /// Pairs of runs of the comparison.
    pub pairs: usize,
    /// Whether other layouts of both builds were compared, too.
    pub other_layouts: bool,
    /// Why there are no other layouts.
    pub no_layouts: Option<String>,
    /// When it was compared.
    pub at: String,
    /// The records of the comparison.
    pub records: Vec<String>,
    /// The reason of who accepted it, or why it could not be compared; else empty.
    pub why: String,
    /// The commit whose change took it back, or was taken back by it.
    pub gone_with: Option<String>,
    /// What differs between the hosts of both points.
    pub host: Vec<String>,
}

impl WatchAnswer {
    /// The changes for the worse that nobody answered.
    pub fn open(&self) -> impl Iterator<Item = &WatchChange> {
        self.changes.iter().filter(|change| change.is == Fate::Open && change.worse)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bisection::watch::Fate;
    use records::{Better, HostFacts};

    use super::{Ack, ComparedGap, HostState, Line, LineEvent, Point, host_differences};

    fn point(commit: &str, after: Option<&str>, level: f64) -> LineEvent {
        let noise = [-0.02, 0.01, 0.0, 0.02, -0.01];
        LineEvent::Point(Box::new(Point {
            commit: commit.to_string(),
            subject: format!("subject {commit}"),
            date: "2026-11-29".to_string(),
            after: after.map(str::to_string),
            at: jiff::Timestamp::UNIX_EPOCH,
            key: format!("key of {commit}"),
            record: Some(format!("record of {commit}")),
            logs: noise.iter().map(|noise| level + noise).collect(),
            previous_logs: Vec::new(),
            disturbed: 0,
            host: None,
        }))
    }

    fn compared(before: &str, after: &str, level: f64) -> LineEvent {
        let noise = |pair: usize| [0.01, -0.02, 0.02, -0.01, 0.0][pair % 5];
        LineEvent::Compared(Box::new(ComparedGap {
            before: before.to_string(),
            after: after.to_string(),
            at: jiff::Timestamp::UNIX_EPOCH,
            step: 0.06,
            probability: 0.9,
            followed: 1,
            differences: (0..20).map(|pair| level + noise(pair)).collect(),
            plain: 20,
            records: vec!["record".to_string()],
            no_layouts: None,
            failed: None,
        }))
    }

    fn fates(events: &[LineEvent], acks: &[&str]) -> Vec<(String, Fate)> {
        let ack = |change: &&str| Ack {
            change: (*change).to_string(),
            why: "known".to_string(),
            is_false: false,
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        let line = Line::new(events, acks.iter().map(ack).collect(), 0.02);
        let changes = line.changes(Better::Lower);
        changes.into_iter().map(|change| (change.after, change.is)).collect()
    }

    #[test]
    fn a_point_between_two_that_differ_narrows_the_change_and_keeps_its_ack() {
        let mut events =
            vec![point("a", None, 0.0), point("b", Some("a"), 0.0), point("d", Some("b"), 0.06)];
        let line = Line::new(&events, Vec::new(), 0.02);
        let (before, after, followed, _) = line.next().unwrap();
        assert_eq!((before.as_str(), after.as_str(), followed), ("b", "d", 1));
        events.push(compared("b", "d", 0.06));
        assert!(Line::new(&events, Vec::new(), 0.02).next().is_none());
        let change = |name: &str, fate| (name.to_string(), fate);
        assert_eq!(fates(&events, &[]), [change("d", Fate::Open)]);
        events.push(point("c", Some("b"), 0.06));
        assert_eq!(fates(&events, &[]), [change("d", Fate::Open)]);
        events.push(compared("b", "c", 0.06));
        assert_eq!(fates(&events, &[]), [change("c", Fate::Open)]);
        assert_eq!(fates(&events, &["d"]), [change("c", Fate::Accepted)]);
    }

    #[test]
    fn what_is_not_confirmed_is_not_said_and_what_goes_away_is() {
        let levels = [("a", 0.0), ("b", 0.0), ("c", 0.06), ("d", 0.0)];
        let mut events: Vec<LineEvent> = Vec::new();
        for (at, (name, level)) in levels.iter().enumerate() {
            let after = at.checked_sub(1).map(|before| levels[before].0);
            events.push(point(name, after, *level));
        }
        events.push(compared("b", "c", 0.0));
        assert_eq!(fates(&events, &[]), [("c".to_string(), Fate::NotConfirmed)]);
        events.pop();
        events.extend([compared("b", "c", 0.06), compared("c", "d", -0.06)]);
        // The line suggested a rise there, so a fall is not what was looked for.
        assert_eq!(fates(&events, &[])[1], ("d".to_string(), Fate::NotConfirmed));
        let LineEvent::Compared(gap) = events.last_mut().unwrap() else { unreachable!() };
        gap.step = -0.06;
        let gone = |name: &str| (name.to_string(), Fate::GoneAgain);
        assert_eq!(fates(&events, &[]), [gone("c"), gone("d")]);
    }

    #[test]
    fn hosts_differ_in_what_they_tell_of_themselves() {
        let host = |microcode: &str, knob: &str| HostState {
            knee: "1".to_string(),
            facts: HostFacts {
                microcode: Some(microcode.to_string()),
                knobs: BTreeMap::from([("mitigations".to_string(), knob.to_string())]),
                ..HostFacts::default()
            },
        };
        let found = host_differences(&host("0x1", "auto"), &host("0x2", "off"));
        assert_eq!(found, ["microcode 0x1 → 0x2", "mitigations auto → off"]);
        assert_eq!(host_differences(&host("0x1", "a"), &host("0x1", "a")), [""; 0]);
    }
}
