//! What a bisection may take, before anything is built.

use answers::BisectionPlan;
use anyhow::Result;
use bisection::Forecast;
use bisector::{Range, Request};
use host::counted;
use pages::{Block, Page, PageKind, PageTable, Section, ViewFlags};
use text::table::{Align, Table};

/// Sizes of a change in standard deviations of a run.
const DISTANCES: [f64; 5] = [4.0, 2.0, 1.0, 0.5, 0.25];

/// Prints the plan.
pub fn print(range: &Range, request: &Request, view: ViewFlags) -> Result<()> {
    let changes = range.changes();
    let forecasts =
        DISTANCES.map(|distance| Forecast::new(changes, distance, request.settings.runs_min));
    let plan = BisectionPlan {
        commits: changes,
        good: range.commits[0].id.clone(),
        bad: range.commits[changes].id.clone(),
        forecasts: forecasts.to_vec(),
    };
    view.print(|| Ok(&plan), || Ok(page(range, request, &plan.forecasts)))
}

fn page(range: &Range, request: &Request, forecasts: &[Forecast]) -> Page {
    let changes = range.changes();
    let mut table = Table::new([
        ("change / spread of a run", Align::Right),
        ("runs", Align::Right),
        ("builds", Align::Right),
    ]);
    for forecast in forecasts {
        table.row(vec![
            forecast.distance.to_string(),
            format!("{:.0}", forecast.runs),
            format!("{:.0}", forecast.builds),
        ]);
    }
    let (good, bad) = (range.commits[0].short(), range.commits[changes].short());
    let mut page = Page::new(&format!("{good}..{bad}"), PageKind::Bisection);
    page.answers.push(format!("{} from {good} to {bad}.", counted(changes, "candidate")));
    page.answers.push(format!(
        "First both ends are built and measured in turn: at least 8 runs, at most {}; without a difference it ends \
         there.",
        2 * request.settings.ends_runs_max
    ));
    let caption = "Then, on average, with the runs of the ends";
    let table = PageTable::plain(caption, table, &[]);
    page.sections.push(Section::open("Forecast", vec![Block::Table(table)]));
    page
}
