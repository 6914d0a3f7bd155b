//! `knee conflicts --matrix`: each operation beside each other, in one boot of each kernel.

use std::path::Path;
use std::process::ExitCode;

use answers::{ConflictAnswer, ConflictLine, ConflictPair, PairLine, PairObjects};
use anyhow::{Result, bail};
use conflicts::Namer;
use host::signals;
use host::terminal::hint;
use records::FileSystem;
use workloads::{Family, Forms, TaskForm, WORKLOADS, Workload};

use super::guest_flags::GuestFlags;
use super::operation::{self, Operation};
use super::{Arguments, Asked, Tracing, boot, kernels, types};

/// Lines of a pair that are kept.
const LINES: usize = 16;

/// The families whose workloads `all` pairs.
const FAMILIES: [Family; 5] =
    [Family::FileLocks, Family::PageFaults, Family::Files, Family::Memory, Family::Scheduling];

/// The word for all workloads of these families.
const ALL: &str = "all";

/// Operations that are paired with each other, and what they have in common.
struct Pairing {
    objects: Option<PairObjects>,
    operations: Vec<Operation>,
}

impl Pairing {
    /// Each operation beside itself and each that follows.
    fn pairs(&self) -> impl Iterator<Item = (&Operation, &Operation)> {
        let after = |first: usize| self.operations[first..].iter();
        (0..self.operations.len()).flat_map(move |first| {
            after(first).map(move |second| (&self.operations[first], second))
        })
    }
}

/// Traces all pairs on each kernel, and prints which contend.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let made = arguments.guest.made()?;
    // So many operations show what contends, in half a minute for each hundred pairs.
    let window = arguments.guest.window.or(Some(64));
    let flags = GuestFlags { window, ..arguments.guest.clone() };
    let pairings = pairings(arguments, &flags)?;
    let kernels = kernels(arguments)?;
    signals::catch();
    let mut answer = ConflictAnswer::default();
    for (name, path) in &kernels {
        let name = (kernels.len() > 1).then_some(name.as_str());
        answer.pairs.extend(on_kernel((name, path), &pairings, made.as_ref(), &flags)?);
    }
    let page = pages::conflicts(&answer);
    arguments.view.print(|| Ok(answer), || Ok(page))?;
    Ok(ExitCode::SUCCESS)
}

/// What is paired: calls on files where objects are named or nothing is, else workloads.
fn pairings(arguments: &Arguments, flags: &GuestFlags) -> Result<Vec<Pairing>> {
    let words = arguments.operations.iter().flat_map(|word| word.split(','));
    let mut words: Vec<String> = words.map(str::to_string).collect();
    if arguments.objects.is_empty() && !words.is_empty() {
        if words == [ALL] {
            words = all_names(flags);
        }
        let operations = operation::of_words(&words, &[], flags)?;
        // Of loads of the user's own, the tasks are their programs'.
        operations.iter().try_for_each(|operation| operation.native().map(drop))?;
        return Ok(vec![Pairing { objects: None, operations }]);
    }
    let calls = operation::path_calls()?;
    if let Some(unknown) = words.iter().find(|word| !calls.contains(&word.as_str())) {
        bail!("{unknown}: --objects is of calls on files, which are {}", calls.join(", "));
    }
    if words.is_empty() {
        words = calls.iter().map(|call| call.to_string()).collect();
    }
    let objects = match &arguments.objects[..] {
        [] => &PairObjects::ALL,
        given => given,
    };
    let pairing = |objects: &PairObjects| {
        let operations = words.iter().map(|call| Operation::call(call, *objects, flags));
        Ok(Pairing { objects: Some(*objects), operations: operations.collect::<Result<_>>()? })
    };
    objects.iter().map(pairing).collect()
}

/// Traces all pairs on one kernel, in one boot.
fn on_kernel<'a>(
    (name, path): (Option<&str>, &Path),
    pairings: &'a [Pairing],
    made: Option<&FileSystem>,
    flags: &GuestFlags,
) -> Result<Vec<ConflictPair>> {
    let operations = pairings.iter().flat_map(|pairing| &pairing.operations);
    let mut traced = boot(path, operations, made, flags)?;
    let release = traced.boot_facts().release.clone();
    let on = name.map_or(release.clone(), |name| format!("{name} ({release})"));
    let types = types(&traced)?;
    let namer = types.as_ref().map(|types| Namer::new(types, &traced.symbols));
    let tracing =
        Tracing { asked: Asked { made, hosts: &[], flags, records: false }, namer: namer.as_ref() };
    let pairs = || {
        let of_pairing = |one: &'a Pairing| one.pairs().map(|pair| (one.objects, pair));
        pairings.iter().flat_map(of_pairing)
    };
    let (all, mut answers) = (pairs().count(), Vec::new());
    for (objects, (first, second)) in pairs() {
        let beside = (first.name != second.name).then_some(second);
        let found = tracing.trace(&mut traced, first, beside);
        if signals::received().is_some() {
            found.as_ref().map_err(|why| anyhow::anyhow!("{why:#}"))?;
        }
        let found = found.map(|conflicts| conflicts.lines);
        answers.push(ConflictPair { objects, ..pair((first, second), &on, found) });
        let done = answers.len();
        if done % 50 == 0 || done == all {
            hint(format_args!("{done} of {all} pairs"));
        }
    }
    traced.end();
    Ok(answers)
}

/// Workloads of these families that run as asked for.
fn all_names(flags: &GuestFlags) -> Vec<String> {
    let form = if flags.threads { TaskForm::Threads } else { TaskForm::Processes };
    let runs = |workload: &&Workload| {
        let can = !matches!(workload.spec.forms, Forms::Only(only, _) if only != form);
        FAMILIES.contains(&workload.spec.family) && can
    };
    WORKLOADS.iter().filter(runs).map(|workload| workload.name.to_string()).collect()
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
    // A sum of nothing would be -0.
    let needed =
        |lines: &Vec<ConflictLine>| lines.iter().map(|line| line.transfers[0]).sum::<f64>();
    let transfers = lines.as_ref().map(|lines| needed(lines) + 0.0);
    let kept = lines.unwrap_or_default().into_iter().take(LINES).map(|line| PairLine {
        member: line.member,
        place: line.place,
        sharing: line.sharing,
        kind: line.kind,
        transfers: line.transfers,
    });
    let (on, lines) = (on.to_string(), kept.collect());
    ConflictPair { first, second, on, objects: None, transfers, lines, failure }
}
