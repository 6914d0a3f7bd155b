//! A line as its files have it, and what follows from them: no statistic is stored, all is computed again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bisection::watch::{
    ComparedSoFar, GapIs, MeasuredBuild, PairSums, Relinking, Suspect, Watched, unchanged,
};
use records::HostFacts;

use super::events::{Ack, BisectedChange, ComparedGap, HostState, Point};
use super::file::Series;
use super::summed::{Shown, SummedEvent};

/// What a comparison says of a series.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The comparison, by its place among all.
    pub comparison: usize,
    /// The series, by its place among those of the line.
    pub series: usize,
    /// The change that it found, as a logarithm: its mean and its standard deviation.
    pub change: Option<(f64, f64)>,
}

/// A line, read.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub series: Vec<Series>,
    pub smallest: f64,
    /// Points in the order of the history, without their values.
    pub points: Vec<Point>,
    pub compared: Vec<ComparedGap>,
    /// In the order of the comparisons.
    pub verdicts: Vec<Verdict>,
    /// The verdicts on each series, by their places, those on the gap before each commit together.
    of_series: Vec<HashMap<String, Vec<usize>>>,
    pub bisected: Vec<BisectedChange>,
    pub acks: Vec<Ack>,
    /// Where each commit's point is.
    places: HashMap<String, usize>,
    measured: HashMap<String, Measured>,
}

/// A build that was measured.
#[derive(Clone, Debug)]
struct Measured {
    commit: String,
    /// Sessions are numbered in the order of time.
    session: usize,
    /// The runs in each series, by its place.
    runs: Vec<Option<PairSums>>,
}

/// Points around the newest one that say what is known of it. Gaps further away were compared when they were near.
const NEAR: usize = 48;

/// Neighbouring points of one build, in one series.
struct Entry {
    commits: Vec<String>,
    runs: MeasuredBuild,
}

/// Neighbours that are to be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// By its place among those of the line.
    pub series: usize,
    pub before: String,
    pub after: String,
    /// Number of builds after the gap.
    pub followed: usize,
    pub suspect: Suspect,
}

impl Line {
    /// The line that these events make.
    pub fn new(
        events: Vec<SummedEvent>,
        acks: Vec<Ack>,
        series: Vec<Series>,
        smallest: f64,
    ) -> Line {
        let of_series = vec![HashMap::new(); series.len()];
        let mut line = Line { series, acks, smallest, of_series, ..Line::default() };
        for event in events {
            line.take(event);
        }
        line
    }

    pub fn take(&mut self, event: SummedEvent) {
        match event {
            SummedEvent::Begun => (),
            SummedEvent::Point(point, runs) => self.take_point(*point, runs),
            SummedEvent::Compared(gap, shown) => self.take_compared(*gap, &shown),
            SummedEvent::Bisected(bisected) => self.bisected.push(*bisected),
        }
    }

    fn take_point(&mut self, point: Point, runs: Vec<Option<PairSums>>) {
        if self.places.contains_key(&point.commit) {
            // Two that added to copies of the line: the first stays.
            return;
        }
        if !point.records.is_empty() {
            let session = self.measured.len();
            let measured = || Measured { commit: point.commit.clone(), session, runs };
            self.measured.entry(point.key.clone()).or_insert_with(measured);
        }
        let after = point.after.as_ref().and_then(|after| self.places.get(after));
        let place = after.map_or(0, |at| at + 1);
        if place == self.points.len() {
            self.places.insert(point.commit.clone(), place);
            self.points.push(point);
            return;
        }
        self.points.insert(place, point);
        let places = self.points.iter().enumerate();
        self.places = places.map(|(at, point)| (point.commit.clone(), at)).collect();
    }

    /// Judges each series of a comparison by what the line knows when it is taken.
    fn take_compared(&mut self, gap: ComparedGap, shown: &[Shown]) {
        let comparison = self.compared.len();
        let of_series = |Shown { series, is_shown }: &Shown| {
            // What its pairs do not show by themselves needs no look at the line.
            let change = is_shown.then(|| self.found(*series, &gap)).flatten();
            Verdict { comparison, series: *series, change }
        };
        let verdicts: Vec<Verdict> = shown.iter().map(of_series).collect();
        for verdict in verdicts {
            let of_gap = self.of_series[verdict.series].entry(gap.after.clone()).or_default();
            of_gap.push(self.verdicts.len());
            self.verdicts.push(verdict);
        }
        self.compared.push(gap);
    }

    pub fn point(&self, commit: &str) -> Option<&Point> {
        self.places.get(commit).map(|at| &self.points[*at])
    }

    /// The place of a point in the history.
    pub fn place(&self, commit: &str) -> usize {
        self.places.get(commit).copied().unwrap_or(0)
    }

    /// The point that was measured with this build.
    pub fn with_key(&self, key: &str) -> Option<&Point> {
        self.measured.get(key).and_then(|measured| self.point(&measured.commit))
    }

    /// The runs of a build in a series.
    pub fn runs(&self, key: &str, series: usize) -> Option<PairSums> {
        self.measured.get(key)?.runs[series]
    }

    /// The builds of a series near a point, in the order of the history, and whether they end with the line.
    fn entries(&self, series: usize, near: usize) -> (Vec<Entry>, usize) {
        let range = near.saturating_sub(NEAR)..(near + NEAR).min(self.points.len());
        let rest = self.points.len() - range.end;
        let mut entries: Vec<(&str, Entry)> = Vec::new();
        for point in &self.points[range] {
            if let Some((_, entry)) = entries.last_mut().filter(|(key, _)| *key == point.key) {
                entry.commits.push(point.commit.clone());
                continue;
            }
            let Some(measured) = self.measured.get(&point.key) else { continue };
            let Some(beside_anchor) = measured.runs[series] else { continue };
            let runs = MeasuredBuild { session: measured.session, beside_anchor };
            entries.push((&point.key, Entry { commits: vec![point.commit.clone()], runs }));
        }
        (entries.into_iter().map(|(_, entry)| entry).collect(), rest)
    }

    /// What is known of the gaps between builds of a series, by the verdicts so far.
    fn gaps(&self, series: usize, entries: &[Entry], rest: usize) -> Vec<GapIs> {
        let verdict = |at: &usize| {
            let verdict = &self.verdicts[*at];
            (&self.compared[verdict.comparison], verdict)
        };
        let before = |commit: &String| self.of_series[series].get(commit).into_iter().flatten();
        let gap = |(at, pair): (usize, &[Entry])| {
            let own = || pair[1].commits.iter().flat_map(before).map(verdict);
            let here = || own().filter(|(gap, _)| pair[0].commits.contains(&gap.before));
            if here().any(|(_, verdict)| verdict.change.is_some()) {
                return GapIs::Changed;
            }
            let followed: Vec<usize> = here().map(|(gap, _)| gap.followed).collect();
            unchanged(&followed, entries.len() - 1 - at + rest)
        };
        entries.windows(2).enumerate().map(gap).collect()
    }

    /// The neighbours that are to be compared next, near the newest point.
    pub fn next(&self) -> Option<Wanted> {
        let newest = self.measured.values().max_by_key(|measured| measured.session)?;
        let near = self.place(&newest.commit);
        let of_series = |series: usize| {
            let (entries, rest) = self.entries(series, near);
            let gaps = self.gaps(series, &entries, rest);
            let builds: Vec<MeasuredBuild> = entries.iter().map(|entry| entry.runs).collect();
            let watched = self.watched(&builds, &gaps);
            let suspect = watched.next_suspect()?;
            let before = entries[suspect.before].commits.last()?.clone();
            let after = entries[suspect.before + 1].commits.first()?.clone();
            let followed = entries.len() - 1 - suspect.before + rest;
            Some(Wanted { series, before, after, followed, suspect })
        };
        let wanted = host::in_parallel(self.series.len(), of_series);
        let sure = |wanted: &Wanted| wanted.suspect.probability;
        wanted.into_iter().flatten().max_by(|a, b| sure(a).total_cmp(&sure(b)))
    }

    fn watched<'a>(&self, builds: &'a [MeasuredBuild], gaps: &'a [GapIs]) -> Watched<'a> {
        Watched { builds, gaps, smallest: self.smallest, series: self.series.len() }
    }

    /// The change of a series that a comparison found.
    fn found(&self, series: usize, gap: &ComparedGap) -> Option<(f64, f64)> {
        let so_far = self.so_far(series, gap).filter(|so_far| so_far.is_changed)?;
        Some((so_far.evidence.change.mean, so_far.evidence.change.variance.sqrt()))
    }

    /// What the pairs of a comparison say of a series so far.
    pub fn so_far(&self, series: usize, gap: &ComparedGap) -> Option<ComparedSoFar> {
        let (entries, rest) = self.entries(series, self.place(&gap.after));
        let is_here = |pair: &[Entry]| {
            pair[0].commits.contains(&gap.before) && pair[1].commits.contains(&gap.after)
        };
        let at = entries.windows(2).position(is_here)?;
        let gaps = self.gaps(series, &entries, rest);
        let builds: Vec<MeasuredBuild> = entries.iter().map(|entry| entry.runs).collect();
        let watched = self.watched(&builds, &gaps);
        let relinking = match gap.no_layouts {
            None => Relinking::Possible,
            Some(_) => Relinking::Impossible,
        };
        let pairs = gap.pairs_of(&self.series[series].name);
        Some(watched.comparison(at).so_far(&pairs, relinking))
    }

    /// The verdict on the series that suggested a comparison.
    pub fn verdict(&self, comparison: usize) -> Option<&Verdict> {
        let gap = &self.compared[comparison];
        self.verdicts.iter().find(|verdict| {
            verdict.comparison == comparison && self.series[verdict.series].name == gap.series
        })
    }

    /// The comparisons that found a change, in the order of the line, each with the series that changed: those in which no
    /// narrower one has it.
    pub fn confirmed(&self) -> Vec<(usize, Vec<&Verdict>)> {
        let mut changed: BTreeMap<(usize, usize), (usize, Vec<&Verdict>)> = BTreeMap::new();
        for verdict in self.verdicts.iter().filter(|verdict| verdict.change.is_some()) {
            let gap = &self.compared[verdict.comparison];
            let span = (self.place(&gap.before), self.place(&gap.after));
            let own = changed.entry(span).or_insert((verdict.comparison, Vec::new()));
            if own.1.iter().all(|one| one.series != verdict.series) {
                own.1.push(verdict);
            }
        }
        let series = |verdicts: &[&Verdict]| verdicts.iter().map(|one| one.series).collect();
        let all: Vec<((usize, usize), BTreeSet<usize>)> =
            changed.iter().map(|(span, (_, verdicts))| (*span, series(verdicts))).collect();
        let is_narrower = |outer: (usize, usize), series: usize| {
            all.iter().any(|(inner, changed)| {
                *inner != outer
                    && outer.0 <= inner.0
                    && inner.1 <= outer.1
                    && changed.contains(&series)
            })
        };
        let mut narrowest: Vec<_> = changed.into_iter().collect();
        for (span, (_, verdicts)) in &mut narrowest {
            verdicts.retain(|verdict| !is_narrower(*span, verdict.series));
        }
        narrowest.retain(|(_, (_, verdicts))| !verdicts.is_empty());
        narrowest.sort_by_key(|((_, after), _)| *after);
        narrowest.into_iter().map(|(_, change)| change).collect()
    }

    /// The user's last word about a change: about its commit, or about a wider change that it is a part of.
    pub fn ack(&self, change: &ComparedGap) -> Option<&Ack> {
        let names = self.names(change);
        self.acks.iter().rev().find(|ack| names.contains(ack.change.as_str()))
    }

    /// The last bisection of a change.
    pub fn bisection(&self, change: &ComparedGap) -> Option<&BisectedChange> {
        if self.bisected.is_empty() {
            return None;
        }
        let names = self.names(change);
        self.bisected.iter().rev().find(|one| names.contains(one.change.as_str()))
    }

    /// The commits under which a change was known: its own, and those of wider changes that it is a part of.
    fn names(&self, change: &ComparedGap) -> BTreeSet<&str> {
        let (low, high) = (self.place(&change.before), self.place(&change.after));
        let changed = self.verdicts.iter().filter(|verdict| verdict.change.is_some());
        let gaps = changed.map(|verdict| &self.compared[verdict.comparison]);
        let wider =
            gaps.filter(|gap| self.place(&gap.before) <= low && high <= self.place(&gap.after));
        wider.map(|gap| gap.after.as_str()).collect()
    }

    /// What differs between the hosts of two points.
    pub fn host_changes(&self, before: &str, after: &str) -> Vec<String> {
        let host = |commit: &str| {
            let key = &self.point(commit)?.key;
            self.with_key(key)?.host.as_ref()
        };
        match (host(before), host(after)) {
            (Some(before), Some(after)) => host_differences(before, after),
            _ => Vec::new(),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bisection::watch::Fate;
    use records::{Better, HostFacts};

    use super::{
        Ack, BisectedChange, ComparedGap, HostState, Line, Point, Series, host_differences,
    };
    use crate::watch::events::{BesideAnchor, LineEvent, PairOfRuns};
    use crate::watch::summed::Summing;

    const NOISE: [f64; 5] = [-0.02, 0.01, 0.0, 0.02, -0.01];

    fn series(name: &str, part_of: Option<&str>) -> Series {
        Series {
            name: name.to_string(),
            case: None,
            metric: name.to_string(),
            better: Better::Lower,
            part_of: part_of.map(str::to_string),
        }
    }

    fn point(commit: &str, after: Option<&str>, levels: &[(&str, f64)]) -> LineEvent {
        let runs = |(name, level): &(&str, f64)| {
            let ratios = NOISE.iter().map(|noise| level + noise).collect();
            let anchor = NOISE.iter().rev().copied().collect();
            (name.to_string(), BesideAnchor { anchor, ratios })
        };
        LineEvent::Point(Box::new(Point {
            commit: commit.to_string(),
            subject: format!("subject {commit}"),
            date: "2026-11-29".to_string(),
            after: after.map(str::to_string),
            at: jiff::Timestamp::UNIX_EPOCH,
            key: format!("key of {commit}"),
            records: vec![format!("record of {commit}")],
            values: levels.iter().map(runs).collect(),
            disturbed: 0,
            host: None,
        }))
    }

    fn compared(before: &str, after: &str, levels: &[(&str, f64)]) -> LineEvent {
        let pair = |at: usize| {
            let both = |(name, level): &(&str, f64)| {
                (name.to_string(), (NOISE[at % 5], level + NOISE[(at + 2) % 5]))
            };
            PairOfRuns { layout: 0, values: levels.iter().map(both).collect() }
        };
        LineEvent::Compared(Box::new(ComparedGap {
            series: levels[0].0.to_string(),
            before: before.to_string(),
            after: after.to_string(),
            at: jiff::Timestamp::UNIX_EPOCH,
            step: 0.06,
            probability: 0.9,
            followed: 1,
            at_once: false,
            pairs: (0..20).map(pair).collect(),
            records: vec!["record".to_string()],
            no_layouts: None,
            failed: None,
        }))
    }

    /// A line of a metric whose points have these levels, after twelve at 0.
    fn of_levels(levels: &[(&str, f64)]) -> Vec<LineEvent> {
        let first: Vec<String> = (0..12).map(|at| format!("0{at}")).collect();
        let first = first.iter().map(|name| (name.as_str(), 0.0));
        let mut events: Vec<LineEvent> = Vec::new();
        let mut after: Option<String> = None;
        for (name, level) in first.chain(levels.iter().copied()) {
            events.push(point(name, after.as_deref(), &[("time", level)]));
            after = Some(name.to_string());
        }
        events
    }

    fn of_series(events: &[LineEvent], acks: Vec<Ack>, series: Vec<Series>) -> Line {
        let summing = Summing::new(&series, 0.02);
        let events = events.iter().map(|event| summing.event(event.clone())).collect();
        Line::new(events, acks, series, 0.02)
    }

    fn line(events: &[LineEvent], acks: &[&str]) -> Line {
        let ack = |change: &&str| Ack {
            change: (*change).to_string(),
            why: "known".to_string(),
            is_false: false,
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        let series = vec![series("time", None)];
        of_series(events, acks.iter().map(ack).collect(), series)
    }

    fn fates(line: &Line) -> Vec<(String, Fate)> {
        line.changes().into_iter().map(|change| (change.after, change.is)).collect()
    }

    #[test]
    fn a_point_between_two_that_differ_narrows_the_change_and_keeps_its_ack() {
        let mut events = of_levels(&[("b", 0.0), ("d", 0.06)]);
        let wanted = line(&events, &[]).next().unwrap();
        assert_eq!((wanted.before.as_str(), wanted.after.as_str()), ("b", "d"));
        assert_eq!(wanted.followed, 1);
        events.push(compared("b", "d", &[("time", 0.06)]));
        assert!(line(&events, &[]).next().is_none());
        let change = |name: &str, fate| (name.to_string(), fate);
        assert_eq!(fates(&line(&events, &[])), [change("d", Fate::Open)]);
        events.push(point("c", Some("b"), &[("time", 0.06)]));
        assert_eq!(fates(&line(&events, &[])), [change("d", Fate::Open)]);
        events.push(compared("b", "c", &[("time", 0.06)]));
        assert_eq!(fates(&line(&events, &[])), [change("c", Fate::Open)]);
        assert_eq!(fates(&line(&events, &["d"])), [change("c", Fate::Accepted)]);
        events.push(LineEvent::Bisected(Box::new(BisectedChange {
            change: "d".to_string(),
            at: jiff::Timestamp::UNIX_EPOCH,
            bisection: Some("id".to_string()),
            named: Some(vec![("bb".to_string(), "subject".to_string())]),
            came_to: String::new(),
        })));
        let bisected = line(&events, &[]).changes()[0].bisected.clone().unwrap();
        assert_eq!(bisected.named[0].commit, "bb");
    }

    #[test]
    fn what_is_not_confirmed_is_not_said_and_what_goes_away_is() {
        let mut events = of_levels(&[("b", 0.0), ("c", 0.06), ("d", 0.0)]);
        events.push(compared("b", "c", &[("time", 0.0)]));
        assert_eq!(fates(&line(&events, &[])), [("c".to_string(), Fate::NotConfirmed)]);
        events.pop();
        let both = [compared("b", "c", &[("time", 0.06)]), compared("c", "d", &[("time", -0.06)])];
        events.extend(both);
        let gone = |name: &str| (name.to_string(), Fate::GoneAgain);
        assert_eq!(fates(&line(&events, &[])), [gone("c"), gone("d")]);
    }

    #[test]
    fn cost_that_moves_between_parts_of_a_sum_is_not_open() {
        let levels = |whole, user, system| [("time", whole), ("user", user), ("system", system)];
        let names: Vec<String> = (0..14).map(|at| format!("p{at:02}")).collect();
        let mut events: Vec<LineEvent> = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let after = at.checked_sub(1).map(|before| names[before].as_str());
            let level = if at < 13 { levels(0.0, 0.0, 0.0) } else { levels(0.0, 0.08, -0.08) };
            events.push(point(name, after, &level));
        }
        let [_, user, system] = levels(0.0, 0.08, -0.08);
        events.push(compared("p12", "p13", &[user, system, ("time", 0.0)]));
        let parts =
            [series("time", None), series("user", Some("time")), series("system", Some("time"))];
        let line = of_series(&events, Vec::new(), parts.to_vec());
        assert_eq!(fates(&line), [("p13".to_string(), Fate::Moved)]);
        let changes = line.changes();
        assert_eq!(changes[0].sizes.len(), 2, "one change, however many series show it");
    }

    #[test]
    fn a_point_that_two_knees_added_counts_once() {
        let mut events = of_levels(&[("b", 0.0)]);
        events.push(point("b", Some("011"), &[("time", 0.5)]));
        assert_eq!(line(&events, &[]).points.len(), 13);
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
