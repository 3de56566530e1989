//! `#[serde(with = "…::frozen::exact")]`: a [`Frozen`] as a JSON *string* that holds its exact text.
//!
//! For formats that must give back the very bytes, such as the session log: as an embedded value it would be
//! re-spaced and re-escaped by whatever reads and writes the format around it. Reading scans the text again.
//!
//! ```
//! use portcullis_runtime::frozen::{Frozen, exact};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Line {
//!     #[serde(with = "exact")]
//!     arguments: Frozen,
//! }
//!
//! let line = Line { arguments: Frozen::arguments(r#"{ "a" : 1.0 }"#)? };
//! let text = serde_json::to_string(&line)?;
//! assert_eq!(text, r#"{"arguments":"{ \"a\" : 1.0 }"}"#);
//! let back: Line = serde_json::from_str(&text)?;
//! assert_eq!(back.arguments, line.arguments);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

use super::Frozen;

/// Writes the text as a string.
///
/// # Errors
/// The serializer's own.
pub fn serialize<S: Serializer>(frozen: &Frozen, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(frozen.text())
}

/// Reads a string and scans its text.
///
/// # Errors
/// The deserializer's own, and what [`Frozen::parse`] refuses.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Frozen, D::Error> {
    deserializer.deserialize_string(Text)
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Frozen;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string that holds JSON text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Frozen, E> {
        Frozen::parse(text).map_err(E::custom)
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Frozen, E> {
        Frozen::parse(text).map_err(E::custom)
    }
}
