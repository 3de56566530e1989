//! The schema check over random schemas and inputs: it answers whatever it is given, and what it says is right where that
//! can be known without it.
#![allow(clippy::disallowed_types, reason = "makes JSON here, parses none")]

use portcullis_runtime::*;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

/// Any JSON at all, the words of schemas among its keys and strings.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "type",
        "object",
        "string",
        "properties",
        "required",
        "items",
        "enum",
        "$ref",
        "#",
        "#/properties/a",
        "pattern",
        "[",
        "(a+)+$",
        "minimum",
        "additionalProperties",
        "allOf",
        "not",
        "const",
        "format",
        "date-time",
        "a",
        "b",
        "",
    ]);
    let word = words.prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        let entries = vec((word.clone(), inner.clone()), 0..5);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            entries.prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// The type of a field, a value of it, and one that is not of it.
fn field() -> impl Strategy<Value = (Value, Value, Value)> {
    prop_oneof![
        ".{0,12}".prop_map(|s| (json!({"type": "string"}), json!(s), json!(1))),
        any::<i32>().prop_map(|n| (json!({"type": "integer"}), json!(n), json!(0.5))),
        any::<bool>().prop_map(|b| (json!({"type": "boolean"}), json!(b), json!("true"))),
        vec(any::<u8>(), 0..4).prop_map(|all| (
            json!({"type": "array", "items": {"type": "integer"}}),
            json!(all),
            json!({})
        )),
        Just((json!({"enum": ["x", 1, null]}), json!(1), json!("y"))),
    ]
}

fn frozen(value: &Value) -> Frozen {
    Frozen::parse(&*value.to_string()).expect("JSON that serde_json prints")
}

fn spec(schema: &Value) -> Result<ToolSpec, SpecError> {
    ToolSpec::new("T", "Tests.", frozen(schema))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // C-PIPE-9: any schema is compiled or refused, and one that is compiled answers about any value. The same value gets
    // the same answer, and a refusal says something.
    #[test]
    fn any_schema_and_any_value_get_an_answer(schema in any_json(), value in any_json()) {
        if let Ok(spec) = spec(&schema) {
            prop_assert!(schema.is_object());
            let first = spec.accepts(&frozen(&value));
            prop_assert_eq!(&first, &spec.accepts(&frozen(&value)));
            prop_assert!(first.err().is_none_or(|why| !why.is_empty()));
        }
    }

    // C-PIPE-9: what satisfies a schema passes; without a required field, or with one of another type, it does not, and the
    // field is named.
    #[test]
    fn what_satisfies_passes_and_what_lacks_a_field_does_not(
        fields in vec((field(), any::<bool>()), 1..6),
        which in any::<prop::sample::Index>(),
    ) {
        let name = |n: usize| format!("field_{n}");
        let mut schema = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
        let mut whole = json!({});
        for (n, ((kind, value, _), required)) in fields.iter().enumerate() {
            schema["properties"][name(n)] = kind.clone();
            whole[name(n)] = value.clone();
            if *required {
                schema["required"].as_array_mut().expect("a list").push(name(n).into());
            }
        }
        let spec = spec(&schema).expect("a sound schema");
        prop_assert_eq!(spec.accepts(&frozen(&whole)), Ok(()));
        let at = which.index(fields.len());
        let ((_, _, wrong), required) = &fields[at];
        let mut lacks = whole.clone();
        lacks.as_object_mut().expect("an object").remove(&name(at));
        let missed = spec.accepts(&frozen(&lacks));
        prop_assert_eq!(missed.is_err(), *required);
        prop_assert!(missed.err().is_none_or(|why| why.contains(&name(at))));
        let mut other = whole.clone();
        other[name(at)] = wrong.clone();
        let refused = spec.accepts(&frozen(&other));
        prop_assert!(refused.is_err_and(|why| why.contains(&name(at))));
        let mut more = whole;
        more["nobody_asked"] = json!(1);
        prop_assert!(spec.accepts(&frozen(&more)).is_err());
    }

    // C-ID-2: what is no object at the top is no arguments.
    #[test]
    fn only_an_object_is_arguments(value in any_json()) {
        prop_assert_eq!(Frozen::arguments(&*value.to_string()).is_ok(), value.is_object());
    }
}
