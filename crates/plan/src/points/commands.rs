//! The points of a command: its parameters and axes. Every placeholder is checked before anything runs.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, ensure};
use host::Placement;
use records::{Axes, Command, Form, Load, Many, Pass, Point, Scalar, Until};

use super::{Usable, combinations, dirs, product, sizes, too_many, values};
use crate::commands;

/// The points of a load that means this command.
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
    let axes = axes_for_command(command, axes);
    let placements = values(&axes.placement, Placement::default())
        .into_iter()
        .map(|placement| Ok((placement, sizes(&axes, None, usable, placement, points_max)?)))
        .collect::<Result<Vec<_>>>()?;
    let dirs = dirs(&axes, None, usable)?;
    let mut points = Vec::new();
    let combinations = combinations(&parameters, points_max)?;
    let places = product(&dirs, &placements, points_max)?;
    for (parameters, (dir, (placement, sizes))) in product(&combinations, &places, points_max)? {
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
                dir: (*dir).clone(),
                variant: String::new(),
                cell: None,
                command: Some(command.run.text()),
                other: BTreeMap::new(),
            });
            ensure!(points.len() <= points_max, too_many(points_max));
        }
    }
    Ok(points)
}

/// The axes as they apply to a command. By default a program has all CPUs, and the number of tasks is
/// only a value that its line may mention.
fn axes_for_command(command: &Command, axes: &Axes) -> Axes {
    let all = || Many(vec![Scalar("all".to_string())]);
    let mentioned = commands::uses(command).contains("tasks");
    Axes {
        cpus: axes.cpus.clone().or_else(|| Some(all())),
        tasks: axes.tasks.clone().filter(|_| mentioned),
        tasks_per_cpu: axes.tasks_per_cpu.clone().filter(|_| mentioned),
        ..axes.clone()
    }
}
