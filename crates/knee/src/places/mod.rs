//! Where runs happen: one place a file. A place takes a job and gives back the worker's
//! events and how the worker ended.

pub mod local;
