//! Matching: which points of several arms are compared with each other. Within a record, the
//! experiment's cells say it; between records, points match if they measured the same thing at
//! the same size.

use std::collections::BTreeSet;

use records::{Opened, Point};

use super::arm::Arm;

/// The points of one cell, one for each arm: record, and index of the point in it.
type CellPoints<'a> = Vec<(&'a Opened, usize)>;

/// The points that are compared with each other.
pub(super) struct Matched<'a> {
    /// The cells that all arms have.
    pub cells: Vec<CellPoints<'a>>,
    /// Points of the baseline that some arm lacks, in words.
    pub left_out: Vec<String>,
}

/// For each cell that all arms have, its point in each arm. With `force`, points match even if
/// their operations or parameters differ.
pub fn match_points<'a>(arms: &[Arm<'a>], force: bool) -> Result<Vec<CellPoints<'a>>, String> {
    match_cells(arms, force).map(|matched| matched.cells)
}

/// Finds the cells that all arms have. With `force`, points match even if their operations or
/// parameters differ.
pub(super) fn match_cells<'a>(arms: &[Arm<'a>], force: bool) -> Result<Matched<'a>, String> {
    let baseline = arms[0].record;
    // A record of one arm has no variants, so its plan has no cells.
    if arms.len() > 1 && arms.iter().all(|arm| std::ptr::eq(arm.record, baseline)) {
        Ok(Matched { cells: by_cell_number(arms), left_out: Vec::new() })
    } else {
        by_likeness(arms, force)
    }
}

fn by_cell_number<'a>(arms: &[Arm<'a>]) -> Vec<CellPoints<'a>> {
    let record = arms[0].record;
    let points = &record.record.points;
    let numbers: BTreeSet<u32> = points.iter().filter_map(|point| point.cell).collect();
    let find = |cell: u32, arm: &Arm| {
        points.iter().position(|p| p.cell == Some(cell) && p.variant == arm.variant)
    };
    let cell =
        |cell: u32| arms.iter().map(|arm| Some((record, find(cell, arm)?))).collect::<Option<_>>();
    numbers.into_iter().filter_map(cell).collect()
}

fn by_likeness<'a>(arms: &[Arm<'a>], force: bool) -> Result<Matched<'a>, String> {
    let baseline: Vec<(usize, &Point)> = points_of(&arms[0]).collect();
    let mut obstacles = Vec::new();
    let partners: Vec<Vec<Option<usize>>> = arms[1..]
        .iter()
        .map(|arm| partners(&baseline, &arms[0], arm, force, &mut obstacles))
        .collect();
    let mut matched = Matched { cells: Vec::new(), left_out: Vec::new() };
    for (number, (index, point)) in baseline.iter().enumerate() {
        let others = arms[1..].iter().zip(&partners);
        let others = others.map(|(arm, partners)| Some((arm.record, partners[number]?)));
        match others.collect::<Option<Vec<_>>>() {
            Some(others) => {
                matched.cells.push([vec![(arms[0].record, *index)], others].concat());
            }
            None => matched.left_out.push(size(point)),
        }
    }
    if !matched.cells.is_empty() {
        return Ok(matched);
    }
    Err(match obstacles.into_iter().max() {
        Some((_, why)) => format!("the records have no point in common: {why}"),
        None => "one of the records has no points".to_string(),
    })
}

/// For each point of the baseline its partner in another arm: the most alike first, none twice.
/// Adds to `obstacles` why points do not match.
fn partners(
    base: &[(usize, &Point)],
    baseline: &Arm,
    arm: &Arm,
    force: bool,
    obstacles: &mut Vec<(u32, String)>,
) -> Vec<Option<usize>> {
    // One directory on each side is what is compared; of several, each has its own partner.
    let one_directory =
        |arm: &Arm| points_of(arm).map(|(_, point)| &point.dir).collect::<BTreeSet<_>>().len() == 1;
    let any_directory = one_directory(baseline) && one_directory(arm);
    let mut candidates: Vec<(usize, usize, usize)> = Vec::new();
    for (number, (_, a)) in base.iter().enumerate() {
        for (index, b) in points_of(arm) {
            match obstacle(a, b, any_directory, force) {
                Some(obstacle) => obstacles.push(obstacle),
                None => candidates.push((distance(a, b), number, index)),
            }
        }
    }
    candidates.sort();
    let mut partners = vec![None; base.len()];
    for (_, number, index) in candidates {
        if partners[number].is_none() && !partners.contains(&Some(index)) {
            partners[number] = Some(index);
        }
    }
    partners
}

/// In how many things two points differ that may differ.
fn distance(a: &Point, b: &Point) -> usize {
    let names: BTreeSet<&String> = a.parameters.keys().chain(b.parameters.keys()).collect();
    let differing =
        names.into_iter().filter(|name| a.parameters.get(*name) != b.parameters.get(*name));
    differing.count() + usize::from(a.semantics != b.semantics) + usize::from(a.dir != b.dir)
}

/// "brk, 4 processes on 2 CPUs (cores)".
fn size(point: &Point) -> String {
    let Point { workload, tasks, cpus, placement, .. } = point;
    let (tasks, cpus) = (point.form.counted(*tasks), host::counted(*cpus as usize, "CPU"));
    format!("{workload}, {tasks} on {cpus} ({placement})")
}

fn points_of<'a>(arm: &Arm<'a>) -> impl Iterator<Item = (usize, &'a Point)> {
    let variant = arm.variant;
    let points = arm.record.record.points.iter().enumerate();
    points.filter(move |(_, point)| point.variant == variant)
}

/// Why two points of different records cannot be compared, after how near they come: the
/// obstacle with the largest number is the one to report. `any_directory`: whether points in
/// different directories may match.
fn obstacle(a: &Point, b: &Point, any_directory: bool, force: bool) -> Option<(u32, String)> {
    if a.workload != b.workload {
        return Some((0, format!("the workloads are {} and {}", a.workload, b.workload)));
    }
    let sizes = |p: &Point| (p.cpus, p.tasks, p.form, p.placement, p.pass);
    if sizes(a) != sizes(b) {
        return Some((1, format!("one has {}, the other {}", size(a), size(b))));
    }
    if a.until != b.until {
        return Some((2, format!("runs of {} differ in length", a.workload)));
    }
    if a.dir != b.dir && !any_directory {
        let why = format!(
            "{} ran in {} and in {}: with several directories, each is compared only with itself",
            a.workload,
            a.dir.display(),
            b.dir.display()
        );
        return Some((3, why));
    }
    if force { None } else { obstacle_without_force(a, b) }
}

/// Why points that match in size cannot be compared, unless the user forces it.
fn obstacle_without_force(a: &Point, b: &Point) -> Option<(u32, String)> {
    const ANYWAY: &str = "--force compares them anyway";
    if a.semantics != b.semantics {
        let why = format!(
            "an operation of {} is not the same in versions {} and {}; {ANYWAY}",
            a.workload, a.semantics, b.semantics
        );
        return Some((3, why));
    }
    if a.command != b.command {
        let text = |p: &Point| p.command.clone().unwrap_or_else(|| "knee's own".to_string());
        let why = format!("{} runs '{}' and '{}'; {ANYWAY}", a.workload, text(a), text(b));
        return Some((3, why));
    }
    let names: BTreeSet<&String> = a.parameters.keys().chain(b.parameters.keys()).collect();
    let value = |p: &Point, name: &String| p.parameters.get(name).cloned();
    let name = names.into_iter().find(|name| value(a, name) != value(b, name))?;
    let text = |p: &Point| value(p, name).unwrap_or_else(|| "unknown".to_string());
    let why =
        format!("parameter {name} of {} is {} and {}; {ANYWAY}", a.workload, text(a), text(b));
    Some((4, why))
}
