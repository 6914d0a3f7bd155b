//! Units of numbers that commands print: where a metric has none, the first run that tells one gives it to the metric, and a
//! number in another is missing. Two scales in one row would be a difference that is none.

use std::collections::{BTreeMap, BTreeSet};

use records::{DescribedMetric, Event, Extract, Quantity};

/// The metrics whose units are settled.
#[derive(Debug, Default)]
pub struct Units(BTreeSet<String>);

impl Units {
    /// Settles the units of a run's numbers before they are reduced.
    pub fn settle(
        &mut self,
        extracts: &[Extract],
        metrics: &mut BTreeMap<String, DescribedMetric>,
        events: &mut [Event],
    ) {
        for event in events {
            let Event::Ended { values, units, missing, .. } = event else { continue };
            for extract in extracts.iter().filter(|extract| Quantity::is_open(&extract.unit)) {
                let Some(metric) = metrics.get_mut(&extract.name) else { continue };
                // 0 is 0 in each unit.
                let value = values.get(&extract.name).copied().filter(|value| *value != 0.0);
                let Some(value) = value else { continue };
                let told = units.get(&extract.name).unwrap_or(&extract.unit);
                if self.0.insert(extract.name.clone()) {
                    metric.unit.clone_from(told);
                } else if metric.unit != *told {
                    values.remove(&extract.name);
                    let why = format!(
                        "{} is {value} {told}, but the runs before had {}, so it is missing: name in the pattern what \
                         stands around the number that is meant",
                        extract.name, metric.unit
                    );
                    missing.insert(extract.name.clone(), why);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use records::{Better, Obtained};

    use super::*;

    /// What becomes of numbers with units, run after run.
    #[track_caller]
    fn check(runs: &[(f64, &str)], unit: &str, kept: &[bool]) {
        let extract =
            Extract { name: "took".to_string(), ..records::pattern::extract("{}").unwrap() };
        let described = DescribedMetric {
            unit: "1".to_string(),
            better: Better::Lower,
            obtained: Obtained::Imported,
            kind: None,
        };
        let mut metrics = BTreeMap::from([("took".to_string(), described)]);
        let (mut settled, mut found) = (Units::default(), Vec::new());
        for (value, unit) in runs {
            let name = || "took".to_string();
            let units = Some((name(), unit.to_string())).filter(|_| !unit.is_empty());
            let mut events = [Event::Ended {
                exit_status: 0,
                values: [(name(), *value)].into(),
                units: units.into_iter().collect(),
                missing: BTreeMap::new(),
                operations: None,
            }];
            settled.settle(std::slice::from_ref(&extract), &mut metrics, &mut events);
            let Event::Ended { values, missing, .. } = &events[0] else { unreachable!() };
            assert_eq!(values.len() + missing.len(), 1);
            found.push(values.len() == 1);
        }
        assert_eq!((&metrics["took"].unit[..], &found[..]), (unit, kept));
    }

    #[test]
    fn the_first_run_gives_a_metric_its_unit() {
        check(&[(0.0125, "s"), (0.9, "s")], "s", &[true, true]);
        check(&[(5.0, "s"), (3.2, "GB/s"), (7.0, ""), (0.0, "")], "s", &[true, false, false, true]);
        check(&[(0.0, ""), (3.2, "GB/s")], "GB/s", &[true, true]);
        check(&[(5.0, ""), (3.2, "GB/s"), (7.0, "")], "1", &[true, false, true]);
    }
}
