//! Strings of a scanned text: taking escapes out and putting the fewest in.

use std::borrow::Cow;

/// The characters between the quotes of a scanned string. Lone surrogates do not get past the scan.
pub(super) fn unescape(raw: &str, escaped: bool) -> Cow<'_, str> {
    if !escaped {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        match code {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let unit = hex4(rest.as_bytes()).unwrap_or(REPLACEMENT);
                rest = &rest[4..];
                if (0xd800..0xdc00).contains(&unit) {
                    let low = hex4(&rest.as_bytes()[2..]).unwrap_or(REPLACEMENT);
                    rest = &rest[6..];
                    out.push(join(unit, low));
                } else {
                    out.push(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
            }
            other => out.push(char::from(other)),
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

const REPLACEMENT: u16 = 0xfffd;

fn join(high: u16, low: u16) -> char {
    let code = 0x1_0000 + ((u32::from(high) - 0xd800) << 10) + (u32::from(low).wrapping_sub(0xdc00) & 0x3ff);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The first four bytes as a hexadecimal number.
pub(super) fn hex4(bytes: &[u8]) -> Option<u16> {
    let mut unit = 0u16;
    for byte in bytes.get(..4)? {
        let digit = char::from(*byte).to_digit(16)?;
        unit = unit << 4 | digit as u16;
    }
    Some(unit)
}

/// Whether the escape pair at `bytes` (which begins with `\u`) is a whole character, and the length of what it takes.
pub(super) fn surrogate(bytes: &[u8]) -> Surrogate {
    let Some(unit) = bytes.get(2..).and_then(hex4) else { return Surrogate::NotHex };
    match unit {
        0xd800..0xdc00 => match bytes.get(6..) {
            Some([b'\\', b'u', rest @ ..])
                if hex4(rest).is_some_and(|low| (0xdc00..0xe000).contains(&low)) =>
            {
                Surrogate::Pair
            }
            _ => Surrogate::Lone,
        },
        0xdc00..0xe000 => Surrogate::Lone,
        _ => Surrogate::None,
    }
}

/// What a `\u` escape is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Surrogate {
    /// Four digits do not follow.
    NotHex,
    /// A character on its own, 6 bytes.
    None,
    /// Both halves of a character, 12 bytes.
    Pair,
    /// One half without the other, 6 bytes.
    Lone,
}

/// Writes a JSON string with the escapes that `JSON.stringify` and serde_json both write and no others: quote,
/// backslash and controls below U+0020.
pub(super) fn write_string(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            8 => "\\b",
            9 => "\\t",
            10 => "\\n",
            12 => "\\f",
            13 => "\\r",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        from = at + 1;
        if escape.is_empty() {
            out.push_str("\\u00");
            out.push(if byte < 0x10 { '0' } else { '1' });
            out.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// At most `chars` characters, the rest as `…`.
pub(super) fn shorten(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// Writes U+FFFD in place of every lone surrogate escape. `None` when there is none. A backslash outside a string is
/// no JSON, so the scan that follows refuses a text in which this looked at anything but strings.
pub(super) fn replace_lone(text: &str) -> Option<Replacement> {
    let bytes = text.as_bytes();
    let mut found = Replacement { text: String::new(), places: Vec::new() };
    let (mut from, mut at) = (0, 0);
    while let Some(step) = bytes[at..].iter().position(|b| *b == b'\\') {
        at += step;
        if bytes.get(at + 1) != Some(&b'u') {
            // The escaped character may be a backslash and must not start the next escape.
            at = (at + 2).min(bytes.len());
            continue;
        }
        match surrogate(&bytes[at..]) {
            Surrogate::NotHex => at += 2,
            Surrogate::None => at += 6,
            Surrogate::Pair => at += 12,
            Surrogate::Lone => {
                found.text.push_str(&text[from..at]);
                found.places.push(found.text.len());
                found.text.push(char::REPLACEMENT_CHARACTER);
                at += 6;
                from = at;
            }
        }
    }
    if found.places.is_empty() {
        return None;
    }
    found.text.push_str(&text[from..]);
    Some(found)
}

/// A text without lone surrogates.
pub(super) struct Replacement {
    pub(super) text: String,
    /// Offsets of the replacements in `text`, ascending.
    places: Vec<usize>,
}

impl Replacement {
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Where an offset in the new text was in the old one.
    pub(super) fn original(&self, offset: usize) -> usize {
        const SHORTER_BY: usize = r"\ud800".len() - char::REPLACEMENT_CHARACTER.len_utf8();
        offset + SHORTER_BY * self.places.partition_point(|place| *place < offset)
    }
}
