//! The operations of running programs, counted in each window of a look.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use host::clock::now_ns;
use probes::Passes;
use probes::live::operations::{Counter, PassedFile, Reading, count_passes, passed_files};
use records::OperationSource;
use records::live::Observation;

use super::watched::Watched;

/// A count of operations that goes on with a look.
pub struct OperationCounts {
    source: OperationSource,
    counted_by: CountedBy,
    /// At the edges of windows; an error ends the count.
    readings: Vec<Result<Reading, String>>,
    /// Whether tasks that are not followed are counted, too.
    are_of_all: bool,
}

enum CountedBy {
    /// The BPF programs that watch.
    Watch,
    /// Probes of all processes that run the file.
    Passes(Vec<Passes>),
    Counter(Counter),
}

impl OperationCounts {
    /// Begins to count.
    ///
    /// # Errors
    /// The program has no such place, the kernel no such event, the file no number; or the kernel allows no probe.
    pub fn begin(
        source: OperationSource,
        watch: &mut Watched,
        processes: &[u32],
    ) -> Result<OperationCounts> {
        let why = || format!("counting operations by {source}");
        let counted_by = counted_by(&source, watch, processes);
        let counted_by = counted_by.map_err(|why| anyhow!(why)).with_context(why)?;
        let are_of_all = matches!(counted_by, CountedBy::Passes(_));
        let mut counts = OperationCounts { source, counted_by, readings: Vec::new(), are_of_all };
        counts.read(watch);
        if let Some(Err(why)) = counts.readings.pop_if(|first| first.is_err()) {
            return Err(anyhow!(why).context(format!("counting operations by {}", counts.source)));
        }
        Ok(counts)
    }

    /// Reads the count, at the edge of a window.
    pub fn read(&mut self, watch: &Watched) {
        let reading = match &mut self.counted_by {
            CountedBy::Watch => watch.operations().map(|n| (now_ns(), n)),
            CountedBy::Passes(passes) => {
                let sum = passes.iter_mut().map(Passes::count).sum::<Result<u64, String>>();
                sum.map(|n| (now_ns(), n))
            }
            CountedBy::Counter(counter) => return self.readings.push(counter.read()),
        };
        self.readings.push(reading.map(|(at_ns, n)| Reading { at_ns, count: n as f64 }));
    }

    /// Gives each window its operations. If they are not known, the reason is among what is missing.
    pub fn fill(self, observation: &mut Observation) {
        let readings: Result<Vec<Reading>, String> = self.readings.into_iter().collect();
        let rates = readings.and_then(|readings| rates_per_s(&readings));
        let windows = observation.windows.len();
        let rates = rates.and_then(|rates| {
            let counts = rates.len();
            let why = || format!("{counts} counts for {windows} windows");
            (counts == windows).then_some(rates).ok_or_else(why)
        });
        match rates {
            Ok(rates) => {
                // A window may be shorter than the time between two counts: in the rest, nothing was followed.
                for (window, rate) in observation.windows.iter_mut().zip(rates) {
                    window.operations = Some(rate * window.ns as f64 / 1e9);
                }
                observation.operations_from = Some(self.source.to_string());
                if self.are_of_all {
                    let what = "operations of the followed threads alone";
                    let why =
                        "without BPF, those of all processes that run the same file are counted";
                    observation.missing.insert(what.to_string(), why.to_string());
                }
            }
            Err(why) => {
                let why = format!("{}: {why}; all is per second", self.source);
                observation.missing.insert("operations".to_string(), why);
            }
        }
    }
}

fn counted_by(
    source: &OperationSource,
    watch: &mut Watched,
    processes: &[u32],
) -> Result<CountedBy, String> {
    match (source, watch) {
        (OperationSource::Passes(probe), watch) => {
            let files: Vec<PassedFile> = passed_files(processes, probe)?;
            match watch {
                Watched::Switches(watch) => watch.count(&files, None).map(|()| CountedBy::Watch),
                Watched::Proc(..) => count_passes(&files, probe).map(CountedBy::Passes),
            }
        }
        (OperationSource::Event { system, event }, Watched::Switches(watch)) => {
            watch.count(&[], Some((system.as_str(), event.as_str()))).map(|()| CountedBy::Watch)
        }
        (OperationSource::Event { .. }, Watched::Proc(..)) => {
            Err("events of tasks are counted by BPF alone, which is not used".to_string())
        }
        (OperationSource::File { path, word }, _) => {
            let (path, word) = (PathBuf::from(path), word.clone());
            Ok(CountedBy::Counter(Counter::File { path, word }))
        }
        (OperationSource::Command(line), _) => {
            let words = shlex::split(line).ok_or("a quote is not closed")?;
            Ok(CountedBy::Counter(Counter::Command { line: line.clone(), words }))
        }
    }
}

/// Operations per second between each two readings.
fn rates_per_s(readings: &[Reading]) -> Result<Vec<f64>, String> {
    let rate = |pair: &[Reading]| {
        let [before, after] = [pair[0], pair[1]];
        if after.count < before.count {
            return Err(format!("the count went back from {} to {}", before.count, after.count));
        }
        let ns = after.at_ns.saturating_sub(before.at_ns).max(1);
        Ok((after.count - before.count) * 1e9 / ns as f64)
    };
    let rates: Vec<f64> = readings.windows(2).map(rate).collect::<Result<_, String>>()?;
    if rates.iter().all(|rate| *rate == 0.0) {
        return Err("not one was counted".to_string());
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_between_readings() {
        let check = |readings: &[(u64, f64)], expected: Result<&[f64], &str>| {
            let reading =
                |(ms, count): &(u64, f64)| Reading { at_ns: ms * 1_000_000, count: *count };
            let readings: Vec<Reading> = readings.iter().map(reading).collect();
            match (rates_per_s(&readings), expected) {
                (Ok(rates), Ok(expected)) => assert_eq!(rates, expected),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (rates, _) => panic!("{rates:?}"),
            }
        };
        check(&[(0, 5.0), (500, 105.0), (1500, 105.0)], Ok(&[200.0, 0.0]));
        check(&[(0, 5.0), (500, 3.0)], Err("the count went back from 5 to 3"));
        check(&[(0, 5.0), (500, 5.0)], Err("not one was counted"));
        check(&[(0, 5.0)], Err("not one was counted"));
    }

    #[test]
    fn a_window_of_which_a_part_was_followed_has_that_part_of_the_operations() {
        use records::live::ObservedWindow;
        let window = |ns| ObservedWindow { ns, ..ObservedWindow::default() };
        let look = || Observation {
            windows: vec![window(1_000_000_000), window(250_000_000)],
            ..Observation::default()
        };
        let counts = |counts: &[f64]| OperationCounts {
            source: OperationSource::parse("file:/served").unwrap(),
            counted_by: CountedBy::Watch,
            readings: (0..)
                .zip(counts)
                .map(|(s, count)| Ok(Reading { at_ns: s * 1_000_000_000, count: *count }))
                .collect(),
            are_of_all: false,
        };
        let mut counted = look();
        counts(&[0.0, 100.0, 200.0]).fill(&mut counted);
        let operations: Vec<_> = counted.windows.iter().map(|w| w.operations).collect();
        assert_eq!(operations, [Some(100.0), Some(25.0)]);
        assert_eq!(counted.operations_from.as_deref(), Some("file:/served"));
        let mut fewer = look();
        counts(&[0.0, 100.0]).fill(&mut fewer);
        assert_eq!(fewer.windows[0].operations, None);
        assert!(fewer.missing["operations"].contains("1 counts for 2 windows"));
    }
}
