//! The one place that makes a `serde_json::Value`: what a JSON Schema validator needs to look at.

use super::number;
use super::view::{Kind, View};

impl View<'_> {
    /// The value for a schema check, made node by node. Nothing is parsed from text, so keys that mean something to
    /// serde_json's parser are plain keys here. Integers beyond 64 bits become the nearest double, and beyond that the
    /// largest one: good enough for a check, never for anything that is kept.
    #[doc(hidden)]
    #[expect(
        clippy::disallowed_types,
        reason = "the schema validator takes nothing else; built from our own view"
    )]
    pub fn to_schema_value(self) -> serde_json::Value {
        use serde_json::Value;
        match self.kind() {
            Kind::Null => Value::Null,
            Kind::Bool => Value::Bool(self.as_bool() == Some(true)),
            Kind::Number => Value::Number(schema_number(self.text())),
            Kind::String => Value::String(self.as_str().unwrap_or_default().into_owned()),
            Kind::Array => Value::Array(self.items().map(View::to_schema_value).collect()),
            Kind::Object => {
                let mut map = serde_json::Map::with_capacity(self.len());
                for (key, value) in self.entries() {
                    map.insert(key.into_owned(), value.to_schema_value());
                }
                Value::Object(map)
            }
        }
    }
}

fn schema_number(literal: &str) -> serde_json::Number {
    if number::is_integer_literal(literal) {
        if let Ok(integer) = literal.parse::<u64>() {
            return integer.into();
        }
        if let Ok(integer) = literal.parse::<i64>() {
            return integer.into();
        }
    }
    let largest = if literal.starts_with('-') { f64::MIN } else { f64::MAX };
    serde_json::Number::from_f64(number::finite(literal).unwrap_or(largest)).unwrap_or_else(|| 0.into())
}
