//! The view's memory: every value of a scanned text in the order it starts, in one allocation.

use super::view::Kind;

/// One entry a value, keys of objects included: a container is followed by what it holds.
pub(super) struct Tape(pub(super) Box<[Node]>);

#[derive(Clone, Copy)]
pub(super) struct Node {
    /// Span in the text, with quotes and brackets. 32 bits hold any offset below the size limit.
    pub(super) start: u32,
    pub(super) end: u32,
    /// Index of the first node that is not inside this one.
    pub(super) after: u32,
    /// Entries of an object, items of an array.
    pub(super) len: u32,
    pub(super) kind: Kind,
    /// Whether a string holds an escape.
    pub(super) escaped: bool,
}

impl Tape {
    /// The tape of a text that passed the scan. No text makes this panic, but only for a scanned one it means anything.
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut nodes: Vec<Node> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let start = at;
            let (kind, escaped) = match byte {
                b'{' | b'[' => {
                    let kind = if *byte == b'{' { Kind::Object } else { Kind::Array };
                    count(&mut nodes, &open);
                    open.push(nodes.len());
                    nodes.push(Node { start: at as u32, end: 0, after: 0, len: 0, kind, escaped: false });
                    at += 1;
                    continue;
                }
                b'}' | b']' => {
                    at += 1;
                    let after = nodes.len() as u32;
                    if let Some(container) = open.pop().and_then(|index| nodes.get_mut(index)) {
                        container.end = at as u32;
                        container.after = after;
                        if container.kind == Kind::Object {
                            container.len /= 2;
                        }
                    }
                    continue;
                }
                b'"' => {
                    let escaped = string_end(bytes, &mut at);
                    (Kind::String, escaped)
                }
                b't' | b'f' | b'n' => {
                    at += if *byte == b'f' { 5 } else { 4 };
                    (if *byte == b'n' { Kind::Null } else { Kind::Bool }, false)
                }
                b'-' | b'0'..=b'9' => {
                    while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = bytes.get(at) {
                        at += 1;
                    }
                    (Kind::Number, false)
                }
                _ => {
                    at += 1;
                    continue;
                }
            };
            count(&mut nodes, &open);
            let after = nodes.len() as u32 + 1;
            nodes.push(Node { start: start as u32, end: at as u32, after, len: 0, kind, escaped });
        }
        Tape(nodes.into_boxed_slice())
    }
}

fn count(nodes: &mut [Node], open: &[usize]) {
    if let Some(container) = open.last().and_then(|index| nodes.get_mut(*index)) {
        container.len += 1;
    }
}

/// Moves `at` from the opening quote past the closing one and says whether there is an escape.
fn string_end(bytes: &[u8], at: &mut usize) -> bool {
    let mut escaped = false;
    *at += 1;
    while let Some(byte) = bytes.get(*at) {
        match byte {
            b'"' => {
                *at += 1;
                break;
            }
            b'\\' => {
                escaped = true;
                *at += 2;
            }
            _ => *at += 1,
        }
    }
    escaped
}
