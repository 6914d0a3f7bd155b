//! `knee compare`: how the variants of a record, or several records, differ, and how sure
//! each verdict is.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::{Arm, CompareOptions, Comparison, compare, join_sessions, rounded};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use host::terminal::{hint, print};
use host::{nearest, paths};
use plan::Side;
use records::{Experiment, Opened, Record};
use reports;
use reports::{Layout, quoted};
use runner::history;
use setup::foreign::Foreign;
use store::Store;
use text::Style;

use super::find::{find, open_foreign};
use crate::browser;
use crate::flags::FailIf;

/// What to compare, and how to show it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Variants of the last record; or records (`last`, a label, an id or its start, a directory), as
    /// RECORD:VARIANT if a record has several. Records with the same variants are compared variant
    /// by variant. Sessions taken in turn: A1,A2,A3,A4 B1,B2,B3,B4. The first is the baseline. A
    /// single record: all its variants [default: last]
    what: Vec<String>,
    #[command(flatten)]
    question: CompareQuestion,
    /// Layout of the report [default: the experiment's, or verdicts]
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// Print JSON (as --layout json)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fail_if: FailIf,
}

/// By what variants are judged.
#[derive(clap::Args, Debug, Default)]
pub struct CompareQuestion {
    /// The metric to judge by, then others to show [default: the experiment's]
    #[arg(long = "metric", value_name = "NAME", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Smallest change that matters [default: the experiment's, or 2%]
    #[arg(long, value_name = "PERCENT", value_parser = records::parse::percent)]
    smallest_effect: Option<f64>,
    /// Compare even if workload versions or parameters differ
    #[arg(long)]
    pub force: bool,
}

/// Prints the comparison; for records with the same variants, one comparison per variant.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    for what in each_variant(&arguments.what, store) {
        let own = compare_named(arguments, &what, store)?;
        status = if own == ExitCode::SUCCESS { status } else { own };
    }
    Ok(status)
}

/// The words; if they name several records with the same variants, the words once per variant,
/// each with `:VARIANT` appended.
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

fn compare_named(arguments: &Arguments, what: &[String], store: &Store) -> Result<ExitCode> {
    let named = NamedRecords::resolve(what, store)?;
    let arms = named.arms();
    let experiment = &named.records[0].record.experiment;
    let layout = match arguments.layout {
        _ if arguments.json => Layout::Json,
        Some(layout) => layout,
        None => layout(experiment)?,
    };
    ensure!(
        arms.len() > 1 || !needs_pairs(layout),
        "{} has no variants: measure some with `knee run --variant`, or name two records",
        named.records[0].record.id
    );
    let comparison = arguments.question.compared(&named, store)?;
    let again =
        host::command_line().iter().map(|word| reports::quoted(word)).collect::<Vec<_>>().join(" ");
    let style = Style::for_stdout();
    let mut text = reports::comparison(&comparison, layout, &again, style);
    if layout != Layout::Json {
        text.extend(named.records.iter().map(|record| reports::doubts_of_runs(record, style)));
    }
    print(text)?;
    if layout != Layout::Json {
        hint(format_args!("as a page: {}", page_command(what, store.root())));
    }
    Ok(arguments.fail_if.status(&comparison))
}

/// The command that writes and, on a screen, opens the page of these records, which lie in the folder `records`.
pub fn page_command(what: &[String], records: &Path) -> String {
    let what = if what.is_empty() { vec!["last".to_string()] } else { what.to_vec() };
    let words: Vec<String> = what.iter().map(|word| quoted(word)).collect();
    let is_default = paths::records().is_ok_and(|default| default == records);
    let elsewhere = (!is_default).then(|| quoted(&records.to_string_lossy()));
    let elsewhere = elsewhere.map(|folder| format!("--records {folder} ")).unwrap_or_default();
    let open = if browser::has_screen() { " --open" } else { "" };
    format!("knee {elsewhere}report {} --html page.html{open}", words.join(" "))
}

impl CompareQuestion {
    /// The metrics that were asked for, each of which some run has.
    pub fn metrics(&self, arms: &[Arm]) -> Result<&[String]> {
        check_metrics(&self.metrics, arms)?;
        Ok(&self.metrics)
    }

    /// The question as arguments.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.metrics.is_empty() {
            words.extend(["--metric".to_string(), self.metrics.join(",")]);
        }
        if let Some(share) = self.smallest_effect {
            words.extend([
                "--smallest-effect".to_string(),
                format!("{}%", rounded(100.0 * share, 6)),
            ]);
        }
        words.extend(self.force.then(|| "--force".to_string()));
        words
    }

    /// The comparison of these records, with earlier ones that show how far the host drifts.
    pub fn compared(&self, named: &NamedRecords, store: &Store) -> Result<Comparison> {
        let arms = named.arms();
        let shown = &named.records[0].record.experiment.compare.shown;
        let mut metrics = self.metrics(&arms)?.iter().cloned();
        let options = CompareOptions {
            primary: metrics.next(),
            metrics: metrics.chain(shown.clone()).collect(),
            smallest_effect: self.smallest_effect,
            force: self.force,
            past: past(named, store)?,
        };
        compare(&arms, &options).map_err(anyhow::Error::msg)
    }
}

/// Earlier records of the same host and loads, where several records are compared: they show how
/// far the host drifts.
fn past(named: &NamedRecords, store: &Store) -> Result<Vec<Opened>> {
    match &named.records[..] {
        [one, _, ..] => history::past_records(&one.record, store),
        _ => Ok(Vec::new()),
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
fn kernel_release(record: &Opened) -> &str {
    record.record.host.kernel_release.as_deref().unwrap_or("this host")
}

/// The layout that an experiment sets.
pub fn layout(experiment: &Experiment) -> Result<Layout> {
    let Some(name) = &experiment.compare.layout else { return Ok(Layout::Verdicts) };
    let layouts = || Layout::value_variants().iter().filter_map(|l| l.to_possible_value());
    let names: Vec<String> = layouts().map(|value| value.get_name().to_string()).collect();
    Layout::from_str(name, false).ok().with_context(|| {
        let hint = nearest(name, names.iter().map(String::as_str));
        format!("there is no layout '{name}'{hint}; the layouts are {}", names.join(", "))
    })
}

/// Whether a layout shows nothing without two variants.
pub fn needs_pairs(layout: Layout) -> bool {
    matches!(layout, Layout::Verdicts | Layout::Lkp | Layout::Matrix | Layout::Markdown)
}

/// The comparison of all variants of one record.
pub fn of_record(record: &Opened) -> Result<Comparison> {
    let variants = record.record.variants.iter().map(|variant| variant.name.as_str());
    let mut arms: Vec<Arm> = variants.map(|name| Arm { name, record, variant: name }).collect();
    if arms.is_empty() {
        arms.push(Arm { name: kernel_release(record), record, variant: "" });
    }
    let metrics = record.record.experiment.compare.shown.clone();
    let options = CompareOptions { metrics, ..CompareOptions::default() };
    compare(&arms, &options).map_err(anyhow::Error::msg)
}

/// The comparison of all variants of one record as text, below the record's header.
pub fn shown(record: &Opened, comparison: &Comparison, style: Style) -> Result<String> {
    let layout = layout(&record.record.experiment)?;
    let text = reports::comparison(comparison, layout, "", style);
    let doubts = reports::doubts_of_runs(record, style);
    Ok(format!("{}\n{text}{doubts}", reports::header(record, style)))
}

/// The records named on the command line, and the arms to compare.
pub struct NamedRecords {
    /// Each record once.
    pub records: Vec<Opened>,
    /// Index of the record, variant, name.
    arms: Vec<(usize, String, String)>,
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
                    Ok(NamedRecords { arms: arms.collect(), records: vec![last] })
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
        NamedRecords { arms, records: vec![record] }
    }

    fn from_records(what: &[String], last: Option<&Opened>, store: &Store) -> Result<NamedRecords> {
        let mut named = NamedRecords { records: Vec::new(), arms: Vec::new() };
        let mut known: Vec<Vec<PathBuf>> = Vec::new();
        for name in what {
            let (folders, variant) =
                records_and_variant(name, store).map_err(|why| unknown(name, last, why))?;
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
        Ok(named)
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
        let arms = self.arms.iter();
        arms.map(|(index, variant, name)| Arm { name, record: &self.records[*index], variant })
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
        (Some(variant), _) => bail!(
            "{} has no variant '{variant}'{}; it has {}",
            record.record.id,
            nearest(variant, names.iter().copied()),
            if names.is_empty() { "none".to_string() } else { names.join(", ") }
        ),
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
fn unknown(name: &str, last: Option<&Opened>, why: anyhow::Error) -> anyhow::Error {
    if name.contains('/') || name.ends_with(".data") {
        return why;
    }
    let variants = last.map(|last| &last.record.variants).into_iter().flatten();
    let variants: Vec<&str> = variants.map(|variant| variant.name.as_str()).collect();
    let near = nearest(name, variants.iter().copied());
    why.context(format!("'{name}' is neither a variant of the last record{near} nor a record"))
}

/// Refuses metrics that no run has.
fn check_metrics(asked: &[String], arms: &[Arm]) -> Result<()> {
    for name in asked {
        let runs = || arms.iter().flat_map(|arm| &arm.record.runs);
        if runs().any(|run| run.value(name).is_some()) {
            continue;
        }
        let known: std::collections::BTreeSet<&str> =
            runs().filter_map(|run| run.metrics()).flat_map(|metrics| metrics.keys()).collect();
        let hint = nearest(name, known.into_iter());
        bail!("no run has the metric '{name}'{hint}; `knee list metrics` shows all");
    }
    Ok(())
}
