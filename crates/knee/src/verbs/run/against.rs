//! `knee run --against`: what a record measured is measured again, beside what the other arguments name.

use anyhow::Result;
use plan::Side;
use records::{Experiment, OwnLoad};
use setup::foreign::Foreign;
use store::Store;

use super::{Arguments, as_named, changed};
use crate::named;

/// A record's experiment and what the arguments describe, as two variants of one experiment.
pub fn request(arguments: &Arguments, record: &str, store: &Store) -> Result<Foreign<Experiment>> {
    let before = named::measured(record, store)?;
    let mut size = arguments.file_systems.size();
    let now = match arguments.what.as_slice() {
        [] if arguments.commands.is_empty() => {
            let same = before.look().experiment.clone();
            let variants = if arguments.variants.is_empty() { same.variants } else { Vec::new() };
            let experiment = Experiment { variants, ..same };
            Foreign::typed(Side { name: "now".to_string(), experiment })
        }
        [one] if !named::is_measurable(one) => named::measured(one, store)?,
        _ => {
            let (named, left) = as_named(arguments)?;
            size = left;
            named.map(|experiment| Side { name: "now".to_string(), experiment })
        }
    };
    let now = now.try_map(|now| {
        let name = arguments.variants.first().map_or(now.name, |variant| variant.name.clone());
        // The random order is another one, and the number of blocks that of a comparison.
        let experiment = Experiment { blocks: None, seed: None, ..now.experiment };
        Ok(Side { name, experiment: changed(experiment, size, arguments)? })
    })?;
    let both = before.and(now).try_map(|(before, mut now)| {
        take_unchanged_code(&before.experiment, &mut now.experiment);
        plan::against(before, now)
    })?;
    Ok(both.map(|mut both| {
        both.blocks = arguments.blocks;
        both.blocks = Some(both.blocks());
        both
    }))
}

/// Adds what a record knows of the code of its loads to those loads of another experiment whose files are still the
/// same: one load is measured for both.
fn take_unchanged_code(before: &Experiment, now: &mut Experiment) {
    let known = before.own_loads();
    let known: Vec<&OwnLoad> = known.filter(|own| own.compiled.is_some()).collect();
    let uncompiled = now.own_loads_mut();
    for own in uncompiled.filter(|own| own.compiled.is_none()) {
        let same = known.iter().find(|before| before.file == own.file && before.flags == own.flags);
        let compiled = same.and_then(|before| before.compiled.as_ref());
        own.compiled = compiled.filter(|compiled| own_loads::is_unchanged(own, compiled)).cloned();
    }
}
