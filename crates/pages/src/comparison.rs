//! The page of a comparison: what changed, then every place with its curves and verdicts.

use analysis::Comparison;
use host::in_parallel;
use records::{Opened, RecordState};
use reports::{
    ComparedRow, ComparisonParts, Laws, LoadPart, MissingSources, VerdictCounts, comparison_parts,
    facts, lane_panel, timing_sentences, warning_lists,
};
use text::table::{Align, Table};

use crate::page::{Block, Count, Page, PageKind, PageTable, RowMark, Section, Tone, Wide};
use crate::reading;
use crate::record::unfinished;

/// More changes than these are only in the tables of their loads.
const CHANGES_FIRST: usize = 12;

/// Sentences about loads that scale otherwise when they are timed.
const TIMING_MAX: usize = 3;

/// Laws are fitted to the curves of comparisons with at most so many rows: a page should not take minutes.
const LAWS_ROWS_MAX: usize = 200;

/// Whether a load has a curve to draw.
fn is_curve(load: &LoadPart) -> bool {
    load.lanes.iter().any(|lane| lane.cells.len() > 1)
}

/// The page of a comparison. `records` are those that hold its runs, `again` is the command that compares
/// them.
pub fn comparison(comparison: &Comparison, records: &[&Opened], again: &str) -> Page {
    let parts = comparison_parts(comparison, "");
    let mut sections = Vec::new();
    sections.extend(changes(comparison, &parts));
    let several = parts.loads.len() > 1;
    let matter = |load: &LoadPart| !several || load.rows.iter().any(is_change);
    let (first, rest): (Vec<&LoadPart>, Vec<&LoadPart>) =
        parts.loads.iter().partition(|load| matter(load));
    let rows: usize = parts.loads.iter().map(|load| load.rows.len()).sum();
    let laws = if rows <= LAWS_ROWS_MAX { Laws::Fitted } else { Laws::LeftOut };
    let open = first.into_iter().map(|load| (load, true));
    let loads: Vec<_> = open.chain(rest.into_iter().map(|load| (load, false))).collect();
    sections.extend(in_parallel(loads.len(), |index| {
        let (load, is_open) = loads[index];
        section(comparison, &parts, load, (is_open, laws))
    }));
    let mut method = parts.closing.clone();
    if laws == Laws::LeftOut && parts.loads.iter().any(is_curve) {
        method.push(
            "knees and cliffs are not marked in so many curves; `knee scale` finds them"
                .to_string(),
        );
    }
    let mut page = Page {
        title: title(comparison),
        kind: PageKind::Comparison,
        is_growing: records.iter().any(|one| one.record.state == RecordState::Growing),
        answers: parts.answers.clone(),
        counts: counts(&parts.counts),
        sections,
        method,
        warnings: vec![("Warnings".to_string(), comparison.warnings.clone())],
        facts: parts.head.iter().map(|(label, text)| (label.to_string(), text.clone())).collect(),
        again: vec![again.to_string()],
        files: Vec::new(),
    };
    for record in records {
        page.answers.extend(timing_sentences(record).into_iter().take(TIMING_MAX));
        page.answers.extend(unfinished(record));
        of_record(&mut page, record, records.len() > 1);
    }
    records.iter().for_each(|record| page.add_experiment(&record.record));
    page.again.retain(|command| !command.is_empty());
    page
}

/// "mutex → spin": the variants that are compared.
fn title(comparison: &Comparison) -> String {
    let names: Vec<&str> = comparison.variants.iter().map(|one| one.name.as_str()).collect();
    match &names[..] {
        [one] => one.to_string(),
        [baseline, variant] => format!("{baseline} → {variant}"),
        [baseline, others @ ..] => format!("{baseline} → {}", others.join(", ")),
        [] => "nothing".to_string(),
    }
}

fn counts(counts: &VerdictCounts) -> Vec<Count> {
    let VerdictCounts { better, worse, changed, same, cannot_tell, unjudged } = *counts;
    let all = [
        (worse, "worse", Tone::Worse),
        (better, "better", Tone::Better),
        (changed, "changed", Tone::Changed),
        (same, "same", Tone::Same),
        (cannot_tell, "cannot tell", Tone::Open),
        (unjudged, "no verdict", Tone::Open),
    ];
    let some = all.into_iter().filter(|(n, ..)| *n > 0);
    some.map(|(n, word, tone)| Count { n, word, tone }).collect()
}

fn is_change(row: &ComparedRow) -> bool {
    row.contrast.as_ref().is_some_and(|contrast| contrast.verdict.is_change())
}

/// The largest changes of all loads in one table, where there are several places.
fn changes(comparison: &Comparison, parts: &ComparisonParts) -> Option<Section> {
    let rows = || parts.loads.iter().flat_map(|load| load.rows.iter().map(move |row| (load, row)));
    let mut changed: Vec<(&LoadPart, &ComparedRow)> =
        rows().filter(|(_, row)| is_change(row)).collect();
    if parts.loads.len() < 2 || changed.is_empty() {
        return None;
    }
    let size =
        |row: &ComparedRow| row.contrast.as_ref().and_then(|c| c.change).unwrap_or(0.0).abs();
    changed.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    let all = changed.len();
    changed.truncate(CHANGES_FIRST);
    let mut table = Table::new([
        ("verdict", Align::Left),
        ("change", Align::Right),
        ("interval", Align::Left),
        ("n", Align::Right),
        ("variant", Align::Left),
        ("where", Align::Left),
    ]);
    for (load, row) in &changed {
        table.row(changed_cells(load, row, &parts.names));
    }
    let marks = changed.iter().map(|(_, row)| mark(comparison, parts, row)).collect();
    let caption = match all - changed.len() {
        0 => "All changes, the largest first".to_string(),
        more => format!("The largest changes; {more} more are in the tables below"),
    };
    let table = PageTable { marks, ..PageTable::plain(&caption, table, reading::VERDICTS) };
    let section = Section::open("What changed", vec![Block::Table(table)]);
    Some(Section { is_summary: true, ..section })
}

/// Cells of a row, as its load's table has them.
fn changed_cells(load: &LoadPart, row: &ComparedRow, names: &[String]) -> Vec<String> {
    let index = load.rows.iter().position(|other| std::ptr::eq(other, row)).unwrap_or(0);
    let cells = &load.table.rows()[index];
    let text = |is: &dyn Fn(&str) -> bool| {
        let columns = load.table.columns().iter();
        let found = columns.zip(cells).find(|((heading, _), _)| is(heading));
        found.map(|(_, cell)| cell.clone()).unwrap_or_default()
    };
    vec![
        row.verdict.clone(),
        text(&|name| name == "change"),
        text(&|name| name.contains("interval")),
        text(&|name| name == "n"),
        names[row.variant].clone(),
        row.place.clone(),
    ]
}

fn mark(comparison: &Comparison, parts: &ComparisonParts, row: &ComparedRow) -> RowMark {
    RowMark {
        tone: Tone::of_verdict(row.contrast.as_ref().map(|contrast| &contrast.verdict)),
        cell: row.cell,
        variant: parts.names[row.variant].clone(),
        verdict: row.verdict.clone(),
        contrast: row.contrast.clone(),
        smallest_effect: comparison.smallest_effect,
    }
}

fn section(
    comparison: &Comparison,
    parts: &ComparisonParts,
    load: &LoadPart,
    (is_open, laws): (bool, Laws),
) -> Section {
    let panels = load.lanes.iter().map(|lane| lane_panel(comparison, lane, &parts.names, laws));
    let mut blocks: Vec<Block> =
        panels.filter(|panel| panel.is_curve()).map(Block::Curves).collect();
    if !load.rows.is_empty() {
        let caption = match load.why_no_values.as_str() {
            "" => format!("{}, mean ± standard deviation of runs", load.metric),
            why => why.to_string(),
        };
        blocks.push(Block::Table(PageTable {
            marks: load.rows.iter().map(|row| mark(comparison, parts, row)).collect(),
            wide: Wide::Narrower(load.narrower.clone()),
            ..PageTable::plain(&caption, load.table.clone(), reading::VERDICTS)
        }));
    }
    blocks.push(Block::Text(load.notes.clone()));
    if let Some((title, table)) = &load.also {
        let table = PageTable::plain(title, table.clone(), reading::ALSO);
        blocks.push(Block::Table(PageTable { is_open: false, ..table }));
    }
    Section {
        title: load.title.clone(),
        load: Some(load.setting.clone()),
        is_open,
        is_summary: false,
        blocks,
    }
}

/// What the record of some runs adds: facts, warnings about runs, how to measure again.
fn of_record(page: &mut Page, record: &Opened, several: bool) {
    let id = &record.record.id;
    let about = |title: &str| if several { format!("{title}, {id}") } else { title.to_string() };
    for (title, mut sentences) in warning_lists(record, MissingSources::OfTables) {
        // A comparison has the warnings about its records among its own.
        let known = page.warnings.iter().flat_map(|(_, known)| known).cloned().collect::<Vec<_>>();
        sentences.retain(|sentence| !known.contains(sentence));
        let title = if title == "Warnings" { "Warnings about runs" } else { title };
        page.warnings.push((about(title), sentences));
    }
    page.warnings.retain(|(_, sentences)| !sentences.is_empty());
    for (label, text) in facts(record) {
        match label {
            "rerun" => page.again.push(text),
            _ if text.is_empty() || page.facts.iter().any(|(_, known)| *known == text) => (),
            _ if several && label != "record" => (),
            _ => {
                page.facts.retain(|(known, _)| known != label || several);
                page.facts.push((label.to_string(), text));
            }
        }
    }
}
