//! The page of a line: what changed first, then the points.

use std::collections::{BTreeMap, HashMap};

use bisection::watch::{Fate, Score, likelihood_ratio};
use bisector::{
    WatchAnswer, WatchBisected, WatchChange, WatchCulprit, WatchPoint, WatchSeries, WatchSize,
    WatchValue,
};
use host::counted;
use pages::{Block, Page, PageKind, PageTable, Section};
use records::Better;
use text::line_plot::{LinePoint, line_plot};
use text::quantity::signed;
use text::table::{Align, Table};

/// Points that are shown before the reader asks.
const POINTS_SHOWN: usize = 12;

/// Earlier points that a page has below them.
const EARLIER_SHOWN: usize = 500;

/// Series that are drawn one by one: those that changed last.
const DRAWN: usize = 12;

/// The page of an answer.
pub fn page(answer: &WatchAnswer) -> Page {
    let mut page = Page::new(&answer.line, PageKind::Watch);
    page.answers = sentences(answer);
    page.sections.extend(plots(answer));
    if !answer.changes.is_empty() {
        let (open, closed) = changes(answer);
        let section = |title: &str, table| {
            Section::open(title, vec![Block::Table(PageTable::of_prose(table))])
        };
        page.sections.push(section("Changes", open));
        if let Some(closed) = closed {
            let section = section("Suspicions that were not confirmed, before these", closed);
            page.sections.push(Section { is_open: false, ..section });
        }
    }
    if let [series] = &answer.series[..] {
        page.sections.extend(of_points(answer, series));
    } else if !answer.points.is_empty() {
        page.sections.push(of_series(answer));
    }
    page.method = method(answer);
    page.facts = vec![
        ("anchor".to_string(), answer.anchor.clone()),
        ("points".to_string(), answer.points.len().to_string()),
    ];
    if answer.series.len() > 1 {
        page.facts.push(("series".to_string(), answer.series.len().to_string()));
    }
    page
}

/// The line of the only series, or of those that changed.
fn plots(answer: &WatchAnswer) -> Vec<Section> {
    let of = |series: &WatchSeries, title: &str| {
        let plot = line_plot(&plotted(answer, series));
        let indented: String = plot.lines().map(|line| format!("    {line}\n")).collect();
        (!plot.is_empty()).then(|| Section::open(title, vec![Block::Manual(indented)]))
    };
    if let [series] = &answer.series[..] {
        let metric = &series.series.metric;
        let title = format!("{metric} against the anchor, oldest commit first");
        return of(series, &title).into_iter().collect();
    }
    let said = answer.changes.iter().rev().filter(|change| change.is != Fate::NotConfirmed);
    let mut names: Vec<&str> = Vec::new();
    for size in said.flat_map(|change| &change.sizes) {
        if names.len() < DRAWN && !names.contains(&size.series.as_str()) {
            names.push(&size.series);
        }
    }
    let series = |name: &str| answer.series.iter().find(|series| series.series.name == name);
    let drawn = names.iter().filter_map(|name| {
        of(series(name)?, &format!("{name} against the anchor, oldest commit first"))
    });
    drawn.collect()
}

/// The points of the only series.
fn of_points(answer: &WatchAnswer, series: &WatchSeries) -> Vec<Section> {
    let rows: Vec<(&WatchPoint, Option<&WatchValue>)> =
        answer.points.iter().zip(series.values.iter().map(Option::as_ref)).collect();
    let (older, newest) = rows.split_at(rows.len().saturating_sub(POINTS_SHOWN));
    let older = &older[older.len().saturating_sub(EARLIER_SHOWN)..];
    let block = |rows| vec![Block::Table(PageTable::plain("", table(rows), &[]))];
    let mut sections = Vec::new();
    if !newest.is_empty() {
        sections.push(Section::open("Newest points", block(newest)));
    }
    if !older.is_empty() {
        let section = Section::open("Earlier points", block(older));
        sections.push(Section { is_open: false, ..section });
    }
    sections
}

/// Many series in a row each, at their newest point.
fn of_series(answer: &WatchAnswer) -> Section {
    let mut table = Table::new([
        ("series", Align::Left),
        ("to anchor", Align::Right),
        ("interval", Align::Left),
        ("points", Align::Right),
        ("last change", Align::Left),
    ]);
    let mut last: BTreeMap<&str, &WatchChange> = BTreeMap::new();
    for change in answer.changes.iter().filter(|change| change.is != Fate::NotConfirmed) {
        last.extend(change.sizes.iter().map(|size| (size.series.as_str(), change)));
    }
    for series in &answer.series {
        let newest = series.values.iter().rev().find_map(Option::as_ref);
        let change = newest.map(|value| percent(value.change) + " %").unwrap_or_default();
        let interval = newest.and_then(WatchValue::interval).map(range).unwrap_or_default();
        let points = series.values.iter().flatten().count().to_string();
        let name = &series.series.name;
        let last = last.get(name.as_str()).map(|change| change.id.clone()).unwrap_or_default();
        table.row(vec![name.clone(), change, interval, points, last]);
    }
    let block = Block::Table(PageTable::plain("", table, &[]));
    let section = Section::open("Series at their newest points", vec![block]);
    Section { is_open: answer.series.len() <= EARLIER_SHOWN, ..section }
}

/// What adding says at its end: what is open, and how often the line was right.
pub fn news(answer: &WatchAnswer) -> Vec<String> {
    sentences(answer)
}

fn sentences(answer: &WatchAnswer) -> Vec<String> {
    let mut sentences = Vec::new();
    let open: Vec<&WatchChange> =
        answer.changes.iter().filter(|change| change.is == Fate::Open).collect();
    if answer.points.is_empty() {
        sentences
            .push("The line has no points yet: knee watch add measures the first.".to_string());
        return sentences;
    }
    if open.is_empty() {
        sentences.push(format!("No change is open in {}.", counted(answer.points.len(), "point")));
    }
    sentences.extend(open.iter().map(|change| sentence(change, answer)));
    sentences.extend(score_sentence(&answer.score));
    if answer.one_sided {
        sentences.push(
            "All changes go in one direction, though there are many: look whether the anchor or the host moves them."
                .to_string(),
        );
    }
    sentences
}

/// "91f4c6a0d2e1 is worse by +5.1 % [+4.0, +6.2]: subject."
pub fn sentence(change: &WatchChange, answer: &WatchAnswer) -> String {
    let subject =
        if change.subject.is_empty() { String::new() } else { format!(": {}", change.subject) };
    let name = |size: &WatchSize| match answer.series.len() {
        1 => String::new(),
        _ => format!(" in {}", size.series),
    };
    let Some(size) = change.sizes.first() else { return format!("{} changed{subject}", change.id) };
    let word = direction(size, answer);
    let others = match change.sizes.len() - 1 {
        0 => String::new(),
        others => format!(" and in {others} more"),
    };
    format!(
        "{} is {word} by {} {}{}{others}{subject}",
        change.id,
        percent(size.change) + " %",
        range(size.interval),
        name(size)
    )
}

fn direction(size: &WatchSize, answer: &WatchAnswer) -> &'static str {
    let own = answer.series.iter().find(|series| series.series.name == size.series);
    match (own.map(|series| series.series.better), size.worse) {
        (Some(Better::Neither), _) => "different",
        (_, true) => "worse",
        (_, false) => "better",
    }
}

/// "Right in 41 of 43 changes: 2 were declared to be none; 5 suspicions were not confirmed, and not said."
pub fn score_sentence(score: &Score) -> Option<String> {
    let Score { said, right, declared_false, not_confirmed, accepted } = *score;
    let quiet = match not_confirmed {
        0 => String::new(),
        1 => "1 suspicion was not confirmed, and not said".to_string(),
        n => format!("{n} suspicions were not confirmed, and not said"),
    };
    if said == 0 {
        return (!quiet.is_empty()).then(|| format!("{}.", capital(&quiet)));
    }
    let parts = [
        (accepted > 0).then(|| format!("{accepted} accepted with a reason")),
        (declared_false > 0).then(|| format!("{declared_false} declared to be none")),
        (!quiet.is_empty()).then_some(quiet),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let more = if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) };
    Some(format!("This line was right in {right} of {}{more}.", counted(said, "change")))
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

fn percent(share: f64) -> String {
    signed(100.0 * share, 1)
}

fn range((low, high): (f64, f64)) -> String {
    format!("[{}, {}]", percent(low), percent(high))
}

fn plotted(answer: &WatchAnswer, series: &WatchSeries) -> Vec<LinePoint> {
    let mut marks: HashMap<&str, char> = HashMap::new();
    for change in &answer.changes {
        let is_own = change.sizes.iter().any(|size| size.series == series.series.name);
        let mark = if is_own { '^' } else { '?' };
        if is_own || (change.is == Fate::NotConfirmed && answer.series.len() == 1) {
            marks.insert(&change.after, mark);
        }
    }
    let plotted = |(point, value): (&WatchPoint, &Option<WatchValue>)| LinePoint {
        value: value.map(|value| value.change),
        mark: marks.get(point.commit.as_str()).copied(),
    };
    answer.points.iter().zip(&series.values).map(plotted).collect()
}

/// Suspicions that are shown with the changes.
const SUSPICIONS_SHOWN: usize = 5;

/// The changes with the newest suspicions, and earlier suspicions.
fn changes(answer: &WatchAnswer) -> (Table, Option<Table>) {
    let newest_first = || answer.changes.iter().rev();
    let is_said = |change: &&WatchChange| change.is != Fate::NotConfirmed;
    let mut shown: Vec<&WatchChange> = Vec::new();
    let mut folded: Vec<&WatchChange> = Vec::new();
    let mut suspicions = 0;
    for change in newest_first() {
        suspicions += usize::from(!is_said(&change));
        let is_shown = is_said(&change) || suspicions <= SUSPICIONS_SHOWN;
        if is_shown { shown.push(change) } else { folded.push(change) }
    }
    folded.truncate(EARLIER_SHOWN);
    let folded = (!folded.is_empty()).then(|| changes_table(&folded, answer));
    (changes_table(&shown, answer), folded)
}

fn changes_table(changes: &[&WatchChange], answer: &WatchAnswer) -> Table {
    let mut table = Table::new([
        ("change", Align::Left),
        ("size", Align::Right),
        ("interval", Align::Left),
        ("what became of it", Align::Left),
    ]);
    for change in changes {
        let size = change.sizes.first();
        let text = size.map(|size| percent(size.change) + " %").unwrap_or_default();
        let interval = size.map(|size| range(size.interval)).unwrap_or_default();
        table.row(vec![change.id.clone(), text, interval, became(change, answer)]);
    }
    table
}

/// "open, worse in insert; 28 pairs in other layouts (record …): subject".
fn became(change: &WatchChange, answer: &WatchAnswer) -> String {
    let Some(size) = change.sizes.first() else { return not_confirmed(change) };
    let word = match answer.series.len() {
        1 => direction(size, answer).to_string(),
        _ => in_series(change, answer),
    };
    let gone = change.gone_with.as_deref().map(|commit| format!("{commit:.12}"));
    let is = match (change.is, &gone) {
        (Fate::GoneAgain, Some(with)) => format!("{word}; gone again with {with}"),
        (Fate::GoneAgain, None) => format!("{word}; gone again"),
        (Fate::Accepted, _) => format!("accepted, {word}: {}", change.why),
        (Fate::False, _) => format!("declared to be none: {}", change.why),
        (Fate::Moved, _) => {
            format!("cost moved between parts of one sum, which did not change: {word}")
        }
        (Fate::Open | Fate::NotConfirmed, _) => format!("open, {word}"),
    };
    let day = change.at.get(..10).unwrap_or_default();
    let layouts = if change.other_layouts { ", in other layouts too," } else { "" };
    let record = change.records.last().map(|id| format!(", record {id}")).unwrap_or_default();
    let subject =
        if change.subject.is_empty() { String::new() } else { format!("; {}", change.subject) };
    let pairs = counted(change.pairs, "pair");
    let bisected = change.bisected.as_ref().map(bisected).unwrap_or_default();
    format!("{is}; confirmed by {pairs}{layouts} on {day}{record}{bisected}{subject}")
}

/// "; bisected to 3fa9…: subject".
fn bisected(bisected: &WatchBisected) -> String {
    let by =
        bisected.bisection.as_deref().map(|id| format!(" (bisection {id})")).unwrap_or_default();
    if bisected.named.is_empty() {
        return format!("; bisected: {}{by}", bisected.came_to);
    }
    let name = |culprit: &WatchCulprit| format!("{:.12}: {}", culprit.commit, culprit.subject);
    let names: Vec<String> = bisected.named.iter().map(name).collect();
    format!("; bisected to {}{by}", names.join(", "))
}

/// "worse in insert and lookup, better in 3 more".
fn in_series(change: &WatchChange, answer: &WatchAnswer) -> String {
    let mut by_word: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for size in &change.sizes {
        by_word.entry(direction(size, answer)).or_default().push(&size.series);
    }
    let part = |(word, names): (&&str, &Vec<&str>)| match &names[..] {
        [one] => format!("{word} in {one}"),
        [one, other] => format!("{word} in {one} and {other}"),
        [one, rest @ ..] => format!("{word} in {one} and {} more", rest.len()),
        [] => String::new(),
    };
    by_word.iter().rev().map(part).collect::<Vec<_>>().join(", ")
}

fn not_confirmed(change: &WatchChange) -> String {
    let suggested = percent(change.suggested);
    if !change.why.is_empty() {
        return format!("not compared: the points suggest {suggested} %, {}", change.why);
    }
    let pairs = counted(change.pairs, "pair");
    let host = host_words(&change.host);
    format!(
        "not confirmed: the points suggest {suggested} %, {pairs} today show no such change; {host}"
    )
}

fn host_words(differences: &[String]) -> String {
    match differences {
        [] => "nothing that the host tells of itself changed, so it may be chance".to_string(),
        differences => format!("the host changed: {}", differences.join(", ")),
    }
}

fn table(rows: &[(&WatchPoint, Option<&WatchValue>)]) -> Table {
    let mut table = Table::new([
        ("commit", Align::Left),
        ("date", Align::Left),
        ("to anchor", Align::Right),
        ("interval", Align::Left),
        ("runs", Align::Right),
        ("subject", Align::Left),
    ]);
    for (point, value) in rows.iter().rev() {
        let same = point.same_build_as.as_ref().map(|commit| format!("as {commit:.12}"));
        let interval = value.and_then(WatchValue::interval).map(range);
        let interval = same.or(interval).unwrap_or_default();
        let short: String = point.commit.chars().take(12).collect();
        let change = value.map(|value| percent(value.change) + " %").unwrap_or_default();
        let runs = value.map(|value| value.runs.to_string()).unwrap_or_default();
        table.row(vec![short, point.date.clone(), change, interval, runs, point.subject.clone()]);
    }
    table
}

fn method(answer: &WatchAnswer) -> Vec<String> {
    vec![
        format!(
            "A point is the ratio of its runs to those of the anchor in the same blocks. A change is said where all evidence speaks \
             for it with a likelihood ratio of {:.0} or more, where the pairs of its two builds show it by themselves, \
             and where it is of {:.1} % or more.",
            likelihood_ratio(answer.series.len()),
            100.0 * answer.smallest_effect
        ),
        "Intervals of changes hold whatever number of pairs a comparison took, those of points are at 95 % for each by itself."
            .to_string(),
    ]
}
