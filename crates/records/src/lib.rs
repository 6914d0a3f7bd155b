//! The data that crosses a process boundary or lands on disk: job, events, run, profile, record,
//! experiment; and what a perf.data holds. Types only: nothing here does IO, measures, judges or prints.

mod axes;
mod command;
mod daemon;
mod effect;
mod event;
mod experiment;
mod explain;
mod extract;
mod file_system;
mod guest;
mod guest_shape;
mod harness;
mod host_facts;
mod job;
pub mod live;
mod load;
mod metric;
mod opened;
mod operation_source;
pub mod operations;
mod own_load;
pub mod parse;
pub mod pattern;
mod planned;
mod profile;
mod program_probe;
mod quantity;
mod record;
pub mod recording;
mod run;
pub mod sampled;
mod saved_look;
mod scalar;
pub mod scanned;
mod sizes;
mod surroundings;
mod table;
mod tasks;
mod unavailable;
mod values;
mod warning;

pub use axes::Axes;
pub use command::{
    AnyStatus, ClientHost, ClientOn, Command, CommandJob, CommandLine, Extract, OperationCount,
    OutputSource, Program, RATE, Readiness, RemoteClient, Server, ServerJob, ServerProgram,
    StartedServer, Stop, Success, TableColumn, TableRow, WALL, has_line, stop,
};
pub use daemon::Daemon;
pub use effect::{Effect, EffectKind};
pub use event::{Event, Latency, Measured, TaskReport, Usage};
pub use experiment::{Adaptive, Experiment, Gate, Judging, PointOrder, Variant};
pub use explain::{Explain, FUNCTIONS_MAX};
pub use extract::FoundNumber;
pub use file_system::{Age, Aged, FileSystem, Filled, Image, Mounted, Policy, Storage};
pub use guest::{AcceleratorChoice, Boot, Guest, Hypervisor, ICOUNT, INSTRUCTIONS};
pub use guest_shape::GuestShape;
pub use harness::Harness;
pub use host::durable::Seal;
pub use host_facts::{Directory, HostFacts};
pub use job::{Job, NativeJob, OwnJob, PROTOCOL, ProfileJob, Work};
pub use load::{Load, LoadWork};
pub use metric::{
    ALLOCATIONS, Better, COUNTERS, DescribedMetric, METRICS, Metric, MetricKind, Obtained,
    find_counter, find_metric, known_metric, per_operation,
};
pub use opened::{Opened, Runs};
pub use operation_source::{OperationSource, counter_in};
pub use own_load::{CompiledLoad, LoadInterface, OwnLoad, OwnParameter};
pub use planned::{Planned, PlannedWork, UnitOfWork};
pub use profile::{
    Base, Bursts, CpuMode, CpuState, CpuTime, LockTime, OTHER_TASK, OWN_TASK,
    OWN_TASK_ON_THE_ONLY_CPUS, Profile, ProfileKind, QUOTA, SampledStacks, Share, Slice, Stack,
    Window,
};
pub use program_probe::{ProgramPlace, ProgramProbe};
pub use quantity::Quantity;
pub use record::{
    FORMAT, HostChange, Point, Record, RecordState, ReplicationUnit, Session, Source, check_label,
};
pub use run::{Outcome, Run, Sample, Warmup};
pub use saved_look::SavedLook;
pub use scalar::{Many, Scalar};
pub use sizes::HERE;
pub use surroundings::Surroundings;
pub use tasks::{Form, Pass, TASKS_MAX, Until};
pub use unavailable::Unavailable;
pub use values::{Value, Values};
pub use warning::Warning;
