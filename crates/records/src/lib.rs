//! What crosses a process boundary or lands on disk: the job, the events, the run,
//! the record, and the store that keeps records. Nothing here measures, judges or
//! prints.

mod command;
mod compact;
mod event;
mod experiment;
mod explain;
mod file_system;
mod guest;
mod host;
pub mod import;
mod index;
mod job;
mod lines;
mod look;
mod metric;
mod nearest;
pub mod perf_data;
mod record;
mod run;
mod samples;
mod seal;
mod sizes;
mod store;
mod topology;

pub use command::{Command, Errand, Extract, Line, Origin, Program, Row, TableColumn, WALL};
pub use compact::{Compacted, compact};
pub use event::{Event, Latency, Measured, TaskReport, Usage};
pub use experiment::{Axes, Experiment, Judging, Load, Many, Order, Variant, Word};
pub use explain::{Explain, FUNCTIONS_MAX};
pub use file_system::{Age, Aged, FileSystem, Filled, Image, Mounted, Policy, Storage};
pub use guest::{Boot, Guest, Hypervisor};
pub use host::{Directory, Host};
pub use index::{Index, Listed};
pub use job::{Form, Job, Native, PROTOCOL, Pass, TASKS_MAX, Until, Watch, Work};
pub use look::{
    Base, Bursts, CpuTime, LockTime, Look, LookKind, Mode, Samples, Share, Slice, Stack,
    State as CpuState, Window,
};
pub use metric::{Better, Described, METRICS, Metric, Obtained};
pub use nearest::nearest;
pub use record::{FORMAT, HostChange, Point, Record, Seal, Session, Source, State, Unit, Warning};
pub use run::{Outcome, Run, Warmup};
pub use samples::Sample;
pub use sizes::HERE;
pub use store::{Growing, Id, Opened, Store};
pub use topology::{Cpu, Placement, Topology};
