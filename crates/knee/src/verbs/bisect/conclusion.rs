//! Before a commit is blamed: comparisons by runs of their own. They are evidence, too, which may send the search on.

use answers::{Bisected, BisectionCheck, InsideMerge, as_json};
use anyhow::Result;
use bisection::{Answer, COMPARED_ANSWERS_MAX};
use bisector::{
    Bisection, Confirmation, Confirmed, Explained, Finished, LayoutCheck, Progress, Session, Source,
};
use host::signals;
use host::terminal::{hint, print, talk};

use pages::{Block, Page, Section, View, ViewFlags};
use store::Store;
use text::Style;
use text::quantity::log_change;

use super::inside::{self, Inside};
use super::page::{self, Remarks};
use super::{bisected, news};

/// A check of what a bisection names, as data.
pub type Check = BisectionCheck<Confirmed, Explained, LayoutCheck>;

/// How a bisection is concluded.
pub struct Manner {
    /// The form of the answer. All but a terminal's are printed once all is known.
    pub view: View,
    /// Whether blamed commits are compared with their parents.
    pub confirms: bool,
    pub keeps_builds: bool,
}

/// A bisection that has ended.
pub struct Concluded {
    /// The exit status.
    pub status: u8,
    /// What is still to be printed.
    pub said: Said,
    /// The answer, if it came to one.
    pub answer: Option<Answer>,
    /// What to bisect next: the range that a merge brought, which was found by `--first-parent`.
    pub inside: Option<Inside>,
}

/// The answer of a bisection that is printed once all is known.
#[derive(Default)]
pub enum Said {
    /// Nothing, or it was printed.
    #[default]
    Nothing,
    Value(Box<Bisected<Check>>),
    Page(Box<Page>),
}

impl Said {
    /// With the answer of the bisection of what a merge brought.
    pub fn with(self, within: Said) -> Said {
        match (self, within) {
            (Said::Value(mut outer), within) => {
                let within = if let Said::Value(within) = within { Some(*within) } else { None };
                outer.inside_merge = Some(Box::new(InsideMerge(within)));
                Said::Value(outer)
            }
            (Said::Page(outer), Said::Page(within)) => Said::Page(Box::new(outer.and(*within))),
            (outer, _) => outer,
        }
    }

    /// Prints it.
    pub fn print(self, view: ViewFlags) -> Result<()> {
        match self {
            Said::Nothing => Ok(()),
            Said::Value(value) => print(as_json(&*value)?),
            Said::Page(page) => view.print_page(|| Ok(*page)),
        }
    }
}

/// What comparisons said.
#[derive(Default)]
struct Checks {
    values: Vec<Check>,
    remarks: Remarks,
    /// Comparisons of changes with their parents that the host did not disturb.
    compared: Vec<(usize, Confirmation)>,
    /// Other layouts that did not bear a change out.
    layouts: Vec<LayoutCheck>,
    /// Whether every named change was compared and borne out, in other layouts, too, where there are any.
    stands: bool,
}

/// Compares what is blamed, searches on where that refutes it, and prints the answer unless it is to be JSON.
pub fn conclude(
    session: &mut Session,
    answer: Answer,
    manner: &Manner,
    store: &Store,
) -> Result<Concluded> {
    let (answer, checks) = if manner.confirms {
        borne_out(session, answer, store)?
    } else {
        (answer, Checks { stands: true, ..Checks::default() })
    };
    let stands = checks.stands;
    let said = said(session, &answer, checks, manner.view)?;
    if signals::received().is_some() {
        talk("interrupted while confirming; knee bisect --resume goes on");
        return Ok(Concluded { status: 130, said, answer: None, inside: None });
    }
    if !manner.keeps_builds {
        session.clean_up()?;
    }
    let Bisection { id, folder } = &session.bisection;
    hint(format_args!("bisection {id} in {}", folder.display()));
    let status = match answer {
        Answer::NotReproduced { .. } => 3,
        Answer::Named { .. } if stands => 0,
        Answer::Named { .. } | Answer::Set { .. } | Answer::Several { .. } => 1,
    };
    let inside = match answer {
        Answer::Named { change, .. } if stands => inside::of_merge(session, change)?,
        _ => None,
    };
    Ok(Concluded { status, said, answer: Some(answer), inside })
}

/// The answer, which a terminal shows at once.
fn said(session: &Session, answer: &Answer, checks: Checks, view: View) -> Result<Said> {
    if view == View::Json {
        return Ok(Said::Value(Box::new(bisected(session, answer, checks.values))));
    }
    let mut remarks = checks.remarks;
    remarks.sentences.splice(0..0, within_merges(session, answer));
    let page = page::page(session, Some(answer), remarks);
    if view == View::Terminal {
        print(pages::terminal(&page, Style::for_stdout()))?;
        return Ok(Said::Nothing);
    }
    Ok(Said::Page(Box::new(page::with_steps(page, session))))
}

/// How to search within the merges among several changes.
fn within_merges(session: &Session, answer: &Answer) -> Vec<String> {
    let Answer::Several { .. } = answer else { return Vec::new() };
    let commits = &session.range.commits;
    let merges = answer.blamed().into_iter().filter(|change| commits[*change].parents.len() > 1);
    let sentence = |merge: usize| {
        let name = commits[merge].short();
        format!(
            "{name} is a merge. --good {name}^ --bad {name} searches on within what it brought."
        )
    };
    merges.map(sentence).collect()
}

/// The answer that comparisons bear out, or the last one.
fn borne_out(session: &mut Session, mut answer: Answer, store: &Store) -> Result<(Answer, Checks)> {
    let range = session.range.clone();
    for answers in 0.. {
        let checks = checked(session, &answer, store)?;
        let is_interrupted = signals::received().is_some();
        if is_interrupted || checks.are_no_evidence() || answers == COMPARED_ANSWERS_MAX {
            return Ok((answer, checks));
        }
        for (change, confirmation) in &checks.compared {
            session.take_comparison(*change, confirmation)?;
        }
        for check in &checks.layouts {
            session.take_layouts(check)?;
        }
        if !checks.bear_out() {
            talk(
                "a comparison does not bear it out: its runs are evidence, too, and the search goes on",
            );
        } else if session.answer().is_none() {
            talk(
                "with the runs of the comparison, it is less sure than before: the search goes on",
            );
        }
        let next = match session.run(&mut |progress| news::tell(progress, &range))? {
            Finished::Answer(next) => next,
            Finished::Interrupted | Finished::Refused(_) => return Ok((answer, checks)),
        };
        let is_same = next.blamed() == answer.blamed();
        answer = next;
        if is_same {
            return Ok((answer, checks));
        }
    }
    unreachable!("the loop ends after some answers")
}

/// Compares each blamed change with its parent.
fn checked(session: &mut Session, answer: &Answer, store: &Store) -> Result<Checks> {
    let mut checks = Checks { stands: true, ..Checks::default() };
    for change in answer.blamed() {
        let confirmed = confirm(session, answer, change, &mut checks, store)?;
        checks.stands &= confirmed == Some(Confirmed::Yes);
        if signals::received().is_some() {
            checks.stands = false;
            break;
        }
    }
    checks.stands &= checks.layouts.is_empty();
    Ok(checks)
}

/// Compares a blamed commit with its parent, and the tip without it.
fn confirm(
    session: &mut Session,
    answer: &Answer,
    change: usize,
    checks: &mut Checks,
    store: &Store,
) -> Result<Option<Confirmed>> {
    let range = session.range.clone();
    let tell = &mut |progress: &Progress| news::tell(progress, &range);
    let is_git = matches!(session.request.source, Source::Git { .. });
    let parent = if is_git { "its parent" } else { "the step before it" };
    talk(format_args!("comparing {} with {parent}", range.commits[change].short()));
    let compared = session.compare_with_parent(answer, change, store, tell)?;
    let Some(confirmation) = compared else { return Ok(None) };
    let confirmed = confirmation.confirmed;
    checks.show(&confirmation);
    if confirmed == Confirmed::Yes {
        go_further(session, answer, change, &confirmation, checks, store)?;
    }
    if confirmed != Confirmed::Disturbed {
        checks.compared.push((change, confirmation));
    }
    Ok(Some(confirmed))
}

/// What follows a comparison that bears a change out: how much of the difference it explains, the tip without it, other
/// layouts.
fn go_further(
    session: &mut Session,
    answer: &Answer,
    change: usize,
    confirmation: &Confirmation,
    checks: &mut Checks,
    store: &Store,
) -> Result<()> {
    let range = session.range.clone();
    let tell = &mut |progress: &Progress| news::tell(progress, &range);
    if matches!(answer, Answer::Named { .. }) {
        explain(session, change, confirmation, checks);
    }
    if matches!(session.request.source, Source::Git { .. }) && change < range.changes() {
        talk("comparing the bad end with and without the change");
        match session.compare_without(answer, change, store, tell)? {
            Ok(Some(without)) => checks.show(&without),
            Ok(None) => (),
            Err(why) => talk(format_args!("the bad end was not measured without it: {why}")),
        }
    }
    if let Some(explained) = session.explained(confirmation) {
        check_layouts(session, change, answer.expected(explained.change, explained.ends), checks)?;
    }
    Ok(())
}

impl Checks {
    /// Whether nothing was compared, or the host disturbed all of it.
    fn are_no_evidence(&self) -> bool {
        self.compared.is_empty() && self.layouts.is_empty()
    }

    /// Whether what was compared speaks for the changes.
    fn bear_out(&self) -> bool {
        let is_borne_out = |one: &(usize, Confirmation)| one.1.confirmed == Confirmed::Yes;
        self.compared.iter().all(is_borne_out) && self.layouts.is_empty()
    }

    fn show(&mut self, confirmation: &Confirmation) {
        let Confirmation { what, record, comparison, confirmed } = confirmation;
        let id = &record.record.id;
        self.values.push(Check::Comparison {
            what: what.clone(),
            record: id.clone(),
            confirmed: *confirmed,
            comparison: comparison.clone(),
        });
        let verdict = news::confirmed(*confirmed);
        let title = format!("{what}: {verdict} (record {id})");
        self.remarks.sections.push(section(&title, pages::comparison(comparison, &[], "")));
    }
}

/// What a page says, as a part of another.
fn section(title: &str, page: Page) -> Section {
    let mut blocks = vec![Block::Text(page.answers)];
    let sections = page.sections.into_iter().filter(|section| !section.is_summary);
    blocks.extend(sections.flat_map(|section| section.blocks));
    blocks.extend(page.warnings.into_iter().map(|(_, sentences)| Block::Text(sentences)));
    blocks.push(Block::Text(page.method));
    let fact = |(label, value): (String, String)| match label.as_str() {
        "" => value,
        label => format!("{label}: {value}"),
    };
    blocks.push(Block::Text(page.facts.into_iter().map(fact).collect()));
    Section::open(title, blocks)
}

/// Says so if the change is a part of what is between the ends.
fn explain(session: &Session, change: usize, confirmation: &Confirmation, checks: &mut Checks) {
    let Some(explained) = session.explained(confirmation).filter(|e| e.leaves_more()) else {
        return;
    };
    let commits = &session.range.commits;
    let parent = commits[change].parents.first().copied().unwrap_or(0);
    let [of_change, of_ends] = [explained.change, explained.ends].map(|log| log_change(log, 1));
    let mut text = format!(
        "It is one of several: it explains {of_change} of the {of_ends} between the ends. Search on"
    );
    if parent > 0 {
        text += &format!(
            " before it (--good {} --bad {})",
            commits[0].short(),
            commits[parent].short()
        );
    }
    if parent > 0 && change < session.range.changes() {
        text += " and";
    }
    if change < session.range.changes() {
        let last = commits[session.range.changes()].short();
        text += &format!(" after it (--good {} --bad {last})", commits[change].short());
    }
    checks.values.push(Check::OneOfSeveral { what: "one of several", explained });
    checks.remarks.sentences.push(text + ".");
}

/// Measures the change in other layouts of the same code.
fn check_layouts(
    session: &mut Session,
    change: usize,
    expected: f64,
    checks: &mut Checks,
) -> Result<()> {
    if session.request.build.is_some() {
        talk("linking both in other layouts");
    }
    let range = session.range.clone();
    let tell = &mut |progress: &Progress| news::tell(progress, &range);
    match session.check_layouts(change, expected, tell)? {
        Ok(Some(check)) => {
            checks.remarks.sentences.push(news::layouts(&check));
            checks.values.push(Check::Layouts { what: "layouts", layouts: check.clone() });
            if !check.holds {
                checks.layouts.push(check);
            }
        }
        Ok(None) => (),
        Err(why) => {
            let sentence = format!("Other layouts of the same code were not measured: {why}");
            checks.remarks.sentences.push(sentence);
            checks.values.push(Check::NoLayouts { what: "layouts", why_not: why.to_string() });
        }
    }
    Ok(())
}
