//! The flags of a search for knees, and how they change an experiment.

use anyhow::{Context, Result, bail, ensure};
use records::{Experiment, parse};

/// The word in place of CPU counts.
const ADAPTIVE: &str = "adaptive";

/// When `--cpus adaptive` ends.
#[derive(clap::Args)]
pub struct AdaptiveFlags {
    /// Time that --cpus adaptive may take: 90s, 10m, 2h [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = time_s, hide_short_help = true)]
    budget: Option<f64>,
    /// End --cpus adaptive when the knee is known this well [default: 10%]
    ///
    /// Its 90 % interval then reaches no farther to either side, or is one CPU wide.
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent, hide_short_help = true)]
    knee_within: Option<f64>,
}

impl AdaptiveFlags {
    /// Makes the experiment a search if that is what `--cpus` asks for. Other CPU counts end a search that the
    /// experiment's file asks for.
    pub fn apply(&self, cpus: Option<&str>, experiment: &mut Experiment) -> Result<()> {
        match cpus {
            Some(ADAPTIVE) => {
                experiment.adaptive.get_or_insert_default();
                let loads = experiment.loads.iter_mut().map(|load| &mut load.axes);
                loads.chain([&mut experiment.axes]).for_each(|axes| axes.cpus = None);
            }
            Some(_) => experiment.adaptive = None,
            None => (),
        }
        let Some(adaptive) = &mut experiment.adaptive else {
            ensure!(
                self.budget.is_none() && self.knee_within.is_none(),
                "--budget and --knee-within are for --cpus adaptive: give both, or leave them out"
            );
            return Ok(());
        };
        adaptive.budget_s = self.budget.unwrap_or(adaptive.budget_s);
        adaptive.knee_within = self.knee_within.unwrap_or(adaptive.knee_within);
        Ok(())
    }
}

/// `90s`, `10m` or `1.5h`, in seconds.
fn time_s(text: &str) -> Result<f64> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let unit = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) =
        unit.with_context(|| format!("'{text}' must be a time such as 90s, 10m or 2h"))?;
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * seconds < 1e9 => Ok(number * seconds),
        _ => bail!("'{text}' must be a time above 0 such as 90s, 10m or 2h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_time_with_its_unit() {
        assert_eq!(time_s("10m").unwrap(), 600.0);
        assert_eq!(time_s("1.5h").unwrap(), 5400.0);
        for wrong in ["", "10", "0s", "-1m", "m", "1d", "1e300h", "NaNs"] {
            assert!(time_s(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_word_replaces_counts_and_counts_replace_a_search() {
        let flags = AdaptiveFlags { budget: Some(30.0), knee_within: None };
        let text = "[axes]\ncpus = 4\n[[load]]\nworkload = 'brk'\naxes = { cpus = 2 }";
        let mut experiment = Experiment::read(text).unwrap();
        flags.apply(Some("adaptive"), &mut experiment).unwrap();
        experiment.check().unwrap();
        assert_eq!(experiment.adaptive.unwrap().budget_s, 30.0);
        let why = flags.apply(Some("1..all"), &mut experiment).unwrap_err();
        assert!(why.to_string().contains("--cpus adaptive"), "{why}");
        assert_eq!(experiment.adaptive, None);
    }
}
