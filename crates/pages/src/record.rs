//! The page of a record in which nothing is compared: its curves and what they say.

use analysis::Axis;
use answers::DoseReport;
use records::{Opened, RecordState};
use reports::{
    CurvePanel, Detail, FormPart, MissingSources, RecordPart, dose_part, dose_sentence, facts,
    record_parts, timing_sentences, warning_lists,
};

use text::prose::counted;

use crate::page::{Block, Page, PageKind, PageTable, Section, Wide};
use crate::reading;

/// The page of a record, with what `detail` asks for. `again` is the command that shows it; may be empty.
pub fn record(opened: &Opened, detail: &Detail, again: &str) -> Page {
    let parts = record_parts(opened, detail);
    let doses = answers::doses(&analysis::curves(opened));
    let mut answers: Vec<String> = doses.iter().filter_map(dose_sentence).collect();
    answers.extend(parts.iter().flat_map(|part| self::answers(part, parts.len() > 1)));
    if answers.is_empty() {
        // Of several metrics the first decides.
        let firsts = parts.iter().filter_map(|part| part.forms.first());
        answers.extend(firsts.filter_map(values));
        if !parts.iter().flat_map(|part| &part.panels).any(CurvePanel::is_curve) {
            answers.push(without_curves(opened));
        }
    }
    let all = answers.len();
    answers.truncate(ANSWERS_MAX);
    if all > ANSWERS_MAX {
        answers.push(format!("{} more are below", counted(all - ANSWERS_MAX, "answer")));
    }
    answers.extend(timing_sentences(opened));
    answers.extend(unfinished(opened));
    let is_open = parts.len() <= OPEN_MAX;
    let loads = parts.into_iter().map(|part| section(part, is_open));
    Page {
        answers,
        sections: dosed(doses.iter()).into_iter().chain(loads).collect(),
        // Other tools have methods of their own.
        method: opened.record.source.is_none().then(|| METHOD.to_string()).into_iter().collect(),
        ..about(opened, detail, again)
    }
}

/// A page without an answer: what was measured, where, its warnings, and how to have it again.
pub fn about(opened: &Opened, detail: &Detail, again: &str) -> Page {
    let mut page = Page::new(&opened.record.experiment.name, PageKind::Measurement);
    page.is_growing = opened.record.state == RecordState::Growing;
    page.again = vec![again.to_string()];
    for (label, text) in facts(opened) {
        match label {
            "rerun" => page.again.push(text),
            label => page.facts.push((label.to_string(), text)),
        }
    }
    page.add_experiment(&opened.record);
    page.again.retain(|command| !command.is_empty());
    page.facts.retain(|(_, text)| !text.is_empty());
    let missing = if detail.counters { MissingSources::All } else { MissingSources::OfTables };
    let warnings = warning_lists(opened, missing).into_iter();
    let warnings = warnings.filter(|(_, sentences)| !sentences.is_empty());
    page.warnings = warnings.map(|(title, sentences)| (title.to_string(), sentences)).collect();
    page
}

/// Loads whose answer stands at the top.
const ANSWERS_MAX: usize = 5;

/// Loads that are all shown at once; of more, the reader opens those of interest.
const OPEN_MAX: usize = 8;

const METHOD: &str = "how: the rate is the operations of all tasks over the wall time from one release to the \
                      last task's stop; each run has fresh tasks, and means and deviations are over runs";

fn without_curves(opened: &Opened) -> String {
    let is_finished = opened.runs.iter().any(|run| run.finished());
    if is_finished && opened.record.points.iter().all(|point| point.cpus == 0) {
        return "On how many CPUs is not recorded: there is no curve".to_string();
    }
    if is_finished {
        return "Measured at one CPU count: there is no curve".to_string();
    }
    "No run finished: there is nothing to show".to_string()
}

/// The value of a table with one row, or those of the first and the last: "lock_mcs, processes: 1 200 000 operations/s,
/// standard deviation 3000, n = 5", "lock_mcs, processes: 0.2 stat.ctxt/op on 1 CPU, 3.1 on 8 CPUs".
fn values(form: &FormPart) -> Option<String> {
    let headings: Vec<&str> = form.table.columns().iter().map(|(name, _)| name.as_str()).collect();
    let column = |name: &str| headings.iter().position(|heading| *heading == name);
    let n = column("n")?;
    let mut heading = headings.get(n + 1)?.lines();
    let (metric, unit) = (heading.next()?, heading.next());
    // The unit stands at the number where the metric's name does not say it.
    let of_metric = |value: &str| match unit {
        Some(unit) => format!("{metric} {value} {unit}"),
        None => format!("{value} {metric}"),
    };
    let title = form.title.split(": ").next().unwrap_or_default();
    let cell = |row: &[String], at: usize| {
        let text = row.get(at).map(|cell| cell.trim().to_string());
        text.filter(|text| text != "-")
    };
    match form.table.rows() {
        [] => None,
        [row] => {
            let value = cell(row, n + 1)?;
            let deviation = column("stddev").and_then(|at| cell(row, at));
            let deviation = deviation.map(|one| format!(", standard deviation {one}"));
            let deviation = deviation.unwrap_or_default();
            Some(format!("{title}: {}{deviation}, n = {}", of_metric(&value), row[n]))
        }
        [first, .., last] => {
            let at = |row: &[String]| {
                // What a curve runs over comes first.
                let over = headings.first()?;
                let at: u32 = cell(row, 0)?.parse().ok()?;
                Some((cell(row, n + 1)?, Axis::new(over).counted(at)))
            };
            let ((low, fewest), (high, most)) = (at(first)?, at(last)?);
            Some(format!("{title}: {} on {fewest}, {high} on {most}", of_metric(&low)))
        }
    }
}

/// Says so of a record that lacks runs.
pub fn unfinished(opened: &Opened) -> Option<String> {
    let planned = opened.record.runs_planned()?;
    let id = &opened.record.id;
    let done = format!("{} of {planned} planned runs", opened.runs.len());
    match opened.record.state {
        RecordState::Whole => None,
        RecordState::Growing => Some(format!("{id} goes on: so far it has {done}")),
        RecordState::Partial => Some(format!(
            "{id} ended early: it has {done}; its command with --resume does the rest"
        )),
    }
}

/// What a load's tables say first.
fn answers(part: &RecordPart, several: bool) -> Vec<String> {
    let is_told = |sentence: &&String| {
        ["best at", "knee", "no knee", "cliff", "past "]
            .iter()
            .any(|start| sentence.starts_with(start))
    };
    let told = |form: &FormPart| {
        let told: Vec<&String> = form.sentences.iter().filter(is_told).collect();
        let title = form.title.split(": ").next().unwrap_or_default();
        let first = told.first()?;
        let name =
            if several || part.forms.len() > 1 { format!("{title}: ") } else { String::new() };
        Some(format!("{name}{first}"))
    };
    part.forms.iter().filter_map(told).collect()
}

/// What doses of time say, where the record has some.
pub fn dosed<'a>(reports: impl Iterator<Item = &'a DoseReport>) -> Option<Section> {
    let parts = reports.map(dose_part);
    let blocks: Vec<Block> =
        parts.flat_map(|part| blocks(part, "", (reading::DOSES, Wide::Stacked))).collect();
    (!blocks.is_empty()).then(|| Section::open("What doses of time say", blocks))
}

fn section(part: RecordPart, is_open: bool) -> Section {
    let RecordPart { title, setting, forms, details, panels } = part;
    let drawn = panels.into_iter().filter(|panel| panel.is_curve()).map(Block::Curves);
    let forms = forms.into_iter().map(|form| {
        let has = |name: &str| form.table.columns().iter().any(|(heading, _)| heading == name);
        let kind = match () {
            () if has("p99") => (reading::LATENCIES, Wide::Stacked),
            () if has("median") => (reading::METRIC, Wide::Stacked),
            () => (reading::RATES, Wide::FirstColumns),
        };
        (form, kind)
    });
    let details = details.into_iter().map(|form| (form, (reading::TOTALS, Wide::Stacked)));
    let tables = forms.chain(details).flat_map(|(form, kind)| blocks(form, &title, kind));
    let blocks = drawn.chain(tables).collect();
    Section { title, load: setting, is_open, is_summary: false, blocks }
}

/// A table with what stands below it. Its caption leaves out what the title above says.
pub fn blocks(
    form: FormPart,
    above: &str,
    (reading, wide): (&'static [&'static str], Wide),
) -> Vec<Block> {
    let FormPart { title, table, sentences } = form;
    let caption = title.strip_prefix(above).unwrap_or(&title).trim_start_matches([',', ':', ' ']);
    let below = Block::Text(sentences);
    if table.rows().is_empty() {
        return vec![Block::Text(vec![caption.to_string()]), below];
    }
    vec![Block::Table(PageTable { wide, ..PageTable::plain(caption, table, reading) }), below]
}
