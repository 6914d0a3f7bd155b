//! Sentences below the tables: where curves diverge, what could not be decided and what
//! would decide it, how far equal things differed, what was left out, and how a verdict came about.

use analysis::{
    Band, CellComparison, Comparison, Contrast, CurveComparison, Design, DiscardedBlock, HostDrift,
    Method, Modes, NoiseFloor, Scale, TakenUnit, Verdict,
};
use text::Style;
use text::prose::{counted, wrapped};

use crate::compare::change::{assumed, of_primary, percent, primary, probability};
use crate::compare::nodes::nodes;
use crate::compare::places::{Places, apart, is_same_load, size};

/// More discards than this are counted and not listed.
const LISTED: usize = 5;

/// All that stands below the tables of every layout.
pub fn below(comparison: &Comparison, style: Style) -> String {
    let lines = closing(comparison).into_iter();
    let mut text: String = lines.map(|line| wrapped(&line, style.width, 2)).collect();
    if !comparison.warnings.is_empty() {
        text += &format!("\n{}\n", style.bold("Warnings"));
    }
    for warning in &comparison.warnings {
        text += &wrapped(&format!("  - {warning}"), style.width, 4);
    }
    format!("\n{text}")
}

/// Notes on some cells: diverging curves, missing verdicts, failed runs.
pub fn of_cells(comparison: &Comparison, places: &Places, cells: &[usize]) -> Vec<String> {
    let curves = comparison.curves.iter();
    let curves: Vec<_> =
        curves.filter(|curve| curve.cells.iter().any(|i| cells.contains(i))).collect();
    let mut lines = Vec::new();
    for curve in &curves {
        lines.extend(parting(comparison, curve, curves.len() > 1));
    }
    lines.extend(untold(comparison, places, cells));
    lines.extend(cells.iter().flat_map(|cell| in_modes(comparison, places, *cell)));
    lines.extend(cells.iter().filter_map(|i| failed(comparison, places, *i)));
    lines
}

/// Noise floor, discards, variance, and how verdicts come about.
pub fn closing(comparison: &Comparison) -> Vec<String> {
    if comparison.variants.len() == 1 {
        return [vec![runs_left_out(comparison)], nodes(comparison)].concat();
    }
    let mut lines = vec![noise_floor(comparison)];
    lines.extend(drift(comparison));
    lines.push(discards(comparison));
    lines.extend(variance(comparison));
    lines.extend(nodes(comparison));
    lines.push(how(comparison));
    lines.retain(|line| !line.is_empty());
    lines
}

/// "`b` diverges from `a` from 8 CPUs on", and which variant is ahead where.
fn parting(comparison: &Comparison, curve: &CurveComparison, several: bool) -> Vec<String> {
    let variants = &comparison.variants;
    let first = &comparison.cells[curve.cells[0]].key;
    let tasks = counted(first.tasks as usize, "task");
    let prefix = if several {
        format!("with {tasks} on {}: ", counted(first.cpus as usize, "CPU"))
    } else {
        String::new()
    };
    let confidence = percent(comparison.confidence);
    let one = |(variant, band): (&analysis::ComparedVariant, &Band)| {
        let (a, b) = (&variants[0].name, &variant.name);
        let parts = match band.parts_from {
            Some(cpus) => {
                let cpus = counted(cpus as usize, "CPU");
                format!("`{b}` diverges from `{a}` from {cpus} on (simultaneous {confidence} band)")
            }
            None if band.intervals.last().is_none_or(Option::is_none) => return Vec::new(),
            None => format!(
                "`{b}` and `{a}` do not diverge: at the highest CPU count the simultaneous \
                 {confidence} band includes no change"
            ),
        };
        if band.ahead.is_empty() {
            return vec![format!("{prefix}{parts}")];
        }
        let ahead = ahead(comparison, curve, band, a, b);
        vec![format!("{prefix}{parts}"), format!("{prefix}ahead, by that band: {ahead}")]
    };
    variants[1..].iter().zip(&curve.bands).flat_map(one).collect()
}

/// "`a` up to 4 CPUs, no difference shown 8-16, `b` from 32".
fn ahead(
    comparison: &Comparison,
    curve: &CurveComparison,
    band: &Band,
    baseline: &str,
    variant: &str,
) -> String {
    let cpus = |i: usize| comparison.cells[i].key.cpus;
    let (least, most) = (cpus(curve.cells[0]), cpus(curve.cells[curve.cells.len() - 1]));
    let stretch = |&(first, last, better): &(u32, u32, Option<bool>)| {
        let who = match better {
            Some(true) => format!("`{variant}`"),
            Some(false) => format!("`{baseline}`"),
            None => "no difference shown".to_string(),
        };
        match (first == least, last == most) {
            (true, true) => format!("{who} at all CPU counts"),
            _ if first == last => format!("{who} at {}", counted(first as usize, "CPU")),
            (true, _) => format!("{who} up to {last} CPUs"),
            (_, true) => format!("{who} from {first} CPUs on"),
            _ => format!("{who} at {first}-{last} CPUs"),
        }
    };
    band.ahead.iter().map(stretch).collect::<Vec<_>>().join(", ")
}

/// Two modes of the deciding values, and what they do to the verdict.
fn in_modes(comparison: &Comparison, places: &Places, cell: usize) -> Vec<String> {
    let contrasts = primary(&comparison.cells[cell]).map(|metric| &metric.contrasts);
    let one = |(contrast, variant): (&Contrast, &analysis::ComparedVariant)| {
        let Modes { higher, values, apart, p, judged_within } = contrast.modes?;
        let place =
            Some(places.apart(&comparison.cells[cell].key)).filter(|place| !place.is_empty());
        let place = place.map(|place| format!(", {place}")).unwrap_or_default();
        let apart = match contrast.scale {
            Scale::Relative => percent(apart.exp_m1()),
            Scale::Absolute => analysis::rounded(apart, 3).to_string(),
        };
        let effect = match p {
            _ if judged_within => "the change is the one within modes".to_string(),
            Some(p) if p < 0.05 => {
                format!("these shares differ ({}), so the change is also one of modes", probability(p))
            }
            _ => "which values fall into which hides smaller changes: find what sets the mode, such as the \
                  placement of memory or tasks, and hold it"
                .to_string(),
        };
        Some(format!(
            "two modes, {apart} apart{place}: {} of {} values of `{}` and {} of {} of `{}` are in the higher \
             one; {effect}",
            higher[0], values[0], comparison.variants[0].name, higher[1], values[1], variant.name
        ))
    };
    contrasts.into_iter().flatten().zip(&comparison.variants[1..]).filter_map(one).collect()
}

/// Verdicts that are none, and what would make them one: places with the same words together.
fn untold(comparison: &Comparison, places: &Places, cells: &[usize]) -> Vec<String> {
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    let key = |cell: usize| &comparison.cells[cell].key;
    let one_load = cells.iter().all(|cell| is_same_load(key(cells[0]), key(*cell)));
    let named = Some(places).filter(|_| !one_load);
    for &i in cells {
        let Some(metric) = primary(&comparison.cells[i]) else {
            continue;
        };
        for (variant, contrast) in metric.contrasts.iter().enumerate() {
            let Some(words) = reason(comparison, contrast) else {
                continue;
            };
            let place = place(comparison, named, i, variant + 1);
            match said.iter_mut().find(|(other, _)| *other == words) {
                Some((_, places)) => places.push(place),
                None => said.push((words, vec![place])),
            }
        }
    }
    let line = |(words, places): (String, Vec<String>)| {
        let places: Vec<String> = places.into_iter().filter(|place| !place.is_empty()).collect();
        let (is, why) = words.split_once(": ").unwrap_or((&words, ""));
        let colon = if why.is_empty() { "" } else { ": " };
        let at = if places.is_empty() { "" } else { ", " };
        format!("{is}{at}{}{colon}{why}", places.join("; "))
    };
    said.into_iter().map(line).collect()
}

/// Size, pass, and variant if there are several, of a cell; its load too where loads differ.
fn place(comparison: &Comparison, loads: Option<&Places>, cell: usize, variant: usize) -> String {
    let several = comparison.variants.len() > 2;
    let name = several.then(|| format!("`{}`", comparison.variants[variant].name));
    let here = &comparison.cells[cell].key;
    let load = loads.map(|places| places.distinguishing(here));
    let mut parts: Vec<String> = load.into_iter().chain(size(here)).collect();
    parts.extend(
        (comparison.cells[cell].key.pass == records::Pass::Latency).then(|| "timed".to_string()),
    );
    let place = Some(parts.join(", "));
    let several_cells = comparison.cells.len() > 1;
    let parts = place.filter(|_| several_cells).into_iter().chain(name);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn reason(comparison: &Comparison, contrast: &Contrast) -> Option<String> {
    let unit = unit(comparison);
    match &contrast.verdict {
        Verdict::CannotTell { more, why } => {
            let more = more.map(|n| {
                format!("about {} would tell", counted(n as usize, &format!("more {unit}")))
            });
            let parts = [Some(why.clone()), more].into_iter().flatten();
            let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
            let none = "no number of runs would tell".to_string();
            Some(format!("cannot tell: {}", if parts.is_empty() { none } else { parts.join("; ") }))
        }
        Verdict::NotInterleaved => {
            Some("no verdict: not interleaved: host drift not excluded".to_string())
        }
        Verdict::Unjudged { needs, why } => {
            let needs = format!("a verdict needs {}", counted(*needs as usize, unit));
            let why = if why.is_empty() { needs } else { format!("{why}; {needs}") };
            Some(format!("no verdict: {why}"))
        }
        _ => None,
    }
}

/// What is counted as n.
fn unit(comparison: &Comparison) -> &'static str {
    match comparison.design {
        Design::Blocks { .. } => "block",
        Design::Sessions => "session",
        Design::Boots => "boot",
        Design::Unpaired { unit, .. } => unit.noun(),
        Design::Separate => "run",
    }
}

fn failed(comparison: &Comparison, places: &Places, cell: usize) -> Option<String> {
    let failed = &comparison.cells[cell].failed;
    let one = |(variant, n): (&analysis::ComparedVariant, &usize)| {
        (*n > 0).then(|| format!("{} of `{}`", counted(*n, "run"), variant.name))
    };
    let runs: Vec<String> = comparison.variants.iter().zip(failed).filter_map(one).collect();
    let place = Some(places.apart(&comparison.cells[cell].key)).filter(|place| !place.is_empty());
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    (!runs.is_empty()).then(|| format!("failed, and not counted: {}{place}", runs.join(", ")))
}

fn noise_floor(comparison: &Comparison) -> String {
    let Some(NoiseFloor { pairs, median, largest, beyond }) = &comparison.noise_floor else {
        return match comparison.design {
            Design::Blocks { .. } => {
                "noise floor: not measured (no counted block ran one variant twice)"
            }
            _ => "noise floor: not measured (that needs blocks)",
        }
        .to_string();
    };
    format!(
        "noise floor: equal runs in one block differed by {} (median of {}), at most {}; {beyond} \
         of {pairs} by more than {}",
        percent(*median),
        counted(*pairs, "pair"),
        percent(*largest),
        percent(comparison.smallest_effect)
    )
}

/// How far this host drifts, where the variants were not interleaved.
fn drift(comparison: &Comparison) -> Option<String> {
    if comparison.design != Design::Separate {
        return None;
    }
    let known: Vec<&HostDrift> = of_primary(comparison).filter_map(|c| c.drift.as_ref()).collect();
    let Some(most) = known.iter().max_by_key(|drift| drift.records) else {
        let why = "fewer than three earlier records of this load, host and kernel";
        return Some(format!("host drift: not known ({why})"));
    };
    let (low, high) = known.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), drift| {
        (low.min(drift.median), high.max(drift.median))
    });
    let apart = match (percent(low), percent(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    };
    let (as_far, pairs) = known
        .iter()
        .fold((0, 0), |(as_far, pairs), drift| (as_far + drift.as_far, pairs + drift.pairs));
    Some(format!(
        "host drift: {} of this load, host and kernel, with nothing known to have changed, differ by \
         {apart} (median over pairs); {as_far} of {pairs} pairs differ by as much as the variants do \
         here, or more",
        counted(most.records, "earlier record")
    ))
}

/// "2 of 40 blocks left out: block 3 (steal 3.1 % of the CPUs used)".
fn discards(comparison: &Comparison) -> String {
    let discards = &comparison.discards;
    let blocks = counted(discards.blocks, "block");
    if discards.discarded.is_empty() {
        return match discards.blocks {
            0 => "left out: nothing".to_string(),
            _ => format!("left out: none of {blocks}"),
        };
    }
    let one = |discard: &DiscardedBlock| {
        let place = Some(apart(comparison, discard.cell)).filter(|place| !place.is_empty());
        let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
        format!("block {}{place} (run {}: {})", discard.block, discard.run, discard.reason)
    };
    let n = discards.discarded.len();
    let mut listed: Vec<String> = discards.discarded.iter().take(LISTED).map(one).collect();
    if n > LISTED {
        listed.push(format!("and {} more", n - LISTED));
    }
    let by = comparison.variants.iter().zip(&discards.by_variant);
    let by = by.map(|(variant, n)| format!("`{}` {n}", variant.name)).collect::<Vec<_>>();
    let by = if by.is_empty() { String::new() } else { format!("; caused by {}", by.join(", ")) };
    let chance = discards.imbalance_p.map(|p| {
        let stands = if p < 0.05 { ": no verdict stands" } else { "" };
        format!(" (chance of so uneven a split: p = {}{stands})", probability(p).replace("< ", "<"))
    });
    let chance = chance.unwrap_or_default();
    format!("left out: {n} of {blocks}: {}{by}{chance}", listed.join(", "))
}

/// Runs left out where nothing is compared.
fn runs_left_out(comparison: &Comparison) -> String {
    let discarded = &comparison.discards.discarded;
    let one = |discard: &DiscardedBlock| format!("run {} ({})", discard.run, discard.reason);
    let listed: Vec<String> = discarded.iter().take(LISTED).map(one).collect();
    let more = discarded.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    match discarded.len() {
        0 => "left out: no run".to_string(),
        n => format!("left out: {}: {}{more}", counted(n, "run"), listed.join(", ")),
    }
}

fn variance(comparison: &Comparison) -> Option<String> {
    let one = |share: &analysis::VarianceShare| {
        let units = counted(share.units, "unit");
        let deviation = percent(share.deviation);
        format!("{} {} ({units}, stddev {deviation})", share.level, percent(share.share))
    };
    let shares: Vec<String> = comparison.variance.iter().map(one).collect();
    let all = format!("variance of {}: {}", comparison.primary, shares.join(", "));
    (!shares.is_empty()).then_some(all)
}

/// How a verdict came about, in one sentence.
fn how(comparison: &Comparison) -> String {
    let ratios = match comparison.design {
        Design::Blocks { .. } => "within-block log ratios",
        Design::Sessions => "log ratios between neighbouring sessions",
        Design::Boots => "log ratios between boots of the two sides",
        Design::Unpaired { unit: TakenUnit::File, .. } => {
            "log ratios between files of the two sides"
        }
        Design::Unpaired { unit: TakenUnit::Session, .. } => {
            "log ratios between sessions of the two sides"
        }
        Design::Unpaired { .. } | Design::Separate => "log ratios between runs of the two sides",
    };
    let contrasts: Vec<&Contrast> = of_primary(comparison).collect();
    let ranks = ranks(comparison, &contrasts);
    let estimate = if ranks.is_empty() { "" } else { "Hodges-Lehmann estimate of " };
    let is_unpaired = matches!(comparison.design, Design::Unpaired { .. });
    let few = if is_unpaired { "" } else { " (few runs)" };
    let assumed = assumed(contrasts.iter().copied())
        .map(|name| format!("{name} where marked t{few}, which assumes normality"));
    let methods: Vec<String> = ranks.into_iter().map(String::from).chain(assumed).collect();
    let methods = if methods.is_empty() {
        String::new()
    } else {
        format!("; {} interval: {}", percent(comparison.confidence), methods.join("; "))
    };
    let several = match comparison.variants.len() {
        0..=2 => "",
        _ => "; adjusted for the number of variants",
    };
    let effect = percent(comparison.smallest_effect);
    let n = match comparison.design {
        Design::Blocks { sequential: true } => "blocks with both variants, up to the last look",
        Design::Blocks { sequential: false } => "blocks with both variants",
        Design::Sessions => "pairs of sessions",
        Design::Boots => "boots of the smaller side",
        Design::Unpaired { unit, .. } => match unit {
            TakenUnit::File => "files of the smaller side",
            TakenUnit::Session => "sessions of the smaller side",
            TakenUnit::Run => "runs of the smaller side",
        },
        Design::Separate => {
            return format!(
                "how: change = {estimate}{ratios}{methods}, of sampling only; n = runs of the \
                 smaller side"
            );
        }
    };
    // Two one-sided tests, each at the level of the two-sided one for a change.
    let level = percent(1.0 - 2.0 * (1.0 - comparison.confidence));
    format!(
        "how: change = {estimate}{ratios}{methods}{several}; same = the {level} interval lies within \
         +-{effect}; >= {effect} = shown to be that much or more; n = {n}"
    )
}

/// The rank methods in use.
fn ranks(comparison: &Comparison, contrasts: &[&Contrast]) -> Vec<&'static str> {
    let looks = comparison.design == Design::Blocks { sequential: true };
    let signed =
        if looks { "exact signed-rank, adjusted for interim looks" } else { "exact signed-rank" };
    let rank_method = |contrast: &&Contrast| match contrast.method {
        Method::SignedRank | Method::SignedRankSequential => Some(signed),
        Method::RankSum => Some("exact rank-sum"),
        Method::Student | Method::Welch | Method::Drift | Method::None => None,
    };
    let mut ranks: Vec<&str> = contrasts.iter().filter_map(rank_method).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// The cells' indexes.
pub fn indexes(cells: &[(usize, &CellComparison)]) -> Vec<usize> {
    cells.iter().map(|(i, _)| *i).collect()
}
