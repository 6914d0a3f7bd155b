//! The two ways to watch running programs: by BPF, and by /proc where BPF is not allowed.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use probes::live::{Followed, LiveWatch, ProcWatch, SampledResult};
use records::live::{Observation, ObservedBy};

/// Ends the reason where the user wants no BPF.
const GIVEN: &str = "was given";

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
            format!("--without-bpf {GIVEN}")
        } else {
            match LiveWatch::begin(processes, hertz, window) {
                Ok(watch) => return Ok(Watched::Switches(Box::new(watch))),
                Err(why) => why,
            }
        };
        let watch = ProcWatch::begin(processes).map_err(anyhow::Error::msg)?;
        Ok(Watched::Proc(Box::new(watch), why))
    }

    /// What would show more, unless the user wants no more.
    pub fn advice(&self) -> Option<String> {
        match self {
            Watched::Proc(_, why) if !why.contains(GIVEN) => {
                Some(format!("looking in /proc, without BPF: {}", gains(why)))
            }
            _ => None,
        }
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
            Watched::Switches(watch) => watch.take_in(),
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

    /// Answers with what threads and locks did up to the last edge, since the last call; the look goes on.
    pub fn cut<R>(&mut self, answer: impl FnOnce(Observation) -> R) -> R {
        match self {
            Watched::Switches(watch) => watch.cut(|followed| {
                let (seen, carried) = live::observe_part(&followed.trace);
                (answer(by_switches(followed, seen)), carried)
            }),
            Watched::Proc(watch, why) => answer(by_proc(watch.cut(), why)),
        }
    }

    /// Whether the last answers have been paid for by following less, so that another may be asked for.
    pub fn is_paid(&self) -> bool {
        match self {
            Watched::Switches(watch) => watch.is_paid(),
            // It takes its rounds as often as answers allow.
            Watched::Proc(..) => true,
        }
    }

    /// Whether anything was seen since the last cut.
    pub fn has_windows(&self) -> bool {
        match self {
            Watched::Switches(watch) => watch.has_windows(),
            Watched::Proc(..) => true,
        }
    }

    /// Looks no more until [`Watched::resume`].
    pub fn rest(&mut self) {
        if let Watched::Switches(watch) = self {
            watch.rest();
        }
    }

    /// Begins anew: what came before is left out.
    pub fn resume(&mut self) {
        match self {
            Watched::Switches(watch) => {
                watch.edge();
                watch.cut(|followed| ((), live::observe_part(&followed.trace).1));
            }
            Watched::Proc(watch, _) => watch.begin_anew(),
        }
    }

    /// What threads and locks did.
    pub fn end(self) -> Observation {
        match self {
            Watched::Switches(watch) => {
                let followed = watch.end();
                let seen = live::observe(&followed.trace);
                by_switches(followed, seen)
            }
            Watched::Proc(watch, why) => by_proc(watch.end(), &why),
        }
    }
}

fn by_switches(followed: Followed, seen: Observation) -> Observation {
    Observation {
        means: ObservedBy::Switches,
        missing: followed.missing,
        lost_events: followed.lost_events,
        whole_stacks: followed.whole_stacks,
        own_ns: followed.own_ns,
        ..seen
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
    if why.contains(GIVEN) {
        return why.to_string();
    }
    let needs = probes::live::bpf_needs(Path::new("/"), why);
    format!("{needs} would show every wait, and who has kernel locks")
}
