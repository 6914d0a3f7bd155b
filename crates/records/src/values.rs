//! The values of a run by name. A record may have a hundred thousand runs with hundreds of values each: runs
//! with the same names share them, and a zero, as most counters are, takes one bit.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// Values by name, in the order of the names.
#[derive(Clone)]
pub struct Values<T> {
    names: Arc<Names>,
    /// A bit for each value, set if the value is not zero; then the bits of those that are not.
    packed: Box<[u64]>,
    kind: PhantomData<T>,
}

/// Ascending names, without duplicates.
type Names = Vec<Box<str>>;

/// A number that [`Values`] holds.
pub trait Value: Copy + PartialEq + fmt::Debug {
    /// The number as bits: none is set in zero.
    fn to_bits(self) -> u64;
    /// The number with these bits.
    fn from_bits(bits: u64) -> Self;
}

impl Value for f64 {
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }

    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

impl Value for i64 {
    fn to_bits(self) -> u64 {
        self as u64
    }

    fn from_bits(bits: u64) -> i64 {
        bits as i64
    }
}

/// Values that one word of bits stands for.
const WORD: usize = u64::BITS as usize;

impl<T: Value> Values<T> {
    /// No values.
    pub fn new() -> Values<T> {
        Values::from_parts(Arc::default(), &[])
    }

    fn from_parts(names: Arc<Names>, values: &[T]) -> Values<T> {
        let is_set = |value: &&T| value.to_bits() != 0;
        let words = values.chunks(WORD).map(|word| {
            let set = word.iter().enumerate().filter(|(_, value)| is_set(value));
            set.fold(0, |bits, (at, _)| bits | 1 << at)
        });
        let set = values.iter().filter(is_set);
        let mut packed = Vec::with_capacity(words.len() + set.clone().count());
        packed.extend(words.chain(set.map(|value| value.to_bits())));
        Values { names, packed: packed.into(), kind: PhantomData }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<T> {
        let at = place(&self.names, name)?;
        let (word, bit) = (at / WORD, 1 << (at % WORD));
        if self.packed[word] & bit == 0 {
            return Some(T::from_bits(0));
        }
        let before = self.packed[..word].iter().map(|word| word.count_ones()).sum::<u32>();
        let before = before + (self.packed[word] & (bit - 1)).count_ones();
        Some(T::from_bits(self.packed[self.names.len().div_ceil(WORD) + before as usize]))
    }

    /// Whether there is a value of this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether both were read with one list of names. If not, their names may be the same still.
    pub fn shares_names_with(&self, other: &Values<T>) -> bool {
        Arc::ptr_eq(&self.names, &other.names)
    }

    /// The names, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Names with their values, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, T)> {
        let (words, set) = self.packed.split_at(self.names.len().div_ceil(WORD));
        let mut set = set.iter();
        self.names.iter().enumerate().map(move |(at, name)| {
            let is_set = words[at / WORD] & 1 << (at % WORD) != 0;
            let bits = if is_set { set.next().copied() } else { None };
            (&**name, T::from_bits(bits.unwrap_or(0)))
        })
    }

    /// Adds a value, or replaces the one of this name.
    pub fn insert(&mut self, name: &str, value: T) {
        let others = self.iter().filter(|(known, _)| *known != name);
        *self = others.chain([(name, value)]).collect();
    }
}

impl Values<i64> {
    /// Reads the inside of an object of JSON that is written as knee writes it, and has the names of one that was read
    /// lately. Returns how many bytes it has, before its brace, too. None for any other.
    pub(crate) fn read_like_recent(text: &str) -> Option<(Values<i64>, usize)> {
        let first = text.strip_prefix('"')?.split_once('"')?.0;
        let names = recent_with(&[], first)?;
        let text = text.as_bytes();
        let words = names.len().div_ceil(WORD);
        let mut packed = Vec::with_capacity(words + names.len() / 4);
        packed.resize(words, 0);
        let mut at = 0;
        for (index, name) in names.iter().enumerate() {
            let after = text.get(at..)?.strip_prefix(b"\"")?.strip_prefix(name.as_bytes())?;
            let after = after.strip_prefix(b"\":")?;
            let (value, digits) = plain_integer(after)?;
            if value != 0 {
                packed[index / WORD] |= 1 << (index % WORD);
                packed.push(value.to_bits());
            }
            let is_last = index + 1 == names.len();
            let end = after.get(digits).filter(|end| **end == if is_last { b'}' } else { b',' });
            end?;
            at = text.len() - after.len() + digits + usize::from(!is_last);
        }
        // A name with a backslash stands for another.
        let has_escape = text[..at].contains(&b'\\');
        let values = Values { names, packed: packed.into(), kind: PhantomData };
        (!has_escape).then_some((values, at))
    }
}

/// An integer that surely fits, and the number of its characters. None for all else that JSON calls a number.
fn plain_integer(text: &[u8]) -> Option<(i64, usize)> {
    const DIGITS_MAX: usize = 18;
    let sign = usize::from(text.first() == Some(&b'-'));
    let digits = text[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let has_zero_before = digits > 1 && text[sign] == b'0';
    if digits == 0 || digits > DIGITS_MAX || has_zero_before || text[..sign + digits] == *b"-0" {
        return None;
    }
    let number = text[sign..sign + digits].iter();
    let number = number.fold(0, |number, digit| 10 * number + i64::from(digit - b'0'));
    Some((if sign == 1 { -number } else { number }, sign + digits))
}

impl<T: Value> Default for Values<T> {
    fn default() -> Values<T> {
        Values::new()
    }
}

impl<T: Value> PartialEq for Values<T> {
    fn eq(&self, other: &Values<T>) -> bool {
        self.packed == other.packed
            && (Arc::ptr_eq(&self.names, &other.names) || self.names == other.names)
    }
}

impl<T: Value> fmt::Debug for Values<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<N: AsRef<str>, T: Value> FromIterator<(N, T)> for Values<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(values: I) -> Values<T> {
        let (names, values): (Names, Vec<T>) =
            values.into_iter().map(|(name, value)| (Box::from(name.as_ref()), value)).unzip();
        of_any_order(names, values)
    }
}

impl<T: Value> From<BTreeMap<String, T>> for Values<T> {
    fn from(values: BTreeMap<String, T>) -> Values<T> {
        values.into_iter().collect()
    }
}

/// Values in any order; of several with one name, the last counts.
fn of_any_order<T: Value>(names: Names, values: Vec<T>) -> Values<T> {
    if names.is_sorted_by(|a, b| a < b) {
        return Values::from_parts(shared(names), &values);
    }
    let sorted: BTreeMap<Box<str>, T> = names.into_iter().zip(values).collect();
    let (names, values): (Names, Vec<T>) = sorted.into_iter().unzip();
    Values::from_parts(shared(names), &values)
}

thread_local! {
    /// The names of values that were read lately, which those of the next run probably have, too.
    static RECENT: RefCell<Vec<Arc<Names>>> = const { RefCell::new(Vec::new()) };
}

/// Sets of names that are remembered: those of a few points of a record differ.
const RECENT_MAX: usize = 16;

/// The names, as values that were read before have them, if they do.
fn shared(names: Names) -> Arc<Names> {
    RECENT.with_borrow_mut(|recent| {
        if let Some(known) = recent.iter().rev().find(|known| ***known == names) {
            return known.clone();
        }
        if recent.len() >= RECENT_MAX {
            recent.remove(0);
        }
        recent.push(Arc::new(names));
        recent[recent.len() - 1].clone()
    })
}

thread_local! {
    /// Where names were found last: most questions are for the same few names of one run after the other.
    static FOUND: [Cell<usize>; 64] = const { [const { Cell::new(0) }; 64] };
}

/// The place of a name.
fn place(names: &Names, name: &str) -> Option<usize> {
    FOUND.with(|found| {
        let middle = name.as_bytes().get(name.len() / 2).copied().unwrap_or_default();
        let found = &found[(name.len() + 7 * usize::from(middle)) % found.len()];
        if names.get(found.get()).is_some_and(|known| **known == *name) {
            return Some(found.get());
        }
        let at = names.binary_search_by(|known| (**known).cmp(name)).ok()?;
        found.set(at);
        Some(at)
    })
}

/// Recent names that begin with `begin`, which is followed by `next`.
fn recent_with(begin: &[Box<str>], next: &str) -> Option<Arc<Names>> {
    RECENT.with_borrow(|recent| {
        let is_like = |known: &&Arc<Names>| {
            known.get(begin.len()).is_some_and(|name| **name == *next) && known.starts_with(begin)
        };
        recent.iter().rev().find(is_like).cloned()
    })
}

impl<T: Value + Serialize> Serialize for Values<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

impl<'de, T: Value + Deserialize<'de>> Deserialize<'de> for Values<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Values<T>, D::Error> {
        deserializer.deserialize_map(ValuesVisitor(PhantomData))
    }
}

struct ValuesVisitor<T>(PhantomData<T>);

impl<'de, T: Value + Deserialize<'de>> Visitor<'de> for ValuesVisitor<T> {
    type Value = Values<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a map")
    }

    /// Reads each name beside the one that is probably next: it is compared, and not copied.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values<T>, A::Error> {
        let mut like: Arc<Names> = Arc::default();
        // Empty as long as the names are those of `like`.
        let mut own: Names = Vec::new();
        let mut values: Vec<T> = Vec::new();
        loop {
            let expected = if own.is_empty() { like.get(values.len()) } else { None };
            match map.next_key_seed(NextName(expected.map(|name| &**name)))? {
                None => break,
                Some(NameRead::Expected) => (),
                Some(NameRead::Other(name)) if !own.is_empty() => own.push(name),
                Some(NameRead::Other(name)) => match recent_with(&like[..values.len()], &name) {
                    Some(known) => {
                        values.reserve(known.len() - values.len());
                        like = known;
                    }
                    None => {
                        own = like[..values.len()].to_vec();
                        own.push(name);
                    }
                },
            }
            values.push(map.next_value()?);
        }
        if own.is_empty() && values.len() == like.len() {
            return Ok(Values::from_parts(like, &values));
        }
        let names = if own.is_empty() { like[..values.len()].to_vec() } else { own };
        Ok(of_any_order(names, values))
    }
}

/// Reads a name that is probably this one.
struct NextName<'a>(Option<&'a str>);

enum NameRead {
    Expected,
    Other(Box<str>),
}

impl<'de> DeserializeSeed<'de> for NextName<'_> {
    type Value = NameRead;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NameRead, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NextName<'_> {
    type Value = NameRead;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, name: &str) -> Result<NameRead, E> {
        let is_expected = self.0 == Some(name);
        Ok(if is_expected { NameRead::Expected } else { NameRead::Other(Box::from(name)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads JSON, and compares with what a map of the standard library makes of it.
    fn check(json: &str) {
        let expected: BTreeMap<String, f64> = serde_json::from_str(json).unwrap();
        let values: Values<f64> = serde_json::from_str(json).unwrap();
        let found: Vec<(&str, f64)> = values.iter().collect();
        let pairs: Vec<(&str, f64)> = expected.iter().map(|(name, n)| (&**name, *n)).collect();
        assert_eq!(found, pairs, "{json}");
        for (name, n) in &expected {
            assert_eq!(values.get(name).map(f64::to_bits), Some(n.to_bits()), "{name} of {json}");
        }
        assert_eq!(values.get("z"), None);
        let text = serde_json::to_string(&values).unwrap();
        assert_eq!(text, serde_json::to_string(&expected).unwrap());
        assert_eq!(values, expected.into_iter().collect());
    }

    #[test]
    fn values_are_those_of_a_map() {
        check("{}");
        // Read twice: the second time, the names are known.
        for _ in 0..2 {
            check(r#"{"a":1,"b":0,"c":-0.0,"d":1e300}"#);
            // Fewer, more, others, and in another order than those that were read before.
            check(r#"{"a":1,"b":2}"#);
            check(r#"{"a":0,"b":0,"c":3,"d":4,"e":5}"#);
            check(r#"{"a":1,"b":2,"x":3,"y":0}"#);
            check(r#"{"b":1,"a":2,"y":3,"c":4}"#);
            check(r#"{"a":1,"b":2,"a":3,"a\u006f":5}"#);
        }
        let many: Vec<String> = (0..200).map(|n| format!("\"n{n:03}\":{}", n % 3)).collect();
        check(&format!("{{{}}}", many.join(",")));
    }

    #[test]
    fn runs_with_the_same_names_share_them() {
        let read = |json| serde_json::from_str::<Values<i64>>(json).unwrap();
        let (one, two) = (read(r#"{"m":0,"n":-5}"#), read(r#"{"m":7,"n":0}"#));
        assert!(Arc::ptr_eq(&one.names, &two.names));
        assert_eq!(two.packed.len(), 2);
        assert_eq!((one.get("n"), two.get("n")), (Some(-5), Some(0)));
    }

    /// What is read like what was read before is what serde reads.
    #[test]
    fn objects_like_recent_ones_are_read_as_by_serde() {
        let known = r#"{"p":1,"q":0,"r":-3}"#;
        let read = |json: &str| serde_json::from_str::<Values<i64>>(json).unwrap();
        read(known);
        for json in [known, r#"{"p":0,"q":12345678901234567,"r":-999999999999999999}"#] {
            let (values, bytes) = Values::read_like_recent(&json[1..]).unwrap();
            assert_eq!((values, bytes), (read(json), json.len() - 2), "{json}");
            let followed = format!("{},\"x\":{{}}}}", &json[1..]);
            assert_eq!(Values::read_like_recent(&followed).unwrap().1, bytes);
        }
        for other in [
            r#""p":1,"q":0}"#,
            r#""p":1,"q":0,"r":2,"s":3}"#,
            r#""p":1, "q":0,"r":2}"#,
            r#""p":1,"r":0,"q":2}"#,
            r#""p":1.5,"q":0,"r":2}"#,
            r#""p":1e3,"q":0,"r":2}"#,
            r#""p":01,"q":0,"r":2}"#,
            r#""p":-0,"q":0,"r":2}"#,
            r#""p":9223372036854775808,"q":0,"r":2}"#,
            r#""p":1,"q":0,"r":}"#,
            r#""p":1,"q":0,"r":"#,
            r#""p":1,"q":0,"r":-"#,
            "}",
            "",
        ] {
            assert!(Values::read_like_recent(other).is_none(), "{other}");
        }
        read(r#"{"a\\b":1}"#);
        assert!(Values::read_like_recent(r#""a\b":1}"#).is_none());
    }

    #[test]
    fn a_value_is_added_and_replaced() {
        let mut values: Values<i64> = Values::new();
        for (name, n) in [("b", 1), ("a", 2), ("b", 3)] {
            values.insert(name, n);
        }
        assert_eq!(values.iter().collect::<Vec<_>>(), [("a", 2), ("b", 3)]);
    }
}
