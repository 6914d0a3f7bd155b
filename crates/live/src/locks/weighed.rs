//! Where locks are waited for and held, by how long.

use std::collections::HashMap;

use records::live::LockPlace;

/// Places with how long was waited there.
pub struct Weighed(HashMap<(String, Vec<String>), (u64, u64)>);

impl Weighed {
    pub fn new(places: impl Iterator<Item = (LockPlace, u64)>) -> Weighed {
        let mut weighed: HashMap<(String, Vec<String>), (u64, u64)> = HashMap::new();
        for (place, ns) in places {
            let known = weighed.entry((place.function, place.callers)).or_default();
            *known = (known.0 + 1, known.1 + ns);
        }
        Weighed(weighed)
    }

    /// The places, with a share each of the whole: stacks are taken of some waits.
    pub fn places(self, whole: u64) -> Vec<LockPlace> {
        let all: u64 = self.0.values().map(|(_, ns)| ns).sum::<u64>().max(1);
        let place = |((function, callers), (times, ns)): ((String, Vec<String>), (u64, u64))| {
            let ns = (u128::from(ns) * u128::from(whole) / u128::from(all)) as u64;
            LockPlace { function, callers, times, ns }
        };
        let mut places: Vec<LockPlace> = self.0.into_iter().map(place).collect();
        places.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.function.cmp(&b.function)));
        places
    }
}

/// The places where a lock was given back, by the functions that had taken it: a function whose last act is to give it
/// back has left the stack by then, so that its caller seems to have done it (a tail call). Compilers of Java put the
/// function into its callers, and do not record where it gives a monitor back: then the outermost seems to have done it.
pub fn where_taken(
    given_back: Vec<LockPlace>,
    taken: &[LockPlace],
    is_java: bool,
) -> Vec<LockPlace> {
    let known = |function: &String| taken.iter().any(|place| place.function == *function);
    let mut places = Vec::new();
    for place in given_back {
        let is_caller = |taken: &&LockPlace| {
            let depths = if is_java { taken.callers.len() } else { 1 };
            let callers = &taken.callers[..depths.min(taken.callers.len())];
            callers.iter().position(|caller| *caller == place.function).is_some_and(|depth| {
                taken.callers[depth + 1..].iter().zip(&place.callers).all(|(a, b)| a == b)
            })
        };
        let one = match taken.iter().find(is_caller) {
            Some(taken) if !known(&place.function) => {
                LockPlace { times: place.times, ns: place.ns, ..taken.clone() }
            }
            _ => place,
        };
        add_places(&mut places, vec![one]);
    }
    places
}

fn add_places(known: &mut Vec<LockPlace>, others: Vec<LockPlace>) {
    for place in others {
        let same = |known: &&mut LockPlace| {
            known.function == place.function && known.callers == place.callers
        };
        match known.iter_mut().find(same) {
            Some(known) => {
                known.times += place.times;
                known.ns += place.ns;
            }
            None => known.push(place),
        }
    }
    known.sort_by_key(|place| std::cmp::Reverse(place.ns));
}
