//! What crosses a process boundary or lands on disk: the job, the events, the run, the record, the
//! experiment. Types only: nothing here does IO, measures, judges or prints.

mod command;
mod event;
mod experiment;
mod explain;
mod extract;
mod file_system;
mod guest;
mod guest_shape;
mod host_facts;
mod job;
mod look;
mod metric;
mod opened;
pub mod parse;
mod planned;
mod record;
mod run;
mod sizes;

pub use command::{Command, CommandJob, Extract, Line, Origin, Program, Row, TableColumn, WALL};
pub use event::{Event, Latency, Measured, TaskReport, Usage};
pub use experiment::{Axes, Experiment, Judging, Load, Many, Order, Variant, Word};
pub use explain::{Explain, FUNCTIONS_MAX};
pub use file_system::{Age, Aged, FileSystem, Filled, Image, Mounted, Policy, Storage};
pub use guest::{AcceleratorChoice, Boot, Guest, Hypervisor};
pub use guest_shape::GuestShape;
pub use host::durable::Seal;
pub use host_facts::{Directory, Host};
pub use job::{Form, Job, Native, PROTOCOL, Pass, TASKS_MAX, Until, Watch, Work};
pub use look::{
    Base, Bursts, CpuTime, LockTime, Look, LookKind, Mode, Samples, Share, Slice, Stack,
    State as CpuState, Window,
};
pub use metric::{Better, Described, METRICS, Metric, Obtained};
pub use opened::Opened;
pub use planned::Planned;
pub use record::{FORMAT, HostChange, Point, Record, Session, Source, State, Unit, Warning};
pub use run::{Outcome, Run, Sample, Warmup};
pub use sizes::HERE;
