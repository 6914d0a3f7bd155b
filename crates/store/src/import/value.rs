//! A file of any tool, of which the user says where its numbers stand (`--value`). Several numbers are samples; where a
//! table or document names what they are of, each name is a cell.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use records::{Better, Extract, FoundNumber, Quantity, ReplicationUnit, Warning};

use crate::import::suggest::Suggestion;
use crate::import::{File, Foreign, ForeignCell, ForeignRun, Format, metric_word, numbers_in};

const LACKS: &[&str] =
    &["what was measured, with which options, on which host and kernel, is not recorded"];

/// The format of files whose numbers the user points at. It is no format to choose by its name.
pub const FORMAT: Format =
    Format { name: "value", about: "any text, with --value", recognise: |_| false, read };

/// A number that the user wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The pattern, as given.
    pub pattern: String,
    /// What it means; its unit is 1 if only the file tells it.
    pub extract: Extract,
}

/// The values of one cell: of each metric those that were found.
#[derive(Default)]
struct Group {
    labels: BTreeMap<String, String>,
    values: BTreeMap<String, Vec<f64>>,
}

fn read(file: &File) -> Result<Foreign> {
    let wanted = file.values;
    ensure!(!wanted.is_empty(), "the format value needs --value 'TEXT {{}}'");
    let mut foreign = Foreign::new("", ReplicationUnit::Sample, LACKS);
    let mut groups = Groups::default();
    let mut read = 0;
    for one in wanted {
        let found = match one.extract.numbers(file.text) {
            Ok(found) => found,
            Err(why) => {
                let advice = Suggestion::for_text(file.text).advice(&file.path.to_string_lossy());
                bail!("--value '{}': {why}{advice}", one.pattern);
            }
        };
        read += found.len();
        add(&mut foreign, &mut groups, one, &found)
            .with_context(|| format!("--value '{}'", one.pattern))?;
    }
    for group in &groups.all {
        warn_of(&mut foreign, group);
        foreign.runs.push(run(group));
    }
    let all: usize = file.text.lines().map(|line| numbers_in(&without_thousands(line))).sum();
    if all > read {
        foreign.unread.insert("other numbers".to_string(), all - read);
    }
    Ok(foreign)
}

/// A line in which 1,650 is one number.
fn without_thousands(line: &str) -> String {
    let bytes = line.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_between = |at: usize| {
        at > 0 && is_digit(at - 1) && (1..=3).all(|after| is_digit(at + after)) && !is_digit(at + 4)
    };
    let kept = line.char_indices().filter(|(at, letter)| *letter != ',' || !is_between(*at));
    kept.map(|(_, letter)| letter).collect()
}

/// Adds the numbers of one pattern to their cells.
fn add(
    foreign: &mut Foreign,
    groups: &mut Groups,
    wanted: &Wanted,
    found: &[FoundNumber],
) -> Result<()> {
    let extract = &wanted.extract;
    let unit = unit(found);
    let fits = |one: &FoundNumber| converted(&one.quantity, unit).is_ok();
    // Things with names of their own may have units of their own, which make metrics of their own.
    let are_apart = found.iter().all(|one| !one.labels.is_empty()) && !found.iter().all(fits);
    for number in found {
        let own = Some(&number.quantity.unit[..]).filter(|_| are_apart);
        let value = converted(&number.quantity, own.or(unit))?;
        let unit = own.or(unit).unwrap_or(&extract.unit);
        let name = match own {
            Some(own) => format!("{}_{}", extract.name, metric_word(&own.replace('/', "_per_"))),
            None => extract.name.clone(),
        };
        foreign.describe(&name, unit, better(extract, unit));
        if foreign.primary.is_empty() {
            foreign.primary.clone_from(&name);
        }
        groups.of(&number.labels).values.entry(name).or_default().push(value);
    }
    Ok(())
}

/// The cells in the order of the file.
#[derive(Default)]
struct Groups {
    all: Vec<Group>,
    places: BTreeMap<BTreeMap<String, String>, usize>,
}

impl Groups {
    fn of(&mut self, labels: &BTreeMap<String, String>) -> &mut Group {
        let next = self.all.len();
        let at = *self.places.entry(labels.clone()).or_insert(next);
        if at == next {
            self.all.push(Group { labels: labels.clone(), ..Group::default() });
        }
        &mut self.all[at]
    }
}

/// The unit that all numbers shall have: that of the first which has one; `None` if none has.
fn unit(found: &[FoundNumber]) -> Option<&str> {
    found.iter().map(|one| &one.quantity.unit[..]).find(|unit| !unit.is_empty())
}

fn converted(quantity: &Quantity, unit: Option<&str>) -> Result<f64> {
    // 0 is 0 in each unit.
    let Some(unit) = unit.filter(|_| quantity.value != 0.0) else { return Ok(quantity.value) };
    quantity.in_unit(unit).with_context(|| {
        let own = if quantity.unit.is_empty() { "no unit" } else { &quantity.unit };
        format!(
            "{} has {own}, another number has {unit}: give a pattern of its own to each, with the unit in it",
            quantity.value
        )
    })
}

fn better(extract: &Extract, unit: &str) -> Better {
    let is_rate = ["/s", "/sec", "bps"].iter().any(|ending| unit.ends_with(ending));
    match extract.better {
        Better::Neither if Quantity::is_time(unit) => Better::Lower,
        Better::Neither if is_rate => Better::Higher,
        told => told,
    }
}

fn run(group: &Group) -> ForeignRun {
    let labels = group.labels.iter();
    let parameters = labels.map(|(name, value)| (metric_word(name), value.clone())).collect();
    let cell = ForeignCell { parameters, ..ForeignCell::default() };
    let mut run = ForeignRun { cell, ..ForeignRun::default() };
    let most = group.values.values().map(Vec::len).max().unwrap_or(0);
    for (name, values) in &group.values {
        run.values.insert(name.clone(), values.iter().sum::<f64>() / values.len() as f64);
    }
    if most > 1 {
        let sample = |at: usize| {
            let all = group.values.iter();
            all.filter_map(|(name, values)| Some((name.clone(), *values.get(at)?))).collect()
        };
        run.samples = (0..most).map(sample).collect();
    }
    run
}

fn warn_of(foreign: &mut Foreign, group: &Group) {
    let counts: Vec<usize> = group.values.values().map(Vec::len).collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    if counts.iter().any(|count| *count != most) {
        let named: Vec<String> =
            group.values.iter().map(|(name, values)| format!("{} {name}", values.len())).collect();
        foreign.warnings.push(Warning::new(
            format!("the file has {}: which belong together is a guess", named.join(", ")),
            "import each pattern by itself",
        ));
    }
    if most > 1 && group.labels.is_empty() {
        foreign.warnings.push(Warning::new(
            format!("{most} matches are taken as samples of one thing"),
            "if they are not, put more of the line into the pattern",
        ));
    }
}
