//! The matrix of pairs: which operations contend when they run beside each other.

use answers::{ConflictPair, PairObjects};
use text::prose::counted;
use text::table::{Align, Table};

use super::{times, what};
use crate::page::{Block, Matrix, MatrixCell, Page, PageTable, Section, Wide};

/// Pairs with fewer transfers an operation contend for nothing.
const LEAST: f64 = 1.0 / 32.0;

/// From this many transfers on, their number is shown.
const ONE: f64 = 0.95;

/// Pairs that are listed; the answer as JSON has all.
const LISTED: usize = 20;

/// Lines that a cell names to a reader who points at it.
const NAMED: usize = 2;

const READING: &[&str] = &[
    "a number is the transfers of all lines that an operation of the pair needs at least, where many CPUs want them",
    ". no line is needed by both, * less than one transfer an operation, ? the pair did not run",
];

/// Adds the answer and the sections of each kernel's pairs, by what the operations have in common.
pub fn sections(page: &mut Page, pairs: &[ConflictPair]) {
    let mut groups: Vec<(&str, Option<PairObjects>)> = Vec::new();
    for pair in pairs {
        let group = (pair.on.as_str(), pair.objects);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for group in groups {
        let is_of = |pair: &&ConflictPair| (pair.on.as_str(), pair.objects) == group;
        let of_group: Vec<&ConflictPair> = pairs.iter().filter(is_of).collect();
        let named = place(group);
        page.answers.push(sentence(&named, &of_group));
        let blocks = vec![Block::Matrix(matrix(&of_group))];
        page.sections.push(Section::open(&format!("Pairs on {named}"), blocks));
        page.sections.extend(listed(&of_group, group.1));
        let failed = of_group.iter().filter_map(|pair| {
            Some(format!("{} beside {}: {}", pair.first, pair.second, pair.failure.as_ref()?))
        });
        let failed: Vec<String> = failed.collect();
        if !failed.is_empty() {
            page.warnings.push((format!("Pairs that did not run on {named}"), failed));
        }
    }
}

/// The kernel, and what the operations have in common.
fn place((kernel, objects): (&str, Option<PairObjects>)) -> String {
    format!("Linux {kernel}{}", objects.map_or(String::new(), |one| format!(", {}", in_words(one))))
}

fn in_words(objects: PairObjects) -> &'static str {
    match objects {
        PairObjects::Own => "files of their own",
        PairObjects::Directory => "files in one directory",
        PairObjects::File => "one file",
    }
}

fn is_contended(pair: &ConflictPair) -> bool {
    pair.transfers.is_some_and(|transfers| transfers >= LEAST)
}

fn sentence(place: &str, pairs: &[&ConflictPair]) -> String {
    let ran = pairs.iter().filter(|pair| pair.transfers.is_some()).count();
    let contended = pairs.iter().filter(|pair| is_contended(pair)).count();
    format!(
        "{place}: {contended} of {} contend for a line, {} for none",
        counted(ran, "pair"),
        ran - contended
    )
}

fn matrix(pairs: &[&ConflictPair]) -> Matrix {
    let mut names: Vec<&str> = Vec::new();
    for name in pairs.iter().flat_map(|pair| [&pair.first, &pair.second]) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut cells = vec![vec![MatrixCell::default(); names.len()]; names.len()];
    let place = |name: &str| names.iter().position(|one| *one == name).unwrap_or_default();
    for pair in pairs {
        let (first, second) = (place(&pair.first), place(&pair.second));
        cells[first][second] = cell(pair);
        cells[second][first] = cell(pair);
    }
    let names = names.into_iter().map(str::to_string).collect();
    Matrix { names, cells, reading: READING }
}

fn cell(pair: &ConflictPair) -> MatrixCell {
    let text = match pair.transfers {
        None => "?".to_string(),
        Some(transfers) if transfers < LEAST => ".".to_string(),
        Some(transfers) if transfers < ONE => "*".to_string(),
        Some(transfers) => format!("{transfers:.0}"),
    };
    let members = pair.lines.iter().take(NAMED).map(|line| line.member.as_str());
    let members = members.collect::<Vec<_>>().join(", ");
    let said = pair.failure.as_deref().unwrap_or(&members);
    let about = format!("{} beside {}: {said}", pair.first, pair.second);
    MatrixCell { value: pair.transfers, text, about }
}

/// The pairs that contend, the most contended first.
fn listed(pairs: &[&ConflictPair], objects: Option<PairObjects>) -> Option<Section> {
    let mut contended: Vec<&&ConflictPair> =
        pairs.iter().filter(|pair| is_contended(pair)).collect();
    contended.sort_by(|a, b| b.transfers.unwrap_or(0.0).total_cmp(&a.transfers.unwrap_or(0.0)));
    let mut table = Table::new([
        ("pair", Align::Left),
        ("transfers", Align::Right),
        ("lines", Align::Right),
        ("what", Align::Left),
        ("the most contended", Align::Left),
    ]);
    for pair in contended.iter().take(LISTED) {
        let Some(worst) = pair.lines.first() else { continue };
        table.row(vec![
            format!("{} + {}", pair.first, pair.second),
            times(pair.transfers.unwrap_or_default()),
            pair.lines.len().to_string(),
            what(worst.kind, worst.sharing).to_string(),
            worst.member.clone(),
        ]);
    }
    let mut blocks =
        vec![Block::Table(PageTable { wide: Wide::Prose, ..PageTable::plain("", table, &[]) })];
    if let Some(more) = contended.len().checked_sub(LISTED).filter(|more| *more > 0) {
        blocks.push(Block::Text(vec![format!("{} contend less", counted(more, "more pair"))]));
    }
    let title = match objects {
        None => "Pairs that contend".to_string(),
        Some(objects) => format!("Pairs that contend, {}", in_words(objects)),
    };
    (!contended.is_empty()).then(|| Section::open(&title, blocks))
}
