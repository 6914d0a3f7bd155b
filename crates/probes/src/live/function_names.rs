//! Names of functions that are asked for again and again: a program's symbols are read when code is met that lies in no
//! function known so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ledger::programs::{CodeLocation, Programs};

/// More places than this are forgotten together: code that a runtime compiles anew has ever new ones.
const PLACES_MAX: usize = 1 << 17;
/// Between two places of one name that are so close lies the same function.
const REACH_BYTES: u64 = 4096;

/// Places in code with their functions and files.
#[derive(Default)]
pub struct FunctionNames {
    known: BTreeMap<CodeLocation, (String, String)>,
}

impl FunctionNames {
    /// The function at each place, and the name of its file.
    pub fn of(
        &mut self,
        programs: &Programs,
        places: &BTreeSet<CodeLocation>,
    ) -> HashMap<CodeLocation, (String, String)> {
        let mut named = HashMap::new();
        let mut unknown = BTreeSet::new();
        for place in places {
            match self.known(*place) {
                Some(name) => drop(named.insert(*place, name)),
                None => drop(unknown.insert(*place)),
            }
        }
        if !unknown.is_empty() {
            if self.known.len() > PLACES_MAX {
                self.known.clear();
            }
            let read = programs.functions(&unknown);
            let lasting = read.iter().filter(|(_, (_, object))| !is_generated(object));
            self.known.extend(lasting.map(|(place, name)| (*place, name.clone())));
            named.extend(read);
        }
        named
    }

    fn known(&self, place: CodeLocation) -> Option<(String, String)> {
        let (below, name) = self.known.range(..=place).next_back()?;
        if *below == place {
            return Some(name.clone());
        }
        let (above, other) = self.known.range(place..).next()?;
        let is_one = name == other && above.0 == below.0 && above.1 - below.1 <= REACH_BYTES;
        let is_named = !name.0.starts_with(&format!("{}+0x", name.1));
        (is_one && is_named).then(|| name.clone())
    }
}

/// Whether a file lists functions that a runtime has compiled: it may put others in their place.
fn is_generated(object: &str) -> bool {
    object.starts_with("perf-") && object.ends_with(".map")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_places_of_a_function_lies_the_function() {
        let name = |function: &str| (function.to_string(), "server".to_string());
        let known = [
            ((0, 100), name("serve")),
            ((0, 180), name("serve")),
            ((0, 300), name("evict")),
            ((1, 400), name("evict")),
            ((2, 100), name("server+0x100")),
            ((2, 180), name("server+0x100")),
            ((3, 100), name("serve")),
            ((3, 9000), name("serve")),
        ];
        let names = FunctionNames { known: known.into() };
        let check = |place, expected: Option<&str>| {
            assert_eq!(names.known(place).map(|(name, _)| name).as_deref(), expected, "{place:?}");
        };
        check((0, 100), Some("serve"));
        check((0, 140), Some("serve"));
        check((0, 200), None);
        check((0, 350), None);
        check((2, 140), None);
        check((3, 200), None);
        check((0, 50), None);
        check((9, 50), None);
    }
}
