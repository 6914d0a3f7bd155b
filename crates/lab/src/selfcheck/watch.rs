//! The check of watched lines as a page.

use bisection::watch::selfcheck::{WatchCheck, WatchRow};
use pages::{Page, PageKind, Section};
use text::table::{Align, Table};

use super::verdicts::plain;

/// The page of a check of watched lines.
pub fn page(check: &WatchCheck) -> Page {
    let WatchCheck { trials, seed, points, rows } = check;
    let method = format!(
        "{trials} simulated lines of {points} points with 5 runs for each number, seed {seed}; runs spread by 3 %, builds and \
         layouts by 1 %, and a build shows 100 ± 4 % of what the host does. Exact: what is said once all points are there is what \
         was planted. At once: the newest change is found at its first point, with this many runs of comparisons more. \
         Wrong: something else is called a change. knee runs each point beside the one before it and an anchor, and says \
         what a comparison confirms; the others see the means of absolute values: E-divisive with Student's t as Otava's documentation describes it, and \
         a threshold against the point before."
    );
    Page {
        answers: vec![answer(rows)],
        sections: vec![Section::open("Lines, in %", vec![plain(table(rows))])],
        method: vec![method],
        ..Page::new("watched lines and rules of other tools, by simulation", PageKind::Check)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// "knee watch: 1.0 % of lines without a change have a false alarm, 5 % are found at the first point in 90.0 %".
fn answer(rows: &[WatchRow]) -> String {
    let mut ours = rows.iter().filter(|row| row.rule == "knee watch");
    let wrong = ours.next().map_or(0.0, |row| row.wrong);
    let at_once = ours.next().and_then(|row| row.at_once).unwrap_or(0.0);
    format!(
        "knee watch: a false alarm in {} % of the lines without a change; a change of 5 % found at its first point in {} %",
        percent(wrong),
        percent(at_once)
    )
}

fn table(rows: &[WatchRow]) -> Table {
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
