//! Parameters: named, described, with a default, checked before a run.

use std::collections::BTreeMap;

use host::whole_ns;

use crate::Workload;

/// One parameter of a workload.
#[derive(Debug)]
pub struct Parameter {
    /// Its name, with the unit at the end where it has one.
    pub name: &'static str,
    /// What it changes.
    pub about: &'static str,
    pub default: &'static str,
    pub kind: ParameterKind,
}

/// The values that a parameter can have.
#[derive(Clone, Copy, Debug)]
pub enum ParameterKind {
    /// A whole number within these bounds; `4k`, `2M`, `1G` mean powers of 1024. If the name ends in `_ns`, also a time
    /// with its unit: `200ns`, `1.5us`.
    Number { min: u64, max: u64 },
    /// A number like that, or with `~exp` behind it the mean of exponentially distributed ones.
    Varying { min: u64, max: u64 },
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// What stands behind the mean of exponentially distributed numbers.
const EXPONENTIAL: &str = "~exp";

/// The parameters of every workload.
pub const COMMON_PARAMETERS: &[Parameter] = &[Parameter {
    name: "idle_ns",
    about: "CPU work between two operations, in ns; not part of the operation. 500~exp: 500 on average, as the time \
            until the next of independent events",
    default: "0",
    kind: ParameterKind::Varying { min: 0, max: 1_000_000_000 },
}];

/// A kind of kernel lock that BPF can delay.
#[derive(Debug)]
pub struct DelayedLock {
    /// `mutex`, `rwsem` or `spinlock`.
    pub kind: &'static str,
    /// The parameter that has the delay. Every workload takes it; it has no value unless one is given.
    pub parameter: Parameter,
}

/// The kinds of kernel locks that BPF can delay, one at a time.
pub const DELAYED_LOCKS: [DelayedLock; 3] = [
    delayed("mutex", "mutex_delay_ns"),
    delayed("rwsem", "rwsem_delay_ns"),
    delayed("spinlock", "spinlock_delay_ns"),
];

const fn delayed(kind: &'static str, name: &'static str) -> DelayedLock {
    let parameter = Parameter {
        name,
        about: "time that BPF adds, in ns, each time a task has got a kernel lock of this kind for which it waited",
        default: "",
        kind: ParameterKind::Number { min: 0, max: 100_000 },
    };
    DelayedLock { kind, parameter }
}

fn delays() -> impl Iterator<Item = &'static Parameter> {
    DELAYED_LOCKS.iter().map(|lock| &lock.parameter)
}

/// Values for all parameters of one workload: the given ones, defaults for the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(BTreeMap<String, String>);

impl Values {
    /// Checks the given values against the workload's parameters and fills in the
    /// defaults. Numbers lose their suffix, so equal values are equal text.
    pub fn new(workload: &Workload, given: &BTreeMap<String, String>) -> Result<Values, String> {
        let is_known = |name: &str| {
            workload.parameters().chain(delays()).any(|parameter| parameter.name == name)
        };
        if let Some(unknown) = given.keys().find(|name| !is_known(name)) {
            let names: Vec<_> = workload.parameters().map(|p| p.name).collect();
            return Err(format!(
                "{} has no parameter '{unknown}'; it has {}",
                workload.name,
                names.join(", ")
            ));
        }
        let value = |p: &Parameter| {
            let text = given.get(p.name).map_or(p.default, String::as_str);
            let value = p.normalise(text)?;
            Ok((p.name.to_string(), value))
        };
        let asked: Vec<&Parameter> =
            delays().filter(|delay| given.contains_key(delay.name)).collect();
        if let [first, second, ..] = asked[..] {
            return Err(format!(
                "{} and {}: locks of one kind are delayed at a time",
                first.name, second.name
            ));
        }
        workload.parameters().chain(asked).map(value).collect::<Result<_, String>>().map(Values)
    }

    /// The delay of kernel locks, if one is given: the kind of lock, and the delay in ns.
    pub fn delay(&self) -> Option<(&'static str, u64)> {
        let lock = DELAYED_LOCKS.iter().find(|lock| self.0.contains_key(lock.parameter.name))?;
        Some((lock.kind, self.number(lock.parameter.name)))
    }

    /// All values by name.
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The parameters that ask for CPU work, with its length in ns: all whose unit is ns, unless 0. A delay is no
    /// work: it ends by the clock.
    pub fn work(&self) -> Vec<(&str, u64)> {
        let is_work =
            |name: &&str| name.ends_with("_ns") && delays().all(|delay| delay.name != *name);
        let names = self.0.keys().map(String::as_str).filter(is_work);
        names.map(|name| (name, self.number(name))).filter(|(_, ns)| *ns > 0).collect()
    }

    /// The value of a choice.
    pub fn choice(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("no parameter {name} is declared"))
    }

    /// The value of a number, or the mean of a varying one.
    pub fn number(&self, name: &str) -> u64 {
        let text = self.choice(name).trim_end_matches(EXPONENTIAL);
        text.parse().expect("numbers are normalised when checked")
    }

    /// Whether a number varies.
    pub fn varies(&self, name: &str) -> bool {
        self.choice(name).ends_with(EXPONENTIAL)
    }
}

impl Parameter {
    /// Whether a checked value is the default.
    pub fn is_default(&self, value: &str) -> bool {
        self.normalise(self.default).is_ok_and(|default| default == value)
    }

    fn normalise(&self, text: &str) -> Result<String, String> {
        match self.kind {
            ParameterKind::Choice(words) if words.contains(&text) => Ok(text.to_string()),
            ParameterKind::Choice(words) => {
                Err(format!("{}={text}: must be one of {}", self.name, words.join(", ")))
            }
            ParameterKind::Number { min, max } => self.bounded(text, min, max),
            ParameterKind::Varying { min, max } => match text.strip_suffix(EXPONENTIAL) {
                None => self.bounded(text, min, max),
                Some(mean) => Ok(self.bounded(mean, min, max)? + EXPONENTIAL),
            },
        }
    }

    fn bounded(&self, text: &str, min: u64, max: u64) -> Result<String, String> {
        let is_time = self.name.ends_with("_ns");
        let time = if is_time { whole_ns(text) } else { None };
        match time.or_else(|| number(text)) {
            Some(value) if (min..=max).contains(&value) => Ok(value.to_string()),
            _ if is_time => Err(format!(
                "{}={text}: must be a time from {min} to {max} ns: a whole number of ns, or one with its unit \
                 (200ns, 1.5us, 2ms)",
                self.name
            )),
            _ => Err(format!(
                "{}={text}: must be a whole number from {min} to {max} (4k, 2M, 1G: powers of 1024)",
                self.name
            )),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}
