//! The head of a comparison: which variants are compared, on what, in which design, and how to do it
//! again. A reader of a pasted table has nothing else.

use analysis::{ComparedVariant, Comparison, Design, TakenIn};
use text::Style;

use crate::header::labelled;

/// Longer names than this get a letter in tables.
const NAME_MAX: usize = 18;

/// What a reader must know before the numbers.
pub fn head(comparison: &Comparison, again: &str, style: Style) -> String {
    written(&lines(comparison, again), style)
}

/// The head of a layout that names the variants itself.
pub fn head_without_variants(comparison: &Comparison, again: &str, style: Style) -> String {
    written(&lines(comparison, again)[comparison.variants.len()..], style)
}

fn written(lines: &[(&str, String)], style: Style) -> String {
    lines.iter().map(|(label, value)| labelled(label, value, style)).collect()
}

/// Labels and what they stand before; lines that go on have none.
pub fn lines(comparison: &Comparison, again: &str) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    for (i, about) in variants(comparison).into_iter().enumerate() {
        lines.push((if i == 0 { "variants" } else { "" }, about));
    }
    for (label, of) in [("host", host as fn(&ComparedVariant) -> &str), ("record", record)] {
        lines.extend(alike(comparison, of).map(|value| (label, value.to_string())));
    }
    lines.push(("design", design(comparison)));
    lines.push(("rerun", again.to_string()));
    if comparison.cells.is_empty() {
        lines.push(("cells", "the variants have none in common, nothing to compare".to_string()));
    }
    lines.retain(|(label, value)| label.is_empty() || !value.is_empty());
    lines
}

/// The names that tables use: letters where names are long.
pub fn names(comparison: &Comparison) -> Vec<String> {
    let variants = &comparison.variants;
    let short = |variant: &ComparedVariant| variant.name.chars().count() <= NAME_MAX;
    if variants.len() == 1 || variants.iter().all(short) {
        return variants.iter().map(|variant| variant.name.clone()).collect();
    }
    (0..variants.len()).map(letter).collect()
}

/// A, B, ... Z, V27, ...
fn letter(i: usize) -> String {
    match u8::try_from(i) {
        Ok(i @ 0..26) => char::from(b'A' + i).to_string(),
        _ => format!("V{}", i + 1),
    }
}

/// "A = 6.18.2-rc1-00034-g042dd60 (baseline): mode=try".
pub fn variants(comparison: &Comparison) -> Vec<String> {
    let names = names(comparison);
    let one = |(i, variant): (usize, &ComparedVariant)| {
        let letter = Some(&names[i]).filter(|name| **name != variant.name);
        let letter = letter.map(|letter| format!("{letter} = ")).unwrap_or_default();
        let several = comparison.variants.len() > 1;
        let baseline = if i == 0 && several { " (baseline)" } else { "" };
        let apart = |of: fn(&ComparedVariant) -> &str| {
            alike(comparison, of).is_none().then(|| of(variant)).filter(|text| !text.is_empty())
        };
        let host = apart(host).map(|host| format!("on {host}"));
        let record = apart(record).filter(|record| *record != variant.name);
        let record = record.map(|record| format!("record {record}"));
        let about = Some(variant.about.clone()).filter(|about| !about.is_empty());
        let about: Vec<String> = [about, host, record].into_iter().flatten().collect();
        let colon = if about.is_empty() { "" } else { ": " };
        format!("{letter}{}{baseline}{colon}{}", variant.name, about.join("; "))
    };
    comparison.variants.iter().enumerate().map(one).collect()
}

/// What all variants have in common.
fn alike(comparison: &Comparison, of: fn(&ComparedVariant) -> &str) -> Option<&str> {
    let first = of(comparison.variants.first()?);
    comparison.variants.iter().all(|variant| of(variant) == first).then_some(first)
}

fn host(variant: &ComparedVariant) -> &str {
    &variant.host
}

fn record(variant: &ComparedVariant) -> &str {
    &variant.record
}

fn design(comparison: &Comparison) -> String {
    if comparison.variants.len() == 1 {
        return "one variant, nothing to compare: give knee compare a second record, of another \
                kernel or host"
            .to_string();
    }
    match comparison.design {
        Design::Blocks { sequential: true } => {
            "blocks with one run of each variant in random order, until decided".to_string()
        }
        Design::Blocks { sequential: false } => {
            "blocks with one run of each variant in random order".to_string()
        }
        Design::Sessions => "sessions of each variant in turn, compared in pairs".to_string(),
        Design::Boots => "separate boots of each variant, one value a boot".to_string(),
        Design::Unpaired { order, unit } => {
            let order = match order {
                TakenIn::Turn => "in turn",
                TakenIn::Sequence => "one variant's after the other's",
                TakenIn::UnknownOrder => "in an order that is not known",
            };
            format!("{}s of each variant, {order}, judged beside a drift of the host", unit.noun())
        }
        Design::Separate => {
            "not interleaved: the variants were measured one after the other, so a \
             difference below a factor of two may be the host's drift and gets no verdict"
                .to_string()
        }
    }
}
