//! The self-check of bisections as a page: how often each rule finds the culprit, in how many runs and builds.

use bisection::selfcheck::{BisectCheck, Row, ScreeningRow, SeriesRow};
use pages::{Page, PageKind, Section};
use text::quantity::short;
use text::table::{Align, Table};

use super::verdicts::plain;

/// The page of a self-check of bisections.
pub fn page(check: &BisectCheck) -> Page {
    let BisectCheck { trials, seed, .. } = check;
    let intro = format!(
        "Searches of simulated ranges, whose culprit is known: {trials} for each row, seed {seed}; 1000 commits unless \
         said. `5 % at 3 %` is a change of 5 % where runs of one build spread by 3 % (standard deviation); `builds 1 %` \
         is the spread between builds that differ by nothing that matters. Right: the culprit or both culprits, or NOT \
         REPRODUCED where there is none. Wrong: an innocent commit is named. Set: several commits with a culprit among \
         them. None: no answer, or a set without one. In 3: a culprit is among the three most probable commits of the \
         answer. Runs and builds are means of the search, with those of the ends. Compared: mean runs beside those, of a \
         commit and its parent before it is blamed, as they are and in four other layouts (80 runs of 8 builds); a commit \
         that these refute is not blamed, and the search goes on."
    );
    let mut sections = Vec::new();
    let mut add = |title: &str, is_checked: bool, table: Table| {
        sections.extend(is_checked.then(|| Section::open(title, vec![plain(table)])));
    };
    let BisectCheck { rows, series, screenings, choice_ms, .. } = check;
    add("One change, in % of the searches", !rows.is_empty(), self::rows(rows));
    let several = "Several changes along 200 commits: a grid of 33, then refined";
    add(several, !series.is_empty(), self::series(series));
    let options = "Options without an order: a screening of 12 in 16 settings";
    add(options, !screenings.is_empty(), self::screenings(screenings));
    let choice = choice_ms.map(|ms| {
        format!("longest choice of a next test in five searches of 10 000 commits: {ms:.1} ms")
    });
    Page {
        answers: choice.into_iter().collect(),
        sections,
        method: vec![intro],
        ..Page::new("bisections of simulated ranges", PageKind::Check)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn rows(rows: &[Row]) -> Table {
    let mut table = Table::new([
        ("range", Align::Left),
        ("rule", Align::Left),
        ("right", Align::Right),
        ("wrong", Align::Right),
        ("set", Align::Right),
        ("of", Align::Right),
        ("none", Align::Right),
        ("in 3", Align::Right),
        ("runs", Align::Right),
        ("at most", Align::Right),
        ("compared", Align::Right),
        ("forecast", Align::Right),
        ("builds", Align::Right),
    ]);
    let mut before = "";
    for row in rows {
        let about = if before == row.about { "" } else { &row.about };
        before = &row.about;
        table.row(vec![
            about.to_string(),
            row.rule.name(),
            percent(row.right),
            percent(row.wrong),
            percent(row.set),
            row.set_size.map_or(String::new(), short),
            percent(row.other),
            percent(row.in_three),
            format!("{:.0}", row.runs),
            row.runs_max.to_string(),
            row.compared.map_or(String::new(), |runs| format!("{runs:.0}")),
            row.forecast.map_or(String::new(), |runs| format!("{runs:.0}")),
            format!("{:.1}", row.builds),
        ]);
    }
    table
}

fn series(rows: &[SeriesRow]) -> Table {
    let mut table = Table::new([
        ("changes", Align::Left),
        ("exactly these %", Align::Right),
        ("others too %", Align::Right),
        ("runs", Align::Right),
        ("builds", Align::Right),
    ]);
    for row in rows {
        table.row(vec![
            row.about.clone(),
            percent(row.exact),
            percent(row.wrong),
            format!("{:.0}", row.runs),
            format!("{:.1}", row.builds),
        ]);
    }
    table
}

fn screenings(rows: &[ScreeningRow]) -> Table {
    let mut table = Table::new([
        ("options", Align::Left),
        ("right %", Align::Right),
        ("runs", Align::Right),
        ("at most", Align::Right),
    ]);
    for row in rows {
        table.row(vec![
            row.about.clone(),
            percent(row.right),
            format!("{:.0}", row.runs),
            row.runs_max.to_string(),
        ]);
    }
    table
}
