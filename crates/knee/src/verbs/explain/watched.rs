//! The two ways to watch running programs: by BPF, and by /proc where BPF is not allowed.

use std::time::Duration;

use anyhow::Result;
use host::terminal::hint;
use probes::live::{Followed, LiveWatch, ProcWatch, SampledResult};
use records::live::{Observation, ObservedBy};

/// How often the ring of events is emptied.
const DRAINED: Duration = Duration::from_millis(50);

/// What watches running programs.
pub enum Watched {
    Switches(Box<LiveWatch>),
    /// With the reason why BPF is not used.
    Proc(Box<ProcWatch>, String),
}

impl Watched {
    /// Begins to watch by BPF, with so many samples per second and CPU and in windows of this length, or else by /proc.
    ///
    /// # Errors
    /// The kernel allows neither.
    pub fn begin(
        processes: &[u32],
        hertz: u32,
        window: Duration,
        without_bpf: bool,
    ) -> Result<Watched> {
        let why = if without_bpf {
            "--without-bpf was given".to_string()
        } else {
            match LiveWatch::begin(processes, hertz, window) {
                Ok(watch) => return Ok(Watched::Switches(Box::new(watch))),
                Err(why) => why,
            }
        };
        let watch = ProcWatch::begin(processes).map_err(anyhow::Error::msg)?;
        if !without_bpf {
            hint(format_args!("looking in /proc, without BPF: {}", gains(&why)));
        }
        Ok(Watched::Proc(Box::new(watch), why))
    }

    pub fn follow(&mut self, processes: &[u32]) {
        match self {
            Watched::Switches(watch) => watch.follow(processes),
            Watched::Proc(watch, _) => watch.follow(processes),
        }
    }

    /// Takes in what there is, and says after which time to call again.
    pub fn drain(&mut self) -> Duration {
        match self {
            Watched::Switches(watch) => {
                watch.take_in();
                DRAINED
            }
            Watched::Proc(watch, _) => watch.drain(),
        }
    }

    pub fn edge(&mut self) {
        match self {
            Watched::Switches(watch) => watch.edge(),
            Watched::Proc(watch, _) => watch.edge(),
        }
    }

    /// How many operations followed tasks have done, where BPF counts them.
    pub fn operations(&self) -> Result<u64, String> {
        match self {
            Watched::Switches(watch) => watch.operations(),
            Watched::Proc(..) => Err("internal error: nothing counts operations".to_string()),
        }
    }

    /// What threads and locks did.
    pub fn end(self) -> Observation {
        match self {
            Watched::Switches(watch) => by_switches(watch.end()),
            Watched::Proc(watch, why) => by_proc(watch.end(), &why),
        }
    }
}

fn by_switches(followed: Followed) -> Observation {
    Observation {
        means: ObservedBy::Switches,
        missing: followed.missing,
        lost_events: followed.lost_events,
        whole_stacks: followed.whole_stacks,
        own_ns: followed.own_ns,
        ..live::observe(&followed.trace)
    }
}

fn by_proc(sampled: SampledResult, why: &str) -> Observation {
    let mut missing = sampled.missing;
    missing.insert("who has kernel locks, and single waits".to_string(), gains(why));
    Observation {
        missing,
        whole_stacks: sampled.whole_stacks,
        own_ns: sampled.own_ns,
        ..live::observe_samples(&sampled.samples)
    }
}

/// What would add to what /proc shows.
fn gains(why: &str) -> String {
    if why.contains("built without BPF") {
        return format!("{why}; with it, every wait is seen, and who has kernel locks");
    }
    if why.contains("was given") {
        return why.to_string();
    }
    "root, or CAP_BPF and CAP_PERFMON, would show every wait, and who has kernel locks".to_string()
}
