//! Which values an argument takes. Those of one name mean the same in all verbs, unless a row of [`KINDS`] says otherwise.

use std::any::TypeId;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use clap::Arg;
use store::{RecordName, Store};

use super::position::Position;
use super::{Candidate, Completion, names, stored};

/// A kind of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Algorithms,
    Bisections,
    BuiltKernels,
    /// Files with these endings, and folders.
    Files(&'static [&'static str]),
    FileSystems,
    /// Hosts that made runs.
    Hosts,
    Guides,
    HostModels,
    Incidents,
    Labels,
    Loads,
    Locks,
    /// Designs, settings and choices of the mechanisms that are named before.
    Designs,
    Settings,
    Metrics,
    /// `NAME=VALUES` of the loads that are named before.
    Parameters,
    Records,
    Schemas,
    /// `NAME='KEY=VALUE;…'`.
    Variants,
    VariantsOfLast,
    Words(&'static [&'static str]),
    Workloads,
}

use Kind::*;

const EXPERIMENT: Kind = Files(&["c", "cc", "cpp", "rs", "zig", "toml"]);
const C: Kind = Files(&["c", "cc", "cpp", "h"]);
const CURVES: Kind = Files(&["csv", "tsv", "dat", "txt"]);
const FOLDERS: Kind = Files(&[]);

/// What arguments take, by verb (none: every verb) and name. The first row decides.
const KINDS: &[(&str, &[&str], &[Kind])] = &[
    ("run", &["what"], &[Loads, EXPERIMENT]),
    ("fleet plan", &["what"], &[Loads, EXPERIMENT]),
    ("bisect screen", &["what"], &[Loads, EXPERIMENT]),
    (
        "explain",
        &["what"],
        &[Loads, Records, VariantsOfLast, Files(&["c", "toml", "data", "live"])],
    ),
    ("explain", &["against"], &[Files(&["live"])]),
    ("compare", &["what"], &[VariantsOfLast, Records, FOLDERS]),
    ("compare fragile", &["what"], &[VariantsOfLast, Records, FOLDERS]),
    ("report", &["what"], &[VariantsOfLast, Records, FOLDERS]),
    ("conflicts", &["operations"], &[Workloads, C]),
    ("show", &["which"], &[Records, Loads, Algorithms, HostModels, Metrics, FOLDERS]),
    ("scale", &["which"], &[Records, CURVES]),
    ("scale forecast", &["which"], &[Records, CURVES]),
    ("bisect log", &["which"], &[Words(&["last"]), Bisections]),
    ("record export", &["which"], &[Records, Words(&["all"]), FOLDERS]),
    ("", &["which", "against", "record"], &[Records, FOLDERS]),
    ("record import", &["names", "baseline"], &[]),
    ("list", &["host"], &[Hosts]),
    ("simulate operation", &["operations"], &[Workloads, Files(&["c", "cc", "cpp", "json"])]),
    ("simulate replay", &["names"], &[Incidents, Files(&["toml"])]),
    ("report", &["replay"], &[Incidents]),
    ("check", &["replay"], &[]),
    ("", &["bisection"], &[Words(&["last"]), Bisections]),
    ("", &["names"], &[Algorithms, Words(&["all"]), C]),
    ("", &["over", "lock", "baseline"], &[Locks]),
    ("", &["design"], &[Designs]),
    ("simulate", &["set"], &[Settings]),
    ("", &["settings", "axes"], &[Parameters]),
    ("", &["variants"], &[Variants]),
    ("", &["doses"], &[Words(&["inside=", "outside=", "mutex=", "rwsem=", "spinlock="])]),
    ("", &["label"], &[Labels]),
    ("", &["metric", "metrics"], &[Metrics]),
    ("", &["workload", "workloads"], &[Workloads]),
    ("", &["host", "hosts"], &[HostModels]),
    ("", &["file_systems", "file_system"], &[FileSystems]),
    ("", &["placement"], &[Words(&["compact", "cores", "scatter", "one-per-llc", "one-per-node"])]),
    ("", &["forms"], &[Words(&["processes", "threads"])]),
    ("", &["cpus"], &[Words(&["all", "cores", "adaptive", "1..all"])]),
    ("fleet plan", &["on"], &[Words(&["loop", "ram"])]),
    ("", &["on"], &[Words(&["loop", "ram", "ssh:", "slurm", "metal"])]),
    ("", &["client_on"], &[Words(&["ssh:"])]),
    ("", &["with"], &[Words(&["typical", "file-systems", "containers"])]),
    ("", &["without"], &[Words(&["guest", "workloads", "probes", "types"])]),
    ("", &["accelerator"], &[Words(&["kvm", "tcg", "icount"])]),
    ("", &["policy"], &[Words(&["fresh", "kept", "aged"])]),
    ("", &["better"], &[Words(&["higher", "lower", "neither"])]),
    ("", &["objects"], &[Words(&["own", "directory", "file"])]),
    ("", &["topic"], &[Guides]),
    ("schema", &["name"], &[Schemas]),
    ("", &["keys"], &[BuiltKernels]),
    ("", &["kernels", "kernel"], &[BuiltKernels, Files(&["*"])]),
];

/// Names of values that are files or lines of a shell.
const FILES: [&str; 12] = [
    "DIR",
    "DIRECTORY",
    "FILE",
    "FILE[:PATH]",
    "LINE",
    "LOG",
    "PATH",
    "PROGRAM",
    "NAME=PROGRAM",
    "COMMAND",
    "REVISION|DIR",
    "FILE:LINE",
];

/// The values at the cursor.
pub struct Values<'p> {
    position: &'p Position<'p>,
    store: &'p Store,
    /// Read once they are asked for.
    records: OnceCell<Vec<RecordName>>,
}

impl<'p> Values<'p> {
    pub fn new(position: &'p Position<'p>, store: &'p Store) -> Values<'p> {
        Values { position, store, records: OnceCell::new() }
    }

    /// The values of an argument that begin with `given`. In a list, the last one goes on, and others stand once.
    pub fn of(&self, argument: &Arg, given: &str) -> Completion {
        let possible = argument.get_possible_values();
        let kinds = self.kinds(argument);
        let mut completion = Completion {
            takes_files: possible.is_empty() && kinds.is_empty() && takes_files(argument),
            ..Completion::default()
        };
        let is_list = given.contains(',') && !matches!(kinds, [Parameters | Settings | Variants]);
        let before = if is_list { given.rfind(',').map_or(0, |comma| comma + 1) } else { 0 };
        let (list, last) = given.split_at(before);
        let mut candidates: Vec<Candidate> = possible.iter().map(possible_value).collect();
        candidates.extend(kinds.iter().flat_map(|kind| self.named(*kind, last)));
        let is_given = |one: &Candidate| list.split(',').any(|given| given == one.text);
        candidates.retain(|one| one.text.starts_with(last) && !is_given(one));
        for mut candidate in candidates {
            candidate.text.insert_str(0, list);
            completion.candidates.push(candidate);
        }
        completion
    }

    fn kinds(&self, argument: &Arg) -> &'static [Kind] {
        let (path, name) = (self.position.path.as_str(), argument.get_id().as_str());
        let row = KINDS
            .iter()
            .find(|(verb, names, _)| (verb.is_empty() || *verb == path) && names.contains(&name));
        row.map_or(&[], |(_, _, kinds)| kinds)
    }

    /// The names of a kind; more than begin with `given` may come, where all are at hand.
    fn named(&self, kind: Kind, given: &str) -> Vec<Candidate> {
        let simulated = || self.position.values(&["names"]).flat_map(|names| names.split(','));
        match kind {
            Algorithms => names::algorithms(),
            Bisections => names::plain(bisector::ids(self.store)),
            BuiltKernels => names::built_kernels(),
            Files(endings) => names::files(given, endings),
            FileSystems => names::file_systems(),
            Hosts => stored::hosts(self.records()),
            Guides => names::guides(self.position.knee),
            HostModels => names::host_models(),
            Incidents => names::plain(lab::replay::names()),
            Labels => stored::labels(self.records()),
            Loads => names::loads(),
            Locks => names::locks(),
            Designs => names::designs(simulated()),
            Settings => names::settings(simulated(), given),
            Metrics => names::metrics(given),
            Parameters => {
                let what = ["what", "operations", "workload"];
                names::parameters(&self.position.values(&what).collect::<Vec<_>>(), given)
            }
            Records => stored::named(self.records(), given),
            Schemas => names::plain(crate::verbs::schema::names()),
            Variants => {
                names::variants(&self.position.values(&["what"]).collect::<Vec<_>>(), given)
            }
            VariantsOfLast => stored::variants_of_last(self.records()),
            Words(words) => names::plain(words.iter().copied()),
            Workloads => names::workloads(),
        }
    }

    /// The records of the store that `--records` names, else of the default one.
    fn records(&self) -> &[RecordName] {
        self.records.get_or_init(|| match self.position.values(&["records"]).next() {
            Some(folder) => stored::all(&Store::at(Path::new(folder).to_path_buf())),
            None => stored::all(self.store),
        })
    }
}

fn possible_value(value: &clap::builder::PossibleValue) -> Candidate {
    Candidate::new(value.get_name(), value.get_help().map(ToString::to_string).unwrap_or_default())
}

fn takes_files(argument: &Arg) -> bool {
    let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    let mut names = argument.get_value_names().into_iter().flatten();
    is_path || names.any(|name| FILES.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    #[test]
    fn each_row_is_of_an_argument() {
        let knee = Cli::command();
        let mut verbs = vec![(String::new(), &knee)];
        let mut all: Vec<(String, String)> = Vec::new();
        while let Some((path, verb)) = verbs.pop() {
            let below = verb.get_subcommands();
            verbs.extend(
                below.map(|one| (format!("{path} {}", one.get_name()).trim().to_string(), one)),
            );
            let names = verb.get_arguments().map(|one| one.get_id().to_string());
            all.extend(names.map(|name| (path.clone(), name)));
        }
        for (verb, names, _) in KINDS {
            for name in *names {
                let has = |(path, known): &(String, String)| {
                    (verb.is_empty() || path == verb) && known == name
                };
                assert!(all.iter().any(has), "knee {verb}: no argument is {name}");
            }
        }
    }
}
