//! Matching: which points of several arms are compared with each other. Within a record the
//! plan says it; between records it is the points at the same place.

use std::collections::BTreeSet;

use records::{Opened, Point};

use crate::compare::Arm;

/// For each cell that all arms have, its point in each.
pub(crate) fn cells<'a>(
    arms: &[Arm<'a>],
    force: bool,
) -> Result<Vec<Vec<(&'a Opened, usize)>>, String> {
    let first = arms[0].record;
    match arms.iter().all(|arm| std::ptr::eq(arm.record, first)) {
        true => Ok(by_number(arms)),
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

fn by_place<'a>(arms: &[Arm<'a>], force: bool) -> Result<Vec<Vec<(&'a Opened, usize)>>, String> {
    let mut cells = Vec::new();
    let mut obstacle = None;
    for (base, base_point) in points_of(&arms[0]) {
        let mut cell = vec![(arms[0].record, base)];
        for arm in &arms[1..] {
            let differing = |(index, point)| (index, differs(base_point, point, force));
            let mut tried: Vec<_> = points_of(arm).map(differing).collect();
            match tried.iter().find(|(_, why)| why.is_none()) {
                Some((index, _)) => cell.push((arm.record, *index)),
                // The reason of the point that comes nearest.
                None => obstacle = obstacle.max(tried.drain(..).filter_map(|(_, why)| why).max()),
            }
        }
        if cell.len() == arms.len() {
            cells.push(cell);
        }
    }
    match (cells.is_empty(), obstacle) {
        (false, _) => Ok(cells),
        (true, Some((_, why))) => Err(format!("no point is in all of them: {why}")),
        (true, None) => Err("one of them has no points".to_string()),
    }
}

fn points_of<'a>(arm: &Arm<'a>) -> impl Iterator<Item = (usize, &'a Point)> {
    let variant = arm.variant;
    let points = arm.record.record.points.iter().enumerate();
    points.filter(move |(_, point)| point.variant == variant)
}

/// Why two points of different records are not at the same place, and how near they come.
fn differs(a: &Point, b: &Point, force: bool) -> Option<(u32, String)> {
    if a.workload != b.workload {
        return Some((0, format!("the workloads are {} and {}", a.workload, b.workload)));
    }
    let sizes = |p: &Point| (p.cpus, p.tasks, p.form, p.placement, p.pass);
    if sizes(a) != sizes(b) {
        let text = |p: &Point| {
            format!("{} {} on {} CPUs ({})", p.tasks, p.form.name(), p.cpus, p.placement)
        };
        return Some((1, format!("{} has {} and {}", a.workload, text(a), text(b))));
    }
    if a.until != b.until {
        return Some((2, format!("runs of {} have other lengths", a.workload)));
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
