//! Names of functions that are asked for again and again: a program's symbols are read when code is met that lies in no
//! function known so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use records::live::TracedFunction;

use crate::ledger::programs::{CodeLocation, Programs};

/// More places than this are forgotten together: code that a runtime compiles anew has ever new ones.
const PLACES_MAX: usize = 1 << 17;
/// Between two places of one name that are so close lies the same function.
const REACH_BYTES: u64 = 4096;

/// Places in code with their functions and files.
#[derive(Default)]
pub struct FunctionNames {
    known: BTreeMap<CodeLocation, (String, String)>,
    /// The functions of other libraries that calls go to, `None` where that is not known.
    called: HashMap<CodeLocation, Option<String>>,
}

/// The functions of some stacks.
pub struct NamedStacks {
    functions: HashMap<CodeLocation, (String, String)>,
    called: HashMap<CodeLocation, String>,
}

impl NamedStacks {
    /// The functions of one of the stacks. One without a name has that by which another library's code has called it: a
    /// function that ends with a jump to it is in no stack.
    pub fn of(&self, frames: &[CodeLocation]) -> Vec<TracedFunction> {
        let functions = frames.iter().enumerate().filter_map(|(depth, place)| {
            let (name, object) = self.functions.get(place)?;
            let is_named = is_named(name, object);
            let called = if is_named { None } else { self.called_as(&frames[depth..]) };
            let name = called.unwrap_or(name).clone();
            Some(TracedFunction {
                name,
                object: object.clone(),
                is_named: is_named || called.is_some(),
            })
        });
        functions.collect()
    }

    fn called_as(&self, frames: &[CodeLocation]) -> Option<&String> {
        crossing(frames).and_then(|caller| self.called.get(&caller))
    }
}

/// The caller of the first of these frames, if it is in another file.
fn crossing(frames: &[CodeLocation]) -> Option<CodeLocation> {
    let [callee, caller, ..] = frames else { return None };
    (callee.0 != caller.0).then_some(*caller)
}

fn is_named(name: &str, object: &str) -> bool {
    !name.starts_with(&format!("{object}+0x"))
}

impl FunctionNames {
    /// Names the functions of stacks.
    pub fn of<'s>(
        &mut self,
        programs: &Programs,
        stacks: impl Iterator<Item = &'s [CodeLocation]> + Clone,
    ) -> NamedStacks {
        let functions = self.functions(programs, &stacks.clone().flatten().copied().collect());
        let is_unnamed = |place: &CodeLocation| {
            functions.get(place).is_some_and(|(name, object)| !is_named(name, object))
        };
        let runs = stacks.flat_map(|frames| (0..frames.len()).map(move |depth| &frames[depth..]));
        let unnamed = runs.filter(|frames| is_unnamed(&frames[0]));
        let calls: BTreeSet<CodeLocation> = unnamed.filter_map(crossing).collect();
        let new = calls.iter().filter(|call| !self.called.contains_key(call)).copied().collect();
        let mut found = programs.called(&new);
        self.called.extend(new.into_iter().map(|call| (call, found.remove(&call))));
        let called = calls.into_iter().filter_map(|call| Some((call, self.called[&call].clone()?)));
        NamedStacks { called: called.collect(), functions }
    }

    /// The function at each place, and the name of its file.
    fn functions(
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
                self.called.clear();
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
        (is_one && is_named(&name.0, &name.1)).then(|| name.clone())
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
    fn a_function_without_a_name_has_that_of_the_call() {
        let name = |function: &str, object: &str| (function.to_string(), object.to_string());
        let functions = [
            ((0, 100), name("serve", "server")),
            ((1, 10), name("libc.so.6+0x10", "libc.so.6")),
            ((1, 20), name("libc.so.6+0x20", "libc.so.6")),
            ((1, 30), name("raise", "libc.so.6")),
        ];
        let called = [((0, 100), "sem_wait".to_string())].into();
        let stacks = NamedStacks { functions: functions.into(), called };
        let check = |frames: &[CodeLocation], expected: &str| {
            let names: Vec<String> = stacks.of(frames).into_iter().map(|f| f.name).collect();
            assert_eq!(names.join(" "), expected);
        };
        check(&[(1, 10), (1, 20), (0, 100)], "libc.so.6+0x10 sem_wait serve");
        check(&[(1, 30), (0, 100)], "raise serve");
        check(&[(1, 20)], "libc.so.6+0x20");
    }

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
        let names = FunctionNames { known: known.into(), ..FunctionNames::default() };
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
