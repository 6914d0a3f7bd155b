//! The verbs of the command line, one file each.

pub mod boot;
pub mod calibrate;
pub mod check;
pub mod compare;
pub mod completions;
pub mod describe;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod find;
pub mod forecast;
pub mod fragile;
pub mod import;
pub mod kernel;
pub mod list;
pub mod man_pages;
pub mod note;
pub mod prune;
pub mod replay;
pub mod rm;
pub mod run;
pub mod scale;
pub mod selfcheck;
pub mod show;
pub mod simulate;
pub mod worker;
