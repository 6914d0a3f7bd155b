//! The points of a load that the user wrote. Its interface and parameters are known only once it is compiled, which a
//! plan that is only shown does not do.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
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
    let all = combinations(&load.parameters, points_max)?;
    let forms = values(&axes.forms, Form::Processes);
    let Some(compiled) = &own.compiled else {
        let (name, other) = (own.name(), BTreeMap::new());
        return Ok(PlannedLoad { name, semantics: 0, combinations: all, forms, other });
    };
    if compiled.interface.counts_itself() {
        let counts_itself = "a test of will-it-scale counts its operations itself";
        ensure!(!experiment.latency, "{counts_itself}: knee cannot time one; leave --latency out");
        ensure!(
            axes.operations_per_task.is_none(),
            "{counts_itself}: knee cannot stop it after a number; give --seconds instead of --operations"
        );
    }
    // Texts of one interface say which results must not be compared; those of the other differ by content.
    let mark = (SOURCE.to_string(), compiled.sha256.clone().into());
    Ok(PlannedLoad {
        name: own.name(),
        semantics: compiled.semantics,
        combinations: all.iter().map(|given| compiled.values(given)).collect::<Result<_>>()?,
        forms,
        other: match compiled.interface {
            LoadInterface::Knee => BTreeMap::new(),
            LoadInterface::WillItScale => BTreeMap::from([mark]),
        },
    })
}
