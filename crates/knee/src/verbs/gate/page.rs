//! The page of a gate, which is also the comment on a pull request: what matters first, the rest folded.

mod counted;

use bisector::{GateAnswer, GateVerdict, GatedCase, Nothing};
use host::counted;
use pages::{Block, Count, Page, PageKind, PageTable, Section, Tone};
use records::Better;
use text::quantity::{self, signed};
use text::table::{Align, Table};

/// Lines of a comment before what is folded.
const LINES_MAX: usize = 12;

/// How many of them the title, the counts and the head of the table take.
const LINES_OF_TABLE: usize = 6;

/// Rows of a table in a comment, of which trackers take no more than 64 KB.
const ROWS_MAX: usize = 100;

/// The comment on an answer: a page that a tracker takes.
pub fn comment(answer: &GateAnswer) -> Page {
    with_rows(answer, ROWS_MAX)
}

/// The page of an answer.
pub fn page(answer: &GateAnswer) -> Page {
    with_rows(answer, usize::MAX)
}

/// The page of an answer, whose tables have so many rows at most.
fn with_rows(answer: &GateAnswer, most: usize) -> Page {
    let title = format!("{:.12}..{:.12}", answer.base, answer.head);
    let mut page = Page::new(&title, PageKind::Gate);
    page.answers = match &answer.nothing {
        Some(nothing) => vec![why_nothing(nothing)],
        None if !answer.counted.is_empty() => counted::judged(answer),
        None => judged(answer),
    };
    page.answers.extend(missing(answer));
    if !answer.counted.is_empty() {
        counted::fill(&mut page, answer, most);
    } else if answer.nothing.is_none() {
        page.counts = counts(answer);
        let (changed, others): (Vec<&GatedCase>, Vec<&GatedCase>) =
            answer.cases.iter().partition(|case| is_told(case.is));
        let mut shown = changed.clone();
        shown.sort_by_key(|case| rank(case.is));
        if !is_one(answer) {
            let rest = shown.split_off(shown.len().min(rows_shown(&page)));
            for (title, cases, is_open) in changed_in_two(&shown, &rest) {
                page.sections.push(section(title, cases, is_open, (answer, most)));
            }
        }
        if !others.is_empty() {
            page.sections.push(section("Other cases", &others, false, (answer, most)));
        }
        page.method = method(answer);
    }
    page.facts = facts(answer);
    page
}

/// How many rows of its table a comment shows at once, below what it says.
fn rows_shown(page: &Page) -> usize {
    LINES_MAX.saturating_sub(LINES_OF_TABLE + page.answers.len())
}

/// The changed cases that a comment shows at once, and those that it folds, with titles.
fn changed_in_two<'a, T>(
    shown: &'a [&'a T],
    folded: &'a [&'a T],
) -> impl Iterator<Item = (&'static str, &'a [&'a T], bool)> {
    let title = if shown.is_empty() { "Cases that changed" } else { "More cases that changed" };
    let parts = [("Cases that changed", shown, true), (title, folded, false)];
    parts.into_iter().filter(|(_, cases, _)| !cases.is_empty())
}

fn is_one(answer: &GateAnswer) -> bool {
    matches!(&answer.cases[..], [one] if one.case.is_empty())
}

/// Whether a case is shown before the reader asks.
fn is_told(verdict: GateVerdict) -> bool {
    !matches!(verdict, GateVerdict::Harmless | GateVerdict::CannotTell | GateVerdict::Slightly)
}

/// What matters most comes first.
fn rank(verdict: GateVerdict) -> usize {
    use GateVerdict::{Better, CannotTell, Changed, Failed, Harmless, LayoutOnly, Slightly, Worse};
    let order = [Worse, Failed, Changed, LayoutOnly, Better, CannotTell, Slightly, Harmless];
    order.iter().position(|one| *one == verdict).unwrap_or(order.len())
}

fn why_nothing(nothing: &Nothing) -> String {
    match nothing {
        Nothing::NoChange => "Nothing to judge: the base has all commits of the head.".to_string(),
        Nothing::SameCode => {
            "Same code: base and head load equal code and data, so nothing was run.".to_string()
        }
        Nothing::NotBuilt { side, said } => {
            format!("No verdict: {} cannot be built: {said}", side.word())
        }
        Nothing::NotListed { side, said } => {
            format!("No verdict: the cases of {} cannot be listed: {said}", side.word())
        }
        Nothing::NoCase => "No verdict: base and head have no case in common.".to_string(),
    }
}

fn of(answer: &GateAnswer, verdict: GateVerdict) -> Vec<&GatedCase> {
    answer.cases.iter().filter(|case| case.is == verdict).collect()
}

/// "1 of 20 cases is slower: sort/large +3.1 %." and what else there is to say.
fn judged(answer: &GateAnswer) -> Vec<String> {
    let all = answer.cases.len();
    let (worse, better) = words(answer);
    let laid_out = |word: &str| {
        format!(
            "{word} as the compiler laid the builds out, which other layouts of the code do not bear out"
        )
    };
    let (slower, faster): (Vec<&GatedCase>, Vec<&GatedCase>) =
        of(answer, GateVerdict::LayoutOnly).into_iter().partition(|case| is_worse(case, answer));
    let mut sentences: Vec<String> = [
        (of(answer, GateVerdict::Worse), worse.to_string()),
        (of(answer, GateVerdict::Changed), "changed".to_string()),
        (slower, laid_out(worse)),
        (of(answer, GateVerdict::Better), better.to_string()),
        (faster, laid_out(better)),
    ]
    .into_iter()
    .filter_map(|(cases, what)| told(&cases, &what, all))
    .collect();
    if of(answer, GateVerdict::Worse).is_empty() {
        sentences.splice(0..0, none_is(answer, worse));
    }
    sentences.extend(because(&of(answer, GateVerdict::Failed), "cannot be judged", all));
    let at_times: Vec<&GatedCase> = answer.cases.iter().filter(fails_at_times).collect();
    let fail = if at_times.len() > 1 { "fail at times" } else { "fails at times" };
    sentences.extend(because(&at_times, fail, all));
    let open = of(answer, GateVerdict::CannotTell);
    if !open.is_empty() {
        let until = if answer.out_of_budget { " within the budget" } else { "" };
        let are_disturbed = open.iter().all(|case| case.blocks == 0);
        let why = match answer.needs_s {
            Some(seconds) => format!(
                ": a look at each takes about {:.0} min (--budget), or choose fewer (--only)",
                (seconds / 60.0).ceil()
            ),
            None if are_disturbed => {
                ": other programs kept the CPUs busy in every block".to_string()
            }
            None => String::new(),
        };
        sentences.push(format!("{} cannot be told{until}{why}.", some(open.len(), all)));
    }
    sentences.extend(answer.learned.map(|_| {
        let percent = 100.0 * answer.smallest_effect;
        format!("{percent:.1} % is what this runner can tell, by the base against itself.")
    }));
    let any = if all == 1 { "" } else { " in any case" };
    sentences.extend(answer.could_see.map(|share| {
        let percent = 100.0 * share;
        format!("A slowdown of {percent:.1} %{any} would be found in four of five gates.")
    }));
    sentences
}

/// "2 of 20 cases cannot be judged: sort: all runs of head fail, …."
fn because(cases: &[&GatedCase], what: &str, all: usize) -> Option<String> {
    let first = cases.first()?;
    let more = if cases.len() > 1 { ", …" } else { "" };
    let name = if first.case.is_empty() { String::new() } else { first.case.clone() + ": " };
    Some(format!("{} {what}: {name}{}{more}.", some(cases.len(), all), first.why))
}

/// Whether some runs of a case failed, and others told something.
fn fails_at_times(case: &&GatedCase) -> bool {
    case.failed > 0 && case.is != GateVerdict::Failed
}

/// Whether what is seen of a case is for the worse.
fn is_worse(case: &GatedCase, answer: &GateAnswer) -> bool {
    (case.change.unwrap_or(0.0) > 0.0) == (answer.better != Better::Higher)
}

/// "1 of 20 cases", or the only one.
fn some(n: usize, all: usize) -> String {
    if all == 1 { "The case".to_string() } else { format!("{n} of {all} cases") }
}

/// "2 of 20 cases are slower: sort/large +3.1 %, parse +2.2 %."
fn told(cases: &[&GatedCase], what: &str, all: usize) -> Option<String> {
    let is = if cases.len() > 1 { "are" } else { "is" };
    let case = |case: &&GatedCase| format!("{} {}", case.case, change(case)).trim().to_string();
    let shown: Vec<String> = cases.iter().take(3).map(case).collect();
    let more = if cases.len() > 3 { ", …" } else { "" };
    let text = format!("{} {is} {what}: {}{more}.", some(cases.len(), all), shown.join(", "));
    (!cases.is_empty()).then_some(text)
}

/// "None of 20 cases is slower by 2.0 % or more."
fn none_is(answer: &GateAnswer, worse: &str) -> Option<String> {
    let percent = 100.0 * answer.smallest_effect;
    let all = answer.cases.len();
    let is_open = |case: &&GatedCase| {
        matches!(case.is, GateVerdict::CannotTell | GateVerdict::Failed | GateVerdict::LayoutOnly)
    };
    let judged = all - answer.cases.iter().filter(is_open).count();
    match (judged, all) {
        (0, _) => None,
        (_, 1) => Some(format!("The case is not {worse} by {percent:.1} % or more.")),
        (judged, all) if judged == all => {
            Some(format!("None of {all} cases is {worse} by {percent:.1} % or more."))
        }
        _ => Some(format!(
            "None of the {judged} cases that were judged is {worse} by {percent:.1} % or more."
        )),
    }
}

/// The words for worse and better: of times and rates, slower and faster.
fn words(answer: &GateAnswer) -> (&'static str, &'static str) {
    let is_time = answer.metric == "time" || quantity::seconds_in(&answer.unit).is_some();
    match answer.better {
        Better::Lower if is_time => ("slower", "faster"),
        Better::Higher if answer.unit == "1/s" => ("slower", "faster"),
        _ => ("worse", "better"),
    }
}

fn missing(answer: &GateAnswer) -> Option<String> {
    let listed = |cases: &[String]| {
        let more = if cases.len() > 3 { ", …" } else { "" };
        cases.iter().take(3).cloned().collect::<Vec<_>>().join(", ") + more
    };
    let GateAnswer { only_base, only_head, .. } = answer;
    let of = |side: &str, cases: &[String]| match cases.len() {
        0 => None,
        n => Some(format!("{} in {side} alone: {}", counted(n, "case"), listed(cases))),
    };
    let sides: Vec<String> =
        [of("base", only_base), of("head", only_head)].into_iter().flatten().collect();
    (!sides.is_empty()).then(|| format!("Not judged: {}.", sides.join("; ")))
}

fn counts(answer: &GateAnswer) -> Vec<Count> {
    let (worse, better) = words(answer);
    let kinds = [
        (GateVerdict::Worse, worse, Tone::Worse),
        (GateVerdict::Better, better, Tone::Better),
        (GateVerdict::Changed, "changed", Tone::Changed),
        (GateVerdict::LayoutOnly, "in one layout", Tone::Open),
        (GateVerdict::Slightly, "slightly worse", Tone::Same),
        (GateVerdict::Harmless, "harmless", Tone::Same),
        (GateVerdict::CannotTell, "cannot tell", Tone::Open),
        (GateVerdict::Failed, "failed", Tone::Open),
    ];
    let count = |(verdict, word, tone)| Count { n: of(answer, verdict).len(), word, tone };
    kinds.into_iter().map(count).filter(|count| count.n > 0).collect()
}

fn section(
    title: &str,
    cases: &[&GatedCase],
    is_open: bool,
    (answer, most): (&GateAnswer, usize),
) -> Section {
    let mut cases = cases.to_vec();
    let left_out = cases.len().saturating_sub(most);
    if left_out > 0 {
        cases.sort_by_key(|case| rank(case.is));
        cases.truncate(most);
    }
    let mut table = Table::new([
        ("case", Align::Left),
        ("change", Align::Right),
        ("interval", Align::Left),
        ("blocks", Align::Right),
        ("verdict", Align::Left),
    ]);
    for case in cases {
        table.row(vec![
            if case.case.is_empty() { "the command".to_string() } else { case.case.clone() },
            change(case),
            interval(case),
            case.blocks.to_string(),
            verdict(case, answer),
        ]);
    }
    let caption = format!("{}: head against base", answer.metric);
    folded_from(title, PageTable::plain(&caption, table, &[]), is_open, left_out)
}

/// A section with a table, from which so many rows are left out.
fn folded_from(title: &str, table: PageTable, is_open: bool, left_out: usize) -> Section {
    let more = format!("{} more: the page has all (--html)", counted(left_out, "case"));
    let more = (left_out > 0).then(|| Block::Text(vec![more]));
    let blocks = [Block::Table(table)].into_iter().chain(more).collect();
    Section { is_open, ..Section::open(title, blocks) }
}

fn percent(share: f64) -> String {
    signed(100.0 * share, 1)
}

fn change(case: &GatedCase) -> String {
    case.change.map(|share| percent(share) + " %").unwrap_or_default()
}

fn interval(case: &GatedCase) -> String {
    let text = |(low, high)| format!("[{}, {}]", percent(low), percent(high));
    case.interval.map(text).unwrap_or_default()
}

fn verdict(case: &GatedCase, answer: &GateAnswer) -> String {
    let (worse, better) = words(answer);
    let least = format!("{:.1} %", 100.0 * answer.smallest_effect);
    let word = match case.is {
        GateVerdict::Worse => worse.to_string(),
        GateVerdict::Better => better.to_string(),
        GateVerdict::Changed => "changed".to_string(),
        GateVerdict::Slightly => format!("{worse}, below {least}"),
        GateVerdict::LayoutOnly => "not borne out by other layouts".to_string(),
        GateVerdict::Harmless => format!("not {worse} by {least}"),
        GateVerdict::CannotTell => "cannot tell".to_string(),
        GateVerdict::Failed => "failed".to_string(),
    };
    let layouts: Vec<String> = case.layouts.iter().map(|share| percent(*share)).collect();
    let layouts = match &layouts[..] {
        [] => String::new(),
        changes => format!("; in other layouts {} %", changes.join(", ")),
    };
    let beside: Vec<String> =
        case.beside.iter().map(|one| format!("{} {} %", one.metric, percent(one.change))).collect();
    let beside = match &beside[..] {
        [] => String::new(),
        changes => format!("; with it {}", changes.join(", ")),
    };
    let why = if case.why.is_empty() { String::new() } else { format!("; {}", case.why) };
    format!("{word}{layouts}{beside}{why}")
}

fn method(answer: &GateAnswer) -> Vec<String> {
    let mut method = vec![
        format!(
            "All cases run in turn, base and head in random order within a block. Intervals hold for all cases together at \
             {:.0} %, and allow for looking after each stage (exact signed ranks over blocks).",
            100.0 * (1.0 - answer.alpha)
        ),
        format!(
            "A case is left alone once a slowdown of {:.1} % is excluded at 98 % for it by itself. While the budget lasts, it is \
             looked at again until that is so at 99.9 %, and what stays open runs in further rounds.",
            100.0 * answer.smallest_effect
        ),
    ];
    if answer.disturbed > 0 {
        method.push(format!(
            "The host disturbed {}: no verdict rests on what it disturbed.",
            counted(answer.disturbed as usize, "block")
        ));
    }
    method
}

fn facts(answer: &GateAnswer) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_string(), value);
    let mut facts = vec![fact("base", answer.base.clone()), fact("head", answer.head.clone())];
    if answer.nothing.is_none() {
        facts.push(fact("runs", answer.runs.to_string()));
    }
    facts.push(fact("time, with builds", format!("{:.0} s", answer.seconds)));
    facts.extend(answer.records.iter().map(|id| fact("record", id.clone())));
    facts
}

#[cfg(test)]
mod tests {
    use pages::markdown;

    use super::*;

    fn case(number: usize, is: GateVerdict) -> GatedCase {
        GatedCase {
            case: format!("sort<u8>|{number} \"x\" *a* `b` @me #1"),
            is,
            change: Some(0.05),
            interval: Some((0.02, 0.08)),
            blocks: 20,
            failed: 0,
            could_see: Some(0.02),
            layouts: Vec::new(),
            beside: Vec::new(),
            why: String::new(),
        }
    }

    fn answer(cases: Vec<GatedCase>) -> GateAnswer {
        GateAnswer {
            base: "a".repeat(40),
            head: "b".repeat(40),
            metric: "time".to_string(),
            unit: "ns".to_string(),
            better: Better::Lower,
            smallest_effect: 0.02,
            learned: None,
            alpha: 0.01,
            nothing: None,
            cases,
            counted: Vec::new(),
            only_base: vec!["old".to_string()],
            only_head: vec!["new".to_string()],
            could_see: Some(0.03),
            out_of_budget: true,
            needs_s: Some(1501.0),
            runs: 5000,
            disturbed: 3,
            seconds: 290.0,
            records: vec!["20261130-000000-000000".to_string()],
        }
    }

    /// What a reader of the comment sees at once.
    fn seen(answer: &GateAnswer) -> String {
        let comment = markdown(&super::comment(answer));
        let seen = comment.split("<details>").next().unwrap().to_string();
        assert!(seen.lines().filter(|line| !line.is_empty()).count() <= 12, "{seen}");
        assert!(!seen.contains("sort<u8>") && !seen.contains("@me"), "{seen}");
        assert!(comment.contains("Cases that changed"), "{comment}");
        seen
    }

    #[test]
    fn a_comment_has_at_most_twelve_lines_whatever_there_is_to_say() {
        use GateVerdict::{Better, CannotTell, Failed, Harmless, LayoutOnly, Slightly, Worse};
        let one_table = seen(&answer((0..9).map(|number| case(number, Worse)).collect()));
        assert!(one_table.contains("| sort&lt;u8>"), "{one_table}");
        let kinds = [Worse, LayoutOnly, Better, Failed, CannotTell, Slightly, Harmless];
        let all = kinds.into_iter().cycle().take(70).enumerate();
        let mut cases: Vec<GatedCase> = all.map(|(number, is)| case(number, is)).collect();
        cases[6].failed = 2;
        cases[6].why = "2 runs of head failed".to_string();
        let text = seen(&answer(cases));
        assert!(text.contains("a look at each takes about 26 min"), "{text}");
        assert!(text.contains("1 of 70 cases fails at times: sort"), "{text}");
        assert!(!text.contains("| sort"), "no room for a table: {text}");
    }

    #[test]
    fn a_comment_on_hundreds_of_cases_is_one_that_trackers_take() {
        let mut cases: Vec<GatedCase> =
            (0..700).map(|number| case(number, GateVerdict::Harmless)).collect();
        cases[650].is = GateVerdict::CannotTell;
        let comment = markdown(&super::comment(&answer(cases.clone())));
        assert!(comment.len() < 65_536, "{} bytes", comment.len());
        assert!(comment.contains("600 cases more: the page has all (--html)"), "{comment}");
        assert!(comment.contains("sort&lt;u8>\\|650 "), "what is open comes first: {comment}");
        assert!(markdown(&page(&answer(cases))).contains("sort&lt;u8>\\|699 "));
    }
}
