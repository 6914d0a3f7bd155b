//! The verbs of the command line, one file each.

pub mod describe;
pub mod doctor;
//TMP pub mod export;
//TMP pub mod find;
pub mod list;
pub mod run;
//TMP pub mod show;
pub mod worker;
