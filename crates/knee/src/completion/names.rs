//! What comes with knee, by name.

use std::fs;
use std::path::Path;

use algorithms::locks::LOCKS;
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use clap::Command;
use described_hosts::HOSTS;
use guests::kernels::{BuildInfo, Cache};
use plan::commands::{self, COMMANDS, PREFIX};
use plan::experiments::EXPERIMENTS;
use workloads::{ParameterKind, WORKLOADS, Workload};

use super::Candidate;
use crate::guides;
use crate::verbs::list::all_metrics;

/// Names that need no explanation.
pub fn plain(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<Candidate> {
    names.into_iter().map(|name| Candidate::new(name, "")).collect()
}

pub fn workloads() -> Vec<Candidate> {
    WORKLOADS.iter().map(|one| Candidate::new(one.name, one.summary())).collect()
}

/// Workloads, experiments and commands.
pub fn loads() -> Vec<Candidate> {
    let experiments = EXPERIMENTS.iter().map(|(name, text)| Candidate::new(*name, described(text)));
    let command =
        |(name, text): &(&str, &str)| Candidate::new(format!("{PREFIX}{name}"), described(text));
    workloads().into_iter().chain(experiments).chain(COMMANDS.iter().map(command)).collect()
}

/// What a file in TOML says of itself, in its first line of that name.
fn described(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("description = "));
    line.unwrap_or_default().trim_matches(['"', '\''])
}

pub fn algorithms() -> Vec<Candidate> {
    let mechanisms = MECHANISMS.iter().map(|one| Candidate::new(one.name, one.summary()));
    locks().into_iter().chain(mechanisms).collect()
}

pub fn locks() -> Vec<Candidate> {
    LOCKS.iter().map(|lock| Candidate::new(lock.name, lock.summary())).collect()
}

pub fn host_models() -> Vec<Candidate> {
    plain(HOSTS.iter().map(|(name, _)| *name))
}

pub fn file_systems() -> Vec<Candidate> {
    plain(setup::file_systems::kinds::KINDS.iter().map(|kind| kind.name))
}

/// Metrics, and what they are per operation where the name goes on so.
pub fn metrics(given: &str) -> Vec<Candidate> {
    let metric = |metric: &records::Metric| {
        let one = Candidate::new(metric.name, metric.about);
        let per_operation = given.starts_with(metric.name) && given != metric.name;
        let per_operation =
            per_operation.then(|| Candidate::new(format!("{}/op", metric.name), "per operation"));
        [Some(one), per_operation]
    };
    all_metrics().flat_map(metric).flatten().collect()
}

/// The guides and the verbs.
pub fn guides(knee: &Command) -> Vec<Candidate> {
    let guides = guides::all().map(|guide| Candidate::new(guide.name(), guide.title()));
    let verbs = knee.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = verbs.filter(|verb| guides::named(verb.get_name()).is_none());
    let verbs = verbs.map(|verb| Candidate::new(verb.get_name(), super::about(verb)));
    let lists = [("guides", "all guides"), ("licenses", "of all that is linked")];
    let lists = lists.map(|(name, about)| Candidate::new(name, about));
    lists.into_iter().chain(guides).chain(verbs).collect()
}

/// Kernels in the cache: their keys, with what they were built from.
pub fn built_kernels() -> Vec<Candidate> {
    let builds = Cache::open().and_then(|cache| cache.list()).unwrap_or_default();
    let candidate = |one: BuildInfo| {
        Candidate::new(one.key, format!("{} {} {}", one.release, one.revision, one.subject))
    };
    builds.into_iter().map(candidate).collect()
}

/// A parameter, its values where it has few, and what it changes.
struct NamedParameter {
    name: String,
    values: Vec<String>,
    about: String,
}

/// The parameters of the loads of these names; of all workloads, where there is none.
fn parameters_of(loads: &[&str]) -> Vec<NamedParameter> {
    let named: Vec<&Workload> = loads.iter().filter_map(|name| Workload::find(name)).collect();
    let all: Vec<&Workload> = if loads.is_empty() { WORKLOADS.iter().collect() } else { named };
    let of_workloads = all.into_iter().flat_map(Workload::parameters).map(|parameter| {
        let values = match parameter.kind {
            ParameterKind::Choice(words) => words.iter().map(|word| word.to_string()).collect(),
            _ => vec![parameter.default.to_string()],
        };
        NamedParameter { name: parameter.name.to_string(), values, about: parameter.about.into() }
    });
    let of_commands = loads.iter().filter(|name| name.starts_with(PREFIX));
    let of_commands = of_commands.filter_map(|name| commands::read(name).ok());
    let of_commands = of_commands.flat_map(|command| command.parameters).map(|(name, values)| {
        let values = values.0.into_iter().map(|value| value.0).collect();
        NamedParameter { name, values, about: String::new() }
    });
    let mut parameters: Vec<NamedParameter> = Vec::new();
    for parameter in of_workloads.chain(of_commands) {
        if parameters.iter().all(|known| known.name != parameter.name) {
            parameters.push(parameter);
        }
    }
    parameters
}

/// `NAME=`, and after it the values of that parameter, each once in a list.
pub fn parameters(loads: &[&str], given: &str) -> Vec<Candidate> {
    let parameters = parameters_of(loads);
    assignments(parameters.into_iter().map(|one| (one.name, one.values, one.about)), given)
}

fn assignments(
    parameters: impl Iterator<Item = (String, Vec<String>, String)>,
    given: &str,
) -> Vec<Candidate> {
    let Some((name, value)) = given.split_once('=') else {
        return parameters
            .map(|(name, _, about)| Candidate::new(format!("{name}="), about))
            .collect();
    };
    let start = value.rfind(',').map_or(0, |comma| comma + 1);
    let head = &given[..name.len() + 1 + start];
    let is_new = |one: &String| value[..start].split(',').all(|given| given != one);
    let values = parameters.filter(|(known, ..)| known == name).flat_map(|(_, values, _)| values);
    values.filter(is_new).map(|one| Candidate::new(format!("{head}{one}"), "")).collect()
}

/// Keys of variants that are no parameters.
const KEYS: [&str; 12] = [
    "workload",
    "as",
    "placement",
    "dir",
    "fs",
    "fs.mkfs",
    "fs.mount",
    "env.",
    "sysctl.",
    "daemon",
    "under",
    "binary",
];

/// `NAME='KEY=VALUE;…'`: the keys, after the name.
pub fn variants(loads: &[&str], given: &str) -> Vec<Candidate> {
    let Some((name, settings)) = given.split_once('=') else { return Vec::new() };
    let start = settings.rfind(';').map_or(0, |end| end + 1);
    let head = &given[..name.len() + 1 + start];
    let setting = &settings[start..];
    let keys = KEYS.iter().map(|key| Candidate::new(*key, "")).map(|mut key| {
        key.text.push_str(if key.text.ends_with('.') { "" } else { "=" });
        Candidate { goes_on: true, ..key }
    });
    let keys = keys.filter(|_| !setting.contains('='));
    let mut found: Vec<Candidate> = parameters(loads, setting).into_iter().chain(keys).collect();
    found.iter_mut().for_each(|one| one.text.insert_str(0, head));
    found
}

fn mechanisms<'n>(
    names: impl Iterator<Item = &'n str>,
) -> impl Iterator<Item = &'static ListedMechanism> {
    names.filter_map(|name| MECHANISMS.iter().find(|one| one.name == name))
}

/// The designs of mechanisms: the words of their choices.
pub fn designs<'n>(names: impl Iterator<Item = &'n str>) -> Vec<Candidate> {
    let choices = mechanisms(names).flat_map(|one| one.choices);
    plain(choices.flat_map(|choice| choice.words).copied())
}

/// `NAME=` and the values of settings and choices of mechanisms.
pub fn settings<'n>(names: impl Iterator<Item = &'n str>, given: &str) -> Vec<Candidate> {
    let of = |one: &'static ListedMechanism| {
        let choices = one.choices.iter().map(|choice| {
            let words = choice.words.iter().map(|word| word.to_string()).collect();
            (choice.name.to_string(), words, choice.about.to_string())
        });
        let settings = one.settings.iter().map(|setting| {
            (setting.name.to_string(), vec![setting.default.to_string()], setting.about.into())
        });
        choices.chain(settings)
    };
    assignments(mechanisms(names).flat_map(of), given)
}

/// Folders, and files with these endings (`*`: any), whose names need no quotes in a shell.
pub fn files(given: &str, endings: &[&str]) -> Vec<Candidate> {
    let (folder, start) =
        given.rsplit_once('/').map_or(("", given), |(f, s)| (&given[..=f.len()], s));
    let entries = fs::read_dir(if folder.is_empty() { Path::new(".") } else { Path::new(folder) });
    let entry = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let is_plain =
            name.chars().all(|c| c.is_alphanumeric() || ['.', '_', '-', '+'].contains(&c));
        let is_hidden = name.starts_with('.') && !start.starts_with('.');
        if !is_plain || is_hidden || !name.starts_with(start) {
            return None;
        }
        let ending = Path::new(&name).extension().and_then(|ending| ending.to_str());
        let is_wanted = endings == ["*"] || ending.is_some_and(|one| endings.contains(&one));
        if entry.path().is_dir() {
            return Some(Candidate::new(format!("{folder}{name}/"), ""));
        }
        is_wanted.then(|| Candidate::new(format!("{folder}{name}"), ""))
    };
    let mut files: Vec<Candidate> =
        entries.into_iter().flatten().flatten().filter_map(entry).collect();
    files.sort_by(|a, b| a.text.cmp(&b.text));
    files
}
