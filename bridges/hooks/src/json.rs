//! Text as JavaScript's `JSON.parse` reads it, for settings files and for what a hook prints.
//!
//! The runtime's own [`Frozen`](portcullis_runtime::Frozen) refuses what is ambiguous. Hook clients do not: of equal keys
//! the last one counts, in the place of the first, and half of a surrogate pair is a character (here U+FFFD, which is what
//! it becomes when JavaScript writes it as UTF-8). Losing a deny over such a detail would be worse than reading it the
//! client's way. Every node keeps its place, so that a report can name a line.

use std::borrow::Cow;

/// Levels of objects and arrays; JavaScript has no limit of its own, a stack has.
const MAX_DEPTH: usize = 512;

/// A value with its place in the text, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node<'t> {
    pub(crate) at: usize,
    pub(crate) value: Value<'t>,
}

/// A value. Numbers keep their literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'t> {
    Null,
    Bool(bool),
    Number(&'t str),
    String(Cow<'t, str>),
    Array(Vec<Node<'t>>),
    Object(Vec<Entry<'t>>),
}

/// An entry of an object; keys are distinct.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry<'t> {
    pub(crate) key: Cow<'t, str>,
    /// The place of the key.
    pub(crate) at: usize,
    /// The place of an equal key that does not count.
    pub(crate) earlier: Option<usize>,
    pub(crate) value: Node<'t>,
}

/// Why a text is not JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) problem: Problem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("comments are not allowed in this file")]
    Comment,
    #[error("a comma before a closing bracket is not allowed in this file")]
    TrailingComma,
    #[error("the text ends in the middle of a value")]
    Ends,
    #[error("`{0}` is not expected here")]
    Unexpected(char),
    #[error("a string contains a raw line break or control character; write it as an escape")]
    Control,
    #[error("this escape does not exist in JSON")]
    Escape,
    #[error("this is no JSON number")]
    Number,
    #[error("values are nested deeper than {MAX_DEPTH} levels")]
    Depth,
}

impl<'t> Node<'t> {
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'t>> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    pub(crate) fn entries(&self) -> Option<&[Entry<'t>]> {
        match &self.value {
            Value::Object(entries) => Some(entries),
            _ => None,
        }
    }

    pub(crate) fn items(&self) -> Option<&[Node<'t>]> {
        match &self.value {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self.value {
            Value::Number(literal) => literal.parse().ok(),
            _ => None,
        }
    }

    /// What it is, for a sentence.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }

    /// Appends the value as strict JSON: no equal keys, no lone surrogates, number literals as they were.
    pub(crate) fn write(&self, out: &mut String) {
        match &self.value {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(literal) => out.push_str(literal),
            Value::String(text) => write_string(out, text),
            Value::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Value::Object(entries) => {
                out.push('{');
                for (i, entry) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_string(out, &entry.key);
                    out.push(':');
                    entry.value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Appends a string with the escapes `JSON.stringify` writes and no others.
pub(crate) fn write_string(out: &mut String, text: &str) {
    // Writing a string has no way to fail; serde_json's escapes are the same as JavaScript's.
    out.push_str(&serde_json::to_string(text).unwrap_or_else(|_| "\"\"".into()));
}

/// Without the white space that JavaScript's `trim` takes off, which includes a byte order mark.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}'))
}

/// The line of a place, from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// The lines of a text, to be asked about many places: a file with a thousand mistakes is read once.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn of(text: &str) -> Lines {
        Lines(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// The line of a place, from 1.
    pub(crate) fn at(&self, at: usize) -> usize {
        1 + self.0.partition_point(|end| *end < at)
    }
}

/// Reads one value and nothing after it.
pub(crate) fn parse(text: &str) -> Result<Node<'_>, Fault> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.value(0)?;
    reader.space();
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.unexpected()),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn fault<T>(&self, at: usize, problem: Problem) -> Result<T, Fault> {
        Err(Fault { at, problem })
    }

    fn unexpected(&self) -> Fault {
        let rest = &self.text[self.at..];
        let problem = match rest.chars().next() {
            None => Problem::Ends,
            Some('/') if rest.starts_with("//") || rest.starts_with("/*") => Problem::Comment,
            Some('#') => Problem::Comment,
            Some(c) => Problem::Unexpected(c),
        };
        Fault { at: self.at, problem }
    }

    fn value(&mut self, depth: usize) -> Result<Node<'t>, Fault> {
        self.space();
        let at = self.at;
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => {
                let rest = &self.text[at..];
                let word =
                    [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
                match word.into_iter().find(|(word, _)| rest.starts_with(word)) {
                    Some((word, value)) => {
                        self.at += word.len();
                        value
                    }
                    None => return Err(self.unexpected()),
                }
            }
        };
        Ok(Node { at, value })
    }

    /// After an item: true when another one follows.
    fn more(&mut self, close: u8) -> Result<bool, Fault> {
        self.space();
        match self.peek() {
            Some(b',') => {
                let comma = self.at;
                self.at += 1;
                self.space();
                if self.peek() == Some(close) {
                    return self.fault(comma, Problem::TrailingComma);
                }
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn open(&mut self, depth: usize, close: u8) -> Result<bool, Fault> {
        if depth == MAX_DEPTH {
            return self.fault(self.at, Problem::Depth);
        }
        self.at += 1;
        self.space();
        let empty = self.peek() == Some(close);
        self.at += usize::from(empty);
        Ok(!empty)
    }

    fn array(&mut self, depth: usize) -> Result<Value<'t>, Fault> {
        let mut items = Vec::new();
        let mut more = self.open(depth, b']')?;
        while more {
            items.push(self.value(depth + 1)?);
            more = self.more(b']')?;
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Value<'t>, Fault> {
        let mut entries = Vec::new();
        let mut more = self.open(depth, b'}')?;
        while more {
            self.space();
            let at = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected());
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            entries.push(Entry { key, at, earlier: None, value });
            more = self.more(b'}')?;
        }
        Ok(Value::Object(last_wins(entries)))
    }

    fn number(&mut self) -> Result<Value<'t>, Fault> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while let Some(b'0'..=b'9') = reader.peek() {
                reader.at += 1;
            }
            reader.at > from
        };
        self.at += usize::from(self.peek() == Some(b'-'));
        let whole = if self.peek() == Some(b'0') {
            self.at += 1;
            true
        } else {
            digits(self)
        };
        let mut sound = whole && !matches!(self.peek(), Some(b'0'..=b'9'));
        if self.peek() == Some(b'.') {
            self.at += 1;
            sound &= digits(self);
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            sound &= digits(self);
        }
        if sound { Ok(Value::Number(&self.text[start..self.at])) } else { self.fault(start, Problem::Number) }
    }

    fn string(&mut self) -> Result<Cow<'t, str>, Fault> {
        self.at += 1;
        let mut from = self.at;
        let mut changed: Option<String> = None;
        loop {
            match self.peek() {
                None => return self.fault(self.at, Problem::Ends),
                Some(b'"') => {
                    let rest = &self.text[from..self.at];
                    self.at += 1;
                    return Ok(match changed {
                        None => Cow::Borrowed(rest),
                        Some(text) => Cow::Owned(text + rest),
                    });
                }
                Some(b'\\') => {
                    let out = changed.get_or_insert_default();
                    out.push_str(&self.text[from..self.at]);
                    let character = self.escape()?;
                    changed.get_or_insert_default().push(character);
                    from = self.at;
                }
                Some(0..0x20) => return self.fault(self.at, Problem::Control),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let start = self.at;
        self.at += 2;
        Ok(match self.text.as_bytes().get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let Some(unit) = self.hex(start + 2) else { return self.fault(start, Problem::Escape) };
                self.at = start + 6;
                let pair = (0xd800..0xdc00).contains(&unit) && self.text[self.at..].starts_with("\\u");
                match self.hex(self.at + 2).filter(|low| pair && (0xdc00..0xe000).contains(low)) {
                    Some(low) => {
                        self.at += 6;
                        let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    None => char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER),
                }
            }
            Some(_) => return self.fault(start, Problem::Escape),
            None => return self.fault(start, Problem::Ends),
        })
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.as_bytes().get(at..at + 4)?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    }
}

/// Of equal keys the last value stays, where the first one stood.
fn last_wins(entries: Vec<Entry<'_>>) -> Vec<Entry<'_>> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_unstable_by(|a, b| entries[*a].key.cmp(&entries[*b].key));
    if order.windows(2).all(|two| entries[two[0]].key != entries[two[1]].key) {
        return entries;
    }
    let mut places = std::collections::HashMap::new();
    let mut kept: Vec<Entry<'_>> = Vec::new();
    for entry in entries {
        match places.get(&entry.key) {
            Some(place) => {
                let first: &mut Entry<'_> = &mut kept[*place];
                first.earlier.get_or_insert(first.at);
                first.at = entry.at;
                first.value = entry.value;
            }
            None => {
                places.insert(entry.key.clone(), kept.len());
                kept.push(entry);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests;
