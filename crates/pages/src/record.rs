//! The page of a record in which nothing is compared: its curves and what they say.

use records::Opened;
use reports::{DoseReport, FormPart, MissingSources, RecordPart, doubt_lists, facts, record_parts};

use crate::page::{Block, MEASURED, Page, PageTable, Section};
use crate::reading;

/// The page of a record.
pub fn record(opened: &Opened) -> Page {
    let parts = record_parts(opened);
    let sentences = parts.iter().flat_map(|part| answers(part, parts.len() > 1));
    let mut answers: Vec<String> = sentences.collect();
    let all = answers.len();
    answers.truncate(ANSWERS_MAX);
    if all > ANSWERS_MAX {
        answers.push(format!("{} more loads are below", all - ANSWERS_MAX));
    }
    if answers.is_empty() {
        answers.push(without_curves(opened));
    }
    let (mut known, mut again) = (Vec::new(), Vec::new());
    for (label, text) in facts(opened).into_iter().filter(|(_, text)| !text.is_empty()) {
        if label == "rerun" {
            again.push(text);
        } else {
            known.push((label.to_string(), text));
        }
    }
    let doubts = doubt_lists(opened, MissingSources::OfTables);
    let doubts = doubts.into_iter().filter(|(_, sentences)| !sentences.is_empty());
    let is_open = parts.len() <= OPEN_MAX;
    Page {
        title: opened.record.experiment.name.clone(),
        kind: MEASURED,
        answers,
        counts: Vec::new(),
        sections: parts
            .into_iter()
            .map(|part| section(part, is_open))
            .chain(dosed(opened))
            .collect(),
        method: vec![METHOD.to_string()],
        doubts: doubts.map(|(title, sentences)| (title.to_string(), sentences)).collect(),
        facts: known,
        again,
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
fn dosed(opened: &Opened) -> Option<Section> {
    let reports = reports::doses(&analysis::curves(opened));
    let parts = reports.iter().map(DoseReport::part);
    let block = |FormPart { title, table, sentences }: FormPart| {
        [Block::Table(PageTable::plain(&title, table, reading::DOSES)), Block::Text(sentences)]
    };
    let blocks: Vec<Block> = parts.flat_map(block).collect();
    let title = "What doses of time say".to_string();
    (!blocks.is_empty()).then_some(Section { title, is_open: true, blocks })
}

fn section(part: RecordPart, is_open: bool) -> Section {
    let RecordPart { title, forms, panels } = part;
    let mut blocks: Vec<Block> =
        panels.into_iter().filter(|panel| panel.is_curve()).map(Block::Curves).collect();
    for FormPart { title, table, sentences } in forms {
        let is_latency = table.columns().iter().any(|(heading, _)| heading == "p99");
        let reading = if is_latency { reading::LATENCIES } else { reading::RATES };
        blocks.push(Block::Table(PageTable::plain(&title, table, reading)));
        blocks.push(Block::Text(sentences));
    }
    Section { title, is_open, blocks }
}
