//! What `knee report --simulate` is asked for: arguments of `knee simulate`.

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::simulate::{self, Simulation};

/// What `knee simulate` is asked for.
pub struct Request {
    arguments: simulate::Arguments,
    matches: ArgMatches,
}

impl Request {
    /// Reads the arguments of `knee simulate`.
    pub fn parse(words: &[String]) -> Result<Request> {
        let command = simulate::Arguments::augment_args(Command::new("knee simulate"));
        let line = [&["knee simulate".to_string()], words].concat();
        let matches = command.try_get_matches_from(line);
        let read = matches.and_then(|matches| {
            let arguments = simulate::Arguments::from_arg_matches(&matches)?;
            Ok(Request { arguments, matches })
        });
        read.map_err(|error| anyhow::anyhow!("--simulate: {error}"))
    }

    /// Simulates it. With `yes`, files of others are compiled without asking.
    pub fn simulation(self, yes: bool) -> Result<Simulation> {
        simulate::simulation(&self.arguments, yes)
    }

    /// The names of what is to be simulated.
    pub fn names(&self) -> &[String] {
        self.arguments.names()
    }

    /// Whether the user gave the flag.
    pub fn gives(&self, flag: &str) -> bool {
        flag != "set" && self.matches.value_source(flag) == Some(ValueSource::CommandLine)
    }

    /// Whether the user set a parameter of a mechanism.
    pub fn sets(&self, parameter: &str) -> bool {
        self.arguments.settings().any(|name| name == parameter)
    }
}
