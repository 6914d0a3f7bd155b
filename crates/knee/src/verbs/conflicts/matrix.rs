//! `knee conflicts --matrix`: each operation beside each other, in one boot of each kernel.

use std::process::ExitCode;

use answers::{ConflictAnswer, ConflictLine, ConflictPair, PairLine};
use anyhow::Result;
use conflicts::Namer;
use host::signals;
use host::terminal::hint;
use records::FileSystem;
use workloads::{Family, Forms, TaskForm, WORKLOADS, Workload};

use super::operation::{self, Operation};
use super::{Arguments, Tracing, boot, kernels, types};

/// Lines of a pair that are kept.
const LINES: usize = 16;

/// The families whose operations are paired by default.
const FAMILIES: [Family; 5] =
    [Family::FileLocks, Family::PageFaults, Family::Files, Family::Memory, Family::Scheduling];

/// Traces all pairs on each kernel, and prints which contend.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let named = match &arguments.operations[..] {
        [] => default_names(arguments),
        given => given.iter().flat_map(|word| word.split(',')).map(str::to_string).collect(),
    };
    let operations = operation::of_words(&named, arguments)?;
    // Of loads of the user's own, the tasks are their programs'.
    operations.iter().try_for_each(|operation| operation.native().map(drop))?;
    let made = arguments.file_system.as_deref().map(FileSystem::parse).transpose()?;
    let kernels = kernels(arguments)?;
    signals::catch();
    let mut answer = ConflictAnswer::default();
    for (name, path) in &kernels {
        let mut traced = boot(path, &operations, made.as_ref(), arguments)?;
        let release = traced.boot_facts().release.clone();
        let on = if kernels.len() > 1 { format!("{name} ({release})") } else { release };
        let types = types(&traced)?;
        let namer = types.as_ref().map(|types| Namer::new(types, &traced.symbols));
        let made = made.as_ref();
        let tracing = Tracing { made, hosts: &[], arguments, namer: namer.as_ref() };
        let all = operations.len() * (operations.len() + 1) / 2;
        for (number, (first, second)) in pairs(&operations).enumerate() {
            let beside = (first.name != second.name).then_some(second);
            let found = tracing.trace(&mut traced, first, beside);
            if signals::received().is_some() {
                found.as_ref().map_err(|why| anyhow::anyhow!("{why:#}"))?;
            }
            let found = found.map(|conflicts| conflicts.lines);
            answer.pairs.push(pair((first, second), &on, found));
            let done = number + 1;
            if done % 50 == 0 || done == all {
                hint(format_args!("{done} of {all} pairs"));
            }
        }
        traced.end();
    }
    let page = pages::conflicts(&answer);
    arguments.view.print(|| Ok(answer), || Ok(page))?;
    Ok(ExitCode::SUCCESS)
}

/// Workloads of the default families that run as asked for.
fn default_names(arguments: &Arguments) -> Vec<String> {
    let form = if arguments.threads { TaskForm::Threads } else { TaskForm::Processes };
    let runs = |workload: &&Workload| {
        let can = !matches!(workload.spec.forms, Forms::Only(only, _) if only != form);
        FAMILIES.contains(&workload.spec.family) && can
    };
    WORKLOADS.iter().filter(runs).map(|workload| workload.name.to_string()).collect()
}

/// Each operation beside itself and each that follows.
fn pairs(operations: &[Operation]) -> impl Iterator<Item = (&Operation, &Operation)> {
    let after = |first: usize| operations[first..].iter();
    (0..operations.len())
        .flat_map(move |first| after(first).map(move |second| (&operations[first], second)))
}

fn pair(
    (first, second): (&Operation, &Operation),
    on: &str,
    found: Result<Vec<ConflictLine>>,
) -> ConflictPair {
    let (first, second) = (first.name.clone(), second.name.clone());
    let (lines, failure) = match found {
        Ok(lines) => (Some(lines), None),
        Err(why) => (None, Some(format!("{why:#}"))),
    };
    let transfers = lines.as_ref().map(|lines| lines.iter().map(|line| line.transfers[0]).sum());
    let kept = lines.unwrap_or_default().into_iter().take(LINES).map(|line| PairLine {
        member: line.member,
        place: line.place,
        sharing: line.sharing,
        kind: line.kind,
        transfers: line.transfers,
    });
    ConflictPair { first, second, on: on.to_string(), transfers, lines: kept.collect(), failure }
}
