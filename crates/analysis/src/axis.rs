//! What a curve runs over: CPUs, or another number such as threads, clients or a load.

use schemars::JsonSchema;
use serde::Serialize;

const CPUS: &str = "CPUs";

/// What a curve runs over, by its name: `CPUs`, `threads`, `clients`, `load`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Axis(String);

impl Default for Axis {
    fn default() -> Axis {
        Axis(CPUS.to_string())
    }
}

impl Axis {
    pub fn new(name: &str) -> Axis {
        Axis(name.to_string())
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn is_cpus(&self) -> bool {
        self.0 == CPUS
    }

    /// "1 CPU", "8 clients", "load=8".
    pub fn counted(&self, n: impl Into<f64>) -> String {
        let n: f64 = n.into();
        match self.singular() {
            Some(one) if n == 1.0 => format!("1 {one}"),
            _ => self.many(&n.to_string()),
        }
    }

    /// "24 and 32 CPUs", "load=24 and 32".
    pub fn many(&self, numbers: &str) -> String {
        match self.singular() {
            Some(_) => format!("{numbers} {}", self.0),
            None => format!("{}={numbers}", self.0),
        }
    }

    /// "CPU counts", "numbers of clients", "values of load".
    pub fn counts(&self) -> String {
        match self.singular() {
            Some(one) if self.is_cpus() => format!("{one} counts"),
            Some(_) => format!("numbers of {}", self.0),
            None => format!("values of {}", self.0),
        }
    }

    /// The name of one, if the name is a plural.
    fn singular(&self) -> Option<&str> {
        let is_word = self.0.chars().all(char::is_alphabetic);
        let one = self.0.strip_suffix('s').filter(|one| is_word && !one.ends_with('s'))?;
        Some(one.strip_suffix("sse").map_or(one, |_| &one[..one.len() - 1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let check = |name: &str, n: f64, counted: &str, counts: &str| {
            let axis = Axis::new(name);
            assert_eq!((&axis.counted(n)[..], &axis.counts()[..]), (counted, counts));
        };
        check("CPUs", 1.0, "1 CPU", "CPU counts");
        check("CPUs", 8.0, "8 CPUs", "CPU counts");
        check("clients", 1.0, "1 client", "numbers of clients");
        check("processes", 1.0, "1 process", "numbers of processes");
        check("load", 8.0, "load=8", "values of load");
        check("n_s", 8.0, "n_s=8", "values of n_s");
    }
}
