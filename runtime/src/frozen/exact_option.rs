//! `#[serde(with = "…::frozen::exact_option")]`: as [`exact`], with `None` as null.
//!
//! With `with`, serde takes a missing field as an error; add `default` where it may be missing.

use serde::de::{Deserialize, Deserializer};
use serde::ser::Serializer;

use super::{Frozen, exact};

/// Writes the text as a string, or null.
///
/// # Errors
/// The serializer's own.
pub fn serialize<S: Serializer>(frozen: &Option<Frozen>, serializer: S) -> Result<S::Ok, S::Error> {
    match frozen {
        Some(frozen) => serializer.serialize_some(frozen.text()),
        None => serializer.serialize_none(),
    }
}

/// Reads null, or a string and scans its text.
///
/// # Errors
/// The deserializer's own, and what [`Frozen::parse`] refuses.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Frozen>, D::Error> {
    struct Exact(Frozen);

    impl<'de> Deserialize<'de> for Exact {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            exact::deserialize(deserializer).map(Exact)
        }
    }

    Ok(Option::<Exact>::deserialize(deserializer)?.map(|exact| exact.0))
}
