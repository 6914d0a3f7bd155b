//! The page of a plan: how many runs, how long they take, how small a change they can show, and what they would start.

use reports::{EFFECTS, NO_EFFECTS, Plan, PlanPart, plan_part};

use crate::page::{Block, Page, PageKind, PageTable, Section, Wide};
use crate::reading;

/// The page of what would be run.
pub fn plan(plan: &Plan) -> Page {
    let PlanPart { answers, points, power, effects, warnings, facts } = plan_part(plan);
    let mut page = Page::new(&plan.record.experiment.name, PageKind::Plan);
    page.answers = answers;
    let table = PageTable::plain("", points, reading::PLAN);
    let table = Block::Table(PageTable { wide: Wide::FirstColumns, ..table });
    let effects = match &effects[..] {
        [] => Block::Text(vec![NO_EFFECTS.to_string()]),
        _ => Block::Folded(EFFECTS, effects),
    };
    page.sections = vec![
        Section::open("Points", vec![table, Block::Text(power)]),
        Section::open("", vec![effects]),
    ];
    page.warnings = vec![("Warnings".to_string(), warnings)];
    page.warnings.retain(|(_, sentences)| !sentences.is_empty());
    page.facts = facts.into_iter().map(|(label, text)| (label.to_string(), text)).collect();
    page
}
