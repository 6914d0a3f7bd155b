//! What the words of a command line name: experiments, loads, programs, recordings of perf, records and their variants,
//! manual pages. Each verb that takes such words asks here.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use analysis::{Arm, join_sessions};
use anyhow::{Context, Result, bail, ensure};
use host::executables::{in_path, is_executable, own_path};
use host::terminal::talk;
use host::{Limit, given_file, nearest, unknown_of};
use perf_data::recognise;
use plan::{Side, commands, experiments};
use records::{Experiment, Load, Opened, OwnLoad, Record};
use setup::foreign::Foreign;
use store::Store;

use crate::verbs::find::{find, find_exactly, open_foreign};

/// Whether a word names an experiment rather than a load.
pub fn is_experiment(argument: &str) -> bool {
    // The path of a directory names a record.
    let is_file = argument.contains('/')
        && !Path::new(argument).is_dir()
        && !own_loads::is_own_load(argument);
    argument.ends_with(".toml") || is_file || experiments::built_in(argument).is_some()
}

/// Whether a word names a load: a workload, a command that comes with knee, or a file in C.
pub fn is_load(word: &str) -> bool {
    word.starts_with(commands::PREFIX)
        || own_loads::is_own_load(word)
        || plan::workload(word).is_ok()
}

/// The load that a word names.
pub fn load(word: &str) -> Result<Load> {
    if own_loads::is_own_load(word) {
        let file = std::path::absolute(word).with_context(|| format!("looking for {word}"))?;
        return Ok(Load::new(OwnLoad { file, ..OwnLoad::default() }));
    }
    if word.starts_with(commands::PREFIX) {
        return commands::read(word).map(|_| Load::new(word.to_string()));
    }
    let workload = plan::workload(word);
    let workload = workload.map_err(|why| own_loads::why_no_load(word).unwrap_or(why))?;
    Ok(Load::new(workload.name.to_string()))
}

/// Whether a word names something to measure, rather than a record.
pub fn is_measurable(word: &str) -> bool {
    is_experiment(word) || is_load(word)
}

/// The files, if these words name recordings; an error if only some of them do.
pub fn recordings(words: &[String]) -> Result<Option<Vec<PathBuf>>> {
    let (recordings, others): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| is_recording(Path::new(word)));
    for word in others.iter().filter(|word| word.ends_with(".data")) {
        given_file::open(Path::new(word), ANY)
            .with_context(|| format!("reading the recording {word}"))?;
        let is_file = Path::new(word).is_file();
        ensure!(
            !is_file,
            "{word} is not a recording of perf: it does not begin like a perf.data file"
        );
    }
    match (recordings.is_empty(), others.first()) {
        (true, _) => Ok(None),
        (false, None) => Ok(Some(words.iter().map(PathBuf::from).collect())),
        (false, Some(other)) => {
            given_file::open(Path::new(other), ANY)?;
            bail!("{other} is not a perf.data file: compare perf.data only with perf.data")
        }
    }
}

/// Recordings of days have many GB.
const ANY: Limit = Limit { bytes: u64::MAX, what: "a recording" };

fn is_recording(file: &Path) -> bool {
    let mut start = Vec::new();
    let opened = given_file::open(file, ANY).ok();
    let read = opened.map(|file| file.take(8).read_to_end(&mut start));
    read.is_some_and(|read| read.is_ok()) && recognise(&start)
}

/// Takes the words that start programs, as command lines: all words if one of them is `--` (`is_after_dashes`), and
/// programs named by their path, each with the words after it.
pub fn take_programs(words: &mut Vec<String>, is_after_dashes: bool) -> Result<Vec<String>> {
    let line = |words: &[String]| {
        words.iter().map(|word| reports::quoted(word)).collect::<Vec<_>>().join(" ")
    };
    if is_after_dashes && !words.is_empty() {
        return Ok(vec![line(&std::mem::take(words))]);
    }
    if words.iter().all(|word| starts_program(word) || is_line(word)) {
        return Ok(std::mem::take(words));
    }
    if !words.first().is_some_and(|word| starts_program(word)) {
        return Ok(Vec::new());
    }
    // Words after a program are its arguments, up to the next program.
    let starts: Vec<usize> = (0..words.len()).filter(|at| starts_program(&words[*at])).collect();
    ensure!(
        starts.len() <= 2,
        "{} programs among the words: which is an argument of which? Quote each command: knee \
         explain './old 1' './new 1'",
        starts.len()
    );
    let is_missing = |word: &&String| word.starts_with("./") && !Path::new(word.as_str()).exists();
    for word in words.iter().filter(is_missing) {
        talk(format_args!("there is no {word}: it is taken for an argument of {}", words[0]));
    }
    let words = std::mem::take(words);
    let second = starts.get(1).copied().unwrap_or(words.len());
    let (first, rest) = words.split_at(second);
    Ok([first, rest].into_iter().filter(|words| !words.is_empty()).map(line).collect())
}

/// Whether a word is the path of a program, or a line that starts with one.
fn starts_program(word: &str) -> bool {
    let is_program = |path: &str| path.contains('/') && is_executable(Path::new(path));
    is_program(word) || word.split_whitespace().next().is_some_and(is_program)
}

/// Whether a word is a line that starts with the name of a program in PATH: "taskset -c 0 ./prog".
fn is_line(word: &str) -> bool {
    let path = own_path();
    word.split_once(' ').is_some_and(|(program, _)| in_path(program, &path).is_some())
}

/// Whether a word is the bare name of a program in PATH, as "gzip".
pub fn is_program_name(word: &str) -> bool {
    !word.is_empty() && !word.contains('/') && is_line(&format!("{word} "))
}

/// What `knee show` shows.
pub enum Shown {
    /// The record in this folder.
    Record(PathBuf),
    /// The manual page of a load, lock, host, experiment or another name, or what a file describes.
    Page,
}

/// What a word shows. A record wins if the word is its path, label or whole id; then comes the manual page, if
/// `has_page` knows one; then the record whose id starts with the word.
pub fn shown(word: &str, has_page: impl Fn(&str) -> bool, store: &Store) -> Result<Shown> {
    let path = Path::new(word);
    let has_ending = word.ends_with(".toml") || own_loads::is_own_load(word);
    let is_file = has_ending || (word.contains('/') && path.is_file());
    if is_file && !path.is_dir() {
        return Ok(Shown::Page);
    }
    if let Some(folder) = find_exactly(word, store)? {
        return Ok(Shown::Record(folder));
    }
    if has_page(word) {
        return Ok(Shown::Page);
    }
    find(word, store).map(Shown::Record)
}

/// The words; if they name several records with the same variants, the words once per variant, each with `:VARIANT`
/// appended.
pub fn each_variant(what: &[String], store: &Store) -> Vec<Vec<String>> {
    if what.len() < 2 {
        return vec![what.to_vec()];
    }
    let variants = |name: &String| -> Option<Vec<String>> {
        let (folder, variant) = record_and_variant(name, store).ok()?;
        let record = store::read_record(&folder).ok().filter(|_| variant.is_none())?;
        Some(record.variants.into_iter().map(|variant| variant.name).collect())
    };
    let variant_lists: Vec<Option<Vec<String>>> = what.iter().map(variants).collect();
    match &variant_lists[..] {
        [Some(first), _, ..]
            if first.len() > 1 && variant_lists.iter().all(|v| v.as_ref() == Some(first)) =>
        {
            let words = |variant| what.iter().map(|name| format!("{name}:{variant}")).collect();
            first.iter().map(words).collect()
        }
        _ => vec![what.to_vec()],
    }
}

/// What a record or one of its variants measured, to be measured again on this host.
pub fn measured(name: &str, store: &Store) -> Result<Foreign<Side>> {
    let (folder, variant) = record_and_variant(name, store)?;
    open_foreign(&folder, store)?.try_map(|Opened { record, .. }| side(record, variant))
}

fn side(record: Record, variant: Option<&str>) -> Result<Side> {
    check_here(&record)?;
    let variants: Vec<&str> = record.variants.iter().map(|variant| variant.name.as_str()).collect();
    let chosen = match (variant, &variants[..]) {
        (None, [] | [_]) => record.variants.clone(),
        (Some(name), known) if known.contains(&name) => {
            record.variants.iter().filter(|variant| variant.name == name).cloned().collect()
        }
        (_, known) => bail!(
            "{} has the variants {}: name one, as in {}:{}",
            record.id,
            known.join(", "),
            record.id,
            known.first().unwrap_or(&"NAME")
        ),
    };
    let name = variant.map_or(record.id.clone(), |variant| format!("{}:{variant}", record.id));
    let experiment = Experiment { variants: chosen, exclusions: Vec::new(), ..record.experiment };
    Ok(Side { name, experiment })
}

/// Refuses a record that cannot be measured again on this host.
pub fn check_here(record: &Record) -> Result<()> {
    ensure!(record.source.is_none(), "{} is imported: only its numbers are known", record.id);
    let here = probes::host(Path::new("/"));
    for (what, then, now) in [
        ("host", &record.host.hostname, &here.hostname),
        ("kernel", &record.host.kernel_release, &here.kernel_release),
        ("build of the kernel", &record.host.kernel_version, &here.kernel_version),
    ] {
        let in_guest = record.hypervisor.is_some() && what != "host";
        ensure!(
            in_guest || then == now,
            "{} was measured on another {what} ({}; this is {}): measure both in one experiment, such \
             as guests of both kernels (--kernel)",
            record.id,
            then.as_deref().unwrap_or("unknown"),
            now.as_deref().unwrap_or("unknown")
        );
    }
    Ok(())
}

/// The kernel release, which names a record without variants: it may be compared with a record
/// of another kernel.
pub fn kernel_release(record: &Opened) -> &str {
    record.record.host.kernel_release.as_deref().unwrap_or("this host")
}

/// The records named on the command line, and the arms to compare.
pub struct NamedRecords {
    /// Each record once.
    pub records: Vec<Opened>,
    /// Index of the record, variant, name.
    arms: Vec<(usize, String, String)>,
    /// What pages call the arms: labels where records have some.
    titles: Vec<String>,
}

impl NamedRecords {
    /// Finds the records and variants that the words name.
    pub fn resolve(what: &[String], store: &Store) -> Result<NamedRecords> {
        let open = |which: &str| store::open(&find(which, store)?);
        match what {
            [] => Ok(NamedRecords::all_variants(open("last")?)),
            [one] => match open(one) {
                Ok(record) => Ok(NamedRecords::all_variants(record)),
                Err(why) => bail!("{why:#}; to compare variants, name two"),
            },
            several => match open("last") {
                Ok(last) if several.iter().all(|name| has_variant(&last, name)) => {
                    let arms = several.iter().map(|name| (0, name.clone(), name.clone()));
                    let arms = arms.collect();
                    Ok(NamedRecords { arms, titles: several.to_vec(), records: vec![last] })
                }
                last => NamedRecords::from_records(several, last.ok().as_ref(), store),
            },
        }
    }

    /// All variants of a record.
    pub fn all_variants(record: Opened) -> NamedRecords {
        let names = record.record.variants.iter().map(|v| (0, v.name.clone(), v.name.clone()));
        let mut arms: Vec<_> = names.collect();
        if arms.is_empty() {
            arms.push((0, String::new(), kernel_release(&record).to_string()));
        }
        let titles = arms.iter().map(|(_, _, name)| name.clone()).collect();
        NamedRecords { arms, titles, records: vec![record] }
    }

    fn from_records(what: &[String], last: Option<&Opened>, store: &Store) -> Result<NamedRecords> {
        let mut named = NamedRecords { records: Vec::new(), arms: Vec::new(), titles: Vec::new() };
        let mut known: Vec<Vec<PathBuf>> = Vec::new();
        for name in what {
            let (folders, variant) =
                records_and_variant(name, store).map_err(|why| no_variant(name, last, why))?;
            let index = match known.iter().position(|known| *known == folders) {
                Some(index) => index,
                None => {
                    let sessions = folders.iter().map(|folder| store::open(folder));
                    let sessions = sessions.collect::<Result<Vec<Opened>>>()?;
                    named.records.push(join_sessions(sessions).map_err(anyhow::Error::msg)?);
                    known.push(folders);
                    known.len() - 1
                }
            };
            let variant = the_variant(&named.records[index], variant, name)?;
            named.arms.push((index, variant, name.clone()));
        }
        named.titles = named.arms.iter().map(|arm| named.title(arm)).collect();
        let once: BTreeSet<&String> = named.titles.iter().collect();
        if once.len() < named.titles.len() {
            named.titles = named.arms.iter().map(|(_, _, name)| name.clone()).collect();
        }
        Ok(named)
    }

    /// What a page calls an arm: the label of its record if it has one, its id instead of a path, else the word.
    fn title(&self, (index, variant, name): &(usize, String, String)) -> String {
        let record = &self.records[*index].record;
        let title = match record.label.as_str() {
            _ if name.contains(',') => return name.clone(),
            "" if name.contains('/') => &record.id,
            "" => return name.clone(),
            label => label,
        };
        if record.variants.len() > 1 { format!("{title}:{variant}") } else { title.to_string() }
    }

    /// Words that will name the same later, where `what` may say `last`. Records that are named by a path keep it.
    pub fn lasting_words(&self, what: &[String]) -> Vec<String> {
        let keeps = |word: &str| word.contains(['/', ',']);
        match (&self.records[..], what) {
            ([one], []) => vec![one.record.id.clone()],
            ([_], [word]) if keeps(word) => vec![word.clone()],
            ([one], [_]) => vec![one.record.id.clone()],
            _ => {
                let word = |(index, variant, name): &(usize, String, String)| {
                    let record = &self.records[*index].record;
                    match record.variants.len() {
                        _ if keeps(name) => name.clone(),
                        0 | 1 => record.id.clone(),
                        _ => format!("{}:{variant}", record.id),
                    }
                };
                self.arms.iter().map(word).collect()
            }
        }
    }

    pub fn arms(&self) -> Vec<Arm<'_>> {
        let arms = self.arms.iter().zip(&self.titles);
        arms.map(|((index, variant, _), name)| Arm { name, record: &self.records[*index], variant })
            .collect()
    }
}

/// The folders of records that are sessions of one side, separated by commas, and the variant named
/// after the last colon.
fn records_and_variant<'a>(
    name: &'a str,
    store: &Store,
) -> Result<(Vec<PathBuf>, Option<&'a str>)> {
    let Some((first, last)) = name.rsplit_once(',') else {
        return record_and_variant(name, store).map(|(folder, variant)| (vec![folder], variant));
    };
    let (last, variant) = record_and_variant(last, store)?;
    let mut folders =
        first.split(',').map(|one| find(one, store)).collect::<Result<Vec<PathBuf>>>()?;
    folders.push(last);
    Ok((folders, variant))
}

fn has_variant(record: &Opened, variant: &str) -> bool {
    record.record.variants.iter().any(|v| v.name == variant)
}

/// The folder of a record, and the variant named after the last colon. Ids contain no colon.
fn record_and_variant<'a>(name: &'a str, store: &Store) -> Result<(PathBuf, Option<&'a str>)> {
    match (find(name, store), name.rsplit_once(':')) {
        (Ok(folder), _) if folder.is_dir() || !name.contains(':') => Ok((folder, None)),
        (_, Some((record, variant))) => Ok((find(record, store)?, Some(variant))),
        (folder, None) => Ok((folder?, None)),
    }
}

/// The variant that `name` means; an error if the record has several and none is named.
fn the_variant(record: &Opened, variant: Option<&str>, name: &str) -> Result<String> {
    let names: Vec<&str> = record.record.variants.iter().map(|v| v.name.as_str()).collect();
    match (variant, &names[..]) {
        (Some(variant), _) if names.contains(&variant) => Ok(variant.to_string()),
        (Some(variant), _) => {
            let kind = format!("variant of {}", record.record.id);
            bail!("{}", unknown_of(&kind, variant, &names))
        }
        (None, []) => Ok(String::new()),
        (None, [one]) => Ok(one.to_string()),
        (None, several) => {
            bail!(
                "{name} has several variants ({}): name one, as in {name}:{}",
                several.join(", "),
                several[0]
            )
        }
    }
}

/// The error for a name that is no record, with the nearest variant.
fn no_variant(name: &str, last: Option<&Opened>, why: anyhow::Error) -> anyhow::Error {
    if name.contains('/') || name.ends_with(".data") {
        return why;
    }
    let variants = last.map(|last| &last.record.variants).into_iter().flatten();
    let variants: Vec<&str> = variants.map(|variant| variant.name.as_str()).collect();
    let near = nearest(name, variants.iter().copied());
    why.context(format!("no variant of the last record is called \"{name}\"{near}"))
}
