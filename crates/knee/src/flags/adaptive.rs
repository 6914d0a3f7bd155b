//! The flags of a search for knees, and how they change an experiment.

use std::time::Duration;

use anyhow::{Result, ensure};
use records::{Experiment, parse};

use super::times::duration;

/// The word in place of CPU counts.
const ADAPTIVE: &str = "adaptive";

/// When `--cpus adaptive` ends.
#[derive(clap::Args)]
pub struct AdaptiveFlags {
    /// Time that --cpus adaptive may take: 90s, 10m, 2h [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration, hide_short_help = true)]
    budget: Option<Duration>,
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
        adaptive.budget_s = self.budget.map_or(adaptive.budget_s, |budget| budget.as_secs_f64());
        adaptive.knee_within = self.knee_within.unwrap_or(adaptive.knee_within);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_replaces_counts_and_counts_replace_a_search() {
        let flags = AdaptiveFlags { budget: Some(Duration::from_secs(30)), knee_within: None };
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
