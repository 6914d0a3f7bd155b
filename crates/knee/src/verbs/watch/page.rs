//! The page of a line: what changed first, then the points.

use bisection::watch::{Fate, Score};
use bisector::{WatchAnswer, WatchChange, WatchPoint};
use host::counted;
use pages::{Block, Page, PageKind, PageTable, Section};
use records::Better;
use text::line_plot::{LinePoint, line_plot};
use text::quantity::signed;
use text::table::{Align, Table};

/// Points that are shown before the reader asks.
const POINTS_SHOWN: usize = 12;

/// The page of an answer.
pub fn page(answer: &WatchAnswer) -> Page {
    let mut page = Page::new(&answer.line, PageKind::Watch);
    page.answers = sentences(answer);
    let plot = line_plot(&plotted(answer));
    if !plot.is_empty() {
        let indented: String = plot.lines().map(|line| format!("    {line}\n")).collect();
        let title = format!("{} against the anchor, oldest commit first", answer.metric);
        page.sections.push(Section::open(&title, vec![Block::Manual(indented)]));
    }
    if !answer.changes.is_empty() {
        let table = PageTable::of_prose(changes(answer));
        page.sections.push(Section::open("Changes", vec![Block::Table(table)]));
    }
    let (older, newest) = answer.points.split_at(answer.points.len().saturating_sub(POINTS_SHOWN));
    if !newest.is_empty() {
        let block = |points| vec![Block::Table(PageTable::plain("", table(points), &[]))];
        page.sections.push(Section::open("Newest points", block(newest)));
        if !older.is_empty() {
            let section = Section::open("Earlier points", block(older));
            page.sections.push(Section { is_open: false, ..section });
        }
    }
    page.method = method(answer);
    page.facts = vec![
        ("anchor".to_string(), answer.anchor.clone()),
        ("points".to_string(), answer.points.len().to_string()),
    ];
    page
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

/// "91f4c6a0d2e1 is +5.1 % [+4.0, +6.2] worse than 0c3…: subject."
pub fn sentence(change: &WatchChange, answer: &WatchAnswer) -> String {
    let word = direction(change, answer);
    let subject =
        if change.subject.is_empty() { String::new() } else { format!(": {}", change.subject) };
    format!("{} is {word} by {} {}{subject}", change.id, size(change), interval(change))
        .replace("  ", " ")
}

fn direction(change: &WatchChange, answer: &WatchAnswer) -> &'static str {
    match (answer.better, change.worse) {
        (Better::Neither, _) => "different",
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

fn size(change: &WatchChange) -> String {
    change.change.map(|share| percent(share) + " %").unwrap_or_default()
}

fn interval(change: &WatchChange) -> String {
    let text = |(low, high)| format!("[{}, {}]", percent(low), percent(high));
    change.interval.map(text).unwrap_or_default()
}

fn plotted(answer: &WatchAnswer) -> Vec<LinePoint> {
    let mark = |point: &WatchPoint| {
        let here = |change: &&WatchChange| change.after == point.commit;
        let change = answer.changes.iter().find(here)?;
        Some(if change.is == Fate::NotConfirmed { '?' } else { '^' })
    };
    let plotted = |point: &WatchPoint| LinePoint { value: point.change, mark: mark(point) };
    answer.points.iter().map(plotted).collect()
}

fn changes(answer: &WatchAnswer) -> Table {
    let mut table = Table::new([
        ("change", Align::Left),
        ("size", Align::Right),
        ("interval", Align::Left),
        ("what became of it", Align::Left),
    ]);
    for change in answer.changes.iter().rev() {
        let is_said = change.is != Fate::NotConfirmed;
        let (size, interval) =
            if is_said { (size(change), interval(change)) } else { (String::new(), String::new()) };
        table.row(vec![change.id.clone(), size, interval, became(change, answer)]);
    }
    table
}

/// "open, worse; 28 pairs in other layouts, too (record …): subject".
fn became(change: &WatchChange, answer: &WatchAnswer) -> String {
    let day = change.at.get(..10).unwrap_or_default();
    let word = direction(change, answer);
    let gone = change.gone_with.as_deref().map(|commit| format!("{commit:.12}"));
    let is = match (change.is, &gone) {
        (Fate::Open, _) => format!("open, {word}"),
        (Fate::GoneAgain, Some(with)) => format!("{word}; gone again with {with}"),
        (Fate::GoneAgain, None) => format!("{word}; gone again"),
        (Fate::Accepted, _) => format!("accepted, {word}: {}", change.why),
        (Fate::False, _) => format!("declared to be none: {}", change.why),
        (Fate::NotConfirmed, _) if !change.why.is_empty() => {
            return format!(
                "not compared: the points suggest {} %, {}",
                percent(change.suggested),
                change.why
            );
        }
        (Fate::NotConfirmed, _) => format!(
            "not confirmed: the points suggest {} %, {} today show no such change; {}",
            percent(change.suggested),
            counted(change.pairs, "pair"),
            host_words(&change.host)
        ),
    };
    if change.is == Fate::NotConfirmed {
        return is;
    }
    let layouts = if change.other_layouts { " in other layouts" } else { "" };
    let record = change.records.last().map(|id| format!(", record {id}")).unwrap_or_default();
    let subject =
        if change.subject.is_empty() { String::new() } else { format!("; {}", change.subject) };
    format!(
        "{is}; confirmed by {}{layouts} on {day}{record}{subject}",
        counted(change.pairs, "pair")
    )
}

fn host_words(differences: &[String]) -> String {
    match differences {
        [] => "nothing that the host tells of itself changed, so it may be chance".to_string(),
        differences => format!("the host changed: {}", differences.join(", ")),
    }
}

fn table(points: &[WatchPoint]) -> Table {
    let mut table = Table::new([
        ("commit", Align::Left),
        ("date", Align::Left),
        ("to anchor", Align::Right),
        ("interval", Align::Left),
        ("runs", Align::Right),
        ("subject", Align::Left),
    ]);
    for point in points.iter().rev() {
        let text = |(low, high)| format!("[{}, {}]", percent(low), percent(high));
        let same = point.same_build_as.as_ref().map(|commit| format!("as {commit:.12}"));
        let interval = same.or(point.interval.map(text)).unwrap_or_default();
        let short: String = point.commit.chars().take(12).collect();
        let change = point.change.map(|share| percent(share) + " %").unwrap_or_default();
        let runs = point.runs.to_string();
        table.row(vec![short, point.date.clone(), change, interval, runs, point.subject.clone()]);
    }
    table
}

fn method(answer: &WatchAnswer) -> Vec<String> {
    vec![
        format!(
            "A point is the ratio of its runs to those of the anchor in the same blocks. What the points suggest is said only \
             if both neighbours, compared in runs of their own, differ by {:.1} % or more.",
            150.0 * answer.smallest_effect
        ),
        "Intervals of changes allow for looking after each stage (exact signed ranks over pairs), those of points are at 95 % \
         for each by itself."
            .to_string(),
    ]
}
