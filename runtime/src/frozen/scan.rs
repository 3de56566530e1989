//! The strict scan: one pass that either accepts a text as it stands or says what is wrong with it.
//!
//! It builds nothing but a list of the keys of the objects that are open, so a small call costs one short allocation.

use std::borrow::Cow;
use std::collections::HashSet;

use super::refused::{Fault, Why};
use super::text::{Surrogate, shorten, surrogate, unescape};
use super::{Kind, MAX_BYTES, MAX_DEPTH};

/// Accepts one JSON value and says what it is.
pub(super) fn scan(text: &str) -> Result<Kind, Fault> {
    if text.len() > MAX_BYTES {
        return Err(Fault::at(0, Why::Size { bytes: text.len() }));
    }
    if text.starts_with('\u{feff}') {
        return Err(Fault::syntax(0, "a byte order mark may not stand before the value"));
    }
    let mut scanner = Scanner { text, bytes: text.as_bytes(), at: 0, keys: Vec::new() };
    scanner.space();
    let kind = scanner.value(0)?;
    scanner.space();
    if scanner.at < text.len() {
        return Err(scanner.wrong("nothing may follow the value"));
    }
    Ok(kind)
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Keys of all open objects, each object's at the end of its parents'.
    keys: Vec<Key>,
}

#[derive(Clone, Copy)]
struct Key {
    start: u32,
    end: u32,
    escaped: bool,
}

/// From this many keys on an object's keys are hashed. Below it, comparing is faster than hashing.
const HASH_FROM: usize = 8;

/// With the standard library's random seed: keys come from outside and could be chosen to collide.
type Seen<'a> = Option<Box<HashSet<Cow<'a, str>>>>;

impl<'a> Scanner<'a> {
    fn wrong(&self, problem: &'static str) -> Fault {
        let problem = match self.bytes.get(self.at) {
            None => "the text ends too early",
            Some(b'/') => "comments are not JSON",
            _ => problem,
        };
        Fault::syntax(self.at, problem)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// `depth` counts the containers around this value.
    fn value(&mut self, depth: usize) -> Result<Kind, Fault> {
        match self.peek() {
            Some(b'{') => self.object(depth).map(|()| Kind::Object),
            Some(b'[') => self.array(depth).map(|()| Kind::Array),
            Some(b'"') => self.string().map(|_| Kind::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| Kind::Number),
            Some(b't') => self.word("true").map(|()| Kind::Bool),
            Some(b'f') => self.word("false").map(|()| Kind::Bool),
            Some(b'n') => self.word("null").map(|()| Kind::Null),
            _ => Err(self.wrong("a value was expected")),
        }
    }

    fn word(&mut self, word: &'static str) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(Fault::syntax(self.at, "a value was expected"));
        }
        self.at += word.len();
        Ok(())
    }

    fn open(&mut self, depth: usize) -> Result<(), Fault> {
        if depth == MAX_DEPTH {
            return Err(Fault::at(self.at, Why::Depth));
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), Fault> {
        self.open(depth)?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            if let Err(fault) = self.value(depth + 1) {
                return Err(fault.in_index(index));
            }
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                _ => return Err(self.wrong("`,` or `]` was expected")),
            }
            self.space();
            if self.peek() == Some(b']') {
                return Err(self.wrong("a comma may not stand before `]`"));
            }
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), Fault> {
        self.open(depth)?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let base = self.keys.len();
        let mut seen: Seen<'a> = None;
        loop {
            let key = self.key(base, &mut seen)?;
            if let Err(fault) = self.value(depth + 1) {
                return Err(fault.in_key(&self.name(key)));
            }
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                _ => return Err(self.wrong("`,` or `}` was expected")),
            }
            self.space();
            if self.peek() == Some(b'}') {
                return Err(self.wrong("a comma may not stand before `}`"));
            }
        }
        self.keys.truncate(base);
        Ok(())
    }

    /// A key, its colon and the space after it.
    fn key(&mut self, base: usize, seen: &mut Seen<'a>) -> Result<Key, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a key in double quotes was expected"));
        }
        let start = self.at;
        let escaped = self.string()?;
        // The size limit keeps offsets far below 2^32.
        let key = Key { start: start as u32 + 1, end: self.at as u32 - 1, escaped };
        if !self.is_new(base, seen, key) {
            let name = self.name(key);
            let why = Why::DuplicateKey { key: shorten(&name, 64).into_owned() };
            return Err(Fault::at(start, why).in_key(&name));
        }
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.wrong("`:` was expected after a key"));
        }
        self.at += 1;
        self.space();
        Ok(key)
    }

    fn is_new(&mut self, base: usize, seen: &mut Seen<'a>, key: Key) -> bool {
        if let Some(seen) = seen {
            return seen.insert(self.name(key));
        }
        let open = &self.keys[base..];
        if open.iter().any(|other| self.equal(*other, key)) {
            return false;
        }
        self.keys.push(key);
        if self.keys.len() - base == HASH_FROM {
            *seen = Some(Box::new(self.keys[base..].iter().map(|key| self.name(*key)).collect()));
        }
        true
    }

    fn raw(&self, key: Key) -> &'a str {
        &self.text[key.start as usize..key.end as usize]
    }

    fn name(&self, key: Key) -> Cow<'a, str> {
        unescape(self.raw(key), key.escaped)
    }

    fn equal(&self, one: Key, other: Key) -> bool {
        if one.escaped || other.escaped {
            self.name(one) == self.name(other)
        } else {
            self.raw(one) == self.raw(other)
        }
    }

    /// A string, and whether it holds an escape.
    fn string(&mut self) -> Result<bool, Fault> {
        let mut escaped = false;
        self.at += 1;
        loop {
            while self.bytes.get(self.at).is_some_and(|byte| PLAIN[usize::from(*byte)]) {
                self.at += 1;
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => {
                    return Err(Fault::syntax(self.at, "a control character in a string must be escaped"));
                }
                None => return Err(self.wrong("")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match surrogate(&self.bytes[self.at..]) {
                Surrogate::None => self.at += 6,
                Surrogate::Pair => self.at += 12,
                Surrogate::Lone => return Err(Fault::at(self.at, Why::LoneSurrogate)),
                Surrogate::NotHex => {
                    return Err(Fault::syntax(self.at, "`\\u` must be followed by four hexadecimal digits"));
                }
            },
            _ => return Err(Fault::syntax(self.at, "no such escape")),
        }
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<(), Fault> {
        /// Decimal digits of the largest double.
        const DOUBLE_DIGITS: usize = 309;
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.at;
        let whole = self.digits();
        if whole == 0 {
            return Err(self.wrong("a digit was expected"));
        }
        if whole > 1 && self.bytes[first] == b'0' {
            return Err(Fault::syntax(first, "a number may not begin with 0"));
        }
        let mut fraction = false;
        if self.peek() == Some(b'.') {
            fraction = true;
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.wrong("a digit was expected after the decimal point"));
            }
        }
        let mut exponent = false;
        if let Some(b'e' | b'E') = self.peek() {
            exponent = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.wrong("a digit was expected in the exponent"));
            }
        }
        if exponent || (fraction && whole >= DOUBLE_DIGITS) {
            let literal = &self.text[start..self.at];
            if !literal.parse::<f64>().is_ok_and(f64::is_finite) {
                let literal = shorten(literal, 64).into_owned();
                return Err(Fault::at(start, Why::NumberRange { literal }));
            }
        }
        Ok(())
    }
}

/// Bytes that stand for themselves in a string.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        plain[byte] = false;
        byte += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'\\' as usize] = false;
    plain
};
