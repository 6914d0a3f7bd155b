//! What manual pages say of a verb besides its help: exit statuses, files, environment variables, and where to read on.

use super::GROUPS;
use crate::guides;

/// A file or an environment variable.
pub struct Entry {
    pub name: &'static str,
    pub text: &'static str,
    /// The verbs that it concerns, also those below them; none where it concerns all.
    verbs: &'static [&'static str],
}

impl Entry {
    const fn of_all(name: &'static str, text: &'static str) -> Entry {
        Entry { name, text, verbs: &[] }
    }

    const fn of(name: &'static str, verbs: &'static [&'static str], text: &'static str) -> Entry {
        Entry { name, text, verbs }
    }

    /// Whether a verb's page has it. The page of knee itself, whose path is empty, has all.
    pub fn concerns(&self, path: &str) -> bool {
        let is_below = |verb: &&str| {
            path.strip_prefix(*verb).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        path.is_empty() || self.verbs.is_empty() || self.verbs.iter().any(is_below)
    }
}

/// Verbs that make knee measure on this host.
const MEASURING: &[&str] = &[
    "run",
    "fleet chunk",
    "compare fragile",
    "bisect",
    "gate",
    "watch",
    "explain",
    "doctor verdicts",
];
/// Verbs that compile a user's file.
const COMPILING: &[&str] = &["run", "explain", "check", "simulate", "conflicts", "fleet chunk"];

/// The files that knee reads and writes.
pub const FILES: &[Entry] = &[
    Entry::of_all(
        "~/.local/share/knee/records",
        "The records, a folder each. --records and $KNEE_RECORDS name another folder.",
    ),
    Entry::of(
        "~/.config/knee/defaults.toml",
        &["run"],
        "Defaults for flags: a key for each flag, such as blocks = 10.",
    ),
    Entry::of_all(
        "~/.local/state/knee/HOST",
        "The journals of what a running knee changed on this host. After a kill, the next knee undoes it.",
    ),
    Entry::of_all(
        "~/.cache/knee",
        "What knee can compute again, such as the index of all records. It may be deleted.",
    ),
    Entry::of("~/.cache/knee/own-loads", COMPILING, "Compiled loads and locks of users."),
    Entry::of(
        "~/.cache/knee/kernels",
        &["kernel", "run", "bisect", "watch", "conflicts", "explain"],
        "Kernels that knee built, and the logs of their builds.",
    ),
    Entry::of(
        "~/.cache/knee/bisect",
        &["bisect", "gate", "watch"],
        "Source trees and builds of bisections, gates and lines.",
    ),
    Entry::of(
        "/var/lib/knee",
        &["run"],
        "What `knee run --on metal` keeps between boots of this host.",
    ),
];

/// The environment variables that knee reads.
pub const ENVIRONMENT: &[Entry] = &[
    Entry::of_all("KNEE_RECORDS", "The folder of the records. --records comes before it."),
    Entry::of_all(
        "KNEE_PAGER, PAGER",
        "The pager of long texts on a terminal, the first that is set; empty or cat for none. By default less.",
    ),
    Entry::of_all("LESS", "Options of less. Where it is unset, knee sets FRX."),
    Entry::of(
        "KNEE_SSH",
        &["run", "fleet"],
        "The command that connects to hosts, instead of ssh: its words are split as by a shell.",
    ),
    Entry::of_all("XDG_DATA_HOME", "Instead of ~/.local/share."),
    Entry::of_all("XDG_CONFIG_HOME", "Instead of ~/.config."),
    Entry::of_all("XDG_CACHE_HOME", "Instead of ~/.cache."),
    Entry::of_all("XDG_STATE_HOME", "Instead of ~/.local/state."),
    Entry::of_all("HOME", "The home folder; where it is unset, that of /etc/passwd."),
    Entry::of_all("NO_COLOR", "No colours, if it is not empty. --color comes before it."),
    Entry::of_all(
        "CLICOLOR_FORCE",
        "Colours also where output is no terminal, unless it is empty or 0.",
    ),
    Entry::of_all("TERM", "dumb for plain lines."),
    Entry::of(
        "RUSTUP_HOME",
        &["gate"],
        "Where rustup keeps compilers, instead of ~/.rustup: builds of others are made anew.",
    ),
    Entry::of(
        "TMPDIR",
        MEASURING,
        "The folder for temporary files, where workloads also work unless --dir names another. By default /tmp.",
    ),
    Entry::of_all("PATH", "Where knee looks for the programs that it starts."),
    Entry::of("CC, CXX", COMPILING, "The compilers of files in C and in C++, with their options."),
    Entry::of(
        "GOFLAGS",
        &["gate"],
        "Options of go, to which knee adds the layout of the code that it links.",
    ),
    Entry::of_all("SUDO_UID", "As root: the user who may also own what knee reads and starts."),
    Entry::of(
        "DISPLAY, WAYLAND_DISPLAY",
        &["serve", "report"],
        "Whether there is a screen for a browser.",
    ),
    Entry::of(
        "SLURM_JOB_ID, SLURM_JOB_PARTITION, SLURM_RESTART_COUNT, SLURMD_NODENAME",
        &["fleet", "run"],
        "The job of Slurm that measures a chunk, and its node.",
    ),
];

const DONE: &str = "0 success; 2 knee could not do it; 130 interrupted.";
const MEASURED: &str = "0 success; 1 some runs failed; 2 knee could not do it; 130 interrupted, finished runs are kept.";

/// Begins the paragraph of a long help that names exit statuses.
pub const STATUSES_OF: &str = "Exit status: ";

/// Exit statuses of verbs whose own text does not say them; of all others, `DONE`.
const STATUSES: &[(&str, &str)] = &[
    (
        "run",
        "0 success; 1 some runs failed, or something was left behind on the host; 2 knee could not do it; 3 a verdict \
         that --fail-if names; 130 interrupted, finished runs are kept.",
    ),
    (
        "compare",
        "0 success; 2 knee could not do it; 3 a verdict that --fail-if names; 130 interrupted.",
    ),
    ("compare fragile", MEASURED),
    ("bisect screen", MEASURED),
    (
        "bisect series",
        "0 success; 1 some patches could not be built or measured; 2 knee could not do it; 130 interrupted, --resume goes on.",
    ),
    (
        "explain",
        "0 success; 1 some runs failed, or a ledger is refused; 2 knee could not do it; 130 interrupted, finished runs are kept.",
    ),
    (
        "kernel boot",
        "0 the command succeeded; 1 it failed; 2 the kernel could not be booted; 130 interrupted.",
    ),
    (
        "check",
        "0 everything holds; 1 something is WRONG, or a mutant survived; 2 knee could not do it; 3 nothing is wrong, and \
         something was not checked; 130 interrupted.",
    ),
    (
        "doctor verdicts",
        "0 both rates are within their targets; 1 one is not; 2 knee could not do it; 130 interrupted.",
    ),
    (
        "watch check",
        "0 no confirmed change for the worse is open; 2 knee could not do it; 3 one is open.",
    ),
    (
        "bisect replay",
        "0 a commit is named and confirmed; 1 a set, several changes, or not confirmed; 2 the bisection failed or was \
         refused; 3 not reproduced; 130 interrupted.",
    ),
    (
        "watch",
        "0 success; 1 some commits have no point; 2 knee could not do it; 3 watch check: a change is open; 130 interrupted.",
    ),
    (
        "fleet",
        "0 success; 1 some runs failed, or a chunk is busy; 2 knee could not do it; 130 interrupted, whole blocks are kept.",
    ),
];

/// The exit statuses of a verb, as a sentence that `knee VERB --help` would have: `0 success; 2 …`.
pub fn statuses(path: &str) -> &'static str {
    STATUSES.iter().find(|(verb, _)| *verb == path).map_or(DONE, |(_, text)| text)
}

/// Guides about a verb, besides the one of its name.
const GUIDES: &[(&str, &[&str])] = &[
    ("", &["tour", "glossary", "methodology", "safety"]),
    ("run", &["experiments", "commands", "servers", "own-loads", "kernels", "results"]),
    ("kernel", &["building-kernels", "kernels"]),
    ("doctor", &["running", "safety"]),
    ("compare", &["comparisons"]),
    ("scale", &["scaling"]),
    ("watch", &["odometer"]),
    ("explain", &["ledger"]),
    ("top", &["running"]),
    ("check", &["own-lock", "memory-models", "kernel-files", "algorithms"]),
    ("simulate", &["own-lock", "simulator", "replays", "predict"]),
    ("new", &["own-loads", "own-lock"]),
    ("list", &["run"]),
    ("show", &["results"]),
    ("report", &["reports"]),
    ("serve", &["reports"]),
    ("record", &["importing", "record"]),
];

/// The names of the guides about a verb, for `knee help NAME`.
pub fn guides(path: &str) -> Vec<&'static str> {
    let verb = path.split(' ').next().unwrap_or_default();
    let last = path.rsplit(' ').next().unwrap_or_default();
    let mut names: Vec<&str> =
        [verb, last].iter().filter_map(|name| Some(guides::named(name)?.name())).collect();
    let more = GUIDES.iter().filter(|(of, _)| *of == verb).flat_map(|(_, names)| *names);
    names.extend(more);
    let mut seen = Vec::new();
    names.retain(|name| {
        let is_new = !seen.contains(name);
        seen.push(name);
        is_new
    });
    names
}

/// The verbs of a verb's group.
pub fn neighbours(path: &str) -> impl Iterator<Item = &'static str> {
    let verb = path.split(' ').next().unwrap_or_default().to_string();
    let group = GROUPS.iter().find(|(_, verbs)| verbs.contains(&verb.as_str()));
    group.into_iter().flat_map(|(_, verbs)| *verbs).copied().filter(move |one| *one != verb)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    #[test]
    fn tables_name_verbs_and_guides_that_exist() {
        let knee = Cli::command();
        let is_verb = |path: &str| {
            path.split_whitespace()
                .try_fold(&knee, |above, word| above.find_subcommand(word))
                .is_some()
        };
        let of_entries = FILES.iter().chain(ENVIRONMENT).flat_map(|entry| entry.verbs).copied();
        let of_tables =
            STATUSES.iter().map(|(verb, _)| *verb).chain(GUIDES.iter().map(|(verb, _)| *verb));
        for path in of_entries.chain(of_tables) {
            assert!(is_verb(path), "{path}");
        }
        for name in GUIDES.iter().flat_map(|(_, names)| *names) {
            assert!(crate::guides::named(name).is_some(), "{name}");
        }
    }
}
