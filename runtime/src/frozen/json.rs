//! A part of any shape, for fields of Rust types.

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

use super::view::{Kind, View};
use super::{Frozen, Refused, decode, number, rebuild};

/// A JSON value of any shape, owned: what a field of a tool's argument type uses where others use `serde_json::Value`.
///
/// - From [`Frozen::decode`] and into [`Frozen::of`] it keeps its exact text.
/// - From any other deserializer, and wherever serde buffers (`flatten`, `untagged`, `tag = "…"`), the text is written anew
///   from what serde hands over: the same value, numbers as `u64`, `i64` or `f64`.
/// - Into another human-readable serializer it goes as data, numbers as integers up to 128 bits or doubles; an integer
///   beyond is an error. Into a binary one it goes as its text.
///
/// Two are equal when their structure is: the same keys in the same order, the same characters, the same number
/// literals; whitespace and the spelling of escapes do not count.
///
/// ```
/// use portcullis_runtime::frozen::{Frozen, Json};
/// use std::collections::BTreeMap;
///
/// let text = r#"{"plain":1,"odd":{"$serde_json::private::RawValue":"{\"a\":1}"}}"#;
/// let values: BTreeMap<String, Json> = Frozen::parse(text)?.decode()?;
/// assert_eq!(values["odd"].root().len(), 1);
/// assert_eq!(values["plain"], Json::parse(" 1 ")?);
/// # Ok::<(), portcullis_runtime::frozen::Refused>(())
/// ```
#[derive(Clone)]
pub struct Json(Frozen);

impl Json {
    /// Reads a text, as [`Frozen::parse`].
    ///
    /// # Errors
    /// As [`Frozen::parse`].
    pub fn parse(text: impl Into<Box<str>>) -> Result<Self, Refused> {
        Frozen::parse(text).map(Json)
    }

    /// A cursor on the value.
    pub fn root(&self) -> View<'_> {
        self.0.root()
    }

    /// The sealed value.
    pub fn frozen(&self) -> &Frozen {
        &self.0
    }

    /// The sealed value, without a copy.
    pub fn into_frozen(self) -> Frozen {
        self.0
    }
}

impl From<Frozen> for Json {
    fn from(frozen: Frozen) -> Self {
        Json(frozen)
    }
}

impl From<View<'_>> for Json {
    fn from(view: View<'_>) -> Self {
        Json(view.to_frozen())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        if self.0 == other.0 {
            return true;
        }
        let (mut ours, mut theirs) = (self.root().nodes(), other.root().nodes());
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (Some(one), Some(other)) if is_same_node(one, other) => {}
                _ => return false,
            }
        }
    }
}

impl Eq for Json {}

/// Nodes come in source order with their lengths, so comparing them one by one compares the trees.
fn is_same_node(one: View<'_>, other: View<'_>) -> bool {
    one.kind() == other.kind()
        && one.len() == other.len()
        && match one.kind() {
            Kind::Object | Kind::Array | Kind::Null => true,
            Kind::String => one.as_str() == other.as_str(),
            Kind::Bool | Kind::Number => one.text() == other.text(),
        }
}

/// At most the first 120 characters of the text.
impl std::fmt::Debug for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Json({})", super::text::shorten(self.0.text(), 120))
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(decode::JSON, Read)
    }
}

/// Our own deserializer answers with bytes, which are the text; every other one with a newtype struct.
struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = Json;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Json, E> {
        // Scanned again: whoever calls this, what gets in is sealed JSON.
        let text = std::str::from_utf8(bytes).map_err(E::custom)?;
        Json::parse(text).map_err(E::custom)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let text = if deserializer.is_human_readable() {
            rebuild::text(deserializer)?
        } else {
            String::deserialize(deserializer)?
        };
        Json::parse(text).map_err(D::Error::custom)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(decode::JSON, &Data(self.root()))
    }
}

struct Data<'a>(View<'a>);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.0;
        if !serializer.is_human_readable() {
            return serializer.serialize_str(view.text());
        }
        match view.kind() {
            Kind::Null => serializer.serialize_unit(),
            Kind::Bool => serializer.serialize_bool(view.as_bool() == Some(true)),
            Kind::Number => serialize_number(view.text(), serializer),
            Kind::String => serializer.serialize_str(&view.as_str().unwrap_or_default()),
            Kind::Array => {
                let mut seq = serializer.serialize_seq(Some(view.len()))?;
                for item in view.items() {
                    seq.serialize_element(&Data(item))?;
                }
                seq.end()
            }
            Kind::Object => {
                let mut map = serializer.serialize_map(Some(view.len()))?;
                for (key, value) in view.entries() {
                    map.serialize_entry(&*key, &Data(value))?;
                }
                map.end()
            }
        }
    }
}

fn serialize_number<S: Serializer>(literal: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if number::is_integer_literal(literal) && literal != "-0" {
        if let Ok(integer) = literal.parse::<u64>() {
            return serializer.serialize_u64(integer);
        }
        if let Ok(integer) = literal.parse::<i64>() {
            return serializer.serialize_i64(integer);
        }
        if let Some(integer) = number::signed(literal) {
            return serializer.serialize_i128(integer);
        }
        return match number::unsigned(literal) {
            Some(integer) => serializer.serialize_u128(integer),
            None => Err(S::Error::custom(
                "an integer of more than 128 bits; seal the whole value as Frozen instead",
            )),
        };
    }
    match number::finite(literal) {
        Some(double) => serializer.serialize_f64(double),
        None => Err(S::Error::custom("a number beyond the range of doubles")),
    }
}

/// Any value is allowed; what it means is for the tool to say in the field's description.
impl schemars::JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}
