//! What a bisection may take, before anything is built.

use answers::{BisectionPlan, as_json};
use anyhow::Result;
use bisection::Forecast;
use bisector::{Range, Request};
use host::counted;
use text::Style;
use text::table::{Align, Table};

/// Sizes of a change in standard deviations of a run.
const DISTANCES: [f64; 5] = [4.0, 2.0, 1.0, 0.5, 0.25];

/// The plan as text or JSON.
pub fn plan(range: &Range, request: &Request, is_json: bool, style: &Style) -> Result<String> {
    let changes = range.changes();
    let forecasts =
        DISTANCES.map(|distance| Forecast::new(changes, distance, request.settings.runs_min));
    if is_json {
        return as_json(&BisectionPlan {
            commits: changes,
            good: range.commits[0].id.clone(),
            bad: range.commits[changes].id.clone(),
            forecasts: forecasts.to_vec(),
        });
    }
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
    let head = format!(
        "{} from {} to {}. First both ends are built and measured in turn: at least 8 runs, at most {}; \
         without a difference it ends there. Then, on average, with the runs of the ends:\n\n",
        counted(changes, "candidate"),
        range.commits[0].short(),
        range.commits[changes].short(),
        2 * request.settings.ends_runs_max
    );
    let head = text::prose::wrapped(&head, style.width, 0);
    Ok(format!("{head}\n{}", table.within(style.width).0))
}
