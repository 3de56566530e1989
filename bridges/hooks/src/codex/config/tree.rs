//! What stands in a JSON or a TOML file, with its places: one form, so that there is one reader for both.

use crate::json;
use std::fmt::Write as _;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A value with its place in the text, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: usize,
    pub(crate) value: Value,
}

/// A value of either language.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// A date or a time of TOML.
    Date,
}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The place of the key.
    pub(crate) at: usize,
    /// The key stands there a second time.
    pub(crate) twice: bool,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn from_json(node: &json::Node<'_>) -> Node {
        let value = match &node.value {
            json::Value::Null => Value::Null,
            json::Value::Bool(value) => Value::Bool(*value),
            json::Value::Number(literal) => number(literal),
            json::Value::String(text) => Value::Text(text.to_string()),
            json::Value::Array(items) => Value::List(items.iter().map(Node::from_json).collect()),
            json::Value::Object(entries) => Value::Table(
                entries
                    .iter()
                    .map(|entry| Entry {
                        key: entry.key.to_string(),
                        at: entry.at,
                        twice: entry.earlier.is_some(),
                        value: Node::from_json(&entry.value),
                    })
                    .collect(),
            ),
        };
        Node { at: node.at, value }
    }

    pub(crate) fn from_toml(table: &DeTable<'_>) -> Node {
        Node { at: 0, value: toml_table(table) }
    }

    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    pub(crate) fn items(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn unsigned(&self) -> Option<u64> {
        match self.value {
            Value::Integer(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    /// What it is, for a sentence.
    pub(crate) fn kind(&self) -> String {
        match &self.value {
            Value::Null => "null".into(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Integer(value) => format!("`{value}`"),
            Value::Float(value) => format!("`{value}`"),
            Value::Text(_) => "a string".into(),
            Value::List(_) => "a list".into(),
            Value::Table(_) => "a table of keys".into(),
            Value::Date => "a date".into(),
        }
    }

    /// Whether both languages can say it: JSON's null and TOML's dates, infinities and large integers are of one alone.
    pub(crate) fn is_common(&self) -> bool {
        match &self.value {
            Value::Null | Value::Date => false,
            Value::Bool(_) | Value::Text(_) => true,
            Value::Integer(value) => i64::try_from(*value).is_ok(),
            Value::Float(value) => value.is_finite(),
            Value::List(items) => items.iter().all(Node::is_common),
            Value::Table(entries) => entries.iter().all(|entry| entry.value.is_common()),
        }
    }

    /// Appends it as compact JSON, with the keys in their order or sorted. What only TOML can say becomes null.
    pub(crate) fn write(&self, out: &mut String, sorted: bool) {
        // Writing to a String cannot fail.
        match &self.value {
            Value::Null | Value::Date => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Integer(value) => drop(write!(out, "{value}")),
            Value::Float(value) => out.push_str(&serde_json::to_string(value).unwrap_or_default()),
            Value::Text(text) => json::write_string(out, text),
            Value::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    item.write(out, sorted);
                }
                out.push(']');
            }
            Value::Table(entries) => {
                let mut entries: Vec<&Entry> = entries.iter().collect();
                if sorted {
                    entries.sort_by(|a, b| a.key.cmp(&b.key));
                }
                out.push('{');
                for (i, entry) in entries.into_iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    json::write_string(out, &entry.key);
                    out.push(':');
                    entry.value.write(out, sorted);
                }
                out.push('}');
            }
        }
    }
}

/// A number as Rust's JSON readers take it: an integer while it fits into 64 bits, with or without a sign.
fn number(literal: &str) -> Value {
    let integer = literal.parse::<i128>().ok().filter(|_| literal != "-0");
    match integer.filter(|value| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(value)) {
        Some(value) => Value::Integer(value),
        // Every literal of JSON is one of a float.
        None => Value::Float(literal.parse().unwrap_or(f64::NAN)),
    }
}

fn toml_table(table: &DeTable<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            at: key.span().start,
            twice: false,
            value: toml_value(value),
        })
        .collect();
    // The parser hands keys out by name; a person reads from the top.
    entries.sort_by_key(|entry| entry.at);
    Value::Table(entries)
}

fn toml_value(value: &Spanned<DeValue<'_>>) -> Node {
    let of = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(integer) => Value::Integer(integer.into()),
            // The parser takes integers of any length, the language and the client 64 bits.
            Err(_) => Value::Float(f64::INFINITY),
        },
        DeValue::Float(float) => Value::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::List(items.iter().map(toml_value).collect()),
        DeValue::Table(table) => toml_table(table),
    };
    Node { at: value.span().start, value: of }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Node {
        Node::from_json(&json::parse(text).unwrap())
    }

    fn written(node: &Node, sorted: bool) -> String {
        let mut out = String::new();
        node.write(&mut out, sorted);
        out
    }

    // C-BRIDGE-1
    #[test]
    fn both_languages_come_to_one_form() {
        let toml =
            DeTable::parse("b = [1_000, 0x10, 1.50, true]\n\"é\" = \"x\\ty\"\n[a]\nz = 1\ny = {}\n").unwrap();
        let toml = Node::from_toml(toml.get_ref());
        let json = json(r#"{"b":[1000,16,1.5,true],"é":"x\ty","a":{"z":1,"y":{}}}"#);
        assert_eq!(written(&toml, false), written(&json, false));
        assert_eq!(written(&json, true), r#"{"a":{"y":{},"z":1},"b":[1000,16,1.5,true],"é":"x\ty"}"#);
        assert_eq!(toml.get("a").unwrap().get("z").unwrap().unsigned(), Some(1));
    }

    #[test]
    fn numbers_are_integers_while_they_fit() {
        for (text, same) in [
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("1e2", "100.0"),
            ("-0", "-0.0"),
            ("1.0", "1.0"),
        ] {
            assert_eq!(written(&json(text), false), same, "{text}");
        }
        assert_eq!(json("18446744073709551616").unsigned(), None);
        assert_eq!(
            (json("7").unsigned(), json("7.0").unsigned(), json("-7").unsigned()),
            (Some(7), None, None)
        );
    }

    #[test]
    fn what_one_language_alone_can_say_is_known() {
        assert!(json(r#"{"a":[1,"x",{"b":1.5}]}"#).is_common());
        for text in [r#"{"a":[null]}"#, "9223372036854775808", "1e999"] {
            assert!(!json(text).is_common(), "{text}");
        }
        let dated = DeTable::parse("a = [1979-05-27]\nb = inf\nc = 99999999999999999999\n").unwrap();
        let dated = Node::from_toml(dated.get_ref());
        for key in ["a", "b", "c"] {
            assert!(!dated.get(key).unwrap().is_common(), "{key}");
        }
    }
}
