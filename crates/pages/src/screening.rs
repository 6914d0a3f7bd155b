//! The page of a screening: the effect of each option, the largest first.

use answers::{ScreenedCell, ScreenedOption};
use text::prose::counted;
use text::quantity::signed;
use text::table::{Align, Table};

use crate::page::{Block, Page, PageKind, PageTable, Section};

/// How far the effects can be trusted.
const METHOD: &str = "The intervals hold for all options together at 99 %. What two options do only together is not \
                      seen, and counts towards others: measure the options that matter in all combinations.";

/// The page of what options do in each cell of a record.
pub fn screening(title: &str, options: &[ScreenedOption], cells: &[ScreenedCell]) -> Page {
    let mut page = Page::new(title, PageKind::Screening);
    for cell in cells {
        let answer = answer(options, cell);
        let is_only = cells.len() == 1;
        page.answers.push(if is_only { answer } else { format!("{}: {answer}", cell.title) });
        let heading = format!("{}: {}, {}", cell.title, cell.metric, counted(cell.runs, "run"));
        page.sections.extend(table(options, cell).map(|table| {
            let table = PageTable::plain(&heading, table, &[]);
            Section::open(&cell.title, vec![Block::Table(table)])
        }));
    }
    if !page.sections.is_empty() {
        page.method.push(METHOD.to_string());
    }
    page
}

/// "1 of 2 options has an effect on wall_s", or why nothing is known.
fn answer(options: &[ScreenedOption], cell: &ScreenedCell) -> String {
    match &cell.effects {
        Some(effects) => {
            let shown = effects.iter().filter(|effect| effect.is_shown()).count();
            let has = if shown == 1 { "has" } else { "have" };
            let all = counted(options.len(), "option");
            format!("{shown} of {all} {has} an effect on {}", cell.metric)
        }
        None if cell.runs == 0 => "no run finished".to_string(),
        None => "too few runs finished: every setting needs two (--blocks)".to_string(),
    }
}

fn table(options: &[ScreenedOption], cell: &ScreenedCell) -> Option<Table> {
    let mut table = Table::new([
        ("option", Align::Left),
        ("from", Align::Left),
        ("to", Align::Left),
        ("change", Align::Right),
        ("interval", Align::Left),
        ("verdict", Align::Left),
    ]);
    let mut rows: Vec<_> = options.iter().zip(cell.effects.as_ref()?).collect();
    rows.sort_by(|a, b| b.1.size.abs().total_cmp(&a.1.size.abs()));
    let percent = |log: f64| signed(100.0 * log.exp_m1(), 2);
    for (option, effect) in rows {
        let [first, second] = &option.values;
        let (low, high) = (effect.size - effect.half, effect.size + effect.half);
        table.row(vec![
            option.key.clone(),
            first.clone(),
            second.clone(),
            percent(effect.size) + " %",
            format!("[{}, {}]", percent(low), percent(high)),
            if effect.is_shown() { "has an effect" } else { "no effect shown" }.to_string(),
        ]);
    }
    Some(table)
}
