//! Where and how the programs of a command are started.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{CommandJob, StartedServer};

/// Where a program is started, and as whom.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub directory: &'a Path,
    /// In addition to the environment of what starts it.
    pub environment: &'a BTreeMap<String, String>,
    /// The user and the group to become; `None` for those of what starts it.
    pub user: Option<(u32, u32)>,
}

impl<'a> From<&'a CommandJob> for Surroundings<'a> {
    fn from(job: &'a CommandJob) -> Surroundings<'a> {
        Surroundings { directory: &job.directory, environment: &job.environment, user: None }
    }
}

/// Those of all programs of a server, as the user of what starts them.
impl<'a> From<&'a StartedServer> for Surroundings<'a> {
    fn from(server: &'a StartedServer) -> Surroundings<'a> {
        Surroundings { directory: &server.data, environment: &server.environment, user: None }
    }
}
