//! `knee schema`: prints the JSON Schema of what a verb prints with `--json`.
//!
//! The binary has the schemas as texts, which the build takes from `crates/answers/tests/golden`. The test below holds
//! them to the types: only for it does the derive of `JsonSchema` make anything (`crates/schemas`).

use std::process::ExitCode;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use host::terminal::print;
use host::unknown;

use crate::packed::Packed;

/// Print the JSON Schema of what a verb prints with --json
///
/// Without a name, the answers that have one are listed. See `knee help answers`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Answer to describe: the words of its command with dashes [default: list all]
    name: Option<String>,
}

/// The names of all answers: the words of the command with dashes, then what tells it from others of that verb.
pub fn names() -> Vec<&'static str> {
    SCHEMAS.texts().map(|(name, _)| name).collect()
}

/// All schemas, by name.
static SCHEMAS: LazyLock<Packed> =
    LazyLock::new(|| Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/schemas.txt.gz"))));

/// Prints one schema, or the names of all.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(name) = &arguments.name else {
        print(names().iter().map(|name| format!("{name}\n")).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    };
    let (_, schema) = SCHEMAS
        .texts()
        .find(|(one, _)| one == name)
        .with_context(|| unknown("answer", name, names(), "knee schema"))?;
    print(schema)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::{Command, CommandFactory};
    use expect_test::expect_file;
    use guests::kernels::{BuildInfo, BuiltKernel};
    use schemars::generate::SchemaSettings;
    use schemars::transform::transform_subschemas;
    use schemars::{JsonSchema, Schema};
    use serde_json::Value;

    use super::super::bisect::Check;
    use super::*;

    macro_rules! answers {
        ($($name:literal: $type:ty,)*) => {
            /// The schema of each answer as its type has it, by name.
            fn derived() -> Vec<(&'static str, Schema)> {
                vec![$(($name, schema_of::<$type>()),)*]
            }
        };
    }

    answers! {
        "bisect": answers::Bisected<Check>,
        "bisect-log": bisector::Event,
        "bisect-plan": answers::BisectionPlan,
        "bisect-replay": answers::Bisected<Check>,
        "bisect-screen": answers::Screening,
        "bisect-series": answers::Series,
        "check": answers::Checks,
        "check-against-kernel": answers::KernelComparisons,
        "check-litmus": answers::LitmusTests,
        "check-mutants": answers::Mutants,
        "check-orderings": answers::Orderings,
        "check-replay": answers::FollowedSchedule,
        "compare": analysis::Comparison,
        "compare-fragile": answers::FragileAnswer,
        "conflicts": answers::ConflictAnswer,
        "doctor": Vec<lab::doctor::Finding>,
        "doctor-calibrate": answers::HostManual,
        "doctor-verdicts": analysis::host_check::HostCheck,
        "explain": answers::Ledgers,
        "explain-live": live::LiveAnswer,
        "explain-perf-data": answers::RecordingLedger,
        "explain-two-live": live::LiveComparison,
        "explain-two-perf-data": answers::RecordingDifference,
        "fleet-collect": answers::CollectedRecord,
        "fleet-status": answers::FleetStatus<fleet::HostCheck>,
        "gate": bisector::GateAnswer,
        "kernel-boot": answers::BootedKernel,
        "kernel-build": answers::BuiltKernels<BuiltKernel>,
        "kernel-list": Vec<BuildInfo>,
        "kernel-remove": answers::RemovedKernels,
        "list": Vec<store::Listed>,
        "list-algorithms": answers::ListedAlgorithms,
        "list-commands": answers::ListedCommands,
        "list-experiments": answers::ListedExperiments,
        "list-hosts": answers::ListedHosts,
        "list-loads": answers::ListedLoads,
        "list-metrics": answers::ListedMetrics,
        "list-workloads": answers::ListedWorkloads,
        "record-export": answers::WholeRecord,
        "record-import": answers::ImportedRecord,
        "record-note": answers::NotedRecord,
        "record-prune": answers::RemovedRecords,
        "record-rm": answers::RemovedRecords,
        "run": records::Run,
        "run-plan": answers::RunPlan,
        "scale": answers::Scalings,
        "scale-forecast": answers::Forecasts,
        "selfcheck": analysis::selfcheck::Selfcheck,
        "selfcheck-bisect": bisection::selfcheck::BisectCheck,
        "selfcheck-gates": analysis::selfcheck::GateCheck,
        "selfcheck-scale": laws::selfcheck::ScaleCheck,
        "selfcheck-watch": bisection::watch::selfcheck::WatchCheck,
        "show": answers::Summary,
        "show-algorithm": answers::AlgorithmManual,
        "show-command": records::Command,
        "show-experiment": answers::ExperimentManual,
        "show-host": answers::HostManual,
        "show-load": records::CompiledLoad,
        "show-load-of-others": answers::UncompiledLoad,
        "show-metric": answers::MetricEntry,
        "show-workload": answers::WorkloadManual,
        "simulate": answers::AlgorithmCurves,
        "simulate-check": answers::NativeAgreements,
        "simulate-operation": answers::OperationCurves,
        "simulate-replay": answers::Replays,
        "simulate-replay-list": answers::Incidents,
        "watch-show": bisector::WatchAnswer,
        "watch-show-kernels": bisector::kernel_line::KernelLineAnswer,
    }

    /// The JSON Schema of what `--json` prints of a type.
    fn schema_of<T: JsonSchema>() -> Schema {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.with_transform(in_words_of_json).into_generator().into_root_schema_for::<T>()
    }

    /// Descriptions are doc comments, where Rust's `None` is what JSON writes as null.
    fn in_words_of_json(schema: &mut Schema) {
        if let Some(Value::String(description)) = schema.get_mut("description") {
            *description = description.replace("`None`", "null");
        }
        transform_subschemas(&mut in_words_of_json, schema);
    }

    #[test]
    fn schemas_are_those_of_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../answers/tests/golden");
        let derived = derived();
        for (name, schema) in &derived {
            let text = format!("{:#}\n", schema.as_value());
            expect_file![folder.join(format!("{name}.schema.json"))].assert_eq(&text);
        }
        assert!(derived.iter().map(|(name, _)| *name).eq(names()), "{:?}", names());
    }

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
            let is_of = |name: &&str| {
                let rest = name.strip_prefix(&*verb);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            let has_schema = names().iter().any(is_of);
            assert!(has_schema, "knee {verb} --json has no schema");
        }
    }
}
