//! The points of a command: its parameters and axes, with every placeholder known before
//! anything runs.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, ensure};
use host::Placement;
use records::{Axes, Command, Form, Load, Many, Pass, Point, Scalar, Until};

use crate::commands;
use crate::points::{Usable, combinations, dirs, product, sizes, too_many, values};

/// The points of a load that is this command.
pub fn points(
    command: &Command,
    load: &Load,
    axes: &Axes,
    usable: &Usable,
    image: bool,
    points_max: usize,
) -> Result<Vec<Point>> {
    ensure!(
        values(&axes.forms, Form::Processes).contains(&Form::Processes),
        "{} is a program and runs only as processes",
        command.name
    );
    let own = command.parameters.clone().into_iter();
    let parameters: BTreeMap<String, Many<Scalar>> = own.chain(load.parameters.clone()).collect();
    commands::check(command, parameters.keys(), image)?;
    for metric in &command.metrics {
        metric.check_pattern().map_err(|why| anyhow!("the metric {}: {why}", metric.name))?;
    }
    let axes = of_command(command, axes);
    let placements = values(&axes.placement, Placement::default())
        .into_iter()
        .map(|placement| Ok((placement, sizes(&axes, usable, placement, points_max)?)))
        .collect::<Result<Vec<_>>>()?;
    let dirs = dirs(&axes, usable)?;
    let mut points = Vec::new();
    for parameters in combinations(&parameters, points_max)? {
        for (dir, (placement, sizes)) in product(&dirs, &placements) {
            for (cpu_list, tasks) in sizes {
                points.push(Point {
                    workload: command.name.clone(),
                    semantics: 0,
                    parameters: parameters.clone(),
                    form: Form::Processes,
                    cpus: cpu_list.len() as u32,
                    placement: *placement,
                    cpu_list: cpu_list.clone(),
                    tasks: *tasks,
                    until: Until::End,
                    pass: Pass::Rate,
                    dir: dir.clone(),
                    variant: String::new(),
                    cell: None,
                    command: Some(command.run.text()),
                    other: BTreeMap::new(),
                });
                ensure!(points.len() <= points_max, too_many(points_max));
            }
        }
    }
    Ok(points)
}

/// Axes as they matter for a command: an ordinary program has the whole host unless told
/// otherwise, and tasks are only a number that its line may mention.
fn of_command(command: &Command, axes: &Axes) -> Axes {
    let all = || Many(vec![Scalar("all".to_string())]);
    let mentioned = commands::uses(command).contains("tasks");
    Axes {
        cpus: axes.cpus.clone().or_else(|| Some(all())),
        tasks: axes.tasks.clone().filter(|_| mentioned),
        tasks_per_cpu: axes.tasks_per_cpu.clone().filter(|_| mentioned),
        ..axes.clone()
    }
}
