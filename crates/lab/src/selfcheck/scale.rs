//! The self-check of curves as a page: how often intervals of knees and quantities contain the truth, how often cliffs are
//! found, and how far forecasts reach.

use laws::selfcheck::{
    CliffRow, ForecastRow, KneeRow, QuantityRow, ScaleCheck, SearchCheck, SingleRunCheck,
    ThresholdCheck,
};
use pages::{Block, Page, PageKind, Section};
use text::quantity::short;
use text::table::{Align, Table};

use super::verdicts::plain;

/// The page of a self-check of curves.
pub fn page(check: &ScaleCheck) -> Page {
    let ScaleCheck { trials, seed, .. } = check;
    let intro = format!(
        "Answers about simulated curves, whose truth is known: {trials} curves for each number, seed {seed}. \
         Knees and quantities: 1 to 64 CPUs, 5 runs, noise of a run 3 %. Cliffs: noise 2 %. Forecasts: from 1 to \
         8 CPUs, 5 runs, noise 2 %."
    );
    let parts = [
        (
            "Knees: how often the 90 % interval contains the truth",
            present(&check.knees).map(|rows| vec![plain(knees(rows))]),
        ),
        (
            "Quantities of a lock that is slower with its queue",
            present(&check.quantities).map(|rows| vec![plain(quantities(rows))]),
        ),
        ("Cliffs", present(&check.cliffs).map(|rows| vec![plain(cliffs(rows))])),
        (
            "Forecasts from 8 CPUs within 20 % of the truth, in % of the curves",
            present(&check.forecasts).map(|rows| vec![plain(forecasts(rows))]),
        ),
        (
            "Forecasts of held-out points from curves whose points ran once",
            check.single_runs.as_ref().map(|one| vec![plain(single_runs(one))]),
        ),
        (
            "Searches (--cpus adaptive), until the knee is as well known as by half of 7 sweeps of 1 to 64 CPUs",
            check.searches.as_ref().map(searches),
        ),
        (
            "Verdicts about locks with two states (knee compare fragile), in % of the locks",
            check.thresholds.as_ref().map(thresholds),
        ),
    ];
    let section = |(title, blocks): (&str, Option<Vec<Block>>)| Some(Section::open(title, blocks?));
    Page {
        sections: parts.into_iter().filter_map(section).collect(),
        method: vec![intro],
        ..Page::new("knees, laws, cliffs and forecasts of simulated curves", PageKind::Check)
    }
}

/// The rows of a part that was checked.
fn present<T>(rows: &[T]) -> Option<&[T]> {
    (!rows.is_empty()).then_some(rows)
}

fn percent(share: f64) -> String {
    if share.is_nan() { "-".to_string() } else { format!("{:.1}", 100.0 * share) }
}

fn knees(rows: &[KneeRow]) -> Table {
    let mut table = Table::new([
        ("curve", Align::Left),
        ("inside %", Align::Right),
        ("a law fits %", Align::Right),
        ("high / low", Align::Right),
    ]);
    for row in rows {
        let law = if row.follows_a_law { "" } else { ", no law" };
        table.row(vec![
            format!("{}{law}", row.what),
            percent(row.inside),
            percent(row.fitted),
            row.width.map_or("-".to_string(), short),
        ]);
    }
    table
}

fn quantities(rows: &[QuantityRow]) -> Table {
    let mut table = Table::new([("quantity", Align::Left), ("inside %", Align::Right)]);
    for row in rows {
        table.row(vec![row.name.clone(), percent(row.inside)]);
    }
    table
}

fn cliffs(rows: &[CliffRow]) -> Table {
    let mut table = Table::new([
        ("curve", Align::Left),
        ("found %", Align::Right),
        ("a smooth law explains %", Align::Right),
    ]);
    for row in rows {
        let [found, smoothly] = if row.is_smooth {
            [format!("{} wrongly", percent(row.found)), "-".to_string()]
        } else {
            [row.found, row.explained_smoothly].map(percent)
        };
        table.row(vec![row.what.clone(), found, smoothly]);
    }
    table
}

fn forecasts(rows: &[ForecastRow]) -> Table {
    let mut table = Table::new([
        ("from", Align::Left),
        ("16 CPUs", Align::Right),
        ("32 CPUs", Align::Right),
        ("64 CPUs", Align::Right),
        ("knee", Align::Right),
    ]);
    for row in rows {
        table.row([row.from.clone()].into_iter().chain(row.within.map(percent)).collect());
    }
    table
}

fn single_runs(check: &SingleRunCheck) -> Table {
    let mut table = Table::new([("figure", Align::Left), ("", Align::Right)]);
    let mut row = |name: &str, value: String| table.row(vec![name.to_string(), value]);
    row("curves", check.curves.to_string());
    row("of these refused, since no law comes near", check.refused.to_string());
    row("held-out points", check.points.to_string());
    row("inside the 90 % interval, %", percent(check.inside));
    row("off by, mean, %", percent(check.off));
    row("universal law by least squares: off by, %", percent(check.off_universal));
    row("as the last point: off by, %", percent(check.off_last));
    table
}

fn searches(check: &SearchCheck) -> Vec<Block> {
    let mut table = Table::new([
        ("figure", Align::Left),
        ("search", Align::Right),
        ("all counts", Align::Right),
    ]);
    let (median, most) = check.runs;
    let runs = |share: f64| format!("{:.0}", share * f64::from(check.sweep_runs));
    let all = check.sweep_runs.to_string();
    let mut row = |name: &str, search: String, sweep: String| {
        table.row(vec![name.to_string(), search, sweep]);
    };
    row("runs, median", runs(median), all.clone());
    row("runs, of 90 % of the curves at most", runs(most), all);
    row("knee in its interval, %", percent(check.inside.0), percent(check.inside.1));
    row("knee off by, %, median", short(check.off_percent.0), short(check.off_percent.1));
    let sentence = format!(
        "of {} curves of all kinds, {} % need at most half of the runs",
        check.curves,
        percent(check.within_half)
    );
    vec![plain(table), Block::Text(vec![sentence])]
}

fn thresholds(check: &ThresholdCheck) -> Vec<Block> {
    let mut table = Table::new([
        ("truly", Align::Left),
        ("locks", Align::Right),
        ("fragile", Align::Right),
        ("sensitive", Align::Right),
        ("robust", Align::Right),
        ("cannot tell", Align::Right),
        ("mean flips", Align::Right),
    ]);
    for row in &check.rows {
        let called = [row.fragile, row.sensitive, row.robust, row.cannot_tell, row.flips];
        let start = [row.what.clone(), row.locks.to_string()];
        table.row(start.into_iter().chain(called.map(percent)).collect());
    }
    let sentence = format!(
        "two modes: seen in {} % of the locks that have them in two or more of ten runs, and in {} % of \
         those that do not",
        percent(check.modes_found),
        percent(check.modes_wrongly)
    );
    vec![plain(table), Block::Text(vec![sentence])]
}
