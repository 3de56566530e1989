//! No key in untrusted text means anything. This build has serde_json's `raw_value` switched on, as a host's may.

use std::collections::{BTreeMap, HashMap};

use portcullis_runtime::frozen::{Frozen, Json, View, Why};
use serde::{Deserialize, Serialize};

/// Objects that a `serde_json::Value`, or a number of serde_json's `arbitrary_precision`, would read as something else.
const MAGIC: [&str; 4] = [
    r#"{"$serde_json::private::RawValue":"{\"a\":1}"}"#,
    r#"{"$serde_json::private::Number":"1"}"#,
    r#"{"\u0024serde_json::private::RawValue":"[1,2]"}"#,
    r#"{"$portcullis::Json":"{\"a\":1}"}"#,
];

fn is_plain(view: View<'_>, text: &str) {
    assert_eq!(view.len(), 1);
    let (key, value) = view.entries().next().unwrap();
    assert!(key.starts_with('$'), "{key}");
    assert!(value.as_str().is_some(), "the value stays a string");
    assert!(view.get("a").is_none());
    assert_eq!(view.text(), text);
}

/// The danger is real in this build: otherwise the tests below would prove nothing.
#[test]
#[expect(clippy::disallowed_types, reason = "shows what the type does")]
fn a_serde_json_value_does_unwrap_the_key() {
    let value: serde_json::Value = serde_json::from_str(MAGIC[0]).unwrap();
    assert_eq!(value.to_string(), r#"{"a":1}"#);
}

// C-ID-2: at the root and nested.
#[test]
fn magic_keys_are_plain_in_views_and_projections() {
    for text in MAGIC {
        let root = Frozen::arguments(text).unwrap();
        is_plain(root.root(), text);
        let nested = Frozen::parse(format!("[{{\"x\":{text}}}]")).unwrap();
        is_plain(nested.root().at(0).unwrap().get("x").unwrap(), text);
        let plain = text.replace("\\u0024", "$");
        assert_eq!(root.compact(), plain);
        assert_eq!(root.javascript(), plain);
        assert_eq!(root.root().to_schema_value().to_string(), plain);
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct Fields {
    field: Json,
    optional: Option<Json>,
    list: Vec<Json>,
    map: HashMap<String, Json>,
}

// C-ID-2: in a Json field, wherever it stands in a type.
#[test]
fn magic_keys_are_plain_in_json_fields() {
    for text in MAGIC {
        let whole = format!(r#"{{"field":{text},"optional":{text},"list":[{text}],"map":{{"k":{text}}}}}"#);
        let frozen = Frozen::arguments(whole.as_str()).unwrap();
        let fields: Fields = frozen.decode().unwrap();
        for json in [&fields.field, fields.optional.as_ref().unwrap(), &fields.list[0], &fields.map["k"]] {
            is_plain(json.root(), text);
        }
        assert_eq!(Frozen::of(&fields).unwrap().text(), whole, "and on the way out");
        let root: Json = Frozen::parse(text).unwrap().decode().unwrap();
        is_plain(root.root(), text);
        let map: BTreeMap<String, Json> = Frozen::parse(text).unwrap().decode().unwrap();
        assert!(map.keys().all(|key| key.starts_with('$')));
        assert!(map.values().all(|value| value.root().as_str().is_some()));
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct Flat {
    known: u8,
    #[serde(flatten)]
    rest: HashMap<String, Json>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "kind")]
enum Tagged {
    One { inner: Json },
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Untagged {
    Number(u8),
    Other(Json),
}

#[derive(Debug, Deserialize)]
struct FlatJson {
    known: u8,
    #[serde(flatten)]
    rest: Json,
}

// C-ID-2: where serde buffers, and the magic key stands among the type's own.
#[test]
fn magic_keys_are_plain_where_serde_buffers() {
    for text in MAGIC {
        let plain = text.replace("\\u0024", "$");
        let flat: Flat = Frozen::parse(format!(r#"{{"known":1,"x":{text}}}"#)).unwrap().decode().unwrap();
        assert_eq!(flat.known, 1);
        is_plain(flat.rest["x"].root(), &plain);
        let tagged: Tagged =
            Frozen::parse(format!(r#"{{"inner":{text},"kind":"One"}}"#)).unwrap().decode().unwrap();
        let Tagged::One { inner } = tagged;
        is_plain(inner.root(), &plain);
        let Untagged::Other(other) = Frozen::parse(text).unwrap().decode().unwrap() else {
            panic!("{text} is no number");
        };
        is_plain(other.root(), &plain);
        let beside = format!("{},\"known\":7}}", &text[..text.len() - 1]);
        let flat: FlatJson = Frozen::parse(beside).unwrap().decode().unwrap();
        assert_eq!(flat.known, 7);
        is_plain(flat.rest.root(), &plain);
    }
}

// C-ID-2: another deserializer may read a Json, and a Json may be written by another serializer.
#[test]
fn magic_keys_are_plain_through_serde_json_itself() {
    for text in MAGIC {
        let plain = text.replace("\\u0024", "$");
        let json: Json = serde_json::from_str(text).unwrap();
        is_plain(json.root(), &plain);
        let map: HashMap<String, Json> = serde_json::from_str(&format!("{{\"k\":{text}}}")).unwrap();
        is_plain(map["k"].root(), &plain);
        assert_eq!(serde_json::to_string(&json).unwrap(), plain);
        assert_eq!(serde_json::to_value(&json).unwrap().to_string(), plain);
    }
}

// C-ID-2: a type with serde_json's own value in it is refused rather than unwrapped, at any depth.
#[test]
#[expect(clippy::disallowed_types, reason = "what an embedder's type might hold")]
fn a_foreign_value_type_is_refused_the_key() {
    for text in &MAGIC[..3] {
        for whole in [text.to_string(), format!(r#"{{"a":[{{"b":{text}}}]}}"#)] {
            let refused = Frozen::parse(whole).unwrap().decode::<serde_json::Value>().unwrap_err();
            assert!(matches!(refused.why, Why::Shape { .. }), "{refused}");
            assert!(refused.path.contains("$serde_json::private"), "{refused}");
        }
    }
    let raw = Frozen::parse("{\"a\":1}").unwrap().decode::<Box<serde_json::value::RawValue>>();
    assert!(matches!(raw.unwrap_err().why, Why::Shape { .. }));
}
