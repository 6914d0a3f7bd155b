//! The points of a command: its parameters and axes. Every placeholder is checked before anything runs.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, ensure};
use host::Placement;
use records::{Axes, Command, Form, Load, Many, Pass, Point, Scalar, Server, Until};

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
    commands::check_remote(command)?;
    for metric in &command.metrics {
        metric.check_pattern().map_err(|why| anyhow!("the metric {}: {why}", metric.name))?;
    }
    let axes = axes_for_command(command, axes, usable);
    let server = command
        .server
        .as_ref()
        .map(|server| (commands::SERVER.to_string(), server_in_words(server)));
    let client_on = command.server.as_ref().and_then(|server| server.client_on.as_ref());
    let client_on = client_on.map(|on| (commands::CLIENT_ON.to_string(), on.text().into()));
    let other: BTreeMap<String, serde_json::Value> = server.into_iter().chain(client_on).collect();
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
                other: other.clone(),
            });
            ensure!(points.len() <= points_max, too_many(points_max));
        }
    }
    Ok(points)
}

fn server_in_words(server: &Server) -> serde_json::Value {
    match server.pid {
        Some(_) => commands::RUNS_ALREADY.into(),
        None => server.run.text().into(),
    }
}

/// The axes as they apply to a command. By default a program has all CPUs, but a server and its client on one host
/// have half of them each. The number of tasks is only a value that its line may mention.
fn axes_for_command(command: &Command, axes: &Axes, usable: &Usable) -> Axes {
    let is_shared = |server: &Server| server.pid.is_none() && server.client_on.is_none();
    let is_shared = command.server.as_ref().is_some_and(is_shared);
    let usable_cpus = usable.topology.cpus.len().min(usable.at_once.unwrap_or(u32::MAX) as usize);
    let half = (usable_cpus / 2).max(1).to_string();
    let all = || Many(vec![Scalar(if is_shared { half } else { "all".to_string() })]);
    let mentioned = commands::uses(command).contains("tasks");
    Axes {
        cpus: axes.cpus.clone().or_else(|| Some(all())),
        tasks: axes.tasks.clone().filter(|_| mentioned),
        tasks_per_cpu: axes.tasks_per_cpu.clone().filter(|_| mentioned),
        ..axes.clone()
    }
}
