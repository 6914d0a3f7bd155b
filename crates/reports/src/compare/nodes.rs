//! Sentences about the nodes whose runs a record joins: odd ones, those on which a variant does something else, and
//! equal runs on each.

use analysis::{
    ComparedNode, Comparison, EqualRuns, NodeDisagreement, NodeEffect, NodeSurvey, OddNode,
};
use text::prose::counted;

use crate::compare::change::{percent, probability};
use crate::compare::places::apart;

/// More nodes than this are counted and not listed.
const LISTED: usize = 6;

/// Fewer pairs of equal runs than this on every node say nothing about nodes.
const PAIRS_MIN: usize = 2;

/// What there is to say about nodes; nothing for a record of one.
pub fn nodes(comparison: &Comparison) -> Vec<String> {
    let Some(survey) = &comparison.nodes else { return Vec::new() };
    let mut lines = vec![levels(survey)];
    lines.extend(odd(comparison, survey));
    let disagreements = survey.disagreements.iter();
    lines.extend(disagreements.take(LISTED).map(|one| disagreement(comparison, one)));
    let more = survey.disagreements.len().saturating_sub(LISTED);
    lines.extend((more > 0).then(|| format!("nodes disagree in {more} more contrasts (--json)")));
    lines.extend(equal_runs(survey));
    lines
}

/// "levels of 8 nodes: from -15.2 % (`c`) to +2.1 % (`a`) of their mean; none is odd".
fn levels(survey: &NodeSurvey) -> String {
    let nodes = &survey.nodes;
    let by_level = |a: &&ComparedNode, b: &&ComparedNode| a.level.total_cmp(&b.level);
    let [least, most] =
        [nodes.iter().min_by(by_level), nodes.iter().max_by(by_level)].map(|node| {
            node.map_or(String::new(), |node| format!("{} (`{}`)", signed(node.level), node.name))
        });
    let odd = match (nodes.len(), survey.odd.len()) {
        (2, _) => "; which of two is odd cannot be told",
        (3..=5, 0) => "; none is shown to be odd, which takes much with so few nodes",
        (_, 0) => "; none is odd",
        _ => "",
    };
    format!("levels of {}: {least} to {most} of their mean{odd}", counted(nodes.len(), "node"))
}

/// Odd nodes, each once, with the cell in which it is oddest.
fn odd(comparison: &Comparison, survey: &NodeSurvey) -> Vec<String> {
    let mut names: Vec<&str> = survey.odd.iter().map(|odd| odd.node.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let others = survey.nodes.len() - names.len();
    let one = |name: &&str| {
        let cells: Vec<&OddNode> = survey.odd.iter().filter(|odd| odd.node == *name).collect();
        let OddNode { cell, change, interval, normal, p, .. } =
            cells.iter().min_by(|a, b| a.p.total_cmp(&b.p))?;
        let place = place(comparison, *cell);
        let more = cells.len() - 1;
        let more = if more > 0 {
            format!(", and in {}", counted(more, "more cell"))
        } else {
            String::new()
        };
        Some(format!(
            "odd node: `{name}` is at {} {} of the level of the other {others}{place}{more}; a node like them \
             would lie within +-{} (p = {}); its blocks count, since variants are compared within a node",
            signed(*change),
            bounds(*interval),
            percent(*normal),
            probability(*p).replace("< ", "<"),
        ))
    };
    names.iter().filter_map(one).collect()
}

/// "nodes disagree at 2 CPUs: `b` against `a`: +8.1 % [+7.0 %, +9.2 %] on `c` (4 blocks), …".
fn disagreement(comparison: &Comparison, one: &NodeDisagreement) -> String {
    let names = [0, one.variant].map(|variant| &comparison.variants[variant].name);
    let effects: Vec<String> = one.nodes.iter().chain(&one.others).map(effect).collect();
    let so =
        if one.withdrawn { "so there is no verdict" } else { "the verdict holds on all of them" };
    let from = if one.nodes.is_empty() { "from " } else { "" };
    format!(
        "nodes disagree{}: `{}` against `{}`: {from}{} (p = {}): {so}",
        place(comparison, one.cell),
        names[1],
        names[0],
        effects.join(if one.nodes.is_empty() { " to " } else { ", " }),
        probability(one.p).replace("< ", "<"),
    )
}

fn effect(effect: &NodeEffect) -> String {
    let interval = effect.interval.map(|interval| format!(" {}", bounds(interval)));
    let interval = interval.unwrap_or_default();
    let place = match (effect.node.as_str(), effect.nodes) {
        ("", nodes) => format!("the other {nodes}"),
        (name, _) => format!("`{name}`"),
    };
    let blocks = counted(effect.blocks, "block");
    format!("{}{interval} on {place} ({blocks})", signed(effect.change))
}

/// Equal runs by node: those that differ first, then those with the widest spread.
fn equal_runs(survey: &NodeSurvey) -> Option<String> {
    let own = |node: &ComparedNode| Some((node.name.clone(), node.equal_runs?));
    let mut known: Vec<(String, EqualRuns)> = survey.nodes.iter().filter_map(own).collect();
    known.retain(|(_, equal)| equal.pairs >= PAIRS_MIN);
    let differ =
        |equal: &EqualRuns| equal.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
    known.sort_by(|(_, a), (_, b)| differ(b).cmp(&differ(a)).then(b.median.total_cmp(&a.median)));
    let one = |(name, equal): &(String, EqualRuns)| {
        let pairs = counted(equal.pairs, "pair");
        let interval = equal.interval.map(|i| format!(" {}", bounds(i))).unwrap_or_default();
        let differs = if differ(equal) { ": the second run of a block differs there" } else { "" };
        let (median, change) = (percent(equal.median), signed(equal.change));
        format!("`{name}` {median} apart, mean {change}{interval} ({pairs}){differs}")
    };
    let mut said: Vec<String> = known.iter().take(LISTED).map(one).collect();
    let more = known.len().saturating_sub(LISTED);
    said.extend((more > 0).then(|| format!("{} with less", counted(more, "node"))));
    (!said.is_empty()).then(|| format!("equal runs in one block by node: {}", said.join("; ")))
}

fn place(comparison: &Comparison, cell: usize) -> String {
    let place = Some(apart(comparison, cell)).filter(|place| !place.is_empty());
    place.map(|place| format!(" at {place}")).unwrap_or_default()
}

fn bounds((low, high): (f64, f64)) -> String {
    format!("[{}, {}]", signed(low), signed(high))
}

/// A share with its sign: `+5.1 %`.
fn signed(share: f64) -> String {
    format!("{}{}", if share < 0.0 { "-" } else { "+" }, percent(share.abs()))
}
