//! A load that the user wrote: a file that the host's compiler makes into a program, together with knee's
//! harness. docs/guide/own-loads.md is the page for users.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A load that the user wrote, as an experiment names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnLoad {
    /// The file: C, C++, an object file or an archive.
    pub file: PathBuf,
    /// More words for the compiler, after knee's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// What compiling it showed; absent before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<CompiledLoad>,
}

/// What is known of a load once it is compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompiledLoad {
    /// SHA-256 of the file.
    pub sha256: String,
    /// Contents of the file; empty if it is no text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// SHA-256 of the files that it includes, other than the system's, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<PathBuf, String>,
    /// The first line that the compiler prints about its version.
    pub compiler: String,
    /// All words of the compiler's command line but the names of files.
    pub command: Vec<String>,
    /// The interface that the file implements.
    pub interface: LoadInterface,
    /// What the load says it is.
    pub description: String,
    /// What one counted operation is.
    pub operation: String,
    /// Version of the operation; 0 if the interface has none.
    #[serde(default)]
    pub semantics: u32,
    /// Whether it compares the count with the effect of its operations.
    #[serde(default)]
    pub verifies: bool,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<OwnParameter>,
}

/// How a load and the harness call each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadInterface {
    /// `knee_operate` does one operation; the harness counts it.
    Knee,
    /// will-it-scale's: `testcase` repeats its operation forever, and counts by itself.
    WillItScale,
}

impl LoadInterface {
    /// Whether the load has the loop, so that knee sees no single operation.
    pub fn counts_itself(self) -> bool {
        self == LoadInterface::WillItScale
    }

    /// Its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            LoadInterface::Knee => "knee.h",
            LoadInterface::WillItScale => "will-it-scale",
        }
    }
}

/// A parameter of a load that the user wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnParameter {
    /// Its name, with the unit at the end where it has one.
    pub name: String,
    /// The value if none is given.
    pub default: String,
    /// `a,b,c`: one of these words; `1..64`: a number between these; empty: any text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub choices: String,
    /// What it changes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
}

impl OwnLoad {
    /// The load's name everywhere: that of the file, with its ending, so that it is none of knee's own.
    pub fn name(&self) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        name.chars().filter(|c| !c.is_control()).take(100).collect()
    }
}

impl CompiledLoad {
    /// All parameters with their values: the given ones, defaults for the rest. Refuses what the load does not
    /// have. Numbers lose their suffix, so that equal values are equal text.
    pub fn values(&self, given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
        let names: Vec<&str> = self.parameters.iter().map(|p| p.name.as_str()).collect();
        for name in given.keys() {
            ensure!(!names.is_empty(), "it has no parameters, and '{name}' is set");
            ensure!(
                names.contains(&name.as_str()),
                "it has no parameter '{name}'; it has {}",
                names.join(", ")
            );
        }
        let value = |parameter: &OwnParameter| {
            let text = given.get(&parameter.name).unwrap_or(&parameter.default);
            Ok((parameter.name.clone(), parameter.normalised(text)?))
        };
        self.parameters.iter().map(value).collect()
    }
}

impl OwnParameter {
    /// The value as the record keeps it, if the parameter can have it.
    fn normalised(&self, text: &str) -> Result<String> {
        let name = &self.name;
        if self.choices.is_empty() {
            return Ok(text.to_string());
        }
        let bounds = self.choices.split_once("..").map(|(min, max)| (number(min), number(max)));
        if let Some((Some(min), Some(max))) = bounds {
            let time = if name.ends_with("_ns") { host::whole_ns(text) } else { None };
            let value = time.or_else(|| number(text)).filter(|value| (min..=max).contains(value));
            let value =
                value.ok_or_else(|| anyhow::anyhow!("{name}={text}: must be {min} to {max}"))?;
            return Ok(value.to_string());
        }
        let words: Vec<&str> = self.choices.split(',').map(str::trim).collect();
        ensure!(words.contains(&text), "{name}={text}: must be one of {}", words.join(", "));
        Ok(text.to_string())
    }
}

/// A whole number; `4k`, `2M` and `1G` are powers of 1024.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'M') => (&text[..at], 20),
        (at, 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(choices: &str, value: &str, expected: &str) {
        let parameter = OwnParameter {
            name: "size".to_string(),
            default: "4k".to_string(),
            choices: choices.to_string(),
            about: String::new(),
        };
        let shown = match parameter.normalised(value) {
            Ok(value) => value,
            Err(why) => format!("{why:#}"),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn values_are_checked_and_numbers_lose_their_suffix() {
        check("1..1M", "4k", "4096");
        check("1..1M", "2M", "size=2M: must be 1 to 1048576");
        check("1..1M", "x", "size=x: must be 1 to 1048576");
        check("own, shared", "shared", "shared");
        check("own,shared", "both", "size=both: must be one of own, shared");
        check("", "anything at all", "anything at all");
    }

    #[test]
    fn unknown_parameters_are_named() {
        let parameter = OwnParameter { name: "size".to_string(), ..OwnParameter::default() };
        let load = CompiledLoad {
            sha256: String::new(),
            text: String::new(),
            headers: BTreeMap::new(),
            compiler: String::new(),
            command: Vec::new(),
            interface: LoadInterface::Knee,
            description: String::new(),
            operation: String::new(),
            semantics: 1,
            verifies: true,
            parameters: vec![parameter],
        };
        let given = BTreeMap::from([("sise".to_string(), "1".to_string())]);
        let why = load.values(&given).unwrap_err().to_string();
        assert_eq!(why, "it has no parameter 'sise'; it has size");
        assert_eq!(load.values(&BTreeMap::new()).unwrap()["size"], "");
    }
}
