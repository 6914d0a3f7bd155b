//! Rights that runs need and that show before anything starts: settings of the kernel, probes in programs, delays of
//! kernel locks.

use anyhow::{Result, ensure};
use host::paths;
use records::{ProgramProbe, Record, Variant};
use setup::settings;

/// Refuses runs for which this user lacks rights. Changes nothing.
pub fn check(record: &Record) -> Result<()> {
    let is_local = |variant: &&Variant| record.guest(&variant.name).is_none();
    let local: Vec<Variant> = record.variants.iter().filter(is_local).cloned().collect();
    settings::check_rights(&local)?;
    let of_root = needs_root(record);
    ensure!(
        of_root.is_empty() || paths::user() == 0,
        "{} {} root: run knee as root",
        of_root.join(" and "),
        if of_root.len() == 1 { "needs" } else { "need" }
    );
    Ok(())
}

/// What of a record only root can measure.
fn needs_root(record: &Record) -> Vec<&'static str> {
    let is_counted_by_probe = record.commands.values().any(|command| {
        command.operations.as_ref().is_some_and(|operations| ProgramProbe::is_meant(&operations.0))
    });
    let is_delay = |(name, value): (&String, &String)| name.ends_with("_delay_ns") && value != "0";
    let is_delayed = record.points.iter().any(|point| point.parameters.iter().any(is_delay));
    let needs = [
        (is_counted_by_probe, "counting operations by a probe"),
        (is_delayed, "a delay of kernel locks"),
    ];
    needs.into_iter().filter_map(|(is_needed, what)| is_needed.then_some(what)).collect()
}
