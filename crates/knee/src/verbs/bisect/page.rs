//! The page of a bisection: the answer, where the change may be, and every step.

use analysis::rounded;
use anyhow::{Result, ensure};
use bisection::{Answer, Search};
use bisector::{Commit, Session, Source, StepRuns};
use host::counted;
use pages::{Block, Page, PageKind, PageTable, Section};
use reports::{
    PROBABILITY, Reaching, bisection_brackets, bisection_rests_on, bisection_sentence, quoted,
    value_panel,
};
use store::Store;
use text::table::{Align, Table};

use super::with_report;

/// Commits that are listed with their probability: less probable ones only come first.
const LISTED_LEAST: f64 = 5e-4;
const LISTED_MAX: usize = 20;

/// How to read the tables of a bisection.
const READING: &[&str] = &[
    "A step's runs follow each other at once, in random order where it has several commits.",
    "The mean is geometric. Probabilities are those of all runs together, not of the step alone.",
];

/// What comparisons of blamed commits add to a page.
#[derive(Default)]
pub struct Remarks {
    pub sentences: Vec<String>,
    pub sections: Vec<Section>,
}

/// The page of a bisection by its id: with every step, what was bisected, and how to print it again.
pub fn by_id(which: &str, store: &Store) -> Result<Page> {
    let session = Session::view(bisector::open(which, store)?)?;
    let id = session.bisection.id.clone();
    ensure!(
        session.search().is_some(),
        "bisection {id} has not built its ends yet: knee bisect --resume goes on with it"
    );
    let remarks = Remarks { sentences: session.compared().to_vec(), ..Remarks::default() };
    Ok(with_steps(page(&session, session.answer().as_ref(), remarks), &session))
}

/// A page of a session, and below it every step, what was bisected, and how to print it again.
pub fn with_steps(mut page: Page, session: &Session) -> Page {
    if let Some(search) = session.search() {
        page.sections
            .push(Section::open("Measured", vec![levels(session, search), steps(session)]));
    }
    let id = &session.bisection.id;
    page.facts = facts(session);
    page.again =
        vec![format!("knee report --bisection {id}"), format!("knee bisect log {id} --json")];
    page
}

/// The answer, where the change may be, and what comparisons said.
pub fn page(session: &Session, answer: Option<&Answer>, remarks: Remarks) -> Page {
    let title = format!("{} of {}", session.request.metric, what_ran(session));
    let mut page = Page::new(&title, PageKind::Bisection);
    match answer {
        Some(answer) => with_report(session, answer, |report| {
            page.answers.push(bisection_sentence(report));
            page.answers.extend(culprit(session, answer));
            page.method.push(bisection_rests_on(report));
            if let Answer::Several { brackets } = answer {
                let table = bisection_brackets(report, brackets);
                let table = Block::Table(PageTable::plain("", table, READING));
                page.sections.push(Section::open("Changes", vec![table]));
            }
        }),
        None => page.answers.push(format!(
            "The bisection has not ended: {} after {}. knee bisect --resume goes on with it.",
            counted(session.search().map_or(0, Search::candidates), "candidate"),
            counted(session.search_runs() as usize, "run")
        )),
    }
    page.answers.extend(remarks.sentences);
    let is_one_change = !matches!(answer, Some(Answer::Several { .. }));
    if let Some(search) = session.search().filter(|one| is_one_change && one.are_ends_apart()) {
        let blocks = where_it_may_be(session, search);
        page.sections.push(Section::open("Where the change may be", blocks));
    }
    page.sections.extend(remarks.sections);
    let why = |(commit, why): (&usize, &String)| {
        format!("{}: {why}", session.range.commits[*commit].short())
    };
    let skipped: Vec<String> = session.skipped().iter().map(why).collect();
    if !skipped.is_empty() {
        page.warnings.push(("Not tested".to_string(), skipped));
    }
    page
}

/// The probability of each commit, drawn, and the most probable ones.
fn where_it_may_be(session: &Session, search: &Search) -> Vec<Block> {
    let mut candidates = search.probabilities(&search.posterior());
    candidates.sort_unstable_by_key(|(change, _)| *change);
    let points = candidates.iter().map(|(change, p)| -> Reaching { (*change as u32, *p, None) });
    let lines = vec![("the change".to_string(), points.collect())];
    let drawn = Block::Curves(value_panel(PROBABILITY, &over(session), lines));
    candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut table = Table::new([
        ("number", Align::Right),
        (session.request.source.unit(), Align::Left),
        ("probability", Align::Right),
        ("date", Align::Left),
        ("subject", Align::Left),
    ]);
    let listed = candidates.iter().enumerate().take(LISTED_MAX);
    for (_, (change, p)) in listed.filter(|(place, (_, p))| *place == 0 || *p > LISTED_LEAST) {
        let commit = &session.range.commits[*change];
        table.row(vec![
            change.to_string(),
            commit.short().to_string(),
            format!("{:.2} %", 100.0 * p),
            commit.date.clone(),
            commit.subject.clone(),
        ]);
    }
    let caption = format!("The most probable of {}", counted(candidates.len(), "candidate"));
    vec![drawn, Block::Table(PageTable::plain(&caption, table, READING))]
}

/// The change of each commit that was measured against the good end, with two standard errors of its runs on both sides.
fn levels(session: &Session, search: &Search) -> Block {
    let good = search.builds()[0].mean;
    let mut builds = search.builds().to_vec();
    builds.retain(|build| build.runs > 0 && build.layout == 0);
    builds.sort_unstable_by_key(|build| build.commit);
    let deviation = search.variance().0.sqrt();
    let percent = |log: f64| 100.0 * (log - good).exp_m1();
    let points = builds.iter().map(|build| -> Reaching {
        let reach = 2.0 * deviation / f64::from(build.runs).sqrt();
        let band = (percent(build.mean - reach), percent(build.mean + reach));
        (build.commit as u32, percent(build.mean), Some(band))
    });
    let lines = vec![("mean ± 2 standard errors".to_string(), points.collect())];
    let title = format!("{}, change against the good end in %", session.request.metric);
    Block::Curves(value_panel(&title, &over(session), lines))
}

fn steps(session: &Session) -> Block {
    let mut table = Table::new([
        ("step", Align::Right),
        ("number", Align::Right),
        ("measured", Align::Left),
        ("runs", Align::Right),
        ("mean", Align::Right),
    ]);
    for (step, runs) in session.steps().iter().enumerate() {
        for StepRuns { commit, layout, logs } in runs {
            let short = session.range.commits[*commit].short();
            let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
            table.row(vec![
                (step + 1).to_string(),
                commit.to_string(),
                match layout {
                    0 => short.to_string(),
                    layout => format!("{short}, layout {layout}"),
                },
                logs.len().to_string(),
                if logs.is_empty() { String::new() } else { rounded(mean, 4) },
            ]);
        }
    }
    let caption = format!("{} by step", session.request.metric);
    Block::Table(PageTable { is_open: false, ..PageTable::plain(&caption, table, READING) })
}

/// The subject of the commit that is named; a step has none.
fn culprit(session: &Session, answer: &Answer) -> Option<String> {
    let Answer::Named { change, .. } = answer else { return None };
    let commit = session.range.commits.get(*change)?;
    (!commit.subject.is_empty()).then(|| in_words(commit))
}

/// What drawings run over.
fn over(session: &Session) -> String {
    format!("number of the {}", session.request.source.unit())
}

/// "8b5c810b999d 2026-11-24 mm: split the lock".
fn in_words(commit: &Commit) -> String {
    format!("{} {} {}", commit.short(), commit.date, commit.subject).trim_end().to_string()
}

/// What was measured at each commit.
fn what_ran(session: &Session) -> String {
    match &session.request.kernels {
        Some(kernels) => {
            let workload = &kernels.workload;
            match session.request.source {
                Source::Git { .. } => {
                    format!("{workload} in a virtual machine, kernels built by knee")
                }
                Source::Steps { .. } => format!("{workload} in a virtual machine"),
            }
        }
        None => session.request.command.clone(),
    }
}

fn facts(session: &Session) -> Vec<(String, String)> {
    let request = &session.request;
    let commits = &session.range.commits;
    let place = match &request.source {
        Source::Git { directory, .. } | Source::Steps { directory } => directory,
    };
    let between = match request.source {
        Source::Git { .. } => "commits",
        Source::Steps { .. } => "steps",
    };
    let facts = [
        ("bisection", session.bisection.id.clone()),
        ("from", place.display().to_string()),
        ("good end", in_words(&commits[0])),
        ("bad end", commits.last().map(in_words).unwrap_or_default()),
        (between, (commits.len() - 1).to_string()),
        ("build", request.build.as_deref().map(quoted).unwrap_or_default()),
        ("measured", what_ran(session)),
        ("metric", request.metric.clone()),
    ];
    let facts = facts.into_iter().filter(|(_, text)| !text.is_empty());
    facts.map(|(label, text)| (label.to_string(), text)).collect()
}
