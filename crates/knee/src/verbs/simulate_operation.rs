//! `knee simulate operation`: what operations of the kernel would do on CPUs that are not here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::ConflictAnswer;
use anyhow::{Context, Result, ensure};
use host::{Limit, given_file};
use lab::operation::{HostFlags, curves, page};
use pages::ViewFlags;
use records::operations::RecordedOperations;
use store::Store;

use super::conflicts::guest_flags::GuestFlags;
use super::conflicts::one_cpu::{rate, rates_of_one_cpu};
use super::conflicts::recorded;
use crate::flags::{BuildFlags, kernel};

/// Simulate an operation of the kernel on a described host, from its traced accesses
///
/// The operation is traced in a virtual machine, as `knee conflicts` does: which lines it shares with others, which locks
/// it takes, and how many instructions lie between. Tasks on the described host's CPUs repeat that in virtual time. The
/// answer is a curve with an interval, and the lines that stop it. Nothing is measured. See `knee help simulator`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Workloads (`knee list workloads`), files in C, or answers of `knee conflicts --steps --json`
    #[arg(required = true, value_name = "LOAD")]
    operations: Vec<String>,
    /// Kernel file, folder in which make was run, source tree or git revision [default: this host's]
    #[arg(long = "kernel", value_name = "[NAME=]WHAT", value_parser = kernel)]
    kernel: Option<(String, PathBuf)>,
    /// One CPU's rate, to which the time of an instruction is fitted
    ///
    /// Such as 1.2M/s.
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "record")]
    rate: Option<f64>,
    /// Record that has the rates of one CPU
    ///
    /// `last`, a label, an id or its start, or a directory.
    #[arg(long, value_name = "RECORD")]
    record: Option<String>,
    #[command(flatten)]
    host: HostFlags,
    #[command(flatten)]
    view: ViewFlags,
    #[command(flatten)]
    guest: GuestFlags,
    #[command(flatten)]
    build: BuildFlags,
}

/// Traces the operations, or reads what was traced, simulates them and prints their curves.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let rates = match &arguments.record {
        Some(which) => rates_of_one_cpu(which, store)?.1,
        None => BTreeMap::new(),
    };
    let recorded = all_recorded(arguments)?;
    ensure!(
        arguments.rate.is_none() || recorded.len() == 1,
        "--rate is of one operation, and {} are simulated: name a --record that has them",
        recorded.len()
    );
    let one_cpu = |name: &str| rates.get(name).copied().or(arguments.rate);
    if arguments.record.is_some() {
        for one in &recorded {
            let name = &one.operation;
            one_cpu(name).with_context(|| {
                format!("the record has no rate of {name} on one CPU: run `knee run {name} --cpus 1..all`")
            })?;
        }
    }
    let curves = curves(&recorded, &arguments.host, one_cpu)?;
    let page = page::page(&curves);
    arguments.view.print(|| Ok(curves), || Ok(page))?;
    Ok(ExitCode::SUCCESS)
}

/// The operations of files, and those that are traced now, in the order of the command line.
fn all_recorded(arguments: &Arguments) -> Result<Vec<RecordedOperations>> {
    let is_file = |word: &String| word.ends_with(".json");
    let loads: Vec<String> =
        arguments.operations.iter().filter(|word| !is_file(word)).cloned().collect();
    let traced = match &loads[..] {
        [] => Vec::new(),
        loads => recorded(loads, arguments.kernel.as_ref(), &arguments.guest, &arguments.build)?,
    };
    let mut traced = traced.into_iter();
    let mut all = Vec::new();
    for word in &arguments.operations {
        if is_file(word) {
            all.extend(read(word)?);
        } else {
            all.extend(traced.next());
        }
    }
    Ok(all)
}

/// What `knee conflicts --steps --json` printed.
fn read(file: &str) -> Result<Vec<RecordedOperations>> {
    let limit = Limit { bytes: 256 << 20, what: "an answer of knee conflicts" };
    let text =
        given_file::read_text(Path::new(file), limit).with_context(|| format!("reading {file}"))?;
    let answer: ConflictAnswer = serde_json::from_str(&text)
        .with_context(|| format!("{file} is no answer of `knee conflicts --json`"))?;
    let recorded: Vec<_> = answer.traced.into_iter().filter_map(|traced| traced.recorded).collect();
    ensure!(
        !recorded.is_empty(),
        "{file} has no operation step by step: `knee conflicts LOAD --steps --json` adds them"
    );
    Ok(recorded)
}
