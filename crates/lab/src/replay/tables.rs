//! A replayed incident, as tables and sentences: what was put in, what was predicted, and what is wrong with that.

use described_hosts::Origin;
use studies::replays::{
    Dares, Figure, Grade, GradedTarget, Input, Interval, MovingInput, Provenance, Replay, Reported,
    SimulatedSide,
};
use text::quantity::short;
use text::table::{Align, Table};

/// How many predictions of several replays have which grade.
pub fn summary(replays: &[Replay]) -> String {
    let rows = replays.iter().flat_map(|replay| &replay.rows).map(|row| row.grade);
    let grades: Vec<Grade> = rows.filter(|grade| *grade != Grade::Fitted).collect();
    let count = |of: &[Grade]| grades.iter().filter(|grade| of.contains(grade)).count();
    let each =
        [Grade::Quantitative, Grade::NoChange, Grade::Order, Grade::Direction, Grade::NotPredicted];
    let each = each.map(|grade| format!("{} {}", count(&[grade]), grade.name()));
    let strict = count(&[Grade::Quantitative, Grade::NoChange]);
    let in_direction = grades.len() - count(&[Grade::NotPredicted]);
    let percent = |part: usize| 100.0 * part as f64 / grades.len().max(1) as f64;
    let dared = dared(replays.iter().flat_map(|replay| &replay.rows));
    let dared = dared.map(|dared| format!("; {dared}")).unwrap_or_default();
    format!(
        "{} predictions: {}; the direction is right in {in_direction} ({:.0} %), the size by the strict rule \
         (quantitative or no change) in {strict} ({:.0} %){dared}",
        grades.len(),
        each.join(", "),
        percent(in_direction),
        percent(strict)
    )
}

/// What a replay rests on, in a sentence.
pub fn basis(replay: &Replay, draws: u64) -> String {
    let Replay { incident, provenance, .. } = replay;
    let Provenance { found, measured, assumed } = provenance;
    let (fitted, anew) = match replay.fitted {
        Some(_) => (1, ", refitted for each"),
        None => (0, ""),
    };
    format!(
        "simulated on {}: {found} numbers found, {measured} measured, {assumed} assumed as ranges, \
         {fitted} fitted; in brackets the lowest and highest of {} draws of all ranges{anew}",
        incident.hosts.join(" and "),
        draws + 1
    )
}

/// What was put into a replay.
pub struct InputLine {
    /// `found`, `measured`, `assumed` or `fitted`.
    pub origin: &'static str,
    /// The name, the value, and where it is from.
    pub text: String,
    /// When and why it was chosen, if that was after results had been seen.
    pub chosen_late: Option<&'static str>,
}

/// All inputs of a replay.
pub fn input_lines(replay: &Replay) -> Vec<InputLine> {
    let line = |input: &Input| {
        let (origin, why) = match &input.number.origin {
            Origin::Found(source) => ("found", source),
            Origin::Measured(at, _) => ("measured", at),
            Origin::Assumed(why) => ("assumed", why),
        };
        let text = format!("{}: {} ({why})", input.name, input.number.text);
        InputLine { origin, text, chosen_late: input.chosen_late }
    };
    let fitted = replay.incident.fitted.as_ref().zip(replay.fitted).map(|(fitted, value)| {
        let text = format!("{}: {} (to {})", fitted.name, interval(value), fitted.to);
        InputLine { origin: "fitted", text, chosen_late: None }
    });
    replay.inputs.iter().map(line).chain(fitted).collect()
}

/// What was reported and predicted.
pub fn table(rows: &[GradedTarget]) -> Table {
    // Null models can say something of few, and not each class has other tables.
    let has_null_models =
        rows.iter().any(|row| row.nulls.usl.is_some() || row.nulls.queueing.is_some());
    let has_widened = rows.iter().any(|row| row.widened.is_some());
    let columns = [
        ("target", Align::Left, true),
        ("reported", Align::Right, true),
        ("predicted", Align::Right, true),
        ("with the\nmodel's error", Align::Right, has_widened),
        ("direction", Align::Left, has_widened),
        ("grade", Align::Left, true),
        ("USL", Align::Right, has_null_models),
        ("queueing", Align::Right, has_null_models),
    ];
    let mut table = Table::new(
        columns.iter().filter(|(.., shown)| *shown).map(|(name, align, _)| (*name, *align)),
    );
    for row in rows {
        let null = |null: Option<f64>| null.map_or("-".to_string(), digits);
        let marks = [(row.is_open(), ", open"), (row.target.in_a_test, ", in a test")];
        let marks = marks.into_iter().filter(|(applies, _)| *applies).map(|(_, mark)| mark);
        let cells = [
            row.target.what.to_string(),
            match row.target.reported {
                Reported::Ratio(value) | Reported::Share(value) => digits(value),
                Reported::Less => "less".to_string(),
                Reported::More => "more".to_string(),
            },
            interval(row.predicted),
            row.widened.map_or("-".to_string(), |widened| {
                format!("{}..{}", digits(widened.low), digits(widened.high))
            }),
            row.dares.map_or("-", Dares::name).to_string(),
            row.grade.name().to_string() + &marks.collect::<String>(),
            null(row.nulls.usl),
            null(row.nulls.queueing),
        ];
        let shown = cells.into_iter().zip(&columns).filter(|(_, (.., shown))| *shown);
        table.row(shown.map(|(cell, _)| cell).collect());
    }
    table
}

/// The inputs that move each prediction most; `None` if that was not asked for.
pub fn moved_by(rows: &[GradedTarget]) -> Option<Table> {
    let columns = [
        ("target", Align::Left),
        ("input", Align::Left),
        ("lowest", Align::Right),
        ("highest", Align::Right),
    ];
    let mut table = Table::new(columns);
    for row in rows {
        for MovingInput { name, at_low, at_high } in &row.moved_by {
            let what = row.target.what.to_string();
            table.row(vec![what, name.clone(), digits(*at_low), digits(*at_high)]);
        }
    }
    rows.iter().any(|row| !row.moved_by.is_empty()).then_some(table)
}

/// "8 of 10 directions dared, 8 of them right"; `None` if no target has a direction.
pub fn dared<'a>(rows: impl Iterator<Item = &'a GradedTarget>) -> Option<String> {
    let predicted = rows.filter(|row| row.grade != Grade::Fitted);
    let all: Vec<Dares> = predicted.filter_map(|row| row.dares).collect();
    let dared = all.iter().filter(|dares| **dares != Dares::CannotTell).count();
    let right = all.iter().filter(|dares| **dares == Dares::Right).count();
    let text = || {
        format!(
            "with the model's error {dared} of {} directions dared, {right} of these right",
            all.len()
        )
    };
    (!all.is_empty()).then(text)
}

/// Both sides of each ratio: the time and the sleeps of an operation. `None` if no target is a ratio of rates.
pub fn sides(rows: &[GradedTarget]) -> Option<Table> {
    let slept = |side: &SimulatedSide| side.sleeps >= 0.005;
    let both = |[of, over]: [f64; 2]| format!("{} / {}", digits(of), digits(over));
    let with_sides = || rows.iter().filter_map(|row| Some((&row.target, row.sides?)));
    let has_sleeps = with_sides().any(|(_, sides)| sides.iter().any(slept));
    let has_reported = with_sides().any(|(target, _)| target.reported_ns.is_some());
    let columns = [
        ("ns from one operation to the next", Align::Left, true),
        ("reported", Align::Right, has_reported),
        ("simulated", Align::Right, true),
        ("sleeps of each", Align::Right, has_sleeps),
    ];
    let mut table = Table::new(
        columns.iter().filter(|(.., shown)| *shown).map(|(name, align, _)| (*name, *align)),
    );
    for (target, sides) in with_sides() {
        let cells = [
            target.what.to_string(),
            target.reported_ns.map_or("-".to_string(), both),
            both(sides.map(|side| side.ns)),
            both(sides.map(|side| side.sleeps)),
        ];
        let shown = cells.into_iter().zip(&columns).filter(|(_, (.., shown))| *shown);
        table.row(shown.map(|(cell, _)| cell).collect());
    }
    with_sides().next().is_some().then_some(table)
}

fn interval(interval: Interval) -> String {
    let Interval { middle, low, high } = interval;
    format!("{} ({}..{})", digits(middle), digits(low), digits(high))
}

/// Three digits without an exponent down to 0.001, since readers compare 0.0063 with 0.0058.
fn digits(value: f64) -> String {
    match value.abs() {
        tiny if tiny > 0.0 && tiny < 0.001 => format!("{value:.5}"),
        _ => short(value),
    }
}

/// The figure of an incident, as numbers.
pub fn figure_table(figure: &Figure) -> Table {
    let mut table = Table::new(figure.columns.iter().map(|column| (column.as_str(), Align::Right)));
    for row in &figure.rows {
        let value = |(index, value): (usize, &f64)| match index {
            0 => short(*value),
            _ => format!("{value:.2}"),
        };
        table.row(row.iter().enumerate().map(value).collect());
    }
    table
}
