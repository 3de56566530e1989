//! The two ways hook clients print values.

use super::number;
use super::text::write_string;
use super::view::{Kind, View};

/// What becomes of an integer literal that a double cannot hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Integers {
    /// JavaScript's double.
    Rounded,
    /// The literal.
    AsWritten,
}

pub(super) fn compact(view: View<'_>, out: &mut String) {
    match view.kind() {
        Kind::Object => object(view.entries().with_keys(), out, compact),
        Kind::Array => array(view, out, compact),
        Kind::String => string(view, out),
        Kind::Null | Kind::Bool | Kind::Number => out.push_str(view.text()),
    }
}

pub(super) fn javascript(view: View<'_>, out: &mut String, integers: Integers) {
    let value = move |view: View<'_>, out: &mut String| javascript(view, out, integers);
    match view.kind() {
        Kind::Object => {
            let mut indexed: Vec<_> = view
                .entries()
                .with_keys()
                .filter_map(|(key, value)| array_index(key).map(|index| (index, (key, value))))
                .collect();
            if indexed.is_empty() {
                return object(view.entries().with_keys(), out, value);
            }
            indexed.sort_unstable_by_key(|(index, _)| *index);
            let named = view.entries().with_keys().filter(|(key, _)| array_index(*key).is_none());
            object(indexed.into_iter().map(|(_, entry)| entry).chain(named), out, value);
        }
        Kind::Array => array(view, out, value),
        Kind::String => string(view, out),
        Kind::Number => double(view.text(), out, integers),
        Kind::Null | Kind::Bool => out.push_str(view.text()),
    }
}

fn object<'a>(
    entries: impl Iterator<Item = (View<'a>, View<'a>)>,
    out: &mut String,
    value: impl Fn(View<'a>, &mut String),
) {
    let mut before = '{';
    for (key, entry) in entries {
        out.push(before);
        before = ',';
        string(key, out);
        out.push(':');
        value(entry, out);
    }
    out.push_str(if before == '{' { "{}" } else { "}" });
}

fn array<'a>(view: View<'a>, out: &mut String, value: impl Fn(View<'a>, &mut String)) {
    let mut before = '[';
    for item in view.items() {
        out.push(before);
        before = ',';
        value(item, out);
    }
    out.push_str(if before == '[' { "[]" } else { "]" });
}

fn string(view: View<'_>, out: &mut String) {
    match view.as_str() {
        Some(text) if !view.is_plain_string() => write_string(out, &text),
        _ => out.push_str(view.text()),
    }
}

/// A key JavaScript moves to the front: the canonical decimal form of 0 to 2^32 - 2 (ECMA-262, "array index").
fn array_index(key: View<'_>) -> Option<u32> {
    let key = key.as_str()?;
    let canonical = matches!(key.as_bytes(), [b'0'] | [b'1'..=b'9', ..]) && key.len() <= 10;
    // A leading sign is excluded above, any other non-digit by the parse.
    if canonical { key.parse().ok().filter(|index| *index != u32::MAX) } else { None }
}

fn double(literal: &str, out: &mut String, integers: Integers) {
    /// Every integer of so many digits is a double and printed without an exponent.
    const SAFE_DIGITS: usize = 15;
    if literal == "-0" {
        return out.push('0');
    }
    let digits = literal.len() - usize::from(literal.starts_with('-'));
    if number::is_integer_literal(literal) && (integers == Integers::AsWritten || digits <= SAFE_DIGITS) {
        return out.push_str(literal);
    }
    match number::finite(literal) {
        Some(double) => out.push_str(ryu_js::Buffer::new().format_finite(double)),
        // `JSON.parse` reads infinity and `JSON.stringify` prints that as null.
        None => out.push_str("null"),
    }
}
