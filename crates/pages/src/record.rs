//! The page of a record in which nothing is compared: its curves and what they say.

use answers::DoseReport;
use records::{Opened, RecordState};
use reports::{
    FormPart, MissingSources, RecordPart, dose_part, dose_sentence, doubt_lists, facts,
    record_parts,
};

use text::prose::counted;

use crate::page::{Block, Page, PageKind, PageTable, Section, Wide};
use crate::reading;

/// The page of a record: by these metrics, or without any the usual columns. `again` is the command that shows it.
pub fn record(opened: &Opened, metrics: &[String], again: &str) -> Page {
    let parts = record_parts(opened, metrics);
    let doses = answers::doses(&analysis::curves(opened));
    let mut answers: Vec<String> = doses.iter().filter_map(dose_sentence).collect();
    answers.extend(parts.iter().flat_map(|part| self::answers(part, parts.len() > 1)));
    if answers.is_empty() {
        // Of several metrics the first decides.
        let firsts = parts.iter().filter_map(|part| part.forms.first());
        answers.extend(firsts.filter_map(only_value));
        answers.push(without_curves(opened));
    }
    let all = answers.len();
    answers.truncate(ANSWERS_MAX);
    if all > ANSWERS_MAX {
        answers.push(format!("{} more are below", counted(all - ANSWERS_MAX, "answer")));
    }
    answers.extend(unfinished(opened));
    let (mut known, mut commands) = (Vec::new(), vec![again.to_string()]);
    for (label, text) in facts(opened).into_iter().filter(|(_, text)| !text.is_empty()) {
        if label == "rerun" {
            commands.push(text);
        } else {
            known.push((label.to_string(), text));
        }
    }
    let doubts = doubt_lists(opened, MissingSources::OfTables);
    let doubts = doubts.into_iter().filter(|(_, sentences)| !sentences.is_empty());
    let is_open = parts.len() <= OPEN_MAX;
    Page {
        title: opened.record.experiment.name.clone(),
        kind: PageKind::Measurement,
        is_growing: opened.record.state == RecordState::Growing,
        answers,
        counts: Vec::new(),
        sections: dosed(doses)
            .into_iter()
            .chain(parts.into_iter().map(|part| section(part, is_open)))
            .collect(),
        method: vec![METHOD.to_string()],
        doubts: doubts.map(|(title, sentences)| (title.to_string(), sentences)).collect(),
        facts: known,
        again: commands,
    }
}

/// Loads whose answer stands at the top.
const ANSWERS_MAX: usize = 5;

/// Loads that are all shown at once; of more, the reader opens those of interest.
const OPEN_MAX: usize = 8;

const METHOD: &str = "how: the rate is the operations of all tasks over the wall time from one release to the \
                      last task's stop; each run has fresh tasks, and means and deviations are over runs";

fn without_curves(opened: &Opened) -> String {
    if opened.runs.iter().any(|run| run.finished()) {
        return "Measured at one CPU count: there is no curve".to_string();
    }
    "No run finished: there is nothing to show".to_string()
}

/// The value of a table with one row: "lock_mcs, processes: 1 200 000 operations/s, standard deviation 3000,
/// n = 5".
fn only_value(form: &FormPart) -> Option<String> {
    let [row] = form.table.rows() else { return None };
    let cells: Vec<(&str, &str)> = form
        .table
        .columns()
        .iter()
        .zip(row)
        .map(|((heading, _), cell)| (heading.lines().next().unwrap_or_default(), cell.trim()))
        .collect();
    let cell =
        |name: &str| cells.iter().find(|(heading, _)| *heading == name).map(|(_, cell)| *cell);
    let n = cells.iter().position(|(heading, _)| *heading == "n")?;
    let (metric, value) = cells.get(n + 1).filter(|(_, value)| *value != "-")?;
    let title = form.title.split(": ").next().unwrap_or_default();
    let deviation = cell("stddev").filter(|deviation| *deviation != "-");
    let deviation = deviation.map(|one| format!(", standard deviation {one}")).unwrap_or_default();
    Some(format!("{title}: {value} {metric}{deviation}, n = {}", cells[n].1))
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
fn dosed(reports: Vec<DoseReport>) -> Option<Section> {
    let parts = reports.iter().map(dose_part);
    let block = |FormPart { title, table, sentences }: FormPart| {
        [Block::Table(PageTable::plain(&title, table, reading::DOSES)), Block::Text(sentences)]
    };
    let blocks: Vec<Block> = parts.flat_map(block).collect();
    (!blocks.is_empty()).then(|| Section::open("What doses of time say", blocks))
}

fn section(part: RecordPart, is_open: bool) -> Section {
    let RecordPart { title, setting, forms, panels } = part;
    let mut blocks: Vec<Block> =
        panels.into_iter().filter(|panel| panel.is_curve()).map(Block::Curves).collect();
    for FormPart { title, table, sentences } in forms {
        let has = |name: &str| table.columns().iter().any(|(heading, _)| heading == name);
        let is_of_rates = !has("p99") && !has("median");
        let reading = match () {
            _ if is_of_rates => reading::RATES,
            _ if has("p99") => reading::LATENCIES,
            _ => reading::METRIC,
        };
        let wide = if is_of_rates { Wide::FirstColumns } else { Wide::Stacked };
        let table = PageTable { wide, ..PageTable::plain(&title, table, reading) };
        blocks.extend([Block::Table(table), Block::Text(sentences)]);
    }
    Section { title, load: setting, is_open, is_summary: false, blocks }
}
