//! The check of watched lines as a page.

use bisection::watch::selfcheck::{WatchCheck, WatchRow};
use pages::{Page, PageKind, Section};
use text::table::{Align, Table};

use super::verdicts::plain;

/// The page of a check of watched lines.
pub fn page(check: &WatchCheck) -> Page {
    let WatchCheck { trials, seed, points, rows } = check;
    let method = format!(
        "{trials} simulated lines of {points} points with 5 runs for each number, seed {seed}; runs spread by 3 %, and a build \
         shows 100 ± 4 % of what the host does. Exact: what is said once all points are there is what was planted. At once: the \
         newest change is found at its first point, with this many runs of comparisons more. Wrong: something else is called \
         a change. Runs: of all points with those of the anchor beside them, and of all comparisons. knee runs each point beside an anchor, and says \
         what all evidence and a comparison of today show; the others see the means of absolute values: E-divisive with Student's \
         t as Otava's documentation describes it, and a threshold against the point before."
    );
    let of = |layout: f64| -> Vec<&WatchRow> {
        rows.iter().filter(|row| row.layout == layout).collect()
    };
    let mut layouts: Vec<f64> = rows.iter().map(|row| row.layout).collect();
    layouts.dedup();
    let section = |layout: f64| {
        let title = if layout == 0.0 {
            "Builds of equal speed run equally, in %".to_string()
        } else {
            format!(
                "Builds of equal speed differ by {} %, and so do their layouts, in %",
                100.0 * layout
            )
        };
        Section::open(&title, vec![plain(table(&of(layout)))])
    };
    Page {
        answers: layouts.iter().map(|layout| answer(&of(*layout), *layout)).collect(),
        sections: layouts.iter().map(|layout| section(*layout)).collect(),
        method: vec![method],
        ..Page::new("watched lines and rules of other tools, by simulation", PageKind::Check)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// "knee watch: a false alarm in 0.0 % of the lines without a change; a change of 5 % found at its first point in 98.0 % with 27
/// more runs".
fn answer(rows: &[&WatchRow], layout: f64) -> String {
    let ours = || rows.iter().filter(|row| row.rule == "knee watch");
    let wrong = ours().next().map_or(0.0, |row| row.wrong);
    let newest = ours().find(|row| row.at_once.is_some());
    let at_once = newest.and_then(|row| row.at_once).unwrap_or(0.0);
    let more = newest.and_then(|row| row.more_runs).unwrap_or(0.0);
    format!(
        "knee watch, where builds differ by {} %: a false alarm in {} % of the lines without a change; a change of 5 % found at its \
         first point in {} %, with {more:.0} runs more.",
        100.0 * layout,
        percent(wrong),
        percent(at_once)
    )
}

fn table(rows: &[&WatchRow]) -> Table {
    let mut table = Table::new([
        ("line", Align::Left),
        ("rule", Align::Left),
        ("exact", Align::Right),
        ("at once", Align::Right),
        ("more runs", Align::Right),
        ("wrong", Align::Right),
        ("runs", Align::Right),
    ]);
    let mut before = "";
    for row in rows {
        let about = if before == row.about { "" } else { &row.about };
        before = &row.about;
        let runs = |runs: f64| format!("{runs:.0}");
        table.row(vec![
            about.to_string(),
            row.rule.clone(),
            percent(row.exact),
            row.at_once.map(percent).unwrap_or_default(),
            row.more_runs.map(runs).unwrap_or_default(),
            percent(row.wrong),
            runs(row.runs + row.compared_runs),
        ]);
    }
    table
}
