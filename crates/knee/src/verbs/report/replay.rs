//! The page of a replay: what the report said, what the simulation gives, and on what that rests.

use anyhow::Result;
use host::terminal::hint;
use pages::{Block, Page, PageTable, Section};
use reports::value_panel;
use studies::replays::{self, Figure, GradedTarget, Replay};
use text::Style;
use text::table::{Align, Table};

use crate::verbs::replay::{find, tables};

/// Random draws of what is known as a range, as `knee replay` takes by default.
const DRAWS: u64 = 20;
const SEED: u64 = 1;

const WIDE: Style = Style { width: 1 << 20, terminal: true, color: false };

/// The page of an incident or a publication.
pub fn page(name: &str) -> Result<Page> {
    let incident = find(&name.to_string())?;
    hint(format_args!("replaying {}: {} …", incident.name, incident.title));
    let replay = replays::replay(incident, DRAWS, SEED)?;
    let mut facts: Vec<(String, String)> = Vec::new();
    for (index, source) in incident.sources.iter().enumerate() {
        facts.push((if index == 0 { "sources" } else { "" }.to_string(), source.to_string()));
    }
    facts.push(("hosts".to_string(), incident.hosts.join(", ")));
    Ok(Page {
        title: format!("{}  {}", incident.name, incident.title),
        kind: "Replay, simulated",
        answers: vec![answer(&replay.rows)],
        counts: Vec::new(),
        sections: sections(&replay),
        method: vec![tables::basis(&replay, DRAWS)],
        doubts: vec![(
            "What the model lacks".to_string(),
            incident.limitations.iter().map(|one| one.to_string()).collect(),
        )],
        facts,
        again: vec![format!("knee replay {}", incident.name)],
    })
}

/// "Of 4 reported figures, 2 are predicted within …".
fn answer(rows: &[GradedTarget]) -> String {
    let mut grades: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        let name = row.grade.name();
        match grades.iter_mut().find(|(known, _)| *known == name) {
            Some((_, n)) => *n += 1,
            None => grades.push((name, 1)),
        }
    }
    let grades: Vec<String> = grades.iter().map(|(name, n)| format!("{name} {n}")).collect();
    let open = rows.iter().filter(|row| row.is_open()).count();
    let open = if open > 0 { format!("; {open} open") } else { String::new() };
    let targets = text::prose::counted(rows.len(), "reported figure");
    format!("Of {targets}, by grade of the prediction: {}{open}", grades.join(", "))
}

fn sections(replay: &Replay) -> Vec<Section> {
    let open = |title: &str, blocks| Section { title: title.to_string(), is_open: true, blocks };
    let reading = pages::reading::REPLAY;
    let targets = PageTable::plain("Reported and predicted", tables::table(&replay.rows), reading);
    let mut blocks = vec![Block::Table(targets)];
    blocks.extend(
        tables::sides(&replay.rows).map(|table| {
            Block::Table(PageTable::plain("Both sides of each ratio", table, reading))
        }),
    );
    let mut sections = vec![open("Targets", blocks)];
    if let Some(figure) = &replay.figure {
        let table = PageTable::plain(figure.title, tables::figure_table(figure), reading);
        // Numbers of rows are no quantity to draw over.
        let curves = (figure.columns[0] != "row").then(|| Block::Curves(curves(figure)));
        let blocks = curves.into_iter().chain([Block::Table(table)]).collect();
        sections.push(open("Figure", blocks));
    }
    let inputs: Vec<String> =
        tables::inputs(replay, WIDE).lines().map(|line| line.trim().to_string()).collect();
    let mut table = Table::new([("origin", Align::Left), ("input", Align::Left)]);
    for line in inputs {
        let (origin, input) = line.split_once("  ").unwrap_or(("", &line));
        table.row(vec![origin.to_string(), input.trim().to_string()]);
    }
    let inputs = PageTable::plain("What was put in", table, &[]);
    let blocks = vec![Block::Table(inputs)];
    sections.push(Section { title: "Inputs".to_string(), is_open: false, blocks });
    sections
}

/// The figure as curves over its first column.
fn curves(figure: &Figure) -> reports::CurvePanel {
    let line = |(column, name): (usize, &&str)| {
        let values = figure.rows.iter().map(|row| (row[0] as u32, row[column + 1], None));
        (name.to_string(), values.collect())
    };
    let lines = figure.columns.iter().skip(1).enumerate().map(line);
    value_panel(figure.title, figure.columns[0], lines.collect())
}
