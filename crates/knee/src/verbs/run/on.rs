//! `knee run --on`: measures an experiment on other hosts, by way of a fleet's directory.

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use fleet::Plan;
use pages::{Page, View};
use records::{Experiment, Opened};
use runner::End;
use setup::foreign::Foreign;
use setup::own_file;
use store::Store;

use super::elsewhere::{self, Fleet, Target};
use super::{Arguments, ended};
use crate::experiment_file;
use crate::flags::{On, OnFlags, check_can_be_cut};
use crate::verbs::compare;
use crate::verbs::fleet::say_kinds;

/// Refuses kernels that nobody boots where the runs are made.
pub fn check_kernels(experiment: &Experiment, on: Option<&On>) -> Result<()> {
    let variants = experiment.variants.iter().map(Some).chain([None]);
    let mut booted = variants.filter_map(|variant| experiment.metal(variant));
    let has_features = booted.any(|guest| guest.feature.is_some());
    ensure!(
        !has_features || on == Some(&On::Slurm),
        "--kernel NAME=feature:F names a kernel that Slurm boots on its nodes: add --on slurm, or name the kernel's file"
    );
    ensure!(
        has_features || on.is_none() || !experiment.has_metal(),
        "kernels that a host boots itself cannot be measured there: name the feature that stands for each on Slurm's \
         nodes (--kernel NAME=feature:F --on slurm), or use --on metal on one host"
    );
    Ok(())
}

/// Measures what the arguments ask for on other hosts, and shows it as `knee run` does.
pub fn run(
    arguments: &Arguments,
    flags: &OnFlags,
    on: &On,
    experiment: Foreign<Experiment>,
    store: &Store,
) -> Result<ExitCode> {
    let of_here = [
        (arguments.file_systems.i_own_this_device, "--i-own-this-device"),
        (arguments.resume, "--resume"),
        (arguments.against.is_some(), "--against"),
        (arguments.json, "--json"),
        (arguments.note.is_some(), "--note"),
    ];
    let given = of_here.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag));
    if let Some(flag) = given.or(arguments.server.given()) {
        bail!(
            "{flag} is for runs on this host: leave it out (--fleet DIR goes on with what is there)"
        );
    }
    ensure!(
        *on != On::Slurm || flags.slurm.wait || !arguments.fail_if.is_given(),
        "--fail-if asks for a verdict, but --on slurm ends before there is one: add --wait"
    );
    check_can_be_cut(experiment.look())?;
    let experiment = experiment_file::permitted(experiment, arguments.yes)?;
    let (directory, slurm) = (flags.fleet.as_deref(), &flags.slurm);
    let target = Target { on, directory, slurm, yes: arguments.yes };
    let place = elsewhere::place(&target, store)?;
    let seed = experiment.seed;
    let fleet = elsewhere::open_or_create(
        &target,
        &place,
        || flags.cut.plan(experiment, store, on.count(slurm)),
        |there, new| is_same(there, new, seed),
    )?;
    elsewhere::run(&target, &fleet, &|fleet| collect(arguments, fleet, store))
}

/// Whether both plans are of the same experiment; a seed that was drawn may be any.
fn is_same(there: &Plan, new: &Plan, seed: Option<u64>) -> bool {
    let seed = seed.or(there.experiment.seed);
    Experiment { seed, ..new.experiment.clone() } == there.experiment
}

/// Joins what was measured, shows it, and removes a directory that nobody named.
fn collect(arguments: &Arguments, fleet: &Fleet, store: &Store) -> Result<ExitCode> {
    let label = arguments.label.clone().unwrap_or_default();
    let others = own_file::why_others_can_rename_in(fleet.root())?;
    let others = others.map(|why| format!("{} {why}", fleet.root().display()));
    let (folder, plan) = (&fleet.folder, &fleet.plan);
    let collected = fleet::collect(folder, plan, store, &label, false, others.as_deref())?;
    let records = collected.iter().map(|one| store::open(&one.folder));
    let records = records.collect::<Result<Vec<Opened>>>()?;
    // A terminal takes one after the other; all other forms are one document.
    if arguments.view.view() != View::Terminal {
        let pages = records.iter().map(compare::conclusion_page).collect::<Result<Vec<Page>>>()?;
        if let Some(page) = pages.into_iter().reduce(Page::and) {
            arguments.view.print_page(|| Ok(page))?;
        }
    }
    let mut status = ExitCode::SUCCESS;
    for (one, record) in collected.iter().zip(&records) {
        let printed = match arguments.view.view() {
            View::Terminal => compare::print_conclusion(record, arguments.view),
            _ => Ok(()),
        };
        let shown = ended(arguments, End::Complete, &one.folder, (record, printed))?;
        if shown != ExitCode::SUCCESS {
            status = shown;
        }
    }
    say_kinds(&collected);
    fleet.forget();
    Ok(status)
}
