//! The page of a replay: what the report said, what the simulation gives, and on what that rests.

use anyhow::Result;
use host::terminal::hint;
use pages::{Block, Page, PageKind, PageTable, Section};
use reports::value_panel;
use studies::replays::{self, Figure, Grade, GradedTarget, Replay};
use text::prose::counted;
use text::table::{Align, Table};

use crate::replay::find_all;
use crate::replay::tables::{self, InputLine};

/// Random draws of what is known as a range, as `knee simulate replay` takes by default.
const DRAWS: u64 = 20;
const SEED: u64 = 1;

/// The page of an incident or a publication.
pub fn page(name: &str, yes: bool) -> Result<Page> {
    let incident = find_all(&[name.to_string()], yes)?[0];
    hint(format_args!("replaying {}: {} …", incident.name, incident.title));
    let replay = replays::replay(incident, DRAWS, SEED)?;
    let mut facts: Vec<(String, String)> = Vec::new();
    for (index, source) in incident.sources.iter().enumerate() {
        facts.push((if index == 0 { "sources" } else { "" }.to_string(), source.to_string()));
    }
    facts.push(("hosts".to_string(), incident.hosts.join(", ")));
    Ok(Page {
        title: format!("{}  {}", incident.name, incident.title),
        kind: PageKind::Replay,
        is_growing: false,
        answers: vec![answer(&replay.rows)],
        counts: Vec::new(),
        sections: sections(&replay),
        method: vec![tables::basis(&replay, DRAWS)],
        doubts: vec![(
            "What the model lacks".to_string(),
            incident.limitations.iter().map(|one| one.to_string()).collect(),
        )],
        facts,
        again: vec![format!("knee simulate replay {}", incident.name)],
    })
}

/// "The simulation gets the direction of 3 of 4 reported figures right: …".
fn answer(rows: &[GradedTarget]) -> String {
    let (fitted, tested): (Vec<&GradedTarget>, Vec<&GradedTarget>) =
        rows.iter().partition(|row| row.grade == Grade::Fitted);
    let missed: Vec<&&GradedTarget> =
        tested.iter().filter(|row| row.grade == Grade::NotPredicted).collect();
    let right = tested.len() - missed.len();
    let mut answer = format!(
        "The simulation gets the direction of {right} of {} right",
        counted(tested.len(), "reported figure")
    );
    let mut grades: Vec<(&str, usize)> = Vec::new();
    for row in tested.iter().filter(|row| row.grade != Grade::NotPredicted) {
        match grades.iter_mut().find(|(known, _)| *known == row.grade.name()) {
            Some((_, n)) => *n += 1,
            None => grades.push((row.grade.name(), 1)),
        }
    }
    let grades: Vec<String> = grades.iter().map(|(name, n)| format!("{name} {n}")).collect();
    if !grades.is_empty() {
        answer += &format!(" (by grade: {})", grades.join(", "));
    }
    let open = missed.iter().filter(|row| row.is_open()).count();
    if open > 0 {
        answer += &format!("; why {open} of the others differ is open");
    }
    if !fitted.is_empty() {
        answer += &format!("; {} more was fitted, so it is no prediction", fitted.len());
    }
    answer
}

fn sections(replay: &Replay) -> Vec<Section> {
    let reading = pages::reading::REPLAY;
    let targets = PageTable::plain("Reported and predicted", tables::table(&replay.rows), reading);
    let mut blocks = vec![Block::Table(targets)];
    blocks.extend(
        tables::sides(&replay.rows).map(|table| {
            Block::Table(PageTable::plain("Both sides of each ratio", table, reading))
        }),
    );
    let mut sections = vec![Section::open("Targets", blocks)];
    if let Some(figure) = &replay.figure {
        let table = PageTable::plain(&figure.title, tables::figure_table(figure), reading);
        // Numbers of rows are no quantity to draw over.
        let curves = (figure.columns[0] != "row").then(|| Block::Curves(curves(figure)));
        let blocks = curves.into_iter().chain([Block::Table(table)]).collect();
        sections.push(Section::open("Figure", blocks));
    }
    let mut table = Table::new([("origin", Align::Left), ("input", Align::Left)]);
    for InputLine { origin, text, chosen_late } in tables::input_lines(replay) {
        let late = chosen_late.map(|late| format!("; chosen late: {late}")).unwrap_or_default();
        table.row(vec![origin.to_string(), text + &late]);
    }
    let inputs = PageTable::plain("What was put in", table, pages::reading::INPUTS);
    let blocks = vec![Block::Table(inputs)];
    sections.push(Section { is_open: false, ..Section::open("Inputs", blocks) });
    sections
}

/// The figure as curves over its first column.
fn curves(figure: &Figure) -> reports::CurvePanel {
    let line = |(column, name): (usize, &String)| {
        let values = figure.rows.iter().map(|row| (row[0] as u32, row[column + 1], None));
        (name.clone(), values.collect())
    };
    let lines = figure.columns.iter().skip(1).enumerate().map(line);
    value_panel(&figure.title, &figure.columns[0], lines.collect())
}
