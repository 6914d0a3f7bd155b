//! A replayed incident, as text: what was put in, what was predicted, and what is wrong with that.

use super::Style;
use super::prose::wrapped;
use super::quantity::short;
use super::table::{Align, Table};
use crate::hosts::Origin;
use crate::replays::{Figure, Graded, Interval, Provenance, Replay, Reported};

/// One incident.
pub fn replayed(replay: &Replay, draws: u64, style: Style) -> String {
    let Replay { incident, provenance, rows, .. } = replay;
    let mut text = style.bold(&format!("{}  {}", incident.name, incident.title)) + "\n";
    for source in incident.sources {
        text += &wrapped(&format!("    {source}"), style.width, 6);
    }
    text += "\n";
    text += &inputs(replay, style);
    text += "\n";
    text += &table(rows, style);
    if let Some(figure) = &replay.figure {
        text += &format!("\n{}\n", figure.title);
        text += &figure_table(figure).within(style.width).0;
    }
    let Provenance { found, measured, assumed } = provenance;
    let (fitted, anew) = match replay.fitted {
        Some(_) => (1, ", each fitted anew"),
        None => (0, ""),
    };
    let basis = format!(
        "simulated on {}: {found} numbers found, {measured} measured, {assumed} assumed as ranges, \
         {fitted} fitted; in brackets the lowest and highest of {} draws of all ranges{anew}",
        incident.hosts.join(" and "),
        draws + 1
    );
    text += "\n";
    text += &wrapped(&basis, style.width, 2);
    for lack in incident.lacks {
        text += &wrapped(&format!("- {lack}"), style.width, 2);
    }
    text
}

fn inputs(replay: &Replay, style: Style) -> String {
    let mut text = String::new();
    for input in &replay.inputs {
        let (origin, why) = match &input.number.origin {
            Origin::Found(source) => ("found", source),
            Origin::Measured(at) => ("measured", at),
            Origin::Assumed(why) => ("assumed", why),
        };
        let line = format!("{:8}  {}: {} ({why})", origin, input.name, input.number.text);
        text += &wrapped(&line, style.width, 10);
    }
    if let (Some(fitted), Some(value)) = (&replay.incident.fitted, replay.fitted) {
        let value = interval(value);
        let line = format!("fitted    {}: {value} (to {})", fitted.name, fitted.to);
        text += &wrapped(&line, style.width, 10);
    }
    text
}

fn table(rows: &[Graded], style: Style) -> String {
    let columns = [
        ("target", Align::Left),
        ("reported", Align::Right),
        ("predicted", Align::Right),
        ("grade", Align::Left),
        ("USL", Align::Right),
        ("queueing", Align::Right),
    ];
    // Null models can say something of few.
    let some = rows.iter().any(|row| row.nulls.usl.is_some() || row.nulls.queueing.is_some());
    let shown = if some { 6 } else { 4 };
    let mut table = Table::new(columns[..shown].iter().copied());
    for row in rows {
        let null = |null: Option<f64>| null.map_or("-".to_string(), digits);
        let grade = match row.is_open() {
            true => format!("{}, open", row.grade.name()),
            false => row.grade.name().to_string(),
        };
        let cells = vec![
            row.target.what.to_string(),
            match row.target.reported {
                Reported::Ratio(value) | Reported::Share(value) => digits(value),
                Reported::Less => "less".to_string(),
                Reported::More => "more".to_string(),
            },
            interval(row.predicted),
            grade,
            null(row.nulls.usl),
            null(row.nulls.queueing),
        ];
        table.row(cells.into_iter().take(shown).collect());
    }
    table.within(style.width).0
}

fn interval(interval: Interval) -> String {
    let Interval { middle, low, high } = interval;
    format!("{} ({}..{})", digits(middle), digits(low), digits(high))
}

/// Three digits, also of what is small: a ratio of 0.0063 is no 6.3e-3 to who compares.
fn digits(value: f64) -> String {
    match value.abs() {
        tiny if tiny > 0.0 && tiny < 0.001 => format!("{value:.5}"),
        _ => short(value),
    }
}

fn figure_table(figure: &Figure) -> Table {
    let mut table = Table::new(figure.columns.iter().map(|column| (*column, Align::Right)));
    for row in &figure.rows {
        let value = |(index, value): (usize, &f64)| match index {
            0 => short(*value),
            _ => format!("{value:.2}"),
        };
        table.row(row.iter().enumerate().map(value).collect());
    }
    table
}
