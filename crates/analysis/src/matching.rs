//! Matching: which points of several arms are compared with each other. Within a record the
//! plan says it; between records it is the points at the same place.

use std::collections::BTreeSet;

use records::{Opened, Point};

use crate::compare::Arm;

/// The points that are compared with each other.
pub(crate) struct Matched<'a> {
    /// For each cell that all arms have, its point in each.
    pub cells: Vec<Vec<(&'a Opened, usize)>>,
    /// Points of the baseline that some arm has not, in words.
    pub left_out: Vec<String>,
}

/// The points of each cell that all arms have, one of each arm; with `force`, also where
/// operations or parameters differ.
pub fn matched<'a>(arms: &[Arm<'a>], force: bool) -> Result<Vec<Vec<(&'a Opened, usize)>>, String> {
    cells(arms, force).map(|matched| matched.cells)
}

/// Finds the cells that all arms have; with `force`, also where operations or parameters
/// differ.
pub(crate) fn cells<'a>(arms: &[Arm<'a>], force: bool) -> Result<Matched<'a>, String> {
    let first = arms[0].record;
    // The points of one arm alone have no partners to be planned for.
    match arms.len() > 1 && arms.iter().all(|arm| std::ptr::eq(arm.record, first)) {
        true => Ok(Matched { cells: by_number(arms), left_out: Vec::new() }),
        false => by_place(arms, force),
    }
}

fn by_number<'a>(arms: &[Arm<'a>]) -> Vec<Vec<(&'a Opened, usize)>> {
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

fn by_place<'a>(arms: &[Arm<'a>], force: bool) -> Result<Matched<'a>, String> {
    let base: Vec<(usize, &Point)> = points_of(&arms[0]).collect();
    let mut obstacles = Vec::new();
    let partners: Vec<Vec<Option<usize>>> =
        arms[1..].iter().map(|arm| partners(&base, &arms[0], arm, force, &mut obstacles)).collect();
    let mut matched = Matched { cells: Vec::new(), left_out: Vec::new() };
    for (number, (index, point)) in base.iter().enumerate() {
        let others = arms[1..].iter().zip(&partners);
        let others = others.map(|(arm, partners)| Some((arm.record, partners[number]?)));
        match others.collect::<Option<Vec<_>>>() {
            Some(others) => {
                matched.cells.push([vec![(arms[0].record, *index)], others].concat());
            }
            None => matched.left_out.push(size(point)),
        }
    }
    match (matched.cells.is_empty(), obstacles.into_iter().max()) {
        (false, _) => Ok(matched),
        (true, Some((_, why))) => Err(format!("no point is in all of them: {why}")),
        (true, None) => Err("one of them has no points".to_string()),
    }
}

/// For each point of the baseline its partner in another arm: the nearest first, none twice.
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
            match differs(a, b, any_directory, force) {
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

/// How many things that may differ do.
fn distance(a: &Point, b: &Point) -> usize {
    let names: BTreeSet<&String> = a.parameters.keys().chain(b.parameters.keys()).collect();
    let differing =
        names.into_iter().filter(|name| a.parameters.get(*name) != b.parameters.get(*name));
    differing.count() + usize::from(a.semantics != b.semantics) + usize::from(a.dir != b.dir)
}

/// "brk, 4 processes on 2 CPUs (cores)".
fn size(point: &Point) -> String {
    let Point { workload, tasks, cpus, placement, .. } = point;
    format!("{workload}, {tasks} {} on {cpus} CPUs ({placement})", point.form.name())
}

fn points_of<'a>(arm: &Arm<'a>) -> impl Iterator<Item = (usize, &'a Point)> {
    let variant = arm.variant;
    let points = arm.record.record.points.iter().enumerate();
    points.filter(move |(_, point)| point.variant == variant)
}

/// Why two points of different records are not at the same place, and how near they come.
fn differs(a: &Point, b: &Point, any_directory: bool, force: bool) -> Option<(u32, String)> {
    if a.workload != b.workload {
        return Some((0, format!("the workloads are {} and {}", a.workload, b.workload)));
    }
    let sizes = |p: &Point| (p.cpus, p.tasks, p.form, p.placement, p.pass);
    if sizes(a) != sizes(b) {
        return Some((1, format!("one has {}, the other {}", size(a), size(b))));
    }
    if a.until != b.until {
        return Some((2, format!("runs of {} have other lengths", a.workload)));
    }
    if a.dir != b.dir && !any_directory {
        let why = format!(
            "{} is in {} and in {}: of several directories each is compared with itself",
            a.workload,
            a.dir.display(),
            b.dir.display()
        );
        return Some((3, why));
    }
    if force {
        return None;
    }
    if a.semantics != b.semantics {
        let versions = (a.semantics, b.semantics);
        return Some((
            3,
            format!(
                "an operation of {} is not the same in its versions {} and {}; --force compares \
                 all the same",
                a.workload, versions.0, versions.1
            ),
        ));
    }
    if a.command != b.command {
        let text = |p: &Point| p.command.clone().unwrap_or_else(|| "knee's own".to_string());
        return Some((
            3,
            format!(
                "{} runs '{}' and '{}'; --force compares all the same",
                a.workload,
                text(a),
                text(b)
            ),
        ));
    }
    let names: BTreeSet<&String> = a.parameters.keys().chain(b.parameters.keys()).collect();
    let value = |p: &Point, name: &String| p.parameters.get(name).cloned();
    let name = names.into_iter().find(|name| value(a, name) != value(b, name))?;
    let text = |p: &Point| value(p, name).unwrap_or_else(|| "not known".to_string());
    Some((
        4,
        format!(
            "parameter {name} of {} is {} and {}; --force compares all the same",
            a.workload,
            text(a),
            text(b)
        ),
    ))
}
