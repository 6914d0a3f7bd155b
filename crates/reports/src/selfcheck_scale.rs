//! The self-check of curves as text: how often intervals of knees and quantities contain the truth, how often cliffs are
//! found, and how far forecasts reach.

use laws::selfcheck::{CliffRow, ForecastRow, KneeRow, QuantityRow, ScaleCheck};

use crate::Style;
use crate::prose::wrapped;
use crate::quantity::short;
use crate::table::{Align, Table};

/// All tables.
pub fn selfcheck_scale(check: &ScaleCheck, style: &Style) -> String {
    let ScaleCheck { trials, seed, .. } = check;
    let intro = format!(
        "Answers about simulated curves, whose truth is known: {trials} curves for each number, seed {seed}. \
         Knees and quantities: 1 to 64 CPUs, 5 runs, noise of a run 3 %. Cliffs: noise 2 %. Forecasts: from 1 to \
         8 CPUs, 5 runs, noise 2 %."
    );
    let heading = |text: &str| format!("\n{}\n\n", style.bold(text));
    wrapped(&intro, style.width, 0)
        + &heading("Knees: how often the 90 % interval contains the truth")
        + &knees(&check.knees, style)
        + &heading("Quantities of a lock that is slower with its queue")
        + &quantities(&check.quantities, style)
        + &heading("Cliffs")
        + &cliffs(&check.cliffs, style)
        + &heading("Forecasts from 8 CPUs within 20 % of the truth, in % of the curves")
        + &forecasts(&check.forecasts, style)
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn knees(rows: &[KneeRow], style: &Style) -> String {
    let mut table = Table::new([
        ("curve", Align::Left),
        ("inside %", Align::Right),
        ("a law fits %", Align::Right),
        ("high / low", Align::Right),
    ]);
    for row in rows {
        let law = if row.follows_a_law { "" } else { ", no law" };
        table.row(vec![
            format!("{}{law}", row.kind.about()),
            percent(row.inside),
            percent(row.fitted),
            row.width.map_or("-".to_string(), short),
        ]);
    }
    table.within(style.width).0
}

fn quantities(rows: &[QuantityRow], style: &Style) -> String {
    let mut table = Table::new([("quantity", Align::Left), ("inside %", Align::Right)]);
    for row in rows {
        table.row(vec![row.name.to_string(), percent(row.inside)]);
    }
    table.within(style.width).0
}

fn cliffs(rows: &[CliffRow], style: &Style) -> String {
    let mut table =
        Table::new([("curve", Align::Left), ("found %", Align::Right), ("", Align::Left)]);
    for row in rows {
        let wrongly = if row.is_smooth { "wrongly" } else { "" };
        table.row(vec![row.what.clone(), percent(row.found), wrongly.to_string()]);
    }
    table.within(style.width).0
}

fn forecasts(rows: &[ForecastRow], style: &Style) -> String {
    let mut table = Table::new([
        ("from", Align::Left),
        ("16 CPUs", Align::Right),
        ("32 CPUs", Align::Right),
        ("64 CPUs", Align::Right),
        ("knee", Align::Right),
    ]);
    for row in rows {
        table.row([row.from.to_string()].into_iter().chain(row.within.map(percent)).collect());
    }
    table.within(style.width).0
}
