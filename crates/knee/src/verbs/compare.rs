//! `knee compare`: how the variants of a record, or several records, differ, and how sure
//! each verdict is.

use std::path::Path;
use std::process::ExitCode;

use analysis::{Arm, CompareOptions, Comparison, compare, rounded};
use answers::as_json;
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use host::terminal::{hint, print};
use host::{paths, unknown, unknown_of};
use pages::{Page, View, ViewFlags};
use records::{Experiment, Opened};
use reports::{Detail, Layout, quoted};
use runner::history;
use store::Store;
use text::Style;

use crate::browser;
use crate::flags::FailIf;
use crate::named::{NamedRecords, each_variant, kernel_release};

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
    #[command(flatten)]
    view: ViewFlags,
    /// Print a table in another layout than verdicts [default: the experiment's]
    #[arg(long, value_enum, conflicts_with_all = ["view", "json"])]
    layout: Option<Layout>,
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
    #[arg(long, hide_short_help = true)]
    pub force: bool,
}

/// Prints the comparison; for records with the same variants, one comparison per variant.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    let mut whole: Option<Page> = None;
    for what in each_variant(&arguments.what, store) {
        let (comparison, page) = compare_named(arguments, &what, store)?;
        let own = arguments.fail_if.status(&comparison);
        status = if own == ExitCode::SUCCESS { status } else { own };
        whole = match (whole, page) {
            (Some(first), Some(page)) => Some(first.and(page)),
            (first, page) => first.or(page),
        };
    }
    if let Some(page) = whole {
        arguments.view.print_page(|| Ok(page))?;
    }
    if arguments.view.view() == View::Terminal {
        hint(format_args!("as a page: {}", page_command(&arguments.what, store.root())));
    }
    Ok(status)
}

/// The comparison with its page, unless it is printed already: as JSON or in a layout.
fn compare_named(
    arguments: &Arguments,
    what: &[String],
    store: &Store,
) -> Result<(Comparison, Option<Page>)> {
    let named = NamedRecords::resolve(what, store)?;
    let arms = named.arms();
    let experiment = &named.records[0].record.experiment;
    let view = arguments.view.view();
    let layout = match arguments.layout {
        None if view == View::Terminal => layout(experiment)?,
        asked => asked,
    };
    ensure!(
        arms.len() > 1 || view == View::Json || !needs_pairs(layout),
        "{} has no variants: measure some with `knee run --variant`, or name two records",
        named.records[0].record.id
    );
    let comparison = arguments.question.compared(&named, store)?;
    let words = host::command_line();
    let again = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let records: Vec<&Opened> = named.records.iter().collect();
    let page = match layout {
        Some(layout) => {
            let style = Style::for_stdout();
            let mut text = reports::comparison(&comparison, layout, &again, style);
            text.extend(records.iter().map(|record| reports::warnings_about_runs(record, style)));
            print(text)?;
            None
        }
        None if view == View::Json => {
            print(as_json(&comparison)?)?;
            None
        }
        None => Some(pages::comparison(&comparison, &records, &again)),
    };
    Ok((comparison, page))
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

/// The layout that an experiment sets; none for verdicts.
pub fn layout(experiment: &Experiment) -> Result<Option<Layout>> {
    const VERDICTS: &str = "verdicts";
    let set = experiment.compare.layout.as_deref().filter(|name| *name != VERDICTS);
    let Some(name) = set else { return Ok(None) };
    let layouts = || Layout::value_variants().iter().filter_map(|l| l.to_possible_value());
    let names = layouts().map(|value| value.get_name().to_string());
    let names: Vec<String> = [VERDICTS.to_string()].into_iter().chain(names).collect();
    Layout::from_str(name, false).map(Some).ok().with_context(|| {
        unknown_of("layout", name, &names.iter().map(String::as_str).collect::<Vec<_>>())
    })
}

/// Whether a layout shows nothing without two variants.
fn needs_pairs(layout: Option<Layout>) -> bool {
    matches!(layout, None | Some(Layout::Lkp | Layout::Matrix))
}

/// The comparison of all variants of one record.
pub fn of_record(record: &Opened) -> Result<Comparison> {
    of_record_by(record, None)
}

/// The comparison of all variants of one record by this metric, or by the experiment's.
fn of_record_by(record: &Opened, primary: Option<&String>) -> Result<Comparison> {
    let variants = record.record.variants.iter().map(|variant| variant.name.as_str());
    let mut arms: Vec<Arm> = variants.map(|name| Arm { name, record, variant: name }).collect();
    if arms.is_empty() {
        arms.push(Arm { name: kernel_release(record), record, variant: "" });
    }
    let metrics = record.record.experiment.compare.shown.clone();
    let primary = primary.cloned();
    let options = CompareOptions { primary, metrics, ..CompareOptions::default() };
    compare(&arms, &options).map_err(anyhow::Error::msg)
}

/// The page with the curves of a record: of these metrics, or of what decides. Curves of variants stand together.
pub fn curves_page(record: &Opened, metrics: &[String]) -> Result<Page> {
    if record.record.variants.len() < 2 {
        let detail = Detail { metrics: metrics.to_vec(), ..Detail::default() };
        return Ok(pages::record(record, &detail, ""));
    }
    let page = |metric| Ok(pages::comparison(&of_record_by(record, metric)?, &[record], ""));
    match metrics {
        [] => page(None),
        [first, others @ ..] => others
            .iter()
            .try_fold(page(Some(first))?, |all, metric| Ok(all.and(page(Some(metric))?))),
    }
}

/// The page that a measurement ends with: of its variants, or of its curves.
pub fn conclusion_page(record: &Opened) -> Result<Page> {
    if record.record.variants.len() < 2 {
        return Ok(pages::record(record, &Detail::default(), ""));
    }
    Ok(pages::comparison(&of_record(record)?, &[record], ""))
}

/// Prints what a measurement ends with: the comparison of its variants, or its curves.
pub fn print_conclusion(record: &Opened, view: ViewFlags) -> Result<()> {
    let layout = layout(&record.record.experiment)?.filter(|_| view.view() == View::Terminal);
    let Some(layout) = layout.filter(|_| record.record.variants.len() > 1 || !needs_pairs(layout))
    else {
        return view.print_page(|| conclusion_page(record));
    };
    let comparison = of_record(record)?;
    let style = Style::for_stdout();
    let text = reports::comparison(&comparison, layout, "", style);
    let warnings = reports::warnings_about_runs(record, style);
    print(format!("{}\n{text}{warnings}", reports::header(record, style)))
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
        bail!("{}", unknown("metric of these runs", name, known, "knee list metrics"));
    }
    Ok(())
}
