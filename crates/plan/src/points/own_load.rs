//! The points of a load that the user wrote. It is compiled before it is planned: only then its interface and
//! parameters are known.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use records::{Axes, Experiment, Form, Load, LoadInterface, OwnLoad};

use super::{PlannedLoad, combinations, values};

/// The key of the mark on points of a load that has no version of its own.
const SOURCE: &str = "source";

/// Plans a load that the user wrote.
pub fn planned(
    own: &OwnLoad,
    load: &Load,
    axes: &Axes,
    experiment: &Experiment,
    points_max: usize,
) -> Result<PlannedLoad> {
    let compiled = own.compiled.as_ref().context("it is not compiled yet")?;
    if compiled.interface.counts_itself() {
        let counts_itself = "a test of will-it-scale counts its operations itself";
        ensure!(!experiment.latency, "{counts_itself}: knee cannot time one; leave --latency out");
        ensure!(
            axes.operations_per_task.is_none(),
            "{counts_itself}: knee cannot stop it after a number; give --seconds instead of --operations"
        );
    }
    let all = combinations(&load.parameters, points_max)?;
    // Texts of one interface say which results must not be compared; those of the other differ by content.
    let mark = (SOURCE.to_string(), compiled.sha256.clone().into());
    Ok(PlannedLoad {
        name: own.name(),
        semantics: compiled.semantics,
        combinations: all.iter().map(|given| compiled.values(given)).collect::<Result<_>>()?,
        forms: values(&axes.forms, Form::Processes),
        other: match compiled.interface {
            LoadInterface::Knee => BTreeMap::new(),
            LoadInterface::WillItScale => BTreeMap::from([mark]),
        },
    })
}
