//! Shares of time over windows, with intervals.

use analysis::{Spread, Student};
use records::live::{CpuUse, Observation, ObservedThread, ThreadState};
use schemars::JsonSchema;
use serde::Serialize;

/// A share, with its 95 % interval over windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    /// The share over all windows.
    pub mean: f64,
    /// Half the width of the interval; absent with fewer than two windows, or where it is not over windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half: Option<f64>,
}

impl Share {
    pub fn exactly(mean: f64) -> Share {
        Share { mean, half: None }
    }

    /// A share of samples, with the interval of a binomial share.
    pub fn of_samples(some: u64, all: u64) -> Share {
        if all == 0 {
            return Share::default();
        }
        let (mean, n) = (some as f64 / all as f64, all as f64);
        Share { mean, half: Some(1.96 * (mean * (1.0 - mean) / n).sqrt()) }
    }

    pub fn divided_by(self, divisor: f64) -> Share {
        Share { mean: self.mean / divisor, half: self.half.map(|half| half / divisor) }
    }
}

/// Shares of an observation.
pub struct Shares<'o> {
    observation: &'o Observation,
}

impl<'o> Shares<'o> {
    pub fn new(observation: &'o Observation) -> Shares<'o> {
        Shares { observation }
    }

    /// A time of each window as a share of the window; of the time of threads it is their mean number.
    pub fn of_time(&self, ns: &[u64]) -> Share {
        let windows = &self.observation.windows;
        let whole: u64 = windows.iter().map(|window| window.ns).sum();
        let mean = ns.iter().sum::<u64>() as f64 / whole.max(1) as f64;
        let shares =
            ns.iter().zip(windows).map(|(ns, window)| *ns as f64 / window.ns.max(1) as f64);
        let shares: Vec<f64> = shares.collect();
        let half = Spread::from_values(&shares).filter(|spread| spread.n > 1).and_then(|spread| {
            let error = spread.stddev? / (spread.n as f64).sqrt();
            let student = Student { estimate: 0.0, error, freedom: spread.n as f64 - 1.0 };
            Some(student.interval(0.05)?.1)
        });
        Share { mean, half }
    }

    /// The mean number of threads in some states.
    pub fn threads(&self, is: impl Fn(&ThreadState) -> bool) -> f64 {
        self.of_time(&self.ns(self.observation.threads.iter(), is)).mean
    }

    /// The threads in some states, as a share of so many threads.
    pub fn of(&self, is: impl Fn(&ThreadState) -> bool, threads: f64) -> Share {
        let all = self.of_time(&self.ns(self.observation.threads.iter(), is));
        if threads > 0.0 { all.divided_by(threads) } else { Share::default() }
    }

    /// The share of the time in which a thread is in some states.
    pub fn of_thread(&self, thread: &ObservedThread, is: impl Fn(&ThreadState) -> bool) -> Share {
        self.of_time(&self.ns(std::iter::once(thread), is))
    }

    /// How long threads are in some states, all together, in each window.
    pub fn ns<'t>(
        &self,
        threads: impl Iterator<Item = &'t ObservedThread>,
        is: impl Fn(&ThreadState) -> bool,
    ) -> Vec<u64> {
        let mut ns = vec![0; self.observation.windows.len()];
        let states = threads.flat_map(|thread| &thread.states).filter(|time| is(&time.state));
        for time in states {
            ns.iter_mut().zip(&time.ns).for_each(|(sum, ns)| *sum += ns);
        }
        ns
    }

    /// A use of the CPUs in each window.
    pub fn cpu_ns(&self, of: impl Fn(&CpuUse) -> u64) -> Vec<u64> {
        self.observation.windows.iter().map(|window| of(&window.cpus)).collect()
    }

    /// The share of samples whose stack is such.
    pub fn sampled(&self, is: impl Fn(&[String]) -> bool) -> Share {
        let samples = || self.observation.threads.iter().flat_map(|thread| &thread.samples);
        let times = |is: &dyn Fn(&[String]) -> bool| -> u64 {
            samples().filter(|sample| is(&sample.stack)).map(|sample| sample.times).sum()
        };
        Share::of_samples(times(&is), times(&|_| true))
    }

    /// The other program that threads stood behind longest.
    pub fn first_other(&self) -> Option<String> {
        self.longest(|state| match state {
            ThreadState::BehindOther(name) => Some(name.clone()),
            _ => None,
        })
    }

    /// The call that threads waited for storage in longest.
    pub fn first_disk_call(&self) -> String {
        let call = self.longest(|state| match state {
            ThreadState::Disk(call) => Some(call.clone()),
            _ => None,
        });
        call.unwrap_or_default()
    }

    fn longest(&self, name: impl Fn(&ThreadState) -> Option<String>) -> Option<String> {
        let mut times = std::collections::BTreeMap::<String, u64>::new();
        for time in self.observation.threads.iter().flat_map(|thread| &thread.states) {
            if let Some(name) = name(&time.state) {
                *times.entry(name).or_default() += time.ns.iter().sum::<u64>();
            }
        }
        times.into_iter().max_by_key(|(_, ns)| *ns).map(|(name, _)| name)
    }
}
