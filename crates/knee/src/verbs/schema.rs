//! `knee schema`: prints the JSON Schema of what a verb prints with `--json`.

use std::process::ExitCode;

use answers::schema_of;
use anyhow::{Context, Result};
use guests::kernels::{BuildInfo, BuiltKernel};
use host::terminal::print;
use host::unknown;
use schemars::Schema;

use super::bisect::Check;

/// Print the JSON Schema of what a verb prints with --json
///
/// Without a name, the answers that have one are listed. See `knee help answers`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Answer to describe: the words of its command with dashes [default: list all]
    name: Option<String>,
}

/// The names of all answers.
pub fn names() -> Vec<&'static str> {
    ANSWERS.iter().map(|answer| answer.name).collect()
}

/// What some verb prints with `--json`.
struct AnswerKind {
    /// The words of the command with dashes, then what tells the answer from others of that verb.
    name: &'static str,
    schema: fn() -> Schema,
}

/// An entry of [`ANSWERS`].
const fn answer(name: &'static str, schema: fn() -> Schema) -> AnswerKind {
    AnswerKind { name, schema }
}

/// All answers, by name.
const ANSWERS: &[AnswerKind] = &[
    answer("bisect", schema_of::<answers::Bisected<Check>>),
    answer("bisect-log", schema_of::<bisector::Event>),
    answer("bisect-plan", schema_of::<answers::BisectionPlan>),
    answer("bisect-replay", schema_of::<answers::Bisected<Check>>),
    answer("bisect-screen", schema_of::<answers::Screening>),
    answer("bisect-series", schema_of::<answers::Series>),
    answer("check", schema_of::<answers::Checks>),
    answer("check-against-kernel", schema_of::<answers::KernelComparisons>),
    answer("check-litmus", schema_of::<answers::LitmusTests>),
    answer("check-mutants", schema_of::<answers::Mutants>),
    answer("check-orderings", schema_of::<answers::Orderings>),
    answer("check-replay", schema_of::<answers::FollowedSchedule>),
    answer("compare", schema_of::<analysis::Comparison>),
    answer("compare-fragile", schema_of::<answers::FragileAnswer>),
    answer("conflicts", schema_of::<answers::ConflictAnswer>),
    answer("doctor", schema_of::<Vec<doctor::Finding>>),
    answer("doctor-verdicts", schema_of::<analysis::host_check::HostCheck>),
    answer("explain", schema_of::<answers::Ledgers>),
    answer("explain-live", schema_of::<live::LiveAnswer>),
    answer("explain-perf-data", schema_of::<answers::RecordingLedger>),
    answer("explain-two-live", schema_of::<live::LiveComparison>),
    answer("explain-two-perf-data", schema_of::<answers::RecordingDifference>),
    answer("fleet-collect", schema_of::<answers::CollectedRecord>),
    answer("fleet-status", schema_of::<answers::FleetStatus<fleet::HostCheck>>),
    answer("gate", schema_of::<bisector::GateAnswer>),
    answer("kernel-build", schema_of::<answers::BuiltKernels<BuiltKernel>>),
    answer("kernel-list", schema_of::<Vec<BuildInfo>>),
    answer("list", schema_of::<Vec<store::Listed>>),
    answer("list-algorithms", schema_of::<answers::ListedAlgorithms>),
    answer("list-commands", schema_of::<answers::ListedCommands>),
    answer("list-experiments", schema_of::<answers::ListedExperiments>),
    answer("list-hosts", schema_of::<answers::ListedHosts>),
    answer("list-loads", schema_of::<answers::ListedLoads>),
    answer("list-metrics", schema_of::<answers::ListedMetrics>),
    answer("list-workloads", schema_of::<answers::ListedWorkloads>),
    answer("record-export", schema_of::<answers::WholeRecord>),
    answer("record-import", schema_of::<answers::ImportedRecord>),
    answer("run", schema_of::<records::Run>),
    answer("run-plan", schema_of::<answers::RunPlan>),
    answer("scale", schema_of::<answers::Scalings>),
    answer("scale-forecast", schema_of::<answers::Forecasts>),
    answer("selfcheck", schema_of::<analysis::selfcheck::Selfcheck>),
    answer("selfcheck-bisect", schema_of::<bisection::selfcheck::BisectCheck>),
    answer("selfcheck-gates", schema_of::<analysis::selfcheck::GateCheck>),
    answer("selfcheck-scale", schema_of::<laws::selfcheck::ScaleCheck>),
    answer("selfcheck-watch", schema_of::<bisection::watch::selfcheck::WatchCheck>),
    answer("show", schema_of::<answers::Summary>),
    answer("show-algorithm", schema_of::<answers::AlgorithmManual>),
    answer("show-command", schema_of::<records::Command>),
    answer("show-experiment", schema_of::<answers::ExperimentManual>),
    answer("show-host", schema_of::<answers::HostManual>),
    answer("show-load", schema_of::<records::CompiledLoad>),
    answer("show-load-of-others", schema_of::<answers::UncompiledLoad>),
    answer("show-metric", schema_of::<answers::MetricEntry>),
    answer("show-workload", schema_of::<answers::WorkloadManual>),
    answer("simulate", schema_of::<answers::AlgorithmCurves>),
    answer("simulate-check", schema_of::<answers::NativeAgreements>),
    answer("simulate-operation", schema_of::<answers::OperationCurves>),
    answer("simulate-replay", schema_of::<answers::Replays>),
    answer("simulate-replay-list", schema_of::<answers::Incidents>),
    answer("watch-show", schema_of::<bisector::WatchAnswer>),
    answer("watch-show-kernels", schema_of::<bisector::kernel_line::KernelLineAnswer>),
];

/// Prints one schema, or the names of all.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(name) = &arguments.name else {
        print(ANSWERS.iter().map(|one| format!("{}\n", one.name)).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    };
    let kind = ANSWERS.iter().find(|one| one.name == name).with_context(|| {
        unknown("answer", name, ANSWERS.iter().map(|one| one.name), "knee schema")
    })?;
    print(format!("{:#}\n", (kind.schema)().to_value()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;

    /// The commands that take `--json`, as names of answers.
    fn with_json(command: &Command, name: &str, found: &mut Vec<String>) {
        if command.get_arguments().any(|argument| argument.get_long() == Some("json")) {
            found.push(name.to_string());
        }
        for verb in command.get_subcommands() {
            let dash = if name.is_empty() { "" } else { "-" };
            with_json(verb, &format!("{name}{dash}{}", verb.get_name()), found);
        }
    }

    #[test]
    fn every_verb_with_json_has_a_schema() {
        let mut verbs = Vec::new();
        with_json(&crate::Cli::command(), "", &mut verbs);
        assert!(verbs.len() > 15, "{verbs:?}");
        // The first has the flags of `knee run`, and refuses this one; the others print answers of explain-live and bisect.
        verbs.retain(|verb| !["fleet-plan", "top", "watch-bisect"].contains(&verb.as_str()));
        for verb in verbs {
            let is_of = |one: &AnswerKind| {
                let rest = one.name.strip_prefix(&verb);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            let has_schema = ANSWERS.iter().any(is_of);
            assert!(has_schema, "knee {verb} --json has no schema");
        }
    }

    #[test]
    fn answers_are_listed_by_name() {
        assert!(ANSWERS.is_sorted_by_key(|one| one.name));
    }
}
