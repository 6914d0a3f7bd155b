//! Values of experiments as users write them: `4`, `"all"` or `true`, alone or in a list.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::value::{BoolDeserializer, F64Deserializer, I64Deserializer, StrDeserializer};
use serde::de::{IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// One value or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Many<T>(pub Vec<T>);

/// A value that is written as a text, a number or a boolean and kept as its text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Scalar(pub String);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Many<T>, D::Error> {
        deserializer.deserialize_any(ManyVisitor(PhantomData))
    }
}

struct ManyVisitor<T>(PhantomData<T>);

// Written by hand, because the errors of an untagged enum do not say what was wrong.
impl<'de, T: Deserialize<'de>> Visitor<'de> for ManyVisitor<T> {
    type Value = Many<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Many<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Many(values))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Many<T>, E> {
        let one: StrDeserializer<E> = value.into_deserializer();
        T::deserialize(one).map(|v| Many(vec![v]))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Many<T>, E> {
        let one: BoolDeserializer<E> = value.into_deserializer();
        T::deserialize(one).map(|v| Many(vec![v]))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Many<T>, E> {
        let one: I64Deserializer<E> = value.into_deserializer();
        T::deserialize(one).map(|v| Many(vec![v]))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Many<T>, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::custom(format!("{value} is too large"))),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Many<T>, E> {
        let one: F64Deserializer<E> = value.into_deserializer();
        T::deserialize(one).map(|v| Many(vec![v]))
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a word or a number")
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string()))
    }
}
