//! Our reader and writer of JSON: what is read has its places in the text, and what is written reads the same.

use crate::json::{Fault, Node, Problem, Value, line, parse, trim};
use portcullis_runtime::Frozen;
use serde::de::IgnoredAny;

pub(super) fn run(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let trimmed = trim(text);
    assert_eq!(trim(trimmed), trimmed);
    let read = parse(text);
    match &read {
        Ok(node) => {
            places(node, text);
            let mut out = String::new();
            node.write(&mut out);
            let again = parse(&out).unwrap_or_else(|fault| panic!("{fault:?} in {out}"));
            assert!(same(node, &again), "{text} is written as {out}");
            let mut twice = String::new();
            again.write(&mut twice);
            assert_eq!(out, twice);
            strict(&out);
        }
        Err(Fault { at, .. }) => {
            assert!(*at <= text.len());
            assert!(line(text, *at) <= 1 + text.matches('\n').count());
        }
    }
    // Whoever is stricter accepts nothing that is refused here.
    if let Err(fault) = read {
        assert!(Frozen::parse(text).is_err(), "{fault:?}");
        assert!(
            serde_json::from_str::<IgnoredAny>(text).is_err() || fault.problem == Problem::Depth,
            "{fault:?}"
        );
    }
}

/// What is written is JSON for everybody, but for numbers that no double holds.
fn strict(out: &str) {
    if let Err(refused) = Frozen::parse(out) {
        assert_eq!(refused.why.code(), "json_number_range", "{refused} in {out}");
    }
}

fn places(node: &Node<'_>, text: &str) {
    let first = text.as_bytes()[node.at];
    match &node.value {
        Value::Null => assert_eq!(first, b'n'),
        Value::Bool(value) => assert_eq!(first, if *value { b't' } else { b'f' }),
        Value::Number(literal) => assert!(text[node.at..].starts_with(literal)),
        Value::String(_) => assert_eq!(first, b'"'),
        Value::Array(items) => {
            assert_eq!(first, b'[');
            items.iter().for_each(|item| places(item, text));
            assert!(items.windows(2).all(|two| two[0].at < two[1].at));
        }
        Value::Object(entries) => {
            assert_eq!(first, b'{');
            for entry in entries {
                assert_eq!(text.as_bytes()[entry.at], b'"');
                assert!(entry.at < entry.value.at && entry.earlier.is_none_or(|earlier| earlier < entry.at));
                places(&entry.value, text);
            }
            let mut keys: Vec<&str> = entries.iter().map(|entry| &*entry.key).collect();
            keys.sort_unstable();
            assert!(keys.windows(2).all(|two| two[0] != two[1]), "{keys:?}");
        }
    }
}

/// The same value, wherever it stands.
fn same(one: &Node<'_>, other: &Node<'_>) -> bool {
    match (&one.value, &other.value) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = || one.iter().zip(other);
            one.len() == other.len()
                && pairs().all(|(one, other)| one.key == other.key && same(&one.value, &other.value))
        }
        (one, other) => one == other,
    }
}
