//! A borrowed cursor over a sealed value.

use std::borrow::Cow;

use super::refused::{Fault, Refused};
use super::tape::{Node, Tape};
use super::text::{shorten, unescape};
use super::{Frozen, decode, number, print};

/// What a JSON value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// Any number.
    Number,
    /// A string.
    String,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Null => "null",
            Kind::Bool => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        })
    }
}

/// A value inside a [`Frozen`], or the whole of it. Copying it copies a few words; it lives as long as the `Frozen` is
/// borrowed.
///
/// Asking a value for what it is not answers `None`, so a policy can walk down without matching at every level.
///
/// ```
/// use portcullis_runtime::frozen::Frozen;
///
/// let frozen = Frozen::parse(r#"{"edits":[{"line":3}]}"#)?;
/// let line = frozen.root().get("edits").and_then(|edits| edits.at(0)).and_then(|edit| edit.get("line"));
/// assert_eq!(line.and_then(|line| line.as_u64()), Some(3));
/// # Ok::<(), portcullis_runtime::frozen::Refused>(())
/// ```
#[derive(Clone, Copy)]
pub struct View<'a> {
    text: &'a str,
    nodes: &'a [Node],
    node: u32,
}

impl<'a> View<'a> {
    pub(super) fn root(text: &'a str, tape: &'a Tape) -> Self {
        View { text, nodes: &tape.0, node: 0 }
    }

    fn node(self) -> &'a Node {
        &self.nodes[self.node as usize]
    }

    fn to(self, node: u32) -> Self {
        View { node, ..self }
    }

    /// What the value is.
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// The value exactly as written, without the whitespace around it.
    pub fn text(self) -> &'a str {
        &self.text[self.start()..self.node().end as usize]
    }

    pub(super) fn start(self) -> usize {
        self.node().start as usize
    }

    pub(super) fn nodes(self) -> impl Iterator<Item = View<'a>> {
        (self.node..self.node().after).map(move |node| self.to(node))
    }

    /// The value under a key of an object. Compares key by key: for many look-ups in a large object walk
    /// [`entries`](Self::entries) once.
    pub fn get(self, key: &str) -> Option<View<'a>> {
        self.entries().with_keys().find(|(name, _)| name.is_string(key)).map(|(_, value)| value)
    }

    /// An item of an array, from 0. Steps over the items before it.
    pub fn at(self, index: usize) -> Option<View<'a>> {
        self.items().nth(index)
    }

    /// Entries of an object or items of an array; 0 for anything else.
    pub fn len(self) -> usize {
        self.node().len as usize
    }

    /// Whether there are no entries or items.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Keys (unescaped) and values of an object in source order; nothing for any other value.
    pub fn entries(self) -> Entries<'a> {
        Entries { items: self.inside(Kind::Object) }
    }

    /// Items of an array in order; nothing for any other value.
    pub fn items(self) -> Items<'a> {
        self.inside(Kind::Array)
    }

    fn inside(self, kind: Kind) -> Items<'a> {
        let left = if self.kind() == kind { self.len() } else { 0 };
        let nodes = if kind == Kind::Object { left * 2 } else { left };
        Items { next: self.to(self.node + 1), left: nodes }
    }

    /// The characters of a string. Borrowed unless it holds escapes.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        (self.kind() == Kind::String).then(|| self.string())
    }

    fn string(self) -> Cow<'a, str> {
        let quoted = self.text();
        unescape(&quoted[1..quoted.len() - 1], self.node().escaped)
    }

    /// Whether a string needs no change to be printed with the fewest escapes.
    pub(super) fn is_plain_string(self) -> bool {
        !self.node().escaped
    }

    fn is_string(self, wanted: &str) -> bool {
        if self.node().escaped {
            return self.string() == wanted;
        }
        let quoted = self.text();
        &quoted[1..quoted.len() - 1] == wanted
    }

    /// A number's literal as written.
    pub fn number_text(self) -> Option<&'a str> {
        (self.kind() == Kind::Number).then(|| self.text())
    }

    /// An integer that fits. `1.0` and `1e3` are integers, as they are for JSON Schema and [`decode`](Self::decode).
    pub fn as_i64(self) -> Option<i64> {
        self.integer().and_then(|integer| integer.try_into().ok())
    }

    /// An integer that fits and is not negative, as [`as_i64`](Self::as_i64).
    pub fn as_u64(self) -> Option<u64> {
        self.integer().and_then(|integer| integer.try_into().ok())
    }

    fn integer(self) -> Option<i128> {
        self.number_text().and_then(number::signed)
    }

    /// The double nearest to a number. `None` for an integer beyond the range of doubles.
    pub fn as_f64(self) -> Option<f64> {
        self.number_text().and_then(number::finite)
    }

    /// A boolean.
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.text() == "true")
    }

    /// Whether this is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Reads this part into a Rust type, as [`Frozen::decode`] does the whole. `&str` fields work for strings without
    /// escapes. Paths in a refusal start at this value.
    ///
    /// # Errors
    /// [`Why::Shape`](super::Why::Shape) with the path of the value that does not fit.
    pub fn decode<T: serde::Deserialize<'a>>(self) -> Result<T, Refused> {
        decode::decode(self).map_err(|fault: Fault| fault.seal(self.text))
    }

    /// This part as a value of its own. It was scanned with the whole and is not scanned again.
    pub fn to_frozen(self) -> Frozen {
        Frozen::seal(self.text().into())
    }

    /// Without insignificant whitespace, in source order. Numbers stay as written; strings are written with the fewest
    /// escapes (quote, backslash, controls below U+0020). This is how Codex writes a tool's input to a hook.
    pub fn compact(self) -> String {
        let mut out = String::with_capacity(self.text().len());
        self.write_compact(&mut out);
        out
    }

    /// Appends [`compact`](Self::compact).
    pub fn write_compact(self, out: &mut String) {
        print::compact(self, out);
    }

    /// As `JSON.stringify(JSON.parse(text))` prints it, which is how Claude Code writes a tool's input to a hook: keys that
    /// are array indices (`0` to `4294967294`) first, ascending, at every level; numbers as doubles (`1.0` is `1`, `-0` is
    /// `0`, integers beyond 2^53 are rounded, an integer beyond the range of doubles is `null`).
    pub fn javascript(self) -> String {
        let mut out = String::with_capacity(self.text().len());
        self.write_javascript(&mut out);
        out
    }

    /// Appends [`javascript`](Self::javascript).
    pub fn write_javascript(self, out: &mut String) {
        print::javascript(self, out, print::Integers::Rounded);
    }

    /// As [`javascript`](Self::javascript), but integer literals are printed as written whatever their size, so that a hook
    /// sees the number the tool will get.
    pub fn javascript_exact(self) -> String {
        let mut out = String::with_capacity(self.text().len());
        self.write_javascript_exact(&mut out);
        out
    }

    /// Appends [`javascript_exact`](Self::javascript_exact).
    pub fn write_javascript_exact(self, out: &mut String) {
        print::javascript(self, out, print::Integers::AsWritten);
    }
}

/// At most the first 120 characters of the text.
impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({})", shorten(self.text(), 120))
    }
}

/// Items of an array, in order.
#[derive(Debug, Clone)]
pub struct Items<'a> {
    next: View<'a>,
    left: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = View<'a>;

    fn next(&mut self) -> Option<View<'a>> {
        self.left = self.left.checked_sub(1)?;
        let item = self.next;
        self.next = item.to(item.node().after);
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// Entries of an object, in source order.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    /// Keys and values in turn.
    items: Items<'a>,
}

impl<'a> Entries<'a> {
    /// The same entries with the keys as views, so that a key is unescaped only when someone reads it.
    pub(super) fn with_keys(mut self) -> impl Iterator<Item = (View<'a>, View<'a>)> {
        std::iter::from_fn(move || Some((self.items.next()?, self.items.next()?)))
    }

    pub(super) fn next_with_key(&mut self) -> Option<(View<'a>, View<'a>)> {
        Some((self.items.next()?, self.items.next()?))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Cow<'a, str>, View<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with_key().map(|(key, value)| (key.string(), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.items.left / 2, Some(self.items.left / 2))
    }
}

impl ExactSizeIterator for Entries<'_> {}
