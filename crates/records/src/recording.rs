//! A recording of Linux perf as plain values: the samples of CPUs with time and call chain, and the
//! names of functions as far as they are known.

use crate::CpuMode;

/// perf's recording of one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Where and how the recording was made, as far as the file records it.
    pub origin: Origin,
    /// The event whose samples these are.
    pub event: SampledEvent,
    /// Other events in the file by name, with the number of their samples, which were left out.
    pub other_events: Vec<(String, u64)>,
    /// Whether all CPUs were sampled with all their tasks; otherwise only chosen tasks.
    pub all_cpus: bool,
    /// Names of tasks; samples refer to them by index.
    pub tasks: Vec<String>,
    /// Files and other objects that contain code; the first is the kernel.
    pub objects: Vec<Object>,
    /// Functions; locations refer to them by index.
    pub functions: Vec<Function>,
    /// Locations in the code; chains refer to them by index.
    pub locations: Vec<Location>,
    /// Call chains; samples refer to them by index.
    pub chains: Chains,
    /// The samples, in the order of time.
    pub samples: Vec<PerfSample>,
    /// Lost samples, with the time at which the loss was noticed.
    pub losses: Vec<Loss>,
    /// How often the kernel throttled the sampling because it took too long.
    pub throttled: u64,
    /// Warnings about the recording, one sentence each.
    pub warnings: Vec<String>,
}

impl Recording {
    /// Whether callers were recorded, as `perf record -g` does.
    pub fn has_callers(&self) -> bool {
        (0..self.chains.len()).any(|chain| self.chains.locations(chain as u32).len() > 1)
    }
}

/// Where and how a recording was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// Host name.
    pub host: String,
    /// Release of the kernel.
    pub release: String,
    /// Architecture, as in uname(1).
    pub architecture: String,
    /// Number of CPUs that were online.
    pub cpus_online: Option<u32>,
    /// The command line of perf.
    pub command: Vec<String>,
}

/// The event that was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledEvent {
    /// Name of the event: `cpu-clock`, `cycles`.
    pub name: String,
    /// Whether the unit of periods is nanoseconds of CPU time.
    pub is_clock: bool,
    /// Samples per second, if a frequency was asked for.
    pub hertz: Option<u64>,
}

/// A file or another object that contains code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// The path of the file, or a name in brackets.
    pub path: String,
    /// Build id of the contents; empty if unknown.
    pub build_id: Vec<u8>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Name of the function, or `OBJECT+0xOFFSET` if it is unknown.
    pub name: String,
    /// Index of its object.
    pub object: u32,
    /// Whether the name is known.
    pub known: bool,
}

/// A location in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Index of its object.
    pub object: u32,
    /// The offset in the file, or the address in the kernel.
    pub address: u64,
    /// Index of its function.
    pub function: u32,
    /// Whether the instruction before it is a system call: time sampled there was spent in the kernel's
    /// exit path, where interrupts are off.
    pub after_system_call: bool,
}

/// Call chains, innermost frame first, stored one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chains {
    locations: Vec<u32>,
    /// End of each chain in `locations`, and how many of its frames are the kernel's.
    ends: Vec<(u32, u32)>,
}

impl Chains {
    /// The locations of a chain, innermost first.
    pub fn locations(&self, chain: u32) -> &[u32] {
        let start = chain.checked_sub(1).map_or(0, |before| self.ends[before as usize].0);
        &self.locations[start as usize..self.ends[chain as usize].0 as usize]
    }

    /// How many of the innermost frames are the kernel's.
    pub fn kernel_frames(&self, chain: u32) -> usize {
        self.ends[chain as usize].1 as usize
    }

    /// How many chains there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a chain and returns its index; `None` if indices run out.
    pub fn push(
        &mut self,
        locations: impl Iterator<Item = u32>,
        kernel_frames: u32,
    ) -> Option<u32> {
        self.locations.extend(locations);
        let end = u32::try_from(self.locations.len()).ok()?;
        let index = u32::try_from(self.ends.len()).ok()?;
        self.ends.push((end, kernel_frames));
        Some(index)
    }
}

/// One sample of a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerfSample {
    /// Time by perf's clock; 0 if the file has no times.
    pub time_ns: u64,
    /// CPU; 0 if the file does not record it.
    pub cpu: u32,
    /// Process id.
    pub pid: i32,
    /// Thread id; 0 is the idle task of the CPU.
    pub tid: i32,
    /// Index of the name of its task.
    pub task: u32,
    /// Index of the call chain.
    pub chain: u32,
    /// Number of events that it stands for; nanoseconds for a clock.
    pub period: u64,
    /// Mode that the CPU was in.
    pub mode: CpuMode,
}

/// A loss of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// When the loss was noticed.
    pub time_ns: u64,
    /// How many samples were lost.
    pub samples: u64,
}

impl Recording {
    /// The times of the first and the last sample.
    pub fn span_ns(&self) -> (u64, u64) {
        let times = || self.samples.iter().map(|sample| sample.time_ns);
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }

    /// The function of a location.
    pub fn function(&self, location: u32) -> &Function {
        &self.functions[self.locations[location as usize].function as usize]
    }

    /// The last part of the path of an object.
    pub fn object_name(&self, object: u32) -> &str {
        let path = self.objects[object as usize].path.as_str();
        // A name in brackets is not a path, even if it has slashes.
        if path.starts_with('[') { path } else { path.rsplit('/').next().unwrap_or(path) }
    }
}
