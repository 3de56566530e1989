//! Why a text or a value was refused, and where.

use super::text::{shorten, write_string};
use super::{Kind, MAX_BYTES, MAX_DEPTH};

/// A refusal: what is wrong, and the place a model or a person has to look at.
///
/// ```
/// use portcullis_runtime::frozen::{Frozen, Why};
///
/// let refused = Frozen::arguments(r#"{"a":[0,{"b":1,"b":2}]}"#).unwrap_err();
/// assert_eq!(refused.path, "$.a[1].b");
/// assert_eq!(refused.at.offset, 15);
/// assert_eq!(refused.why, Why::DuplicateKey { key: "b".into() });
/// assert_eq!(refused.to_string(), "$.a[1].b (line 1, column 16): the key \"b\" appears twice in one object");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} ({at}): {why}")]
pub struct Refused {
    /// The value at fault, from the root `$`: `.key`, `["odd key"]` or `[index]` a level. Long keys and the middle of
    /// very deep paths are cut with `…`.
    pub path: String,
    /// The place in the text that was scanned. After [`Frozen::of`](super::Frozen::of) that is the text which was being
    /// written, for [`decode`](super::Frozen::decode) the start of the value that does not fit.
    pub at: Place,
    /// What is wrong.
    pub why: Why,
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// In bytes from the start of the text, from 0.
    pub offset: usize,
    /// From 1; lines end at `\n`.
    pub line: usize,
    /// In characters from the start of the line, from 1.
    pub column: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// What is wrong with a refused text or value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// The text is not JSON (RFC 8259).
    #[error("not valid JSON: {problem}")]
    Syntax {
        /// What was expected or is not allowed here.
        problem: &'static str,
    },
    /// Arguments must be one object.
    #[error("the arguments must be one JSON object, not {found}")]
    NotAnObject {
        /// What the text holds instead.
        found: Kind,
    },
    /// Two keys of one object are equal after unescaping, so readers could disagree about the value.
    #[error("the key {} appears twice in one object", quoted(key))]
    DuplicateKey {
        /// The key, unescaped, shortened when long.
        key: String,
    },
    /// A literal with a fraction or an exponent beyond the range of a double.
    #[error("the number {literal} is too large for a double; write it as an integer or make it smaller")]
    NumberRange {
        /// The literal, shortened when long.
        literal: String,
    },
    /// A `\ud800`–`\udfff` escape without its other half is no character.
    #[error("an escape is half of a surrogate pair and stands for no character")]
    LoneSurrogate,
    /// Containers are nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    Depth,
    /// The text is longer than [`MAX_BYTES`].
    #[error("{bytes} bytes long, the limit is {MAX_BYTES}")]
    Size {
        /// Length of the text.
        bytes: usize,
    },
    /// A Rust value holds NaN or an infinity, which JSON cannot say.
    #[error("a number is not finite, which JSON cannot express")]
    NotFinite,
    /// A value does not fit the type it is decoded into, or a Rust value has no JSON form.
    #[error("{message}")]
    Shape {
        /// What was found and what was expected.
        message: String,
    },
}

impl Why {
    /// A stable name to match, count or document by. It never changes meaning.
    pub fn code(&self) -> &'static str {
        match self {
            Why::Syntax { .. } => "json_syntax",
            Why::NotAnObject { .. } => "json_not_an_object",
            Why::DuplicateKey { .. } => "json_duplicate_key",
            Why::NumberRange { .. } => "json_number_range",
            Why::LoneSurrogate => "json_lone_surrogate",
            Why::Depth => "json_depth",
            Why::Size { .. } => "json_size",
            Why::NotFinite => "json_not_finite",
            Why::Shape { .. } => "json_shape",
        }
    }
}

fn quoted(key: &str) -> String {
    let mut out = String::new();
    write_string(&mut out, key);
    out
}

/// A refusal on its way up: steps are added from the inside out, so the scan pays for a path only when it fails.
#[derive(Debug)]
pub(super) struct Fault(Box<Inner>);

#[derive(Debug)]
struct Inner {
    offset: Option<usize>,
    why: Why,
    /// Innermost first.
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Key(String),
    Index(usize),
}

impl Fault {
    pub(super) fn at(offset: usize, why: Why) -> Self {
        Fault(Box::new(Inner { offset: Some(offset), why, steps: Vec::new() }))
    }

    pub(super) fn syntax(offset: usize, problem: &'static str) -> Self {
        Self::at(offset, Why::Syntax { problem })
    }

    /// A fault whose place the nearest value above it knows.
    pub(super) fn shape(message: impl Into<String>) -> Self {
        Self::nowhere(Why::Shape { message: message.into() })
    }

    pub(super) fn nowhere(why: Why) -> Self {
        Fault(Box::new(Inner { offset: None, why, steps: Vec::new() }))
    }

    pub(super) fn or_at(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    pub(super) fn in_key(mut self, key: &str) -> Self {
        self.0.steps.push(Step::Key(shorten(key, KEY_CHARS).into_owned()));
        self
    }

    pub(super) fn in_index(mut self, index: usize) -> Self {
        self.0.steps.push(Step::Index(index));
        self
    }

    pub(super) fn is_lone_surrogate(&self) -> bool {
        self.0.why == Why::LoneSurrogate
    }

    /// Moves the place, for a text that was changed before it was scanned.
    pub(super) fn moved(mut self, to: impl FnOnce(usize) -> usize) -> Self {
        self.0.offset = self.0.offset.map(to);
        self
    }

    /// The finished refusal; `text` is what the offset counts in.
    pub(super) fn seal(self, text: &str) -> Refused {
        let Inner { offset, why, steps } = *self.0;
        Refused { path: path(&steps), at: place(text, offset.unwrap_or(0)), why }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.why.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Fault::shape(shorten(&message.to_string(), MESSAGE_CHARS))
    }
}

impl serde::ser::Error for Fault {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Fault::shape(shorten(&message.to_string(), MESSAGE_CHARS))
    }
}

// A refusal is shown to a model and written to a log: it must stay a sentence even when the refused text is hostile.
const KEY_CHARS: usize = 64;
const MESSAGE_CHARS: usize = 400;
const OUTER_STEPS: usize = 24;
const INNER_STEPS: usize = 8;

fn path(steps: &[Step]) -> String {
    let mut out = String::from("$");
    let cut = steps.len() > OUTER_STEPS + INNER_STEPS;
    for (i, step) in steps.iter().rev().enumerate() {
        if cut && i == OUTER_STEPS {
            out.push('…');
        }
        if cut && (OUTER_STEPS..steps.len() - INNER_STEPS).contains(&i) {
            continue;
        }
        match step {
            Step::Index(index) => out.push_str(&format!("[{index}]")),
            Step::Key(key) if is_plain(key) => {
                out.push('.');
                out.push_str(key);
            }
            Step::Key(key) => {
                out.push('[');
                write_string(&mut out, key);
                out.push(']');
            }
        }
    }
    out
}

fn is_plain(key: &str) -> bool {
    let mut bytes = key.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn place(text: &str, offset: usize) -> Place {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = 1 + before.iter().filter(|b| **b == b'\n').count();
    let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    // Characters are counted by their first bytes, so an offset inside one cannot split the text.
    let column = 1 + before[start..].iter().filter(|b| (**b & 0xc0) != 0x80).count();
    Place { offset, line, column }
}
