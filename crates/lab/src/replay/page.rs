//! The page of a replay: what the report said, what the simulation gives, and on what that rests.

use std::sync::Arc;

use anyhow::Result;
use host::terminal::hint;
use pages::{Block, Page, PageKind, PageTable, Section};
use reports::value_panel;
use studies::replays::{self, Figure, Grade, GradedTarget, Incident, Replay};
use text::prose::counted;
use text::table::{Align, Table};

use super::find_all;
use super::tables::{self, InputLine};

/// Random draws of what is known as a range, as `knee simulate replay` takes by default.
const DRAWS: u64 = 20;
const SEED: u64 = 1;

/// The page of the incident or publication of this name.
pub fn named(name: &str, yes: bool) -> Result<Page> {
    let incident = &find_all(&[name.to_string()], yes)?[0];
    hint(format_args!("replaying {}: {} …", incident.name, incident.title));
    Ok(page(&replays::replay(incident, DRAWS, SEED)?, DRAWS))
}

/// The page that lists incidents and publications.
pub fn list(listed: &[Arc<Incident>]) -> Page {
    let mut table = Table::new(["", ""].map(|heading| (heading, Align::Left)));
    listed.iter().for_each(|one| table.row(vec![one.name.clone(), one.title.clone()]));
    let table = Block::Table(PageTable::of_prose(table));
    let sections = vec![Section::open("Incidents and publications", vec![table])];
    Page { sections, ..Page::new("what can be replayed", PageKind::List) }
}

/// The page of several replays: how many predictions have which grade, then each replay.
pub fn pages(replays: &[Replay], draws: u64) -> Page {
    if let [replay] = replays {
        return page(replay, draws);
    }
    let mut all = Page {
        answers: vec![tables::summary(replays)],
        ..Page::new(&counted(replays.len(), "incident"), PageKind::Replay)
    };
    for replay in replays {
        let (mut one, name) = (page(replay, draws), &replay.incident.name);
        for text in one.answers.iter_mut().chain(&mut one.method) {
            *text = format!("{name}: {text}");
        }
        one.sections
            .iter_mut()
            .for_each(|section| section.title = format!("{name}: {}", section.title));
        one.warnings.iter_mut().for_each(|(title, _)| *title = format!("{name}: {title}"));
        one.facts.insert(0, (name.clone(), replay.incident.title.clone()));
        all = all.and(one);
    }
    all
}

/// The page of a replay.
fn page(replay: &Replay, draws: u64) -> Page {
    let incident = &replay.incident;
    let mut facts: Vec<(String, String)> = Vec::new();
    for (index, source) in incident.sources.iter().enumerate() {
        facts.push((if index == 0 { "sources" } else { "" }.to_string(), source.clone()));
    }
    facts.push(("hosts".to_string(), incident.hosts.join(", ")));
    Page {
        answers: vec![answer(&replay.rows)],
        sections: sections(replay),
        method: vec![tables::basis(replay, draws)],
        warnings: vec![("What the model lacks".to_string(), incident.limitations.clone())],
        facts,
        again: vec![format!("knee simulate replay {}", incident.name)],
        ..Page::new(&format!("{}  {}", incident.name, incident.title), PageKind::Replay)
    }
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
    if let Some(dared) = tables::dared(tested.iter().copied()) {
        answer += &format!("; {dared}");
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
    let targets = PageTable::plain("", tables::table(&replay.rows), reading);
    let mut blocks = vec![Block::Table(targets)];
    blocks.extend(
        tables::sides(&replay.rows).map(|table| {
            Block::Table(PageTable::plain("Both sides of each ratio", table, reading))
        }),
    );
    let moved_by = tables::moved_by(&replay.rows);
    blocks.extend(moved_by.map(|table| {
        let title = "What moves each prediction most, alone from its lowest to its highest value";
        Block::Table(PageTable::plain(title, table, reading))
    }));
    let mut sections = vec![Section::open("Reported and predicted", blocks)];
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
    let reading = pages::reading::INPUTS;
    let inputs = PageTable { reading, ..PageTable::of_prose(table) };
    let blocks = vec![Block::Table(inputs)];
    sections.push(Section { is_open: false, ..Section::open("What was put in", blocks) });
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

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use studies::replays::{incidents, replay};
    use text::Style;

    use super::*;

    #[test]
    fn a_replay_is_the_same_on_every_computer() {
        let all = incidents();
        let incident = all.iter().find(|one| one.name == "I4").unwrap();
        let replay = replay(incident, 2, 1).unwrap();
        expect![[r#"
            Replay, simulated: I4  write faults on three file systems, 160 processes
            The simulation gets the direction of 2 of 3 reported figures right (by grade: quantitative 2); with
              the model's error 0 of 2 directions dared, 0 of these right; why 1 of the others differ is open

            Reported and predicted
                                                                                with the
            target                         reported             predicted  model's error  direction
            more time in spinlocks on xfs     0.125  0.131 (0.108..0.242)              -  -
            faults/s, xfs / ext4              0.875  0.882 (0.777..0.909)    0.215..3.28  cannot tell
            faults/s, ext4 / ext3               0.8      1.6 (1.44..2.17)    0.398..7.83  cannot tell

            target                         grade
            more time in spinlocks on xfs  quantitative
            faults/s, xfs / ext4           quantitative
            faults/s, ext4 / ext3          not predicted, open

            Both sides of each ratio
            ns from one operation to the next  simulated
            faults/s, xfs / ext4               52.1 / 46
            faults/s, ext4 / ext3              46 / 73.6

            Figure
            faults/s, over those of one task on ext4
            tasks   ext3    ext4    xfs
                1   1.00    1.00   1.00
               10  10.02   10.03  10.03
               20  19.81   20.05  19.98
               40  37.82   40.12  39.34
               60  52.77   59.97  57.70
               80  67.31   79.78  74.62
              120  72.76   93.70  86.98
              160  66.98  107.25  94.63

            What was put in
            origin   input
            found    tasks: 160 (the report)
            assumed  tick: 1..4 ms (1000, 300 or 250 ticks a second in kernels of that time)
            assumed  work of a fault: 3000..8000 ns (a fault that finds a page in the cache and marks it dirty,
                     through a file system)
            assumed  work under the lock: 50..200 ns (one to a few hundred instructions besides the list)

            What the model lacks
            - a file's time stamp changes with the tick, for all tasks at once: each tick all 160 come to the
              lock of the list. How long a tick was is not reported
            - ext3 and ext4 differ by the lengths of their code paths, which the model does not have. It has the
              locks of their journals, which make ext3 slower

            simulated on westmere-ex-8s: 26 numbers found, 0 measured, 31 assumed as ranges, 0 fitted; in
              brackets the lowest and highest of 3 draws of all ranges

            sources     D. Hansen, page fault scalability (ext3, ext4, xfs), 2013-08-14
            hosts       westmere-ex-8s
            rerun       knee simulate replay I4
        "#]].assert_eq(&pages::terminal(&page(&replay, 2), Style::PLAIN));
    }
}
