//! A place in a program: each time a task passes it, an operation is done.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A function or a static tracepoint (USDT) of a program or library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct ProgramProbe {
    /// A path, or a name to look for in PATH; `None` means the program that is run.
    pub program: Option<String>,
    /// The place in it.
    pub place: ProgramPlace,
}

/// What is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramPlace {
    /// The beginning of a function, by the name in the symbol table, mangled or not.
    Function(String),
    /// A static tracepoint: its provider and its name.
    Usdt(String, String),
}

const FUNCTION: &str = "uprobe:";
const USDT: &str = "usdt:";

impl ProgramProbe {
    /// Whether a text is meant to be a probe.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(FUNCTION) || text.starts_with(USDT)
    }

    /// Parses `uprobe:[PROGRAM:]FUNCTION` or `usdt:[PROGRAM:]PROVIDER:NAME`, as bpftrace writes them.
    pub fn parse(text: &str) -> Result<ProgramProbe> {
        let form = || {
            format!(
                "'{text}': a probe is uprobe:[PROGRAM:]FUNCTION or usdt:[PROGRAM:]PROVIDER:NAME"
            )
        };
        let probe = if let Some(rest) = text.strip_prefix(FUNCTION) {
            let (program, function) = match first_colon(rest) {
                Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
                None => (None, rest),
            };
            let place = ProgramPlace::Function(function.to_string());
            ProgramProbe { program: program.map(str::to_string), place }
        } else if let Some(rest) = text.strip_prefix(USDT) {
            let (rest, name) = rest.rsplit_once(':').with_context(form)?;
            let (program, provider) = match rest.rsplit_once(':') {
                Some((program, provider)) => (Some(program.to_string()), provider),
                None => (None, rest),
            };
            let place = ProgramPlace::Usdt(provider.to_string(), name.to_string());
            ProgramProbe { program, place }
        } else {
            bail!(form())
        };
        let has_names = match &probe.place {
            ProgramPlace::Function(name) => !name.is_empty(),
            ProgramPlace::Usdt(provider, name) => !provider.is_empty() && !name.is_empty(),
        };
        let is_plain = !text.contains('\0') && probe.program.as_deref() != Some("");
        ensure!(has_names && is_plain, form());
        Ok(probe)
    }
}

/// The first colon that is not one of `::`.
fn first_colon(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_colon = |at: usize| bytes.get(at) == Some(&b':');
    (0..bytes.len()).find(|&at| is_colon(at) && !is_colon(at + 1) && (at == 0 || !is_colon(at - 1)))
}

impl fmt::Display for ProgramProbe {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let program = self.program.as_ref().map(|program| format!("{program}:"));
        let program = program.unwrap_or_default();
        match &self.place {
            ProgramPlace::Function(name) => write!(f, "{FUNCTION}{program}{name}"),
            ProgramPlace::Usdt(provider, name) => write!(f, "{USDT}{program}{provider}:{name}"),
        }
    }
}

impl TryFrom<String> for ProgramProbe {
    type Error = String;

    fn try_from(text: String) -> Result<ProgramProbe, String> {
        ProgramProbe::parse(&text).map_err(|why| format!("{why:#}"))
    }
}

impl From<ProgramProbe> for String {
    fn from(probe: ProgramProbe) -> String {
        probe.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_written_as_bpftrace_writes_them() {
        let check = |text: &str, program: Option<&str>, place: ProgramPlace| {
            let probe = ProgramProbe::parse(text).unwrap();
            assert_eq!((probe.program.as_deref(), &probe.place), (program, &place));
            assert_eq!(probe.to_string(), text);
        };
        let function = |name: &str| ProgramPlace::Function(name.to_string());
        let usdt = |a: &str, b: &str| ProgramPlace::Usdt(a.to_string(), b.to_string());
        check("uprobe:work", None, function("work"));
        check("uprobe:./a.out:work", Some("./a.out"), function("work"));
        check("uprobe:./a.out:app::work", Some("./a.out"), function("app::work"));
        check("uprobe:app::work", None, function("app::work"));
        check("usdt:mysqld:mysql:query__done", Some("mysqld"), usdt("mysql", "query__done"));
        check("usdt:mysql:query__done", None, usdt("mysql", "query__done"));
        for bad in ["uprobe:", "uprobe::f", "uprobe:a:", "usdt:a", "usdt::b", "ops: {}"] {
            assert!(ProgramProbe::parse(bad).is_err(), "{bad}");
        }
    }
}
